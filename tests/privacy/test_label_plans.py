"""The labels that a budget affords PATE: privacy.md's table, the ledger's word, and a number of teachers that follows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting import accountants as renyi
from tabsynth.privacy.accounting.labels import labels_of, recommend_teachers, share_right
from tabsynth.privacy.accounting.mechanisms import NoisyVote
from tabsynth.privacy.ledger.ledger import Ledger

# Affordable labels at n = 19,077, δ = 1e-5, 5% flips at 75% consensus: teachers, s, then
# labels by exact binary accounting, Gaussian RDP and the Laplace bound at ε = 1, 8, and exact at 20.
TABLE = {
    50: (7.6, (5, 3, 2), (222, 142, 21), 978),
    100: (15.2, (21, 14, 5), (891, 568, 72), 3_913),
    190: (28.9, (79, 50, 10), (3_221, 2_050, 261), 14_126),
    381: (57.9, (321, 204, 26), (12_953, 8_246, 1_052), 56_802),
    763: (116, (1_290, 821, 104), (51_951, None, None), 227_810),
    1907: (290, (8_063, 5_133, 654), (324_528, None, None), 1_423_071),
}


def laplace_on_one_count(teachers: int, epsilon: float) -> int:
    """The table's last column: noise on n₁ alone, 5% flips, charged as the paper charges two."""
    vote = NoisyVote(noise=teachers / 4 / math.log(10), teachers=teachers, accounting="laplace")
    return renyi.most_uses(renyi.vote_curve(vote), epsilon, 1e-5)


def noise_of(teachers: int) -> float:
    return float(0.25 * teachers / norm.ppf(0.95))


@pytest.mark.parametrize("teachers", TABLE)
def test_the_table_of_affordable_labels(teachers: int) -> None:
    """Small numbers to the label, large ones to 0.02%: orders between those of its author."""
    noise, at_one, at_eight, at_twenty = TABLE[teachers]
    assert noise_of(teachers) == pytest.approx(noise, rel=0.003)
    for epsilon, wanted in ((1.0, at_one), (8.0, at_eight)):
        plain = NoisyVote(noise=noise_of(teachers), teachers=teachers, accounting="gaussian")
        gaussian = renyi.most_uses(renyi.vote_curve(plain), epsilon, 1e-5)
        laplace = laplace_on_one_count(teachers, epsilon)
        ours = (labels_of(teachers, epsilon, 1e-5), gaussian, laplace)
        for mine, theirs in zip(ours, wanted, strict=True):
            assert theirs is None or mine == pytest.approx(theirs, rel=2e-4, abs=0.5)
    assert labels_of(teachers, 20.0, 1e-5) == pytest.approx(at_twenty, rel=2e-4, abs=1)


@settings(max_examples=25, deadline=None)
@given(teachers=st.integers(2, 2_000), epsilon=st.floats(0.2, 25))
def test_the_ledger_grants_what_is_planned_and_no_more(teachers: int, epsilon: float) -> None:
    labels = labels_of(teachers, epsilon, 1e-5)
    vote = NoisyVote(noise=noise_of(teachers), teachers=teachers, accounting="exact-binary")
    Ledger(epsilon, 1e-5).open("labels", vote, labels)
    with pytest.raises(BudgetError):
        Ledger(epsilon, 1e-5).open("labels", vote, labels + 1)


def test_right_labels_by_consensus() -> None:
    """By draws; 5% of the labels are wrong where three quarters agree."""
    teachers = 400
    vote = NoisyVote(noise=noise_of(teachers), teachers=teachers, accounting="exact-binary")
    assert share_right(0.75, vote) == pytest.approx(0.95)
    draws = 220 + vote.noise * np.random.default_rng(1).standard_normal(200_000) > teachers / 2
    assert share_right(0.55, vote) == pytest.approx(draws.mean(), abs=0.005)


def test_recommendations() -> None:
    """privacy.md: 760 to 1,900 teachers at ε = 1, about 380 at ε = 8; the most labels where none has enough."""
    found = {e: recommend_teachers(19_077, e, 1e-5) for e in (1.0, 8.0, 20.0)}
    assert found == {1.0: 1907, 8.0: 381, 20.0: 190}
    assert recommend_teachers(5_000, 1.0, 1e-5) == 500
    assert labels_of(500, 1.0, 1e-5) < 5_000
    assert recommend_teachers(40, 8.0, 1e-5) == 4
    assert recommend_teachers(10**9, 1.0, 1e-5) == 1907
    assert labels_of(recommend_teachers(1000, 0.3, 1e-5), 0.3, 1e-5) > 0


def test_teachers_where_no_label_is_affordable_have_ten_rows() -> None:
    assert labels_of(4, 0.001, 1e-5) == 0 and recommend_teachers(40, 0.001, 1e-5) == 4
    assert recommend_teachers(5, 1.0, 1e-5) == 2


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        *(({"rows": v}, "rows") for v in (0, -5, 1.5, "9", 10**13, True)),
        *(({"epsilon": v}, "epsilon") for v in (0, -1, math.nan, math.inf, "1", 1e5)),
        *(({"delta": v}, "delta") for v in (0, 1, math.nan)),
    ],
    ids=repr,
)
def test_what_cannot_be_planned_is_one_line(changes: dict[str, object], name: str) -> None:
    parameters: dict[str, object] = {"rows": 19_077, "epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(InputError, match=name) as error:
        recommend_teachers(**{**parameters, **changes})  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
