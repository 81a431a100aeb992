"""DPGAN: the Wasserstein GAN with gradient penalty under private steps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from tabsynth._validate import one_of
from tabsynth.autoencoder import AutoencoderConfig
from tabsynth.generators.dpgan import DPGAN as Networks
from tabsynth.generators.dpgan import VARIANTS, DPGANConfig
from tabsynth.schema import Schema
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.critical import WARM_CRITIC_STEPS, CriticalGAN


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
    encoding, rows, time_limit, accept_drafted_domain, random_state, device, verbose
        As in :class:`tabsynth.DPWGAN`.
    dpgan_config, autoencoder_config : optional
        In place of the variant's.

    Formal guarantees
    -----------------
    Those of :class:`tabsynth.DPWGAN`.
    """

    method: ClassVar[str] = "dp-gan"
    choices = ("variant",)
    gan, networks, gan_config = "dpgan", Networks, DPGANConfig

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: float,
        delta: float = 1e-5,
        variant: str = "advanced",
        autoencoder: str | None = None,
        public: Any = None,
        provenance: str | None = None,
        overlap: str = "declined",
        warm_start: Synthesizer | None = None,
        step_rule: str | None = None,
        encoding: str | Mapping[str, str] = "one-hot",
        rows: int | None = None,
        time_limit: float | None = None,
        accept_drafted_domain: bool = False,
        random_state: int | None = None,
        device: str = "auto",
        verbose: bool = False,
        dpgan_config: DPGANConfig | None = None,
        autoencoder_config: AutoencoderConfig | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.variant = variant
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
        self.dpgan_config = dpgan_config
        self.autoencoder_config = autoencoder_config

    def _check(self) -> None:
        one_of("variant", self.variant, tuple(VARIANTS))
        super()._check()

    def _networks_config(self) -> DPGANConfig:
        if self.dpgan_config is not None:
            return self.dpgan_config
        config = VARIANTS[self.variant]
        if self.warm_start is not None and config.warm_steps:
            return replace(config, critic_steps=WARM_CRITIC_STEPS)
        return config

    def _starts_from_marginals(self) -> bool:
        return self._networks_config().start_from_counts
