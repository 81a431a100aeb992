"""MargNet for linked tables: mixtures of the records of each table, fitted to noisy counts under one ledger."""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from torch import Tensor

from tabsynth._files import new_folder
from tabsynth._random import Randomness
from tabsynth._threads import limit_threads
from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, one_of, quote
from tabsynth.encoding.derived import encoder_of
from tabsynth.encoding.gaps import GAP, is_gap
from tabsynth.encoding.keys import plain_tables, split_keys
from tabsynth.encoding.linked import (
    ANCESTOR,
    CHILDREN,
    OWN,
    POSITION,
    PREVIOUS,
    STEP,
    LinkedEncoder,
    Records,
)
from tabsynth.encoding.profiles import Profiles
from tabsynth.encoding.rows import Rows, SharedRows
from tabsynth.errors import FileFormatError, InputError
from tabsynth.methods import BY_EVENT, PROFILES
from tabsynth.privacy.accounting.accountants import GAUSSIAN_FILTER
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.certificate.attached import attach
from tabsynth.privacy.certificate.certificate import unchanged_facts
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import NoisyCounts, share_interval, stated_share
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.schema.linked import DROP, AnySchemaLike, LinkedSchema, read_schema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.conditions import Condition
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.linked.generator import LinkedGenerator
from tabsynth.synthesizers.linked.network import ContextFit
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import STAGE, MargNetFit
from tabsynth.synthesizers.margnet.estimator import boxes_of, least_noise, settings_from
from tabsynth.synthesizers.margnet.measurement import (
    OF_SETS,
    OneWay,
    PrivateMarginals,
    Task,
    count_records,
)
from tabsynth.synthesizers.margnet.selection import Measurements, Workload
from tabsynth.synthesizers.margnet.weighting import WeightedColumns
from tabsynth.synthesizers.method import (
    FittedModel,
    Method,
    PlannedSpend,
    Trained,
    check_identifiers,
    weight_notes,
)
from tabsynth.synthesizers.mixture import EVERYTHING, Box
from tabsynth.synthesizers.plan import Plan
from tabsynth.synthesizers.sampling import (
    add_weights,
    check_size,
    check_weights,
    number_of_rows,
    random_streams,
    state_weights,
)
from tabsynth.tables.files import write_table
from tabsynth.tables.frames import PANDAS
from tabsynth.training.loop import Progress, TrainingMonitor, run_steps

# What pairs of later children must be worth to be counted, as a multiple of what those of the root must be. More of the
# noise is left after their fit, for they are few: on patients and visits at ε = 1 transitions go from 0.248 to 0.241.
WORTH_OF_LATER = 3.0
# Shares of the budget: of profiles at most, which those of an OMOP database have by the importance of their sets, 45 in all;
# and of the codes by the first event.
PROFILE_SHARE, FULL_IMPORTANCE, SHARE_BY_EVENT = 0.27, 45.0, 0.08
SHARES, CHANCES = "shares of codes", "chances of roots"  # stages of a fit after those of networks
ROUNDS = 8  # steps of the former
# Of the budget of records, the most that those of the root have, and the most as a multiple of another table's share.
ROOT_SHARE, ROOT_WEIGHT = 0.4, 5 / 3
DOUBT = 2.0  # standard deviations of the noise of their scores that are taken off before pairs are chosen
SCORES_OF_LATER = 2.5  # times as much of the budget of such tables goes to scores of pairs
SMALLEST_COUNT = 0.5  # that a code of first children is taken to have
WIDEST_SHARE = 0.5  # that an interval of a share may have to be stated


