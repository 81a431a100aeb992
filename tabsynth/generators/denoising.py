"""Noisy counts of pairs of columns with less noise in them: post-processing, free.

What two columns have to do with each other is mostly a few strong directions of their table of counts, and
noise is spread over all directions alike.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tabsynth.generators.resolution import Resolution
from tabsynth.privacy.counts import Measured, in_groups

# The strongest direction that noise hides, as a share of the rows: below the first weak directions are worth
# having, above the second there are hardly any to tell from noise.
LITTLE, MUCH = 0.005, 0.1


def shrunk(matrix: np.ndarray) -> np.ndarray:
    """A matrix plus noise of variance 1 in each cell, less most of the noise.

    The singular values are shrunk as is best in mean squared error for matrices of low rank: Gavish and
    Donoho (2017), "Optimal Shrinkage of Singular Values", IEEE Transactions on Information Theory 63(4),
    eq. 7. Those that noise alone would make become 0.

    Parameters
    ----------
    matrix : ndarray, shape (m, n)

    Returns
    -------
    ndarray, shape (m, n)
    """
    m, n = matrix.shape
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    squares = values**2
    kept = values > np.sqrt(m) + np.sqrt(n)
    inside = np.maximum((squares - m - n) ** 2 - 4 * m * n, 0)
    values = np.divide(np.sqrt(inside), values, out=np.zeros_like(values), where=kept)
    return (left * values) @ right


def smoothed(
    measured: Sequence[Measured],
    shares: Sequence[np.ndarray],
    rows: float,
    resolution: Resolution,
    part: float,
) -> Mapping[tuple[int, ...], np.ndarray]:
    """Counts of pairs, moved ``part`` of the way to those whose departure from independence is shrunk.

    Only pairs between ``LITTLE`` and ``MUCH``.

    Parameters
    ----------
    measured : sequence of Measured
        Those of two columns count.
    shares : sequence of ndarray, shape (size,)
        A distribution of the values of each column.
    rows : float
    resolution : Resolution
    part : float
        From 0, which moves none, to 1.

    Returns
    -------
    mapping of a pair to ndarray
        Of the pairs that are moved.
    """
    found: dict[tuple[int, ...], np.ndarray] = {}
    for m in measured if part else ():
        hidden = m.std * sum(map(math.sqrt, m.counts.shape)) / rows
        if len(m.columns) == 2 and LITTLE <= hidden <= MUCH:
            groups = resolution.of(m.columns)
            one, other = (in_groups(shares[j], [groups[j]]) for j in m.columns)
            apart = m.counts - rows * np.outer(one, other)
            kept = m.std * shrunk(apart / m.std)
            found[m.columns] = m.counts + part * (kept - apart)
    return found
