"""The harness of the studies: rows, pages, and what is measured when."""

import json
import subprocess
import sys

import harness
import pytest
from harness import Study

import tabsynth


@pytest.fixture
def measured_settings():
    """Return the list of the settings that were measured, in their order."""
    return []


@pytest.fixture
def study(tmp_path, measured_settings):
    def measure(setting):
        measured_settings.append(setting)
        return None if setting == "impossible" else {"twice": 2 * setting}

    settings = {"a-1": 1, "a-2": 2, "b-1": 3, "b-2": "impossible"}
    return Study(
        script=tmp_path / "run.py",
        settings=settings,
        measure=measure,
        page=lambda rows: f"{sum(row['twice'] for row in rows.values())}\n",
    )


def test_only_what_is_missing_is_measured(study, measured_settings):
    study.measure_missing("a")
    assert measured_settings == [1, 2]
    study.measure_missing()
    assert measured_settings == [1, 2, 3, "impossible"]
    study.measure_missing("a-2", again=True)
    assert measured_settings[4:] == [2]
    assert study.rows()["b-1"] == {"twice": 6, "release": tabsynth.__version__}
    assert set(study.rows()) == {"a-1", "a-2", "b-1"}  # what could not be measured has no row


def test_the_page_is_of_all_rows(study, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "a"])
    study.main()
    assert study.script.with_name("README.md").read_text() == "6\n"
    harness.add_rows(study.script.with_name("results.json"), {"old": {"twice": 1}})
    monkeypatch.setattr(sys, "argv", ["run.py", "--write"])
    study.main()
    assert study.script.with_name("README.md").read_text() == "7\n"


def test_rows_of_other_processes_are_kept(tmp_path):
    path = tmp_path / "results.json"
    program = "import sys, pathlib, harness\n" + (
        "[harness.add_rows(pathlib.Path(sys.argv[1]), {f'{sys.argv[2]}-{i}': {'é': i}}) for i in range(40)]"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, path, name], cwd=harness.__file__[:-11])
        for name in "ab"
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert len(harness.load_rows(path)) == 80
    assert path.read_text("utf-8").splitlines()[1] == '"a-0": {"é": 0},'


APART = """
import os, sys
from pathlib import Path
from harness import Study

def measure(setting):
    print("a line of progress")
    if setting == 2:
        raise ValueError("no")
    return {"process": os.getpid(), "setting": setting}

STUDY = Study(script=Path(__file__), settings={"1": 1, "2": 2, "3": 3}, measure=measure, page=str, apart=True)
if __name__ == "__main__":
    STUDY.main()
"""


def test_settings_are_measured_in_processes_of_their_own(tmp_path):
    (tmp_path / "run.py").write_text(APART)
    environment = {"PYTHONPATH": f"{harness.__file__[:-11]}:{tabsynth.__path__[0]}/.."}
    done = subprocess.run(
        [sys.executable, tmp_path / "run.py"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "2 failed" in done.stderr and "ValueError: no" in done.stderr
    rows = json.loads((tmp_path / "results.json").read_text())
    assert {key: row["setting"] for key, row in rows.items()} == {"1": 1, "3": 3}
    assert rows["1"]["process"] != rows["3"]["process"]


def test_a_template_has_a_part_for_each_mark(tmp_path):
    template = tmp_path / "template.md"
    template.write_text("<!-- A --> and <!-- B -->\n")
    assert harness.fill(template, {"A": "1", "B": "<!-- A -->"}) == "1 and <!-- A -->\n"
    for parts in ({"A": "1"}, {"A": "1", "B": "2", "C": "3"}):
        with pytest.raises(ValueError, match="alone"):
            harness.fill(template, parts)


def test_tables_and_figures_of_pages():
    assert harness.table(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert harness.mean_sd([]) == "–" and harness.mean_sd([0.25]) == "0.250"
    assert harness.mean_sd([1, 2, 3], 1) == "2.0 ± 1.0"


def test_the_releases_of_rows_are_named():
    assert harness.releases([{}]) == "Measured on release 0.2 or earlier."
    sentence = harness.releases([{"release": "9.1.0"}, {}, {"release": "9.1.0"}])
    assert sentence.endswith("0.2 or earlier and on release 9.1.0.")
