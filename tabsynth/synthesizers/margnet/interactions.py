"""Triples of columns that matter even where none of their pairs does, such as an exclusive or: from coarse noisy counts.

All triples of a table are counted in one release, with the values of each column in few groups. What such counts show beyond
their own pairs is the interaction of three columns. The rest is post-processing.
"""

import math
from collections.abc import Sequence

import numpy as np

from tabsynth.privacy.noise.counts import Groups, Measured, in_groups

ROUNDS = (
    20  # of iterative proportional fitting: a table of few cells needs no more for this purpose
)
LEAST_SHARE = 1e-6  # of the rows: noisy counts of pairs are no less when a table is fitted to them


def clear_groups(rows: float, std: float, most: int, least_noise: float) -> int:
    """The largest number of groups, from 2 to ``most``, of which a relation of half the rows would be clear in noisy counts.

    Where the third of three columns of g even groups follows from the others, the counts differ from those of independent columns by a
    squared length of rows² (1/g² - 1/g³), and the squared length of noise has a standard deviation of √2 (g - 1)^(3/2) std². Two groups
    are the clearest, but more relations show in more groups.
    """
    for groups in range(most, 2, -1):
        length = rows**2 * (groups - 1) / groups**3
        if length / 2 >= least_noise * math.sqrt(2) * (groups - 1) ** 1.5 * std**2:
            return groups
    return 2


def few_groups(shares: Sequence[np.ndarray], most: int) -> Groups:
    """At most ``most`` groups of the values of each column, of neighbours, with as even shares of the rows as these allow.

    Values that are no more than ``most`` stay by themselves. Neighbours of a column without an order are arbitrary; an interaction
    of its values shows in most groups of them.
    """
    groups = list[np.ndarray]()
    for share in shares:
        if len(share) <= most:
            groups.append(np.arange(len(share)))
            continue
        middle = (share.cumsum() - share / 2) / share.sum()
        at = np.minimum((most * middle).astype(int), most - 1)
        groups.append(np.unique(at, return_inverse=True)[1])
    return groups


def from_pairs(counts: np.ndarray, rows: float) -> np.ndarray:
    """The counts of three columns without an interaction of all three: of most entropy given those of their pairs.

    By iterative proportional fitting (Deming and Stephan 1940) to the pairs' sums of ``counts``.

    Parameters
    ----------
    counts : ndarray, shape (a, b, c)
        May be noisy: sums below ``LEAST_SHARE`` of the rows are raised to it.
    rows : float

    Returns
    -------
    ndarray, shape (a, b, c)
    """
    sums = [np.clip(counts.sum(axis), LEAST_SHARE * rows, None) for axis in range(3)]
    sums = [of * (rows / of.sum()) for of in sums]
    fitted = np.full(counts.shape, rows / counts.size)
    for _ in range(ROUNDS):
        for axis, of in enumerate(sums):
            fitted *= np.expand_dims(of / fitted.sum(axis), axis)
    return fitted


def interaction(
    measured: Measured, shares: Sequence[np.ndarray], rows: float, least_noise: float
) -> float:
    """How far noisy counts of three columns are from what their pairs show, as an L1 distance in rows; 0 unless clear.

    The difference is projected on the interactions of three columns, in which no pair of columns has a part. Of its squared length
    that of the noise and of chance are taken off. It is clear where the rest is ``least_noise`` standard deviations of both.

    Parameters
    ----------
    measured : Measured
    shares : sequence of ndarray
        Of each of the three columns: the share of the rows of each of its groups.
    rows : float
    least_noise : float

    Notes
    -----
    With p the shares of a column of g groups, A = I - p1ᵀ takes what the other columns show out of the noise. The noise of variance
    σ² in each cell then has a squared length of mean σ² ∏ tr(AAᵀ) and standard deviation √2 σ² ∏ ‖AAᵀ‖. By chance, independent columns
    differ by a squared length of rows · ∏(1 - ‖p‖²). The L1 distance is that of a Gaussian difference of the same squared length.
    """
    difference = measured.counts - from_pairs(measured.counts, rows)
    for axis in range(3):
        difference = difference - difference.mean(axis, keepdims=True)
    mean = spread = measured.std**2
    chance = rows
    for share in shares:
        without = np.eye(len(share)) - share[:, None]
        square = without @ without.T
        mean *= float(np.trace(square))
        spread *= float(np.linalg.norm(square))
        chance *= 1 - float(np.square(share).sum())
    excess = float(np.square(difference).sum()) - mean - chance
    if excess <= 0 or excess < least_noise * math.hypot(math.sqrt(2) * spread, chance):
        return 0.0
    return math.sqrt(2 / math.pi * difference.size * excess)


def interactions(
    measured: Sequence[Measured],
    shares: Sequence[np.ndarray],
    groups: Groups,
    rows: float,
    least_noise: float,
    least: float,
) -> dict[tuple[int, ...], float]:
    """The triples with a clear :func:`interaction` of at least the share ``least`` of the rows, in L1/2, and that in L1 and rows.

    ``shares`` are of the values of every column of the table, ``groups`` those that are counted.
    """
    grouped = [in_groups(share, [group]) for share, group in zip(shares, groups, strict=True)]
    sizes = {
        m.columns: interaction(m, [grouped[j] for j in m.columns], rows, least_noise)
        for m in measured
    }
    return {columns: size for columns, size in sizes.items() if size >= 2 * least * rows}
