"""Which table is best by how many metrics, and which attacks succeed where several are tried."""

import math
from typing import Any

import pytest
from scipy import stats

from tabsynth.evaluation.comparing import compare_evaluations
from tabsynth.evaluation.metric import Evaluation, Metric
from tabsynth.evaluation.results import Distance, Estimate, Marginal, Verdict


def metric(key: str, value: float, half: float, **changes: Any) -> Metric:
    about: dict[str, Any] = {
        "key": key,
        "title": key,
        "kind": "utility",
        "synthetic": Estimate(value, value - half, value + half, 100),
        "holdout": None,
        "baseline": None,
        "better": "higher",
        "best": 1.0,
        "reading": "",
        "citation": "",
    }
    return Metric(**{**about, **changes})


def evaluation(label: str, *metrics: Metric) -> Evaluation:
    return Evaluation(rows={}, metrics=metrics, verdict=Verdict("", ()), label=label)


def test_wins_are_counted_by_table_and_ties_are_nobodys() -> None:
    one = evaluation(
        "one", metric("f1", 0.9, 0.01), metric("tie", 0.5, 0.1), metric("near", 0.6, 0.2)
    )
    other = evaluation(
        "other", metric("f1", 0.7, 0.01), metric("tie", 0.5, 0.1), metric("near", 0.7, 0.2)
    )
    for tables in ([one, other], [other, one]):
        comparison = compare_evaluations(tables)
        assert comparison.wins == {"one": 1, "other": 1} and comparison.clear_wins == 1
    unknown = evaluation("unknown", metric("f1", math.nan, math.nan))
    comparison = compare_evaluations([one, unknown])
    assert comparison.wins == {"one": 1, "unknown": 0} and comparison.clear_wins == 0


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
        made = evaluation("table", *tried, disclosure, metric("f1", 0.9, 0.01))
        assert made.attacks.tried == tuple(tried)
        assert [attack.key for attack in made.attacks.successful] == ["a"] * succeeds
    assert evaluation("none", disclosure).attacks == ((), ())


def test_the_worst_marginals_come_first() -> None:
    marginals = tuple(
        Marginal((name,), value) for name, value in (("a", 0.1), ("b", 0.3), ("c", 0.2))
    )
    distance = Distance(Estimate(0.2, 0.1, 0.3, 3), marginals)
    assert [item.columns[0] for item in distance.furthest(2)] == ["b", "c"]
    assert len(distance.furthest(9)) == 3 and distance.furthest_columns(2) == {"b", "c"}
