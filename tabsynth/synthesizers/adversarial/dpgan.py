"""DPGAN: Zhang, Ji, Wang 2018, "Differentially Private Releasing via Deep Generative Model".

A WGAN with gradient penalty whose critic takes private steps (arXiv:1801.01594). ``basic`` is its
Algorithm 1. ``advanced`` and ``advanced-clusters`` add the three improvements of its Section 4: groups of
parameters that are clipped apart, bounds that follow the gradients of public rows, a warm start on them.
The section groups parameters in two ways: each weight apart and all biases together (``advanced``), or
by hierarchical clustering of their gradient norms (``advanced-clusters``). ``ganobfuscator`` (Xu et al.
2019) is the same with one group.

NOTE[DIFF] The box draws N(0, (σC)²) for each row and averages: √m times the noise that is charged. The
authors' code adds σC/√m to a sum of sensitivity C: √m times too little. Here a step is one
Poisson-subsampled Gaussian of the multiplier that is charged, over the expected batch.
NOTE[DIFF] The authors charge one composition for each group and noise groups apart, which does not
cover groups that share a batch. Here all groups are one release, with √G times the noise.
NOTE[DIFF] Learning rates are chosen on the census table, see ``reports/gans``; the authors' code learns
pictures at 2e-4 to 3e-4.
NOTE[DIFF] Training stops when the planned steps are done; the accountant was asked before.
NOTE[DIFF] Without a public table, stand-ins are generated rows or those of a table that was released
before. In ``advanced`` real rows are set against them before the clip, see
:mod:`tabsynth.synthesizers.adversarial.adversarial`; ``basic`` pairs each with one generated row, as the box does.
NOTE[DIFF] A group's bound is half the *median* of its gradient norms on public rows, as in our DP-WGAN; the
authors' code takes their mean, which is ``max_norm=1.0, statistic="mean"``. Noise grows with the bound, but
Adam takes the scale back: on the census table neither is clearly better (``reports/gans``).
NOTE[DIFF] ``advanced`` starts from noisy one-way counts, holds to them and averages the generator's
weights, as our DP-WGAN does.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from tabsynth._validate import one_of, positive
from tabsynth.synthesizers.adversarial.adversarial import (
    NO_WARM_START,
    CriticConfig,
    CriticLoss,
    WarmStartConfig,
)
from tabsynth.synthesizers.adversarial.estimator import GAN, WARM_CRITIC_STEPS, CriticMethod
from tabsynth.synthesizers.adversarial.generator import GeneratorConfig
from tabsynth.synthesizers.settings import check_parts, with_settings
from tabsynth.training.bounds import Clipping
from tabsynth.training.private_step import StepConfig


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

    @property
    def loss(self) -> CriticLoss:
        """The critic's loss of a real row, −D(x) + λ(‖∇D(x̂)‖ − 1)²; its weights are free."""
        return CriticLoss(penalty=self.penalty)


# Section 4 of the paper, with what our DP-WGAN gains for free.
ADVANCED = with_settings(DPGANConfig(), clipping__grouping="weight-bias")
VARIANTS: dict[str, DPGANConfig] = {
    # Algorithm 1 with the paper's λ, n_critic and Adam (.5, .9); rates and bound are ours, for tables.
    "basic": with_settings(
        DPGANConfig(),
        generator__averaging=0.0,
        generator__anchor=0.0,
        generator__pair_anchor=0.0,
        clipping=Clipping(max_norm=1.0, centred=False),
        warm_start=NO_WARM_START,
        start_from_counts=False,
    ),
    "advanced": ADVANCED,
    "advanced-clusters": with_settings(ADVANCED, clipping__grouping="clusters"),
    "ganobfuscator": with_settings(ADVANCED, clipping__grouping="flat"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class DPGANMethod(CriticMethod):
    """The method of :class:`DPGAN`."""

    choices = ("variant",)
    config_class = DPGANConfig

    variant: str = "advanced"
    config: DPGANConfig | None = None

    def check_settings(self) -> None:
        """Refuse settings that cannot be used."""
        one_of("variant", self.variant, tuple(VARIANTS))
        super().check_settings()

    def _networks_config(self) -> DPGANConfig:
        if self.config is not None:
            return self.config
        config = VARIANTS[self.variant]
        if self.warm_start is not None and config.warm_start.critic_steps:
            return with_settings(config, step__count=WARM_CRITIC_STEPS)
        return config

    def _starts_from_marginals(self) -> bool:
        return self._networks_config().start_from_counts


@dataclass(kw_only=True, eq=False, repr=False)
class DPGAN(GAN):
    """dp-GAN (Zhang, Ji, Wang 2018, arXiv:1801.01594), for tables.

    Parameters
    ----------
    schema : Schema
        The public facts of the table.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    variant : {"advanced", "advanced-clusters", "basic", "ganobfuscator"}
        ``basic``: the paper's Algorithm 1. ``advanced``: with its groups of parameters (each weight,
        and all biases), adaptive bounds and warm start, and what our DP-WGAN gains for free.
        ``advanced-clusters``: with its other groups, by hierarchical clustering of gradient norms;
        how many is ``clipping.clusters`` of the configuration. ``ganobfuscator`` (Xu et al. 2019): with one group.
    autoencoder : {None, "dp-sgd", "public", "no-noise", "preset"}
        As in :class:`tabsynth.DPWGAN`; ``preset`` is whichever the budget allows.
    public, public_source, overlap, warm_start : optional
        Tables that cost nothing, as in :class:`tabsynth.DPWGAN`.
    step_rule : {None, "dp-sgd", "dp-sat", "bam"}
    network_encoding, rows, time_limit, accept_drafted_domain, draft_options, random_state, device, verbose
        As in :class:`tabsynth.DPWGAN`.
    config, autoencoder_config : optional
        In place of the variant's.

    Formal guarantees
    -----------------
    Those of :class:`tabsynth.DPWGAN`.
    """

    method: ClassVar[str] = "dp-gan"
    method_class = DPGANMethod

    variant: str = "advanced"
    step_rule: str | None = None
    config: DPGANConfig | None = None
