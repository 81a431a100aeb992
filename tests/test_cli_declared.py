"""``fit --table`` and ``plan --table`` of declared tables: what they print, refuse and leave."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import Categorical, MargNet, Schema, load
from tabsynth.privacy import ProjectLedger

TOWNS = {"Aach": "BW", "Bonn": "NW", "Celle": "NI", "Essen": "NW"}
SCHEMA = Schema(
    [
        Categorical(name="town", dtype="str", categories=tuple(TOWNS)),
        Categorical(name="state", dtype="str", categories=("BW", "NI", "NW")),
        Categorical(name="sex", dtype="str", categories=("f", "m")),
        Categorical(name="job", dtype="str", categories=("full", "none", "part")),
    ],
    constraints=[{"derive": "state", "from": "town", "table": TOWNS}],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [(t, TOWNS[t], s, j) for t in TOWNS for s in "fm" for j in ("full", "none", "part")] * 12
    pd.DataFrame(rows, columns=list(SCHEMA.names)).to_csv(tmp_path / "people.csv", index=False)
    SCHEMA.save(tmp_path / "schema.json")
    ProjectLedger.create(tmp_path / "project", epsilon=2.0)
    return tmp_path


@pytest.mark.slow
def test_fit_and_sample(folder: Path) -> None:
    words = ["fit", "people.csv", "--schema", "schema.json", "--epsilon", 1, "--time-limit", "1s"]
    tables = ["--table", "town,sex", "--table", "state, job"]
    done = run(*words, *tables, "-o", "model", cwd=folder)
    assert done.stdout.index("declared tables: 1 release") < done.stdout.index("one-way counts")
    model = load(folder / "model")
    assert isinstance(model, MargNet) and model.tables == [["town", "sex"], ["state", "job"]]
    run("sample", "model", "-n", 500, "-o", "out.csv", cwd=folder)
    cells = pd.read_csv(folder / "out.csv").groupby(["town", "sex"]).size().rename("rows")
    fitted = model.fitted_tables()[0].merge(cells.reset_index(), how="left").fillna({"rows": 0})
    scaled = fitted["count"] * 500 / fitted["count"].sum()
    assert (fitted["rows"] - scaled).abs().max() < 1
    certificate = json.loads((folder / "out.csv.certificate.json").read_text("utf-8"))
    assert certificate["public"]["tables"] == [["town", "sex"], ["state", "job"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--schema", "schema.json", "--table", "town,x"], "'x', which the schema does not have"),
        (["--schema", "schema.json", "--table", "town,town"], "twice"),
        (["--schema", "schema.json", "--table", "town,state"], "follow from the same column"),
        (["--table", "town,sex"], "tables needs a schema"),
        (["--schema", "schema.json", "--table", "town", "--method", "dp-gan"], "takes no --table"),
        (["--schema", "schema.json", "--table", "town,sex", "--public", "earlier.csv", "--public-source", "2018"], "not both"),
    ],
)  # fmt: skip
def test_bad_tables(folder: Path, given: list[str], says: str) -> None:
    before = (folder / "project").read_bytes()
    pd.read_csv(folder / "people.csv").head(100).to_csv(folder / "earlier.csv", index=False)
    words = ["fit", "people.csv", "--epsilon", 1, "-o", "model", "--ledger", "project"]
    refused(*words, *given, cwd=folder, says=says)
    assert (folder / "project").read_bytes() == before and not (folder / "model").exists()


def test_plan(folder: Path) -> None:
    """Derived columns and tables that are not counted otherwise are planned as declared ones."""
    words = ["plan", "--rows", 288, "--epsilon", 1, "--schema", "schema.json"]
    out = run(*words, "--table", "state,sex", cwd=folder).stdout
    (line,) = (line.split() for line in out.splitlines() if line.startswith("state,sex"))
    assert line[1] == "6" and line[3] == "-" and line[-1] == "rows"
    shown = run(*words, "--table", "town,sex", cwd=folder).stdout
    assert "if declared" in shown
