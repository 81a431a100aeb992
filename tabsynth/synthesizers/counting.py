"""The counts that a GAN's fit begins with: paid once, and kept by a checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tabsynth.privacy.counts import (
    estimated_rows,
    marginal_noise,
    noisy_marginals,
    noisy_row_count,
    probabilities,
)
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.privacy.noise import Bits
from tabsynth.synthesizers.released import noisy_overlap
from tabsynth.synthesizers.split import COUNT, MARGINALS, OVERLAP
from tabsynth.training.loop import Watch


@dataclass(frozen=True, kw_only=True)
class FirstCounts:
    """What is known before training.

    Attributes
    ----------
    rows : float
        The number of rows that divisors use.
    marginals : list of ndarray or None
        One-way distributions, where they were measured.
    overlap : dict
        The noisy number of private rows that are public too, where it is charged.
    """

    rows: float
    marginals: list[np.ndarray] | None = None
    overlap: dict[str, float] = field(default_factory=dict)


def first_counts(
    table: PrivateTable[np.ndarray],
    accounts: Mapping[str, Account],
    sizes: Sequence[int],
    declared: int | None,
    public: np.ndarray | None,
    bits: Bits,
    watch: Watch,
) -> FirstCounts:
    """Release every count that has an account; ``declared`` is the number of rows where it is public."""
    rows, marginals, overlap = float(declared or 0), None, {}
    if MARGINALS in accounts:
        account = accounts[MARGINALS]
        found = watch.once(
            MARGINALS,
            lambda: {str(j): c for j, c in enumerate(noisy_marginals(table, account, sizes, bits))},
        )
        counts = [found[str(j)] for j in range(len(sizes))]
        rows = rows or estimated_rows(counts)
        std = marginal_noise(account, len(sizes))
        marginals = [probabilities(c, rows, std) for c in counts]
    if COUNT in accounts:
        account = accounts[COUNT]
        found = watch.once(COUNT, lambda: {"rows": np.array(noisy_row_count(table, account, bits))})
        rows = float(found["rows"])
    if OVERLAP in accounts and public is not None:
        account = accounts[OVERLAP]
        found = watch.once(
            OVERLAP, lambda: {"rows": np.array(noisy_overlap(table, account, public, bits))}
        )
        noise = account.noise_multiplier
        overlap = {"noisy_count": float(found["rows"]), "noise_std": noise}
    return FirstCounts(rows=rows, marginals=marginals, overlap=overlap)
