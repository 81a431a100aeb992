"""The first screen: who may read the page, whether the table may be published, how good it is, and its map."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from report_tables import certificate, page, report, schema

from tabsynth.evaluation.metric import at_equal_rows
from tabsynth.evaluation.results import Sampled, reference_scale
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.report import Report
from tabsynth.report.first_screen import first_screen, panel_of
from tabsynth.report.heatmap import gaps, heat_map
from tabsynth.report.page import render


def lines(created):
    evaluation = created.evaluation
    return first_screen(evaluation, panel_of(evaluation))


def signed(**changes):
    return Verification(certificate(**changes), 0.997, authenticated=True)


@pytest.mark.parametrize(
    ("given", "state", "words"),
    [
        (None, "stop", "may not be published. No certificate"),
        (certificate(), "wait", "cannot be cleared for publication. The certificate"),
        (signed(), "clear", "may be published. The given key checks the signature"),
        (signed(epsilon="inf"), "stop", "may not be published. NOT PRIVATE: ε is infinite"),
        (signed(seeded=True), "stop", "may not be published. The fit was seeded"),
        (signed(table={"rows": 7}), "wait", "cannot be cleared for publication. The certificate"),
        (signed(public={"schema_sha256": "00"}), "wait", "cannot be cleared"),
        (
            signed(audit=[{"method": "canary", "verdict": "refuted"}]),
            "wait",
            "cannot be cleared for publication. An audit (canary) REFUTED the claim",
        ),
        (
            signed(public={"drafted": ["mean"], "schema_sha256": schema().fingerprint()}),
            "wait",
            "may be published only on a condition. CONDITIONAL",
        ),
    ],
)
def test_only_a_signed_claim_without_a_doubt_clears_a_table(given, state, words):
    line = lines(report(certificate=given))[1]
    assert line.state == state and line.sentence.startswith(f"The synthetic table {words}")


def test_a_cleared_table_states_its_guarantee_and_its_worth():
    stated = signed(
        privacy_unit="one row of the fitted table",
        attacker={"advantage": 0.107, "odds": 3.0, "exception": 1e-4, "basis": "exact Gaussian"},
    )
    reason = lines(report(certificate=stated))[1].reason
    assert "ε = 0.997 and δ = 1e-05 (add or remove one record; unit: one row" in reason
    assert "right in at most 55.4% of cases" in reason  # (1 + 0.107) / 2, rounded up


def test_a_successful_attack_is_named_beside_the_clearance():
    created = report(certificate=signed())
    metrics = created.evaluation.metrics
    presence = next(m for m in metrics if m.key == "presence")
    leak = replace(presence, synthetic=replace(presence.synthetic, value=0.9, low=0.85, high=0.95))
    changed = tuple(leak if m is presence else m for m in metrics)
    line = lines(Report(replace(created.evaluation, metrics=changed)))[1]
    assert line.state == "wait" and "Attacks on it succeed beyond chance" in line.reason


def test_a_sample_is_held_against_the_rows_of_the_whole_table():
    created = report(certificate=signed(table={"rows": 9_000}))
    assert lines(created)[1].state == "wait"
    sampled = Sampled({"synthetic": (150, 9_000)}, ())
    assert lines(Report(replace(created.evaluation, sampled=sampled)))[1].state == "clear"


def test_quality_is_scaled_to_the_holdout():
    evaluation = report().evaluation
    pairs = next(item for item in evaluation.distances if item.order == 2)
    # 200 training, 150 synthetic and 100 hold-out rows.
    scale = np.sqrt((1 / 200 + 1 / 150) / (1 / 200 + 1 / 100))
    reached, baseline = scale * pairs.holdout.mean.value, pairs.baseline.mean.value
    share = (baseline - pairs.synthetic.mean.value) / (baseline - reached)
    row = next(c for c in evaluation.verdict.comparisons if c.metric == "2-way distance")
    assert row.gap_closed == pytest.approx(share) and row.best == pytest.approx(reached)
    assert 0 < share < 1
    answer = lines(report())[2].answer
    assert answer == f"are {int(100 * share)}% of what other real people reach"


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"gap_closed": 1.3}, "are as near as those of other real people"),
        ({"gap_closed": -0.2}, "are lost"),
        ({"gap_closed": 0.999}, "are 99% of what other real people reach"),
        ({"conclusive": False}, "cannot be judged: other real people are no nearer"),
        ({"conclusive": None}, "cannot be compared with those of other real people: no hold-out"),
    ],
)
def test_quality_in_words(changes, answer):
    evaluation = report().evaluation
    rows = tuple(replace(row, **changes) for row in evaluation.verdict.comparisons)
    changed = replace(evaluation, verdict=replace(evaluation.verdict, comparisons=rows))
    assert lines(Report(changed))[2].answer.startswith(answer)


def test_without_a_holdout_the_gap_ends_at_zero():
    created = report(holdout=False)
    row = next(c for c in created.evaluation.verdict.comparisons if c.metric == "2-way distance")
    assert row.best == 0 and row.gap_closed == pytest.approx(1 - row.synthetic / row.baseline)
    line = lines(created)[2]
    assert (
        f"close {row.gap_closed:.0%} of the gap" in line.reason and "Furthest pair: " in line.reason
    )


def test_a_gap_is_the_distance_beyond_that_of_other_real_people():
    evaluation = report().evaluation
    scale = reference_scale(200, 150, 100)
    for order, item in zip((1, 2), evaluation.distances, strict=False):
        result = {gap.columns: gap for gap in gaps(evaluation, order)}
        for i, marginal in enumerate(item.synthetic.marginals):
            reached = scale * item.holdout.marginals[i].value
            gap = result[marginal.columns]
            assert gap.points == pytest.approx(100 * max(0, marginal.value - reached))
            baseline = item.baseline.marginals[i].value
            assert gap.lost is (order == 2 and reached < baseline <= marginal.value)
        ordered = [gap.points for gap in gaps(evaluation, order)]
        assert ordered == sorted(ordered, reverse=True)
    alone = report(holdout=False).evaluation
    largest = max(m.value for m in alone.distances[1].synthetic.marginals)
    assert gaps(alone, 2)[0].points == pytest.approx(100 * largest)


def test_the_map_says_its_numbers_and_frames_lost_pairs():
    evaluation = report().evaluation
    tvd = evaluation["tvd2"]
    baseline = tvd.details.baseline
    # Independent columns that are as near as the synthetic table in the first pair.
    value = tvd.details.synthetic.marginals[0].value
    first = replace(baseline.marginals[0], value=max(value - 1e-9, 0.0))
    lower = replace(tvd.details.holdout.marginals[0], value=0.0)
    details = replace(
        tvd.details,
        baseline=replace(baseline, marginals=(first, *baseline.marginals[1:])),
        holdout=replace(tvd.details.holdout, marginals=(lower, *tvd.details.holdout.marginals[1:])),
    )
    metrics = tuple(replace(m, details=details) if m is tvd else m for m in evaluation.metrics)
    changed = replace(evaluation, metrics=metrics)
    heat = heat_map(changed)
    svg = ElementTree.fromstring(render("heat.svg", heat=heat))
    frames = [e for e in svg.iter() if e.get("class") == "lost"]
    assert len(frames) == sum(gap.lost for gap in gaps(changed, 2)) >= 1
    texts = [e.text for e in svg.iter() if re.fullmatch(r"n\d", e.get("class") or "")]
    every = [gap for order in (1, 2) for gap in gaps(changed, order)]
    assert sorted(texts[: len(every)]) == sorted(str(round(gap.points)) for gap in every)
    assert texts[len(every) :] == ["≤ 1", "≤ 2", "≤ 5", "≤ 10", "≤ 20", "> 20"]
    shade = {e.get("class") for e in svg.iter() if e.get("class", "").startswith("h")}
    assert shade <= {"heat", "h0", "h1", "h2", "h3", "h4", "h5"}


def test_parts_of_a_metric_are_compared_at_equal_rows():
    """The worst pairs beside their hold-out reference, which is corrected as the mean is."""
    evaluation = report().evaluation
    tvd = evaluation["tvd2"]
    raw = {" × ".join(m.columns): m.value for m in tvd.details.holdout.marginals}
    assert tvd.reference_scale < 1
    for part in tvd.parts:
        assert part.holdout == pytest.approx(tvd.reference_scale * raw[part.name])
    score = evaluation["rare_coverage"]  # not corrected
    assert at_equal_rows(score, 0.5).parts == score.parts


def test_the_answers_come_before_everything_else(tmp_path):
    text = page(report(certificate=signed()), tmp_path)
    places = [
        text.index(words)
        for words in (
            "This report is confidential.",
            "The synthetic table may be published.",
            "Relations between columns are ",
            'class="heat"',
            'aria-label="Contents"',
            "Better?",
        )
    ]
    assert places == sorted(places)
    assert "docs/" not in text


@pytest.mark.parametrize("conclusive", [None, False])
def test_tables_without_any_difference_have_no_percentage(conclusive):
    evaluation = report().evaluation
    changes = {"gap_closed": float("nan"), "conclusive": conclusive}
    rows = tuple(replace(row, **changes) for row in evaluation.verdict.comparisons)
    line = lines(Report(replace(evaluation, verdict=replace(evaluation.verdict, comparisons=rows))))
    assert "nan" not in line[2].sentence and "%" not in line[2].sentence
