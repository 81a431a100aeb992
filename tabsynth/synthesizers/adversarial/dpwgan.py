"""DPWGAN: Xie et al. 2018, "Differentially Private Generative Adversarial Network".

Algorithm 1 as the Maryland census document gives it (Jutras-Dubé), with its errors corrected:

NOTE[DIFF] Batches are Poisson samples, as the accountant assumes, not fixed-size draws.
NOTE[DIFF] Each example's gradient is clipped at C. The paper relies on weight clipping to bound
gradients; that bound is far above any useful C, and weight clipping never stands in for it.
NOTE[DIFF] The generator steps with its own rate α_g; the box prints α_d.
NOTE[DIFF] The default preset sets a real row against the mean of a batch of generated rows, not against
one of them (see :mod:`tabsynth.synthesizers.adversarial.adversarial`), and its bound C follows the gradient norms of
generated rows. Preset ``source`` pairs each real row with one generated row, as line 5 of the box does,
and its C is fixed.
NOTE[DIFF] The default preset starts the generator from noisy one-way counts, holds its mean code to them
(``anchor``) and samples from the average of its weights: all of it post-processing of what is already
released, and more useful than the steps that could be paid instead of the counts. Preset ``source`` does none of it.
NOTE[DIFF] In preset ``source`` codes are ranks scaled to [0, 1], and a sigmoid ends the decoder, whose loss
is a cross-entropy; a generated number is decoded to the nearest rank. The document names neither scale nor
loss, and its list of activations leaves ReLU for the decoder's last layer. A null is the last rank.
NOTE[DIFF] ε is that of all steps composed; the paper's σ_n = 2q√(n_d ln(1/δ))/ε is for one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tabsynth._validate import one_of, positive
from tabsynth.synthesizers.adversarial.adversarial import (
    NO_WARM_START,
    CriticConfig,
    CriticLoss,
    WarmStartConfig,
)
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig, source_autoencoder
from tabsynth.synthesizers.adversarial.estimator import GAN, WARM_CRITIC_STEPS, CriticMethod
from tabsynth.synthesizers.adversarial.generator import GeneratorConfig
from tabsynth.synthesizers.settings import check_parts, with_settings
from tabsynth.training.bounds import Clipping
from tabsynth.training.private_step import StepConfig


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

    @property
    def loss(self) -> CriticLoss:
        """The critic's loss of a real row, −f(x); its weights are clipped after each step."""
        return CriticLoss(weight_clip=self.weight_clip)


