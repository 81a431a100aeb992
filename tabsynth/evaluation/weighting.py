"""Rows of a table with survey weights: how many people of the population each row stands for.

A weighted share is the sum of the weights of the rows that have a value, over the sum of all weights. Integer weights
give what a table gives in which each row is repeated that many times. Only the number of rows is not the sum of the
weights: corrections for few rows use the effective number of rows (Kish 1965, "Survey Sampling"), (Σw)² / Σw².
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Category codes of rows, and what each row counts.

    Attributes
    ----------
    codes : ndarray, shape (rows, columns), int64
    weights : ndarray, shape (rows,), float64, or None
        Above 0, of any scale; None: all rows count the same.
    clusters : ndarray, shape (rows,), int64, or None
        Rows of one number were drawn together; None: each by itself.
    """

    codes: np.ndarray
    weights: np.ndarray | None = None
    clusters: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)

    def at(self, rows: np.ndarray) -> "WeightedRows":
        """Return those rows, by their numbers or by a mask."""
        return WeightedRows(self.codes[rows], None if self.weights is None else self.weights[rows])

    @cached_property
    def effective(self) -> float:
        """The effective number of rows; that of the rows where all count the same."""
        return effective_rows(self.weights, len(self.codes))

    @property
    def each(self) -> np.ndarray:
        """The weights; ones where all rows count the same."""
        return np.ones(len(self)) if self.weights is None else self.weights

    @cached_property
    def mean_one(self) -> np.ndarray | None:
        """The weights whose mean is 1, for classifiers: their penalties then are those of as many rows."""
        return None if self.weights is None else self.weights / self.weights.mean()

    @cached_property
    def effective_weights(self) -> np.ndarray | None:
        """The weights whose sum is the effective number of rows, for counts that are corrected for few rows."""
        if self.weights is None:
            return None
        return self.weights * (self.effective / self.weights.sum())


def weighted_rows(codes: np.ndarray, weights: np.ndarray | None) -> WeightedRows:
    """Return rows with their weights; a row without weight stands for nobody, and is left out."""
    rows = WeightedRows(codes, weights)
    return rows if weights is None or (weights > 0).all() else rows.at(weights > 0)


def effective_rows(weights: np.ndarray | None, rows: int) -> float:
    """Return (Σw)² / Σw²: so many rows of equal weights give a mean as certain (Kish 1965)."""
    if weights is None:
        return float(rows)
    return float(weights.sum() ** 2 / np.square(weights).sum())


def counts(values: np.ndarray, size: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Return how many rows have each value, or the sum of their weights; shape (size,)."""
    return np.bincount(values, weights, minlength=size)


def shares(values: np.ndarray, size: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the (weighted) share of rows of each value, shape (size,)."""
    total = len(values) if weights is None else weights.sum()
    return counts(values, size, weights) / total


def mean_share(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the (weighted) share of rows that are true."""
    return float(np.average(values, weights=weights))


def variance_of_mean(
    influence: np.ndarray, weights: np.ndarray | None = None, clusters: np.ndarray | None = None
) -> float:
    """Return the variance of the (weighted) mean of values, shape (rows,), as of rows or clusters that are drawn independently."""
    if weights is None:
        return float(influence.var()) / len(influence)
    share = weights / weights.sum()
    parts = share * (influence - float(share @ influence))
    return float(np.square(parts if clusters is None else np.bincount(clusters, parts)).sum())


def quantiles(
    values: np.ndarray, at: Sequence[float] | np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return quantiles, shape (at,): interpolated ones, or of weighted values the least that reaches the share.

    There is no interpolation that does not depend on the scale of the weights.
    """
    if weights is None:
        return np.asarray(np.quantile(values, at))
    return np.asarray(np.quantile(values, at, weights=weights, method="inverted_cdf"))
