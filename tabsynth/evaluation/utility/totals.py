"""Population totals of a weighted table: what a census bureau publishes from it."""

from operator import itemgetter

import numpy as np

from tabsynth.evaluation.metric import (
    GROUPS,
    SHOWN_PARTS,
    UTILITY,
    Compared,
    Metric,
    Part,
    Tables,
    clipped,
    group_numbers,
    jackknifed,
)
from tabsynth.evaluation.results import Estimate

CITATION = "Horvitz & Thompson 1952; interval: delete-a-group jackknife, Kott 2001"


def population_totals(tables: Tables, column: int, rng: np.random.Generator) -> list[Metric]:
    """Relative error of the population total, and of the weighted totals of all values of columns.

    A table of another length is scaled to the training table's, as its user would. Weights are those
    of the column ``column`` (its cells' midpoints where it is coarsened); a null weighs nothing.
    """
    scores = tables.scores[column]
    assert scores is not None
    weights = np.nan_to_num(scores)
    columns = [j for j in range(len(tables.sizes)) if j != column]
    train = _totals(tables.train, columns, tables, weights, column, rng, len(tables.train))

    def measure(other: np.ndarray) -> tuple[np.ndarray, Estimate, Estimate]:
        totals = _totals(other, columns, tables, weights, column, rng, len(tables.train))
        n = min(len(other), len(tables.train))
        whole, whole_train = totals[:, 0], train[:, 0]
        error = np.abs(whole / np.where(whole_train > 0, whole_train, np.nan) - 1)
        # Half the sum of absolute differences over the total: the share that would have to move.
        moved = 0.5 * np.abs(totals[:, 1:] - train[:, 1:]).sum(axis=1)
        moved /= np.where(whole_train > 0, whole_train, np.nan) * max(1, len(columns))
        return (
            totals[0],
            clipped(jackknifed(float(error[0]), error[1:], n), 0.0),
            clipped(jackknifed(float(moved[0]), moved[1:], n), 0.0),
        )

    metrics = tables.compared.map(measure)
    names = [f"{tables.names[j]} = {label}" for j in columns for label in tables.labels[j]]
    return [
        _metric(
            key, title, reading, metrics.map(itemgetter(i)), _parts(names, train, metrics.synthetic)
        )
        for i, key, title, reading in (
            (
                1,
                "population_total",
                "Population total: relative error",
                "Sum of the weights, against the training table's. 0.01 is one per cent off.",
            ),
            (
                2,
                "weighted_totals",
                "Weighted totals of values",
                "Share of the population that would have to change its value to make the weighted"
                " totals equal, mean over columns. Parts: absolute differences of totals.",
            ),
        )
    ]


def _metric(
    key: str, title: str, reading: str, estimates: Compared[Estimate], parts: tuple[Part, ...]
) -> Metric:
    return Metric(
        key,
        title,
        UTILITY,
        *estimates,
        "lower",
        0.0,
        reading,
        CITATION,
        parts if key == "weighted_totals" else (),
        of_relations=key == "weighted_totals",
        sampling_power=0.5,
    )


def _parts(names: list[str], train: np.ndarray, synthetic: tuple) -> tuple[Part, ...]:
    gaps = np.abs(synthetic[0][1:] - train[0, 1:])
    order = np.argsort(-gaps)[:SHOWN_PARTS]
    return tuple(Part(names[i], float(gaps[i])) for i in order)


def _totals(
    table: np.ndarray,
    columns: list[int],
    tables: Tables,
    weights: np.ndarray,
    column: int,
    rng: np.random.Generator,
    rows: int,
) -> np.ndarray:
    """The sum of weights and that of every value; of all rows and without each group, each scaled.

    Shape (1 + groups, 1 + values).
    """
    group = group_numbers(len(table), rng)
    weight = weights[table[:, column]]
    parts = [np.bincount(group, weight, GROUPS)[:, None]]
    for j in columns:
        size = tables.sizes[j]
        sums = np.bincount(group * size + table[:, j], weight, GROUPS * size)
        parts.append(sums.reshape(GROUPS, size))
    by_group = np.concatenate(parts, axis=1)
    lengths = np.bincount(group, minlength=GROUPS)
    total = by_group.sum(axis=0, keepdims=True)
    kept = np.concatenate([[len(table)], len(table) - lengths])
    return np.concatenate([total, total - by_group]) * (rows / np.maximum(kept, 1))[:, None]
