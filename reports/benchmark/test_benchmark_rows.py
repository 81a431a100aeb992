"""The reports whose rows are the benchmark's: scores of classifiers, rows that lack them, and their pages."""

import math
from dataclasses import replace
from pathlib import Path

import config as configs
import disclosure
import findings
import numpy as np
import pandas as pd
import prediction
import pytest
import score
import store
import writing
from config import Run
from fit import build, fitted
from runner import Runner
from tables import Table

from tabsynth import PATEGAN, Schema
from tabsynth.errors import InputError
from tabsynth.schema import Column
from tabsynth.synthesizers.pate.config import PATEConfig

ROOT = Path(__file__).resolve().parents[2]

OURS, PATE = (configs.load(ROOT / "reports" / n / "config.toml") for n in ("benchmark", "pate"))
FIGURES = dict.fromkeys(("tvd1", "tvd2", "tvd3", "k_marginal", *prediction.NAMES), 0.5)
COST = {"cpu_seconds": 2.0, "seconds": 2.0, "peak_mib": 300.0, "spent": 0.9}


def schema_of(**values: str) -> Schema:
    return Schema(
        [
            Column(name=n, kind="categorical", dtype="str", categories=tuple(v), source="invented")
            for n, v in values.items()
        ]
    )


def test_scores_of_one_binary_column_are_in_closed_form():
    """Every classifier of one binary column ranks by it, so that all three agree with the counts."""
    schema, rng = schema_of(x="ab", y="abc"), np.random.default_rng(0)
    yes = rng.random(4000) < 0.5
    x = rng.random(4000) < np.where(yes, 0.7, 0.1)
    rows = np.stack([x, np.where(yes, rng.choice([0, 2], 4000), 1)], axis=1).astype(np.int64)
    fit, test = rows[:2000], rows[2000:]
    x, yes = x[2000:], yes[2000:]
    result = prediction.scores(schema, "y", [0, 2], fit, test)
    hit, false, share = x[yes].mean(), x[~yes].mean(), yes.mean()
    assert result["tstr_auroc"] == pytest.approx(0.5 + (hit - false) / 2, abs=1e-4)
    average = hit * yes[x].mean() + (1 - hit) * share
    assert result["tstr_auprc"] == pytest.approx(average, abs=1e-4)
    # Fewer than half are called, and half are yes: those that x marks are.
    assert result["tstr_f1"] == pytest.approx(2 * (x & yes).sum() / (x.sum() + yes.sum()), abs=1e-4)


def test_scores_of_a_target_that_is_told_of_one_that_is_not_and_of_one_class():
    schema, rng = schema_of(a="abcd", b="abcd", y="ab"), np.random.default_rng(1)
    codes = rng.integers(4, size=(2400, 3))
    codes[:, 2] = codes[:, 0] >= 2
    fit, test = codes[:1200], codes[1200:]
    assert prediction.scores(schema, "y", [1], fit, test) == pytest.approx(
        {"tstr_auroc": 1.0, "tstr_auprc": 1.0, "tstr_f1": 1.0}, abs=0.02
    )
    shuffled = np.stack([rng.permutation(fit[:, j]) for j in range(3)], axis=1)
    result = prediction.scores(schema, "y", [1], shuffled, test)
    # A coin's AUROC of 600 and 600, of one classifier: its deviation is .017.
    assert abs(result["tstr_auroc"] - 0.5) < 4 * math.sqrt(1201 / (12 * 600 * 600))
    fit[:, 2] = 1
    share = float(test[:, 2].mean())
    coin = {"tstr_auroc": 0.5, "tstr_auprc": share, "tstr_f1": 2 * share / (1 + share)}
    assert prediction.scores(schema, "y", [1], fit, test) == pytest.approx(coin, abs=1e-4)


