"""R15, R20: a canary that is a unit of several rows changes one teacher's vote, and shows what the accounting says."""

import math

import pytest
from record_replay.units import as_unit

from tabsynth.auditing import canary_votes
from tabsynth.auditing.canary_votes import ALL, ONE, audit_votes, count_changed_teachers
from tabsynth.auditing.neighbouring_datasets import small_neighbouring_datasets
from tabsynth.auditing.outcomes import NOT_REFUTED, REFUTED, WHOLE
from tabsynth.auditing.request import AuditRequest
from tabsynth.synthesizers.pate.rounds import deal
from tabsynth.training.units import UnitRows

ROWS = 3
REQUEST = AuditRequest(method="pate-gan", epsilon=8.0, runs=300, datasets=as_unit(ROWS))


def in_parts(rows, teachers, key):
    """The mistake: each row of a unit is dealt to a teacher of its own."""
    return deal(rows.inputs if isinstance(rows, UnitRows) else rows, teachers, key)


def test_a_unit_shows_what_one_vote_may():
    result = {r.part: r for r in audit_votes(REQUEST, samples=50_000)}
    assert set(result) == {WHOLE, "one-way counts", ALL, ONE}
    for part in result.values():
        assert part.verdict == NOT_REFUTED, part.sentence
    whole, votes = result[WHOLE], result[ALL]
    counts = result["one-way counts"]
    assert whole.epsilon_claimed == pytest.approx(8.0, rel=0.01)
    mu = math.hypot(votes.details["mu_expected"], counts.mu_claimed)
    assert whole.mu_estimate == pytest.approx(mu, abs=0.35)


def test_rows_of_a_unit_with_several_teachers_are_refuted(monkeypatch):
    monkeypatch.setattr(canary_votes, "deal", in_parts)
    result = {r.part: r for r in audit_votes(REQUEST, samples=200_000)}
    assert result[ONE].verdict == REFUTED
    assert result["one-way counts"].verdict == NOT_REFUTED


def test_the_partition_of_the_fit_decides(monkeypatch):
    datasets = small_neighbouring_datasets()
    assert count_changed_teachers(datasets, 1000) == 1
    for most in (1, ROWS):
        assert count_changed_teachers(as_unit(most), 1000) == 1
    monkeypatch.setattr(canary_votes, "deal", in_parts)
    assert count_changed_teachers(as_unit(ROWS), 100_000) == ROWS
