"""What the GANs share: the allocation of the budget, noisy counts, the autoencoder, the networks."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth._validate import one_of, shown
from tabsynth.encoding.rows import PrivateRows, Rows, codes_of, store_records, weights_of
from tabsynth.encoding.table import Layout, TableEncoder
from tabsynth.errors import InputError
from tabsynth.methods import AUTOENCODER, COUNT, CRITIC, ONE_WAY, OVERLAP, TOTAL
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
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.adversarial.adversarial import (
    CRITIC_OF_0_2,
    GENERATED,
    Adversarial,
    AdversarialConfig,
    stated_steps,
)
from tabsynth.synthesizers.adversarial.autoencoder import (
    AUTOENCODER_OF_0_2,
    TRAININGS,
    Autoencoder,
    AutoencoderConfig,
)
from tabsynth.synthesizers.adversarial.generator import (
    MOMENTS,
    WARM_START,
    GeneratorConfig,
    GeneratorTraining,
    MomentPenalty,
    Streams,
    TableGenerator,
    TrainingContext,
)
from tabsynth.synthesizers.adversarial.public import (
    check_warm_start,
    fingerprint,
    noisy_overlap,
    one_way,
    released_index,
    released_rows,
    together,
)
from tabsynth.synthesizers.conditions import Condition
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.method import (
    PlannedSpend,
    TableMethod,
    check_public_source,
    check_table_schema,
    public_codes,
)
from tabsynth.synthesizers.model import FittedModel, Population, Sampler, Trained
from tabsynth.synthesizers.settings import read_settings, with_settings
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import parts_of
from tabsynth.training.loop import TrainingMonitor
from tabsynth.training.networks import weights
from tabsynth.training.private_step import (
    STEP_RULES,
    CodedInputs,
    PrivateInputs,
    StepConfig,
    WeightedInputs,
)
from tabsynth.training.units import MOST_ROWS, UnitRows

# Of the budget's μ², the unit in which Gaussian mechanisms add up.
SHARES = {ONE_WAY: 0.1, COUNT: 0.005, OVERLAP: 0.005, TOTAL: 0.005}
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
        """Return the plan; ``learned`` takes all that the others leave of (epsilon, delta).

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
            count = self.autoencoder.step.count
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
        """Return further facts about a mechanism for the certificate."""
        design = self.design
        if purpose == ONE_WAY:
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
    """Return a critic's private steps, which go by the gradients of ``stand_ins``."""
    return TrainingMechanism(
        purpose=CRITIC,
        mechanism=lambda noise: sampled(noise, config.step.sampling_rate),
        count=config.step.count,
        details=stated_steps(config, stand_ins),
    )


def _left(epsilon: float, delta: float, earlier: Ledger) -> float:
    """Return μ of the single Gaussian that would spend what is left, for sharing out."""
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
    rate = config.step.sampling_rate
    noise = matching_noise(
        lambda s: SubsampledGaussian(noise_multiplier=s, sampling_rate=rate),
        config.step.count,
        mu * math.sqrt(config.share),
        delta,
    )
    return SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)


