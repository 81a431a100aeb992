"""DPWGAN: Xie et al. 2018, "Differentially Private Generative Adversarial Network".

Algorithm 1 as the Maryland census document gives it (Jutras-Dubé), with its errors corrected:

NOTE[DIFF] Batches are Poisson samples, as the accountant assumes, not fixed-size draws.
NOTE[DIFF] Each example's gradient is clipped at C. The paper relies on weight clipping to bound
gradients; that bound is far above any useful C, and weight clipping never stands in for it.
NOTE[DIFF] The generator steps with its own rate α_g; the box prints α_d.
NOTE[DIFF] The default preset sets a real row against the mean of a batch of generated rows, not against
one of them (see :mod:`tabsynth.synthesizers.adversarial.critic`), and its bound C follows the gradient norms of
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
from dataclasses import dataclass
from typing import Any, ClassVar

from tabsynth._typing import JsonObject
from tabsynth._validate import name_of, one_of
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig, source_autoencoder
from tabsynth.synthesizers.adversarial.critic import (
    CriticConfig,
    CriticLearning,
    MakeCritic,
    WGANConfig,
    with_rule,
)
from tabsynth.synthesizers.adversarial.generator import GeneratorConfig
from tabsynth.synthesizers.adversarial.method import (
    NetworksEstimator,
    NetworksMethod,
    config_or_default,
    make_networks,
    read_parameters,
)
from tabsynth.training.clipping import Clipping
from tabsynth.training.private_step import StepConfig


def source_wgan(rows: int) -> WGANConfig:
    """Return the settings of the document's appendix A: z 100, hidden 128 and 64, RMSProp 1e-5, batch 16, 25 epochs.

    The document bounds gradients by c_g of its Lemma 1 and gives no value. For this critic on codes of
    d columns, in [0, 1] and one number each, the lemma gives
    c_g = c_p √64 √((d + 1)² + d + 1) for a pair of rows: 0.92 for ten columns. C = 1 is the round number
    above it, so that the clip cuts nothing there, as the document intends. Larger tables may be cut.

    Parameters
    ----------
    rows : int
        A public number of rows; it sets the sampling rate and the number of steps. It must be known before the plan: the
        noise of the steps follows from the rate, and a noisy count is released after the noise is planned.
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
            rounded=False,
        ),
        critic=CriticConfig(hidden=(64,), activation="relu", lr=1e-5, per_generator=5),
        step=StepConfig(count=max(1, 25 * rows // batch), sampling_rate=min(1.0, batch / rows)),
        clipping=Clipping(max_norm=1.0, centred=False),
        warm_start_steps=0,
        weight_clip=0.01,
    )


PRESETS = ("default", "source")
SOURCE_ROWS = 13_508  # training rows of the document: 70% of 19,297
WARNING_OF_SOURCE = (
    "note: preset source serves comparisons with its document; on a census table its rows were worse than independent columns at"
    " every epsilon (tvd2 0.702 and 0.174 at epsilon = 8)"
)
WARNING_OF_ROWS = (
    f"note: batches of preset source are of 16 rows for a table of {SOURCE_ROWS:,} alone: the plan, made before a row is"
    " counted, needs the number; declare rows="
)


@dataclass(kw_only=True, eq=False, repr=False)
class DPWGAN(NetworksEstimator):
    """Wasserstein GAN whose critic is trained with DP-SGD (Xie et al. 2018), for tables.

    Parameters
    ----------
    schema : Schema, dict or path
        The public facts of the table.
    epsilon : float
        The privacy budget; ``math.inf`` for a run without privacy.
    delta : float
    preset : {"default", "source"}
        ``default``: ours. ``source``: the settings of appendix A of the Maryland census document, with a
        fixed clipping bound, one number for each column, and rows sampled independently. What differs from
        the document still is listed at the head of this module and in
        :mod:`tabsynth.synthesizers.adversarial.autoencoder`.
    autoencoder : {"preset", "counts", "dp-sgd", "public", "no-noise", None}
        How the medGAN autoencoder is trained. ``counts``: on rows that are drawn from noisy counts of some pairs of columns,
        with a share of the budget, then by DP-SGD on private rows, with the same share again. ``dp-sgd``: the latter alone.
        ``public``: on the table ``public``. ``no-noise``: without noise, for ε = ∞ only. None: the generator writes codes
        directly. ``preset``: ``public`` with a public table, ``no-noise`` at ε = ∞, else ``counts`` of ``default`` and
        ``dp-sgd`` of ``source``.
    public : DataFrame, optional
        A public table of the same schema: for the autoencoder, a warm start and stand-ins. You declare that
        it is public; the fit does not compare it with the private rows.
    public_source : str, optional
        Where the public table comes from and why it is public; required with one, and certified.
    step_rule : {None, "dp-sgd", "dp-sat", "bam"}
        How critic and autoencoder take private steps, at the same privacy cost; None: as configured, which
        is ``dp-sgd``.
    network_encoding : str or dict
        ``one-hot``, ``ordinal``, ``binary``, ``base-N``, ``gray``, ``rank-hot``, ``sum`` or ``helmert``, for all columns
        or by column; ``preset`` is ``one-hot`` of ``default`` and ``ordinal`` of ``source``.
    rows : int, optional
        The number of rows, if it is public. Otherwise it is measured with noise and charged.
    time_limit : float, optional
        Seconds; training stops there, with a valid model and the ε spent so far. The noise was planned for all steps, so that a
        stopped fit is less useful than one of fewer steps: prefer ``time_budget``. A ConvergenceWarning says how many were taken.
    accept_drafted_domain : bool
        Fit although the schema was drafted from a table; the certificate says so.
    draft_options : dict, optional
        For a fit without a schema: ``null_values``, texts that mean null, and ``decimal``, the decimal mark of texts;
        ``relations``, by default True, whether 3% of the budget (in μ²) is for a search for relations between columns, which
        then hold in all synthetic rows; ``weight``, ``max_weight``, ``unit`` and ``max_rows_per_unit``, which the drafted
        schema declares.
    time_budget : float, optional
        Seconds that training is to take on this machine. The number of private steps, at most that of the configuration, is
        chosen before the fit, from speed that is measured on made-up rows of the schema, as many as ``rows`` declares or
        20,000. The noise is calibrated for these steps, so that the whole ε is used. The number depends on the machine: to
        repeat a seeded fit, state its steps in ``config`` and ``autoencoder_config`` instead.
    random_state : int, optional
        Makes the run reproducible; its certificate then says "not private: seeded".
    device : {"auto", "cpu", "cuda"}
    verbose : bool
        A progress bar on stderr, if that is a terminal.
    config, autoencoder_config : optional
        In place of the preset's.
    critic : callable, optional
        From the width of a row's codes to a ``torch.nn.Module`` that scores rows, shape (batch, width) to (batch,) or (batch, 1),
        in place of the layers of ``config.critic.hidden``. Its inputs are the codes of ``network_encoding``, column by column in
        the order of the schema. It sees one row at a time, and opacus forms its per-example gradients. Not with ``bam``,
        groups of bounds, or units of several rows.

    Formal guarantees
    -----------------
    Everything that depends on private rows is released by mechanisms on ``ledger_``: one Gaussian on each
    of a few counts, and Poisson-subsampled Gaussians on clipped gradient sums. Their composition is (epsilon, delta)-DP for adding or removing one record, and the generator,
    its samples and the model file are post-processing of it.
    """

    method: ClassVar[str] = "dp-wgan"

    preset: str = "default"
    network_encoding: str | Mapping[str, str] = "preset"
    step_rule: str | None = None
    config: WGANConfig | None = None
    time_budget: float | None = None
    critic: MakeCritic | None = None

    def make_method(self, schema: Schema | LinkedSchema) -> NetworksMethod:
        """Make the method for a schema."""
        one_of("preset", self.preset, PRESETS)
        source, coder = self.preset == "source", AutoencoderConfig()
        encoding = self.network_encoding
        if encoding == "preset":
            encoding = "ordinal" if source else "one-hot"
        config = WGANConfig()
        if source:
            rows = self.rows or SOURCE_ROWS
            config, coder = source_wgan(rows), source_autoencoder(rows)
        config = with_rule(config_or_default("config", self.config, config), self.step_rule)
        coder = config_or_default("autoencoder_config", self.autoencoder_config, coder)
        stated: JsonObject = {"weight_clip": config.weight_clip}
        if self.critic is not None:
            stated["critic"] = name_of(self.critic)
        warnings = (WARNING_OF_SOURCE,) * source + (WARNING_OF_ROWS,) * (source and not self.rows)
        return make_networks(
            self,
            schema,
            CriticLearning(
                config=config, stated=stated, warnings=warnings, make_critic=self.critic
            ),
            with_rule(coder, self.step_rule),
            network_encoding=encoding,
            starts_from_counts=not source,
            time_budget=self.time_budget,
            choices={"preset": self.preset},
        )

    @classmethod
    def parameters_from(cls, schema: Schema, facts: Mapping[str, Any]) -> JsonObject:
        """Return the parameters of a fit from the facts of its model file."""
        return read_parameters(facts, WGANConfig(), ["preset"])
