"""PATE: the number of teachers for a budget, by how many noisy labels it affords each number of them."""

import numpy as np
from scipy.special import ndtri

from tabsynth._validate import in_range, integer
from tabsynth.privacy.accounting import accountants as renyi
from tabsynth.privacy.accounting.mechanisms import EXACT_BINARY, MOST_TEACHERS, NoisyVote
from tabsynth.privacy.noise.votes import chance_of_yes

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
QUERIES = 5000  # labels that a student should have
CONSENSUS, FLIPS = 0.75, 0.05  # share of the teachers that agree, and of such votes that are wrong


def labels_of(teachers: int, epsilon: float, delta: float) -> int:
    """Return how many labels (epsilon, delta) affords, if all of it goes to them, by exact binary accounting.

    The noise is as large as it may be for a vote on which ``CONSENSUS`` of the teachers agree to be answered wrongly with chance
    ``FLIPS``: 0.152 votes for each teacher.
    """
    noise = (CONSENSUS - 0.5) * teachers / float(ndtri(1 - FLIPS))
    curve = renyi.vote_curve(NoisyVote(noise=noise, teachers=teachers, accounting=EXACT_BINARY))
    return renyi.most_uses(curve, epsilon, delta)


def recommend_teachers(rows: int, epsilon: float, delta: float) -> int:
    """Return the fewest teachers that answer ``QUERIES`` questions, else those that answer most.

    Each has ``LEAST_ROWS_EACH`` rows or more: also where no label is affordable.

    Parameters
    ----------
    rows : int
        Of the table, as the caller declares it: public, never counted in a private table.
    epsilon, delta : float
    """
    check_budget(rows, epsilon, delta)
    largest = min(rows // LEAST_ROWS_EACH, MOST_IN_GRID)
    counts = {*(rows // each for each in ROWS_EACH), *GRID}
    labels = {k: labels_of(k, epsilon, delta) for k in sorted(counts) if 2 <= k <= largest}
    if not any(labels.values()):
        return min(max(2, rows // LEAST_ROWS_EACH), MOST_TEACHERS)
    enough = [k for k, number in labels.items() if number >= QUERIES]
    return enough[0] if enough else max(labels, key=labels.__getitem__)


def share_right(consensus: float, vote: NoisyVote) -> float:
    """Return the share of votes, in which a share ``consensus`` of the teachers agree, that is answered as they do."""
    return float(chance_of_yes(np.array(consensus * vote.teachers), vote))
