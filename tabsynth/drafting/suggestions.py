"""Rules between columns that noisy counts suggest, for a person to review.

Candidates follow from the schema alone: dependencies (A gives B), orders of two columns, and patterns of missing values
(B is null, or is not, where A has some values). Three stages read the rows, each charged to the ledger: noisy counts of
columns, the selection of candidates by exponential mechanisms, and noisy counts of what is selected. A candidate is
suggested if these counts say that nearly no row breaks it.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm

from tabsynth._random import Randomness
from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, positive
from tabsynth.drafting.private_schema import check_design, open_ledger, release_name
from tabsynth.encoding.rows import codes_of, key_of, rows_of
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import Gaussian, Mechanism, NoPrivacy
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable, exact
from tabsynth.privacy.ledger.project import ProjectLedger, check_same_ledger
from tabsynth.privacy.noise import samplers
from tabsynth.privacy.noise.counts import (
    noise_of_estimated_rows,
    probabilities,
    share_interval,
)
from tabsynth.schema.categorical import Ordinal
from tabsynth.schema.cells import plain
from tabsynth.schema.column import Column
from tabsynth.schema.conforming import conform
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema
from tabsynth.schema.temporal import Temporal
from tabsynth.tables.frames import to_pandas

COLUMNS, SELECTION, COUNTS = "counts of columns", "selection of rules", "counts of rules"
SHARES = {COLUMNS: 0.1, SELECTION: 0.4, COUNTS: 0.5}  # of the budget, in μ²
MOST_CELLS = 2**22  # of the joint counts of two columns; pairs of more are no candidates
MOST_VALUES = 2_000  # of the given column of a dependency
LEAST_CHANCE = 0.02  # of the rows: an order that fewer would break by chance is no candidate
CLEAR = 4.0  # standard deviations of its noise: a count above is taken to be of rows
TOLERANCE = 0.01  # of the rows that a rule is about, which may break it
RANGE = 3.0  # of what one row adds to a score: from -2 to 1


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A rule that may hold.

    Attributes
    ----------
    form : {"dependency", "order", "null", "value"}
        ``null``: column ``b`` is null where the code of ``a`` is from ``first`` to ``last``; ``value``: it is not.
    a, b : int
        Columns.
    first, last : int
        Codes of ``a``.
    """

    form: str
    a: int
    b: int
    first: int = 0
    last: int = 0

    @property
    def kind(self) -> tuple[str, int, int]:
        """The facts that candidates share of which one is selected."""
        return (self.form, self.a, self.b)


def suggest_constraints(
    table: object,
    schema: Schema,
    epsilon: float,
    delta: float = 1e-5,
    *,
    random_state: int | None = None,
    ledger: str | Path | None = None,
) -> Schema:
    """Return the schema with rules that the rows suggest, (epsilon, delta)-differentially private for one record.

    Under a schema with a unit, privacy is for all records of one unit, of which at most so many are used as its bound says.

    Parameters
    ----------
    table : DataFrame
        As a fit takes it: values that the schema does not declare are refused.
    schema : Schema
    epsilon, delta : float
        The budget of the suggestions. It counts in every fit that takes the schema, whichever are accepted.
    random_state : int, optional
        For tests; seeded suggestions are not private.
    ledger : path, optional
        A project's ledger (:class:`tabsynth.privacy.ProjectLedger`), to which the suggestions are charged before rows are read.
        Fits that take the schema must be made under it, and it counts the suggestions once. The suggestions for a schema
        that was drafted under a ledger need that ledger.

    Returns
    -------
    Schema
        With ``suggested`` rules, each with the noisy share of rows that break it, and ``released``, to which their
        mechanisms are added.

    Raises
    ------
    InputError
        If the table does not fit the schema, the schema has fewer than two columns, or its draft is not on the ledger;
        nothing is charged.
    BudgetError
        If the suggestions would exceed the limit of the project; nothing is read.
    """
    positive("epsilon", epsilon, finite=False)
    in_range("delta", delta, 0, 1, low_open=True, high_open=True)
    columns = [column for column in schema.columns if column.learned]
    if len(columns) < 2:
        raise InputError(
            "Rules between columns need two columns that are learned; the schema has fewer."
        )
    with nullcontext() if ledger is None else ProjectLedger(ledger) as project:
        released = schema.released
        if released is not None:
            on = (released.get("project"), released.get("run"))
            check_same_ledger(release_name(released), *on, project, "run")
        seeded = None if random_state is None else "A seeded run of suggestions"
        charges = open_ledger(project, epsilon, delta, schema.unit, seeded)
        charges.unit = schema.unit
        index = _index(table, schema, columns, random_state)
        stages = _Suggestions(columns, schema, PrivateTable(index, charges), charges, random_state)
        if project is not None:
            project.admit_suggestions(charges, stages.mu)
        try:
            suggested = stages.rules()
        finally:
            charges.close()
    return schema.replace(
        released=_with_suggestions(schema, charges, random_state is not None),
        suggested=[*schema.suggested, *suggested],
    )


