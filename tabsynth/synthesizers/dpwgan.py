"""DPWGAN: the Wasserstein GAN with clipped weights under private steps."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tabsynth._validate import one_of
from tabsynth.autoencoder import AutoencoderConfig, source_autoencoder
from tabsynth.generators.wgan import WGAN, WGANConfig, source_wgan
from tabsynth.schema import Schema
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.critical import WARM_CRITIC_STEPS, CriticalGAN

PRESETS = ("default", "source")
SOURCE_ROWS = 13_508  # training rows of the document: 70% of 19,297


class DPWGAN(CriticalGAN):
    """Wasserstein GAN whose critic is trained with DP-SGD (Xie et al. 2018), for tables.

    Parameters
    ----------
    schema : Schema
        The public facts of the table.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    preset : {"default", "source"}
        ``default``: ours. ``source``: the settings of appendix A of the Maryland census document, with a
        fixed clipping bound, one number for each column, and rows sampled independently. What differs from
        the document still is listed in :mod:`tabsynth.generators.wgan` and :mod:`tabsynth.autoencoder`.
    autoencoder : {"preset", "dp-sgd", "public", "no-noise", None}
        How the medGAN autoencoder is trained: on private rows with a share of the budget, on a table
        that costs nothing (``public`` or a sample of ``warm_start``), or without noise, for ε = ∞
        only. None: the generator writes codes directly; so does ``preset`` after a warm start.
    public : DataFrame, optional
        A public table of the same schema: for the autoencoder, a warm start and stand-ins. You declare that
        it is public; the fit does not compare it with the private rows.
    provenance : str, optional
        Where the public table comes from and why it is public; required with one, and certified.
    overlap : {"declined", "charged"}
        Whether to spend a little on a noisy number of private rows that are in the public table, for
        the certificate.
    warm_start : Synthesizer, optional
        A fitted synthesizer of the same schema and table. What it spent counts here too; its samples
        are post-processing, and serve as a public table does.
    step_rule : {None, "dp-sgd", "dp-sat", "bam"}
        How critic and autoencoder take private steps, at the same price; None: as configured, which
        is ``dp-sgd``.
    encoding : str or dict
        ``one-hot``, ``ordinal``, ``binary`` or ``base-N``, for all columns or by column; ``preset`` is
        ``one-hot`` of ``default`` and ``ordinal`` of ``source``.
    rows : int, optional
        The number of rows, where it is public. Else it is measured with noise and charged (R14).
    time_limit : float, optional
        Seconds; training stops there, with a valid model and the ε spent so far.
    accept_drafted_domain : bool
        Fit although the schema was drafted from a table; the certificate says so (R12).
    random_state : int, optional
        Makes the run reproducible and its certificate say "not private: seeded" (R17).
    device : {"auto", "cpu", "cuda"}
    verbose : bool
        A progress bar on stderr, if that is a terminal.
    wgan_config, autoencoder_config : optional
        In place of the preset's.

    Formal guarantees
    -----------------
    Everything that depends on private rows is released by mechanisms on ``ledger_``: what a warm start
    spent, one Gaussian on each of a few counts, and Poisson-subsampled Gaussians on clipped gradient
    sums. Their composition is (epsilon, delta)-DP for adding or removing one record, and the generator,
    its samples and the model file are post-processing of it.
    """

    method: ClassVar[str] = "dp-wgan"
    choices = ("preset",)
    gan, networks, gan_config = "wgan", WGAN, WGANConfig

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: float,
        delta: float = 1e-5,
        preset: str = "default",
        autoencoder: str | None = "preset",
        public: Any = None,
        provenance: str | None = None,
        overlap: str = "declined",
        warm_start: Synthesizer | None = None,
        step_rule: str | None = None,
        encoding: str | Mapping[str, str] = "preset",
        rows: int | None = None,
        time_limit: float | None = None,
        accept_drafted_domain: bool = False,
        random_state: int | None = None,
        device: str = "auto",
        verbose: bool = False,
        wgan_config: WGANConfig | None = None,
        autoencoder_config: AutoencoderConfig | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.preset = preset
        self.autoencoder = autoencoder
        self.public = public
        self.provenance = provenance
        self.overlap = overlap
        self.warm_start = warm_start
        self.step_rule = step_rule
        self.encoding = encoding
        self.rows = rows
        self.time_limit = time_limit
        self.accept_drafted_domain = accept_drafted_domain
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.wgan_config = wgan_config
        self.autoencoder_config = autoencoder_config

    def _check(self) -> None:
        one_of("preset", self.preset, PRESETS)
        super()._check()

    def _encoding(self) -> str | Mapping[str, str]:
        if self.encoding != "preset":
            return self.encoding
        return "ordinal" if self.preset == "source" else "one-hot"

    def _networks_config(self) -> WGANConfig:
        if self.wgan_config is not None:
            return self.wgan_config
        if self.preset == "source":
            return source_wgan(self.rows or SOURCE_ROWS)
        if self.warm_start is not None:
            return WGANConfig(critic_steps=WARM_CRITIC_STEPS, averaging=0.99)
        return WGANConfig()

    def _coder_config(self) -> AutoencoderConfig:
        if self.preset == "source" and self.autoencoder_config is None:
            return source_autoencoder(self.rows or SOURCE_ROWS)
        return super()._coder_config()

    def _starts_from_marginals(self) -> bool:
        return self.preset != "source"
