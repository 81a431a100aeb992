"""DPGAN: Zhang, Ji, Wang 2018, "Differentially Private Releasing via Deep Generative Model".

A WGAN with gradient penalty whose critic takes private steps (arXiv:1801.01594). ``basic`` is its
Algorithm 1. ``advanced`` adds the three improvements of its Section 4: groups of parameters that are clipped apart (each weight, and all biases together), bounds that follow the gradients of public rows,
and a warm start on them. ``ganobfuscator`` (Xu et al. 2019) is the same with one group.

NOTE[DIFF] The section has groups by hierarchical clustering of gradient norms as well. They were measured, and are no
better (docs/explanation/papers/dp-gan.md).

NOTE[DIFF] The box draws N(0, (σC)²) for each row and averages: √m times the noise that is charged. The
authors' code adds σC/√m to a sum of sensitivity C: √m times too little. Here a step is one
Poisson-subsampled Gaussian of the multiplier that is charged, over the expected batch.
NOTE[DIFF] The authors charge one composition for each group and noise groups apart, which does not
cover groups that share a batch. Here all groups are one release, with √G times the noise.
NOTE[DIFF] Learning rates are chosen on the census table, see ``reports/gans``; the authors' code learns
pictures at 2e-4 to 3e-4.
NOTE[DIFF] Training stops when the planned steps are done; the accountant was asked before.
NOTE[DIFF] Without a public table, stand-ins are generated rows. In ``advanced`` real rows are set against them before the clip, see
:mod:`tabsynth.synthesizers.adversarial.critic`; ``basic`` pairs each with one generated row, as the box does.
NOTE[DIFF] A group's bound is half the *median* of its gradient norms on public rows, as in our DP-WGAN; the
authors' code takes their mean. Noise grows with the bound, but
Adam takes the scale back: on the census table neither is clearly better (``reports/gans``).
NOTE[DIFF] ``advanced`` starts from noisy one-way counts, holds to them and averages the generator's
weights, as our DP-WGAN does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tabsynth._typing import JsonObject
from tabsynth._validate import one_of
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.adversarial.critic import (
    CriticLearning,
    DPGANConfig,
    with_rule,
)
from tabsynth.synthesizers.adversarial.method import (
    NetworksEstimator,
    NetworksMethod,
    config_or_default,
    make_networks,
    read_parameters,
)
from tabsynth.synthesizers.method import with_settings
from tabsynth.training.clipping import Clipping

# Section 4 of the paper, with what our DP-WGAN gains for free.
ADVANCED = with_settings(DPGANConfig(), clipping__grouping="weight-bias")
VARIANTS: dict[str, DPGANConfig] = {
    # Algorithm 1 with the paper's λ, n_critic and Adam (.5, .9); rates and bound are ours, for tables.
    "basic": with_settings(
        DPGANConfig(),
        generator__averaging=0.0,
        generator__anchor=0.0,
        clipping=Clipping(max_norm=1.0, centred=False),
        warm_start_steps=0,
        start_from_counts=False,
    ),
    "advanced": ADVANCED,
    "ganobfuscator": with_settings(ADVANCED, clipping__grouping="flat"),
}
WARNING_OF_BASIC = (
    "note: variant basic serves comparisons with its paper; on a census table at epsilon = 1 its rows were worse than independent"
    " columns (tvd2 0.237 and 0.174)"
)


@dataclass(kw_only=True, eq=False, repr=False)
class DPGAN(NetworksEstimator):
    """dp-GAN (Zhang, Ji, Wang 2018, arXiv:1801.01594), for tables.

    Parameters
    ----------
    schema : Schema, dict or path
        The public facts of the table.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    variant : {"advanced", "basic", "ganobfuscator"}
        ``basic``: the paper's Algorithm 1. ``advanced``: with its groups of parameters (each weight,
        and all biases), adaptive bounds and warm start, and what our DP-WGAN gains for free.
        ``ganobfuscator`` (Xu et al. 2019): with one group.
    autoencoder : {None, "counts", "dp-sgd", "public", "no-noise", "preset"}
        As in :class:`tabsynth.DPWGAN`; ``preset`` is whichever the budget allows.
    public, public_source : optional
        A public table, as in :class:`tabsynth.DPWGAN`.
    step_rule : {None, "dp-sgd", "dp-sat", "bam"}
    network_encoding, rows, time_limit, time_budget, accept_drafted_domain, draft_options, random_state, device, verbose
        As in :class:`tabsynth.DPWGAN`.
    config, autoencoder_config : optional
        In place of the variant's.

    Formal guarantees
    -----------------
    Those of :class:`tabsynth.DPWGAN`.
    """

    method: ClassVar[str] = "dp-gan"

    variant: str = "advanced"
    autoencoder: str | None = None
    step_rule: str | None = None
    config: DPGANConfig | None = None
    time_budget: float | None = None

    def make_method(self, schema: Schema | LinkedSchema) -> NetworksMethod:
        """Make the method for a schema."""
        one_of("variant", self.variant, tuple(VARIANTS))
        config = config_or_default("config", self.config, VARIANTS[self.variant])
        config = with_rule(config, self.step_rule)
        coder = config_or_default(
            "autoencoder_config", self.autoencoder_config, AutoencoderConfig()
        )
        return make_networks(
            self,
            schema,
            CriticLearning(
                config=config,
                warnings=(WARNING_OF_BASIC,) * (self.variant == "basic"),
                least_steps=600,  # the generator leaves its start long before it comes near the table
            ),
            with_rule(coder, self.step_rule),
            network_encoding=self.network_encoding,
            starts_from_counts=config.start_from_counts,
            time_budget=self.time_budget,
            choices={"variant": self.variant},
        )

    @classmethod
    def parameters_from(cls, schema: Schema, facts: Mapping[str, Any]) -> JsonObject:
        """Return the parameters of a fit from the facts of its model file."""
        return read_parameters(facts, DPGANConfig(), ["variant"])
