"""Rows that agree with declared tables: the cells of the tables first, then the rest of each row from the mixture given its cell.

The first table is rounded as a whole: each of its counts, at each level, is the fitted one rounded down or up. Of each further table,
the columns that no table before it has are assigned to the rows: iterative proportional fitting (Deming and Stephan 1940) takes what
the mixture expects in each cell of both to their counts, and the result is rounded so that the counts of both are kept. Where a further
table shares columns with those before it, its counts are rounded within the numbers of rows that these have there, and what is left of
a count is added to the next one of the same sum over the hierarchy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.noise.counts import number_of
from tabsynth.schema.schema import Zero
from tabsynth.synthesizers.margnet.declared import (
    DeclaredTable,
    TableCounts,
    round_within,
    systematic,
)
from tabsynth.synthesizers.mixture import (
    CELLS,
    LEAST_CHANCE,
    Box,
    Mixture,
    disjoint_boxes,
    host,
)

ROUNDS = 30  # of iterative proportional fitting
LEAST_COUNT = 1e-9  # of a possible cell of a further table, whose sums are taken to those of others
REDRAWN = 50  # draws of rows that break a rule, within their cells


def expected_table(table: DeclaredTable, mixture: Mixture) -> np.ndarray:
    """Return the probability of each cell in a mixture, shape ``table.shape``."""
    matrix, prior = mixture.matrix(), mixture.prior()
    blocks = [mixture.layout.blocks[j] for j in table.columns]
    masses = [
        _parts(group) @ matrix[:, block.start : block.stop].T
        for group, block in zip(table.groups, blocks, strict=True)
    ]
    even = np.full(len(matrix), 1 / len(matrix))
    cell_masses = _combine_masses(masses, even if prior is None else prior).reshape(table.shape)
    return np.asarray(cell_masses / cell_masses.sum())


def fitted_tables(
    tables: Sequence[TableCounts], rows: float, mixture: Mixture, zeros: Sequence[Zero] = ()
) -> list[np.ndarray]:
    """Return fitted counts of the cells of each table; sums that a table shares with those before it are theirs.

    Noisy counts are moved towards those of the mixture as far as noise explains their distance.
    """
    out = list[np.ndarray]()
    for number, counts in enumerate(tables):
        table = counts.table
        values = counts.fit(rows, zeros, rows * expected_table(table, mixture))
        earlier = [
            (shared_sums(other.table, table), sums)
            for other, sums in zip(tables[:number], out, strict=True)
            if set(other.table.columns) & set(table.columns)
        ]
        if earlier:
            possible = table.possible(zeros)
            values = np.where(possible, np.maximum(values, LEAST_COUNT), 0.0)
        for _ in range(ROUNDS if len(earlier) > 1 else 1):
            for (of_earlier, of_table), sums in earlier:
                target_sums = np.bincount(of_earlier.ravel(), sums.ravel())
                current_sums = np.bincount(of_table.ravel(), values.ravel(), len(target_sums))
                ratio = np.divide(
                    target_sums, current_sums, out=np.ones_like(target_sums), where=current_sums > 0
                )
                values = values * ratio[of_table]
        out.append(values)
    return out


def shared_sums(
    first_table: DeclaredTable, second_table: DeclaredTable
) -> tuple[np.ndarray, np.ndarray]:
    """Assign to each cell of two tables the number of the sum over the columns that they share, in the finest groups coarser than both's."""
    first, second = np.zeros(first_table.shape, int), np.zeros(second_table.shape, int)
    for j in sorted(set(first_table.columns) & set(second_table.columns)):
        axes = first_table.columns.index(j), second_table.columns.index(j)
        groups = first_table.groups[axes[0]], second_table.groups[axes[1]]
        labels = label_components(*groups, (number_of(groups[0]), number_of(groups[1])))
        number = int(labels[0].max()) + 1
        first = first * number + labels[0][np.indices(first_table.shape)[axes[0]]]
        second = second * number + labels[1][np.indices(second_table.shape)[axes[1]]]
    return first, second


