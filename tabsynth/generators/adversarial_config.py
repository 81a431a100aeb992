"""What GANs have in common in their configurations."""

from dataclasses import dataclass
from typing import Any

import torch

from tabsynth._validate import between, integer, one_of, positive, widths
from tabsynth.generators.generator_config import GeneratorConfig
from tabsynth.generators.pace import PerGenerator, check_pace
from tabsynth.networks import ACTIVATIONS, mlp
from tabsynth.training.bounds import Clipping
from tabsynth.training.optimizers import OPTIMIZERS
from tabsynth.training.rules import StepRule, stated, step_rule

GENERATED = "generated rows"


@dataclass(frozen=True, kw_only=True)
class AdversarialConfig(GeneratorConfig):
    """What a GAN whose critic takes private steps is made of. All of it is public.

    Attributes
    ----------
    critic_hidden : tuple of int
    critic_activation : str
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
    critic_lr : float
    critic_optimizer : str
    others
        See :class:`tabsynth.generators.generator_config.GeneratorConfig`.
    """

    critic_hidden: tuple[int, ...] = (256, 256)
    critic_activation: str = "leaky-relu"
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
    critic_optimizer: str = "rmsprop"

    def __post_init__(self) -> None:
        super().__post_init__()
        widths("critic_hidden", self.critic_hidden)
        one_of("critic_activation", self.critic_activation, ACTIVATIONS)
        between("sampling_rate", self.sampling_rate, 0, 1, low_open=True)
        integer("critic_steps", self.critic_steps)
        check_pace("critic_per_generator", self.critic_per_generator)
        self.rule()
        self.clipping()
        if self.physical_batch is not None:
            integer("physical_batch", self.physical_batch)
        one_of("critic_optimizer", self.critic_optimizer, tuple(OPTIMIZERS))
        for name in ("max_norm", "critic_lr"):
            positive(name, getattr(self, name))

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

    def stated_steps(self, stand_ins: str = GENERATED) -> dict[str, Any]:
        """What a certificate says of the critic's private steps; ``stand_ins`` are what they go by, if anything."""
        layers = [1] * (
            len(self.critic_hidden) + 2
        )  # how wide they are makes no group more or less
        found = self.clipping().stated(mlp(layers, torch.Generator()), stand_ins)
        found |= stated(self.rule())
        return {**found, "stand_ins": stand_ins} if self.wants_public() else found

    def wants_public(self) -> bool:
        """Whether a private step goes by the gradients of stand-ins."""
        return self.centred or self.bound == "public" or self.grouping == "clusters"
