"""What follows from the metrics: successful attacks, worst marginals, verdicts by metric, rows compared."""

import math
from typing import Any

import pytest
from scipy import stats

from tabsynth.evaluation.definitions import Definition
from tabsynth.evaluation.metric import Evaluation, Metric
from tabsynth.evaluation.results import (
    BaselineComparison,
    Cell,
    ColumnSummary,
    Distance,
    Estimate,
    Marginal,
    Overlap,
    Verdict,
    reference_scale,
)


def metric(key: str, value: float, half: float, **changes: Any) -> Metric:
    about: dict[str, Any] = {"better": "higher", "best": 1.0, **changes}
    texts = {"meaning": "", "range": "", "caveat": "", "source": ""}
    definition = Definition(name=key, keys=(key,), **texts, **about)
    return Metric(definition, Estimate(value, value - half, value + half, 100))


def evaluation(label: str, *metrics: Metric) -> Evaluation:
    return Evaluation(rows={}, metrics=metrics, verdict=Verdict("", ()), label=label)


@pytest.mark.parametrize("attacks", [1, 3, 10])
def test_an_attack_succeeds_beyond_the_chance_of_all_attacks(attacks: int) -> None:
    """Against the normal quantile: an attack of z standard errors succeeds where P(Z > z) < 2.5% / attacks."""
    needed = -stats.norm.ppf(0.025 / attacks)
    for z, succeeds in ((needed * 0.99, False), (needed * 1.01, True)):
        half = stats.norm.ppf(0.975) * 0.1 / z  # an interval at 95%, of an attack 0.1 above chance
        tried = [
            metric("a", 0.6, half, kind="privacy", best=0.5, better="lower"),
            *(
                metric(f"b{i}", 0.5, 0.1, kind="privacy", best=0.5, better="lower")
                for i in range(attacks - 1)
            ),
        ]
        disclosure = metric("attribute_disclosure", 0.9, 0.01, kind="privacy", best=0.0)
        created = evaluation("table", *tried, disclosure, metric("f1", 0.9, 0.01))
        assert created.attacks.tried == tuple(tried)
        assert [attack.key for attack in created.attacks.successful] == ["a"] * succeeds
    assert evaluation("none", disclosure).attacks == ((), ())


def test_the_worst_marginals_come_first() -> None:
    marginals = tuple(
        Marginal((name,), value) for name, value in (("a", 0.1), ("b", 0.3), ("c", 0.2))
    )
    distance = Distance(Estimate(0.2, 0.1, 0.3, 3), marginals)
    assert [item.columns[0] for item in distance.furthest(2)] == ["b", "c"]
    assert len(distance.furthest(9)) == 3 and distance.furthest_columns(2) == {"b", "c"}


def test_the_columns_of_the_worst_marginals_are_kept() -> None:
    pairs = ((("a", "b"), 0.1), (("c", "d"), 0.3), (("a", "d"), 0.2))
    marginals = tuple(Marginal(columns, value) for columns, value in pairs)
    distance = Distance(Estimate(0.2, 0.1, 0.3, 3), marginals)
    assert distance.furthest_columns(3) == {"c", "d", "a"}
    assert distance.furthest_columns(1) == {"c"}
    assert distance.furthest_columns(9) == {"a", "b", "c", "d"}


def test_a_verdict_names_the_metrics_on_each_side() -> None:
    def comparison(name: str, better: bool, conclusive: bool | None) -> BaselineComparison:
        return BaselineComparison(name, 0.5, 0.5, 0.0, 0.0, better, conclusive)

    expected = Verdict(
        "",
        (
            comparison("better", True, True),
            comparison("better than a reference that is not", True, False),
            comparison("worse", False, True),
            comparison("too weak", False, False),
        ),
    )
    assert expected.better == ("better", "better than a reference that is not")
    assert expected.not_better == ("worse",) and expected.inconclusive == ("too weak",)
    assert not expected.is_unknown
    bare = Verdict("", (comparison("x", False, None), comparison("y", True, None)))
    assert bare.is_unknown and bare.not_better == ("x",) and bare.inconclusive == ()
    assert not Verdict("", bare.comparisons[1:]).is_unknown


@pytest.mark.parametrize(("low", "leaks"), [(-0.01, False), (0.0, False), (0.01, True)])
def test_a_cell_leaks_where_its_interval_excludes_zero(low: float, leaks: bool) -> None:
    share = Estimate(0.5, 0.4, 0.6, 9)
    assert Cell(1, 1, share, share, Estimate(0.1, low, 0.2, 9), share).leaks is leaks
    assert not Cell(1, 1, share, None, None, share).leaks


def column(name: str, distance: float) -> ColumnSummary:
    return ColumnSummary(
        name, "categorical", None, ("x", "y", "z"), (0.2, 0.5, 0.3), (0.3, 0.3, 0.4),
        "", (), 0, 0, distance,
    )  # fmt: skip


def test_the_columns_furthest_apart_stay_in_the_order_of_the_table() -> None:
    columns = (column("a", 0.1), column("b", 0.3), column("c", 0.2))
    created = Evaluation(rows={}, metrics=(), verdict=Verdict("", ()), columns=columns)
    assert [item.column for item in created.furthest_columns(2)] == ["b", "c"]
    assert created.furthest_columns(5) == columns
    assert columns[0].largest(2) == [("y", 0.5, 0.3), ("z", 0.3, 0.4)]


def test_rows_are_those_given_and_the_reference_is_scaled_to_them() -> None:
    rows = {"train": 600, "synthetic": 600, "holdout": 150, "test": 150}
    created = Evaluation(rows=rows, metrics=(), verdict=Verdict("", ()), left_out=5)
    assert created.given_rows == 605
    assert (
        created.reference_scale == reference_scale(600, 600, 150) == pytest.approx(math.sqrt(0.4))
    )
    bare = Evaluation(rows={**rows, "holdout": 0}, metrics=(), verdict=Verdict("", ()))
    assert bare.reference_scale == 1.0
    assert Overlap(holdout=40, in_training=10, training=100, repeated=5).share == 0.25


def test_without_a_control_group_no_attack_is_judged() -> None:
    unknown = metric("attribute_disclosure", math.nan, math.nan, kind="privacy", best=0.0)
    expected = metric("presence", 0.5, 0.1, kind="privacy", best=0.5)
    assert not evaluation("bare", unknown, metric("f1", 0.9, 0.01)).has_attacks
    assert evaluation("judged", unknown, expected).has_attacks