def sampled(noise: float, rate: float) -> Mechanism:
    """Return the mechanism of one step at ``rate``."""
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
    population : Population or None
        The total of the weights, where rows have any and it was measured.
    overlap : dict
        The noisy number of private rows that are public too, with its 95% interval, where it is charged.
    """

    rows: float
    population: Population | None = None
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
    population: Population | None = None
    if ONE_WAY in accounts:
        account = accounts[ONE_WAY]
        released = monitor.once(
            ONE_WAY,
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
            total = estimated_rows(counts)
            ends = interval(total, noise_of_estimated_rows(sizes, std))
            population = Population(total=total, interval=ends)
        marginals = [probabilities(c, total, std) for c in counts]
    if TOTAL in accounts:
        account = accounts[TOTAL]
        released = monitor.once(
            TOTAL, lambda: {"total": np.array(noisy_total(table, account, bits, design.bound))}
        )
        total = float(released["total"])
        ends = interval(total, account.whole_table_noise * design.bound)
        population = Population(total=total, interval=ends)
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
        marginals=marginals,
        overlap=overlap,
    )


@dataclass(frozen=True, kw_only=True)
class Networks:
    """The networks of a fit, and the device that they are on.

    Attributes
    ----------
    trainer : callable
        From a generator, a stream for first weights and a moment penalty to what trains the generator.
    generator : GeneratorConfig
    autoencoder : AutoencoderConfig or None
    layout : Layout
    device : torch.device
    generator_class : callable
        As :class:`tabsynth.synthesizers.adversarial.generator.TableGenerator`.
    """

    trainer: Callable[[TableGenerator, torch.Generator, MomentPenalty], GeneratorTraining]
    generator: GeneratorConfig
    autoencoder: AutoencoderConfig | None
    layout: Layout
    device: torch.device
    generator_class: Callable[..., TableGenerator] = TableGenerator

    def train(self, context: TrainingContext) -> GeneratorTraining:
        """Train the autoencoder, if there is one, and the generator; return what trained the generator."""
        streams, marginals = context.streams, context.marginals
        autoencoder = self._train_autoencoder(context)
        generator = self.build(streams.init, autoencoder)
        if marginals is not None and autoencoder is None:
            generator.start_from(marginals)
        # Other rows may be distributed otherwise: only pairs of the same rows are held to.
        released = context.public_codes if context.same_rows else None
        moment_penalty = MomentPenalty.of(self.layout, marginals, released, self.generator)
        training = self.trainer(generator, streams.init, moment_penalty).to(self.device)
        if context.public_codes is not None:
            training.warm_up(context)
        training.fit(context)
        return training

    def _train_autoencoder(self, context: TrainingContext) -> Autoencoder | None:
        """Train the autoencoder on private rows if it has an account, else on public codes."""
        if self.autoencoder is None:
            return None
        streams, account = context.streams, context.accounts.get(AUTOENCODER)
        model = Autoencoder(self.autoencoder, self.layout, streams.init)
        if context.marginals is not None:
            model.start_from(context.marginals)
        model.to(self.device)
        if account is not None:
            model.fit(context, account, streams.private, streams.coder_noise)
        elif context.public_codes is not None:
            model.fit_public(context, context.public_codes)
        return model

    def build(self, rng: torch.Generator, autoencoder: Autoencoder | None) -> TableGenerator:
        """Return an untrained generator, ending in the autoencoder's decoder if there is one."""
        return self.generator_class(
            self.layout,
            self.generator,
            rng,
            decoder=None if autoencoder is None else autoencoder.decoder,
            decoder_inputs=0 if autoencoder is None else autoencoder.config.latent_dim,
        )

    def empty(self) -> TableGenerator:
        """Return a generator for the weights of a file."""
        rng = torch.Generator().manual_seed(0)  # weights are overwritten by those of the file
        config = self.autoencoder
        return self.build(rng, None if config is None else Autoencoder(config, self.layout, rng))

    def size(self) -> int:
        """Return the number of weights of the generator."""
        widths = (self.generator.latent_dim, *self.generator.hidden)
        if self.autoencoder is None:
            return weights(*widths, self.layout.width)
        code = self.autoencoder.latent_dim
        decoder = weights(code, *self.autoencoder.hidden[::-1], self.layout.width)
        return weights(*widths, code) + decoder


# In a certificate: rows of ``public``, whose provenance it states, and rows drawn from ``warm_start``.
PUBLIC_TABLE, RELEASED = "rows of the public table", "rows released by the warm start"


