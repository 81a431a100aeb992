"""Profiles: what rows of the root have with all their records, where the records of a table alone do not say it.

Records of tables are counted one by one, which leaves open how they add up over a root row. So some statistics are counted by
rows of the root:

- the number of rows in each table, in classes, and whether there is one, such as a death, by columns of the root;
- of tables with gaps, the time of the last row, by whether the root has a row in a table of which it has one at most, such as death;
- of codes that repeat (``repeats`` of :class:`tabsynth.schema.linked.TableKeys`), the first three different ones, in pairs of one
  and the next, and the share of root rows that has a code, which the selection of codes has released;
- of rows that matter (``events``), such as stays in hospital: which codes a root row has by the first of them, and the outcome:
  whether another one follows, and whether the root has a row in a table of which it has one at most, such as death.

Synthetic rows of the root are chosen by them: :mod:`tabsynth.synthesizers.linked.calibration`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tabsynth.encoding.derived import growing_starts
from tabsynth.encoding.gaps import GAP, from_gaps
from tabsynth.encoding.linked import GRID, CodedTable, LinkedEncoder
from tabsynth.encoding.rows import SharedRows

LEADING = 20  # codes of a sequence that are told apart
FIRSTS = 3  # different codes of a root row whose order is counted
# Codes by the first event that count fully: of more, the squares of the weights sum to 1.
MOST_CODES = 8
OUTCOMES = 5  # no event; one; more; one and an end; more and an end
# How shares of the budget of sets compare: pairs of codes have many cells. Those of outcomes are for each class of a column.
NUMBERS_WEIGHT, ORDER_WEIGHT, OUTCOMES_WEIGHT, TIMES_WEIGHT = 1.0, 11.0, 0.3, 1.5
# The variance of the noise is multiplied by this for counts of order, times and codes by outcome, whose signal is weak. On an OMOP database
# (three seeds, ε = 3), a factor of 3 for the order reduces its error from 0.074 to 0.067. A factor of 10 for codes by outcome raises the share of
# AUROC - 0.5 that mortality keeps from 0.86 to 0.91.
DOUBT = 4.0
MOST_TIMES = 40  # classes of the time of a last row
MOST_GROUPS = 12  # codes of a column of the root beside an outcome
Tables = Mapping[str, CodedTable]


@dataclass(frozen=True)
class ProfileColumn:
    """A column of the rows of profiles."""

    name: str
    size: int


class Profiles:
    """The profiles of the rows of the root of one linked schema.

    Parameters
    ----------
    encoder : LinkedEncoder

    Attributes
    ----------
    columns : list of ProfileColumn
        What a row of :meth:`rows` holds.
    sets : list of tuple of int
        The columns that are counted together.
    importance : list of float
        Of each set, how its share of the budget compares to those of others.
    doubt : list of float
        Of each set, the factor by which the variance of its noise is multiplied when chances are fitted.
    released : list of str
        Tables with codes of which the share of the root's rows that has each is released.
    sequence : str or None
        The one with the most codes, whose order is counted.
    codes : ndarray
        Its codes, whose presence by the first event is counted with the outcome.
    """

    def __init__(self, encoder: LinkedEncoder) -> None:
        self.encoder, schema = encoder, encoder.schema
        self.columns: list[ProfileColumn] = []
        self.sets: list[tuple[int, ...]] = []
        self.importance: list[float] = []
        self.doubt: list[float] = []
        deep = any(encoder.is_deep(name) for name in schema.names)
        self.classes = {name: _classes(encoder, name) for name in schema.names[1:] if deep}
        numbers = [
            self._add(ProfileColumn(f"rows of {name}", len(starts)), None, NUMBERS_WEIGHT)
            for name, starts in self.classes.items()
        ]
        ends = [j for j in numbers if self.columns[j].size == 2]
        self.timed = [
            (name, column)
            for name in schema.names[1:]
            for column in encoder.gaps[name]
            if ends and not encoder.is_deep(name)
        ]
        for name, dates in self.timed:
            size = min(encoder.encoders[name].schema[dates].size, MOST_TIMES)
            self._add(ProfileColumn(f"last {dates}", size + 1), ends, TIMES_WEIGHT, DOUBT)
        self.released = [name for name, of in encoder.once.items() if of.shares is not None]
        codes = {name: len(encoder.once[name].codes) for name in self.released}
        self.sequence = max(codes, key=codes.__getitem__, default=None)
        self.codes = np.zeros(0, dtype=np.int64)
        self.leading = self.codes
        if self.sequence is not None:
            self.codes, shares = self.share_of(self.sequence)
            self.leading = self.codes[np.argsort(-shares, kind="stable")[:LEADING]]
            previous: list[int] = []
            for n in range(FIRSTS):
                code = ProfileColumn(f"code {n + 1}", LEADING + 2)
                previous = [self._add(code, previous, ORDER_WEIGHT, DOUBT)]
        outcomes = list(ends)
        if encoder.events is not None:
            outcomes.append(self._add(ProfileColumn("outcome", OUTCOMES), None, NUMBERS_WEIGHT))
        self.root_columns = [
            (place, column)
            for place, column in enumerate(encoder.encoders[schema.root].schema.columns)
            if self.columns and (column.ordered or column.size <= MOST_GROUPS)
        ]
        for _, column in self.root_columns:
            groups = min(column.size, MOST_GROUPS)
            self._add(ProfileColumn(column.name, groups), outcomes, OUTCOMES_WEIGHT * groups)

    def _add(
        self,
        column: ProfileColumn,
        partners: Sequence[int] | None,
        importance: float,
        doubt: float = 1.0,
    ) -> int:
        """Add a column that is counted in a pair with each of some others, or by itself where these are None; return its number."""
        at = len(self.columns)
        self.columns.append(column)
        sets = [(at,)] if partners is None else [(j, at) for j in partners]
        self.sets += sets
        self.importance += [importance] * len(sets)
        self.doubt += [doubt] * len(sets)
        return at

    @property
    def sizes(self) -> list[int]:
        """The numbers of codes of the columns of :meth:`rows`."""
        return [column.size for column in self.columns]

    @property
    def item_sizes(self) -> list[int]:
        """The numbers of codes of the columns of :meth:`items`: codes, and outcomes of roots with an event."""
        return [len(self.codes), OUTCOMES - 1]

    @property
    def width(self) -> int:
        """The number of counts of :meth:`features`, those of released shares included."""
        of_sets = sum(math.prod(self.sizes[j] for j in columns) for columns in self.sets)
        of_items = math.prod(self.item_sizes) + len(self.codes) if self.has_items else 0
        return of_sets + of_items + len(self.released_shares()[0])

    @property
    def has_items(self) -> bool:
        """True if codes by the first event are counted: where they are in rows of the events' table, or of its children."""
        if self.encoder.events is None or self.sequence is None:
            return False
        return self.encoder.events[0] in self.encoder.schema.lineage(self.sequence)[-2:]

    def rows(self, tables: Tables) -> SharedRows:
        """Return the profile of each row of the root, shape (roots, columns).

        Formal guarantees
        -----------------
        A row of the root has one row here, which follows from its own records alone: it adds 1 to one cell of the counts of each
        set of columns, an L2 sensitivity of 1.
        """
        roots, parts = len(tables[self.encoder.schema.root].codes), list[np.ndarray]()
        for name, starts in self.classes.items():
            number = np.bincount(self.encoder.roots(name, tables), minlength=roots)
            parts.append(np.searchsorted(starts, number, side="right") - 1)
        parts += [self._last(name, column, tables, roots) for name, column in self.timed]
        if self.sequence is not None:
            parts += list(self._firsts(tables, roots).T)
        if self.encoder.events is not None:
            parts.append(self._outcomes(tables)[0])
        for place, column in self.root_columns:
            codes = tables[self.encoder.schema.root].codes[:, place]
            parts.append(codes * min(column.size, MOST_GROUPS) // column.size)
        return SharedRows(np.array(parts, dtype=np.int64).reshape(len(parts), roots).T)

    def items(self, tables: Tables) -> tuple[SharedRows, np.ndarray]:
        """Return for each row of the root with an event the codes by the first one, each with the outcome; and the roots that they are of.

        Formal guarantees
        -----------------
        Each of the k codes of a root row is another one, so it adds its weight to another cell. The weight is 1/√k, at most
        1/√8, rounded down to a multiple of 2⁻²⁰: an L2 sensitivity of 1.
        """
        (outcome, last), name = self._outcomes(tables), str(self.sequence)
        of, table = self.encoder.once[name], tables[name]
        roots = self.encoder.roots(name, tables)
        row = table.parent if self.encoder.is_deep(name) else np.arange(len(table.codes))
        index = np.full(self.encoder.columns(name)[of.place].size, -1)
        index[self.codes] = np.arange(len(self.codes))
        code = index[table.codes[:, of.place]]
        known = np.flatnonzero((code >= 0) & (outcome[roots] > 0) & (row <= last[roots]))
        cells = np.unique(np.column_stack([roots[known], code[known]]), axis=0)
        root = cells[:, 0]
        number = np.bincount(root, minlength=len(outcome))[root]
        weights = np.floor(GRID / np.sqrt(np.maximum(number, MOST_CODES))) / GRID
        return SharedRows(np.column_stack([cells[:, 1], outcome[root] - 1]), weights), root

    def _last(self, name: str, column: str, tables: Tables, roots: int) -> np.ndarray:
        """Return the class of a column in the last row of each root, a class of its own where there is none.

        It is that of the first row's value and all gaps, each in the middle of its cell.
        """
        table, schema = tables[name], self.encoder.encoders[name].schema
        of, gaps = schema[column], schema[f"{column}{GAP}"]
        amounts, after = (
            np.append(np.mean(c.code_amounts(), axis=0), 0.0)[
                table.codes[:, schema.names.index(c.name)]
            ]
            for c in (of, gaps)
        )
        amounts = from_gaps(of, amounts, after, table.parent, table.position)
        lows = of.code_amounts()[0]
        codes = np.searchsorted(lows[~np.isnan(lows)], amounts, side="right") - 1
        out = np.full(roots, min(of.size, MOST_TIMES))
        out[table.parent] = codes * min(of.size, MOST_TIMES) // of.size  # the last row counts
        return out

    def _firsts(self, tables: Tables, roots: int) -> np.ndarray:
        """Return the first different codes of each root: a leading one, another one, or none; shape (roots, FIRSTS)."""
        name = str(self.sequence)
        of, table = self.encoder.once[name], tables[name]
        labels = np.full(self.encoder.columns(name)[of.place].size, LEADING)
        labels[self.leading] = np.arange(len(self.leading))
        new = np.flatnonzero(table.codes[:, of.place] != of.again)
        root = self.encoder.roots(name, tables)[new]
        place = np.arange(len(new)) - np.searchsorted(root, root)
        out = np.full((roots, FIRSTS), LEADING + 1)
        early = place < FIRSTS
        out[root[early], place[early]] = labels[table.codes[new[early], of.place]]
        return out

    def _outcomes(self, tables: Tables) -> tuple[np.ndarray, np.ndarray]:
        """Return the outcome of each root, 0 where it has no event; and its last row by its first event, a number of a row of the events' table."""
        assert self.encoder.events is not None
        name, place, codes = self.encoder.events
        table, schema = tables[name], self.encoder.schema
        roots = len(tables[schema.root].codes)
        at = np.flatnonzero(np.isin(table.codes[:, place], codes))
        number = np.bincount(table.parent[at], minlength=roots)
        first = np.full(roots, -1)
        first[table.parent[at][::-1]] = at[::-1]
        ended = np.zeros(roots, dtype=bool)
        for child in schema.children(schema.root):
            if self.encoder.most(child) == 1:
                ended[tables[child].parent] = True
        return np.where(number > 0, 1 + (number > 1) + 2 * ended, 0), first

    def features(self, tables: Tables) -> sp.csr_matrix:
        """Return what each row of the root adds to each count of profiles, and then to each released share; shape (roots, counts).

        The counts are those of :attr:`sets`, one after the other, of items, of these with any outcome, and of released shares of codes.
        """
        rows = self.rows(tables).codes
        n, blocks = len(rows), list[sp.csr_matrix]()
        for columns in self.sets:
            sizes = [self.sizes[j] for j in columns]
            cells = np.ravel_multi_index([rows[:, j] for j in columns], sizes)
            blocks.append(_matrix(np.ones(n), np.arange(n), cells, (n, math.prod(sizes))))
        if self.has_items:
            items, root = self.items(tables)
            cells = np.ravel_multi_index(items.codes.T, self.item_sizes)
            shape = (n, math.prod(self.item_sizes))
            assert items.shares is not None
            of_items = _matrix(items.shares, root, cells, shape)
            blocks += [of_items, sp.csr_matrix(of_items @ self._any_outcome())]
        blocks += [self.presence(name, tables) for name in self.released]
        return sp.hstack(blocks, format="csr")

    def _any_outcome(self) -> sp.csr_matrix:
        """Return the sums over outcomes, shape (items, codes)."""
        codes, outcomes = self.item_sizes
        return sp.kron(sp.eye(codes), np.ones((outcomes, 1)), format="csr")

    def targets(self, counts: np.ndarray, stds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return noisy counts of sets and items, and those of items with any outcome; and how far each may be missed.

        Codes by the first event are trusted more than what outcomes add to them.
        """
        of_sets = [math.prod(self.sizes[j] for j in columns) for columns in self.sets]
        doubt = np.full(len(counts), DOUBT)
        doubt[: sum(of_sets)] = np.repeat(self.doubt, of_sets)
        missed = stds * np.sqrt(doubt)
        if not self.has_items:
            return counts, missed
        items = slice(sum(of_sets), None)
        sums, squares = (x[items] @ self._any_outcome() for x in (counts, stds**2))
        return np.concatenate([counts, sums]), np.concatenate([missed, np.sqrt(squares)])

    def presence(self, name: str, tables: Tables) -> sp.csr_matrix:
        """Return whether rows of the root have each code of a table whose share is released, shape (roots, codes)."""
        code = tables[name].codes[:, self.encoder.once[name].place]
        shape = (
            len(tables[self.encoder.schema.root].codes),
            self.encoder.columns(name)[self.encoder.once[name].place].size,
        )
        has = _matrix(np.ones(len(code)), self.encoder.roots(name, tables), code, shape)
        codes, _ = self.share_of(name)
        return has[:, codes].minimum(1.0)

    def share_of(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes of a table whose shares are released, and these."""
        of = self.encoder.once[name]
        assert of.shares is not None
        return of.codes[of.shares > 0], of.shares[of.shares > 0]

    def released_shares(self) -> tuple[np.ndarray, float]:
        """Return the released shares of the root's rows that have a code, in the order of :meth:`features`, and the noise on each."""
        shares = [self.share_of(name)[1] for name in self.released]
        std = max((self.encoder.once[name].std for name in self.released), default=0.0)
        return np.concatenate([np.zeros(0), *shares]), std


def _classes(encoder: LinkedEncoder, name: str) -> np.ndarray:
    """Return the least number of rows of each class, for the rows of a table that one row of the root has."""
    largest = math.prod(encoder.most(table) for table in encoder.schema.lineage(name)[1:])
    return np.array(growing_starts(largest))


def _matrix(
    values: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]
) -> sp.csr_matrix:
    return sp.csr_matrix((values, (rows, columns)), shape=shape)
