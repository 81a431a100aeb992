"""The configurations of DP-WGAN and dp-GAN."""

from dataclasses import dataclass, field

from tabsynth._validate import integer, one_of, positive, widths
from tabsynth.synthesizers.adversarial.generator import GENERATOR_OF_0_2, GeneratorConfig
from tabsynth.synthesizers.settings import check_parts
from tabsynth.training.clipping import Clipping
from tabsynth.training.networks import ACTIVATIONS, OPTIMIZERS
from tabsynth.training.private_step import StepConfig

# The settings of version 0.2.0 by their present names.
CRITIC_OF_0_2: dict[str, str | None] = {
    **GENERATOR_OF_0_2,
    "warm_steps": "warm_start__critic_steps",
    "moment_steps": "warm_start__pair_steps",
    "critic_hidden": "critic__hidden",
    "critic_activation": "critic__activation",
    "critic_lr": "critic__lr",
    "critic_optimizer": "critic__optimizer",
    "critic_per_generator": "critic__per_generator",
    "critic_steps": "step__count",
    "sampling_rate": "step__sampling_rate",
    "step_rule": "step__rule",
    "radius": "step__radius",
    "physical_batch": "step__physical_batch",
    "max_norm": "clipping__max_norm",
    "bound": "clipping__bound",
    "statistic": "clipping__statistic",
    "grouping": "clipping__grouping",
    "clusters": "clipping__clusters",
    "centred": "clipping__centred",
}


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """The critic of an adversarial network. All of it is public.

    Attributes
    ----------
    hidden : tuple of int
        Widths of the hidden layers.
    activation : str
    lr : float
    optimizer : str
    per_generator : int
        n_D, the critic steps per generator step.
    """

    hidden: tuple[int, ...] = (256, 256)
    activation: str = "leaky-relu"
    lr: float = 1e-3
    optimizer: str = "rmsprop"
    per_generator: int = 2

    def __post_init__(self) -> None:
        """Check the settings."""
        widths("critic.hidden", self.hidden)
        one_of("critic.activation", self.activation, ACTIVATIONS)
        positive("critic.lr", self.lr)
        one_of("critic.optimizer", self.optimizer, tuple(OPTIMIZERS))
        integer("critic.per_generator", self.per_generator)


@dataclass(frozen=True, kw_only=True)
class WarmStartConfig:
    """The training on a table that is public or already released, before the private steps.

    Attributes
    ----------
    critic_steps : int
        Critic steps on that table.
    pair_steps : int
        Generator steps before these towards the two-way marginals of a released table of the same rows, by Adam at a
        one-cycle rate.
    """

    critic_steps: int = 400
    pair_steps: int = 800

    def __post_init__(self) -> None:
        """Check the settings."""
        integer("warm_start.critic_steps", self.critic_steps, least=0)
        integer("warm_start.pair_steps", self.pair_steps, least=0)


# Private steps after a warm start: what is left of the budget is worth no more, and fewer are quicker.
WARM_CRITIC_STEPS = 400
NO_WARM_START = WarmStartConfig(critic_steps=0, pair_steps=0)


@dataclass(frozen=True, kw_only=True)
class WGANConfig:
    """The configuration of DP-WGAN. All of it is public.

    Attributes
    ----------
    generator : GeneratorConfig
    critic : CriticConfig
    step : StepConfig
        The critic's private steps.
    clipping : Clipping
        How gradients are clipped; its public rows are stand-ins, against which real rows are set if it is centred. Else
        each real row is paired with one generated row. The bound ``max_norm`` is that of one example, a row or a whole
        unit.
    warm_start : WarmStartConfig
        The training on a table that costs nothing, where there is one.
    weight_clip : float
        c_p: critic weights stay in [-c_p, c_p].
    """

    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    step: StepConfig = field(default_factory=lambda: StepConfig(count=3000))
    clipping: Clipping = field(default_factory=lambda: Clipping(max_norm=0.5, bound="public"))
    warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)
    weight_clip: float = 0.03

    def __post_init__(self) -> None:
        """Check the settings."""
        check_parts(self)
        positive("weight_clip", self.weight_clip)


@dataclass(frozen=True, kw_only=True)
class DPGANConfig:
    """The configuration of dp-GAN. All of it is public.

    Attributes
    ----------
    generator, critic, step, clipping, warm_start
        The parts, as in :class:`tabsynth.WGANConfig`.
    penalty : float
        λ of the gradient penalty.
    start_from_counts : bool
        Whether noisy one-way counts are measured, and the generator starts from them.
    """

    generator: GeneratorConfig = field(
        default_factory=lambda: GeneratorConfig(averaging=0.99, optimizer="adam")
    )
    critic: CriticConfig = field(
        default_factory=lambda: CriticConfig(lr=3e-3, optimizer="adam", per_generator=4)
    )
    step: StepConfig = field(default_factory=lambda: StepConfig(count=1500))
    clipping: Clipping = field(default_factory=lambda: Clipping(max_norm=0.5, bound="public"))
    warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)
    penalty: float = 10.0
    start_from_counts: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        check_parts(self)
        positive("penalty", self.penalty)
        one_of("start_from_counts", self.start_from_counts, (True, False))
