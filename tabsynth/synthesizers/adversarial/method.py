"""The method of the networks: the allocation of the budget, noisy counts, the autoencoder, and what trains the generator."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
import torch

from tabsynth._random import Randomness
from tabsynth._typing import JsonObject
from tabsynth._validate import one_of, positive, quote
from tabsynth.encoding.rows import PrivateRows, Rows, codes_of, store_records, weights_of
from tabsynth.encoding.table import Layout, TableEncoder
from tabsynth.errors import FileFormatError, InputError
from tabsynth.methods import (
    AUTOENCODER,
    COUNT,
    CRITIC,
    JOINT,
    ONE_WAY,
    SCORES,
    TOTAL,
    VOTES,
    count_uses,
)
from tabsynth.privacy.accounting.accountants import Spend, gaussian_mu
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
from tabsynth.schema.conforming import conform
from tabsynth.schema.linked import LinkedSchema, read_table_schema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.adversarial.autoencoder import (
    OF_COUNTS,
    TRAININGS,
    Autoencoder,
    AutoencoderConfig,
)
from tabsynth.synthesizers.adversarial.generator import (
    GeneratorTraining,
    MomentPenalty,
    Streams,
    TableGenerator,
    TrainingContext,
)
from tabsynth.synthesizers.conditions import Condition
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.measurement import PrivateMarginals, Task
from tabsynth.synthesizers.method import (
    NOMINAL_ROWS,
    Config,
    FittedModel,
    PlannedSpend,
    Population,
    Sampler,
    TableMethod,
    Trained,
    read_settings,
    with_settings,
)
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import parts_of
from tabsynth.training.loop import TrainingMonitor
from tabsynth.training.networks import weights
from tabsynth.training.private_step import (
    CodedInputs,
    PrivateInputs,
    StepConfig,
    WeightedInputs,
    full_precision,
)
from tabsynth.training.units import MOST_ROWS, UnitRows

# Of the budget's μ², the unit in which Gaussian mechanisms add up.
SHARES = {ONE_WAY: 0.1, COUNT: 0.005, TOTAL: 0.005}
MOST_NUMBERS = 2**33  # codes of a batch, 32 GB
PARTS = {SCORES: 0.3, JOINT: 0.7}  # of the share of the counts that an autoencoder learns from
TREE_ROWS = 20_000  # the most that an autoencoder learns from
PUBLIC_TABLE = "rows of the public table"  # in a certificate, which states their provenance


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
    details: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Learning(ABC):
    """The way in which a generator learns: by a critic of private steps, or by a student of noisy votes."""

    config: Any
    stated: JsonObject = field(default_factory=dict)  # settings that a certificate states
    warnings: tuple[str, ...] = ()  # of a preset that is worse than independent columns, for plans
    least_steps: int = 100  # of a time budget: with fewer, rows were no better than independent columns on a small table (reports/gans)

    def check(self, layout: Layout, max_rows: int) -> None:  # noqa: B027 - few have anything to refuse
        """Refuse codes of rows, or as many rows of a unit, that the networks cannot use."""

    @abstractmethod
    def mechanisms(self, public_rows: str | None) -> tuple[TrainingMechanism, ...]:
        """Return the mechanisms that take what is left of the budget; ``public_rows`` names rows that cost nothing."""

    @abstractmethod
    def training(
        self, generator: TableGenerator, rng: torch.Generator, penalty: MomentPenalty
    ) -> GeneratorTraining:
        """Return what trains a generator; ``rng`` draws the first weights of the other networks."""

    def fewer(
        self, training: tuple[TrainingMechanism, ...], noise: float
    ) -> tuple[TrainingMechanism, ...]:
        """Return mechanisms with fewer uses, where ``noise`` is too much for those of ``training``; else themselves."""
        return training

    def private_steps(self) -> list[StepConfig]:
        """Return the private steps of the networks."""
        return []

    @abstractmethod
    def free_steps(self, *, public: bool) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row, with a public table or without."""

    def uses_row_count(self, private_autoencoder: bool) -> bool:
        """Return whether training needs the number of rows."""
        return True

    def preset_autoencoder(self, epsilon: float, from_counts: bool) -> str | None:
        """Return how the autoencoder of ``preset`` is trained where no table is public."""
        of_counts = "counts" if from_counts else "dp-sgd"
        return "no-noise" if math.isinf(epsilon) else of_counts

    def notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        """Return what to know of a plan before the fit."""
        return [*self.warnings]

    def public_facts(self) -> JsonObject:
        """Return further public facts that a certificate states, JSON-ready."""
        return {}

    def generator_class(self) -> Callable[..., TableGenerator]:
        """Return the class of the generator, as :class:`TableGenerator` is called."""
        return TableGenerator