def neighbours(records: Records, events: int | None = None) -> Workload:
    """Return what matters most: the numbers of children, and the pairs of one column in a child and in the one before it.

    Where rows have children in turn, their numbers are counted with the ordered columns of the ancestors, among which are other
    numbers. In the table of events the column that says which rows are events matters, though they may be few: so it is counted with the
    other columns of its row, with those of the ancestors, and with itself in the row before.

    The pairs are counted in any case. The numbers decide the sizes of all groups, and which first children begin groups of
    more than one: so of the root, each other column is counted with them. Of later children, which are few, columns of
    their own and their steps from the previous child matter, too.
    """
    if not records.context:
        numbers = [j for j, column in enumerate(records.columns) if column.role == CHILDREN]
        gaps = [j for j, c in enumerate(records.columns) if is_gap(c.column.name)]  # all null
        other_columns = set(range(len(records.columns))).difference(numbers, gaps)
        pairs = sorted((min(i, j), max(i, j)) for i in numbers for j in other_columns)
        return Workload(tuple(pairs), None, tuple(numbers), given=tuple(gaps))
    # Of a column with gaps, rows after the first one of a parent have the value that follows from the gap.
    followed = {c.column.name.removesuffix(GAP) for c in records.columns if is_gap(c.column.name)}
    columns_of_row = {
        c.column.name: j
        for j, c in enumerate(records.columns)
        if _is(c, OWN, records.table) and c.column.name not in followed
    }
    pairs = [
        (j, columns_of_row[c.column.name])
        for j, c in enumerate(records.columns)
        if _is(c, PREVIOUS, records.table) and c.column.name in columns_of_row
    ]
    children = [j for j, column in enumerate(records.columns) if column.role == CHILDREN]
    above = [j for j, c in enumerate(records.columns) if c.role == ANCESTOR and c.ordered]
    pairs += [(j, number) for j in above for number in children]
    size = f"number of {records.table}"
    gaps = [j for j, c in enumerate(records.columns) if c.role == OWN and is_gap(c.column.name)]
    pairs += [(j, gap) for j in above if records.columns[j].column.name == size for gap in gaps]
    if events is not None:
        related = (CHILDREN, OWN, ANCESTOR, POSITION)
        at = len(records.context) + events
        others = (
            j
            for j, c in enumerate(records.columns)
            if c.role in related and j != at and not (c.role == OWN and c.column.name in followed)
        )
        pairs += [(min(j, at), max(j, at)) for j in others]
    roles = (CHILDREN, OWN, STEP)
    columns = tuple(
        j
        for j, column in enumerate(records.columns)
        if column.role in roles and column.column.name not in followed
    )
    return Workload(tuple(pairs), None, columns, given=tuple(range(len(records.context))))


def toward_first(
    records: Records, later: Measurements, root: Records, first: Measurements
) -> Measurements:
    """Return noisy counts of the columns of later children, moved towards the distribution of first children.

    Both are noisy counts, so this is post-processing. First children are counted among the records of the root, and are
    mostly more. The estimate is that of empirical Bayes: of the squared distance of both, what noise alone would make is
    left out (James and Stein 1961).
    """
    at = {(c.table, c.column.name): j for j, c in enumerate(root.columns) if c.optional}
    single = {m.columns[0]: m for m in first.counts if len(m.columns) == 1}
    counts = []
    for m in later.counts:
        column = records.columns[m.columns[0]]
        j = at.get((column.table, column.column.name))
        alike = column.role in (OWN, CHILDREN) and not is_gap(column.column.name)
        if len(m.columns) > 1 or j is None or not alike or not m.std:
            counts.append(m)
            continue
        share = np.clip(single[j].counts.ravel()[: column.column.size], SMALLEST_COUNT, None)
        size = len(share)
        later_counts = m.counts.ravel()[:size]
        prior = share / share.sum() * max(later_counts.sum(), 1.0)
        apart = float(((later_counts - prior) ** 2).sum())
        by_noise = size * m.std**2
        trust = max(0.0, apart - by_noise) / apart if apart else 0.0  # one code alone is as it was
        noise_share = max(trust, math.sqrt(2 / size) / (1 + math.sqrt(2 / size)))
        moved = m.counts.astype(float).copy()
        moved.ravel()[:size] = prior + trust * (later_counts - prior)
        counts.append(replace(m, counts=moved, std=m.std * math.sqrt(noise_share)))
    return replace(later, counts=counts)


