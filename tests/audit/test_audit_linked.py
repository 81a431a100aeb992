"""R20: audits of linked tables, whose canary is a root row with its other records."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from tabsynth import LinkedMargNet
from tabsynth.auditing import linked_datasets
from tabsynth.auditing.canary_counts import audit_linked_counts
from tabsynth.auditing.outcomes import NOT_REFUTED, REFUTED, WHOLE
from tabsynth.auditing.request import AuditRequest
from tabsynth.cli import app
from tabsynth.encoding import linked as records
from tabsynth.encoding.rows import SharedRows
from tabsynth.synthesizers import MargNetConfig

pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
RUNS = 200


def test_the_canary_adds_its_whole_sensitivity():
    """It has one record in each table, of weight 1, and no other root row changes."""
    datasets = linked_datasets.small_datasets()
    method = LinkedMargNet(datasets.schema, epsilon=1.0).make_method(datasets.schema)
    parts = (datasets.canary, datasets.table(True), datasets.table(False))
    canary, with_canary, without = (method.encode_rows(part, b"") for part in parts)
    assert set(canary) == {"patients", "stays", "events", "patients: profiles"}
    for name, rows in canary.items():
        assert (rows.codes == rows.codes[0]).all()
        assert rows.shares is None or rows.shares.sum() == 1
        assert (rows.shares is None) == name.startswith("patients")
        assert not (without[name].codes == rows.codes[0]).all(1).any()
        others = len(without[name])
        np.testing.assert_array_equal(with_canary[name].codes[:others], without[name].codes)


@pytest.mark.slow(cases=0)
@pytest.mark.parametrize("config", [None, MargNetConfig(max_unscored=0)])
def test_right_counts_show_what_the_theory_says(config):
    result = {
        r.part: r
        for r in audit_linked_counts(
            AuditRequest(method="linked-margnet", epsilon=8.0, runs=RUNS), config=config
        )
    }
    stages = {part.partition(": ")[2] for part in result if part != WHOLE}
    assert {"one-way counts", "joint counts"} <= stages
    of_triples = {part for part in result if "sign interactions" in part}
    # An event has one column of its own: with its context it is in no triple whose pairs are all counted.
    assert of_triples == {"patients: sign interactions", "stays: sign interactions"}
    assert sum("scores of pairs" in part for part in result) == (1 if config is None else 3)
    for part in result.values():
        assert part.verdict == NOT_REFUTED, part.sentence
        slack = 4.5 * math.sqrt(2 / RUNS)
        assert part.mu_estimate < part.mu_claimed + slack, part
        assert part.mu_lower <= part.mu_claimed
    whole = result[WHOLE]
    assert whole.mu_estimate > 0.9 * whole.mu_claimed - slack
    assert whole.epsilon_claimed == pytest.approx(8.0, rel=1e-6)
    squared = sum(r.mu_claimed**2 for r in result.values() if r is not whole)
    assert whole.mu_claimed == pytest.approx(math.sqrt(squared), rel=1e-9)


def test_stages_that_release_nothing_are_charged_and_have_no_result():
    """With at most 4 cells no triple is counted, so there are no signs; the claim for the whole fit includes their charge."""
    result = {
        r.part: r
        for r in audit_linked_counts(
            AuditRequest(method="linked-margnet", epsilon=8.0, runs=20),
            config=MargNetConfig(max_cells=4),
        )
    }
    stages = {
        f"{table}: {stage} counts"
        for table in ("patients", "stays", "events")
        for stage in ("one-way", "joint")
    }
    stages.add("patients: profiles")
    assert set(result) == {WHOLE, *stages}
    assert result[WHOLE].epsilon_claimed == pytest.approx(8.0, rel=1e-6)
    squared = sum(result[stage].mu_claimed ** 2 for stage in stages)
    assert squared < 0.999 * result[WHOLE].mu_claimed ** 2


@pytest.mark.slow(cases=0)
def test_children_that_count_twice_each_are_refuted(monkeypatch):
    """The event record, with four times the weight of a root row: that of two stays, each with two records of its whole weight."""
    right = records.LinkedEncoder.to_rows

    def whole(self, tables):
        return {
            name: SharedRows(rows.codes, None if rows.shares is None else np.full(len(rows), 4.0))
            for name, rows in right(self, tables).items()
        }

    monkeypatch.setattr(records.LinkedEncoder, "to_rows", whole)
    result = {
        r.part: r
        for r in audit_linked_counts(AuditRequest(method="linked-margnet", epsilon=8.0, runs=RUNS))
    }
    assert result["events: joint counts"].verdict == result[WHOLE].verdict == REFUTED
    assert result["patients: joint counts"].verdict == NOT_REFUTED


@pytest.mark.slow(cases=0)
def test_at_the_command_line(tmp_path, monkeypatch):
    """The quick audits: white-box and replay, of all tables."""
    words = ("audit", "--method", "linked-margnet", "--epsilon", "8", "--runs", "60")
    done = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "aud")])
    assert done.exit_code == 0, done.output
    results = json.loads((tmp_path / "aud" / "audit.json").read_text())["results"]
    assert {r["kind"] for r in results} == {"white-box", "replay"}
    replay = results[-1]
    assert replay["runs"] == 4 and 0.9 < replay["details"]["worst_move"] <= 1 + 1e-9