def _mu_left(epsilon: float, delta: float, earlier: Ledger) -> float:
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


def step_mechanism(noise: float, rate: float) -> Mechanism:
    """Return the mechanism of one step at ``rate``."""
    if rate == 1.0:
        return Gaussian(noise_multiplier=noise)
    return SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)


class FirstCounts(NamedTuple):
    """The released counts that training starts from.

    Attributes
    ----------
    rows : float
        The number of rows that divisors use; 0 where it is neither declared nor counted.
    population : Population or None
        The total of the weights, where rows have any and it was measured.
    marginals : list of ndarray or None
        One-way distributions, where they were measured.
    """

    rows: float
    population: Population | None
    marginals: list[np.ndarray] | None


@dataclass(frozen=True, kw_only=True)
class NetworksModel(FittedModel[TableEncoder]):
    """A fitted generator network."""

    def stopped_text(self) -> str:
        """Return why the fit ended early, and how many of the steps that the noise was planned for it took."""
        text, plan = super().stopped_text(), self.facts.get("plan", {})
        purpose, steps = CRITIC, "steps of the critic"
        if not (planned := count_uses(plan.get("fit", ()), purpose)):
            purpose, steps = VOTES, "votes"
            planned = count_uses(plan.get("fit", ()), purpose)
        if not text or not planned:
            return text
        taken = count_uses(self.ledger.to_list(), purpose) - count_uses(plan["before"], purpose)
        said = f"{text} {taken:,} of {planned:,} {steps} were taken"
        if math.isinf(self.ledger.spent):
            return f"{said}."
        planner = purpose == CRITIC and "time_budget" not in self.facts["settings"]
        advice = "; time_budget= plans the steps" * planner
        return f"{said}, and the noise was planned for all of them{advice}."

    def sampler(self, condition: Condition | None) -> tuple[Sampler, bool]:
        """Return a sampler of codes; rows that are to be chosen from are not rounded to pair counts.

        A generator with a class for each row draws the classes that a condition allows.
        """
        generator = self.generator
        if condition is None or getattr(generator, "label", None) not in condition.box:
            return partial(generator.sample, rounded=condition is None), False
        noise = generator.noise_of(condition.box[generator.label] > 0)
        exact = set(condition.box) == {generator.label} and not condition.computed
        return partial(generator.sample, noise=noise, rounded=exact), exact


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworksMethod(TableMethod):
    """A generator network, and the way in which it learns.

    Attributes
    ----------
    learning : Learning
    training : {"counts", "dp-sgd", "public", "no-noise", None}
        The training of the autoencoder; None without one.
    autoencoder : AutoencoderConfig
    starts_from_counts : bool
        Whether the generator starts from noisy one-way counts.
    choices : dict
        Parameters that a model file keeps besides the configurations.
    time_note : str
        The steps that follow from the time budget, for the plan; empty before they are known.
    """

    model_class: ClassVar[type[FittedModel[Any]]] = NetworksModel
    no_design: ClassVar[tuple[str, ...]] = ()

    learning: Learning
    training: str | None
    autoencoder: AutoencoderConfig
    starts_from_counts: bool = True
    choices: JsonObject
    time_note: str = ""

    # Parameters.

    def check_settings(self) -> None:
        """Refuse settings that cannot be used."""
        one_of("autoencoder", self.training, ("preset", *TRAININGS, None))
        if self.time_budget is not None:
            positive("time_budget", self.time_budget)
        if self.training == "no-noise" and math.isfinite(self.epsilon):
            raise InputError(
                "autoencoder='no-noise' reads private rows without noise, which is epsilon=inf, but"
                f" epsilon={self.epsilon:g} was asked for; use 'dp-sgd' or 'public'."
            )
        if self.training == "public" and self.public is None:
            raise InputError("autoencoder='public' needs a public table: give public=.")
        if self.training == "counts" and not self.starts_from_counts:
            raise InputError(
                "autoencoder='counts' needs the one-way counts, which these settings leave out; use 'dp-sgd', 'public' or None."
            )
        self.learning.check(self.encoder.layout, self.schema.design.rows)
        self._check_steps()

    @property
    def _private_autoencoder(self) -> AutoencoderConfig | None:
        """The settings of an autoencoder that learns from private rows."""
        return None if self.training in ("public", None) else self.autoencoder

    def _check_steps(self) -> None:
        """Refuse what private steps cannot do, if there are any: before the counts are charged."""
        max_rows, private = self.schema.design.rows, self._private_autoencoder is not None
        if not private and not self.learning.private_steps():
            return
        with full_precision(self.device):
            pass
        if max_rows > MOST_ROWS:
            remedy = "" if self.learning.private_steps() else " leave the autoencoder out,"
            raise InputError(
                f"Private steps take max_rows_per_unit of at most {MOST_ROWS}, got {max_rows:,}; lower it,{remedy} or fit margnet."
            )
        coder = [] if self._private_autoencoder is None else [self.autoencoder.step]
        rate = max(step.sampling_rate for step in [*self.learning.private_steps(), *coder])
        codes = rate * (self.rows or 0) * self.encoder.layout.width
        if codes > MOST_NUMBERS:
            raise InputError(
                f"Batches of {codes:,.0f} codes are too large; lower step.sampling_rate to at most"
                f" {rate * MOST_NUMBERS / codes:.2g}, or fit margnet."
            )

    @property
    def _free_rows(self) -> str | None:
        """Rows that cost nothing, besides generated ones: declared public by a person."""
        return None if self.public is None else PUBLIC_TABLE

    # The budget.

    def count_purposes(self) -> list[str]:
        """Return the purposes of the counts that are released once, before training."""
        of_columns = self.starts_from_counts
        needs_rows = self.learning.uses_row_count(self._private_autoencoder is not None)
        purposes = [ONE_WAY] if of_columns else []
        # The one-way counts of weighted rows add up to weights, not to a number of rows.
        if self.rows is None and needs_rows and (self.schema.weight or not of_columns):
            purposes.append(COUNT)
        if self.schema.weight and needs_rows and not of_columns:
            purposes.append(TOTAL)
        # Of one column there are no pairs.
        of_pairs = self.training == "counts" and len(self.schema.learned.sizes) > 1
        return [*purposes, *(PARTS if of_pairs else ())]

    def _mechanisms(self) -> tuple[TrainingMechanism, ...]:
        return self.learning.mechanisms(self._free_rows)

    def plan(self, earlier: Ledger) -> list[PlannedSpend]:
        """Return the mechanisms of a fit, after what a ledger has charged: training takes all that the others leave.

        Raises
        ------
        BudgetError
            If they leave nothing.
        """
        mu, autoencoder = _mu_left(self.epsilon, self.delta, earlier), self._private_autoencoder
        shares = SHARES | {name: self.autoencoder.share * part for name, part in PARTS.items()}
        spends = [
            PlannedSpend(purpose=name, mechanism=_gaussian(mu, shares[name]), count=1)
            for name in self.count_purposes()
        ]
        if autoencoder is not None:
            mechanism = _autoencoder(autoencoder, mu, self.delta)
            count = autoencoder.step.count
            spends.append(PlannedSpend(purpose=AUTOENCODER, mechanism=mechanism, count=count))
        noise, training = math.inf, self._mechanisms()
        if math.isfinite(mu):
            fixed = [*earlier.spends(), *((s.mechanism, s.count) for s in spends)]
            asked: tuple[TrainingMechanism, ...] = ()

            def spent(noise: float) -> list[Spend]:
                return [*fixed, *((part.mechanism(noise), part.count) for part in asked)]

            while training != asked:
                asked, kept_by = training, earlier.filter if earlier.adaptive else None
                noise = calibrate(spent, self.epsilon, self.delta, kept_by)
                training = self.learning.fewer(asked, noise)
        for part in training:
            mechanism = part.mechanism(noise) if math.isfinite(mu) else NoPrivacy()
            spends.append(PlannedSpend(purpose=part.purpose, mechanism=mechanism, count=part.count))
        return spends

    def _details(self, purpose: str) -> JsonObject:
        """Return further facts about a mechanism for the certificate."""
        design, columns = self.schema.design, len(self.schema.learned.sizes)
        if purpose == ONE_WAY:
            unit = "counts" if design.weight is None else "weighted counts"
            sensitivity = design.bound * math.sqrt(columns)
            return {"l2_sensitivity": sensitivity, "unit": unit, "columns": columns}
        if purpose == TOTAL:
            return {"l2_sensitivity": design.bound, "unit": "weights"}
        if purpose in SHARES:
            return {"l2_sensitivity": float(design.rows), "unit": "rows"}
        if purpose == AUTOENCODER:
            return self.autoencoder.stated_steps()
        return next(part.details for part in self._mechanisms() if part.purpose == purpose)

    def free_steps(self) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row."""
        stage = {"counts": OF_COUNTS, "public": AUTOENCODER}.get(self.training or "")
        autoencoder = {} if stage is None else {stage: self.autoencoder.step.count}
        return {**autoencoder, **self.learning.free_steps(public=self.public is not None)}

    def with_steps(self, steps: int) -> Self:
        """Return the method with other steps of the critic, from its least to its most, and as many times fewer before them."""
        config, coder = self.learning.config, self.autoencoder
        most = config.step.count
        taken = min(most, max(steps, self.learning.least_steps))
        warm_start, coding = (
            math.ceil(count * taken / most) for count in (config.warm_start_steps, coder.step.count)
        )
        config = with_settings(config, step__count=taken, warm_start_steps=warm_start)
        longer = "" if steps >= taken else " (the least; they take longer)"
        other = "" if self.rows else "; declare rows= for another number"
        return replace(
            self,
            learning=replace(self.learning, config=config),
            autoencoder=with_settings(coder, step__count=coding),
            time_note=f"takes {taken:,} of {most:,} steps of the critic for a time budget of {self.time_budget:g} s{longer},"
            f" by a trial on {self.rows or NOMINAL_ROWS:,} made-up rows{other}",
        )

    def notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        """Return what to know of a plan before the fit."""
        return [*filter(None, [self.time_note]), *self.learning.notes(spends)]

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
        device, design = self.device, self.schema.design
        # Streams are drawn in a fixed order, so that a seed means the same run whatever is skipped.
        counts_noise, init_rng = randomness.noise(), randomness.torch()
        private, public = randomness.torch(device), randomness.torch(device)
        streams = Streams(init_rng, private, public, randomness.noise(), randomness.noise())
        rng = randomness.numpy()
        # Accounts are opened before the first row is read: a plan past the budget reads nothing. Those of pairs follow.
        accounts = {
            s.purpose: ledger.open(s.purpose, s.mechanism, s.count, self._details(s.purpose))
            for s in spends
            if s.purpose not in PARTS
        }
        free, layout = self.public_index, self.encoder.layout
        table, drawn = PrivateTable(rows, ledger), None
        counts = self._count(table, accounts, counts_noise, monitor)
        if self.training == "counts":
            assert counts.marginals is not None
            task = Task(domain=self.schema.learned, config=MargNetConfig(), design=design)
            pairs = PrivateMarginals(task, table, spends, counts_noise, monitor)
            tree = pairs.tree(counts.marginals, counts.rows)
            index = tree.draw_values(round(min(max(counts.rows, 1.0), TREE_ROWS)), rng)
            drawn = CodedInputs.of(index, layout, device)
        population = counts.population
        training = self._train_networks(
            TrainingContext(
                table=PrivateTable(self._inputs(rows), ledger),
                accounts=accounts,
                rows=counts.rows,
                streams=streams,
                monitor=monitor,
                total=None
                if population is None
                else population.total / float(design.max_weight or 1),
                max_rows_per_unit=design.rows,
                marginals=counts.marginals,
                drawn=drawn,
                public_codes=None
                if free is None
                else torch.from_numpy(layout.encode(free)).to(device),
            )
        )
        return Trained(
            generator=training.final_generator.eval(),
            curves=training.curves,
            rows=counts.rows or None,  # 0: neither declared nor counted
            population=population,
        )

    def _count(
        self,
        table: PrivateTable[PrivateRows],
        accounts: Mapping[str, Account],
        bits: Bits,
        monitor: TrainingMonitor,
    ) -> FirstCounts:
        """Release every count that has an account."""
        design, sizes = self.schema.design, self.schema.learned.sizes

        def release(purpose: str, count: Callable[[Account], float]) -> float:
            number = monitor.once(purpose, lambda: {"number": np.array(count(accounts[purpose]))})
            return float(number["number"])

        rows, marginals, population = float(self.rows or 0), None, None
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
            total = release(TOTAL, lambda account: noisy_total(table, account, bits, design.bound))
            ends = interval(total, accounts[TOTAL].whole_table_noise * design.bound)
            population = Population(total=total, interval=ends)
        if COUNT in accounts:
            rows = release(COUNT, lambda a: noisy_row_count(table, a, bits, design.rows))
        return FirstCounts(rows, population, marginals)

    def _train_networks(self, context: TrainingContext) -> GeneratorTraining:
        """Train the autoencoder, if there is one, and the generator; return what trained the generator."""
        streams, marginals, layout = context.streams, context.marginals, self.encoder.layout
        autoencoder = self._train_autoencoder(context)
        generator = self._make_generator(streams.init, autoencoder)
        if marginals is not None and autoencoder is None:
            generator.start_from(marginals)
        # Other rows may be distributed otherwise: only pairs of the same rows are held to.
        penalty = MomentPenalty.of(layout, marginals, self.learning.config.generator)
        training = self.learning.training(generator, streams.init, penalty).to(self.device)
        if context.public_codes is not None:
            training.warm_up(context)
        training.fit(context)
        return training

    def _train_autoencoder(self, context: TrainingContext) -> Autoencoder | None:
        """Train the autoencoder on rows of noisy counts, private rows or a public table."""
        if self.training is None:
            return None
        streams, account = context.streams, context.accounts.get(AUTOENCODER)
        model = Autoencoder(self.autoencoder, self.encoder.layout, streams.init)
        if context.marginals is not None:
            model.start_from(context.marginals)
        model.to(self.device)
        if context.drawn is not None:
            model.fit_public(context, context.drawn, OF_COUNTS)
        if account is not None:
            model.fit(context, account, streams.private, streams.coder_noise)
        elif context.public_codes is not None:
            model.fit_public(context, context.public_codes)
        return model

    def _make_generator(
        self, rng: torch.Generator, autoencoder: Autoencoder | None
    ) -> TableGenerator:
        """Make an untrained generator, ending in the autoencoder's decoder if there is one."""
        return self.learning.generator_class()(
            self.encoder.layout,
            self.learning.config.generator,
            rng,
            decoder=None if autoencoder is None else autoencoder.decoder,
            decoder_inputs=0 if autoencoder is None else self.autoencoder.latent_dim,
        )

    def encode_rows(self, table: Any, key: bytes) -> PrivateRows:
        """Write the category codes once, in parts, to a file that is mapped to memory."""
        schema, encoder = self.schema, self.encoder
        if isinstance(table, RowCounter):
            parts = table.rows(schema)
        elif schema.released is None:
            parts = parts_of(table)
        else:
            parts = (conform(part, schema) for part in parts_of(table))
        records = store_records(map(encoder.to_records, parts), encoder.layout.sizes, schema.design)
        return records.within_bound(schema.design, key)

    def _inputs(self, rows: PrivateRows) -> PrivateInputs | UnitRows:
        """Return the network inputs of private rows, with what each counts and the unit of each."""
        codes = CodedInputs.of(codes_of(rows), self.encoder.layout, self.device)
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

    # What a certificate, a checkpoint and a model file hold.

    def binding(self) -> JsonObject:
        """Return what a checkpoint of this fit must agree in besides parameters, JSON-ready."""
        return {**super().binding(), **self.learning.stated}

    def settings(self) -> JsonObject:
        """Return the public settings that a certificate states besides parameters, JSON-ready."""
        learned = self.training if self.training != "public" else self._free_rows
        budget = {} if self.time_budget is None else {"time_budget": float(self.time_budget)}
        return {"autoencoder": learned, **self.learning.stated, **budget}

    def public_facts(self, trained: Trained) -> JsonObject:
        """Return the public facts that a certificate states, JSON-ready."""
        return super().public_facts(trained) | self.learning.public_facts()

    def configuration(self) -> JsonObject:
        """Return what rebuilds an untrained generator, JSON-ready."""
        return {
            **self.choices,
            "autoencoder": self.training,
            "config": asdict(self.learning.config),
            "autoencoder_config": None if self.training is None else asdict(self.autoencoder),
        }

    def size(self) -> int:
        """Return the number of weights of the generator."""
        config, width = self.learning.config.generator, self.encoder.layout.width
        widths = (config.latent_dim, *config.hidden)
        if self.training is None:
            return weights(*widths, width)
        code = self.autoencoder.latent_dim
        return weights(*widths, code) + weights(code, *self.autoencoder.hidden[::-1], width)

    def make_empty(self) -> TableGenerator:
        """Make an untrained generator, for the weights of a file."""
        rng = torch.Generator().manual_seed(0)  # weights are overwritten by those of the file
        layout, config = self.encoder.layout, self.autoencoder
        return self._make_generator(
            rng, None if self.training is None else Autoencoder(config, layout, rng)
        )


