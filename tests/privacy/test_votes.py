"""R6, R16: the noisy vote answers with the chance that its formula says, for every count."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import ACCOUNTINGS, MOST_TEACHERS, NoisyVote
from tabsynth.privacy.noise.votes import chance_of_yes, majority

DRAWS = 40_000


def vote(noise: float, teachers: int, accounting: str = "exact-binary") -> NoisyVote:
    return NoisyVote(noise=noise, teachers=teachers, accounting=accounting)


def by_quadrature(count: int, mechanism: NoisyVote) -> float:
    """P(yes) by its definition: the density of the noise, integrated over what says yes."""
    half, noise = mechanism.teachers / 2, mechanism.noise
    if mechanism.accounting != "laplace":
        return quad(lambda x: norm.pdf(x, scale=noise), half - count, half + 40 * noise)[0]

    def given_no(no: float) -> float:  # P(n1 + yes > K - n1 + no), the noise on n0 given
        return laplace.pdf(no, scale=noise) * laplace.sf(2 * (half - count) + no, scale=noise)

    kinks = sorted({0.0, 2 * (count - half)})
    edges = [-60 * noise - 2 * half, *kinks, 60 * noise + 2 * half]
    return sum(quad(given_no, a, b, limit=200)[0] for a, b in pairwise(edges))


@pytest.mark.slow
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
@pytest.mark.parametrize(("teachers", "noise"), [(7, 0.4), (6, 1.0), (25, 5.0)])
def test_the_vote_grid(accounting: str, teachers: int, noise: float) -> None:
    """R6, R16: all K + 1 counts, the formula against the integral and against draws."""
    mechanism = vote(noise, teachers, accounting)
    counts = np.arange(teachers + 1)
    formula = chance_of_yes(counts, mechanism)
    assert formula == pytest.approx([by_quadrature(int(n), mechanism) for n in counts], abs=1e-7)
    assert formula == pytest.approx(1 - formula[::-1], abs=1e-12)
    rng = np.random.default_rng(5)
    drawn = majority(np.tile(counts, (DRAWS, 1)).ravel(), mechanism, rng)
    rates = drawn.reshape(DRAWS, -1).mean(axis=0)
    error = np.sqrt(formula * (1 - formula) / DRAWS)
    assert (np.abs(rates - formula) <= 4.5 * error + 1e-3 * np.minimum(formula, 1 - formula)).all()


def test_half_of_the_votes_is_a_coin() -> None:
    """A tie is decided by the noise: neither answer is the default."""
    for accounting in ACCOUNTINGS:
        assert chance_of_yes(np.array([3]), vote(2.0, 6, accounting)) == 0.5
        drawn = majority(np.full(DRAWS, 3), vote(1e-40, 6, accounting), np.random.default_rng(2))
        assert abs(drawn.mean() - 0.5) < 4.5 * 0.5 / math.sqrt(DRAWS)


def test_answers_are_independent_and_follow_the_generator() -> None:
    mechanism = vote(5.0, 10)
    counts = np.full(20_000, 5)
    one, two = (majority(counts, mechanism, np.random.default_rng(seed)) for seed in (1, 1))
    assert one.dtype == bool and one.shape == counts.shape and (one == two).all()
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 0.03
    assert majority(np.zeros(0, dtype=int), mechanism, np.random.default_rng(0)).shape == (0,)


def test_counts_that_no_vote_has_are_refused() -> None:
    for counts in ([-1], [3, 11], [math.nan]):
        with pytest.raises(InputError, match=r"\[0, 10\]"):
            majority(np.array(counts), vote(5.0, 10), np.random.default_rng(0))


@pytest.mark.parametrize(
    "changes",
    [
        *({"noise": v} for v in (0.0, -1.0, math.nan, math.inf, "1", True, 1e-200, 10**400)),
        *({"teachers": v} for v in (0, -3, 2.0, True, "5", None, MOST_TEACHERS + 1)),
        *({"accounting": v} for v in ("pld", "", None)),
    ],
    ids=repr,
)
def test_votes_that_no_accountant_can_judge_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(changes))):
        NoisyVote(**{"noise": 2.0, "teachers": 5, **changes})  # type: ignore[arg-type]