def _index(
    table: object, schema: Schema, columns: Sequence[Column], seed: int | None
) -> np.ndarray:
    """Return category codes of the rows that are used, shape (rows, columns); refuse a table that does not fit the schema."""
    frame = conform(table, schema) if schema.released is not None else to_pandas(table)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    schema.check_columns(frame)
    check_design(frame, schema.design, schema.decimal)
    index = np.stack([c.encode(frame[c.name]) for c in columns], axis=1)
    if schema.unit is not None:
        key = key_of(seed)
        index = codes_of(rows_of(index, frame, schema.design, key, schema.decimal))
    return index


def _with_suggestions(schema: Schema, ledger: Ledger, seeded: bool) -> JsonObject:
    """Return ``released`` of the schema with what the suggestions have spent; all that it says already stays."""
    before = schema.released or {"mechanisms": [], "seeded": False}
    released = {
        **before,
        "mechanisms": [*before["mechanisms"], *ledger.to_list()],
        "seeded": bool(before.get("seeded")) or seeded,
    }
    if schema.unit is not None:
        released |= {"unit": schema.unit, "max_rows_per_unit": schema.max_rows_per_unit}
    if ledger.project is not None:
        # The run of the draft was on this ledger before, and nothing is ever taken off a ledger.
        released |= {"project": ledger.project, "run": ledger.run}
    return released


def selection_noise(mu: float) -> float:
    """Return ε of an exponential mechanism that a Gaussian mechanism of ``mu`` dominates.

    An exponential mechanism with weights exp(ε · score / R), where one row adds to all scores numbers of one interval
    of length R, has ε-bounded range (Durfee, Rogers 2019): the logarithms of the ratios of probabilities on neighbours
    lie in an interval [t - ε, t]. Its trade-off function is at least that of a binary mechanism with just these two
    ratios (Dong, Durfee, Rogers 2020), which is that of the Gaussian mechanism or above if its one kink is. The kink is
    nearest to it at t = ε/2, where the binary mechanism is a randomised response with probability 1/(1 + exp(-ε/2)).
    """
    if math.isinf(mu):
        return math.inf
    chance = norm.cdf(mu / 2)
    return float(2 * math.log(chance / (1 - chance)))


