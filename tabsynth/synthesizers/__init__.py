"""The public estimators."""

from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.dpgan import DPGAN
from tabsynth.synthesizers.dpwgan import DPWGAN
from tabsynth.synthesizers.loading import METHODS, load
from tabsynth.synthesizers.margnet import MargNet
from tabsynth.synthesizers.pateacgan import PATEACGAN
from tabsynth.synthesizers.pategan import PATEGAN

__all__ = ["DPGAN", "DPWGAN", "METHODS", "PATEACGAN", "PATEGAN", "MargNet", "Synthesizer", "load"]