def label_components(
    first: np.ndarray, second: np.ndarray, sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return components of a graph between so many nodes on two sides, by the ends of its edges: for each node of either side its component."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(first)), (first, second + sizes[0])), shape=(sum(sizes),) * 2)
    labels = connected_components(graph, directed=False)[1]
    return labels[: sizes[0]], labels[sizes[0] :]


@dataclass(frozen=True, eq=False)
class Assigned:
    """Cells of all tables so far, and the number of rows of each.

    Attributes
    ----------
    parts : dict of int to ndarray, shape (parts, size)
        By column, which of its codes are in each part.
    index : dict of int to ndarray, shape (cells,)
        By column, the part of each cell.
    counts : ndarray, shape (cells,), int
    """

    parts: dict[int, np.ndarray]
    index: dict[int, np.ndarray]
    counts: np.ndarray

    def box(self, cell: int) -> Box:
        """Return what a cell allows of each column."""
        return {j: self.parts[j][of[cell]] for j, of in self.index.items()}


# Of a column that two tables share: the probability of each group of the second one given each part of the first one, shape
# (parts, groups); the part of each cell of the first one; and the group of each cell of the second one.
Shared = tuple[np.ndarray, np.ndarray, np.ndarray]


class TabulatedRows:
    """A sampler of category codes: from a number to as many rows, which agree with declared tables.

    Parameters
    ----------
    mixture : Mixture
    encoder : TableEncoder
    tables : sequence of TableCounts
    rows : float
        The number of rows of the fit.
    within : Box
        A condition that all rows satisfy. The tables are then those of the rows that do, as far as the mixture says which.
    rounded : bool
        As of :meth:`Mixture.sample_cells`.
    """

    def __init__(
        self,
        mixture: Mixture,
        encoder: TableEncoder,
        tables: Sequence[TableCounts],
        rows: float,
        within: Box,
        *,
        rounded: bool = True,
    ) -> None:
        self.mixture, self.encoder, self.within, self.rounded = mixture, encoder, within, rounded
        self.tables = [counts.table for counts in tables]
        matrix = np.maximum(mixture.matrix(), LEAST_CHANCE)
        blocks = [matrix[:, block.start : block.stop] for block in mixture.layout.blocks]
        self.blocks = [block / block.sum(axis=1, keepdims=True) for block in blocks]
        prior = mixture.prior()
        self.prior = np.full(len(matrix), 1 / len(matrix)) if prior is None else prior
        self.fitted = fitted_tables(tables, rows, mixture, encoder.zeros)
        if within:
            self.fitted = [
                values * self._conditional(table)
                for table, values in zip(self.tables, self.fitted, strict=True)
            ]
            if not self.fitted[0].sum():
                raise InputError(
                    "The condition has no row in the fitted tables; give it more values."
                )

    def __call__(self, rows: int, rng: torch.Generator) -> np.ndarray:
        """Return category codes, shape (rows, columns) int64."""
        drawn = host(rng)
        index = self._draw(self._cells(rows, drawn), drawn, rounded=self.rounded)
        for _ in range(REDRAWN if self.encoder.whole.has_rules else 0):
            wrong = np.flatnonzero(self.encoder.rules.violations(index))
            if not len(wrong):
                break
            index[wrong] = self._redraw(index[wrong], drawn)
        return index

    def _masses(self, j: int, parts: np.ndarray) -> np.ndarray:
        """Return the probability of each part of a column in each component, shape (parts, components)."""
        allowed = parts * self.within.get(j, 1.0)
        return np.asarray(allowed @ self.blocks[j].T)

    def _conditional(self, table: DeclaredTable) -> np.ndarray:
        """Return the probability of the condition in each cell of a table, by the mixture."""
        restricted_prior = self.prior.copy()
        for j in set(self.within) - set(table.columns):
            restricted_prior *= self.blocks[j] @ self.within[j]
        parts = [_parts(group) for group in table.groups]
        free = [part @ self.blocks[j].T for j, part in zip(table.columns, parts, strict=True)]
        cut = [self._masses(j, part) for j, part in zip(table.columns, parts, strict=True)]
        free_masses, cut_masses = (
            _combine_masses(free, self.prior),
            _combine_masses(cut, restricted_prior),
        )
        return np.divide(
            cut_masses, free_masses, out=np.zeros_like(cut_masses), where=free_masses > 0
        ).reshape(table.shape)

    def _cells(self, rows: int, rng: np.random.Generator) -> Assigned:
        """Return the cells of all tables, with their numbers of rows."""
        first = self.tables[0]
        counts = round_within(self.fitted[0], first, rows, rng).ravel()
        filled = np.flatnonzero(counts)
        where = np.unravel_index(filled, first.shape)
        parts = {j: _parts(g) for j, g in zip(first.columns, first.groups, strict=True)}
        assigned = Assigned(parts, dict(zip(first.columns, where, strict=True)), counts[filled])
        for table, values in zip(self.tables[1:], self.fitted[1:], strict=True):
            assigned = self._assign(assigned, table, values, rng)
        return assigned

    def _assign(
        self,
        assigned: Assigned,
        table: DeclaredTable,
        values: np.ndarray,
        rng: np.random.Generator,
    ) -> Assigned:
        """Return cells of one more table for rows that have cells of others."""
        component = self._components(assigned, table.columns)
        grid = [axis.ravel() for axis in np.indices(table.shape)]
        shared = self._shared_columns(assigned, table, grid)
        # Columns that are new follow from the component; of those that are shared, cells and groups that overlap go together.
        new = [
            (self._masses(j, _parts(group)).T, number)
            for j, group, number in zip(table.columns, table.groups, grid, strict=True)
            if j not in assigned.index
        ]
        of_cells, of_own = _overlapping(shared, len(assigned.counts), values.size)
        # What rounding leaves of a count is added to the next one of the same sum over the hierarchy.
        due = values.ravel() * (assigned.counts.sum() / max(values.sum(), LEAST_CHANCE))
        line = np.tile(np.arange(values.size // table.shape[0]), table.shape[0])
        remaining = np.zeros(int(line.max()) + 1)
        assignments = list[tuple[np.ndarray, np.ndarray, np.ndarray]]()
        for label in _in_order(table, of_own):
            table_cells = np.flatnonzero(of_own == label)
            chance = np.ones((len(self.prior), len(table_cells)))
            for mass, number in new:
                chance *= mass[:, number[table_cells]]
            of_line = np.bincount(line[table_cells], due[table_cells], len(remaining))[
                line[table_cells]
            ]
            ahead = remaining[line[table_cells]] * np.divide(
                due[table_cells], of_line, out=0 * of_line, where=of_line > 0
            )
            remaining -= np.bincount(line[table_cells], ahead, len(remaining))
            # In parts that there is room for; each has its share of the counts.
            every = rng.permutation(np.flatnonzero(of_cells == label))
            rows = assigned.counts[every].sum()
            if not rows:
                remaining += np.bincount(
                    line[table_cells], ahead + due[table_cells], len(remaining)
                )
                continue
            for cells in np.array_split(every, -(-len(every) * len(table_cells) // CELLS)):
                weights = component[cells] @ chance
                for share, first, second in shared:
                    weights *= share[np.ix_(first[cells], second[table_cells])]
                own_rows = assigned.counts[cells]
                target = ahead + due[table_cells] * (own_rows.sum() / rows)
                counts = _joint_counts(weights, own_rows, np.maximum(target, 0), rng)
                ahead = target - counts.sum(axis=0)
                at = np.nonzero(counts)
                assignments.append((cells[at[0]], table_cells[at[1]], counts[at]))
            remaining += np.bincount(line[table_cells], ahead, len(remaining))
        cells, table_cells, counts = (
            np.concatenate(part) for part in zip(*assignments, strict=True)
        )
        return _join(assigned, cells, table, [number[table_cells] for number in grid], counts)

    def _shared_columns(
        self, assigned: Assigned, table: DeclaredTable, grid: Sequence[np.ndarray]
    ) -> list[Shared]:
        """Return the columns that one more table shares with those before it, by what the mixture expects in each part and group."""
        out = list[Shared]()
        for j, group, number in zip(table.columns, table.groups, grid, strict=True):
            if j in assigned.index:
                common = assigned.parts[j] @ (_parts(group) * (self.blocks[j].T @ self.prior)).T
                share = common / np.maximum(common.sum(axis=1, keepdims=True), LEAST_CHANCE)
                out.append((share, assigned.index[j], number))
        return out

    def _components(self, assigned: Assigned, columns: Sequence[int]) -> np.ndarray:
        """Return the probability of each component in each cell, shape (cells, components).

        It is given the condition, but for what that says of ``columns`` which the cells do not have.
        """
        tiny = np.finfo(float).tiny
        prior = self.prior.copy()
        for j in set(self.within).difference(assigned.index, columns):
            prior *= self.blocks[j] @ self.within[j]
        logs = np.log(np.maximum(prior, tiny))[None]
        for j, of in assigned.index.items():
            logs = logs + np.log(np.maximum(self._masses(j, assigned.parts[j]), tiny))[of]
        component = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(component / component.sum(axis=1, keepdims=True))

    def _draw(self, assigned: Assigned, rng: np.random.Generator, *, rounded: bool) -> np.ndarray:
        """Return rows of which each cell has its number."""
        boxes, of = list[Box](), list[int]()
        for cell in range(len(assigned.counts)):
            box = _both(assigned.box(cell), self.within)
            pieces = disjoint_boxes(self.encoder.zeros, box) if self.encoder.zeros else None
            boxes += pieces or [box]
            of += [cell] * len(pieces or [box])
        return self.mixture.sample_cells(boxes, np.array(of), assigned.counts, rng, rounded=rounded)

    def _redraw(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return other rows of the same cells of all tables, in their order."""
        cells = np.stack([table.cells(rows) for table in self.tables], axis=1)
        different, of, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
        parts = dict[int, np.ndarray]()
        index = dict[int, np.ndarray]()
        for number, table in enumerate(self.tables):
            where = np.unravel_index(different[:, number], table.shape)
            for j, group, at in zip(table.columns, table.groups, where, strict=True):
                allowed = _parts(group)[at]
                parts[j] = parts[j] * allowed if j in parts else allowed
                index[j] = np.arange(len(different))
        drawn = self._draw(Assigned(parts, index, counts), rng, rounded=False)
        redrawn_cells = np.stack([table.cells(drawn) for table in self.tables], axis=1)
        order = np.lexsort(redrawn_cells.T[::-1])
        out = np.empty_like(drawn)
        out[np.argsort(of.ravel(), kind="stable")] = drawn[order]
        return out


def _overlapping(
    shared: Sequence[Shared], cells: int, new_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of so many cells of two sides, equal where these may go together: where parts and groups of each column are connected."""
    of_cells, of_own = np.zeros(cells, int), np.zeros(new_cells, int)
    for share, first, second in shared:
        edges = np.nonzero(share)
        first_labels, second_labels = label_components(
            edges[0], edges[1], (share.shape[0], share.shape[1])
        )
        of_cells = of_cells * sum(share.shape) + first_labels[first]
        of_own = of_own * sum(share.shape) + second_labels[second]
    return of_cells, of_own


def _in_order(table: DeclaredTable, of_own: np.ndarray) -> list[int]:
    """Return the labels of the cells of a table, those of one group of its hierarchy after each other."""
    labels, cell = np.unique(of_own, return_index=True)
    first = np.unravel_index(cell, table.shape)[0]
    leaf, keys = np.zeros(table.shape[0], dtype=np.int64), [labels]
    for level in table.levels[:-1]:
        leaf[table.levels[0]] = level
        keys.append(leaf[first])
    return [int(label) for label in labels[np.lexsort(keys)]]


def _join(
    assigned: Assigned,
    cells: np.ndarray,
    table: DeclaredTable,
    groups: Sequence[np.ndarray],
    counts: np.ndarray,
) -> Assigned:
    """Return cells of all tables and one more: those numbered ``cells`` of the former, in these ``groups`` of the latter's columns."""
    parts, index = dict(assigned.parts), {j: of[cells] for j, of in assigned.index.items()}
    for j, group, number in zip(table.columns, table.groups, groups, strict=True):
        if j not in index:
            parts[j], index[j] = _parts(group), number
            continue
        both, numbers = np.unique(np.stack([index[j], number]), axis=1, return_inverse=True)
        index[j] = numbers.ravel()
        parts[j] = assigned.parts[j][both[0]] * _parts(group)[both[1]]
    return Assigned(parts, index, counts)


def _parts(group: np.ndarray) -> np.ndarray:
    """Return which codes are in each group, float, shape (groups, size)."""
    return np.equal.outer(np.arange(number_of(group)), group).astype(float)


def _both(first: Box, second: Box) -> Box:
    """Return what two boxes allow."""
    out: dict[int, np.ndarray] = dict(first)
    for j, allowed in second.items():
        out[j] = out[j] * allowed if j in out else np.asarray(allowed)
    return out


def _combine_masses(masses: Sequence[np.ndarray], prior: np.ndarray) -> np.ndarray:
    """Return the probability of all combinations of parts of columns, shape (combinations,), in a mixture with these shares."""
    sizes = [len(mass) for mass in masses]
    first = int(np.argmin([np.prod(sizes[:i]) + np.prod(sizes[i:]) for i in range(len(sizes))]))
    first_masses, second_masses = prior[None], np.ones((1, len(prior)))
    for mass in masses[:first]:
        first_masses = (first_masses[:, None] * mass[None]).reshape(-1, len(prior))
    for mass in masses[first:]:
        second_masses = (second_masses[:, None] * mass[None]).reshape(-1, len(prior))
    return np.asarray(first_masses @ second_masses.T).ravel()


def _joint_counts(
    weights: np.ndarray, rows: np.ndarray, columns: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return whole numbers with given row sums, and column sums that are given ones, scaled and rounded; near to fitted weights.

    Parameters
    ----------
    weights : ndarray, shape (m, n)
        Not negative; where it is 0, so is the result.
    rows : ndarray, shape (m,), int
    columns : ndarray, shape (n,)
        Not negative, not of the same sum.
    """
    total = int(rows.sum())
    if not columns.sum():
        columns = rows @ (weights / np.maximum(weights.sum(axis=1, keepdims=True), LEAST_CHANCE))
    column_sums = systematic(columns, total, rng, np.arange(len(columns)))
    fitted = weights * (rows / np.maximum(weights.sum(axis=1), np.finfo(float).tiny))[:, None]
    for _ in range(ROUNDS):
        fitted = fitted * (column_sums / np.maximum(fitted.sum(axis=0), np.finfo(float).tiny))
        fitted = fitted * (rows / np.maximum(fitted.sum(axis=1), np.finfo(float).tiny))[:, None]
    upto = fitted.cumsum(axis=1)
    upto = upto / np.maximum(upto[:, -1:], np.finfo(float).tiny) * rows[:, None]
    ends = np.floor(upto + rng.random((len(rows), 1)))
    ends[:, -1] = rows
    counts = np.diff(ends, prepend=0, axis=1).astype(np.int64)
    _move(counts, fitted, column_sums)
    return counts


def _move(counts: np.ndarray, fitted: np.ndarray, column_sums: np.ndarray) -> None:
    """Move single rows between columns, within rows of the matrix, until the column sums are as wanted, in place."""
    over = counts.sum(axis=0) - column_sums
    while over.any():
        source, aim = int(over.argmax()), int(over.argmin())
        gain = np.where((counts[:, source] > 0) & (fitted[:, aim] > 0), 0.0, -np.inf)
        gain += (counts[:, source] - fitted[:, source]) + (fitted[:, aim] - counts[:, aim])
        best = int(gain.argmax())
        if not np.isfinite(gain[best]):
            return
        counts[best, source] -= 1
        counts[best, aim] += 1
        over[source] -= 1
        over[aim] += 1
