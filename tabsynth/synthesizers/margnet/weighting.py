"""From noisy counts of rows to those of the population: by noisy counts of columns that take survey weights.

A row with the largest weight moves a weighted count as far as hundreds of rows, so that noise on weighted counts is larger,
relative to the population, than that on counts of rows is relative to these: by the cap over the mean weight. So pairs and
triples of columns are counted row by row, and only columns also by weight, in groups of values. The ratio of both counts is
the mean weight of a group. Counts of columns take it over; those of pairs and triples are raked to these (Deming and Stephan
1940; Deville, Särndal and Sautory 1993), as samples are to known margins. All of it is post-processing.

What it assumes is that within a pair mean weights are products of factors of the two columns. Weights that follow from the
interaction of columns leave an error that no budget takes away; ``reports/units/weights.md`` measures it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tabsynth.privacy.noise.counts import Groups, Measured, probabilities, total_rows
from tabsynth.synthesizers.margnet.selection import Resolution

SWEEPS = 30  # of iterative proportional fitting
FARTHEST = 10.0  # how far, as a factor, the mean weight of a cell may be from that of all rows
SPREAD = 0.5  # standard deviation of the mean weights of groups over that of all rows: what is known beforehand


def mean_weights(
    counts: np.ndarray, group: np.ndarray, heavy: Measured, population: float
) -> np.ndarray:
    """The mean weight of the rows of each value, shape (size,).

    Of a group whose weighted count is mostly noise, it is moved towards the mean weight of all rows, as the normal model
    with prior standard deviation ``SPREAD`` has it.

    Parameters
    ----------
    counts : ndarray, shape (size,)
        Rows of each value, positive.
    group : ndarray, shape (size,)
    heavy : Measured
        Weighted counts of the groups.
    population : float
        The noisy total of the weights.
    """
    overall = population / counts.sum()
    rows = np.bincount(group, counts)
    people = population * probabilities(heavy.counts.ravel(), population, heavy.std)
    noise = heavy.std / rows
    kept = (SPREAD * overall) ** 2 / ((SPREAD * overall) ** 2 + noise**2)
    means = overall + kept * (people / rows - overall)
    return np.asarray(np.clip(means, overall / FARTHEST, overall * FARTHEST)[group])


def raked(measured: Measured, margins: Sequence[np.ndarray], rows: float) -> Measured:
    """Counts of rows as counts of the population: each cell times factors of its values that give these margins.

    Parameters
    ----------
    measured : Measured
        Of two or three columns, in groups.
    margins : sequence of ndarray, shape (groups,)
        People in each group of each column, positive.
    rows : float
    """
    shape = measured.counts.shape
    base = rows * probabilities(measured.counts.ravel(), rows, measured.std).reshape(shape)
    overall = float(margins[0].sum()) / rows
    factors = np.full(shape, overall)
    for _ in range(SWEEPS):
        for axis, margin in enumerate(margins):
            others = tuple(i for i in range(len(shape)) if i != axis)
            wanted = margin / np.maximum((base * factors).sum(others), 1e-9)
            factors = factors * np.expand_dims(wanted, others)
    factors = np.clip(factors, overall / FARTHEST, overall * FARTHEST)
    std = measured.std * float(np.sqrt((factors**2).mean()))
    return Measured(measured.columns, measured.counts * factors, std)


def of_population(
    counts: Sequence[Measured],
    heavy: Sequence[Measured],
    groups: Groups,
    resolution: Resolution,
    rows: float,
) -> tuple[list[Measured], float]:
    """All counts of a fit as counts of the population, and its size.

    Parameters
    ----------
    counts : sequence of Measured
        Of every column, value by value, in their order; then of pairs and triples, group by group.
    heavy : sequence of Measured
        Weighted counts of every column, in ``groups`` of its values.
    resolution : Resolution
        The groups of pairs and triples.
    rows : float
        The number of rows.
    """
    population = total_rows(heavy)
    columns, out = list[np.ndarray](), list[Measured]()
    for single, by_weight, group in zip(counts, heavy, groups, strict=False):
        positive = rows * probabilities(single.counts.ravel(), rows, single.std)
        means = mean_weights(positive, group, by_weight, population)
        people = positive * means
        scale = population / people.sum()
        columns.append(people * scale)
        part = positive / np.bincount(group, positive)[group]  # of the noise of its group
        std = np.sqrt(np.mean((means * single.std) ** 2 + (part * by_weight.std) ** 2))
        weighted = single.counts.ravel() * means * scale
        out.append(replace(single, counts=weighted.reshape(single.counts.shape), std=float(std)))
    for measured in counts[len(heavy) :]:
        by = resolution.of(measured.columns)
        margins = [np.bincount(by[j], columns[j]) for j in measured.columns]
        out.append(raked(measured, margins, rows))
    return out, population
