"""The public estimators and their configurations."""

from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.adversarial.critic import (
    CriticConfig,
    DPGANConfig,
    WGANConfig,
)
from tabsynth.synthesizers.adversarial.dpgan import DPGAN
from tabsynth.synthesizers.adversarial.dpwgan import DPWGAN
from tabsynth.synthesizers.adversarial.generator import GeneratorConfig
from tabsynth.synthesizers.estimator import METHODS, Synthesizer, load
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimator import MargNet
from tabsynth.synthesizers.method import with_settings
from tabsynth.synthesizers.pate.config import MarginalsConfig, NetworksConfig, PATEConfig
from tabsynth.synthesizers.pate.estimator import PATEACGAN, PATEGAN
from tabsynth.synthesizers.plan import Plan
from tabsynth.training.clipping import Clipping
from tabsynth.training.private_step import StepConfig

__all__ = [
    "DPGAN",
    "DPWGAN",
    "METHODS",
    "PATEACGAN",
    "PATEGAN",
    "AutoencoderConfig",
    "Clipping",
    "CriticConfig",
    "DPGANConfig",
    "GeneratorConfig",
    "MargNet",
    "MargNetConfig",
    "MarginalsConfig",
    "NetworksConfig",
    "PATEConfig",
    "Plan",
    "StepConfig",
    "Synthesizer",
    "WGANConfig",
    "load",
    "with_settings",
]
