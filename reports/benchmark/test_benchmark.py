"""The benchmark: its config, its rows, its findings, and one run of it."""

import contextlib
import itertools
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import config as configs
import findings
import harness
import numpy as np
import pandas as pd
import pytest
import ranks
import runner
import store
import writing
from config import Run
from runner import Runner, Stopped
from scipy.stats import friedmanchisquare
from tables import TABLES

import tabsynth
from tabsynth import Schema
from tabsynth.errors import InputError
from tabsynth.privacy.certificate.certificate import code
from tabsynth.schema import Column

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = ROOT / "reports" / "benchmark"

OURS = configs.load(BENCHMARK / "config.toml")
OF_PATE = "pate-gan-paper"  # a system of the study of PATE, whose rows are in this store
TINY = """
epsilons = [8, 1]
seeds = [0]
delta = 1e-5
limit = {limit}

[tables.people]
title = "people, 3 columns"
rows = "people.csv"
schema = "people.schema.json"
target = "income"

[systems.margnet]
method = "margnet"
"""


@pytest.fixture
def people(tmp_path):
    """Return a function from a limit to the config of a benchmark of a user's own table of 300 rows."""
    source = "an invented register"
    columns = [
        Column(name=n, kind="categorical", dtype="str", categories=tuple("abc"), source=source)
        for n in ("sex", "region", "income")
    ]
    Schema(columns).save(tmp_path / "people.schema.json")
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=(300, 3))
    codes[:, 2] = np.where(rng.random(300) < 0.8, codes[:, 1], codes[:, 2])
    rows = pd.DataFrame(np.array(list("abc"))[codes], columns=["sex", "region", "income"])
    rows.to_csv(tmp_path / "people.csv", index=False)

    def load_config(limit: int) -> configs.Config:
        path = tmp_path / "bench.toml"
        path.write_text(TINY.format(limit=limit))
        return configs.load(path)

    return load_config


def test_the_plan_is_every_system_epsilon_table_and_seed():
    runs = OURS.runs()
    assert set(OURS.tables) == {"census", "adult", "hospital"}
    assert OURS.epsilons == (1.0, 8.0) and OURS.seeds == (0, 1, 2)
    assert OURS.limit == 900
    product = itertools.product(OURS.tables, OURS.systems, OURS.epsilons, OURS.seeds)
    assert sorted(run.key for run in runs) == sorted(Run(*each).key for each in product)
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    assert Run("census", "mst", 0.5, 2).key == "census-mst-eps0.5-seed2"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilons = [8, 1]", "epsilons = [0]", "epsilons"),
        ("seeds = [0]", "seeds = [-1]", "seeds"),
        ("delta = 1e-5", "", "lacks: delta"),
        ("delta = 1e-5", "delta = 1e-5\nlimits = 3", "unknown: limits"),
        ("limit = 5\n", "", "lacks: limit"),
        ("limit = 5", "limit = -1", "limit must be CPU seconds"),
        ('schema = "people.schema.json"', "", "tables.people"),
        ('method = "margnet"', 'method = "magnet"', "margnet, dp-wgan"),
        ('method = "margnet"', 'peer = "mst"', "its package"),
        ('method = "margnet"', 'methods = "margnet"', "methods"),
        ("[systems.margnet]", '[systems."margnet:iid"]', "colon"),
        ('method = "margnet"', 'method = "margnet"\nlimit = 7', "limit"),  # it is the same for all
        ('method = "margnet"', 'peer = "mst"\npackage = "a"\npython = 3.12', "text as python"),
        ('method = "margnet"', 'peer = "mst"\npackage = "a"\nrequirements = "b"', "list of texts"),
    ],
)
def test_a_wrong_config_is_refused_by_name(people, old, new, said):
    path = people(5).path
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=said):
        configs.load(path)