class _Suggestions:
    """The three stages, and what follows from their releases.

    A unit adds at most ``bound`` rows, so it moves each count and each score at most so many times as far as a row does.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        schema: Schema,
        table: PrivateTable[np.ndarray],
        ledger: Ledger,
        seed: int | None,
    ) -> None:
        self._columns, self._schema = columns, schema
        self._bound = schema.design.rows
        self._table, self._ledger = table, ledger
        self._bits = Randomness(seed).noise()
        epsilon = ledger.epsilon
        self.mu = (
            math.inf if math.isinf(epsilon) else gaussian_mu(epsilon, ledger.delta) * (1 - 1e-9)
        )
        # More rules at a larger budget: each selection is then as accurate as at a smaller one.
        self._most = int(np.clip(64 * math.sqrt(min(self.mu, 1.0)), 8, 64))

    def rules(self) -> list[JsonObject]:
        """Return suggested rules with their shares, as a schema has them."""
        shares, rows = self._one_way()
        selected = self._select(shares, rows)
        return self._confirm(selected, shares, rows) if selected else []

    def _open(self, stage: str, uses: int, details: JsonObject) -> tuple[Account, float]:
        """Return the account of a stage, and μ of one use."""
        mu = self.mu * math.sqrt(SHARES[stage] / uses)
        mechanism: Mechanism = NoPrivacy() if math.isinf(mu) else Gaussian(noise_multiplier=1 / mu)
        return self._ledger.open(f"suggestions: {stage}", mechanism, uses, details), mu

    def _one_way(self) -> tuple[list[np.ndarray], float]:
        """Return noisy distributions of the columns, and the number of rows. A row counts once in each: L2 sensitivity √columns."""
        number = len(self._columns)
        sensitivity = self._bound * math.sqrt(number)
        details = {"l2_sensitivity": sensitivity, "unit": "counts", "columns": number}
        account, mu = self._open(COLUMNS, 1, details)
        index, std = self._table.read(account), sensitivity / mu
        counts = [
            np.bincount(index[:, j], minlength=c.size).astype(float)
            for j, c in enumerate(self._columns)
        ]
        counts = exact(account, counts, [std] * number)
        noisy = [samplers.noisy(c, std, self._bits, whole=True) for c in counts]
        weights = np.array([1 / c.size for c in self._columns])
        rows = max(1.0, float(weights @ [c.sum() for c in noisy] / weights.sum()))
        self._rows_std = noise_of_estimated_rows([c.size for c in self._columns], std)
        return [probabilities(c, rows, std) for c in noisy], rows

    def _select(self, shares: Sequence[np.ndarray], rows: float) -> list[_Candidate]:
        """Return candidates that are drawn with probability growing with their score, one at a time."""
        pairs = self._pairs()
        details = {
            "unit": "scores of candidate rules",
            "pairs": len(pairs),
            "selection": "exponential mechanism, which the Gaussian mechanism dominates",
        }
        account, mu = self._open(SELECTION, self._most, details)
        index = self._table.read(account, self._most)
        sharpness = selection_noise(mu) / (RANGE * self._bound)
        candidates: list[_Candidate] = [
            _Candidate("none", -1, -1)
        ]  # of score 0: nothing is worth it
        scores: list[np.ndarray] = [np.zeros(1)]
        for a, b in pairs:
            cells = self._columns[a].size * self._columns[b].size
            keys = index[:, a] * self._columns[b].size + index[:, b]
            counts = np.bincount(keys, minlength=cells).reshape(self._columns[a].size, -1)
            for pair_candidates, values in self._scores(a, b, counts, shares, rows):
                candidates += pair_candidates
                scores.append(values)
        return self._draw(candidates, np.concatenate(scores), sharpness)

    def _draw(
        self, candidates: list[_Candidate], scores: np.ndarray, sharpness: float
    ) -> list[_Candidate]:
        """Return one draw after another; in float64, probabilities below 2⁻⁵³ are 0, far below any δ in use."""
        undrawn = np.ones(len(candidates), dtype=bool)
        numbers: dict[tuple[str, int, int], int] = {}
        kinds = np.array([numbers.setdefault(c.kind, len(numbers)) for c in candidates])
        chosen: list[_Candidate] = []
        for _ in range(self._most):
            weighed = np.where(undrawn, scores, -np.inf)
            if math.isinf(sharpness):
                pick = int(weighed.argmax())
            else:  # the largest of scores with Gumbel noise: the exponential mechanism
                gumbel = -np.log(
                    -np.log(np.minimum(samplers.uniform(len(scores), self._bits), 1 - 2.0**-53))
                )
                pick = int((sharpness * weighed + gumbel).argmax())
            if candidates[pick].form == "none":
                continue  # other draws may still find one
            chosen.append(candidates[pick])
            undrawn[kinds == kinds[pick]] = False
        return chosen

    def _pairs(self) -> list[tuple[int, int]]:
        """Return ordered pairs of columns within the limits that no rule of the schema is about already."""
        ruled = [set(rule.names) for rule in self._schema.rules]
        out = []
        for a, b in itertools.permutations(range(len(self._columns)), 2):
            first, other = self._columns[a], self._columns[b]
            has_rule = any({first.name, other.name} == names for names in ruled)
            if first.size * other.size <= MOST_CELLS and not has_rule:
                out.append((a, b))
        return out

    def _scores(
        self, a: int, b: int, counts: np.ndarray, shares: Sequence[np.ndarray], rows: float
    ) -> Iterator[tuple[list[_Candidate], np.ndarray]]:
        """Return candidates of a pair with their scores. One row more changes each by between -2 and 1.

        Parameters
        ----------
        counts : ndarray, shape (size of a, size of b)
            Exact.
        """
        key, other = self._columns[a], self._columns[b]
        if key.size <= MOST_VALUES and other.size > 1:
            # Rows that the commonest value for each key predicts, more than the commonest of all does, less those
            # that it does not predict. One row more: -2, -1, 0 or 1.
            right = counts.max(axis=1).sum()
            gain = right - counts.sum(axis=0).max() - (counts.sum() - right)
            yield [_Candidate("dependency", a, b)], np.array([float(gain)])
        if self._comparable(key, other):
            later = _surely_after(key, other)
            chance = float(shares[a] @ later @ shares[b])
            if chance >= LEAST_CHANCE:  # by released shares
                avoided = chance * rows - 2.0 * (counts * later).sum()
                yield [_Candidate("order", a, b)], np.array([avoided])
        if other.nulls:
            null = counts[:, -1].astype(float)
            present = counts.sum(axis=1) - null
            ranges = self._ranges(key)
            first, last = (np.array(ends) for ends in zip(*ranges, strict=True))
            sums = [np.concatenate([[0.0], np.cumsum(x)]) for x in (null, present)]
            nulls, values = (s[last + 1] - s[first] for s in sums)
            share = float(shares[b][-1])
            # What the rule explains beyond chance, less twice the rows that break it.
            for form, keeping, broken, part in (
                ("null", nulls, values, 1 - share),
                ("value", values, nulls, share),
            ):
                yield (
                    [_Candidate(form, a, b, int(f), int(g)) for f, g in ranges],
                    part * keeping - 2.0 * broken,
                )

    def _ranges(self, column: Column) -> list[tuple[int, int]]:
        """Return first and last codes of the sets of values that a rule may begin with: each value, and beginnings and ends."""
        cells = column.cells
        out = {(j, j) for j in range(column.size)}
        if column.nulls:
            out.add((0, cells - 1))
        if _is_ordered(column):
            out |= {(0, j) for j in range(cells - 1)} | {(j, cells - 1) for j in range(1, cells)}
        return sorted(out)

    def _comparable(self, column: Column, other: Column) -> bool:
        """Return whether the schema allows an order of two columns: numbers, or dates and times of one unit."""
        if isinstance(column, Temporal) or isinstance(other, Temporal):
            same = column.kind == other.kind
            return same and getattr(column, "resolution", None) == getattr(
                other, "resolution", None
            )
        return _is_ordered(column) and _is_ordered(other)

    def _confirm(
        self, selected: Sequence[_Candidate], shares: Sequence[np.ndarray], rows: float
    ) -> list[JsonObject]:
        """Return those of the selected candidates that noisy counts confirm. A row counts once for each: √candidates."""
        number = len(selected)
        sensitivity = self._bound * math.sqrt(number)
        details = {"l2_sensitivity": sensitivity, "unit": "counts", "rules": number}
        account, mu = self._open(COUNTS, 1, details)
        index, std = self._table.read(account), sensitivity / mu
        counts = [self._cells(c, index) for c in selected]
        counts = exact(account, counts, [std] * number)
        noisy = [samplers.noisy(c, std, self._bits, whole=True) for c in counts]
        out = []
        for candidate, numbers in zip(selected, noisy, strict=True):
            if candidate.form == "dependency":
                out += self._dependency(candidate, numbers, std, rows)
            else:
                out += self._condition(candidate, numbers, shares, std, rows)
        stated = [*self._schema.constraints, *(item["rule"] for item in self._schema.suggested)]
        unique: list[JsonObject] = []
        for item in out:
            if item["rule"] not in (*stated, *(earlier["rule"] for earlier in unique)):
                unique.append(item)
        return unique

    def _cells(self, candidate: _Candidate, index: np.ndarray) -> np.ndarray:
        """Return counts of a candidate: by the codes of both columns, or of rows that keep and that break it."""
        key, other = self._columns[candidate.a], self._columns[candidate.b]
        a, b = index[:, candidate.a], index[:, candidate.b]
        if candidate.form == "dependency":
            keys = a * other.size + b
            cells = key.size * other.size
            return np.bincount(keys, minlength=cells).reshape(key.size, -1).astype(float)
        if candidate.form == "order":
            broken, about = _surely_after(key, other)[a, b], np.ones(len(a), dtype=bool)
        else:
            about = (a >= candidate.first) & (a <= candidate.last)
            null = b == other.cells
            broken = about & (null if candidate.form == "value" else ~null)
        return np.array([(about & ~broken).sum(), broken.sum()], dtype=float)

    def _condition(
        self,
        candidate: _Candidate,
        numbers: np.ndarray,
        shares: Sequence[np.ndarray],
        std: float,
        rows: float,
    ) -> list[JsonObject]:
        """Return the rule if few rows break it, and clearly fewer than chance alone would."""
        keeping, broken = numbers
        key, other = self._columns[candidate.a], self._columns[candidate.b]
        null = float(shares[candidate.b][-1])
        chance = {"null": 1 - null, "value": null}.get(candidate.form, 0.0) * (keeping + broken)
        if candidate.form == "order":
            chance = rows * float(
                shares[candidate.a] @ _surely_after(key, other) @ shares[candidate.b]
            )
        if chance - broken < CLEAR * std or broken > 2 * std + TOLERANCE * keeping:
            return []
        if candidate.form == "order":
            rule: JsonObject = {"order": [key.name, other.name]}
        else:
            condition = _values(key, candidate.first, candidate.last)
            then = [None] if candidate.form == "null" else _values(other, 0, other.cells - 1)
            rule = {"if": {key.name: condition}, "then": {other.name: then}}
        return [self._with_share(rule, broken, std, rows)]

    def _dependency(
        self, candidate: _Candidate, numbers: np.ndarray, std: float, rows: float
    ) -> list[JsonObject]:
        """Return the table of a dependency, or where some keys are too rare an implication for each value of the others."""
        key, other = self._columns[candidate.a], self._columns[candidate.b]
        values, largest = numbers.argmax(axis=1), numbers.max(axis=1)
        # Of as many cells as there are, none of noise alone is so large.
        bar = max(0.5, std * float(norm.isf(0.01 / numbers.size)))
        clear = largest > bar
        second = np.sort(numbers, axis=1)[:, -2]
        clear &= second <= np.maximum(bar, TOLERANCE * largest)
        if not clear.any():
            return []
        wrong = float((numbers.sum(axis=1) - largest)[clear].sum())
        spread = std * math.sqrt(float(clear.sum()) * (other.size - 1))
        if wrong > 2 * spread + TOLERANCE * float(largest[clear].sum()):
            return []
        tabular = not _continuous(key) and not _continuous(other)
        if clear.all() and tabular:
            table = [[_value(key, j), _value(other, int(values[j]))] for j in range(key.size)]
            rule = {"derive": other.name, "from": key.name, "table": table}
            return [self._with_share(rule, wrong, spread, rows)]
        out = []
        for value in np.unique(values[clear]):
            keys = np.flatnonzero(clear & (values == value))
            if _continuous(key) and len(keys) != keys[-1] - keys[0] + 1:
                continue
            condition = (
                _values(key, int(keys[0]), int(keys[-1]))
                if _continuous(key)
                else [_value(key, int(j)) for j in keys]
            )
            then = _values(other, int(value), int(value))
            few = float((numbers[keys].sum(axis=1) - largest[keys]).sum())
            of_keys = std * math.sqrt(len(keys) * (other.size - 1))
            out.append(
                self._with_share(
                    {"if": {key.name: condition}, "then": {other.name: then}}, few, of_keys, rows
                )
            )
        return out

    def _with_share(self, rule: JsonObject, broken: float, std: float, rows: float) -> JsonObject:
        """Return a rule with the share of rows that break it and its 95% interval, by the noise ``std`` of their number."""
        ends = share_interval(broken, std, rows, self._rows_std)
        share = float(np.clip(broken / rows, 0, 1))
        low, high = (math.floor(1e4 * ends[0]) / 1e4, math.ceil(1e4 * ends[1]) / 1e4)
        return {"rule": rule, "share": round(share, 4), "interval": [low, high]}


def _continuous(column: Column) -> bool:
    """Return whether codes are cells, which a rule names by their ends."""
    return isinstance(column, Numeric | Temporal)


def _is_ordered(column: Column) -> bool:
    if isinstance(column, Ordinal):
        return column.value_type in ("int", "float")
    return _continuous(column)


def _surely_after(column: Column, other: Column) -> np.ndarray:
    """Return which codes of a column are of larger amounts than some of another, whatever the values; bool (size, size)."""
    lows, highs = column.code_amounts()[0], other.code_amounts()[1]
    after = np.zeros((column.size, other.size), dtype=bool)
    after[: len(lows), : len(highs)] = lows[:, None] > highs
    return after


def _value(column: Column, code: int) -> object:
    return None if code == column.cells else plain(column.categories[code])


def _values(column: Column, first: int, last: int) -> object:
    """Return codes from first to last as a rule writes them; the code after the cells is null."""
    if first == column.cells:
        return [None]
    if not _continuous(column):
        return [_value(column, code) for code in range(first, last + 1)]
    lows, highs = column.code_amounts()
    if isinstance(column, Temporal):
        return {"low": column.text_of(lows[first]), "high": column.text_of(highs[last])}
    integers = column.value_type == "int"
    ends = (float(lows[first]), float(highs[last]))
    return dict(zip(("low", "high"), (int(e) if integers else e for e in ends), strict=True))
