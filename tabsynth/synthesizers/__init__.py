"""The public estimators and their configurations."""

from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.fitting import Plan
from tabsynth.synthesizers.gan.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.gan.dpgan import DPGAN, DPGANConfig
from tabsynth.synthesizers.gan.dpwgan import DPWGAN, WGANConfig
from tabsynth.synthesizers.loading import METHODS, load
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimator import MargNet
from tabsynth.synthesizers.pate.config import PATEConfig
from tabsynth.synthesizers.pate.estimator import PATEGAN
from tabsynth.synthesizers.pate.pateacgan import PATEACGAN

__all__ = [
    "DPGAN",
    "DPWGAN",
    "METHODS",
    "PATEACGAN",
    "PATEGAN",
    "AutoencoderConfig",
    "DPGANConfig",
    "MargNet",
    "MargNetConfig",
    "PATEConfig",
    "Plan",
    "Synthesizer",
    "WGANConfig",
    "load",
]
