"""The planner of PATE: privacy.md's table, the ledger's word, and a recommendation that follows."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tabsynth.errors import BudgetError, InputError
from tabsynth.planning import LabelPlan, plan_labels
from tabsynth.privacy.accounting import accountants as renyi
from tabsynth.privacy.accounting.labels import LEAST_ROWS_EACH
from tabsynth.privacy.accounting.mechanisms import NoisyVote
from tabsynth.privacy.ledger.ledger import Ledger

# Affordable labels at n = 19,077, δ = 1e-5, 5% flips at 75% consensus: teachers, rows each, s, then
# labels by exact binary accounting, Gaussian RDP and the Laplace bound at ε = 1, 8, and exact at 20.
TABLE = {
    50: (381, 7.6, (5, 3, 2), (222, 142, 21), 978),
    100: (190, 15.2, (21, 14, 5), (891, 568, 72), 3_913),
    190: (100, 28.9, (79, 50, 10), (3_221, 2_050, 261), 14_126),
    381: (50, 57.9, (321, 204, 26), (12_953, 8_246, 1_052), 56_802),
    763: (25, 116, (1_290, 821, 104), (51_951, None, None), 227_810),
    1907: (10, 290, (8_063, 5_133, 654), (324_528, None, None), 1_423_071),
}


def laplace_on_one_count(teachers: int, epsilon: float) -> int:
    """The table's last column: noise on n₁ alone, 5% flips, charged as the paper charges two."""
    vote = NoisyVote(noise=teachers / 4 / math.log(10), teachers=teachers, accounting="laplace")
    return renyi.most_uses(renyi.vote_curve(vote), epsilon, 1e-5)


def test_the_table_of_affordable_labels() -> None:
    """Small numbers to the label, large ones to 0.02%: orders between those of its author."""
    plans = {epsilon: plan_labels(19_077, epsilon) for epsilon in (1.0, 8.0, 20.0)}
    assert [x.teachers for x in plans[1.0].grid] == list(TABLE)
    for one, eight, twenty in zip(*(p.grid for p in plans.values()), strict=True):
        rows_each, noise, at_one, at_eight, at_twenty = TABLE[one.teachers]
        assert one.rows_each == rows_each and one.noise == pytest.approx(noise, rel=0.003)
        assert one.noise == pytest.approx(0.25 * one.teachers / norm.ppf(0.95))
        for epsilon, result, wanted in ((1.0, one, at_one), (8.0, eight, at_eight)):
            laplace = laplace_on_one_count(one.teachers, epsilon)
            plain = NoisyVote(noise=result.noise, teachers=result.teachers, accounting="gaussian")
            gaussian = renyi.most_uses(renyi.vote_curve(plain), epsilon, 1e-5)
            ours = (result.labels, gaussian, laplace)
            for mine, theirs in zip(ours, wanted, strict=True):
                assert theirs is None or mine == pytest.approx(theirs, rel=2e-4, abs=0.5)
        assert twenty.labels == pytest.approx(at_twenty, rel=2e-4, abs=1)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(200, 60_000),
    epsilon=st.floats(0.2, 25),
    consensus=st.floats(0.55, 1.0),
    flips=st.floats(1e-3, 0.4),
)
def test_the_ledger_grants_what_is_planned_and_no_more(
    rows: int, epsilon: float, consensus: float, flips: float
) -> None:
    teachers = [max(2, rows // 60)]
    plan = plan_labels(rows, epsilon, consensus=consensus, flips=flips, teacher_count=teachers)
    (result,) = plan.grid
    vote = NoisyVote(noise=result.noise, teachers=result.teachers, accounting="exact-binary")
    Ledger(epsilon, 1e-5).open("labels", vote, result.labels)
    with pytest.raises(BudgetError):
        Ledger(epsilon, 1e-5).open("labels", vote, result.labels + 1)


def test_right_labels_by_consensus() -> None:
    right = dict(plan_labels(19_077, 1.0, consensus=0.7, flips=0.1).right)
    assert sorted(right) == [0.55, 0.6, 0.7, 0.75, 0.9]
    assert right[0.7] == pytest.approx(0.9) and 0.5 < right[0.55] < right[0.6] < right[0.7]
    # By draws, at another number of teachers.
    teachers, noise = 400, 0.2 * 400 / norm.ppf(0.9)
    draws = 220 + noise * np.random.default_rng(1).standard_normal(200_000) > teachers / 2
    assert right[0.55] == pytest.approx(draws.mean(), abs=0.005)


def test_recommendations() -> None:
    """privacy.md: 760 to 1,900 teachers at ε = 1, about 380 at ε = 8."""
    results = {e: plan_labels(19_077, e).recommended for e in (1.0, 8.0, 20.0)}
    assert results == {1.0: 1907, 8.0: 381, 20.0: 190}
    few = plan_labels(19_077, 8.0, queries=200)
    assert few.recommended == 50 and "the fewest that answer 200" in few.reason
    assert "fewer than the 5,000 requested" in plan_labels(5_000, 1.0).reason
    small = plan_labels(40, 8.0)
    assert small.recommended == 4 and f"from {LEAST_ROWS_EACH} rows or more" in small.reason
    forced = plan_labels(40, 8.0, teacher_count=[8])
    assert forced.recommended == 8 and f"of {LEAST_ROWS_EACH} rows or more" in forced.reason
    none = plan_labels(40, 0.001)
    assert none.recommended is None and "margnet" in none.reason
    poor = plan_labels(1000, 0.3)
    assert poor.recommended is not None
    assert {x.teachers: x.labels for x in poor.grid}[poor.recommended] > 0


def test_grids() -> None:
    assert [x.teachers for x in plan_labels(19_077, 1.0, teacher_count=[300, 20, 300]).grid] == [
        20,
        300,
    ]
    large = plan_labels(10**9, 1.0)
    assert [x.teachers for x in large.grid] == list(TABLE)
    assert large.recommended == 1907 and large.grid[-1].rows_each == 10**9 // 1907
    middle = [x.teachers for x in plan_labels(3000, 1.0).grid]
    assert middle[-1] == 300 and middle == sorted(set(middle)) and {50, 100, 190} <= set(middle)


def test_it_is_json_ready() -> None:
    plan = plan_labels(19_077, 1.0)
    assert isinstance(plan, LabelPlan)
    data = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert data["grid"][0]["labels"] == 5 and data["recommended"] == 1907


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        *(({"rows": v}, "rows") for v in (0, -5, 1.5, "9", 19, 10**13, True)),
        *(({"epsilon": v}, "epsilon") for v in (0, -1, math.nan, math.inf, "1", 1e5)),
        *(({"delta": v}, "delta") for v in (0, 1, math.nan)),
        *(({"consensus": v}, "consensus") for v in (0.5, 1.01, math.nan)),
        *(({"flips": v}, "flips") for v in (0, 0.5, "x")),
        *(({"queries": v}, "queries") for v in (0, 2.5)),
        *(({"teacher_count": [v]}, "teacher_count") for v in (1, 19_078, 2.5, "3")),
    ],
    ids=repr,
)
def test_what_cannot_be_planned_is_one_line(changes: dict[str, object], name: str) -> None:
    parameters: dict[str, object] = {"rows": 19_077, "epsilon": 1.0}
    with pytest.raises(InputError, match=name) as error:
        plan_labels(**{**parameters, **changes})  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
