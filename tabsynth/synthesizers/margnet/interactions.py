"""Triples of columns that matter even where none of their pairs does, such as an exclusive or: from noisy sums of signs.

Each column has a few codes of +1 and -1 for its values. For all pairs and triples of columns, one release has the sums over the rows of
the products of their signs. What such a sum of three columns shows beyond those of their pairs is an interaction. The rest is
post-processing.

Sums of products of signs are the Fourier coefficients of contingency tables (Barak et al. 2007, PODS). An exclusive or of two even
columns is in a single one of them, of which it is as large as the number of rows. In a table of counts it is spread over all cells.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

GROUPS = 4  # of the values of a column, in its signs: a sum modulo k of low and high values shows in four, not in two
STEPS = 40  # of bisection: moments are between -1 and 1
LEAST_SHARE = 1e-6  # of the rows in a cell
REACH = 2.0  # standard deviations


def sign_codes(share: np.ndarray) -> np.ndarray:
    """Return three codes of +1 and -1 for the values of a column, shape (3, values).

    The values are in at most ``GROUPS`` groups of neighbours, with as even shares of the rows as these allow; few values stay by
    themselves. The codes are low and high values, outer and inner ones (of four groups the first and the last; of three the first), and
    values in even and odd places. Of three values each code has another one alone; of two values all codes are the same.
    """
    places = np.arange(len(share))
    group = places
    if len(share) > GROUPS:
        middle = (share.cumsum() - share / 2) / share.sum()
        group = np.unique((GROUPS * middle).astype(int), return_inverse=True)[1]
    low = 2 * group <= group.max()
    return np.where([low, group % (GROUPS - 1) == 0, places % 2 == 0], 1.0, -1.0)


def from_pairs(ones: np.ndarray, twos: np.ndarray) -> np.ndarray:
    """Return the mean product of three columns of signs without an interaction of all three, given those of one and two of them.

    It is where the cells of the 2 x 2 x 2 table have a three-way odds ratio of 1 (Bartlett 1935), by bisection.

    Parameters
    ----------
    ones : ndarray, shape (..., 3)
        The mean sign of each column.
    twos : ndarray, shape (..., 3)
        The mean products of the first two columns, of the first and the last, and of the last two. May be noisy: where no table
        has them, the result is between the bounds that they contradict.

    Returns
    -------
    ndarray, shape (...)
        From -1 to 1.
    """
    signs = np.array(list(np.ndindex(2, 2, 2))).T * -2.0 + 1
    products = np.array([signs[a] * signs[b] for a, b in combinations(range(3), 2)])
    three = signs.prod(axis=0)
    cells = (
        1 + ones @ signs + twos @ products
    )  # eight times the shares, without the mean product of all three
    up, down = (np.moveaxis(cells[..., three == sign], -1, 0) for sign in (1, -1))
    low, high = np.clip(-up.min(axis=0), -1, 1), np.clip(down.min(axis=0), -1, 1)
    for _ in range(STEPS):
        middle = (low + high) / 2
        positive, negative = (
            math.prod(np.maximum(c, LEAST_SHARE)) for c in (up + middle, down - middle)
        )
        less = positive < negative
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return (low + high) / 2


def noise_of_pairs(ones: np.ndarray, twos: np.ndarray, std: float) -> np.ndarray:
    """Return the standard deviation of :func:`from_pairs` by noise of ``std`` on each of ``twos``, shape (...).

    By the changes that noise of ``REACH`` standard deviations makes, up or down: derivatives are too low where cells are almost empty.
    """
    ways = REACH * std * np.concatenate([np.eye(3), -np.eye(3)])
    moved = from_pairs(ones, twos + ways.reshape(-1, *(1,) * (ones.ndim - 1), 3))
    changes = abs(moved - from_pairs(ones, twos))
    return np.sqrt(np.square(np.maximum(*np.split(changes, 2)) / REACH).sum(axis=0))


def interactions(
    sums: Mapping[tuple[int, ...], np.ndarray],
    std: float,
    means: Sequence[np.ndarray],
    rows: float,
    least_noise: float,
    least_share: float,
) -> dict[tuple[int, ...], float]:
    """Return the triples with a clear interaction of at least the share ``least_share`` of the rows, in L1/2, and that in L1 and rows.

    It is clear where one of the codes differs from what the pairs show by ``least_noise`` standard deviations of noise and of chance.

    Parameters
    ----------
    sums : dict of ndarray, shape (codes,)
        Over the rows, of the products of the signs of triples of columns and of all their pairs.
    std : float
        Standard deviation of the noise on each.
    means : sequence of ndarray, shape (codes,)
        The mean signs of every column of the table.
    rows : float
    least_noise, least : float
    """
    triples = [columns for columns in sums if len(columns) == 3]
    if not triples:
        return {}
    ones = np.array([[means[j] for j in t] for t in triples]).swapaxes(1, 2)
    twos = np.array([[sums[pair] for pair in combinations(t, 2)] for t in triples]).swapaxes(1, 2)
    one_sum = math.hypot(std, math.sqrt(rows))  # noise and chance
    expected = rows * from_pairs(ones, twos / rows)
    noise = np.hypot(one_sum, rows * noise_of_pairs(ones, twos / rows, one_sum / rows))
    difference = np.abs(np.array([sums[triple] for triple in triples]) - expected)
    clear = difference >= np.maximum(least_noise * noise, 2 * least_share * rows)
    sizes = np.where(clear, difference, 0.0).max(axis=1)
    return {t: float(size) for t, size in zip(triples, sizes, strict=True) if size}
