"""The public estimators."""

from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.dpwgan import DPWGAN
from tabsynth.synthesizers.loading import METHODS, load

__all__ = ["DPWGAN", "METHODS", "Synthesizer", "load"]
