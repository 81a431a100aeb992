"""What the GANs share: the allocation of the budget, noisy counts, the autoencoder, the networks."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth._validate import one_of, shown
from tabsynth.encoding.rows import PrivateRows, Rows, codes_of, stored, weights_of
from tabsynth.encoding.table import Layout, TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.calibration import calibrate, matching_noise
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    Mechanism,
    NoPrivacy,
    SubsampledGaussian,
)
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.counts import (
    estimated_rows,
    interval,
    marginal_noise,
    noise_of_estimated_rows,
    noisy_marginals,
    noisy_row_count,
    noisy_total,
    probabilities,
)
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.schema.conforming import conformed
from tabsynth.schema.design import NO_DESIGN, Design
from tabsynth.schema.schema import Schema, refuse_no_rows
from tabsynth.synthesizers.base import Sampler, Synthesizer, Trained, check_provenance
from tabsynth.synthesizers.conditions import Condition
from tabsynth.synthesizers.fitting import PlannedSpend
from tabsynth.synthesizers.gan.adversarial import GENERATED, AdversarialConfig
from tabsynth.synthesizers.gan.autoencoder import TRAININGS, Autoencoder, AutoencoderConfig
from tabsynth.synthesizers.gan.generator import (
    MOMENTS,
    WARM_START,
    GeneratorConfig,
    GeneratorTraining,
    MomentPenalty,
    TableGenerator,
)
from tabsynth.synthesizers.gan.public import (
    check_warm_start,
    fingerprint,
    noisy_overlap,
    one_way,
    released_index,
    released_rows,
    together,
)
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import parts_of, to_pandas
from tabsynth.training.loop import TrainingMonitor
from tabsynth.training.networks import weights
from tabsynth.training.private_step import (
    STEP_RULES,
    CodedInputs,
    PrivateInputs,
    WeightedInputs,
)
from tabsynth.training.units import MOST_ROWS, UnitRows

MARGINALS, COUNT, OVERLAP = "one-way counts", "row count", "overlap with the public table"
TOTAL = "total of the survey weights"
AUTOENCODER, CRITIC = "autoencoder", "critic"
# Of the budget's μ², the unit in which Gaussian mechanisms add up.
SHARES = {MARGINALS: 0.1, COUNT: 0.005, OVERLAP: 0.005, TOTAL: 0.005}
OVERLAPS = ("charged", "declined")


@dataclass(frozen=True, kw_only=True)
class TrainingMechanism:
    """The mechanism that training uses ``count`` times; its noise takes the rest of the budget.

    Attributes
    ----------
    purpose : str
    mechanism : callable
        From the noise multiplier, the same for all training mechanisms, to the mechanism.
    count : int
    details : dict
        Further facts for the certificate.
    """

    purpose: str
    mechanism: Callable[[float], Mechanism]
    count: int
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BudgetAllocation:
    """The privacy budget allocation of a GAN's fit, in order of use.

    Attributes
    ----------
    once : tuple of str
        Counts that are released once: keys of ``SHARES``.
    autoencoder : AutoencoderConfig or None
        If it learns from private rows.
    learned : tuple of TrainingMechanism
        The mechanisms by which the generator is trained.
    design : Design
        What rows stand for.
    """

    once: tuple[str, ...]
    autoencoder: AutoencoderConfig | None
    learned: tuple[TrainingMechanism, ...]
    design: Design = NO_DESIGN

    def spends(self, epsilon: float, delta: float, earlier: Ledger) -> list[PlannedSpend]:
        """The plan; ``learned`` takes all that the others leave of (epsilon, delta).

        Raises
        ------
        BudgetError
            If they leave nothing.
        """
        mu = _left(epsilon, delta, earlier)
        spends = [
            PlannedSpend(purpose=name, mechanism=_gaussian(mu, SHARES[name]), count=1)
            for name in self.once
        ]
        if self.autoencoder is not None:
            mechanism = _autoencoder(self.autoencoder, mu, delta)
            count = self.autoencoder.steps
            spends.append(PlannedSpend(purpose=AUTOENCODER, mechanism=mechanism, count=count))
        noise = math.inf
        if math.isfinite(mu):
            fixed = [*earlier.spends(), *((s.mechanism, s.count) for s in spends)]
            noise = calibrate(
                lambda s: [*fixed, *((part.mechanism(s), part.count) for part in self.learned)],
                epsilon,
                delta,
                earlier.filter if earlier.adaptive else None,
            )
        for part in self.learned:
            mechanism = part.mechanism(noise) if math.isfinite(mu) else NoPrivacy()
            spends.append(PlannedSpend(purpose=part.purpose, mechanism=mechanism, count=part.count))
        return spends

    def details(self, purpose: str, columns: int) -> dict[str, Any]:
        """Further facts about a mechanism for the certificate."""
        design = self.design
        if purpose == MARGINALS:
            unit = "counts" if design.weight is None else "weighted counts"
            sensitivity = design.bound * math.sqrt(columns)
            return {"l2_sensitivity": sensitivity, "unit": unit, "columns": columns}
        if purpose == TOTAL:
            return {"l2_sensitivity": design.bound, "unit": "weights"}
        if purpose in SHARES:
            return {"l2_sensitivity": float(design.rows), "unit": "rows"}
        if purpose == AUTOENCODER:
            assert self.autoencoder is not None
            return self.autoencoder.stated_steps()
        return next(part.details for part in self.learned if part.purpose == purpose)


def critic(config: AdversarialConfig, stand_ins: str) -> TrainingMechanism:
    """A critic's private steps, which go by the gradients of ``stand_ins``."""
    return TrainingMechanism(
        purpose=CRITIC,
        mechanism=lambda noise: sampled(noise, config.sampling_rate),
        count=config.critic_steps,
        details=config.stated_steps(stand_ins),
    )


