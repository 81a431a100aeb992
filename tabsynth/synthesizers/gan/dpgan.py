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
:mod:`tabsynth.synthesizers.gan.adversarial`; ``basic`` pairs each with one generated row, as the box does.
NOTE[DIFF] A group's bound is half the *median* of its gradient norms on public rows, as in our DP-WGAN; the
authors' code takes their mean, which is ``max_norm=1.0, statistic="mean"``. Noise grows with the bound, but
Adam takes the scale back: on the census table neither is clearly better (``reports/gans``).
NOTE[DIFF] ``advanced`` starts from noisy one-way counts, holds to them and averages the generator's
weights, as our DP-WGAN does.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from tabsynth._validate import one_of, positive
from tabsynth.synthesizers.gan.adversarial import Adversarial, AdversarialConfig, PerGenerator
from tabsynth.synthesizers.gan.estimator import WARM_CRITIC_STEPS, CriticalGAN
from tabsynth.synthesizers.gan.generator import MomentPenalty, TableGenerator


@dataclass(frozen=True, kw_only=True)
class DPGANConfig(AdversarialConfig):
    """What dp-GAN is made of. All of it is public.

    Attributes
    ----------
    penalty : float
        λ of the gradient penalty.
    start_from_counts : bool
        Measure noisy one-way counts, and start the generator from them.
    others
        See :class:`tabsynth.synthesizers.gan.adversarial.AdversarialConfig`.
    """

    critic_steps: int = 1500
    critic_per_generator: PerGenerator = 4
    critic_lr: float = 3e-3
    averaging: float = 0.99
    critic_optimizer: str = "adam"
    generator_optimizer: str = "adam"
    penalty: float = 10.0
    start_from_counts: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("penalty", self.penalty)
        one_of("start_from_counts", self.start_from_counts, (True, False))


# Section 4 of the paper, with what our DP-WGAN gains for free.
ADVANCED = DPGANConfig(grouping="weight-bias")
VARIANTS: dict[str, DPGANConfig] = {
    # Algorithm 1 with the paper's λ, n_critic and Adam (.5, .9); rates and bound are ours, for tables.
    "basic": DPGANConfig(
        max_norm=1.0,
        bound="fixed",
        centred=False,
        averaging=0.0,
        anchor=0.0,
        warm_steps=0,
        pair_anchor=0.0,
        moment_steps=0,
        start_from_counts=False,
    ),
    "advanced": ADVANCED,
    "advanced-clusters": replace(ADVANCED, grouping="clusters"),
    "ganobfuscator": replace(ADVANCED, grouping="flat"),
}


class DPGANTraining(Adversarial):
    """The critic's loss of a real row is −D(x) + λ(‖∇D(x̂)‖ − 1)², and its weights are free."""

    config: DPGANConfig

    def __init__(
        self,
        config: DPGANConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        moment_penalty: MomentPenalty | None = None,
    ) -> None:
        self.penalty = config.penalty
        super().__init__(config, generator, rng, moment_penalty)


@dataclass(kw_only=True, eq=False, repr=False)
class DPGAN(CriticalGAN):
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
        how many is ``DPGANConfig.clusters``. ``ganobfuscator`` (Xu et al. 2019): with one group.
    autoencoder : {None, "dp-sgd", "public", "no-noise", "preset"}
        As in :class:`tabsynth.DPWGAN`; ``preset`` is whichever the budget allows.
    public, provenance, overlap, warm_start : optional
        Tables that cost nothing, as in :class:`tabsynth.DPWGAN`.
    step_rule : {None, "dp-sgd", "dp-sat", "bam"}
    encoding, rows, time_limit, accept_drafted_domain, draft_options, random_state, device, verbose
        As in :class:`tabsynth.DPWGAN`.
    config, autoencoder_config : optional
        In place of the variant's.

    Formal guarantees
    -----------------
    Those of :class:`tabsynth.DPWGAN`.
    """

    method: ClassVar[str] = "dp-gan"
    choices = ("variant",)
    networks, config_class = DPGANTraining, DPGANConfig

    variant: str = "advanced"
    config: DPGANConfig | None = None

    def _check(self) -> None:
        one_of("variant", self.variant, tuple(VARIANTS))
        super()._check()

    def _networks_config(self) -> DPGANConfig:
        if self.config is not None:
            return self.config
        config = VARIANTS[self.variant]
        if self.warm_start is not None and config.warm_steps:
            return replace(config, critic_steps=WARM_CRITIC_STEPS)
        return config

    def _starts_from_marginals(self) -> bool:
        return self._networks_config().start_from_counts
