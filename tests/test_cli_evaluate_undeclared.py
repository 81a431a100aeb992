"""`tabsynth evaluate` without a schema, for the tables of other programs."""

import json

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("undeclared")
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 300)
    real = pd.DataFrame({"id": np.arange(300), "a": a, "b": (a + rng.integers(0, 2, 300)) % 4})
    real["c"] = np.where(a > 1, "high", "low")
    real.to_csv(path / "real.csv", index=False)
    made = real.sample(200, random_state=1).astype({"a": "float64"}).assign(id=0)
    made.to_parquet(path / "made.parquet")
    made.to_csv(path / "made.csv", index=False)
    return path


@pytest.mark.slow
def test_tables_of_two_formats_are_compared_and_the_draft_is_stated(folder):
    done = run(
        "evaluate", "--real", "real.csv", "--synthetic", "made.parquet", "--target", "c", "-o", "out",
        cwd=folder,
    )  # fmt: skip
    assert "No --schema" in done.stderr
    assert "No schema was given" in done.stdout and "'id'" in done.stdout
    evaluation = json.loads((folder / "out" / "metrics.json").read_text())["evaluation"]
    assert [item["column"] for item in evaluation["columns"]] == ["a", "b", "c"]
    assert evaluation["left_out"] == 0 and set(evaluation["drafted"]["left_out"]) == {"id"}
    assert "No schema was given" in (folder / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--epsilon", 1], "--epsilon needs --schema"),
        (["--sample-rows", 10, "--decimal", ","], "--sample-rows, --decimal need --schema"),
        (["--synthetic", "."], "folder, which needs --schema"),
    ],
)
def test_what_a_draft_cannot_serve_is_refused(folder, options, says):
    given = ["evaluate", "--real", "real.csv", "-o", "report"]
    if "--synthetic" not in options:
        given += ["--synthetic", "made.csv"]
    refused(*given, *options, cwd=folder, says=says)
