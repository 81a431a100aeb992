"""The public estimators."""

from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.gan.dpgan import DPGAN
from tabsynth.synthesizers.gan.dpwgan import DPWGAN
from tabsynth.synthesizers.loading import METHODS, load
from tabsynth.synthesizers.margnet.estimator import MargNet
from tabsynth.synthesizers.pate.estimator import PATEGAN
from tabsynth.synthesizers.pate.pateacgan import PATEACGAN

__all__ = ["DPGAN", "DPWGAN", "METHODS", "PATEACGAN", "PATEGAN", "MargNet", "Synthesizer", "load"]
