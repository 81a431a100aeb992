"""reports/audits: the records say what its page says, and nothing in them contradicts a claim.

Its scripts record the code that each row was measured on, and measure what is stale or missing.
"""

import importlib.util
import json
import shutil
import sys
import textwrap
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import audits
import crash_tests
import evidence
import fuzz
import numpy as np
import pytest
import replays
from evidence import AUDITS, CHANGED, CRASH_TESTS, CURRENT, FUZZ, KINDS, REPLAYS, UNKNOWN
from scipy import stats

AUDITS_FOLDER = Path(__file__).resolve().parent


def record(name):
    return json.loads((AUDITS_FOLDER / f"{name}.json").read_text("utf-8"))


@pytest.fixture
def audits_page(tmp_path, monkeypatch):
    """run.py as a module that works on copies of the records."""
    spec = importlib.util.spec_from_file_location("audits_page_run", AUDITS_FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path in (*AUDITS_FOLDER.glob("*.json"), AUDITS_FOLDER / "template.md"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(module, "HERE", tmp_path)
    return module


def test_page_is_what_the_records_make(audits_page):
    # A change of the code makes rows stale, and the page has to say so.
    page = (AUDITS_FOLDER / "README.md").read_text("utf-8")
    assert page == audits_page.page(), "README.md is out of date; run: python reports/audits/run.py"


# Rows that do not support a claim, and mutants that are not killed.


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_row_supports_its_claim(audits_page, kind):
    assert kind.rows(record(kind.name)) and audits_page.unsupportive(kind, record(kind.name)) == []


def test_the_standard_error_of_an_audit_is_the_spread_of_its_estimates(audits_page):
    rng, runs = np.random.default_rng(0), 2_000
    wrong = rng.binomial(runs, [[0.6], [0.3]], (2, 4_000))
    estimates = -stats.norm.ppf(wrong / runs).sum(axis=0)
    details = {"false_positives": 1_200, "false_negatives": 600}
    error = audits_page.standard_error({"runs": runs, "details": details})
    assert error == pytest.approx(estimates.std(), rel=0.05)


AUDIT = {
    "part": "critic",
    "verdict": "not refuted",
    "epsilon_claimed": 1.0,
    "epsilon_lower": 0.5,
    "mu_claimed": 1.0,
    "mu_estimate": 0.5,
    "mu_lower": 0.4,
    "runs": 10_000,
    "details": {"false_positives": 5_000, "false_negatives": 1_700},
}
WHOLE_FIT = AUDIT | {"part": "whole fit", "mu_estimate": 0.95}
SMALL_PART = AUDIT | {
    "mu_claimed": 0.01,
    "mu_estimate": -0.02,
    "mu_lower": 0.0,
    "details": {"false_positives": 5_000, "false_negatives": 5_080},
}


@pytest.mark.parametrize(
    ("result", "fails"),
    [
        (AUDIT, False),
        (AUDIT | {"mu_claimed": None, "mu_estimate": None, "mu_lower": None}, False),
        (AUDIT | {"verdict": "refuted"}, True),
        (AUDIT | {"verdict": "inconclusive"}, True),
        (AUDIT | {"epsilon_lower": 1.1}, True),
        (AUDIT | {"epsilon_lower": "inf"}, True),
        (AUDIT | {"mu_lower": 1.1}, True),
        (WHOLE_FIT, False),
        (WHOLE_FIT | {"mu_estimate": 0.8}, True),
        # Of a hundred runs the standard error is 0.19.
        (
            WHOLE_FIT
            | {"mu_estimate": 0.8, "runs": 100}
            | {"details": {"false_positives": 50, "false_negatives": 21}},
            False,
        ),
        # The standard error is about 0.02: an estimate may be negative where a part claims less than three of it.
        (AUDIT | {"mu_estimate": -0.001}, True),
        (SMALL_PART, False),
        (SMALL_PART | {"mu_estimate": -0.1}, True),
    ],
)
def test_an_audit_that_does_not_support_its_claim_is_named(audits_page, result, fails):
    rows = {"white-box margnet 8": {"results": [AUDIT, result]}, "replay": {"results": [AUDIT]}}
    actual = audits_page.unsupportive(AUDITS, {"audits": rows})
    assert actual == (["white-box margnet 8"] if fails else [])


READER = {"inputs": 9, "accepted": 2, "refused": 7, "findings": 0, "slowest_seconds": 0.1}


@pytest.mark.parametrize(
    ("kind", "key", "good", "bad"),
    [
        *(
            (
                REPLAYS,
                "systems",
                {"neighbours": {"outlier": {"runs": 3, "passed": 3}}},
                {"neighbours": cells},
            )
            for cells in (
                {},
                {"outlier": {"runs": 0, "passed": 0}},
                {"null": {"runs": 3, "passed": 3}, "outlier": {"runs": 3, "passed": 2}},
            )
        ),
        *(
            (FUZZ, "readers", READER, READER | change)
            for change in ({"findings": 1, "refused": 6}, {"refused": 6}, {"slowest_seconds": 60.0})
        ),
    ],
)
def test_a_replay_or_a_reader_that_fails_is_named(audits_page, kind, key, good, bad):
    assert audits_page.unsupportive(kind, {key: {"good": good, "bad": bad}}) == ["bad"]


def test_a_killed_fit_whose_ledger_is_unsound_is_named(audits_page):
    cells = {"ledger": {"points": 5, "sound": 5}, "both": {"points": 5, "sound": 4}}
    assert audits_page.unsupportive(CRASH_TESTS, {"by_method": {"margnet": cells}}) == [
        "margnet, both"
    ]


@pytest.fixture
def nothing_to_do(audits_page, tmp_path, monkeypatch):
    """Let run.py list stale rows where all are there and depend on one module, whose name and hash are returned."""
    for script in (audits, replays, crash_tests, fuzz):
        monkeypatch.setattr(script, "missing", lambda record: [])
    monkeypatch.setattr(audits_page, "mutants_to_run", lambda: {})
    monkeypatch.setattr(sys, "argv", ["run.py", "--stale"])
    one = {"tabsynth.errors": evidence.modules_of()["tabsynth.errors"]}
    set_all(tmp_path, one)
    return one


def test_rows_that_do_not_support_their_claim_are_listed_with_an_exit_code(
    audits_page, nothing_to_do, tmp_path, capsys
):
    assert audits_page.main() == 0
    kept = evidence.read(tmp_path / "fuzz.json")
    kept["readers"]["csv"]["findings"] = 2
    (tmp_path / "fuzz.json").write_text(evidence.text_of(FUZZ, kept), "utf-8")
    capsys.readouterr()
    assert audits_page.main() == 1
    assert "  do not support the claim (1): csv\n" in capsys.readouterr().out


def test_mutants_without_a_kill_are_listed_with_an_exit_code(
    audits_page, tmp_path, monkeypatch, capsys
):
    """A mutant that is added has no result until the gate runs, which is no failure of the code."""
    folder = tmp_path / "mutants"
    folder.mkdir()
    for name in ("001-a", "002-b", "003-c", "004-d"):
        (folder / f"{name}.toml").touch()
    monkeypatch.setattr(audits_page, "MUTANTS", folder)
    results = {"001-a": "killed", "002-b": "SURVIVED", "003-c": "BROKEN", "009-gone": "killed"}
    text = json.dumps({"mutants": {name: {"outcome": r} for name, r in results.items()}})
    (tmp_path / "mutants.json").write_text(text)
    assert audits_page.mutants_to_run() == {
        "not killed": ["002-b", "003-c"],
        "without a result": ["004-d"],
        "no longer there": ["009-gone"],
    }
    monkeypatch.setattr(audits_page, "KINDS", ())
    monkeypatch.setattr(sys, "argv", ["run.py", "--stale"])
    assert audits_page.main() == 1
    assert capsys.readouterr().out == (
        "1 of 4 mutants are killed.\n"
        "  not killed (2): 002-b; 003-c\n"
        "  without a result (1): 004-d\n"
        "  no longer there (1): 009-gone\n"
        "  To run them: make mutants\n"
    )
    for name in ("002-b", "003-c", "004-d"):
        (folder / f"{name}.toml").unlink()
    (tmp_path / "mutants.json").write_text('{"mutants": {"001-a": {"outcome": "killed"}}}')
    assert audits_page.main() == 0
    assert capsys.readouterr().out == "1 of 1 mutants are killed.\n"


# The hash of a module.

SOURCE = """
def add(a, b=1):
    total = a + b
    return f"{total:.2f}"
"""


@pytest.mark.parametrize(
    "same",
    [
        SOURCE + "# a comment\n",
        '"""A docstring."""\n' + SOURCE,
        SOURCE.replace("    total =", '    """Add."""\n\n    total ='),
        SOURCE.replace("a + b", "(a\n        + b)  # both"),
        SOURCE.replace('"', "'"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(same):
    assert same != SOURCE and evidence.source_hash(same) == evidence.source_hash(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b=1", "b=2"),
        ("b=1", "b=1.0"),
        ("b=1", "b=None"),
        ("b=1", "b='1'"),
        ("a + b", "a - b"),
        (".2f", ".3f"),
        ("    total = a + b\n", "    total = a + b\n    total += 0\n"),
        ("total", "sum_"),
        ("return", "return ("),  # no Python
    ],
)
def test_every_other_change_counts(old, new):
    assert old in SOURCE
    assert evidence.source_hash(SOURCE.replace(old, new)) != evidence.source_hash(SOURCE)


def test_the_hash_is_of_the_same_tree_in_every_python():
    """Pinned: a version of Python whose syntax trees differ would make every row stale."""
    text = textwrap.dedent(
        """
        from __future__ import annotations
        @decorate(x=1)
        class A(B, metaclass=C):
            y: int = u"é"
            async def f(self, /, a, *, b=-1, **c) -> list[int]:
                match a:
                    case [1, *rest] if rest: return {**c, "k": (a := b"x")}
                    case _: raise E from None
                return [f"{i!r:>{b}}" "s" for i in a[1:, ...] if not i < 2 <= 3]
        """
    )
    assert evidence.source_hash(text) == "28ead495adae"


# Rows and the modules that they depend on.


@pytest.fixture
def package(tmp_path):
    """Return a package of four modules."""
    folder = tmp_path / "tabsynth"
    (folder / "privacy").mkdir(parents=True)
    for name in ("__init__", "noise", "page", "privacy/__init__"):
        (folder / f"{name}.py").write_text(SOURCE)
    return folder


def measured_on(package, record, *names):
    """Return a row of 10 damaged files that depends on these modules."""
    row = {"inputs": 10}
    evidence.set_modules(record, row, evidence.ModuleHashes(package).of(names))
    return row


def test_modules_have_their_full_names(package):
    names = ["tabsynth", "tabsynth.noise", "tabsynth.page", "tabsynth.privacy"]
    assert list(evidence.modules_of(package)) == names


def test_the_modules_of_this_process_are_modules_of_the_package():
    names = evidence.imported_modules()
    assert {"tabsynth", "tabsynth.privacy.noise.samplers"} <= set(names)
    assert set(names) <= evidence.modules_of().keys()


@pytest.mark.parametrize(
    ("file", "text", "stale"),
    [
        ("noise", SOURCE.replace("a + b", "a"), {"changed since: tabsynth.noise": ["csv"]}),
        ("noise", None, {"changed since: tabsynth.noise": ["csv"]}),
        ("noise", SOURCE + "# comment", {}),
        ("noise", '"""Docstring."""' + SOURCE, {}),
        ("privacy/__init__", "x = 1", {}),  # no row depends on it
        ("new", "x = 1", {}),
        ("__init__", "x = 1", {"changed since: tabsynth": ["csv", "schema"]}),
    ],
)
def test_a_changed_module_makes_its_rows_stale(package, file, text, stale):
    record = {"readers": {}}
    rows = record["readers"]
    rows["csv"] = measured_on(package, record, "tabsynth", "tabsynth.noise")
    rows["schema"] = measured_on(package, record, "tabsynth", "tabsynth.page")
    assert evidence.stale(FUZZ, record, evidence.modules_of(package)) == {}
    path = package / f"{file}.py"
    path.unlink() if text is None else path.write_text(text)
    hashes = evidence.modules_of(package)
    assert evidence.stale(FUZZ, record, hashes) == stale
    names = {name for result in stale.values() for name in result}
    for name, row in rows.items():
        assert evidence.state(record, row, hashes) == (CHANGED if name in names else CURRENT)
    current = 20 - 10 * len(names)
    sentence = f"{current} of 20 damaged files are measured on the code of this release."
    assert evidence.sentence(FUZZ, record, hashes) == sentence


@pytest.mark.parametrize("row", [{}, {"modules": "0123"}])
def test_a_row_without_a_hash_is_stale(package, row):
    record = {"modules": {}, "readers": {"csv": {"inputs": 5, **row}}}
    hashes = evidence.modules_of(package)
    assert evidence.state(record, record["readers"]["csv"], hashes) == UNKNOWN
    assert evidence.stale(FUZZ, record, hashes) == {"of unknown code": ["csv"]}
    assert evidence.sentence(FUZZ, record, hashes).startswith("0 of 5 ")


def test_rows_share_their_list_of_modules(package):
    record = {"readers": {}}
    for name in ("csv", "schema"):
        record["readers"][name] = measured_on(package, record, "tabsynth", "tabsynth.noise")
    measured_on(package, record, "tabsynth")  # of a row that is replaced
    assert len(record["modules"]) == 2
    written = json.loads(evidence.text_of(FUZZ, record))
    (modules,) = written["modules"].values()
    assert list(modules) == ["tabsynth", "tabsynth.noise"]
    assert written["readers"] == record["readers"]


def test_a_module_that_is_edited_during_the_measurement(package):
    module_hashes = evidence.ModuleHashes(package)
    (package / "noise.py").write_text("x = 1")
    (package / "page.py").write_text(SOURCE + "# comment")
    assert module_hashes.of(["tabsynth.page"]) == {"tabsynth.page": evidence.source_hash(SOURCE)}
    with pytest.raises(SystemExit, match=r"^tabsynth\.noise: edited during the measurement"):
        module_hashes.of(["tabsynth.page", "tabsynth.noise"])


# The page and the list of stale rows.


def set_all(folder, modules, kinds=KINDS):
    """Say of every row of the copied records that it was measured on these modules; on unknown ones for None."""
    for kind in kinds:
        path = folder / f"{kind.name}.json"
        kept = evidence.read(path)
        for row in kind.rows(kept).values():
            row.pop("modules", None)
            if modules is not None:
                evidence.set_modules(kept, row, modules)
        path.write_text(evidence.text_of(kind, kept), "utf-8")


def test_the_page_states_how_many_rows_are_of_the_current_code(audits_page, tmp_path):
    set_all(tmp_path, {"tabsynth": "a", "tabsynth.noise": "b"}, [AUDITS, FUZZ])
    set_all(tmp_path, None, [REPLAYS, CRASH_TESTS])
    page = audits_page.page({"tabsynth": "a", "tabsynth.noise": "b", "tabsynth.page": "c"})
    count_audits, read = audits_page.count_audits()["audits"], record("fuzz")["inputs"]
    count_replays, killed = audits_page.count_replays()["replays"], record("crash_tests")["points"]
    head = page[: page.index("\n## Noise")]
    for share in (
        f"{count_audits} of {count_audits} audits",
        f"0 of {count_replays:,} replays",
        f"0 of {killed} crash tests",
        f"{read:,} of {read:,} damaged files",
    ):
        assert f"\n- {share} are measured on the code of this release.\n" in head
    # A row of the page is a whole fit with its parts, another audit, a method or a file.
    audited = [r for entry in record("audits")["audits"].values() for r in entry["results"]]
    whole = sum(r["kind"] != "white-box" or r["part"].startswith("whole fit") for r in audited)
    methods = {name.partition(", ")[0] for name in record("replays")["systems"]}
    current = whole + len(record("fuzz")["readers"])
    assert page.count("| current |") == current
    assert page.count("| unknown |") == len(methods) + len(record("crash_tests")["by_method"])
    later = audits_page.page({"tabsynth": "a", "tabsynth.noise": "B"})
    assert f"\n- 0 of {count_audits} audits are measured on the code of this release.\n" in later
    assert later.count("| changed since |") == current
    assert "| current |" not in later


def test_a_row_of_several_measurements_is_current_only_if_all_of_them_are(audits_page, tmp_path):
    kept = evidence.read(tmp_path / "replays.json")
    for name, system in kept["systems"].items():
        hashed = "old" if name == "margnet, target" else "a"
        evidence.set_modules(kept, system, {"tabsynth": hashed})
    (tmp_path / "replays.json").write_text(evidence.text_of(REPLAYS, kept), "utf-8")
    rows = audits_page.replays({"tabsynth": "a"}).splitlines()[2:]
    states = {row.split(" | ")[0].strip("| `"): row.split(" | ")[-1].strip(" |") for row in rows}
    assert states.pop("margnet") == CHANGED and set(states.values()) == {CURRENT}
    assert audits_page.joint_state([CURRENT, UNKNOWN, CHANGED]) == UNKNOWN


def test_an_audit_counts_the_parts_that_are_not_refuted(audits_page, tmp_path):
    name = "white-box dp-gan 8"
    kept = evidence.read(tmp_path / "audits.json")
    kept["audits"][name]["results"][2]["verdict"] = "refuted"
    (tmp_path / "audits.json").write_text(evidence.text_of(AUDITS, kept), "utf-8")
    row = next(
        audits_page.audit_row(g) for g in audits_page.audit_groups({}) if g[0]["method"] == "dp-gan"
    )
    assert row[1] == "whole fit" and row[-3:] == ["1 of 2", "not refuted", CHANGED]
    groups = audits_page.audit_groups({})
    assert sum(map(len, groups)) == audits_page.count_audits()["audits"]


def test_every_mutant_is_counted_once_in_the_table(audits_page, tmp_path):
    table = audits_page.mutants()
    cells = [line.split(" | ") for line in table.splitlines()[2:]]
    assert sum(int(row[2]) for row in cells) == len(record("mutants")["mutants"])
    name = next(iter(record("mutants")["mutants"]))
    kept = record("mutants")
    kept["mutants"][name]["outcome"] = "SURVIVED"
    (tmp_path / "mutants.json").write_text(json.dumps(kept))
    changed = [row for row in audits_page.mutants().splitlines() if row not in table]
    assert len(changed) == 1 and changed[0].startswith("| accounting and ledger |")


def test_stale_rows_are_listed_with_an_exit_code(
    audits_page, nothing_to_do, tmp_path, monkeypatch, capsys
):
    assert audits_page.main() == 0
    # A line of each and of the mutants, and nothing to do.
    assert capsys.readouterr().out.count("\n") == len(KINDS) + 1
    set_all(tmp_path, {"tabsynth.errors": "other"}, [FUZZ])
    assert audits_page.main() == 1
    out = capsys.readouterr().out
    readers = list(record("fuzz")["readers"])
    changed_modules = f"changed since: tabsynth.errors ({len(readers)}): "
    assert changed_modules + "; ".join(readers) in out
    assert "To measure them: python reports/audits/fuzz.py\n" in out
    set_all(tmp_path, nothing_to_do)
    monkeypatch.setattr(audits, "missing", lambda record: ["white-box new 8"])
    assert audits_page.main() == 1
    assert "missing or incomplete (1): white-box new 8" in capsys.readouterr().out
    assert not (tmp_path / "README.md").exists()  # it lists, and writes nothing


@pytest.mark.parametrize(
    ("script", "kind"),
    [(audits, AUDITS), (replays, REPLAYS), (crash_tests, CRASH_TESTS), (fuzz, FUZZ)],
)
def test_a_row_that_is_not_there_is_missing(script, kind):
    kept = record(kind.name)
    there = [name for name in script.missing({}) if name not in script.missing(kept)]
    assert there and set(there) <= kind.rows(kept).keys()


# The scripts measure what is stale or missing, and keep the rest.


@pytest.fixture
def measure(package, tmp_path, monkeypatch):
    """Run a script on a record in ``tmp_path``; what it measures depends on two modules of ``package``."""
    monkeypatch.setattr(evidence, "imported_modules", lambda: ["tabsynth", "tabsynth.noise"])

    def call(script, *words):
        monkeypatch.setattr(script.tabsynth, "__file__", str(package / "__init__.py"))
        monkeypatch.setattr(sys, "argv", [script.__name__, *words])
        script.main()
        return json.loads((tmp_path / "record.json").read_text("utf-8"))

    return SimpleNamespace(call=call, path=tmp_path / "record.json", package=package)


def test_audits_are_measured_if_stale_or_missing(measure, tmp_path, monkeypatch):
    done = []

    def jobs(progress=None):
        def job(name):
            done.append(name)
            return [SimpleNamespace(to_dict=lambda: {"part": name, "runs": 9, "sentence": "."})]

        return {name: lambda n=name: job(n) for name in ("white-box x", "white-box y")}

    monkeypatch.setattr(audits, "jobs", jobs)
    monkeypatch.setattr(audits.torch, "set_num_threads", lambda threads: None)
    words = ["--out", str(measure.path)]
    former = {"white-box gone": {"results": []}, "black-box a": {"results": []}}
    measure.path.write_text(json.dumps({"audits": former}))
    measure.call(audits, *words, "y")
    kept = measure.call(audits, *words)
    assert done == ["white-box y", "white-box x"]
    # In the order of the jobs; those of release 0.2 stay.
    assert list(kept["audits"]) == ["white-box x", "white-box y", "black-box a"]
    assert len(kept["modules"]) == 1
    (measure.package / "page.py").write_text("x = 1")
    assert measure.call(audits, *words) == kept
    (measure.package / "noise.py").write_text("x = 1")
    assert measure.call(audits, *words, "--minutes", "0") == kept
    assert len(done) == 2
    assert measure.call(audits, *words)["modules"] != kept["modules"]
    assert done[2:] == ["white-box x", "white-box y"]
    measure.call(audits, *words, "--again", "y")
    assert done[4:] == ["white-box y"]
    monkeypatch.setattr(audits, "missing", lambda record: ["white-box x"])  # of too few fits
    measure.call(audits, *words)
    assert done[5:] == ["white-box x"]


def test_a_stale_system_is_replayed_from_its_first_seed(measure, monkeypatch):
    done = []

    def result(system, seed):
        done.append((system, seed))
        facts = {"passed": True, "worst_move": 1.0, "compared": 3, "first_difference": None}
        return [{"kind": "outlier", "change": "added", **facts}]

    monkeypatch.setattr(replays, "replay_seed", result)
    monkeypatch.setattr(replays, "system_names", lambda: ["margnet, target", "margnet"])
    monkeypatch.setattr(replays, "linked_system_names", dict)
    monkeypatch.setattr(replays, "COUNTED", {})
    monkeypatch.setattr(replays.torch, "set_num_threads", lambda threads: None)
    words = ["--out", str(measure.path), "--seeds", "2"]
    old = {"neighbours": {}, "seeds": [0, 1], "compared": 9, "cpu_seconds": 9.0}
    measure.path.write_text(json.dumps({"systems": {"margnet": old, "gone": old}}))
    last = replays.PUBLISHED
    kept = measure.call(replays, *words)
    plan = [("margnet", 0), ("margnet, target", 0), ("margnet", 1), (last, 0), (last, 1)]
    assert done == plan
    assert list(kept["systems"]) == ["margnet", "margnet, target", last]
    assert kept["systems"]["margnet"]["seeds"] == [0, 1]
    assert kept["systems"]["margnet"]["compared"] == 6  # no result of the code before
    assert kept["systems"]["margnet"]["neighbours"]["outlier, added"]["runs"] == 2
    assert len(kept["modules"]) == 1
    words[-1] = "3"
    measure.call(replays, *words)
    assert done[5:] == [("margnet", 2), (last, 2)]
    assert replays.missing(kept, 3, 1) == ["margnet", last]
    (measure.package / "noise.py").write_text("x = 1")
    kept = measure.call(replays, *words, "--only", "margnet")
    assert done[7:] == [("margnet", 0), ("margnet, target", 0), ("margnet", 1), ("margnet", 2)]
    assert kept["systems"]["margnet"]["compared"] == 9
    stale = evidence.stale(REPLAYS, kept, evidence.modules_of(measure.package))
    assert stale == {"changed since: tabsynth.noise": [last]}


def test_crash_tests_are_measured_if_stale_or_missing(measure, monkeypatch):
    done = []

    def run(method, way, kinds):
        done.append(f"{method}, {way}")
        row = {"points": len(kinds), "sound": len(kinds), "seconds": 1.0}
        return {**row, "imported": ["tabsynth", "tabsynth.noise"]}

    monkeypatch.setattr(crash_tests, "run", run)
    monkeypatch.setattr(
        crash_tests, "CONTEXT", SimpleNamespace(set_forkserver_preload=lambda names: None)
    )
    words = ["--out", str(measure.path)]
    shutil.copy(AUDITS_FOLDER / "crash_tests.json", measure.path)
    measure.call(crash_tests, *words, "--only", "margnet,")
    assert done == [f"margnet, {way}" for way in crash_tests.WAYS]
    kept, rows = measure.call(crash_tests, *words), 3 * len(crash_tests.SUBJECTS)
    assert kept["points"] == kept["sound"] == crash_tests.POINTS
    assert len(done) == len(set(done)) == rows
    assert "imported" not in kept["by_method"]["margnet"]["ledger"]
    assert measure.call(crash_tests, *words) == kept and len(done) == rows
    (measure.package / "noise.py").write_text("x = 1")
    measure.call(crash_tests, *words)
    assert len(done) == 2 * rows


def test_fuzzed_readers_are_measured_if_stale_or_missing(measure, monkeypatch):
    done = []

    class Pool:
        """Runs in this process what is submitted."""

        def __init__(self, workers, mp_context, max_tasks_per_child):
            assert max_tasks_per_child == 1  # the modules of one reader are not those of another

        def submit(self, call, name, *rest):
            future = Future()
            future.set_result(call(name, *rest))
            return future

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    def run(name, inputs, seed, saved, last):
        done.append(name)
        tally = fuzz.Tally(inputs=inputs, accepted=inputs)
        return None if last is not None else (tally, evidence.imported_modules())

    monkeypatch.setattr(fuzz, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(fuzz, "run", run)
    words = ["--out", str(measure.path)]
    measure.path.write_text("{}")
    kept = measure.call(fuzz, *words, "--only", "model,csv")
    assert sorted(done) == ["csv", "model"]
    assert list(kept["readers"]) == ["csv", "model"]  # in the order of the shares
    kept = measure.call(fuzz, *words)
    assert list(kept["readers"]) == list(fuzz.SHARES)
    shares = [fuzz.inputs_of(name, fuzz.INPUTS) for name in fuzz.SHARES]
    assert kept["inputs"] == kept["accepted"] == sum(shares) >= fuzz.INPUTS
    assert sorted(done) == sorted(fuzz.SHARES)
    (measure.package / "noise.py").write_text("x = 1")
    assert measure.call(fuzz, *words, "--minutes", "0") == kept
    kept = measure.call(fuzz, *words, "--only", "csv", "--seed", "2")
    assert list(kept["readers"]) == ["csv"]  # of other inputs: the sums hold no row of both


@pytest.mark.slow
def test_rows_that_are_counted_where_they_are_are_replayed(monkeypatch):
    """A line for each neighbour, whose releases move by their sensitivity."""
    assert set(replays.COUNTED) <= {name for name, _ in replays.plan(1, 1)}
    pairs = list(replays.neighbours(replays.make_table(0), replays.SCHEMA, seed=0))
    monkeypatch.setattr(replays, "neighbours", lambda *args, **options: pairs[:1])
    (line,) = replays.replay_seed("margnet, counted by DuckDB", 0)
    assert line["passed"], line["first_difference"]
    assert line["worst_move"] > 0.9