def test_the_rows_of_the_store_are_what_their_keys_say():
    rows = harness.load_rows(OURS.store)
    assert len(rows) > 60
    for key, row in rows.items():
        if "system" not in row:
            assert key.removeprefix(f"{row['table']}-") in store.REFERENCES
            continue
        assert key == Run(row["table"], row["system"], row["epsilon"], row["seed"]).key
        assert row["system"] in {*OURS.systems, OF_PATE} and row["table"] in TABLES
        if "stopped" in row:
            assert "tvd2" not in row
            continue
        assert all(0 <= row.get(figure.key, 0) <= 1 for figure in ranks.FIGURES[:6])
        # More columns in a marginal can only tell tables better apart.
        assert row["tvd1"] < row["tvd2"] < row["tvd3"]
        assert 0 < row.get("spent", row["epsilon"]) <= row["epsilon"] * (1 + 1e-9)
        ours = row["system"] == OF_PATE or OURS.systems[row["system"]].method
        if ours and "cpu_seconds" in row:
            assert row["cpu_seconds"] <= OURS.limit


def test_a_run_past_its_limit_stands_for_larger_epsilons_and_other_seeds():
    row = vars(Run("adult", "aim", 2.0, 1)) | {"stopped": store.NOT_DONE + "1,200 CPU s"}
    broken = vars(Run("adult", "mst", 1.0, 0)) | {"stopped": "MemoryError"}
    results = {Run("adult", "aim", 2.0, 1).key: row, Run("adult", "mst", 1.0, 0).key: broken}
    for epsilon, seed in itertools.product((1.0, 2.0, 8.0), range(3)):
        reference = store.row_of(OURS, results, Run("adult", "aim", epsilon, seed))
        assert (reference is row) == (epsilon >= 2.0)
    assert store.row_of(OURS, results, Run("census", "aim", 8.0, 0)) is None
    assert store.row_of(OURS, results, Run("adult", "margnet", 8.0, 0)) is None
    assert store.row_of(OURS, results, Run("adult", "mst", 1.0, 0)) is broken
    assert store.row_of(OURS, results, Run("adult", "mst", 8.0, 0)) is None  # a failure is no limit


def test_mean_ranks_by_hand():
    cells = [("census", 1.0), ("census", 8.0), ("adult", 1.0)]
    # a is ahead of b twice and behind once; c ties with b in the last cell.
    table = {"margnet": (3.0, 2.0, 1.0), "mst": (1.0, 1.0, 4.0), "aim": (2.0, 0.0, 4.0)}
    figures = {
        (block, name): [value]
        for name, row in table.items()
        for block, value in zip(cells, row, strict=True)
    }
    result = ranks.mean_ranks(OURS, figures, table)
    assert {name: rank.value for name, rank in result.items()} == pytest.approx(
        {"margnet": 5 / 3, "mst": 6.5 / 3, "aim": 6.5 / 3}
    )
    # Every draw of tables has census only, adult only, or both.
    assert (result["margnet"].low, result["margnet"].high) == (1.0, 3.0)


def test_the_critical_difference_is_demsars():
    # Demšar 2006, table 5(a): q at 0.05 for 2 to 10 classifiers.
    published = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
    for k, q in zip(range(2, 11), published, strict=True):
        result = ranks.critical_difference(k, 14)
        assert result == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 14)), abs=1e-3 * k)
    # Of two systems it is the normal test of signs that Friedman's is, too.
    gap = ranks.critical_difference(2, 100)
    won = round(100 * (1 + gap) / 2)
    x = np.where(np.arange(100) < won, 1, 0)
    y = np.full(100, 0.5)
    z = np.full(100, -1.0)  # always last: Friedman's needs three
    assert friedmanchisquare(x, y, z).pvalue < 0.05


def test_only_systems_that_ended_in_every_cell_are_ranked():
    results = {((t, 1.0), s): [0.5] for t in ("census", "adult") for s in ("margnet", "mst")}
    results |= {(("census", 1.0), "aim"): [0.5]}
    assert ranks.ranked_systems(OURS, results) == ["margnet", "mst"]
    results |= {(("adult", 1.0), "aim"): [0.4]}
    assert ranks.ranked_systems(OURS, results) == ["margnet", "mst", "aim"]
    tied = ranks.mean_ranks(OURS, results, ["margnet", "mst", "aim"])
    assert tied["margnet"].value == pytest.approx(1.75)
    assert tied["margnet"].low <= 1.75 <= tied["margnet"].high
    assert ranks.mean_ranks(OURS, results, []) == {}