def test_which_values_are_yes():
    schema = schema_of(x="abc", y="ab")
    plain = Table("people", lambda: schema, lambda _: pd.DataFrame())
    assert plain.positive(schema) == []
    assert plain.with_target("y").positive(schema) == [1]  # of two values the second
    assert plain.with_target("y", ("a",)).positive(schema) == [0]
    assert plain.with_target("x").positive(schema) == []  # three, and none is named
    assert plain.with_target("x", ("c", "a")).positive(schema) == [0, 2]
    for target, yes, said in (
        ("x", ("d",), "people: yes has 'd', which is no listed value of column 'x'"),
        ("x", (1,), "yes has 1,"),
        ("x", ("a", "b", "c"), "leave some for no"),
        ("z", (), "target 'z' is no column"),
    ):
        with pytest.raises(InputError, match=said) as error:
            plain.with_target(target, yes).positive(schema)
        assert "\n" not in str(error.value)


@pytest.fixture
def bench(tmp_path):
    """A benchmark of a table of 40 rows, whose store has an old row and old references."""
    schema_of(x="ab", y="abc").save(tmp_path / "people.schema.json")
    codes = np.random.default_rng(0).integers(2, size=(40, 2))
    rows = pd.DataFrame(np.array(list("ab"))[codes], columns=["x", "y"])
    rows.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "bench.toml").write_text(
        "epsilons = [1]\nseeds = [0]\ndelta = 1e-5\nlimits = { ours = 9, peers = 9 }\n"
        '[tables.people]\nrows = "people.csv"\nschema = "people.schema.json"\ntarget = "y"\nyes = ["a"]\n'
        '[systems.margnet]\nmethod = "margnet"\n'
    )
    config = configs.load(tmp_path / "bench.toml")
    old = {"tvd2": 0.1, "k_marginal": 900.0, "adopted": "older"}
    keys = [config.runs()[0].key, *(f"people-{name}" for name in store.REFERENCES)]
    kept = {key: {"table": "people"} | old for key in keys}
    kept[keys[0]] |= vars(config.runs()[0])
    store.add(config.store, kept)
    return config


def test_a_row_that_lacks_a_needed_figure_is_made_again_and_replaced(bench, monkeypatch):
    created = []
    monkeypatch.setattr(Runner, "_fit", lambda self, run, *_: created.append(run.key) or dict(COST))
    monkeypatch.setattr(Runner, "scored", lambda self, _, __, *files: [dict(FIGURES)] * len(files))
    before = store.load(bench.store)
    Runner(bench).run()  # which needs none
    assert created == [] and store.load(bench.store) == before
    needing, run = replace(bench, needs=("tstr_auroc",)), bench.runs()[0]
    assert store.known(needing) == {} and store.lacking(needing, store.known(needing)) == [run]
    Runner(needing, "another").run()
    assert created == []
    Runner(needing).run()
    after = store.load(bench.store)
    assert created == [run.key] and after.keys() == before.keys()
    assert after[run.key] == vars(run) | COST | FIGURES
    assert all(after[f"people-{n}"] == {"table": "people"} | FIGURES for n in store.REFERENCES)
    Runner(needing).run()
    assert created == [run.key] and store.load(bench.store) == after
    stopped = vars(run) | {"stopped": store.NOT_DONE + "9 CPU s"}
    store.add(bench.store, {run.key: stopped})
    assert store.lacking(needing, store.known(needing)) == []  # it has no figure to lack


@pytest.mark.parametrize("peer", ["", "mst"])
def test_a_peer_s_run_made_again_keeps_its_lesser_times(bench, monkeypatch, peer):
    run, twice = bench.runs()[0], {"cpu_seconds": 4.0, "seconds": 1.0, "peak_mib": 200.0}
    config = replace(bench, systems={"margnet": replace(bench.systems["margnet"], peer=peer)})
    store.add(config.store, {run.key: vars(run) | COST | {"tvd2": 0.1}})
    monkeypatch.setattr(Runner, "_fit", lambda *_: dict(twice))
    monkeypatch.setattr(Runner, "scored", lambda self, _, __, *files: [dict(FIGURES)] * len(files))
    Runner(config, again=True).run()
    times = {"cpu_seconds": 2.0, "seconds": 1.0} if peer else twice
    assert store.load(config.store)[run.key] == vars(run) | twice | FIGURES | times