def _left(epsilon: float, delta: float, earlier: Ledger) -> float:
    """μ of the single Gaussian that would spend what is left, for sharing out."""
    if math.isinf(epsilon):
        return math.inf
    if earlier.adaptive:
        return max(earlier.filter.mu_left(earlier.spends()), 1e-6)
    return gaussian_mu(epsilon, delta)


def _gaussian(mu: float, share: float) -> Mechanism:
    if math.isinf(mu):
        return NoPrivacy()
    return Gaussian(noise_multiplier=1 / (mu * math.sqrt(share)))


def _autoencoder(config: AutoencoderConfig, mu: float, delta: float) -> Mechanism:
    if math.isinf(mu):
        return NoPrivacy()
    rate = config.sampling_rate
    noise = matching_noise(
        lambda s: SubsampledGaussian(noise_multiplier=s, sampling_rate=rate),
        config.steps,
        mu * math.sqrt(config.share),
        delta,
    )
    return SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)


def sampled(noise: float, rate: float) -> Mechanism:
    """The mechanism of one step at ``rate``."""
    if rate == 1.0:
        return Gaussian(noise_multiplier=noise)
    return SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)


@dataclass(frozen=True, kw_only=True)
class FirstCounts:
    """Released counts that training starts from.

    Attributes
    ----------
    rows : float
        The number of rows that divisors use.
    marginals : list of ndarray or None
        One-way distributions, where they were measured.
    population : float or None
        The total of the weights, where rows have any and it was measured.
    population_interval : tuple of float or None
        Its 95% interval.
    overlap : dict
        The noisy number of private rows that are public too, with its 95% interval, where it is charged.
    """

    rows: float
    population: float | None = None
    population_interval: tuple[float, float] | None = None
    marginals: list[np.ndarray] | None = None
    overlap: dict[str, Any] = field(default_factory=dict)


