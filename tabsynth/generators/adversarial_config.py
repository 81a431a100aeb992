"""What GANs have in common in their configurations."""

import math
from dataclasses import dataclass

from tabsynth._validate import between, integer, one_of, positive
from tabsynth.generators.pace import PerGenerator, check_pace
from tabsynth.networks import ACTIVATIONS
from tabsynth.training.bounds import Clipping
from tabsynth.training.optimizers import OPTIMIZERS
from tabsynth.training.rules import StepRule, step_rule


@dataclass(frozen=True, kw_only=True)
class AdversarialConfig:
    """What a GAN is made of. All of it is public.

    Attributes
    ----------
    latent_dim : int
        Length of the noise z ~ N(0, I).
    generator_hidden, critic_hidden : tuple of int
    critic_activation : str
    generator_norm : bool
        BatchNorm in the generator, which sees no private row.
    sampling_rate : float
        q, the chance of a row to be in a critic batch.
    critic_steps : int
        Critic steps in all: what is charged.
    critic_per_generator : int or "adaptive"
        Critic steps per generator step; see :class:`tabsynth.generators.pace.Pace`.
    max_norm : float
        The bound of one example's gradient; in units of ``bound``.
    bound, statistic, grouping, clusters : str, str, str, int
        See :class:`tabsynth.training.bounds.Clipping`; its public rows are stand-ins.
    centred : bool
        Set real rows against stand-ins; else each is paired with one generated row.
    step_rule, radius : str, float or None
        ``dp-sgd``, ``dp-sat`` or ``bam``, with its radius (None: the rule's own).
    physical_batch : int, optional
        Rows at a time, where a whole batch does not fit in memory.
    critic_lr, generator_lr : float
    critic_optimizer, generator_optimizer : str
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
    """

    latent_dim: int = 64
    generator_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    critic_activation: str = "leaky-relu"
    generator_norm: bool = True
    sampling_rate: float = 0.05
    critic_steps: int = 3000
    critic_per_generator: PerGenerator = 2
    max_norm: float = 0.5
    bound: str = "public"
    statistic: str = "median"
    grouping: str = "flat"
    clusters: int = 3
    centred: bool = True
    step_rule: str = "dp-sgd"
    radius: float | None = None
    physical_batch: int | None = None
    critic_lr: float = 1e-3
    generator_lr: float = 5e-4
    critic_optimizer: str = "rmsprop"
    generator_optimizer: str = "rmsprop"
    betas: tuple[float, float] = (0.5, 0.9)
    temperature: float = 0.5
    averaging: float = 0.995
    anchor: float = 1.0
    warm_steps: int = 400
    pair_anchor: float = 1.0
    moment_steps: int = 800
    moment_lr: float = 1e-2

    def __post_init__(self) -> None:
        integer("latent_dim", self.latent_dim)
        for name in ("generator_hidden", "critic_hidden"):
            for width in getattr(self, name):
                integer(name, width)
        one_of("critic_activation", self.critic_activation, ACTIVATIONS)
        between("sampling_rate", self.sampling_rate, 0, 1, low_open=True)
        integer("critic_steps", self.critic_steps)
        for name in ("warm_steps", "moment_steps"):
            integer(name, getattr(self, name), least=0)
        check_pace("critic_per_generator", self.critic_per_generator)
        self.rule()
        self.clipping()
        if self.physical_batch is not None:
            integer("physical_batch", self.physical_batch)
        for name in ("critic_optimizer", "generator_optimizer"):
            one_of(name, getattr(self, name), tuple(OPTIMIZERS))
        for name in ("max_norm", "critic_lr", "generator_lr", "moment_lr", "temperature"):
            positive(name, getattr(self, name))
        for beta in self.betas:
            between("betas", beta, 0, 1, high_open=True)
        between("averaging", self.averaging, 0, 1, high_open=True)
        for name in ("anchor", "pair_anchor"):
            between(name, getattr(self, name), 0, math.inf, high_open=True)

    def rule(self) -> StepRule:
        """The step rule, as the engine takes it."""
        return step_rule(self.step_rule, self.radius)

    def clipping(self) -> Clipping:
        """How gradients are clipped, as the engine takes it."""
        return Clipping(
            max_norm=self.max_norm,
            bound=self.bound,
            grouping=self.grouping,
            clusters=self.clusters,
            statistic=self.statistic,
            centred=self.centred,
        )

    def noted(self) -> dict[str, str]:
        """What a certificate says of the clipping, besides the bound."""
        units = {
            "public": f"{self.statistic}s of the gradient norms of public rows",
            "fixed": "gradient norm",
            "quantile": "gradient norm, at first; then its noised quantile",
        }
        return {"unit": units[self.bound], "grouping": self.grouping, "step_rule": self.step_rule}

    def wants_public(self) -> bool:
        """Whether a private step goes by the gradients of stand-ins."""
        return self.centred or self.bound == "public" or self.grouping == "clusters"