def test_a_figure_that_no_run_can_have_is_refused(bench, monkeypatch):
    monkeypatch.setattr(Runner, "_fit", lambda *_: dict(COST))
    monkeypatch.setattr(Runner, "process", lambda *_: {"scores": [{"tvd2": 0.1}] * 3})
    with pytest.raises(InputError, match=r"needs tstr_auroc, which tables\.people does not give"):
        Runner(replace(bench, needs=("tstr_auroc",))).run()


def test_a_wrong_yes_is_refused_before_anything_is_fitted(bench, monkeypatch):
    monkeypatch.setattr(Runner, "_fit", lambda *_: pytest.fail("it was fitted"))
    bench.store.unlink()
    bench.path.write_text(bench.path.read_text().replace('yes = ["a"]', 'yes = ["none"]'))
    with pytest.raises(InputError, match="'none'"):
        Runner(configs.load(bench.path)).run()
    assert not bench.store.exists()


def test_a_row_says_how_many_teachers_voted(tmp_path):
    schema = schema_of(x="ab", y="abc")
    rows = pd.DataFrame({"x": list("ab") * 60, "y": list("abc") * 40}).astype("string")
    config = PATEConfig(rounds=2, round_steps=2)
    model = PATEGAN(schema, epsilon=8, teachers=9, config=config, random_state=0)
    result = fitted(model, rows, str(tmp_path / "out.csv"))
    assert result["teachers"] == 9 and 0 < result["spent"] <= 8
    assert len(pd.read_csv(tmp_path / "out.csv")) == 120


def test_pates_benchmark_shares_the_runs_of_the_benchmark_and_adds_its_own():
    ours, pate = ({run.key for run in config.runs()} for config in (OURS, PATE))
    shared = {
        run.key
        for run in OURS.runs()
        if {run.system, run.table} <= PATE.systems.keys() | PATE.tables.keys()
    }
    assert len(pate) == 2 * 4 * 3 * 5 and len(shared) == 3 * 2 * 2 * 3
    assert pate & ours == shared
    assert PATE.store.samefile(OURS.store) and PATE.limits == OURS.limits
    assert PATE.needs == ("tstr_auroc",) and OURS.needs == () and PATE.delta == OURS.delta
    for name in OURS.systems.keys() & PATE.systems.keys():
        assert OURS.systems[name] == PATE.systems[name]
    for name, table in PATE.tables.items():
        assert (table.target, table.yes) == (OURS.tables[name].target, OURS.tables[name].yes)
    # Two systems of one name must not be two things.
    assert PATE.systems["pate-gan-paper"].options == {"preset": "paper"}


def filled(config: configs.Config, value: float) -> dict[str, dict]:
    """A row for every run, the last stopped."""
    *runs, last = config.runs()
    rows = {run.key: vars(run) | COST | dict.fromkeys(FIGURES, value) for run in runs}
    rows[last.key] = vars(last) | {"stopped": store.NOT_DONE + "1,200 CPU s"}
    return rows


def test_runs_of_pate_alone_do_not_change_what_the_benchmark_says():
    own = filled(OURS, 0.4) | {"adult-real": {"table": "adult"} | FIGURES}
    disclosed = {"disclose_s1_k1": 0.9, "control_s1_k1": 0.1}
    other = {k: row | disclosed for k, row in filled(PATE, 0.9).items() if k not in own}
    assert len(other) == 120 - 36 and any("stopped" in row for row in other.values())
    both = own | other
    for say in (
        findings.leaders,
        findings.losses,
        findings.not_done,
        disclosure.by_system,
        writing.missing,
    ):
        assert say(OURS, both) == say(OURS, own)
    for table in OURS.tables:
        assert writing.of_table(OURS, both, table) == writing.of_table(OURS, own, table)


