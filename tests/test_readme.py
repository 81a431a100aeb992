"""The blocks of README and docs/ run as they stand, in a folder of their own."""

import contextlib
import io
import json
import re
import shlex
import subprocess
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from command_lines import TABSYNTH, run

from tabsynth import Schema

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
DOCS = ROOT / "docs"
# Pages whose commands and programs run, in an order in which later ones may use the files of earlier ones.
LESSONS = (
    "tutorials/first-table",
    "tutorials/your-own-table",
    "tutorials/publishing-a-table",
    "how-to/release-a-table",
    "how-to/write-a-schema-from-a-codebook",
    "how-to/structural-zeros-and-dependencies",
    "how-to/declared-tables",
    "how-to/choose-epsilon-and-delta",
)
GUIDES = (
    "how-to/drafting",
    "how-to/schema-tools",
    "how-to/warm-starts",
    "how-to/resume-a-fit",
    "how-to/project-ledger",
    "how-to/sign-and-verify",
    "how-to/audit-a-claim",
    "how-to/files",
    "how-to/privacy-unit",
    "how-to/large-tables",
    "how-to/valid-inference",
)
# What the tests replace in a lesson, so that it takes seconds.
SHORTER = {
    "table, schema = load_census()": "table, schema = load_census()\n"
    'names = ["PUMA", "AGEP", "SEX", "MSP", "EDU", "PINCP_DECILE"]\n'
    "table, schema = table[names], schema.select(names)",
    "table[:7000], table[7000:]": "table[:900], table[900:1500]",
    "(0.1, 0.5, 2.0, 8.0)": "(0.5,)",
    "time_limit=60": "time_limit=1",
    "--time-limit 60s": "--time-limit 1s",
    "--time-limit 30s": "--time-limit 1s",
    "--time-limit 5s": "--time-limit 1s",
}


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def guide(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def shorter(text: str) -> str:
    for whole, part in SHORTER.items():
        text = text.replace(whole, part)
    return text


def execute(name: str, folder: Path) -> None:
    """What a reader does who follows a page: its programs and commands in order, in one folder.

    Files that the page tells the reader to save are saved before.
    """
    page, variables = shorter(guide(name)), {"__name__": "__main__"}
    for language, file in SAVED.get(name, ()):
        (folder / file).write_text(blocks(language, page)[0], "utf-8")
    parts = re.findall(r"^```(python|sh|yaml)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for language, block in parts:
        if language == "python":
            with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block, name, "exec"), variables)
        elif language == "yaml":
            (folder / "release.yaml").write_text(block, "utf-8")
        else:
            for line in block.splitlines():
                run(*words(line), cwd=folder)


SAVED = {
    "tutorials/your-own-table": [("json", "schema.json")],
    "how-to/write-a-schema-from-a-codebook": [("csv", "visits-codebook.csv")],
    "how-to/structural-zeros-and-dependencies": [("json", "survey.schema.json")],
    "how-to/declared-tables": [("json", "regions.schema.json")],
}


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    own = guide("tutorials/your-own-table")
    with contextlib.chdir(tmp_path):
        exec(blocks("python", own)[0], {})  # people.csv
    with duckdb.connect(str(tmp_path / "people.db")) as database:
        database.read_csv(str(tmp_path / "people.csv")).create("people")
    (tmp_path / "schema.json").write_text(blocks("json", own)[0], "utf-8")
    n = 3000
    stays = pd.DataFrame({"patient": rng.integers(0, 1500, n), "days": rng.integers(1, 31, n)})
    stays.assign(ward=rng.choice(["a", "b", "c"], n)).to_csv(tmp_path / "stays.csv", index=False)
    (tmp_path / "stays.schema.json").write_text(
        blocks("json", guide("how-to/privacy-unit"))[0], "utf-8"
    )
    (tmp_path / "clinic.csv").write_text(blocks("csv", guide("how-to/files"))[0], "utf-8")
    (tmp_path / "codebook.csv").write_text(blocks("csv", guide("how-to/schema-tools"))[0], "utf-8")
    return tmp_path


@pytest.mark.slow
def test_the_first_two_commands_make_a_private_table(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "mrn": [f"M{i:06}" for i in range(2_000)],
            "sex": rng.choice(["f", "m"], 2_000),
            "weight": rng.normal(75, 12, 2_000).round(1),
            "admitted": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 700, 2_000), "D"),
        }
    )
    table.to_csv(tmp_path / "people.csv", index=False)
    for line in blocks("sh")[0].splitlines():
        run(*words(line), cwd=tmp_path)
    made = pd.read_csv(tmp_path / "synthetic.csv")
    assert list(made) == ["sex", "weight", "admitted"] and len(made) == 300