@dataclass(frozen=True, kw_only=True)
class NetworksModel(FittedModel[TableEncoder]):
    """A fitted generator network."""

    def sampler(self, condition: Condition | None) -> tuple[Sampler, bool]:
        """Return a sampler of codes; rows that are to be chosen from are not rounded to pair counts."""
        return partial(self.generator.sample, rounded=condition is None), False


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworksMethod(TableMethod):
    """A generator and what it learns by: a critic of private steps, or a student of noisy votes.

    Subclasses say what trains the networks (``_trainer``), name the class of the configuration (``config_class``), and
    say whether the generator starts from noisy one-way counts.
    """

    model_class: ClassVar[type[FittedModel[Any]]] = NetworksModel
    no_design: ClassVar[tuple[str, ...]] = ()
    choices: ClassVar[tuple[str, ...]]  # parameters that a model file keeps besides
    config_class: ClassVar[Any]
    config_of_0_2: ClassVar[Mapping[str, str | None]]  # names of settings there, and now

    autoencoder: str | None = None
    public: Any = None
    public_source: str | None = None
    overlap: str = "declined"
    config: Any = None
    autoencoder_config: AutoencoderConfig | None = None

    # What subclasses provide.

    def _networks_config(self) -> Any:
        raise NotImplementedError

    def _trainer(
        self,
    ) -> Callable[[TableGenerator, torch.Generator, MomentPenalty], GeneratorTraining]:
        """Return what trains a generator, as :class:`Networks` takes it."""
        raise NotImplementedError

    def _coder_config(self) -> AutoencoderConfig:
        return self.autoencoder_config or AutoencoderConfig()

    def _starts_from_marginals(self) -> bool:
        return True

    # Parameters.

    def _learned(self) -> tuple[TrainingMechanism, ...]:
        """Return the mechanisms that take what is left of the budget."""
        raise NotImplementedError

    def _gan(self) -> Any:
        return self._networks_config()

    def _autoencoder(self) -> AutoencoderConfig | None:
        return None if self._training() is None else self._coder_config()

    def _training(self) -> str | None:
        """Return the training of the autoencoder: ``dp-sgd``, ``public``, ``no-noise``, or None without one."""
        if self.autoencoder != "preset":
            return self.autoencoder
        if self.warm_start is not None:
            return None  # a generator that starts from released marginals does better on its own
        if self.public is not None:
            return "public"
        return "no-noise" if math.isinf(self.epsilon) else "dp-sgd"

    def check_settings(self) -> None:
        """Refuse settings that cannot be used."""
        one_of("autoencoder", self.autoencoder, ("preset", *TRAININGS, None))
        if self._training() == "no-noise" and math.isfinite(self.epsilon):
            raise InputError(
                "autoencoder='no-noise' reads private rows without noise, which is epsilon=inf, but"
                f" epsilon={self.epsilon:g} was asked for; use 'dp-sgd' or 'public'."
            )
        if self._training() == "public" and self.public is None and self.warm_start is None:
            raise InputError("autoencoder='public' needs a public table or a warm_start: give one.")
        self._check_sources()
        self._check_units()
        _ = self.public_index  # refused before any spending

    def _stepped(self) -> list[StepConfig]:
        """Return the private steps of the networks that are trained with any."""
        config = self._autoencoder()
        return [] if config is None or self._training() == "public" else [config.step]

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

        No private row is read: that the public table is public is the declaration of whoever names its source.
        A comparison with the private rows that is not charged would reveal whether a record is among them.
        """
        one_of("overlap", self.overlap, OVERLAPS)
        if self.public is not None and self.warm_start is not None:
            raise InputError("Give a public table or a warm_start, not both.")
        check_public_source(self.public, self.public_source)
        if self.public is None and (self.public_source is not None or self.overlap == "charged"):
            raise InputError(
                "public_source and overlap='charged' go with a public table: give public."
            )
        if self.warm_start is not None:
            check_warm_start(self.warm_start, self.schema, self.epsilon, self.delta)

    @cached_property
    def public_index(self) -> np.ndarray | None:
        """Category codes of the public table."""
        return public_codes(self.encoder, self.public)

    # The budget.

    def with_sources(self, spends: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return earlier spends with those of the warm start."""
        return spends if self.warm_start is None else together(self.warm_start, spends)

    def _once(self) -> tuple[str, ...]:
        """Return counts that are released once, before training."""
        purposes = []
        if self.warm_start is None and self._starts_from_marginals():
            purposes.append(ONE_WAY)
        elif self.rows is None:
            purposes.append(COUNT)
        if self.schema.weight is not None:
            purposes += self._once_of_weights(purposes)
        if self.overlap == "charged":
            purposes.append(OVERLAP)
        return tuple(purposes)

    def _once_of_weights(self, others: Sequence[str]) -> list[str]:
        """Return the releases that weighted rows need besides: their number, and the total of their weights, where these are not released."""
        warm = self.warm_start
        released = None if warm is None else warm.model_.population
        count = [COUNT] if self.rows is None and COUNT not in others else []
        return [*count, *([TOTAL] if ONE_WAY not in others and released is None else [])]

    def plan(self, earlier: Ledger) -> list[PlannedSpend]:
        """Return the mechanisms of a fit, after what a ledger has charged."""
        return self._allocation().spends(self.epsilon, self.delta, earlier)

    def _allocation(self) -> BudgetAllocation:
        autoencoder = None if self._training() == "public" else self._autoencoder()
        return BudgetAllocation(
            once=self._once(),
            autoencoder=autoencoder,
            learned=self._learned(),
            design=self.schema.design,
        )

    def free_steps(self) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row."""
        free = {}
        config = self._autoencoder()
        if config is not None and self._training() == "public":
            free[AUTOENCODER] = config.step.count
        return free

    # Training.

    def train(
        self,
        rows: PrivateRows,
        spends: Sequence[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        monitor: TrainingMonitor,
    ) -> Trained:
        """Release the first counts, and train the networks."""
        device, networks = self.device, self._networks()
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
        design, table = self.schema.design, PrivateTable(rows, ledger)
        counts = first_counts(
            table, accounts, sizes, self.rows, free, counts_noise, monitor, design
        )
        marginals, population = counts.marginals, counts.population
        if design.weight is not None and population is None and self.warm_start is not None:
            population = self.warm_start.model_.population
        if self.warm_start is not None and free is not None:
            marginals = one_way(free, sizes)
        gan = networks.train(
            TrainingContext(
                table=PrivateTable(self._inputs(networks, rows), ledger),
                accounts=accounts,
                rows=counts.rows,
                streams=streams,
                monitor=monitor,
                total=None
                if population is None
                else population.total / float(design.max_weight or 1),
                max_rows_per_unit=design.rows,
                marginals=marginals,
                public_codes=None if free is None else self._codes(networks, free),
                same_rows=self.warm_start is not None,
            )
        )
        return Trained(
            generator=gan.released.eval(),
            curves=gan.curves,
            notes=counts.overlap,
            rows=counts.rows or None,  # 0: neither declared nor counted
            population=population,
        )

    def _networks(self) -> Networks:
        return Networks(
            trainer=self._trainer(),
            generator=self._gan().generator,
            autoencoder=self._autoencoder(),
            layout=self.encoder.layout,
            device=self.device,
        )

    def _codes(self, networks: Networks, index: np.ndarray) -> Tensor:
        return torch.from_numpy(networks.layout.encode(index)).to(networks.device)

    def encode_rows(self, table: Any, key: bytes) -> PrivateRows:
        """Write the category codes once, in parts, to a file that is mapped to memory."""
        schema, encoder = self.schema, self.encoder
        if isinstance(table, RowCounter):
            parts = table.rows(schema)
        elif schema.released is None:
            parts = parts_of(table)
        else:
            parts = (conformed(part, schema) for part in parts_of(table))
        records = store_records(map(encoder.to_records, parts), encoder.layout.sizes, schema.design)
        return records.bounded(schema.design, key)

    def _inputs(self, networks: Networks, rows: PrivateRows) -> PrivateInputs | UnitRows:
        """Return the network inputs of private rows, with what each counts and the unit of each."""
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
        """Return category codes of the public table, or of a sample of the warm start."""
        if self.warm_start is None:
            return self.public_index
        warm, width = self.warm_start, self.encoder.layout.width
        rows = released_rows(width) if monitor.trial_steps is None else 1000
        # Kept, so that a fit that is resumed after a crash uses the same table.
        return monitor.once(WARM_START, lambda: {"index": released_index(warm, rows, rng)})["index"]

    # What a certificate and a model file hold.

    def _free_rows(self) -> str | None:
        """Return which rows cost nothing, besides generated ones: declared public by a person, or released before."""
        if self.public is not None:
            return PUBLIC_TABLE
        return None if self.warm_start is None else RELEASED

    def settings(self) -> dict[str, Any]:
        """Return the public settings that a certificate states besides parameters, JSON-ready."""
        training = self._training()
        learned = training if training != "public" else self._free_rows()
        return {"autoencoder": learned}

    def public_table_facts(self) -> dict[str, Any] | None:
        """Return what a certificate says of the public table."""
        facts = super().public_table_facts()
        return None if facts is None else {**facts, "provenance": self.public_source}

    def public_facts(self, trained: Trained) -> dict[str, Any]:
        """Return the public facts that a certificate states, JSON-ready."""
        public, warm = super().public_facts(trained), self.warm_start
        if public["public_table"] is not None:
            public["public_table"]["overlap"] = trained.notes or "declined: not counted"
        if warm is not None:
            public["warm_start"] = {
                "method": warm.method,
                "sha256_of_weights": fingerprint(warm),
                "settings": warm.model_.facts.get("settings"),
                "public": warm.model_.facts["public"],
            }
        return public

    def configuration(self) -> dict[str, Any]:
        """Return what rebuilds an untrained generator, JSON-ready."""
        autoencoder = self._autoencoder()
        return {
            **{name: getattr(self, name) for name in self.choices},
            "autoencoder": self._training(),
            "config": asdict(self._gan()),
            "autoencoder_config": None if autoencoder is None else asdict(autoencoder),
        }

    def size(self) -> int:
        """Return the number of weights of the generator."""
        return self._networks().size()

    def make_empty(self) -> TableGenerator:
        """Make an untrained generator, for the weights of a file."""
        return self._networks().empty()


@dataclass(kw_only=True, eq=False, repr=False)
class GAN(Synthesizer):
    """The parameters of a method with a generator network."""

    method_class: ClassVar[type[NetworksMethod]]

    autoencoder: str | None = None
    public: Any = None
    public_source: str | None = None
    overlap: str = "declined"
    warm_start: Synthesizer | None = None
    network_encoding: str | Mapping[str, str] = "one-hot"
    config: Any = None
    autoencoder_config: AutoencoderConfig | None = None

    def __sklearn_clone__(self) -> Self:
        """Return a clone that is not fitted; its warm start is, for that is a parameter and not a part to refit."""
        parameters = {
            name: value if name == "warm_start" else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**parameters)

    def make_method(self, schema: Schema | LinkedSchema) -> NetworksMethod:
        """Make the method for a schema."""
        kinds = {"config": self.method_class.config_class, "autoencoder_config": AutoencoderConfig}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InputError(f"Expected {name} to be a {kind.__name__}, got {shown(value)}.")
        names = {field.name for field in fields(self.method_class)}
        parameters = {n: v for n, v in self.get_params(deep=False).items() if n in names}
        encoding = self._encoding()
        shared = {**self.shared_settings(), "schema": check_table_schema(schema)}
        return self.method_class(**{**parameters, "network_encoding": encoding, **shared})

    def _encoding(self) -> str | Mapping[str, str]:
        return self.network_encoding

    @classmethod
    def parameters_from(cls, schema: Schema, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a fit from the facts of its model file."""
        config, method = facts["config"], cls.method_class
        autoencoder = config["autoencoder_config"]
        if autoencoder is not None:
            autoencoder = read_settings(AutoencoderConfig(), autoencoder, AUTOENCODER_OF_0_2)
        return {
            **{name: config[name] for name in (*method.choices, "autoencoder")},
            "network_encoding": facts["encoding"],
            "config": read_settings(method.config_class(), config["config"], method.config_of_0_2),
            "autoencoder_config": autoencoder,
        }