def source_wgan(rows: int) -> WGANConfig:
    """Return the settings of the document's appendix A: z 100, hidden 128 and 64, RMSProp 1e-5, batch 16, 25 epochs.

    The document bounds gradients by c_g of its Lemma 1 and gives no value. For this critic on codes of
    d columns, in [0, 1] and one number each, the lemma gives
    c_g = c_p √64 √((d + 1)² + d + 1) for a pair of rows: 0.92 for ten columns. C = 1 is the round number
    above it, so that the clip cuts nothing there, as the document intends. Larger tables may be cut.

    Parameters
    ----------
    rows : int
        A public number of rows; it sets the sampling rate and the number of steps.
    """
    batch = 16
    return WGANConfig(
        generator=GeneratorConfig(
            latent_dim=100,
            hidden=(128,),
            norm=False,
            lr=1e-5,
            temperature=1.0,
            averaging=0.0,
            anchor=0.0,
            pair_anchor=0.0,
            rounded=False,
        ),
        critic=CriticConfig(hidden=(64,), activation="relu", lr=1e-5, per_generator=5),
        step=StepConfig(count=max(1, 25 * rows // batch), sampling_rate=min(1.0, batch / rows)),
        clipping=Clipping(max_norm=1.0, centred=False),
        warm_start=NO_WARM_START,
        weight_clip=0.01,
    )


PRESETS = ("default", "source")
SOURCE_ROWS = 13_508  # training rows of the document: 70% of 19,297


@dataclass(frozen=True, kw_only=True, eq=False)
class DPWGANMethod(CriticMethod):
    """The method of :class:`DPWGAN`."""

    choices = ("preset",)
    config_class = WGANConfig

    preset: str = "default"
    config: WGANConfig | None = None

    def check_settings(self) -> None:
        """Refuse settings that cannot be used."""
        one_of("preset", self.preset, PRESETS)
        super().check_settings()

    def _networks_config(self) -> WGANConfig:
        if self.config is not None:
            return self.config
        if self.preset == "source":
            return source_wgan(self.rows or SOURCE_ROWS)
        if self.warm_start is not None:
            return with_settings(
                WGANConfig(), step__count=WARM_CRITIC_STEPS, generator__averaging=0.99
            )
        return WGANConfig()

    def _coder_config(self) -> AutoencoderConfig:
        if self.preset == "source" and self.autoencoder_config is None:
            return source_autoencoder(self.rows or SOURCE_ROWS)
        return super()._coder_config()

    def _starts_from_marginals(self) -> bool:
        return self.preset != "source"

    def settings(self) -> dict[str, Any]:
        """Return the public settings that a certificate states besides parameters, JSON-ready."""
        return {**super().settings(), "weight_clip": self._gan().weight_clip}


@dataclass(kw_only=True, eq=False, repr=False)
class DPWGAN(GAN):
    """Wasserstein GAN whose critic is trained with DP-SGD (Xie et al. 2018), for tables.

    Parameters
    ----------
    schema : Schema
        The public facts of the table.
    epsilon : float
        The privacy budget; ``math.inf`` for a run without privacy.
    delta : float
    preset : {"default", "source"}
        ``default``: ours. ``source``: the settings of appendix A of the Maryland census document, with a
        fixed clipping bound, one number for each column, and rows sampled independently. What differs from
        the document still is listed at the head of this module and in
        :mod:`tabsynth.synthesizers.adversarial.autoencoder`.
    autoencoder : {"preset", "dp-sgd", "public", "no-noise", None}
        How the medGAN autoencoder is trained: on private rows with a share of the budget, on a table
        that costs nothing (``public`` or a sample of ``warm_start``), or without noise, for ε = ∞
        only. None: the generator writes codes directly; so does ``preset`` after a warm start.
    public : DataFrame, optional
        A public table of the same schema: for the autoencoder, a warm start and stand-ins. You declare that
        it is public; the fit does not compare it with the private rows.
    public_source : str, optional
        Where the public table comes from and why it is public; required with one, and certified.
    overlap : {"declined", "charged"}
        Whether to charge a small share of the budget for a noisy number of private rows that are in the public
        table, for the certificate.
    warm_start : Synthesizer, optional
        A fitted synthesizer of the same schema and table. What it spent counts here too; its samples
        are post-processing, and serve as a public table does.
    step_rule : {None, "dp-sgd", "dp-sat", "bam"}
        How critic and autoencoder take private steps, at the same privacy cost; None: as configured, which
        is ``dp-sgd``.
    network_encoding : str or dict
        ``one-hot``, ``ordinal``, ``binary`` or ``base-N``, for all columns or by column; ``preset`` is
        ``one-hot`` of ``default`` and ``ordinal`` of ``source``.
    rows : int, optional
        The number of rows, if it is public. Otherwise it is measured with noise and charged.
    time_limit : float, optional
        Seconds; training stops there, with a valid model and the ε spent so far.
    accept_drafted_domain : bool
        Fit although the schema was drafted from a table; the certificate says so.
    draft_options : dict, optional
        For a fit without a schema: ``null_values``, texts that mean null, and ``decimal``, the decimal mark of texts;
        ``weight``, ``max_weight``, ``unit`` and ``max_rows_per_unit``, which the drafted schema declares.
    random_state : int, optional
        Makes the run reproducible; its certificate then says "not private: seeded".
    device : {"auto", "cpu", "cuda"}
    verbose : bool
        A progress bar on stderr, if that is a terminal.
    config, autoencoder_config : optional
        In place of the preset's.

    Formal guarantees
    -----------------
    Everything that depends on private rows is released by mechanisms on ``ledger_``: what a warm start
    spent, one Gaussian on each of a few counts, and Poisson-subsampled Gaussians on clipped gradient
    sums. Their composition is (epsilon, delta)-DP for adding or removing one record, and the generator,
    its samples and the model file are post-processing of it.
    """

    method: ClassVar[str] = "dp-wgan"
    method_class = DPWGANMethod

    preset: str = "default"
    autoencoder: str | None = "preset"
    network_encoding: str | Mapping[str, str] = "preset"
    step_rule: str | None = None
    config: WGANConfig | None = None

    def _encoding(self) -> str | Mapping[str, str]:
        if self.network_encoding != "preset":
            return self.network_encoding
        return "ordinal" if self.preset == "source" else "one-hot"
