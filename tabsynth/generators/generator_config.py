"""What all GANs have in common in their configurations: the generator."""

import math
from dataclasses import dataclass
from typing import Any

from tabsynth._validate import between, integer, one_of, positive, widths
from tabsynth.training.optimizers import OPTIMIZERS


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig:
    """What a GAN's generator is made of. All of it is public.

    Attributes
    ----------
    latent_dim : int
        Length of the noise z ~ N(0, I).
    generator_hidden : tuple of int
    generator_norm : bool
        BatchNorm in the generator, which sees no private row.
    generator_lr : float
    generator_optimizer : str
    betas : tuple of float
        Of the Adam family.
    temperature : float
        Of the Gumbel-softmax heads while training.
    averaging : float
        Decay of the average of the generator's weights; 0 takes the last weights.
    anchor : float
        Weight, in the generator's loss, of the squared distance between the mean generated code and
        the mean code that the noisy one-way counts say. It holds the columns in place while a noisy
        critic pulls at their relations, and costs nothing: the counts are already released.
    warm_steps : int
        Critic steps on a table that is public or already released, before the private ones.
    pair_anchor : float
        Weight of the χ² distance between the two-way marginals of generated rows and those of an
        already released table of the same rows, as long as there is one.
    moment_steps, moment_lr : int, float
        Generator steps towards those marginals alone, by Adam at a one-cycle rate, at the start.
    rounded : bool
        Whether a sample of one-hot codes is rounded to the pair counts expected of the generator
        (see :meth:`tabsynth.generators.mixture.Mixture.sample`). False, and wherever some codes are not
        one-hot: rows are drawn independently, each from its own z.
    """

    latent_dim: int = 64
    generator_hidden: tuple[int, ...] = (256, 256)
    generator_norm: bool = True
    generator_lr: float = 5e-4
    generator_optimizer: str = "rmsprop"
    betas: tuple[float, float] = (0.5, 0.9)
    temperature: float = 0.5
    averaging: float = 0.995
    anchor: float = 1.0
    warm_steps: int = 400
    pair_anchor: float = 1.0
    moment_steps: int = 800
    moment_lr: float = 1e-2
    rounded: bool = True

    def __post_init__(self) -> None:
        integer("latent_dim", self.latent_dim)
        widths("generator_hidden", self.generator_hidden)
        for name in ("warm_steps", "moment_steps"):
            integer(name, getattr(self, name), least=0)
        one_of("generator_optimizer", self.generator_optimizer, tuple(OPTIMIZERS))
        for name in ("generator_lr", "moment_lr", "temperature"):
            positive(name, getattr(self, name))
        for beta in self.betas:
            between("betas", beta, 0, 1, high_open=True)
        between("averaging", self.averaging, 0, 1, high_open=True)
        for name in ("anchor", "pair_anchor"):
            between(name, getattr(self, name), 0, math.inf, high_open=True)

    def stated(self) -> dict[str, Any]:
        """What a certificate says of it among the settings; JSON-ready."""
        return {}
