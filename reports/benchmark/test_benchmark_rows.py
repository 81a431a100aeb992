"""The page of the benchmark: disclosure, rows that lack figures, and releases."""

import math
from pathlib import Path

import config as configs
import disclosure
import numpy as np
import pytest
import score
import writing
from config import Run

OURS = configs.load(Path(__file__).with_name("config.toml"))
COST = {"cpu_seconds": 2.0, "seconds": 2.0, "peak_mib": 300.0, "spent": 0.9}


def test_what_chance_puts_above_the_controls_interval_is_what_draws_put_there():
    assert disclosure.RECORDS == score.ATTACKED
    rng, draws = np.random.default_rng(0), 20_000
    for share in (0.2, 0.5, 0.9):
        one = rng.binomial(disclosure.RECORDS, share, (2, draws)) / disclosure.RECORDS
        ends = {float(c): disclosure.upper(float(c)) for c in np.unique(one[1])}
        result = np.mean([a > ends[float(c)] for a, c in one.T])
        error = math.sqrt(0.1 * 0.9 / draws)
        assert result == pytest.approx(disclosure.chance_above(share), abs=4 * error)
        # Five guesses a record vary less than one does: what chance does with one is a bound.
        five = rng.binomial(5 * disclosure.RECORDS, share, (2, 2000)) / (5 * disclosure.RECORDS)
        above = np.mean([a > disclosure.upper(float(c)) for a, c in five.T])
        assert above < disclosure.chance_above(share)


def test_gaps_are_means_of_runs_and_their_interval_is_students():
    # Cells of one run go together: four of them are one gap.
    rows = [
        {
            "disclose_s1_k1": 0.6,
            "control_s1_k1": 0.5,
            "disclose_s5_k10": 0.5,
            "control_s5_k10": 0.5,
        },
        {
            "disclose_s1_k1": 0.5,
            "control_s1_k1": 0.5,
            "disclose_s5_k10": 0.51,
            "control_s5_k10": 0.5,
        },
        {"tvd2": 0.1},
    ]
    result = disclosure.gaps(rows)
    assert (result.runs, result.cells, result.above) == (2, 4, 1)  # .6 is above Wilson's .556
    assert result.mean == pytest.approx((5 + 0.5) / 2)
    assert result.half == pytest.approx(12.7062 * (4.5 / math.sqrt(2)) / math.sqrt(2), rel=1e-4)
    assert result.chance == pytest.approx(4 * disclosure.chance_above(0.5), rel=0.05)
    alone = disclosure.gaps(rows[:1])
    assert math.isnan(alone.half) and disclosure.points(alone) == "+5.0"
    assert disclosure.gaps(rows[2:]) is None


def test_disclosure_is_stated_for_each_table():
    rows = {"adult-real": {"table": "adult", "disclose_s1_k1": 0.9, "control_s1_k1": 0.5}}
    for run in OURS.runs():
        if (run.system, run.epsilon) == ("margnet", 1.0) and run.seed < 2:
            gap = {"census": 0.1, "adult": -0.1, "hospital": 0.0}[run.table] + 0.002 * run.seed
            rows[run.key] = vars(run) | {"disclose_s1_k1": 0.5 + gap, "control_s1_k1": 0.5}
    margnet, real = disclosure.by_system(OURS, rows)[2:]
    assert (
        margnet == "| MargNet | +10.1 ± 1.3 (2) | -9.9 ± 1.3 (2) | +0.1 ± 1.3 (2) | 2 of 6 | 0.5 |"
    )
    assert real == "| the private rows themselves | – | +40.0 (1) | – | 1 of 1 | 0.1 |"


def test_rows_that_lack_figures_are_named_with_how_to_fill_them():
    whole = dict.fromkeys((figure.key for figure in writing.FIGURES), 0.5) | COST
    rows = {run.key: vars(run) | whole for run in OURS.runs()}
    assert writing.missing_figures(OURS, rows) == [
        "Every run that ended has all figures that others of its table have."
    ]
    for system, epsilon, seed, lacks in (
        ("mst", 1.0, 0, ("target_auroc", "pmse_tree")),
        ("mst", 8.0, 0, ("target_auroc", "pmse_tree")),
        ("aim", 1.0, 1, ("target_auroc", "pmse_tree")),
        ("dp-wgan", 8.0, 2, ("cpu_seconds",)),
    ):
        for name in lacks:
            del rows[Run("census", system, epsilon, seed).key][name]
    stopped = Run("adult", "aim", 1.0, 0)
    rows[stopped.key] = vars(stopped) | {"stopped": "failed"}  # it has no figure to lack
    for run in OURS.runs():
        if run.table == "hospital":  # no row of this table can have it
            del rows[run.key]["target_auroc"]
    text = writing.missing_figures(OURS, rows)
    ended = len(OURS.runs()) - 1
    assert text[0].startswith(f"**4 of the {ended} runs that ended lack figures**")
    for line in (
        "- AUROC of target, pMSE ratio: 3 runs",
        "  - MST 2: `census`, ε = 1, 8, seed 0",
        "  - AIM 1: `census`, ε = 1, seed 1",
        "- CPU time and memory: 1 run",
        "  - DP-WGAN 1: `census`, ε = 8, seed 2",
    ):
        assert line in text
    assert "--only KEY --again" in text[-1] and "`census-mst-eps1-seed0`" in text[-1]


def test_runs_are_counted_by_the_release_that_they_are_of():
    row = {"tvd2": 0.1}
    rows = {
        Run("adult", "margnet", 1.0, 0).key: row | {"release": "9.1.0"},
        Run("adult", "margnet", 8.0, 0).key: row | {"release": "9.1.0"},
        Run("adult", "dp-wgan", 1.0, 0).key: row,
        Run("adult", "aim", 1.0, 0).key: row,
    }
    line = writing.release_line(OURS, rows)
    assert line == (
        "Runs of tabsynth on release 0.2 or earlier: DP-WGAN 1. Runs of tabsynth on release 9.1.0: MargNet 2."
    )
