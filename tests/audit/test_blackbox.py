"""Black-box audits: on mechanisms of a known ε, on broken ones, and on the file that keeps the runs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tabsynth.auditing.blackbox import (
    RunStore,
    Setting,
    audit_black_box,
    extract_features,
    make_small_fit,
)
from tabsynth.auditing.outcomes import NOT_REFUTED, REFUTED
from tabsynth.errors import FileFormatError, InputError

pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
# Of a claim in ε: that of margnet is one in μ too, which a Laplace mechanism does not keep.
SETTING = Setting(method="pate-gan", epsilon=1.0, delta=1e-5, rows=40)


def mechanism(scale, seed=0):
    """Rows of which as many agree with the canary as a Laplace mechanism of so much noise counts."""
    datasets, rng = SETTING.datasets(), np.random.default_rng(seed)
    canary, common = datasets.codes(datasets.canary)[0], datasets.codes(datasets.without)[0]

    def fit(table):
        exact = len(table) - 40  # 1 with the canary
        count = int(np.clip(np.rint(20 + exact + rng.laplace(scale=scale)), 0, 40))
        return np.concatenate([np.tile(canary, (count, 1)), np.tile(common, (40 - count, 1))])

    return fit


@pytest.mark.slow
def test_right_mechanism_is_not_refuted_and_its_epsilon_nearly_found(tmp_path):
    """ε = 1, exactly: half of the runs, 600 on each dataset, bound it from below and come near."""
    audit = audit_black_box(SETTING, tmp_path / "a.jsonl", runs=1200, fit=mechanism(1.0))
    assert audit.verdict == NOT_REFUTED
    assert 0.3 < audit.epsilon_lower <= 1.0
    assert audit.runs == 600 and audit.epsilon_claimed == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.05, 0.3])
def test_mechanism_with_too_little_noise_is_refuted(tmp_path, scale):
    audit = audit_black_box(SETTING, tmp_path / "a.jsonl", runs=400, fit=mechanism(scale))
    assert audit.verdict == REFUTED and audit.is_refuted
    assert audit.epsilon_lower > 1
    assert "Refuted" in audit.sentence


def test_a_claim_in_mu_is_held_to_mu(tmp_path):
    """Laplace noise of ε = 1 is not the Gaussian mechanism that margnet claims to be."""
    margnet = replace(SETTING, method="margnet")
    audit = audit_black_box(margnet, tmp_path / "a.jsonl", runs=600, fit=mechanism(1.0))
    assert audit.verdict == REFUTED and audit.mu_lower > audit.mu_claimed
    assert audit.epsilon_lower <= 1.0


def test_useless_rows_bound_nothing(tmp_path):
    rng = np.random.default_rng(0)
    audit = audit_black_box(
        SETTING, tmp_path / "a.jsonl", runs=50, fit=lambda _: rng.integers(0, 3, (40, 4))
    )
    assert audit.epsilon_lower == 0 and audit.verdict == NOT_REFUTED
    assert "no lower bound above" in audit.power


def test_features_by_hand():
    rows = np.array([[1, 2, 3], [1, 0, 3], [0, 0, 0], [1, 2, 0]])
    result = extract_features(rows, np.array([1, 2, 3]))
    assert result == pytest.approx(
        [3 / 4, 2 / 4, 2 / 4, 2 / 4, 2 / 4, 1 / 4, 1 / 4, 3, 7 / 4]
    )  # by column; pairs (0, 1), (0, 2), (1, 2); all; most; mean


@pytest.mark.slow
def test_runs_go_on_where_they_were(tmp_path):
    """Stopped by Ctrl-C in a fit: what ended is kept, and only the rest is run; a half line is dropped."""
    path, calls = tmp_path / "runs.jsonl", []
    honest = mechanism(1.0)

    def stopped(table):
        calls.append(len(table))
        if len(calls) == 31:
            raise KeyboardInterrupt
        return honest(table)

    with pytest.raises(KeyboardInterrupt):
        audit_black_box(SETTING, path, runs=40, fit=stopped)
    assert len(RunStore(path, SETTING)) == 30
    before = path.read_text()
    path.write_text(before + '{"dataset": 1, "feat')
    reports = []
    audit_black_box(
        SETTING, path, runs=40, fit=stopped, progress=lambda *now: reports.append(now[1:])
    )
    assert len(calls) == 31 + 50 and reports[0] == (31, 80) and reports[-1] == (80, 80)
    assert path.read_text().startswith(before)
    datasets = [json.loads(line)["dataset"] for line in path.read_text().splitlines()[1:]]
    assert sum(datasets) == 40 and len(datasets) == 80
    assert calls.count(40) - calls.count(41) in (0, 1)
    audit_black_box(SETTING, path, runs=40, fit=None)  # nothing is left to be run


@pytest.mark.parametrize(
    "text",
    [
        "no json\n",
        "[]\n",
        '{"format": "other"}\n',
        '{"format": "tabsynth-audit-runs/1"}\n{"a": 1}\n',
    ],
)
def test_files_that_are_none_are_refused(tmp_path, text):
    path = tmp_path / "runs.jsonl"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="not a file of audit runs"):
        RunStore(path, SETTING)


def test_runs_of_another_audit_are_refused(tmp_path):
    path = tmp_path / "runs.jsonl"
    RunStore(path, SETTING)
    with pytest.raises(InputError, match="another audit"):
        RunStore(path, Setting(method="pate-gan", epsilon=2.0, delta=1e-5, rows=40))
    head = json.loads(path.read_text())
    for other in ({**head, "code": "0" * 64}, {k: v for k, v in head.items() if k != "code"}):
        path.write_text(json.dumps(other) + "\n")
        with pytest.raises(
            InputError, match="runs of another version of the code; remove it"
        ) as reports:
            RunStore(path, SETTING)
        assert "\n" not in str(reports.value)
    with pytest.raises(InputError, match="at least 20"):
        audit_black_box(SETTING, path, runs=19)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["margnet", "pate-acgan", "dp-wgan", "dp-gan"])
def test_every_method_has_a_small_fit(method):
    setting = Setting(method=method, epsilon=1.0, delta=1e-5, rows=30)
    datasets = setting.datasets()
    rows = make_small_fit(setting, datasets)(datasets.table(True))
    assert rows.shape == (30, len(datasets.schema.columns))
    assert (rows >= 0).all() and (rows < datasets.schema.sizes).all()
