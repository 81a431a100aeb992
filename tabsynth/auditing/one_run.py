"""One-run audits (Steinke, Nasr, Jagielski 2023): many canaries in one MargNet fit of realistic size.

Each canary is inserted independently with probability 1/2. The attacker scores each canary from the noisy counts of one
fit. It guesses that the highest scores were inserted and the lowest were not, and abstains from the others. The
number of correct guesses gives a lower bound of ε (:func:`tabsynth.auditing.lower_bounds.one_run_p_value`).

The attacker sees the noisy counts and knows all rows but the canaries, which the threat model of differential privacy
includes.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from tabsynth.auditing.lower_bounds import one_run_epsilon
from tabsynth.auditing.outcomes import REFUTED, AuditResult, decide_verdict
from tabsynth.auditing.request import ONE_RUN
from tabsynth.encoding import TableEncoder
from tabsynth.privacy.ledger.ledger import Account
from tabsynth.privacy.noise.counts import Groups, Measured, NoisyCounts, by_value, count_rows
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.margnet import measurement as measuring
from tabsynth.synthesizers.margnet.estimator import MargNet
from tabsynth.training.loop import Progress

CONFIDENCE = 0.99  # at 0.999 the δ term of the theorem dominates
GUESSED_SHARES = (
    0.02,
    0.05,
    0.1,
    0.2,
)  # of the canaries, that are score_guesses on each side; all four are tried


@dataclass(frozen=True, eq=False)
class InsertedCanaries:
    """A table with canaries, each inserted with probability 1/2.

    Attributes
    ----------
    table : DataFrame
        The other rows and the inserted canaries.
    other_rows, canaries : int array, shape (n, columns) and (m, columns)
        Category codes.
    included : bool array, shape (m,)
        Whether each canary was inserted.
    """

    schema: Schema
    table: pd.DataFrame
    other_rows: np.ndarray
    canaries: np.ndarray
    included: np.ndarray


def insert_canaries(
    schema: Schema, table: pd.DataFrame, canaries: int, rng: np.random.Generator
) -> InsertedCanaries:
    """Insert canaries with uniformly drawn values, which differ from most rows and from each other."""
    encoder = TableEncoder(schema)
    index = np.stack([rng.integers(0, size, canaries) for size in schema.sizes], axis=1)
    included = rng.random(canaries) < 0.5
    rows = encoder.from_index(index, rng)
    index = encoder.to_index(rows)  # as a fit encodes them
    joined = pd.concat([table, rows[included]], ignore_index=True).astype(dict(rows.dtypes))
    return InsertedCanaries(schema, joined, encoder.to_index(table), index, included)


def audit_one_run(
    model: MargNet,
    inserted: InsertedCanaries,
    *,
    progress: Progress | None = None,
) -> AuditResult:
    """Fit once and bound ε by the number of correct guesses.

    Parameters
    ----------
    model : MargNet
        Unfitted.
    """
    started = time.monotonic()
    with observe_counts(inserted) as scores:
        model.fit(inserted.table, progress=progress)
    guesses = score_guesses(scores, inserted.included, model.ledger_.delta)
    claimed = model.ledger_.spent
    verdict = decide_verdict(guesses.epsilon, claimed)
    finding = "Refuted" if verdict == REFUTED else "No evidence against the claim"
    largest = largest_one_run_bound(len(inserted.included), model.ledger_.delta)
    return AuditResult(
        kind=ONE_RUN,
        method=model.method,
        part=f"{len(inserted.table):,} rows",
        verdict=verdict,
        sentence=(
            f"{finding}: {guesses.right} of {guesses.guesses} guesses were correct, which gives"
            f" ε ≥ {guesses.epsilon:.3g}; the claim is ε = {claimed:.3g}."
        ),
        epsilon_claimed=claimed,
        delta=model.ledger_.delta,
        epsilon_lower=guesses.epsilon,
        confidence=CONFIDENCE,
        runs=len(inserted.included),
        power=(
            f"With this number of canaries in one fit, no lower bound above ε = {largest:.2f} is possible."
        ),
        details={
            "canaries_in": int(inserted.included.sum()),
            "guesses": guesses.guesses,
            "right": guesses.right,
            "seconds": round(time.monotonic() - started, 1),
        },
    )


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """Number of guesses, of correct ones, and the lower bound of ε that they give."""

    guesses: int
    right: int
    epsilon: float


def score_guesses(
    scores: np.ndarray, included: np.ndarray, delta: float, confidence: float = CONFIDENCE
) -> Guesses:
    """Return the best bound over several numbers of guesses, with Bonferroni correction."""
    order = np.argsort(scores, kind="stable")
    each = 1 - (1 - confidence) / len(GUESSED_SHARES)
    best = Guesses(guesses=0, right=0, epsilon=-1.0)
    for share in GUESSED_SHARES:
        side = max(1, round(share * len(scores)))
        right = int((~included[order[:side]]).sum() + included[order[-side:]].sum())
        epsilon = one_run_epsilon(len(scores), 2 * side, right, delta, each)
        if (epsilon, right / side) > (best.epsilon, best.right / max(best.guesses, 1) * 2):
            best = Guesses(guesses=2 * side, right=right, epsilon=epsilon)
    return best


def largest_one_run_bound(canaries: int, delta: float) -> float:
    """Return the lower bound of ε if every guess is correct."""
    perfect = np.arange(canaries)
    return score_guesses(perfect, perfect >= canaries // 2, delta).epsilon


class _ScoringCounts(NoisyCounts[np.ndarray]):
    """Returns noisy counts unchanged and adds the excess counts of each canary's cells to its score."""

    def __init__(
        self, inner: NoisyCounts[np.ndarray], inserted: InsertedCanaries, scores: np.ndarray
    ):
        super().__init__(inner.table, inner.sizes)
        self._inner, self._inserted, self._scores = inner, inserted, scores

    def measure(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        shares: Sequence[float],
        bits: Bits,
        groups: Sequence[Groups] | None = None,
    ) -> list[Measured]:
        """See :meth:`NoisyCounts.measure`; half of the other canaries are expected in each cell."""
        released = self._inner.measure(account, sets, shares, bits, groups)
        inserted = self._inserted
        for i, item in enumerate(released):
            value_groups = by_value(self.sizes) if groups is None else groups[i]
            cells = tuple(value_groups[j][inserted.canaries[:, j]] for j in item.columns)
            expected_canaries = count_rows(inserted.canaries, item.columns, value_groups)
            excess = (
                item.counts
                - count_rows(inserted.other_rows, item.columns, value_groups)
                - expected_canaries / 2
            )
            self._scores += (excess / (item.std**2 + expected_canaries / 4))[cells]
        return released


@contextmanager
def observe_counts(inserted: InsertedCanaries) -> Iterator[np.ndarray]:
    """Score the canaries by the noisy counts of a MargNet fit within a ``with`` block."""
    scores = np.zeros(len(inserted.included))
    original = measuring.NoisyCounts

    def observe(*args: Any, **kwargs: Any) -> NoisyCounts[np.ndarray]:
        return _ScoringCounts(original(*args, **kwargs), inserted, scores)

    with patch.object(measuring, "NoisyCounts", observe):
        yield scores
