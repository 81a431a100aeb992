"""Does a minority fare worse? Distances within each group of people."""

import math
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from scipy import sparse

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import Metric, Part, Tables
from tabsynth.evaluation.results import Estimate, Group, Subgroups
from tabsynth.evaluation.utility.marginals import cell_numbers, column_sets, distance
from tabsynth.evaluation.weighting import WeightedRows

MAX_PAIRS = 60
LEAST_ROWS = 20  # of a group in the training table: smaller ones are not judged
REPLICATES = 100
BLOCKS = 500  # of rows, which are drawn together in tables of more rows
CHANCES = 4  # draws of what chance alone gives
GAP = definition_of("subgroup_gap_*")


def subgroup_gap(tables: Tables, column: int, rng: np.random.Generator) -> Metric:
    """Return the worst group's distance less the best one's; NaN where fewer than two groups can be judged.

    A group without synthetic rows is at distance 1. The interval covers the drawing of the rows of both
    tables, and that the worst and the best group were chosen by the same rows.
    """
    real = tables.weighted_train
    counts = np.bincount(real.codes[:, column], minlength=tables.sizes[column])
    judged = np.flatnonzero(counts >= LEAST_ROWS)
    small = np.flatnonzero((counts > 0) & (counts < LEAST_ROWS))
    labels, name = tables.labels[column], tables.names[column]
    comparable = len(judged) > 1 and len(tables.sizes) > 1
    sets = _sets(len(tables.sizes), column, rng) if comparable else []

    def judge_groups(other: WeightedRows) -> tuple[np.ndarray, Estimate]:
        if not comparable:
            none = np.full(len(judged), np.nan)
            return none, Estimate(math.nan, math.nan, math.nan, len(other))
        excesses = np.array([_excess(tables, other, column, int(v), sets, rng) for v in judged])
        # The range of the groups' errors bounds the error of the range, whichever groups are worst and best (as in
        # Tukey's test of all pairs); their errors are those of resampled rows of both tables.
        replicates = _resample(tables, other, column, judged, sets, rng)
        errors = replicates - replicates.mean(axis=1, keepdims=True)
        half = float(np.percentile(np.ptp(errors, axis=0), 95))
        value = float(excesses.max() - excesses.min())
        gap = Estimate(value, max(0.0, value - half), min(1.0, value + half), len(other))
        return excesses, gap

    gaps = tables.with_weights.map(judge_groups)
    parts = gaps.parts([labels[int(v)] for v in judged], itemgetter(0), counts[judged])
    parts.sort(key=lambda part: -part.value)
    groups = [Group(part.name, part.n, part.value) for part in parts] if comparable else []
    gap = gaps.map(itemgetter(1))
    details = Subgroups(
        name,
        len(judged) + len(small),
        groups[0] if groups else None,
        groups[-1] if groups else None,
        tuple(labels[int(v)] for v in small),
        gap.synthetic,
    )
    parts += [Part(labels[int(v)], math.nan, n=int(counts[v])) for v in small]
    too_small = ", ".join(details.too_small)
    return Metric(
        GAP,
        *gap,
        tuple(parts),
        key=f"subgroup_gap_{name}",
        title=f"Gap between the groups of {name}",
        note=f"Groups with too few training rows: {too_small}." if too_small else "",
        details=details,
    )


def _excess(
    tables: Tables,
    other: WeightedRows,
    column: int,
    value: int,
    sets: Sequence[tuple[int, ...]],
    rng: np.random.Generator,
) -> float:
    """Return the distance within a group, less what chance gives two tables of these sizes; 1 without rows.

    Weighted rows are drawn in proportion to their weights, as many as the effective numbers of rows of the tables.
    """
    a, b = (table.at(table.codes[:, column] == value) for table in (tables.weighted_train, other))
    if len(b) == 0:
        return 1.0
    observed = distance(a, b, sets, tables.names, tables.sizes).mean.value
    pool, by_chance = np.concatenate([a.codes, b.codes]), []
    weighted = tables.weights is not None
    sizes = [max(1, round(t.effective)) for t in (a, b)]
    chances = np.concatenate(
        [np.ones(len(t)) if t.weights is None else t.effective_weights for t in (a, b)]
    )
    for _ in range(CHANCES):
        if weighted:
            drawn = rng.choice(len(pool), sum(sizes), p=chances / chances.sum())
        else:
            drawn = rng.permutation(len(pool))
        first, second = pool[drawn[: sizes[0]]], pool[drawn[sizes[0] :]]
        by_chance.append(distance(first, second, sets, tables.names, tables.sizes).mean.value)
    return max(
        0.0, observed - float(np.mean(by_chance))
    )  # nearer than chance is not worse than near


def _resample(
    tables: Tables,
    other: WeightedRows,
    column: int,
    judged: np.ndarray,
    sets: Sequence[tuple[int, ...]],
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the mean distance within each judged group, of resampled rows of both; (groups, replicates)."""
    place = np.full(tables.sizes[column], -1)
    place[judged] = np.arange(len(judged))
    both = [t.at(place[t.codes[:, column]] >= 0) for t in (tables.weighted_train, other)]
    groups = [place[table.codes[:, column]] for table in both]
    each = [(t.each * (len(t) / max(float(t.each.sum()), 1e-300))).astype(np.float32) for t in both]
    blocks = [rng.permutation(np.arange(len(t)) % min(BLOCKS, max(1, len(t)))) for t in both]
    weights = [_block_weights(int(block.max(initial=0)) + 1, rng) for block in blocks]
    total = np.zeros((len(judged), REPLICATES), dtype=np.float32)
    for columns in sets:
        *cells, size = cell_numbers(both[0].codes, both[1].codes, columns, tables.sizes)
        # Only the cells that occur, each within its group.
        keys = [group * size + cell for group, cell in zip(groups, cells, strict=True)]
        used_cells, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        split = np.split(inverse, [len(keys[0])])
        shares = []
        owner = sparse.csr_matrix(
            (
                np.ones(len(used_cells), np.float32),
                (used_cells // size, np.arange(len(used_cells))),
            ),
            shape=(len(judged), len(used_cells)),
        )
        for places, block, weight, weights_of_rows in zip(
            split, blocks, weights, each, strict=True
        ):
            member = sparse.csr_matrix(
                (weights_of_rows, (places, block)),
                shape=(len(used_cells), len(weight)),
                dtype=np.float32,
            )
            counts = member @ weight
            rows = owner @ counts
            rows[rows <= 0] = 1
            shares.append(counts / rows[used_cells // size])
        total += 0.5 * (owner @ np.abs(shares[0] - shares[1]))
    return total / len(sets)


def _block_weights(blocks: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each block was drawn, shape (blocks, replicates), float32."""
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), REPLICATES).T.astype(np.float32)


def _sets(columns: int, column: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Return pairs of the other columns, of many a random part; of one other column, itself."""
    remaining = [j for j in range(columns) if j != column]
    order = 2 if len(remaining) > 1 else 1
    sets = [tuple(remaining[i] for i in s) for s in column_sets(len(remaining), order)]
    if len(sets) > MAX_PAIRS:
        sets = [sets[i] for i in rng.choice(len(sets), MAX_PAIRS, replace=False)]
    return sets
