"""Rows of the hold-out that are in the training table, too, and were perhaps fitted."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tabsynth.evaluation.results import Result

MARGIN = 0.05  # of the rows, and
SURE = 4.0  # standard errors, that the hold-out may have more of them than chance gives
IMPOSSIBLE = (
    1e-6  # chance below which a hold-out is not one by accident a part of the training table
)


@dataclass(frozen=True)
class Overlap(Result):
    """The numbers of rows of each table that equal a row of the training table; of that itself, another row.

    In a fresh sample of the same population both are alike common.
    """

    holdout: int
    in_training: int
    training: int
    repeated: int

    @property
    def share(self) -> float:
        """The share of the hold-out's rows that equal a row of the training table."""
        return self.in_training / self.holdout

    @property
    def expected_share(self) -> float:
        """The share that a fresh sample has by chance."""
        return self.repeated / self.training

    @property
    def suspicious(self) -> bool:
        """True if the hold-out has more of them than chance gives."""
        spread = (
            self.expected_share * (1 - self.expected_share) * (1 / self.holdout + 1 / self.training)
        )
        excess = self.share - self.expected_share
        return excess > MARGIN + SURE * math.sqrt(spread)

    @property
    def all_known(self) -> bool:
        """True if the hold-out can only have been taken out of the training table."""
        return self.in_training == self.holdout and self.expected_share**self.holdout < IMPOSSIBLE


def overlap(train: np.ndarray, holdout: np.ndarray) -> Overlap:
    """Return the overlap of tables of category codes, shape (rows, columns); neither may be empty."""
    training_hashes, holdout_hashes = row_hashes(train), row_hashes(holdout)
    distinct, counts = np.unique(training_hashes, return_counts=True)
    repeated = int(counts[counts > 1].sum())
    return Overlap(
        len(holdout_hashes),
        int(np.isin(holdout_hashes, distinct).sum()),
        len(training_hashes),
        repeated,
    )


def same_rows(table: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two tables hold the same rows, in whatever order."""
    return len(table) == len(other) and bool(
        (np.sort(row_hashes(table)) == np.sort(row_hashes(other))).all()
    )


def row_hashes(index: np.ndarray) -> np.ndarray:
    """Return a number for each row, shape (rows,) uint64; the same on any machine."""
    frame = pd.DataFrame(index).astype("int64")
    return pd.util.hash_pandas_object(frame, index=False).to_numpy()
