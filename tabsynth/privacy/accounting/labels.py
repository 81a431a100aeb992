"""PATE: how many noisy labels a budget affords, for each number of teachers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, integer
from tabsynth.errors import InputError
from tabsynth.privacy.accounting import accountants as renyi
from tabsynth.privacy.accounting.mechanisms import (
    EXACT_BINARY,
    MOST_TEACHERS,
    NoisyVote,
)
from tabsynth.privacy.noise.votes import chance_of_yes, noise_for

MOST_ROWS, MOST_EPSILON = 10**12, 10_000.0


def check_budget(rows: int, epsilon: float, delta: float) -> None:
    """Refuse a number of rows or a budget that no plan can be made for, by name."""
    in_range("rows", integer("rows", rows), 1, MOST_ROWS)
    in_range("epsilon", epsilon, 0, MOST_EPSILON, low_open=True)
    in_range("delta", delta, 0, 1, low_open=True, high_open=True)


ROWS_EACH = (381, 190, 100, 50, 25, 10)  # rows a teacher in the grid
GRID = (50, 100, 190, 381, 763, 1907)  # and teachers, whatever the number of rows
MOST_IN_GRID = 5000  # teachers: each is a network
LEAST_ROWS_EACH = 10  # of a teacher: their mean still leans the right way (reports/pate)
LEAST_ROWS = 2 * min(ROWS_EACH)  # of a table
CONSENSUSES = (0.55, 0.6, 0.75, 0.9)  # at which the share of right labels is stated


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels that one number of teachers affords.

    Attributes
    ----------
    teachers, rows_each : int
    noise : float
        s, the standard deviation of the Gaussian on the count of votes, in votes.
    labels : int
        Labels within the budget at that noise, by exact binary accounting.
    """

    teachers: int
    rows_each: int
    noise: float
    labels: int


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    """The labels that a budget affords, by number of teachers.

    Attributes
    ----------
    grid : tuple of Labels
        By number of teachers, rising.
    right : tuple of (float, float)
        Consensus, and the share of the labels that are right where so many teachers agree.
    recommended : int or None
        Number of teachers; None where no label is affordable.
    reason : str
    """

    rows: int
    epsilon: float
    delta: float
    consensus: float
    flips: float
    target_queries: int
    grid: tuple[Labels, ...]
    right: tuple[tuple[float, float], ...]
    recommended: int | None
    reason: str

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready mapping."""
        return asdict(self)


def plan_labels(
    rows: int,
    epsilon: float,
    delta: float = 1e-5,
    *,
    consensus: float = 0.75,
    flips: float = 0.05,
    queries: int = 5000,
    teacher_count: Sequence[int] | None = None,
) -> LabelPlan:
    """Return how many labels (epsilon, delta) affords, if all of it goes to them.

    Parameters
    ----------
    rows : int
        Of the table, as the caller declares it: public, never counted in a private table.
    consensus, flips : float
        The noise is as large as it may be for a vote with this ``consensus``, a share of the teachers in
        (0.5, 1], to be answered wrongly with chance ``flips``. Their defaults give s = 0.152 K.
    queries : int
        Number that the student should have answered; for the recommendation.
    teacher_count : sequence of int, optional
        The numbers of teachers to plan for; default: about 381 to 10 rows a teacher, and 50 to 1907 teachers.
    """
    check_budget(rows, epsilon, delta)
    in_range("consensus", consensus, 0.5, 1, low_open=True)
    in_range("flips", flips, 0, 0.5, low_open=True, high_open=True)
    integer("queries", queries)
    options = tuple(
        _labels(rows, k, epsilon, delta, consensus, flips) for k in _numbers(rows, teacher_count)
    )
    recommended, reason = _recommendation(options, queries)
    # The same for every K, as the noise grows with it.
    vote = NoisyVote(noise=options[0].noise, teachers=options[0].teachers)
    return LabelPlan(
        rows=rows,
        epsilon=epsilon,
        delta=delta,
        consensus=consensus,
        flips=flips,
        target_queries=queries,
        grid=options,
        right=tuple((c, share_right(c, vote)) for c in sorted({*CONSENSUSES, consensus})),
        recommended=recommended,
        reason=reason,
    )


def _numbers(rows: int, teacher_count: Sequence[int] | None) -> list[int]:
    """Return the grid of teachers, each with rows enough."""
    if teacher_count:
        for number in teacher_count:
            in_range("teacher_count", integer("teacher_count", number), 2, min(rows, MOST_TEACHERS))
        return sorted(set(teacher_count))
    largest = min(rows // min(ROWS_EACH), MOST_IN_GRID)
    teacher_counts = sorted(
        {
            teachers_tried
            for teachers_tried in (*(rows // each for each in ROWS_EACH), *GRID)
            if 2 <= teachers_tried <= largest
        }
    )
    if not teacher_counts:
        raise InputError(
            f"Expected rows of at least {LEAST_ROWS} for teachers to share, got rows={rows}."
        )
    return teacher_counts


def _labels(
    rows: int, teachers: int, epsilon: float, delta: float, consensus: float, flips: float
) -> Labels:
    noise = noise_for(teachers, consensus, flips, EXACT_BINARY)
    curve = renyi.vote_curve(NoisyVote(noise=noise, teachers=teachers, accounting=EXACT_BINARY))
    return Labels(
        teachers=teachers,
        rows_each=rows // teachers,
        noise=noise,
        labels=renyi.most_uses(curve, epsilon, delta),
    )


def share_right(consensus: float, vote: NoisyVote) -> float:
    """Return the share of votes, in which a share ``consensus`` of the teachers agree, that is answered as they do."""
    return float(chance_of_yes(np.array(consensus * vote.teachers), vote))


def _recommendation(options: Sequence[Labels], target_queries: int) -> tuple[int | None, str]:
    """Return the fewest teachers that answer enough questions, and why, in words."""
    best = max(options, key=lambda labels: labels.labels)
    if not best.labels:
        return None, "No number of teachers here affords one label: raise epsilon, or use margnet."
    taught = [x for x in options if x.rows_each >= LEAST_ROWS_EACH and x.labels] or [*options]
    enough = [labels for labels in taught if labels.labels >= target_queries]
    if enough:
        first = enough[0]
        return first.teachers, (
            f"{first.teachers:,} teachers of {first.rows_each:,} rows: the fewest that answer {target_queries:,}"
            f" questions ({first.labels:,}). More teachers answer more, but each learns from fewer rows."
        )
    richest = max(taught, key=lambda labels: labels.labels)
    return richest.teachers, (
        f"{richest.teachers:,} teachers of {richest.rows_each:,} rows: the most labels ({richest.labels:,}, fewer than"
        f" the {target_queries:,} requested) from teachers that still learn from {LEAST_ROWS_EACH} rows or more."
        if richest.rows_each >= LEAST_ROWS_EACH
        else f"{richest.teachers:,} teachers of {richest.rows_each:,} rows: the most labels ({richest.labels:,})."
        f" Teachers of {LEAST_ROWS_EACH} rows or more afford none, or are not in this grid."
    )