def test_losses_and_leaders_name_the_peer_that_is_ahead():
    rows = {}
    for system, tvd in (("margnet", 0.3), ("dp-wgan", 0.2), ("mst", 0.15)):
        run = Run("census", system, 1.0, 0)
        rows[run.key] = vars(run) | {"tvd2": tvd}
    rows["census-shuffled"] = {"table": "census", "tvd2": 0.25}
    assert findings.losses(OURS, rows) == [
        "- **tvd2**: census, 10 columns, ε = 1: MST 0.150, DP-WGAN 0.200."
    ]
    tvd2 = next(line for line in findings.leaders(OURS, rows) if line.startswith("| tvd2 |"))
    assert tvd2.startswith("| tvd2 | *MST* +0.050 | – |")
    assert findings.wins(OURS, rows) == (
        "Of 1 combinations of table, ε and metric, the best mean is of MST in 1."
    )
    assert findings.below_baseline(OURS, rows)[0].endswith("MargNet (independent columns: 0.250).")
    for fresh, so in ((0.1, "test rows: 0.100)."), (0.26, "test rows: 0.260, **worse, too**).")):
        rows["census-fresh"] = {"table": "census", "tvd2": fresh}
        assert findings.below_baseline(OURS, rows)[0].endswith(
            f"MargNet (independent columns: 0.250; {so}"
        )
    assert findings.gain(OURS, rows, findings.BY["tvd2"], "margnet", "mst").startswith(
        "0 of 1; -0.150"
    )
    assert findings.gain(OURS, rows, findings.BY["tvd2"], "margnet", "dp-wgan") == "0 of 1; -0.100"
    close = findings.Place("a", 0.5, 0.02), findings.Place("b", 0.55, math.nan)
    assert findings.close(*close) and not findings.close(close[0], findings.Place("b", 0.6, 0.0))


def test_a_peer_has_its_own_environment_and_options(people, tmp_path, monkeypatch):
    path = people(5).path
    path.write_text(
        path.read_text().replace(
            'method = "margnet"',
            'peer = "aim"\npackage = "aim @ git+https://a/b.git@" \n'
            'requirements = ["jax==1"]\npython = "3.99"\noptions = { size = 2 }',
        )
    )
    config, ran = configs.load(path), []
    monkeypatch.setattr(runner, "PEERS", tmp_path / "peers")
    python = tmp_path / "peers" / "aim-git-https-a-b.git-" / "bin" / "python"

    def run_succeeds(command):
        ran.append([str(part) for part in command])
        python.parent.mkdir(parents=True, exist_ok=True)
        return works

    monkeypatch.setattr(runner, "run_succeeds", run_succeeds)
    works = False
    assert Runner(config).peer_python(config.systems["margnet"]) is None
    assert ran == [["python3.99", "-m", "venv", str(python.parent.parent)]]
    works = True
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    for _ in range(2):  # it is made once
        assert Runner(config).peer_python(config.systems["margnet"]) == python
        package = config.systems["margnet"].package
        assert ran[2:] == [[*pip, "jax==1"], [*pip, "--no-deps", package]]
    started = []
    monkeypatch.setattr(Runner, "process", lambda _, what, limit: started.append((what, limit)))
    Runner(config)._fit(Run("people", "margnet", 1.0, 3), tmp_path, tmp_path / "out.csv")
    assert started[0][0][0] == python and started[0][0][-1] == '{"size": 2}' and started[0][1] == 5
    (line,) = writing.peers(config)[2:]
    assert line == f"| margnet | `{package}` | size = 2 |"


def test_a_command_that_is_not_there_does_not_succeed():
    assert runner.run_succeeds([sys.executable, "-c", "0"])
    assert not runner.run_succeeds([sys.executable, "-c", "raise SystemExit(2)"])
    assert not runner.run_succeeds(["no-such-python3.99"])