def _more_children(records: Records, one_way: OneWay) -> list[str]:
    """Return how many rows have more children than are used, by the noisy counts of numbers of children, in sentences."""
    out, hidden = [], []
    of_rows = f"the rows of {records.table}"
    if records.context:
        of_rows += " (of those that are not the first of their parent)"
    for j, column in enumerate(records.columns):
        if _is(column, CHILDREN, records.table):
            children = one_way.counts[j]
            count = float(children.counts[column.column.size - 1])
            low, high = share_interval(count, children.std, one_way.rows, one_way.rows_std)
            child = column.column.name.removeprefix("number of ")
            if high - low > WIDEST_SHARE:
                hidden.append(child)
                continue
            share = stated_share(min(max(count / one_way.rows, low), high), (low, high))
            out.append(
                f"{share[:1].upper()}{share[1:]} of {of_rows} have more rows of {child} than are used, by a noisy count; the rest of"
                " these was left out."
            )
    if hidden:
        out.append(
            f"How many of {of_rows} have more rows of {' or '.join(hidden)} than are used, the noise does not show."
        )
    return out


def _is(column: Any, role: str, table: str) -> bool:
    return bool(column.role == role and column.table == table)


@dataclass(frozen=True, kw_only=True)
class LinkedModel(FittedModel[LinkedEncoder]):
    """A fitted model of linked tables."""

    def schema_facts(self) -> JsonObject:
        """Return what a model file says of the schema."""
        return {"schema": self.encoder.whole.to_dict()}


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkedMethod(Method):
    """The method of :class:`LinkedMargNet`.

    Attributes
    ----------
    root_share : float or None
    config : MargNetConfig
    """

    stops_early: ClassVar[bool] = True
    composition: ClassVar[str] = GAUSSIAN_FILTER
    model_class: ClassVar[type[FittedModel[Any]]] = LinkedModel

    schema: LinkedSchema
    root_share: float | None
    config: MargNetConfig

    @cached_property
    def encoder(self) -> LinkedEncoder:
        """The encoder of tables, made once."""
        encoder = encoder_of(self.schema.plain)
        encoder.whole = self.schema
        return encoder

    @cached_property
    def profiles(self) -> Profiles | None:
        """The profiles of rows of the root that are counted; None where there are none, or rows have survey weights."""
        profiles = Profiles(self.encoder)
        return profiles if profiles.sets and self.schema.design.weight is None else None

    @cached_property
    def weighted_columns(self) -> WeightedColumns | None:
        """The columns of the root's records with the classes of survey weights; None where rows have none."""
        columns = self.encoder.records[self.schema.root].columns
        cap = self.schema.design.max_weight
        return None if cap is None else WeightedColumns.of(columns, cap, self.config)

    def task(self, name: str) -> Task:
        """Return the counts of one table's records."""
        records, at_root = self.encoder.records[name], name == self.schema.root
        weighted = self.weighted_columns if at_root else None
        of_events = self.encoder.events
        events = of_events[1] if of_events is not None and of_events[0] == name else None
        config, workload = self.config, neighbours(records, events)
        doubt = 0.0
        if records.context:
            worth = 1.0 if self.encoder.is_deep(name) else WORTH_OF_LATER
            config = replace(config, residual_noise=worth * config.residual_noise)
            if self.profiles is not None:  # there are many columns, of which few pairs matter
                doubt = DOUBT
                config = replace(config, scores_share=SCORES_OF_LATER * config.scores_share)
        first = len(records.context)
        return Task(
            domain=weighted or records,
            config=config if weighted is None else weighted.config,
            workload=workload if weighted is None else weighted.workload(workload),
            rows=self.rows if at_root else None,
            name=f"{name}: ",
            first=first,
            last=None if weighted else first + len(records.drawn),
            doubt=doubt,
        )

    def check(self) -> None:
        """Refuse settings that cannot be used."""
        if self.root_share is not None:
            in_range("root_share", self.root_share, 0, 1, low_open=True, high_open=True)
        _ = self.encoder  # a column too large for one-hot codes is refused here

    def check_identifiers(self) -> None:
        """Refuse drafted columns that identify people or records."""
        for schema in self.schema.tables.values():
            check_identifiers(schema)

    def encode_rows(self, table: Any, key: bytes) -> dict[str, Rows | SharedRows]:
        """Return the records of each table."""
        coded = self.encoder.to_tables(plain_tables(self.schema, table))
        rows = self.encoder.to_rows(coded)
        if self.profiles is not None:
            rows[self._of_root(PROFILES)] = self.profiles.rows(coded)
            if self.profiles.has_items:
                rows[self._of_root(BY_EVENT)] = self.profiles.items(coded)[0]
        return rows

    def _of_root(self, stage: str) -> str:
        """Return the name of a count or of a stage that is of rows of the root with all their records."""
        return f"{self.schema.root}: {stage}"

    def _shares(self) -> dict[str, float]:
        """Return the share of the privacy budget of each table with records."""
        records, left = self.encoder.records, 1 - sum(self._profile_shares().values())
        children = len(records) - 1
        most = min(ROOT_SHARE, ROOT_WEIGHT / (ROOT_WEIGHT + children))
        root = (self.root_share or most) if children else 1.0
        return {
            name: left * (root if name == self.schema.root else (1 - root) / children)
            for name in records
        }

    def _profile_shares(self) -> dict[str, float]:
        """Return the share of the privacy budget of each count of profiles."""
        if self.profiles is None:
            return {}
        importance = min(1.0, sum(self.profiles.importance) / FULL_IMPORTANCE)
        shares = {PROFILES: PROFILE_SHARE * importance}
        return shares | ({BY_EVENT: SHARE_BY_EVENT} if self.profiles.has_items else {})

    def plan(self, earlier: Ledger) -> list[PlannedSpend]:
        """Return one Gaussian mechanism for each stage of each table, which together use up what a ledger has left."""
        noise = least_noise(earlier) if math.isfinite(self.epsilon) else None
        parts = {
            f"{name}: {stage}": share * part
            for name, share in self._shares().items()
            for stage, part in self.task(name).stages.items()
        }
        parts |= {self._of_root(stage): share for stage, share in self._profile_shares().items()}
        spends = []
        for purpose, part in parts.items():
            mechanism = (
                NoPrivacy() if noise is None else Gaussian(noise_multiplier=noise / math.sqrt(part))
            )
            spends.append(PlannedSpend(purpose=purpose, mechanism=mechanism, count=1))
        return spends

    def profile_counts(self, purpose: str, rows: PrivateTable[Any]) -> NoisyCounts[Any]:
        """Return what counts the rows of a purpose of profiles."""
        assert self.profiles is not None
        by_event = purpose == self._of_root(BY_EVENT)
        sizes = self.profiles.item_sizes if by_event else self.profiles.sizes
        return NoisyCounts(rows, sizes, partial(count_records, None))

    def measure_profiles(
        self,
        purpose: str,
        counts: NoisyCounts[Any],
        spends: Sequence[PlannedSpend],
        bits: Bits,
        monitor: TrainingMonitor,
    ) -> dict[str, np.ndarray]:
        """Return noisy counts of profiles, one after the other, and the standard deviation of the noise on each."""
        assert self.profiles is not None
        sets, weights = self.profiles.sets, np.array(self.profiles.importance)
        if purpose == self._of_root(BY_EVENT):
            sets, weights = [(0, 1)], np.ones(1)
        spend = next(spend for spend in spends if spend.purpose == purpose)
        details = {"l2_sensitivity": 1.0, "unit": OF_SETS, "sets": len(sets)}
        account = counts.table.ledger.open(purpose, spend.mechanism, spend.count, details)

        def release() -> dict[str, np.ndarray]:
            measured = counts.measure(account, sets, (weights / weights.sum()).tolist(), bits)
            return {
                "counts": np.concatenate([m.counts.ravel() for m in measured]),
                "stds": np.concatenate([np.full(m.counts.size, m.std) for m in measured]),
            }

        return monitor.once(purpose, release)

    def _components(self) -> int:
        """Return the number of components of the mixture of the root's records."""
        domain = self.weighted_columns or self.encoder.records[self.schema.root]
        return self.config.rows_of_mixture(len(domain.columns))

    def design_notes(self) -> list[str]:
        """Return what a plan says of survey weights and of the unit."""
        bounds = [
            f"{keys.max_children} row{'s' * (keys.max_children != 1)} of {name} for each row of {keys.parent}"
            for name, keys in self.schema.keys.items()
            if keys.parent is not None
        ]
        protected = f"protects one row of {self.schema.root} with its records in the other tables; used are at most {', '.join(bounds)}"
        dropped = [name for name, keys in self.schema.keys.items() if keys.orphans == DROP]
        note = f"rows of {', '.join(dropped)} without a row of their parent are left out"
        return [protected, *([note] if dropped else []), *weight_notes(self.schema.design)]

    def free_steps(self) -> dict[str, int]:
        """Return the number of steps of each table's fit."""
        steps = {f"{name}: {STAGE}": self.config.steps for name in self.encoder.records}
        if self._rounds():
            steps[self._of_root(SHARES)] = self._rounds()
        return steps if self.profiles is None else {**steps, self._of_root(CHANCES): 1}

    def _rounds(self) -> int:
        """Return how often drawn codes are compared with their released shares."""
        return ROUNDS if self.profiles is not None and self.profiles.released else 0

    def train(
        self,
        rows: dict[str, Rows | SharedRows],
        spends: Sequence[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        monitor: TrainingMonitor,
    ) -> Trained:
        """Count the records of each table with noise, and fit a mixture of each to the counts."""
        noise, init_rng = randomness.noise(), randomness.torch()
        config, encoder = self.config, self.encoder
        measured: dict[str, Measurements] = {}
        notes: list[str] = []
        weighted, root = self.weighted_columns, encoder.records[self.schema.root]
        for name, records in encoder.records.items():
            by_class, of_table = weighted if records is root else None, rows[name]
            if by_class is not None:
                assert isinstance(of_table, Rows)
                of_table = by_class.rows(of_table)
            table = PrivateTable(of_table, ledger)
            marginals = PrivateMarginals(self.task(name), table, spends, noise, monitor)
            one_way = marginals.one_way()
            notes += _more_children(records, one_way)
            measured[name] = marginals.joint(one_way, marginals.select(one_way))
            if records is not root:
                measured[name] = toward_first(
                    records, measured[name], root, measured[self.schema.root]
                )
        of_profiles = []
        for purpose in map(self._of_root, self._profile_shares()):
            table = PrivateTable(rows[purpose], ledger)
            counts = self.profile_counts(purpose, table)
            of_profiles.append(self.measure_profiles(purpose, counts, spends, noise, monitor))
        count, population = measured[self.schema.root].rows, None
        components = self._components()
        generator = LinkedGenerator(encoder, components, config.hidden, init_rng)
        curves: dict[str, dict[str, list[float]]] = {}
        # Later children are counted by row, so they are fitted with contexts of rows: their law given a context is taken to
        # be that of the population. The root becomes that of the population after all fits.
        for place, (name, counted) in enumerate(measured.items()):
            is_root, layout = name == self.schema.root, encoder.records[name].layout
            if weighted is not None and is_root:
                layout = weighted.layout(layout)
            common = (counted, init_rng, self.device)
            share = 1 / (len(measured) - place)  # of the time that is left
            if is_root:
                fit = MargNetFit(layout, replace(config, components=components), *common)
                fit.fit(monitor, f"{name}: ", share)
                mixture = fit.mixture()
                generator.set_root(
                    mixture if weighted is None else weighted.of_rows(mixture, root.layout)
                )
            else:
                pool = partial(generator.contexts, name, init_rng)
                fit = ContextFit(generator.network(name), pool, layout, config, *common)
                fit.fit(monitor, f"{name}: ", share)
            curves |= {f"{name}: {of}": curve for of, curve in fit.curves.items()}
        if weighted is not None:
            mixture, total = weighted.of_population(mixture, root.layout, count)
            population = weighted.within_interval(total, measured[self.schema.root].counts)
            generator.set_root(mixture)
        run_steps(
            self._of_root(SHARES),
            self._rounds(),
            lambda _: generator.match_shares(init_rng),
            monitor,
        )
        if of_profiles:
            noisy, stds = (np.concatenate([r[k] for r in of_profiles]) for k in ("counts", "stds"))
            run_steps(
                self._of_root(CHANCES),
                1,
                lambda _: generator.set_profiles(noisy, stds, count, init_rng),
                monitor,
                may_stop=lambda: False,  # a time limit that has passed does not leave counts unused
            )
        return Trained(
            generator=generator.to(self.device),
            curves=curves,
            rows=count,
            population=population,
            notes={"children": notes},
        )

    def public_facts(self, trained: Trained) -> JsonObject:
        """Return the public facts that a certificate states, JSON-ready."""
        schema = self.schema
        columns = [(t, c) for t, s in schema.tables.items() for c in s.generated_columns]
        declared = [(f"{t}.{c.name}", c) for t, c in columns if c.provenance == "declared"]
        released = [f"{t}.{c.name}" for t, c in columns if c.provenance == "released"]
        purposes = sorted(
            {str(m["purpose"]) for m in (schema.released or {}).get("mechanisms", ())}
        )
        return {
            "schema_sha256": schema.fingerprint(),
            "declared": [name for name, _ in declared],
            "drafted": list(schema.drafted),
            **({"released": released} if released else {}),
            **({"schema_mechanisms": purposes} if purposes else {}),
            **unchanged_facts(schema.unchanged_facts),
            "left_out": [f"{t}.{n}" for t, s in schema.tables.items() for n in s.names_left_out],
            "sources": {name: column.source for name, column in declared},
            "accepted_drafted_domain": bool(schema.drafted) and self.accept_drafted_domain,
            "rows": None if self.rows is None else int(self.rows),
            "public_table": None,
            "design": schema.design.statement(),
            "tables": {name: keys.to_dict() for name, keys in schema.keys.items()},
        }

    def training_facts(self, trained: Trained) -> JsonObject:
        """Return what a certificate states of the training."""
        return {**super().training_facts(trained), "notes": trained.notes["children"]}

    def configuration(self) -> JsonObject:
        """Return what rebuilds an untrained generator, JSON-ready."""
        return {"root_share": self.root_share, **asdict(self.config)}

    def restore(
        self, facts: JsonObject, tensors: dict[str, Tensor], path: object
    ) -> FittedModel[LinkedEncoder]:
        """Rebuild the fitted model from the facts and tensors of its file, which states the number of rows."""
        if facts.get("rows") is None:
            raise FileFormatError(f"{path}: the model's facts are damaged or incomplete.")
        return super().restore(facts, tensors, path)

    def make_empty(self) -> LinkedGenerator:
        """Make an untrained generator, for the weights of a file."""
        return LinkedGenerator(self.encoder, self._components(), self.config.hidden)

    def size(self) -> int:
        """Return at most the number of weights of the generator."""
        widths = {
            name: sum(records.sizes[: len(records.context) + len(records.drawn)])
            for name, records in self.encoder.records.items()
        }
        hidden = self.config.hidden
        return self._components() * widths.pop(self.schema.root) + sum(
            min(hidden) * width for width in widths.values()
        )


@dataclass(kw_only=True, eq=False, repr=False)
class LinkedMargNet(Synthesizer):
    """A generator of linked tables, such as households and persons, or patients, stays and events.

    A record of a table's row holds its columns, for each child table the number of children, and the first child. The
    records of the root are modelled by a mixture, as :class:`tabsynth.MargNet` models rows. Later children are drawn one
    after the other from a mixture of their own, given their ancestors, the first and the previous child of the same
    parent, and their position: :mod:`tabsynth.encoding.linked`.

    Parameters
    ----------
    schema : LinkedSchema, dict or path
        The schemas of the tables, and their keys.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    rows : int, optional
        The exact number of rows of the root, where it is public.
    time_limit : float, optional
        Seconds; the generators' fits stop there, with a valid model.
    accept_drafted_domain : bool
        Fit although a schema was drafted from a table; the certificate says so.
    random_state : int, optional
        Makes the run reproducible; its certificate then says "not private: seeded".
    device : {"auto", "cpu", "cuda"}
    verbose : bool
    root_share : float, optional
        Share of the privacy budget, in units of 1/σ², of the records of the root, beside profiles. The records of the other
        tables have equal shares of the rest. Default: 5/3 of one of these, and at most 0.4.
    config : MargNetConfig, optional
        Of the mixture of each table's records.

    Formal guarantees
    -----------------
    Neighbouring datasets differ in one row of the root with its records in the other tables; in both, each key occurs once and
    refers to a row. Other tables are refused, and a refusal for a key of two rows is not noisy: whoever may add rows with
    keys of their choice could learn which keys are taken. So keys must be assigned by whoever holds the tables. Each
    table's records are read by up to three Gaussian mechanisms, as those of :class:`tabsynth.MargNet` are. The weights
    of a root row's records in one table sum to 1 at most, so that the counts of each set of columns change by at most 1
    in L1 and L2 (:meth:`tabsynth.encoding.linked.LinkedEncoder.to_rows`). All mechanisms together are exactly (epsilon,
    delta)-DP. Keys only join and order rows: none is in a record. All the rest is post-processing.
    """

    method: ClassVar[str] = "linked-margnet"

    root_share: float | None = None
    config: MargNetConfig | None = None

    def fit(
        self,
        table: Mapping[str, Any],
        y: None = None,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        ledger: str | Path | None = None,
    ) -> Self:
        """Fit linked tables under the budget. The plan is logged before they are read.

        Parameters
        ----------
        table : dict of str to DataFrame
            The tables by name, each with the columns of its schema and its keys. Of one parent the first ``max_children`` rows by
            their order are used; how many parents have more is among the noisy counts, and :meth:`notes` says so.
        progress, checkpoint, ledger
            As of :meth:`Synthesizer.fit`.

        Raises
        ------
        InputError
            If a table or a parameter is not usable, if a key is null or occurs twice, or if it refers to no row; nothing
            is charged.
        BudgetError
            If the fit would exceed the budget, or that of the project.
        """
        _ = self._check_linked(self.schema)
        return super().fit(table, progress=progress, checkpoint=checkpoint, ledger=ledger)

    @limit_threads()
    def sample(
        self,
        n: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        max_draws: int | None = None,
        random_state: int | None = None,
        dataframe: str = "fitted",
        weights: str | None = None,
        implicates: int | None = None,
    ) -> dict[str, pd.DataFrame]:
        """Draw ``n`` rows of the root with their records in the other tables. Costs no privacy.

        Parameters
        ----------
        n : int, optional
            Number of rows of the root. Default: the declared or noisy number of the fit.
        where : dict, optional
            From the name of the root to a condition on its rows, as of :meth:`Synthesizer.sample`:
            ``{"households": {"rooms": [3, 4]}}``. They are drawn from the fitted mixture given the condition.
        random_state : int, optional
            As in :meth:`Synthesizer.sample`.
        weights : {None, "population"}
            ``population`` adds the column of weights to the table of the root, as in :meth:`Synthesizer.sample`.
        dataframe, implicates, max_draws
            Linked tables are pandas DataFrames, and have no implicates. No row is drawn that does not satisfy the condition.

        Returns
        -------
        dict of str to DataFrame
            By table, each with its keys, which are 1, 2, 3, …: each parent's key is there, and no key occurs twice.
            Rows of one parent are together, in their order. ``attrs["certificate"]`` of each holds the certificate.

        Raises
        ------
        InputError
            As of :meth:`Synthesizer.sample`.
        """
        one_of("dataframe", dataframe, ("fitted", PANDAS))
        if implicates is not None:
            raise InputError("Linked tables have no implicates; leave implicates out.")
        if max_draws is not None:
            raise InputError("Linked tables are drawn without rejection; leave max_draws out.")
        seed, model, schema = self._draw_seed(random_state), self.model_, self.schema_
        check_weights(model, schema, weights, where)
        n = number_of_rows(model, n)
        root, within = schema.root, None
        check_size(n, len(model.encoder.columns(root)))
        condition = self._root_condition(where)
        for_codes, for_cells = random_streams(model, seed)
        generator: LinkedGenerator = model.generator
        boxes: Sequence[Box] = EVERYTHING
        if condition is not None:
            boxes = boxes_of(generator.root, model.encoder.encoders[root], condition)
            within = condition.within
        codes = generator.draw(n, for_codes, boxes)
        tables = split_keys(schema, model.encoder.from_tables(codes, for_cells, within))
        if weights is not None:
            add_weights(tables[root], model, schema, n)
        of_sample = self.certificate()  # of one moment, for all tables
        for name, table in tables.items():
            certificate = deepcopy(of_sample)
            if condition is not None:
                certificate["condition"] = {f"{root}.{c}": v for c, v in condition.stated.items()}
            if weights is not None and name == root:
                state_weights(certificate)
            attach(table, certificate)
        return tables

    def _root_condition(self, where: Any) -> Condition | None:
        """Return the condition on the rows of the root."""
        root = self.schema_.root
        if where is None or where == {}:
            return None
        if not isinstance(where, Mapping) or {*where} != {root}:
            raise InputError(
                f"Expected where to be a dict from the root, {quote(root)}, to a condition on its columns, got {quote(where)}."
            )
        condition = Condition(self.schema_.tables[root], where[root])
        if condition.computed:
            raise InputError(
                f"{condition} is on a column whose values follow from others; of linked tables put it on these."
            )
        return condition

    def sample_to(
        self,
        path: str | Path,
        n: int | None = None,
        *,
        random_state: int | None = None,
        formulas: str = "refuse",
        sep: str | None = None,
        decimal: str | None = None,
        implicates: int | None = None,
        suffix: str = ".csv",
        **options: Any,
    ) -> Path:
        """Write a folder with a file for each table, and the certificate beside each; whole or not at all.

        ``options`` are those of :meth:`sample`; ``suffix`` names the format of the files; the rest is as of
        :meth:`Synthesizer.sample_to`. Returns the path of the folder, which must not be there yet.
        """
        with new_folder(path) as folder:
            sampled = self.sample(n, random_state=random_state, implicates=implicates, **options)
            for name, table in sampled.items():
                file = folder / f"{name}{suffix}"
                mark = self.schema_.tables[name].with_decimal(decimal).decimal
                write_table(table, file, formulas=formulas, sep=sep, decimal=mark)
        return Path(path)

    def plan(self, *, estimate_time: bool = False, checkpoint: str | Path | None = None) -> Plan:
        """Return the privacy cost of :meth:`fit`, before a private row is read. There is no estimate of the time."""
        return super().plan(estimate_time=False)

    def notes(self) -> list[str]:
        """Return a sentence for each table on the rows that have more children than are used, by noisy counts."""
        self._check_fitted()
        return list(self.model_.facts["training"].get("notes", []))

    @property
    def schema_(self) -> LinkedSchema:  # type: ignore[override]
        """The linked schema of the fitted model."""
        self._check_fitted()
        return self._check_linked(self.model_.encoder.whole)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Columns of the fitted tables, as ``table.column``, shape (columns,)."""
        tables = self.schema_.tables.items()
        return np.array([f"{t}.{c}" for t, schema in tables for c in schema.names], dtype=object)

    def make_method(self, schema: Schema | LinkedSchema) -> LinkedMethod:
        """Make the method for a schema."""
        if self.config is not None and not isinstance(self.config, MargNetConfig):
            raise InputError(f"Expected config to be a MargNetConfig, got {quote(self.config)}.")
        return LinkedMethod(
            **self.shared_settings(),
            schema=self._check_linked(schema),
            root_share=self.root_share,
            config=self.config or MargNetConfig(),
        )

    @staticmethod
    def _check_linked(schema: AnySchemaLike | None) -> LinkedSchema:
        linked = None if schema is None else read_schema(schema)
        if not isinstance(linked, LinkedSchema):
            raise InputError(
                f"Expected schema to be a LinkedSchema, got {type(linked).__name__}; make one with tabsynth.LinkedSchema(tables, keys)."
            )
        return linked

    @classmethod
    def schema_from(cls, facts: Mapping[str, Any], path: object) -> LinkedSchema:
        """Return the schema that a model file states."""
        return LinkedSchema.from_dict(facts["schema"], str(path))

    @classmethod
    def parameters_from(cls, schema: Schema | LinkedSchema, facts: Mapping[str, Any]) -> JsonObject:
        """Return the parameters of a fit from the facts of its model file."""
        settings = dict(facts["config"])
        root_share = settings.pop("root_share")
        return {"root_share": root_share, "config": settings_from(settings)}