def first_counts(
    table: PrivateTable[Any],
    accounts: Mapping[str, Account],
    sizes: Sequence[int],
    declared: int | None,
    public: np.ndarray | None,
    bits: Bits,
    monitor: TrainingMonitor,
    design: Design = NO_DESIGN,
) -> FirstCounts:
    """Release every count that has an account; ``declared`` is the number of rows where it is public."""
    rows, marginals, overlap = float(declared or 0), None, {}
    population: float | None = None
    ends: tuple[float, float] | None = None
    if MARGINALS in accounts:
        account = accounts[MARGINALS]
        released = monitor.once(
            MARGINALS,
            lambda: {
                str(j): c
                for j, c in enumerate(
                    noisy_marginals(table, account, sizes, bits, design.bound, design.step)
                )
            },
        )
        counts = [released[str(j)] for j in range(len(sizes))]
        std = marginal_noise(account, len(sizes), design.bound)
        if design.weight is None:
            total = rows = rows or estimated_rows(counts)
        else:
            total = population = estimated_rows(counts)
            ends = interval(population, noise_of_estimated_rows(sizes, std))
        marginals = [probabilities(c, total, std) for c in counts]
    if TOTAL in accounts:
        account = accounts[TOTAL]
        released = monitor.once(
            TOTAL, lambda: {"total": np.array(noisy_total(table, account, bits, design.bound))}
        )
        population = float(released["total"])
        ends = interval(population, account.whole_table_noise * design.bound)
    if COUNT in accounts:
        account = accounts[COUNT]
        released = monitor.once(
            COUNT, lambda: {"rows": np.array(noisy_row_count(table, account, bits, design.rows))}
        )
        rows = float(released["rows"])
    if OVERLAP in accounts and public is not None:
        account = accounts[OVERLAP]
        released = monitor.once(
            OVERLAP,
            lambda: {"rows": np.array(noisy_overlap(table, account, public, bits, design.rows))},
        )
        noise, count = account.noise_multiplier * design.rows, float(released["rows"])
        of_count = list(interval(count, noise, rounded=True))
        overlap = {"noisy_count": count, "noise_std": noise, "interval": of_count}
    return FirstCounts(
        rows=rows,
        population=population,
        population_interval=ends,
        marginals=marginals,
        overlap=overlap,
    )


class Streams(NamedTuple):
    """Random streams: of initial weights; of sampling and pairing of private rows; of all that is public; of
    noise and batches of the autoencoder, and of what comes after it."""

    init: torch.Generator
    private: torch.Generator
    public: torch.Generator
    coder_noise: Bits
    noise: Bits


@dataclass(frozen=True, kw_only=True)
class Networks:
    """What is trained, and where.

    Attributes
    ----------
    kind : callable
        From configuration, generator, a stream and moment_penalty to what trains the generator.
    gan : GeneratorConfig
    autoencoder : AutoencoderConfig or None
    layout : Layout
    device : torch.device
    learned : tuple of str
        Purposes of the accounts that the generator learns by.
    generator : callable
        Makes the generator.
    most_rows : int
        The most rows of a unit, public.
    """

    kind: Callable[..., GeneratorTraining]
    gan: GeneratorConfig
    autoencoder: AutoencoderConfig | None
    layout: Layout
    device: torch.device
    learned: tuple[str, ...]
    generator: Callable[..., TableGenerator] = TableGenerator
    most_rows: int = 1

    def train(
        self,
        table: PrivateTable[Any],
        accounts: Mapping[str, Account],
        rows: float,
        marginals: Sequence[np.ndarray] | None,
        free: Tensor | None,
        streams: Streams,
        monitor: TrainingMonitor,
        *,
        same_rows: bool,
        most: int | None,
        total: float | None = None,
    ) -> GeneratorTraining:
        """Train all of it.

        Parameters
        ----------
        table : PrivateTable of CodedInputs, of WeightedInputs or of UnitRows
        accounts : mapping
            Of ``learned``, and of the autoencoder unless it learns from ``free``.
        rows : float
            A public or privatised estimate of n.
        marginals : sequence of ndarray, optional
            One-way distributions that are already released.
        free : Tensor, shape (m, layout.width), optional
            Codes of a table that costs nothing.
        same_rows : bool
            Whether ``free`` was released from the private rows, and not from others.
        most : int, optional
            A cap on the steps that cost nothing.
        total : float, optional
            A public or privatised estimate of the sum of the rows' parts, where rows have weights.
        """
        autoencoder = self._train_autoencoder(
            table, accounts.get(AUTOENCODER), rows, marginals, free, streams, monitor, most, total
        )
        generator = self.build(streams.init, autoencoder)
        if marginals is not None and autoencoder is None:
            generator.start_from(marginals)
        # Other rows may be distributed otherwise: only pairs of the same rows are held to.
        moment_penalty = MomentPenalty.of(
            self.layout, marginals, free if same_rows else None, self.gan
        )
        gan = self.kind(self.gan, generator, streams.init, moment_penalty).to(self.device)
        warm = free is not None and self.gan.warm_steps > 0
        if free is not None and warm:
            cap = self.gan.warm_steps if most is None else most
            if same_rows and self.gan.pair_anchor and self.gan.moment_steps:
                steps = self.gan.moment_steps if most is None else most
                gan.fit_moments(streams.public, monitor, steps)
            gan.warm_up(free, rows, streams.public, monitor, min(cap, self.gan.warm_steps))
        gan.fit(
            table,
            [accounts[purpose] for purpose in self.learned],
            rows,
            private_rng=streams.private,
            public_rng=streams.public,
            monitor=monitor,
            standins=free if warm else None,
            most=most,
            bits=streams.noise,
            total=total,
            most_rows=self.most_rows,
        )
        return gan

    def _train_autoencoder(
        self,
        table: PrivateTable[Any],
        account: Account | None,
        rows: float,
        marginals: Sequence[np.ndarray] | None,
        free: Tensor | None,
        streams: Streams,
        monitor: TrainingMonitor,
        most: int | None,
        total: float | None,
    ) -> Autoencoder | None:
        config = self.autoencoder
        if config is None:
            return None
        model = Autoencoder(config, self.layout, streams.init)
        if marginals is not None:
            model.start_from(marginals)
        model.to(self.device)
        if account is not None:
            noise, most_rows = streams.coder_noise, self.most_rows
            model.fit(table, account, rows, streams.private, monitor, noise, total, most_rows)
        elif free is not None:
            steps = config.steps if most is None else most
            model.fit_free(free, steps, streams.public, monitor)
        return model

    def build(self, rng: torch.Generator, autoencoder: Autoencoder | None) -> TableGenerator:
        """An untrained generator, ending in the autoencoder's decoder if there is one."""
        return self.generator(
            self.layout,
            latent_dim=self.gan.latent_dim,
            hidden=self.gan.generator_hidden,
            rng=rng,
            decoder=None if autoencoder is None else autoencoder.decoder,
            decoder_inputs=0 if autoencoder is None else autoencoder.config.latent_dim,
            norm=self.gan.generator_norm,
            rounded=self.gan.rounded,
        )

    def empty(self) -> TableGenerator:
        """A generator for the weights of a file."""
        rng = torch.Generator().manual_seed(0)  # weights are overwritten by those of the file
        config = self.autoencoder
        return self.build(rng, None if config is None else Autoencoder(config, self.layout, rng))

    def size(self) -> int:
        """Number of weights of the generator."""
        widths = (self.gan.latent_dim, *self.gan.generator_hidden)
        if self.autoencoder is None:
            return weights(*widths, self.layout.width)
        code = self.autoencoder.latent_dim
        decoder = weights(code, *self.autoencoder.hidden[::-1], self.layout.width)
        return weights(*widths, code) + decoder


