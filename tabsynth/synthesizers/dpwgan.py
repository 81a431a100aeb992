"""DPWGAN: noisy counts, then the autoencoder, then the WGAN, on one ledger."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth._validate import one_of, shown
from tabsynth.autoencoder import TRAININGS, Autoencoder, AutoencoderConfig, source_autoencoder
from tabsynth.encoding import Layout, TableEncoder
from tabsynth.errors import InputError
from tabsynth.generators.wgan import WGAN, TableGenerator, WGANConfig, source_wgan
from tabsynth.plan import PlannedSpend
from tabsynth.privacy.accounting import calibrate, gaussian_mu, matching_noise
from tabsynth.privacy.counts import (
    estimated_rows,
    marginal_noise,
    noisy_marginals,
    noisy_row_count,
    probabilities,
)
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account, Ledger
from tabsynth.privacy.mechanisms import Gaussian, Mechanism, NoPrivacy, SubsampledGaussian
from tabsynth.schema import Schema
from tabsynth.synthesizers.base import Synthesizer, Trained
from tabsynth.tables import to_pandas
from tabsynth.training.loop import Watch

PRESETS = ("default", "source")
SOURCE_ROWS = 13_508  # training rows of the document: 70% of 19,297
MARGINALS, COUNT, AUTOENCODER, CRITIC = "one-way counts", "row count", "autoencoder", "critic"
MARGINAL_SHARE, COUNT_SHARE = 0.1, 0.005


class DPWGAN(Synthesizer):
    """Wasserstein GAN whose critic is trained with DP-SGD (Xie et al. 2018), for tables.

    Parameters
    ----------
    schema : Schema
        The public facts of the table.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    preset : {"default", "source"}
        ``default``: ours. ``source``: appendix A of the Maryland census document, exactly.
    autoencoder : {"preset", "dp-sgd", "public", "no-noise", None}
        How the medGAN autoencoder is trained: on private rows with a share of the budget, on the
        table ``public``, or without noise, for ε = ∞ only. None: the generator writes codes directly.
    public : DataFrame, optional
        A public table of the same schema, for ``autoencoder="public"``.
    encoding : str or dict
        ``one-hot``, ``ordinal``, ``binary`` or ``base-N``, for all columns or by column.
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
    Everything that depends on private rows is released by mechanisms on ``ledger_``: one Gaussian on
    the one-way counts, and Poisson-subsampled Gaussians on clipped gradient sums. Their composition
    is (epsilon, delta)-DP for adding or removing one record, and the generator, its samples and the
    model file are post-processing of it.
    """

    method: ClassVar[str] = "dp-wgan"

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: float,
        delta: float = 1e-5,
        preset: str = "default",
        autoencoder: str | None = "preset",
        public: Any = None,
        encoding: str | Mapping[str, str] = "one-hot",
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
        self.encoding = encoding
        self.rows = rows
        self.time_limit = time_limit
        self.accept_drafted_domain = accept_drafted_domain
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.wgan_config = wgan_config
        self.autoencoder_config = autoencoder_config

    def _wgan(self) -> WGANConfig:
        if self.wgan_config is not None:
            return self.wgan_config
        if self.preset == "source":
            return source_wgan(self.rows or SOURCE_ROWS)
        return WGANConfig()

    def _autoencoder(self) -> AutoencoderConfig | None:
        if self.autoencoder is None:
            return None
        config = self.autoencoder_config
        if config is None:
            source = self.preset == "source"
            config = source_autoencoder(self.rows or SOURCE_ROWS) if source else AutoencoderConfig()
        return config

    def _training(self) -> str | None:
        """How the autoencoder learns: ``dp-sgd``, ``public``, ``no-noise``, or None without one."""
        if self.autoencoder != "preset":
            return self.autoencoder
        return "no-noise" if math.isinf(self.epsilon) else "dp-sgd"

    def _starts_from_marginals(self) -> bool:
        return self.preset != "source"

    def _check(self) -> None:
        one_of("preset", self.preset, PRESETS)
        one_of("autoencoder", self.autoencoder, ("preset", *TRAININGS, None))
        if self._training() == "no-noise" and math.isfinite(self.epsilon):
            raise InputError(
                "autoencoder='no-noise' reads private rows without noise, which is epsilon=inf, but"
                f" epsilon={self.epsilon:g} was asked for; use 'dp-sgd' or 'public'."
            )
        if (self._training() == "public") != (self.public is not None):
            raise InputError("autoencoder='public' and a public table go together: give both.")
        for name, kind in (("wgan_config", WGANConfig), ("autoencoder_config", AutoencoderConfig)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InputError(f"Expected {name} to be a {kind.__name__}, got {shown(value)}.")
        self._public_index(TableEncoder(self.schema, self.encoding))  # refused before any spending

    def _spends(self, earlier: Ledger) -> list[PlannedSpend]:
        wgan, autoencoder = self._wgan(), self._autoencoder()
        private = math.isfinite(self.epsilon)
        mu = gaussian_mu(self.epsilon, self.delta) if private else math.inf
        spends: list[PlannedSpend] = []

        def gaussian(share: float) -> Mechanism:
            if not private:
                return NoPrivacy()
            return Gaussian(noise_multiplier=1 / (mu * math.sqrt(share)))

        if self._starts_from_marginals():
            spend = PlannedSpend(purpose=MARGINALS, mechanism=gaussian(MARGINAL_SHARE), count=1)
            spends.append(spend)
        elif self.rows is None:
            spends.append(PlannedSpend(purpose=COUNT, mechanism=gaussian(COUNT_SHARE), count=1))
        if autoencoder is not None and self._training() != "public":
            mechanism: Mechanism = NoPrivacy()
            if private:
                rate = autoencoder.sampling_rate
                noise = matching_noise(
                    lambda s: SubsampledGaussian(noise_multiplier=s, sampling_rate=rate),
                    autoencoder.steps,
                    mu * math.sqrt(autoencoder.share),
                    self.delta,
                )
                mechanism = SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)
            spends.append(
                PlannedSpend(purpose=AUTOENCODER, mechanism=mechanism, count=autoencoder.steps)
            )
        mechanism = NoPrivacy()
        if private:
            fixed = [*earlier.spends(), *((s.mechanism, s.count) for s in spends)]
            noise = calibrate(
                lambda s: [*fixed, (_sampled(s, wgan.sampling_rate), wgan.critic_steps)],
                self.epsilon,
                self.delta,
            )
            mechanism = _sampled(noise, wgan.sampling_rate)
        spends.append(PlannedSpend(purpose=CRITIC, mechanism=mechanism, count=wgan.critic_steps))
        return spends

    def _train(
        self,
        index: np.ndarray,
        spends: list[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        watch: Watch,
        most: int | None = None,
    ) -> Trained:
        device = self._device()
        layout = TableEncoder(self.schema, self.encoding).layout
        # Streams are drawn in a fixed order, so that a seed means the same run whatever is skipped.
        counts_rng, init_rng = randomness.numpy(), randomness.torch()
        private_rng, public_rng = randomness.torch(device), randomness.torch(device)
        # All accounts are opened before the first row is read: a plan past the budget reads nothing.
        accounts = {
            s.purpose: ledger.open(s.purpose, s.mechanism, s.count, self._details(s.purpose))
            for s in spends
        }
        rows, marginals = self._first_counts(PrivateTable(index, ledger), accounts, counts_rng)
        codes = torch.from_numpy(layout.encode(index)).to(device)
        table = PrivateTable(codes, ledger)
        autoencoder = self._fit_autoencoder(
            table,
            accounts,
            layout,
            rows,
            marginals,
            (init_rng, private_rng, public_rng),
            watch,
            most,
        )
        generator = self._build(layout, init_rng, autoencoder)
        if marginals is not None and autoencoder is None:
            generator.start_from(marginals)
        wgan = WGAN(self._wgan(), generator.to(device), init_rng, marginals)
        wgan.critic.to(device)
        wgan.fit(
            table,
            accounts[CRITIC],
            rows,
            private_rng=private_rng,
            public_rng=public_rng,
            watch=watch,
        )
        return Trained(generator=wgan.average.eval(), curves=wgan.curves)

    def _details(self, purpose: str) -> dict[str, Any]:
        """What else a reader of the certificate wants to know of a mechanism."""
        if purpose == MARGINALS:
            d = len(self.schema.columns)
            return {"l2_sensitivity": math.sqrt(d), "unit": "counts", "columns": d}
        if purpose == COUNT:
            return {"l2_sensitivity": 1.0, "unit": "rows"}
        config = self._wgan() if purpose == CRITIC else self._autoencoder()
        assert config is not None
        unit = "medians of the gradient norms of generated rows"
        return {
            "l2_sensitivity": config.max_norm,
            "unit": unit if purpose == CRITIC else "gradient norm",
        }

    def _first_counts(
        self,
        table: PrivateTable[np.ndarray],
        accounts: Mapping[str, Account],
        rng: np.random.Generator,
    ) -> tuple[float, list[np.ndarray] | None]:
        """The number of rows that divisors use, and one-way distributions where they are measured."""
        if MARGINALS in accounts:
            account = accounts[MARGINALS]
            sizes = self.schema.sizes
            counts = noisy_marginals(table, account, sizes, rng)
            rows = float(self.rows or estimated_rows(counts))
            std = marginal_noise(account, len(sizes))
            return rows, [probabilities(c, rows, std) for c in counts]
        if self.rows is not None:
            return float(self.rows), None
        return noisy_row_count(table, accounts[COUNT], rng), None

    def _fit_autoencoder(
        self,
        table: PrivateTable[Tensor],
        accounts: Mapping[str, Account],
        layout: Layout,
        rows: float,
        marginals: list[np.ndarray] | None,
        rngs: tuple[torch.Generator, torch.Generator, torch.Generator],
        watch: Watch,
        most: int | None,
    ) -> Autoencoder | None:
        config = self._autoencoder()
        if config is None:
            return None
        init_rng, private_rng, public_rng = rngs
        model = Autoencoder(config, layout, init_rng)
        if marginals is not None:
            model.start_from(marginals)
        model.to(self._device())
        if self._training() != "public":
            model.fit(table, accounts[AUTOENCODER], rows, private_rng, watch)
            return model
        # A public table needs no budget: its ledger has no limit, and is thrown away.
        free = Ledger(math.inf, self.delta)
        account = free.open(AUTOENCODER, NoPrivacy(), config.steps if most is None else most)
        index = self._public_index(TableEncoder(self.schema, self.encoding))
        assert index is not None
        codes = torch.from_numpy(layout.encode(index)).to(self._device())
        model.fit(PrivateTable(codes, free), account, float(len(index)), public_rng, watch)
        return model

    def _build(
        self, layout: Layout, rng: torch.Generator, autoencoder: Autoencoder | None
    ) -> TableGenerator:
        """An untrained generator, ending in the autoencoder's decoder if there is one."""
        wgan = self._wgan()
        return TableGenerator(
            layout,
            wgan.latent_dim,
            wgan.generator_hidden,
            rng,
            decoder=None if autoencoder is None else autoencoder.decoder,
            decoder_inputs=0 if autoencoder is None else autoencoder.config.latent_dim,
            norm=wgan.generator_norm,
        )

    def _free_steps(self) -> dict[str, int]:
        config = self._autoencoder()
        free = config is not None and self._training() == "public"
        return {AUTOENCODER: config.steps} if config is not None and free else {}

    def _public_index(self, encoder: TableEncoder) -> np.ndarray | None:
        if self.public is None:
            return None
        return encoder.to_index(to_pandas(self.public, "public table"), "public table")

    def _config(self) -> dict[str, Any]:
        autoencoder = self._autoencoder()
        return {
            "preset": self.preset,
            "autoencoder": self._training(),
            "wgan": asdict(self._wgan()),
            "autoencoder_config": None if autoencoder is None else asdict(autoencoder),
        }

    @classmethod
    def _from_config(cls, schema: Schema, config: Mapping[str, Any], **shared: Any) -> "DPWGAN":
        autoencoder = config["autoencoder_config"]
        return cls(
            schema,
            preset=config["preset"],
            autoencoder=config["autoencoder"],
            wgan_config=WGANConfig(**_tuples(config["wgan"])),
            autoencoder_config=(
                None if autoencoder is None else AutoencoderConfig(**_tuples(autoencoder))
            ),
            **shared,
        )

    def _size(self) -> int:
        wgan, autoencoder = self._wgan(), self._autoencoder()
        width = self.encoder_.layout.width
        if autoencoder is None:
            return _weights(wgan.latent_dim, *wgan.generator_hidden, width)
        code = autoencoder.latent_dim
        body = _weights(wgan.latent_dim, *wgan.generator_hidden, code)
        return body + _weights(code, *autoencoder.hidden[::-1], width)

    def _empty(self) -> TableGenerator:
        layout = self.encoder_.layout
        rng = torch.Generator().manual_seed(0)  # weights are overwritten by those of the file
        config = self._autoencoder()
        autoencoder = None if config is None else Autoencoder(config, layout, rng)
        return self._build(layout, rng, autoencoder)


def _weights(*widths: int) -> int:
    """Number of weights of an MLP, biases left out."""
    return sum(a * b for a, b in pairwise(widths))


def _sampled(noise: float, rate: float) -> Mechanism:
    if rate == 1.0:
        return Gaussian(noise_multiplier=noise)
    return SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON lists back to the tuples of a frozen config."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