@dataclass(kw_only=True, eq=False, repr=False)
class NetworksEstimator(Synthesizer):
    """The parameters that all estimators of networks have; see :class:`tabsynth.DPWGAN`."""

    autoencoder: str | None = "preset"
    public: pd.DataFrame | None = None
    public_source: str | None = None
    network_encoding: str | Mapping[str, str] = "one-hot"
    autoencoder_config: AutoencoderConfig | None = None


def make_networks(
    estimator: NetworksEstimator,
    schema: Schema | LinkedSchema,
    learning: Learning,
    autoencoder: AutoencoderConfig,
    **settings: Any,
) -> NetworksMethod:
    """Make the method of an estimator; ``settings`` are further fields of the method."""
    training = estimator.autoencoder
    if training == "preset":
        from_counts = settings.get("starts_from_counts", True)
        preset = learning.preset_autoencoder(estimator.epsilon, from_counts)
        training = preset if estimator.public is None else "public"
    return NetworksMethod(
        **estimator.shared_settings(),
        schema=read_table_schema(schema),
        learning=learning,
        training=training,
        autoencoder=autoencoder,
        public=estimator.public,
        public_source=estimator.public_source,
        **settings,
    )


def config_or_default(name: str, config: object, default: Config) -> Config:
    """Return the configuration of a parameter, or the default without one; refuse one of another class."""
    if config is None:
        return default
    if not isinstance(config, type(default)):
        raise InputError(f"Expected {name} to be a {type(default).__name__}, got {quote(config)}.")
    return config


def read_parameters(
    facts: Mapping[str, Any],
    config: Config,
    choices: Sequence[str],
) -> JsonObject:
    """Return the parameters of a fit from the facts of its model file; ``config`` holds the defaults of what it lacks.

    Raises
    ------
    FileFormatError
        For a model of release 0.2.0, whose configuration had no parts.
    """
    stated = facts["config"]
    if "generator" not in stated["config"]:
        raise FileFormatError(
            "The model was written by tabsynth 0.2.0; sample it with that release (its certificate still verifies)."
        )
    autoencoder = stated["autoencoder_config"]
    if autoencoder is not None:
        autoencoder = read_settings(AutoencoderConfig(), autoencoder)
    return {
        **{name: stated[name] for name in (*choices, "autoencoder")},
        "network_encoding": facts["encoding"],
        "config": read_settings(config, stated["config"]),
        "autoencoder_config": autoencoder,
    }