# Private steps after a warm start: what is left of the budget is worth no more, and fewer are quicker.
WARM_CRITIC_STEPS = 400

Configured = TypeVar("Configured")


@dataclass(frozen=True, kw_only=True, eq=False)
class CriticMethod(NetworksMethod):
    """A method whose critic is trained with private steps."""

    config_of_0_2 = CRITIC_OF_0_2

    step_rule: str | None = None

    def _trainer(
        self,
    ) -> Callable[[TableGenerator, torch.Generator, MomentPenalty], GeneratorTraining]:
        return partial(Adversarial, self._gan())

    def check_settings(self) -> None:
        """Refuse settings that cannot be used."""
        one_of("step_rule", self.step_rule, (*STEP_RULES, None))
        super().check_settings()

    def _learned(self) -> tuple[TrainingMechanism, ...]:
        config = self._gan()
        # As of Networks.train: a free table stands in for private rows if the critic was warmed up on it.
        free = self._free_rows() if config.warm_start.critic_steps else None
        return (critic(config, free or GENERATED),)

    def _stepped(self) -> list[StepConfig]:
        return [*super()._stepped(), self._gan().step]

    def free_steps(self) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row."""
        free, config = super().free_steps(), self._gan().warm_start
        if self.public is not None or self.warm_start is not None:
            free[WARM_START] = config.critic_steps
        if self.warm_start is not None:
            free[MOMENTS] = config.pair_steps
        return free

    def _gan(self) -> Any:
        return self._ruled(self._networks_config())

    def _autoencoder(self) -> AutoencoderConfig | None:
        config = super()._autoencoder()
        return None if config is None else self._ruled(config)

    def _ruled(self, config: Configured) -> Configured:
        """Return a configuration with the step rule that was asked for, at its own radius."""
        if self.step_rule is None:
            return config
        return with_settings(config, step__rule=self.step_rule, step__radius=None)
