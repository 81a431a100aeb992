"""Noisy one-way counts, and what follows from them for free."""

import math
from collections.abc import Sequence

import numpy as np

from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account


def noisy_marginals(
    table: PrivateTable[np.ndarray],
    account: Account,
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """One-way counts of every column with Gaussian noise.

    Parameters
    ----------
    table : PrivateTable of int array, shape (n, columns)
    account : Account
        One use of it is spent; its ``noise_multiplier`` is in units of the joint sensitivity.
    sizes : sequence of int
        Number of values of each column.

    Returns
    -------
    list of ndarray, shape (size,)
        Real-valued counts, possibly negative.

    Formal guarantees
    -----------------
    Adding or removing one record changes one cell by 1 in each of the d columns: L2 sensitivity √d,
    so the noise has standard deviation ``noise_multiplier`` · √d counts a cell.
    """
    rows = table.read(account)
    std = marginal_noise(account, len(sizes))
    counts = []
    for j, size in enumerate(sizes):
        exact = np.bincount(rows[:, j], minlength=size).astype(np.float64)
        counts.append(exact + std * rng.standard_normal(size))
    return counts


def marginal_noise(account: Account, columns: int) -> float:
    """Standard deviation of the noise on one cell, in counts."""
    return account.mechanism.noise_multiplier * math.sqrt(columns)


def noisy_row_count(
    table: PrivateTable[np.ndarray], account: Account, rng: np.random.Generator
) -> float:
    """Number of rows with Gaussian noise, at least 1. Sensitivity 1."""
    rows = table.read(account)
    return max(1.0, len(rows) + account.mechanism.noise_multiplier * rng.standard_normal())


def estimated_rows(counts: Sequence[np.ndarray]) -> float:
    """Number of rows, at least 1, from noisy one-way counts (post-processing, free).

    Each column's counts sum to n plus noise of variance ∝ its size, so they are weighted by
    1 / size.
    """
    sizes = np.array([len(c) for c in counts], dtype=float)
    totals = np.array([c.sum() for c in counts])
    return max(1.0, float((totals / sizes).sum() / (1 / sizes).sum()))


def probabilities(counts: np.ndarray, rows: float, std: float) -> np.ndarray:
    """A distribution, strictly positive, from noisy counts (post-processing, free).

    Projection of the counts onto {≥ 0, sum = rows} in L2, then a floor of a fraction of the noise,
    so that no value is ruled out by noise alone.
    """
    ordered = np.sort(counts)[::-1]
    shifts = (np.cumsum(ordered) - rows) / np.arange(1, len(counts) + 1)
    shift = shifts[np.nonzero(ordered > shifts)[0][-1]]
    floor = max(0.1 * std, 0.25)
    values = np.maximum(counts - shift, 0) + floor
    return values / values.sum()
