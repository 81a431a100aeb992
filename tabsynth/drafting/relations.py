"""Relations between columns: candidates from a schema alone, what rows say of each, and the rules that they become.

There are two forms: one column is a function of another, and the values of one are at most those of another.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os.path import commonprefix
from statistics import NormalDist

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth.schema.categorical import Ordinal
from tabsynth.schema.cells import plain
from tabsynth.schema.column import Column
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.temporal import Temporal

RANGE = 3.0  # of what one row adds to a score: from -2 to 1
BROKEN = -2.0  # what a row that breaks a candidate adds to its score
TOLERANCE = 0.005  # of the rows that a relation is about, which may break it
SAME_UNIT = 0.25  # of the range of two columns of numbers together, which both have if they may be of one unit
LIKE = 3  # letters with which the names of columns that are likely related begin or end alike
SOME = 3.0  # standard deviations of its noise: a number of rows by difference above says that differences are so large
FURTHER = 2  # cells of larger differences
MOST_VALUES = 2_000  # of the given column of a dependency
MOST_CELLS = 2**15  # of the joint counts of two columns; a pair of more is no dependency
MOST_PAIRS = 6_000  # of columns that are looked at: likely ones first, then neighbours


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows as category codes and, of columns that have an order, as amounts; NaN in others, for null, and for times on a bound.

    Attributes
    ----------
    codes : ndarray, shape (n, columns), int64
    amounts : ndarray, shape (n, columns), float64
    """

    codes: np.ndarray
    amounts: np.ndarray

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)

    @classmethod
    def of(cls, table: pd.DataFrame, columns: Sequence[Column]) -> "CodedRows":
        """Return the rows of a table that fits the columns."""
        codes = np.empty((len(table), len(columns)), dtype=np.int64, order="F")
        amounts = np.full((len(table), len(columns)), np.nan, order="F")
        for j, column in enumerate(columns):
            codes[:, j] = column.encode(table[column.name])
            if is_ordered(column):
                amounts[:, j] = column.amounts(table[column.name])
            if isinstance(column, Temporal):  # what is on a bound may be beyond it
                amounts[np.isin(amounts[:, j], column.units.bounds), j] = np.nan
        return cls(codes, amounts)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A relation that may hold.

    Attributes
    ----------
    form : {"dependency", "order"}
    columns : tuple of int
        Two: of a dependency the given column and the other, of an order the smaller and the larger.
    likely : bool
        Whether names or kinds of the columns suggest it, before any row is read.
    """

    form: str
    columns: tuple[int, ...]
    likely: bool = False

    @property
    def kind(self) -> tuple[str | int, ...]:
        """The facts that candidates share of which one is selected: a column depends on one other."""
        columns = self.columns[1:] if self.form == "dependency" else self.columns
        return (self.form, *columns)


class Candidates:
    """The candidates of a schema's columns.

    Parameters
    ----------
    columns : sequence of Column
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns, self.sizes = columns, [column.size for column in columns]
        names = [column.name for column in columns]
        pairs = [
            (a, b, _alike([names[a], names[b]]))
            for a, b in itertools.permutations(range(len(columns)), 2)
        ]
        pairs.sort(key=lambda pair: (not pair[2], abs(pair[0] - pair[1])))
        self.pairs = pairs[:MOST_PAIRS]
        self._coarse = {
            j
            for j, column in enumerate(columns)
            if _continuous(column) and not np.array_equal(*column.code_amounts())
        }
        self._ends = {
            j: (float(np.min(column.code_amounts()[0])), float(np.max(column.code_amounts()[1])))
            for j, column in enumerate(columns)
            if is_ordered(column)
        }

    @cached_property
    def dependencies(self) -> list[Candidate]:
        """The pairs of which the second column, whose codes are single values, may be a function of the first."""
        out = []
        for a, b, likely in self.pairs:
            size, other = self.sizes[a], self.sizes[b]
            small = size <= MOST_VALUES and size * other <= MOST_CELLS
            if small and size > 1 and other > 1 and b not in self._coarse:
                out.append(Candidate("dependency", (a, b), likely))
        return out

    @cached_property
    def orders(self) -> list[Candidate]:
        """The pairs of dates and times of one unit, or of numbers with similar bounds, which may have an order."""
        out = []
        for a, b, likely in self.pairs:
            key, other = self.columns[a], self.columns[b]
            if a not in self._ends or b not in self._ends or min(self.sizes[a], self.sizes[b]) < 3:
                continue
            times = isinstance(key, Temporal)
            if times or isinstance(other, Temporal):
                unit = (key.kind, getattr(key, "resolution", None))
                if unit != (other.kind, getattr(other, "resolution", None)):
                    continue
            elif self._overlap(a, b) < SAME_UNIT:
                continue
            out.append(Candidate("order", (a, b), likely or times))
        return out

    def _overlap(self, a: int, b: int) -> float:
        """Return which part of the range of two columns together is in the range of both."""
        lows, highs = zip(self._ends[a], self._ends[b], strict=True)
        return (min(highs) - max(lows)) / max(max(highs) - min(lows), 1e-300)

    # Scores of rows. One row more adds a number from -2 to 1 to each.

    def scores(self, rows: CodedRows) -> Iterator[tuple[list[Candidate], np.ndarray]]:
        """Yield candidates with their scores.

        Formal guarantees
        -----------------
        Of each score the docstring of its function says why one row more changes it by a number in [-2, 1].
        """
        for candidates, gain in (
            (self.dependencies, self._gain_of_dependency),
            (self.orders, self._gain_of_order),
        ):
            yield candidates, np.array([gain(rows, c.columns) for c in candidates])

    def _gain_of_dependency(self, rows: CodedRows, columns: tuple[int, ...]) -> float:
        """Return the rows that the commonest value for each key predicts, beyond those that the commonest of all does, less those that it does not predict.

        One row more adds 1 to the rows, and 0 or 1 to each of the two numbers that are predicted: -2, -1, 0 or 1 together.
        """
        counts = self._counts(rows, columns)
        right = counts.max(axis=1).sum()
        return float(right - counts.sum(axis=0).max() - (len(rows) - right))

    def _counts(self, rows: CodedRows, columns: tuple[int, ...]) -> np.ndarray:
        """Return joint counts of two columns by their codes."""
        a, b = columns
        size, other = self.sizes[a], self.sizes[b]
        keys = rows.codes[:, a] * other + rows.codes[:, b]
        return np.bincount(keys, minlength=size * other).reshape(size, other)

    def _gain_of_order(self, rows: CodedRows, columns: tuple[int, ...]) -> float:
        """Return the rows that keep the order and might have broken it, less twice those that break it: 1, 0 or -2 for each row."""
        keeping, broken = self._sides_of_order(rows, columns)
        return float(keeping.sum() + BROKEN * broken.sum())

    def _sides_of_order(
        self, rows: CodedRows, columns: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows keep an order, and which break it.

        A row with the least value of the larger column's range in the smaller column keeps it whatever the other value is, so
        that it says nothing; and the other way round.
        """
        a, b = columns
        smaller, larger = rows.amounts[:, a], rows.amounts[:, b]
        open_ends = (smaller > self._ends[b][0]) & (larger < self._ends[a][1])
        return open_ends & (smaller <= larger), smaller > larger

    # Counts of selected candidates, and their rules.

    def joint_counts(self, rows: CodedRows, candidate: Candidate) -> np.ndarray:
        """Return the counts of a dependency by the codes of both columns, to each of which a row adds at most 1 in all."""
        return self._counts(rows, candidate.columns).astype(float)

    def sides(
        self, rows: CodedRows, candidate: Candidate, function: np.ndarray | None
    ) -> np.ndarray:
        """Return numbers of rows that keep a candidate, and last of those that break it; a row is in one of them at most.

        Of dates and times there is a number for each cell of the difference that :meth:`_difference_edges` has.
        ``function``: of a dependency, as :meth:`function` returns it.
        """
        if candidate.form == "order":
            keeping, broken = self._sides_of_order(rows, candidate.columns)
            edges = self._difference_edges(candidate)
            if edges is not None:
                smaller, larger = (rows.amounts[:, j] for j in candidate.columns)
                apart = (larger - smaller)[larger >= smaller]
                return np.append(np.histogram(apart, edges)[0], broken.sum()).astype(float)
        else:
            assert function is not None
            a, b = candidate.columns
            expected = function[rows.codes[:, a]]
            keeping = expected == rows.codes[:, b]
            broken = (expected >= 0) & ~keeping
        return np.array([keeping.sum(), broken.sum()], dtype=float)

    def function(self, candidate: Candidate, counts: np.ndarray, std: float) -> np.ndarray | None:
        """Return by noisy joint counts the code of the second column for each code of the first, -1 where they do not say; None of a constant.

        Neighbouring cells of an ordered column have the same code unless their counts clearly say otherwise, so that rare
        cells take part.
        """
        key = self.columns[candidate.columns[0]]
        # Of as many cells as there are, none of noise alone is so large.
        bar = max(0.5, -std * NormalDist().inv_cdf(0.01 / counts.size))
        parts = [np.array([j]) for j in range(key.size)]
        if is_ordered(key) and key.cells > 1:
            path = _steps(counts[: key.cells], 2 * bar)
            starts = np.flatnonzero(np.diff(path)) + 1
            parts = [*np.split(np.arange(key.cells), starts), *parts[key.cells :]]
        function = np.full(key.size, -1)
        for part in parts:
            sums = counts[part].sum(axis=0)
            second, largest = np.sort(sums)[-2:]
            limit = bar * math.sqrt(len(part))
            if largest > limit and second <= max(limit, TOLERANCE * largest):
                function[part] = int(sums.argmax())
        return function if len({*function.tolist()} - {-1}) > 1 else None

    def _difference_edges(self, candidate: Candidate) -> np.ndarray | None:
        """Return edges of cells of the difference of two dates or times, by which the later one can be modelled; else None."""
        smaller = self.columns[candidate.columns[0]]
        if candidate.form != "order" or smaller.nulls or not isinstance(smaller, Temporal):
            return None
        (least, highest), (_, last) = (self._ends[j] for j in candidate.columns)
        if last < highest:  # the sum of both might be beyond it
            return None
        powers = 2.0 ** np.arange(2, math.ceil(math.log2(max(last - least, 1))) + 2)
        return np.concatenate([[0, 1, 2, 3], np.sort([*powers, *powers * 1.5])])

    def difference(
        self, candidate: Candidate, numbers: np.ndarray, std: float
    ) -> JsonObject | None:
        """Return facts of the difference of two dates or times from noisy numbers of rows by its cells, if it can be modelled."""
        edges = self._difference_edges(candidate)
        clear = np.flatnonzero(numbers > SOME * std)
        if edges is None or not len(clear):
            return None
        # Cells after the last that is clear may have rows, which a fit counts with less noise.
        last = min(int(clear[-1]) + 1 + FURTHER, len(numbers))
        breaks = [int(edge) for edge in edges[1 : last + 1]]
        return {"high": breaks[-1] - 1, "breaks": breaks[:-1], "clip": True}

    def rules(
        self,
        candidate: Candidate,
        function: np.ndarray | None,
        difference: JsonObject | None = None,
    ) -> list[JsonObject]:
        """Return a candidate as rules of a schema, with the function of a dependency, and the difference of an order."""
        columns = [self.columns[j] for j in candidate.columns]
        names = [column.name for column in columns]
        if candidate.form == "order":
            return [{"order": names} | ({} if difference is None else {"difference": difference})]
        assert function is not None
        key, other = columns
        if (function >= 0).all() and not (_continuous(key) or _continuous(other)):
            table = [[_value(key, j), _value(other, int(v))] for j, v in enumerate(function)]
            return [{"derive": other.name, "from": key.name, "table": table}]
        out = []
        for code in sorted({*function.tolist()} - {-1}):
            keys = np.flatnonzero(function == code)
            then = _values(other, code, code)
            if not _continuous(key):
                conditions: list[object] = [[_value(key, int(j)) for j in keys]]
            else:  # of cells a rule names a range, and null alone
                apart = np.flatnonzero((np.diff(keys) > 1) | (keys[1:] >= key.cells)) + 1
                conditions = [
                    _values(key, int(part[0]), int(part[-1])) for part in np.split(keys, apart)
                ]
            out += [{"if": {key.name: c}, "then": {other.name: then}} for c in conditions]
        return out


def _steps(counts: np.ndarray, penalty: float) -> np.ndarray:
    """Return for each row of counts a column, so that the sum of their counts less a penalty for each change is largest."""
    best, back = counts[0].copy(), np.zeros(counts.shape, dtype=np.int64)
    for j in range(1, len(counts)):
        change = best.max() - penalty
        back[j] = np.where(best >= change, np.arange(len(best)), best.argmax())
        best = np.maximum(best, change) + counts[j]
    path = np.empty(len(counts), dtype=np.int64)
    path[-1] = best.argmax()
    for j in range(len(counts) - 1, 0, -1):
        path[j - 1] = back[j, path[j]]
    return path


def _alike(names: Sequence[str]) -> bool:
    """Return whether all names begin or end with the same letters."""
    lower = [name.lower() for name in names]
    ends = [name[::-1] for name in lower]
    return max(len(commonprefix(lower)), len(commonprefix(ends))) >= LIKE  # noqa: RUF071


def _continuous(column: Column) -> bool:
    """Return whether codes are cells, which a rule names by their ends."""
    return isinstance(column, Numeric | Temporal)


def is_ordered(column: Column) -> bool:
    """Return whether the column has numbers, dates or times."""
    if isinstance(column, Ordinal):
        return column.value_type in ("int", "float")
    return _continuous(column)


def _value(column: Column, code: int) -> object:
    """Return the value of a code as a rule writes it: after those of cells come reasons for missing, then null."""
    if code < column.cells:
        return plain(column.categories[code])
    return [*column.reasons, None][code - column.cells]


def _values(column: Column, first: int, last: int) -> object:
    """Return codes from first to last as a rule writes them."""
    if first >= column.cells or not _continuous(column):
        return [_value(column, code) for code in range(first, last + 1)]
    lows, highs = column.code_amounts()
    if isinstance(column, Temporal):
        return {"low": column.text_of(lows[first]), "high": column.text_of(highs[last])}
    integers = column.value_type == "int"
    ends = (round(float(lows[first]), 9), round(float(highs[last]), 9))
    return dict(zip(("low", "high"), (int(e) if integers else e for e in ends), strict=True))