# In a certificate: rows of ``public``, whose provenance it states, and rows drawn from ``warm_start``.
PUBLIC_TABLE, RELEASED = "rows of the public table", "rows released by the warm start"


@dataclass(kw_only=True, eq=False, repr=False)
class GAN(Synthesizer):
    """A generator and what it learns by: a critic of private steps, or a student of noisy votes.

    Subclasses name the class that trains the networks (``networks``) and that of its configuration
    (``config_class``), and say whether the generator starts from noisy one-way counts.
    """

    no_design: ClassVar[tuple[str, ...]] = ()
    choices: ClassVar[tuple[str, ...]]  # parameters that a model file keeps besides
    networks: ClassVar[type[GeneratorTraining]]
    config_class: ClassVar[type[GeneratorConfig]]

    autoencoder: str | None = None
    public: Any = None
    provenance: str | None = None
    overlap: str = "declined"
    warm_start: Synthesizer | None = None
    encoding: str | Mapping[str, str] = "one-hot"
    config: GeneratorConfig | None = None
    autoencoder_config: AutoencoderConfig | None = None

    # What subclasses provide.

    def _networks_config(self) -> GeneratorConfig:
        raise NotImplementedError

    def _coder_config(self) -> AutoencoderConfig:
        return self.autoencoder_config or AutoencoderConfig()

    def _starts_from_marginals(self) -> bool:
        return True

    def _encoding(self) -> str | Mapping[str, str]:
        return self.encoding

    # Parameters.

    def _learned(self) -> tuple[TrainingMechanism, ...]:
        """What takes what is left of the budget."""
        raise NotImplementedError

    def _gan(self) -> GeneratorConfig:
        return self._networks_config()

    def _autoencoder(self) -> AutoencoderConfig | None:
        return None if self._training() is None else self._coder_config()

    def __sklearn_clone__(self) -> Self:
        """A clone is not fitted, but its warm start is: that is a parameter, not a part to refit."""
        parameters = {
            name: value if name == "warm_start" else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**parameters)

    def _training(self) -> str | None:
        """How the autoencoder learns: ``dp-sgd``, ``public``, ``no-noise``, or None without one."""
        if self.autoencoder != "preset":
            return self.autoencoder
        if self.warm_start is not None:
            return None  # a generator that starts from released marginals does better on its own
        if self.public is not None:
            return "public"
        return "no-noise" if math.isinf(self.epsilon) else "dp-sgd"

    def _check(self) -> None:
        one_of("autoencoder", self.autoencoder, ("preset", *TRAININGS, None))
        if self._training() == "no-noise" and math.isfinite(self.epsilon):
            raise InputError(
                "autoencoder='no-noise' reads private rows without noise, which is epsilon=inf, but"
                f" epsilon={self.epsilon:g} was asked for; use 'dp-sgd' or 'public'."
            )
        if self._training() == "public" and self.public is None and self.warm_start is None:
            raise InputError("autoencoder='public' needs a public table or a warm_start: give one.")
        kinds = {"config": self.config_class, "autoencoder_config": AutoencoderConfig}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InputError(f"Expected {name} to be a {kind.__name__}, got {shown(value)}.")
        self._check_sources()
        self._check_units()
        self._public_index(
            TableEncoder(self.schema, self._encoding())
        )  # refused before any spending

    def _stepped(self) -> list[Any]:
        """The configurations of networks that are trained with private steps."""
        config = self._autoencoder()
        return [] if config is None or self._training() == "public" else [config]

    def _check_units(self) -> None:
        """Refuse what private steps cannot do with units of several rows."""
        most, stepped = self.schema.design.rows, self._stepped()
        least = min(
            (c.physical_batch for c in stepped if c.physical_batch is not None), default=most
        )
        if least < most:
            raise InputError(
                f"The rows of a unit go through a network together: physical_batch must be max_rows_per_unit={most} at least,"
                f" got {least}; raise it, or leave it out."
            )
        if stepped and most > MOST_ROWS:
            raise InputError(
                f"Private steps take max_rows_per_unit of at most {MOST_ROWS}, got {most:,}; lower it, or fit margnet."
            )

    def _check_sources(self) -> None:
        """Refuse a public table or a warm start that cannot be used, before anything is charged.

        No private row is read: that the public table is public is the declaration of whoever names its provenance.
        A comparison with the private rows that is not charged would reveal whether a record is among them.
        """
        one_of("overlap", self.overlap, OVERLAPS)
        if self.public is not None and self.warm_start is not None:
            raise InputError("Give a public table or a warm_start, not both.")
        check_provenance(self.public, self.provenance)
        if self.public is None and (self.provenance is not None or self.overlap == "charged"):
            raise InputError(
                "provenance and overlap='charged' go with a public table: give public."
            )
        if self.warm_start is not None:
            check_warm_start(self.warm_start, self.schema, self.epsilon, self.delta)

    def _public_index(self, encoder: TableEncoder) -> np.ndarray | None:
        if self.public is None:
            return None
        index = encoder.to_index(to_pandas(self.public, "public table"), "public table")
        refuse_no_rows(len(index), "public table")
        return index

    # The budget.

    def _earlier_spends(self) -> list[dict[str, Any]]:
        own = super()._earlier_spends()
        return own if self.warm_start is None else together(self.warm_start, own)

    def _seeded(self) -> bool:
        warm = self.warm_start
        return super()._seeded() or (warm is not None and warm.seeded_)

    def _once(self) -> tuple[str, ...]:
        """Counts that are released once, before training."""
        purposes = []
        if self.warm_start is None and self._starts_from_marginals():
            purposes.append(MARGINALS)
        elif self.rows is None:
            purposes.append(COUNT)
        if self.schema.weight is not None:
            purposes += self._once_of_weights(purposes)
        if self.overlap == "charged":
            purposes.append(OVERLAP)
        return tuple(purposes)

    def _once_of_weights(self, others: Sequence[str]) -> list[str]:
        """What weighted rows need besides: their number, and the total of their weights, where these are not released."""
        released = getattr(getattr(self.warm_start, "trained_", None), "population", None)
        count = [COUNT] if self.rows is None and COUNT not in others else []
        return [*count, *([TOTAL] if MARGINALS not in others and released is None else [])]

    def _spends(self, earlier: Ledger) -> list[PlannedSpend]:
        return self._allocation().spends(self.epsilon, self.delta, earlier)

    def _allocation(self) -> BudgetAllocation:
        autoencoder = None if self._training() == "public" else self._autoencoder()
        return BudgetAllocation(
            once=self._once(),
            autoencoder=autoencoder,
            learned=self._learned(),
            design=self.schema.design,
        )

    def _free_steps(self) -> dict[str, int]:
        free = {}
        config = self._autoencoder()
        if config is not None and self._training() == "public":
            free[AUTOENCODER] = config.steps
        if self.public is not None or self.warm_start is not None:
            free[WARM_START] = self._gan().warm_steps
        if self.warm_start is not None:
            free[MOMENTS] = self._gan().moment_steps
        return free

    # Training.

    def _train(
        self,
        index: PrivateRows,
        spends: list[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        monitor: TrainingMonitor,
    ) -> Trained:
        device = self._device()
        networks = self._networks(TableEncoder(self.schema, self._encoding()).layout)
        # Streams are drawn in a fixed order, so that a seed means the same run whatever is skipped.
        counts_noise, init_rng = randomness.noise(), randomness.torch()
        private, public = randomness.torch(device), randomness.torch(device)
        streams = Streams(init_rng, private, public, randomness.noise(), randomness.noise())
        # All accounts are opened before the first row is read: a plan past the budget reads nothing.
        split, sizes = self._allocation(), self.schema.learned.sizes
        accounts = {
            s.purpose: ledger.open(
                s.purpose, s.mechanism, s.count, split.details(s.purpose, len(sizes))
            )
            for s in spends
        }
        free = self._free_index(randomness.numpy(), monitor)
        rows = PrivateTable(index, ledger)
        design = self.schema.design
        counts = first_counts(rows, accounts, sizes, self.rows, free, counts_noise, monitor, design)
        marginals, population = counts.marginals, counts.population
        ends = counts.population_interval
        if design.weight is not None and population is None and self.warm_start is not None:
            earlier = self.warm_start.trained_
            population, ends = earlier.population, earlier.population_interval
        if self.warm_start is not None and free is not None:
            marginals = one_way(free, sizes)
        inputs = self._inputs(networks, index)
        gan = networks.train(
            PrivateTable(inputs, ledger),
            accounts,
            counts.rows,
            marginals,
            None if free is None else self._codes(networks, free),
            streams,
            monitor,
            same_rows=self.warm_start is not None,
            most=monitor.trial_steps,
            total=None if population is None else population / float(design.max_weight or 1),
        )
        return Trained(
            generator=gan.released.eval(),
            curves=gan.curves,
            notes=counts.overlap,
            rows=counts.rows or None,  # 0: neither declared nor counted
            population=population,
            population_interval=ends,
        )

    def _sampler(self, condition: Condition | None) -> tuple[Sampler, bool]:
        """As :meth:`Synthesizer._sampler`; rows that are to be chosen from are not rounded to pair counts."""
        return partial(self.trained_.generator.sample, rounded=condition is None), False

    def _networks(self, layout: Layout) -> Networks:
        return Networks(
            kind=self.networks,
            gan=self._gan(),
            autoencoder=self._autoencoder(),
            layout=layout,
            device=self._device(),
            learned=tuple(part.purpose for part in self._learned()),
            most_rows=self.schema.design.rows,
        )

    def _codes(self, networks: Networks, index: np.ndarray) -> Tensor:
        return torch.from_numpy(networks.layout.encode(index)).to(networks.device)

    def _rows(self, encoder: TableEncoder, table: Any) -> PrivateRows:
        """Write the category codes once, in parts, to a file that is mapped to memory."""
        whole = encoder.whole
        if isinstance(table, RowCounter):
            parts = table.rows(whole)
        elif whole.released is None:
            parts = parts_of(table)
        else:
            parts = (conformed(part, whole) for part in parts_of(table))
        return stored(map(encoder.to_records, parts), encoder.layout.sizes).bounded(
            whole.design, self._key()
        )

    def _inputs(self, networks: Networks, rows: PrivateRows) -> PrivateInputs | UnitRows:
        """Network inputs of private rows, with what each counts and the unit of each."""
        codes = CodedInputs.of(codes_of(rows), networks.layout, networks.device)
        inputs: PrivateInputs = codes
        weights = weights_of(rows)
        if weights is not None:
            inputs = WeightedInputs.of(codes, weights, float(self.schema.max_weight or 1))
        if self.schema.unit is None:
            return inputs
        # The made-up rows of a trial have no units: each row is one.
        units = rows.units if isinstance(rows, Rows) else None
        units = np.arange(len(codes), dtype=np.uint64) if units is None else units
        return UnitRows(inputs, units, self.schema.design.rows)

    def _free_index(self, rng: np.random.Generator, monitor: TrainingMonitor) -> np.ndarray | None:
        """Category codes of the public table, or of a sample of the warm start."""
        encoder = TableEncoder(self.schema, self._encoding())
        if self.warm_start is None:
            return self._public_index(encoder)
        warm, width = self.warm_start, encoder.layout.width
        rows = released_rows(width) if monitor.trial_steps is None else 1000
        # Kept, so that a fit that is resumed after a crash uses the same table.
        return monitor.once(WARM_START, lambda: {"index": released_index(warm, rows, rng)})["index"]

    # What a certificate and a model file hold.

    def _free_rows(self) -> str | None:
        """Which rows cost nothing, besides generated ones: declared public by a person, or released before."""
        if self.public is not None:
            return PUBLIC_TABLE
        return None if self.warm_start is None else RELEASED

    def _stated(self) -> dict[str, Any]:
        training = self._training()
        learned = training if training != "public" else self._free_rows()
        return {"autoencoder": learned, **self._gan().stated()}

    def _public_facts(self) -> dict[str, Any] | None:
        facts = super()._public_facts()
        return None if facts is None else {**facts, "provenance": self.provenance}

    def _facts(self, monitor: TrainingMonitor, trained: Trained) -> dict[str, Any]:
        facts = super()._facts(monitor, trained)
        public, warm = facts["public"], self.warm_start
        if public["public_table"] is not None:
            public["public_table"]["overlap"] = trained.notes or "declined: not counted"
        if warm is not None:
            public["warm_start"] = {
                "method": warm.method,
                "sha256_of_weights": fingerprint(warm),
                "settings": warm.facts_.get("settings"),
                "public": warm.facts_["public"],
            }
        return facts

    def _config(self) -> dict[str, Any]:
        autoencoder = self._autoencoder()
        return {
            **{name: getattr(self, name) for name in self.choices},
            "autoencoder": self._training(),
            "config": asdict(self._gan()),
            "autoencoder_config": None if autoencoder is None else asdict(autoencoder),
        }

    @classmethod
    def _from_config(cls, schema: Schema, config: Mapping[str, Any], **shared: Any) -> Self:
        autoencoder = config["autoencoder_config"]
        return cls(
            schema,
            **{name: config[name] for name in (*cls.choices, "autoencoder")},
            config=cls.config_class(**_tuples(config["config"])),
            autoencoder_config=(
                None if autoencoder is None else AutoencoderConfig(**_tuples(autoencoder))
            ),
            **shared,
        )

    def _size(self) -> int:
        return self._networks(self.encoder_.layout).size()

    def _empty(self) -> TableGenerator:
        return self._networks(self.encoder_.layout).empty()


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON lists back to the tuples of a frozen config."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


# Private steps after a warm start: what is left of the budget is worth no more, and fewer are quicker.
WARM_CRITIC_STEPS = 400

Configured = TypeVar("Configured", bound=AdversarialConfig | AutoencoderConfig)


@dataclass(kw_only=True, eq=False, repr=False)
class CriticalGAN(GAN):
    """A GAN whose critic is trained with private steps."""

    step_rule: str | None = None

    def _networks_config(self) -> AdversarialConfig:
        raise NotImplementedError

    def _check(self) -> None:
        one_of("step_rule", self.step_rule, (*STEP_RULES, None))
        super()._check()

    def _learned(self) -> tuple[TrainingMechanism, ...]:
        config = self._gan()
        # As of Networks.train: a free table stands in for private rows if the critic was warmed up on it.
        free = self._free_rows() if config.warm_steps else None
        return (critic(config, free or GENERATED),)

    def _stepped(self) -> list[Any]:
        return [*super()._stepped(), self._gan()]

    def _gan(self) -> AdversarialConfig:
        return self._ruled(self._networks_config())

    def _autoencoder(self) -> AutoencoderConfig | None:
        config = super()._autoencoder()
        return None if config is None else self._ruled(config)

    def _ruled(self, config: Configured) -> Configured:
        """A configuration with the step rule that was asked for, at its own radius."""
        if self.step_rule is None:
            return config
        return replace(config, step_rule=self.step_rule, radius=None)