def test_a_cell_that_a_system_did_not_end_is_no_win_and_one_not_tried_is_not_called_stopped():
    rows = {}
    for table, epsilon in (("census", 1.0), ("adult", 1.0), ("adult", 8.0)):
        run = Run(table, "margnet", epsilon, 0)
        rows[run.key] = vars(run) | {"tvd2": 0.1, "cpu_seconds": 10.0, "peak_mib": 300.0}
    ended, stopped = Run("census", "aim", 1.0, 0), Run("adult", "aim", 1.0, 0)
    rows[ended.key] = vars(ended) | {"tvd2": 0.3, "cpu_seconds": 20.0, "peak_mib": 300.0}
    rows[stopped.key] = vars(stopped) | {"stopped": store.NOT_DONE + "1,200 CPU s"}
    aim = next(line for line in findings.against(OURS, rows, "margnet") if line[:6] == "| AIM ")
    assert aim == "| AIM | 1 of 1; +0.200 | – | 2.0 | 1 stopped, 1 not tried |"
    margnet = findings.against(OURS, rows, "aim")[2]  # the other way round
    assert margnet.endswith("| 0.5 | AIM: 1 stopped, 1 not tried |") and "0 of 1; -0.200" in margnet
    assert findings.fastest(OURS, rows) == "MargNet takes the least CPU time in 3 of 6 cells"
    assert findings.cells_without_table(OURS, rows, "aim", "mst") == ""  # of which nothing is known
    counts = findings.leaders(OURS, rows)[2]
    assert counts.startswith("| systems that ended | 2 | 0 | 1, 1 stopped | 1, 1 not tried |")
    texts = writing.of_figure(OURS, rows, findings.BY["tvd2"])
    (aim,) = (line for line in texts if line.startswith("| AIM |"))
    assert aim.startswith("| AIM | 0.300 | not run yet | stopped | not tried |")
    (aim,) = (line for line in writing.cpu_table(OURS, rows) if line.startswith("| AIM |"))
    assert aim.startswith("| AIM | 20 | not run yet | stopped | not tried |")
    assert aim.endswith("| 300 |")
    second = Run("adult", "aim", 8.0, 2)  # it was tried after all, with one seed
    rows[second.key] = vars(second) | {"stopped": store.NOT_DONE + "2,000 CPU s"}
    assert findings.cells_without_table(OURS, rows, "aim") == "2 stopped"
    texts = writing.of_figure(OURS, rows, findings.BY["tvd2"])
    assert any(
        line.startswith("| AIM | 0.300 | not run yet | stopped | stopped |") for line in texts
    )


def test_nobody_is_ahead_on_a_figure_that_another_was_not_measured_by():
    mine, theirs = Run("census", "margnet", 1.0, 0), Run("census", "mst", 1.0, 0)
    rows = {
        mine.key: vars(mine) | {"tvd2": 0.1, "target_auroc": 0.8},
        theirs.key: vars(theirs) | {"tvd2": 0.2},
    }
    block = ("census", 1.0)
    assert [p.system for p in findings.places(OURS, rows, block, findings.BY["tvd2"])] == [
        "margnet",
        "mst",
    ]
    assert findings.places(OURS, rows, block, findings.BY["target_auroc"]) == []
    assert ranks.values(OURS, rows, findings.BY["target_auroc"]) == {}
    rows[theirs.key] = vars(theirs) | {"stopped": store.NOT_DONE + "1,200 CPU s"}
    result = ranks.values(OURS, rows, findings.BY["target_auroc"])
    assert result == {(block, "margnet"): [0.8]}


def test_a_run_that_was_stopped_is_in_no_rank():
    """A system that was stopped is neither ahead of nor behind another that is worse than independent columns."""
    rows = {}
    for table, system in itertools.product(("census", "adult", "hospital"), ("margnet", "mst")):
        run = Run(table, system, 1.0, 0)
        rows[run.key] = vars(run) | {"tvd2": 0.1 if system == "margnet" else 0.9}
    for table in ("census", "adult", "hospital"):
        run = Run(table, "aim", 1.0, 0)
        ended = {"tvd2": 0.2} if table != "hospital" else {"stopped": "not done in 1,200 CPU s"}
        rows[run.key] = vars(run) | ended
    figures = ranks.values(OURS, rows, findings.BY["tvd2"])
    assert (("hospital", 1.0), "aim") not in figures and (("hospital", 8.0), "aim") not in figures
    result = ranks.mean_ranks(OURS, figures, ranks.ranked_systems(OURS, figures))
    assert {name: rank.value for name, rank in result.items()} == {"margnet": 1, "mst": 2}