def test_what_chance_puts_above_the_controls_interval_is_what_draws_put_there():
    assert disclosure.RECORDS == score.ATTACKED
    rng, draws = np.random.default_rng(0), 20_000
    for share in (0.2, 0.5, 0.9):
        one = rng.binomial(disclosure.RECORDS, share, (2, draws)) / disclosure.RECORDS
        ends = {float(c): disclosure.upper(float(c)) for c in np.unique(one[1])}
        result = np.mean([a > ends[float(c)] for a, c in one.T])
        error = math.sqrt(0.1 * 0.9 / draws)
        assert result == pytest.approx(disclosure.by_chance(share), abs=4 * error)
        # Five guesses a record vary less than one does: what chance does with one is a bound.
        five = rng.binomial(5 * disclosure.RECORDS, share, (2, 2000)) / (5 * disclosure.RECORDS)
        above = np.mean([a > disclosure.upper(float(c)) for a, c in five.T])
        assert above < disclosure.by_chance(share)


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
    assert result.chance == pytest.approx(4 * disclosure.by_chance(0.5), rel=0.05)
    assert result.error == pytest.approx(100 * math.sqrt(2 * 0.25 / 300), rel=0.02)
    assert disclosure.gaps(rows, hidden=1).cells == 2
    alone = disclosure.gaps(rows[:1])
    assert math.isnan(alone.half) and disclosure.points(alone) == "+5.0"
    assert disclosure.gaps(rows[2:]) is None


def test_disclosure_is_told_table_by_table():
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
    assert disclosure.by_epsilon(OURS, rows, "margnet")[2:4] == [
        "| census, 10 columns | 2 | +10.1 ± 1.3 | +10.1 | – | 2 of 2 | 0.2 |",
        "| Adult, 14 columns | 2 | -9.9 ± 1.3 | -9.9 | – | 0 of 2 | 0.2 |",
    ]
    text = disclosure.verdict(OURS, rows, "margnet")
    assert text.startswith("2 of MargNet's 6 cells are above the control's interval, where chance")
    assert "interval over runs is above 0 on census, 10 columns (+10.1 ± 1.3). The draw" in text
    assert "up to 4.1 points" in text
    assert disclosure.verdict(OURS, {}, "margnet") == "No run of MargNet was attacked yet."


def test_rows_that_lack_figures_are_named_with_how_to_fill_them():
    whole = dict.fromkeys((figure.key for figure in writing.FIGURES), 0.5) | COST
    rows = {run.key: vars(run) | whole for run in OURS.runs()}
    assert writing.lacking_figures(OURS, rows) == [
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
    text = writing.lacking_figures(OURS, rows)
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


def test_missing_runs_are_listed_by_system_with_the_seeds_that_lack():
    runs = [Run("t", "b", e, s) for e in (1.0, 8.0) for s in (0, 2)] + [Run("t", "a", 0.5, 1)]
    assert findings.listed_runs(runs, {"a": "A", "b": "B"}).splitlines() == [
        "**Not run yet** (5 runs):",
        "",
        "- A: ε = 0.5, seed 1",
        "- B: ε = 1, 8, seeds 0, 2",
    ]
    assert findings.listed_runs([], {"a": "A"}) == "All runs of this table were made."


def test_the_numbers_of_teachers_are_those_that_the_page_says():
    schema, table = schema_of(x="ab", y="abc"), PATE.tables["hospital"]
    results = {
        name: [
            build(PATE.systems[name], table, schema, epsilon=e)._teachers() for e in PATE.epsilons
        ]
        for name in ("pate-gan", "pate-gan-paper")
    }
    assert results == {"pate-gan": [1907, 381, 190], "pate-gan-paper": [20, 20, 20]}
    text = (ROOT / "reports" / "pate" / "template.md").read_text("utf-8")
    assert "1,907, 381 and 190 teachers" in text and "K = 20 at every ε" in text
    each = [3499 / teachers for teachers in results["pate-gan"]]
    assert f"{each[0]:.1f}, {each[1]:.1f} and {each[2]:.1f} rows a teacher" in text


def test_runs_are_counted_by_the_code_that_they_are_of():
    row = {"tvd2": 0.1}
    rows = {
        Run("adult", "margnet", 1.0, 0).key: row | {"code": "abc"},
        Run("adult", "margnet", 8.0, 0).key: row | {"code": "abc"},
        Run("adult", "dp-wgan", 1.0, 0).key: row,
        Run("adult", "aim", 1.0, 0).key: row,
    }
    line = writing.code_line(OURS, rows)
    assert "of code `abc`: MargNet 2; of older code, whose hash was not kept: DP-WGAN 1." in line
    assert "AIM" not in line