@pytest.mark.slow
def test_lessons_run_in_an_empty_folder(tmp_path):
    for name in LESSONS:
        execute(name, tmp_path)
    assert len(pd.read_csv(tmp_path / "synthetic.csv")) == 1500
    assert Schema.load(tmp_path / "schema.json").drafted == ()
    assert (tmp_path / "report" / "report.html").stat().st_size > 10_000
    # As the reader would: the installed script.
    verify = next(
        line
        for block in blocks("sh", guide("tutorials/your-own-table"))
        for line in block.splitlines()
        if line.startswith("tabsynth verify")
    )
    done = subprocess.run(
        [TABSYNTH, *words(verify)], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("Private: (")


@pytest.mark.slow
def test_shell_blocks_run(people):
    for name in GUIDES:
        for block in blocks("sh", guide(name)):
            for line in block.splitlines():
                run(*words(shorter(line)), cwd=people)
    assert Schema.load(people / "draft.json").drafted == ("sex", "age", "income")
    imported = Schema.load(people / "imported.json")
    assert imported.drafted == () and imported.names == ("sex", "age", "income")
    assert Schema.load(people / "edited.json").names_left_out == ("income",)


def words(line):
    first, *rest = shlex.split(line)
    assert first == "tabsynth"
    return rest


def test_every_page_with_commands_is_run():
    pages = [README, *(path.read_text("utf-8") for path in DOCS.rglob("*.md"))]
    run_here = [guide(name) for name in (*LESSONS, *GUIDES)]
    assert sum(bool(blocks("sh", page)) for page in pages) == 1 + sum(
        bool(blocks("sh", page)) for page in run_here
    )
    assert all(blocks("sh", guide(name)) for name in GUIDES)
    assert "accept-drafted-domain" not in "".join(
        block for page in run_here for block in blocks("sh", page)
    )
    whole = "".join(run_here)
    assert all(text in whole for text in SHORTER)


def test_the_columns_of_the_schema_reference_are_valid():
    columns, zeros, dates, codes, missing, rules = blocks("json", guide("reference/schema-file"))
    for lines in (codes, missing):
        items = [json.loads(line) for line in lines.splitlines()]
        read = Schema.from_dict({"format": "tabsynth-schema/1", "columns": items})
        assert [column.size for column in read.columns] == (
            [7, 3] if lines is codes else [66, 12, 65]
        )
    lines = ",\n".join(columns.splitlines())
    marital = (
        '{"name": "MSP", "kind": "categorical", "dtype": "str", "categories": ["1", "2", "3"]}'
    )
    page = f'"format": "tabsynth-schema/1", "columns": [{lines}, {marital}], {zeros}'
    schema = Schema.from_dict(json.loads(f"{{{page}}}"))
    assert schema.names == ("EDU", "AGEP", "PINCP", "MSP") and len(schema.impossible) == 1
    temporal = [json.loads(line) for line in dates.splitlines()]
    assert {column["kind"] for column in temporal} >= {"date", "duration", "identifier", "text"}
    numbers = [
        {"name": n, "kind": "numeric", "dtype": "float64", "low": 0, "high": 300}
        for n in ("total", "wages", "interest", "income", "dbp", "sbp", "age")
    ]
    texts = [
        {"name": n, "kind": "categorical", "dtype": "str", "categories": c}
        for n, c in (("pregnant", ["no", "yes"]), ("sex", ["f", "m"]), ("INDP", ["0170", "0770"]))
    ]
    code = {"name": "INDP_CAT", "kind": "categorical", "dtype": "int64", "categories": [0, 2]}
    days = [{**temporal[0], "name": n} for n in ("birth", "discharge")]
    facts = {"format": "tabsynth-schema/1", **json.loads(f"{{{rules}}}")}
    schema = Schema.from_dict({**facts, "columns": [*temporal, *numbers, *texts, code, *days]})
    assert len(schema.rules) == 7


def test_two_commands_are_those_of_the_makefile():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert len(commands) == 2 and set(commands) <= set(targets)
    checks = ROOT / ".ci" / "run"
    if checks.exists():  # not in the source distribution
        assert re.findall(r"^make (\w+)$", checks.read_text(), re.MULTILINE)[:2] == commands


def test_the_architecture_page_names_every_package():
    page = guide("design/architecture")
    for path in (ROOT / "tabsynth").iterdir():
        public = not path.name.startswith(("_", "py.typed", "errors"))
        if public and (path.suffix == ".py" or (path / "__init__.py").exists()):
            name = path.name if path.suffix else f"{path.name}/"
            assert f"`{name}`" in page, f"docs/design/architecture.md lacks {name}"