def test_a_run_that_a_shorter_limit_stopped_is_still_to_be_made():
    run, larger = Run("adult", "aim", 1.0, 0), Run("adult", "aim", 8.0, 0)
    rows = {run.key: vars(run) | {"stopped": "not done in 600 CPU s"}}
    assert store.row_of(OURS, rows, run) is store.row_of(OURS, rows, larger) is None
    assert {run, larger} <= set(store.missing_runs(OURS, rows))
    assert writing.missing(OURS, rows)[0].startswith("Of 180 runs 0 ended and 0 were stopped.")
    rows[run.key] = vars(run) | {"stopped": "not done in 900 CPU s"}
    assert store.row_of(OURS, rows, larger) is rows[run.key]
    rows[run.key] = vars(run) | {"tvd2": 0.1, "cpu_seconds": 1671.4}  # it ended under a longer one
    assert store.row_of(OURS, rows, run) is rows[run.key]
    assert findings.past_limit(OURS, rows) == [
        "- AIM, Adult, 14 columns: 1, the longest with 1,671 CPU seconds."
    ]


@pytest.mark.slow(cases=0)
def test_a_fit_past_its_limit_is_stopped_and_the_next_epsilon_not_tried(people):
    config = people(1)  # less than the imports take
    Runner(config, "people-margnet").run()
    rows = {key: row for key, row in harness.load_rows(config.store).items() if "system" in row}
    assert list(rows) == list(harness.load_rows(config.store)) == ["people-margnet-eps1-seed0"]
    assert rows["people-margnet-eps1-seed0"]["stopped"] == "not done in 1 CPU s"


def test_a_process_that_was_ended_from_outside_is_no_result(people):
    runner = Runner(people(5))
    ended = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    with pytest.raises(Stopped, match=signal.SIGTERM.name):
        runner.process([sys.executable, "-c", ended])
    failed = runner.process([sys.executable, "-c", "raise SystemExit('no such thing')"])
    assert failed == {"stopped": "no such thing"}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are read from /proc")
def test_a_scheduler_s_end_ends_the_fit_in_hand(people):
    config = people(120)
    what = [sys.executable, BENCHMARK / "run.py", "--config", config.path]
    with subprocess.Popen(what, stdout=subprocess.PIPE, text=True) as process:
        try:
            deadline, fits = time.monotonic() + 100, []
            while not fits and time.monotonic() < deadline:
                time.sleep(0.1)
                with contextlib.suppress(OSError):  # of a thread that ends meanwhile
                    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
                    children = " ".join(p.read_text() for p in tasks).split()
                    # A child that is only forked is not yet in the hand of the runner.
                    commands = {c: Path("/proc", c, "cmdline").read_text() for c in children}
                    fits = [child for child, command in commands.items() if "fit.py" in command]
            process.terminate()
            assert process.wait(60) == 130 and fits
        finally:
            process.kill()
    assert not any(Path("/proc", fit).exists() for fit in fits)
    assert not config.store.exists()


@pytest.mark.slow(cases=0)
def test_one_bench_from_end_to_end(people, protocol, capsys):
    config = people(120)
    Runner(config, "eps8").run()
    output = capsys.readouterr().out
    assert "people-margnet-eps8-seed0" in output and "0 left" in output
    rows = harness.load_rows(config.store)
    assert set(rows) == {f"people-{n}" for n in (*store.REFERENCES, "margnet-eps8-seed0")}
    row = rows["people-margnet-eps8-seed0"]
    assert 0 < row["cpu_seconds"] < 120 and row["peak_mib"] > 10 and 7.92 < row["spent"] <= 8
    assert rows["people-real"]["k_marginal"] == 1000 > row["k_marginal"] > 700
    assert rows["people-shuffled"]["target_auroc"] < 0.7 < row["target_auroc"] < 0.95
    assert 0 == rows["people-real"]["tvd2"] < row["tvd2"] < 0.3
    assert row["release"] == tabsynth.__version__ and row["code"] == code()["sha256"][:12]
    before = config.store.read_bytes()
    Runner(config, "eps8").run()  # nothing is missing
    assert config.store.read_bytes() == before
    for _ in range(2):  # a page that is there is replaced
        writing.write(config)
    page = (config.path.parent / "README.md").read_text()
    assert "<!--" not in page and "**1 is still to be made** (margnet 1)" in page
    assert f"{row['target_auroc']:.3f}" in page
    for name in ("ranks.png", "cost.png"):
        assert (config.path.parent / name).stat().st_size > 5_000


@pytest.mark.data("diabetes_hospital_5000.csv")
def test_the_split_is_that_of_the_evaluation_protocol():
    schema, train, test = TABLES["hospital"].split()
    assert (len(train), len(test)) == (3499, 1500) and len(schema.names) == 48
    assert not set(train.index) & set(test.index)
