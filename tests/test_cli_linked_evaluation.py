"""`tabsynth evaluate` of folders of linked tables."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from command_lines import refused, run

sys.path.insert(0, str(Path(__file__).parent / "evaluation"))

from linked_levels import SCHEMA, frames

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")

WORDS = [
    "evaluate",
    "--real",
    "real",
    "--synthetic",
    "made",
    "--schema",
    "linked.json",
    "-o",
    "out",
]


def write(folder, tables):
    folder.mkdir()
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)


@pytest.fixture
def folders(tmp_path):
    for name, seed in (("real", 0), ("made", 1), ("others", 2)):
        write(tmp_path / name, frames(seed, 60))
    SCHEMA.save(tmp_path / "linked.json")
    return tmp_path


@pytest.mark.slow
def test_a_report_with_a_page_for_each_table(folders):
    done = run(*WORDS, "--holdout", "others", cwd=folders)
    names = {"report.html", "metrics.json", "table-homes.html", "table-people.html"}
    assert {file.name for file in (folders / "out").iterdir()} == names
    assert "every row has its parent, and no key occurs twice" in done.stdout
    assert "Group size, people of homes: 0." in done.stdout
    found = json.loads((folders / "out" / "metrics.json").read_text())
    metrics = {m["key"]: m for m in found["evaluation"]["metrics"]}
    assert {"people.orphans", "people.transitions", "homes.presence"} <= set(metrics)
    assert found["evaluation"]["rows"]["homes"] == {"train": 60, "synthetic": 60, "holdout": 60}
    page = (folders / "out" / "report.html").read_text()
    for text in ("Confidential", "Pairs of siblings, people", "Attacks on units", "Glossary"):
        assert text in page
    assert "The synthetic tables may not be published. No certificate" in page


def damage(folders, file, **columns):
    path = folders / file
    pd.read_csv(path, dtype=str).assign(**columns).to_csv(path, index=False)


@pytest.mark.parametrize(
    ("change", "words", "says"),
    [
        (lambda f: damage(f, "real/people.csv", home="nowhere"), (), "home='nowhere' has no row of homes"),
        (lambda f: damage(f, "real/homes.csv", home="one"), (), "the key home='one' is null or repeated"),
        (lambda f: damage(f, "real/people.csv", sex="x"), (), "Column 'sex': 'x' is outside"),
        (lambda f: (f / "real" / "homes.csv").unlink(), (), "has no file for table 'homes'"),
        (lambda f: (f / "made" / "homes.tsv").touch(), (), "has homes.csv, homes.tsv for table 'homes'"),
        (
            lambda f: pd.read_csv(f / "made" / "people.csv").drop(columns="home").to_csv(
                f / "made" / "people.csv", index=False
            ),
            (),
            "has no key column 'home'",
        ),
        (lambda f: None, ("--synthetic", "linked.json"), "linked.json is no folder"),
        (lambda f: None, ("--epsilon", "1"), "without --epsilon"),
        (lambda f: None, ("--target", "sex", "--by", "sex"), "without --target, --by"),
    ],
)  # fmt: skip
def test_wrong_folders_and_options(folders, change, words, says):
    change(folders)
    refused(*WORDS, *words, cwd=folders, says=says)


def test_orphans_of_synthetic_tables_are_counted(folders):
    people = pd.read_csv(folders / "made" / "people.csv")
    people.loc[:3, "home"] = "nowhere"
    people.to_csv(folders / "made" / "people.csv", index=False)
    done = run(*WORDS, cwd=folders)
    assert f"Keys: Orphans, people {4 / len(people):.2%}." in done.stdout
    assert f"4 of {len(people):,} synthetic rows of people are left out" in done.stdout
    assert "Attacks on units were not tried" in done.stdout
