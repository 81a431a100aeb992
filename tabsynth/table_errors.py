"""The error of a declared table before there are rows: what the noise of MargNet's counts leaves of it."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.labels import check_budget
from tabsynth.privacy.accounting.mechanisms import of_sum
from tabsynth.privacy.noise.counts import Measured, cells_of, number_of
from tabsynth.schema.linked import SchemaLike, read_table_schema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.declared import (
    DeclaredTable,
    declared_tables,
    variance_of_cells,
)
from tabsynth.synthesizers.margnet.estimator import MargNet
from tabsynth.synthesizers.margnet.grids import parts_of
from tabsynth.synthesizers.margnet.measurement import (
    INTERACTIONS,
    JOINT,
    ONE_WAY,
    SCORES,
    TABLES,
    OneWay,
    PrivateMarginals,
    Selection,
)
from tabsynth.synthesizers.margnet.selection import (
    PAIRS_PER_COLUMN,
    Resolution,
    pairs_within,
    spanning_tree,
)

MOST_COLUMNS = 3  # of a table that is not declared: what MargNet counts


class Counted(NamedTuple):
    """A set of columns that a fit would count, the noise on each cell in rows, and its cells."""

    columns: tuple[int, ...]
    std: float
    cells: int


@dataclass(frozen=True, kw_only=True)
class TableError:
    """The error of a table from the noise alone, without that of sampling.

    It is that of estimates from the noisy counts. Counts of synthetic rows have other errors: the fit smooths the noise, which
    makes large tables more exact at a small ε, and it has errors of its own, which no public fact shows.

    Attributes
    ----------
    columns : tuple of str
    cells : int
        By the values that the schema declares.
    counted : int
        Cells of the groups of values that a fit would count; cells within a group cannot be told apart.
    standard_error : float or None
        Of a counted cell, in rows: the root of the mean square over the cells, for estimates by
        :func:`tabsynth.inference.crosstab`. None where no fit under this budget counts the table.
    relative : float or None
        The same over the mean count of a cell.
    margins : dict
        By column, the standard error of the count of one value over the mean count of a value; empty where no fit counts the table.
    declared : float
        The standard error of a cell if all planned tables are declared for the fit (``tables``), in rows: of the least-squares estimate
        from all levels of the table's hierarchy.
    """

    columns: tuple[str, ...]
    cells: int
    counted: int
    standard_error: float | None = None
    relative: float | None = None
    margins: dict[str, float] = field(default_factory=dict)
    declared: float


def plan_tables(
    tables: Sequence[Sequence[str]],
    schema: SchemaLike,
    rows: int,
    epsilon: float,
    delta: float = 1e-5,
) -> tuple[TableError, ...]:
    """Return the standard error of the cells of declared tables, before a row is read.

    The noise of every count follows from the schema, the budget and the number of rows, but for two things that a fit learns
    from noisy counts: which values are rare and merged, and in a table of more than 12 columns which pairs are counted. In
    their place all values of a column are taken to be equally frequent, and as many pairs to be counted as a fit plans for,
    those of the tables among them.

    Parameters
    ----------
    tables : sequence of sequence of str
        Each of modelled columns, or of columns that follow from one modelled column by a table.
    schema : Schema, dict or path
    rows : int
        As the caller declares it: public, never counted in a private table.
    epsilon, delta : float
        The privacy budget.

    Raises
    ------
    InputError
        For an unknown column, a table of no column or of too many cells, and for a schema with survey weights.
    """
    check_budget(rows, epsilon, delta)
    schema = read_table_schema(schema)
    if schema.design.weight is not None:
        raise InputError(
            "The error of a table is planned for rows that count once; take the weight out of the schema."
        )
    column_sets = [_columns_of(schema.learned, table, schema.makers) for table in tables]
    if not column_sets:
        raise InputError("Expected a table such as AGE,SEX, got none.")
    declared = _declared_errors(schema, tables, rows, epsilon, delta)
    counted, by = _counts_of_fit(
        schema, rows, epsilon, delta, [c for c in column_sets if c is not None]
    )
    return tuple(
        replace(_error(schema.learned, rows, columns, counted, by), declared=error)
        if columns is not None
        else TableError(
            columns=table.names,
            cells=math.prod(table.shape),
            counted=math.prod(table.shape),
            declared=error,
        )
        for columns, (table, error) in zip(column_sets, declared, strict=True)
    )


def _declared_errors(
    schema: Schema, tables: Sequence[Sequence[str]], rows: int, epsilon: float, delta: float
) -> list[tuple[DeclaredTable, float]]:
    """Return each table, and the standard error of a cell in a fit that declares all of them."""
    model = MargNet(schema, epsilon=epsilon, delta=delta, rows=rows, tables=tables)
    parsed = declared_tables(schema, tables, MargNetConfig().max_cells)
    (spend,) = (s for s in model.plan(estimate_time=False).spends if s.purpose == TABLES)
    levels = sum(len(table.levels) for table in parsed)
    std = of_sum(spend.mechanism).noise_multiplier * schema.design.rows * math.sqrt(levels)
    return [(t, math.sqrt(variance_of_cells(t, [std] * len(t.levels)))) for t in parsed]


def _columns_of(
    schema: Schema, names: Sequence[str], makers: Collection[str] = ()
) -> tuple[int, ...] | None:
    """Return positions of the columns of a table, in rising order; None of a table that is counted only where it is declared."""
    listed = ",".join(map(str, names))
    for name in names:
        if name not in schema.names and name not in makers:
            raise InputError(
                f"Table {quote(listed)} names column {quote(name)}, which is not among the modelled columns:"
                f" {', '.join(schema.names[:8])}{', …' if len(schema.names) > 8 else ''}."
            )
    if not 1 <= len(set(names)) == len(names):
        raise InputError(
            f"Table {quote(listed)} must have one or more different columns; name these."
        )
    if len(names) > MOST_COLUMNS or not set(names) <= set(schema.names):
        return None
    columns = tuple(sorted(schema.names.index(name) for name in names))
    cells, limit = math.prod(schema.sizes[j] for j in columns), MargNetConfig().max_cells
    if cells > limit:
        raise InputError(
            f"Table {quote(listed)} has {cells:,} cells, past {limit:,}; name fewer columns, or columns of fewer values."
        )
    return columns


def _counts_of_fit(
    schema: Schema, rows: int, epsilon: float, delta: float, column_sets: Sequence[tuple[int, ...]]
) -> tuple[list[Counted], Resolution]:
    """Return all that a fit would count, and in which groups of values."""
    model = MargNet(schema, epsilon=epsilon, delta=delta, rows=rows)
    nothing: Any = None  # neither rows nor a ledger: nothing is read
    plan = model.plan(estimate_time=False)
    # Signs show no predicted error.
    spends = [spend for spend in plan.spends if spend.purpose != INTERACTIONS]
    task = model.make_method(schema).task
    marginals = PrivateMarginals(task, nothing, spends, nothing, nothing)
    singles = [
        Measured((j,), np.full(n, rows / n), 0.0) for j, n in enumerate(schema.learned.sizes)
    ]
    one_way = OneWay(singles, float(rows))
    noise = {
        spend.purpose: of_sum(spend.mechanism).noise_multiplier * schema.design.rows
        for spend in plan.spends
    }
    if SCORES in noise:
        selection = _likely(marginals, one_way, column_sets)
    else:
        selection = marginals.select(one_way)
    by = selection.resolution
    releases: list[tuple[str, Any, Resolution]] = [
        (ONE_WAY, [(marginals.columns, 1.0)], marginals.whole)
    ]
    if JOINT in noise:
        releases.append((JOINT, marginals.batches(rows, selection), by))
    counted = []
    for stage, batches, resolution in releases:
        sets, shares, groups = marginals.shares(batches, resolution)
        grids = selection.grids if stage == JOINT else []
        part, of_grids = parts_of(grids)
        for columns, share, of in zip(sets, shares, groups, strict=True):
            cells = cells_of(columns, of)
            counted.append(Counted(columns, noise[stage] / math.sqrt((1 - part) * share), cells))
        for grid, share in zip(grids, of_grids, strict=True):
            cells = math.prod(map(number_of, grid.groups))
            counted.append(Counted(grid.columns, noise[stage] / math.sqrt(share), cells))
    return counted, by


def _likely(
    marginals: PrivateMarginals, one_way: OneWay, column_sets: Sequence[tuple[int, ...]]
) -> Selection:
    """Return the pairs of the tables, and of the others as many as a fit plans for, at even distances.

    Pairs of the tables are taken not to be among the strongest, which are counted with less noise.
    """
    by = marginals.resolution(one_way)
    config = marginals.config
    every = pairs_within(by.pairs, config.max_cells, config.max_width)
    of_tables = {pair for columns in column_sets for pair in combinations(columns, 2)}
    further = [pair for pair in every if pair not in of_tables]
    few = max(0, round(PAIRS_PER_COLUMN * len(marginals.columns)) - len(of_tables))
    at = np.linspace(0, len(further) - 1, min(few, len(further))).astype(int)
    taken_further = [further[i] for i in at]
    pairs = sorted({*(pair for pair in every if pair in of_tables), *taken_further})
    return Selection(pairs, [], by, spanning_tree(taken_further, [0.0] * len(taken_further)))


def _error(
    schema: Schema, rows: int, columns: tuple[int, ...], counted: Sequence[Counted], by: Resolution
) -> TableError:
    """Return the error of one table, by its main effects and interactions.

    The counts of a set of columns show each effect of these columns. An effect of the table is estimated from all counts
    that show it, weighted by the inverse of their variances.
    """
    groups = by.of(columns)
    sizes = {j: number_of(groups[j]) for j in columns}

    def variance(table: tuple[int, ...]) -> float:
        """Return the variance of a cell of some of the columns, the mean over the cells."""
        cells = math.prod(sizes[j] for j in table)
        total = 0.0
        for order in range(len(table) + 1):
            for effect in combinations(table, order):
                size = math.prod(sizes[j] for j in effect)
                freedom = math.prod(sizes[j] - 1 for j in effect)
                precision = sum(
                    size / (c.std**2 * c.cells) for c in counted if set(effect) <= set(c.columns)
                )
                if freedom and not precision:
                    return math.inf
                if freedom:
                    total += freedom / size / precision * (size / cells) ** 2
        return total

    error = math.sqrt(variance(columns))
    finite = math.isfinite(error)
    cells = math.prod(sizes.values())
    return TableError(
        columns=tuple(schema.names[j] for j in columns),
        cells=math.prod(schema.sizes[j] for j in columns),
        counted=cells,
        standard_error=error if finite else None,
        relative=error * cells / rows if finite else None,
        margins={schema.names[j]: math.sqrt(variance((j,))) * sizes[j] / rows for j in columns},
        declared=math.nan,
    )
