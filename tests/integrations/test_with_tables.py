"""`tabsynth evaluate` of tables that the real packages made, without a schema: ``make test-plugins``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from integrations.plugin_tables import patients

FOLDER = os.environ.get("TABSYNTH_PLUGIN_TABLES")
pytestmark = [
    pytest.mark.plugins,
    pytest.mark.skipif(not FOLDER, reason="needs tables of SDV and dpmm: make test-plugins"),
]
LACKING = {"dpmm": {"patient_id", "admitted"}, "sdv1": set(), "sdv2": set()}


@pytest.mark.parametrize(
    "name", ["sdv1.csv", "sdv2.csv", "sdv2.parquet", "dpmm.csv", "dpmm.parquet"]
)
def test_it_is_evaluated_and_the_report_says_how(name, tmp_path):
    made = Path(FOLDER or "", name)
    if not made.exists():
        pytest.skip(f"{made} was not made")
    patients().to_csv(tmp_path / "real.csv", index=False)
    patients(300, seed=1).to_csv(tmp_path / "holdout.csv", index=False)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tabsynth", "evaluate", "--real", "real.csv"),
            *("--synthetic", made, "--holdout", "holdout.csv", "--target", "died", "-o", "report"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "No schema was given" in done.stdout
    evaluation = json.loads((tmp_path / "report" / "metrics.json").read_text())["evaluation"]
    lacking = LACKING[name.partition(".")[0]] | {"patient_id"}
    assert set(evaluation["drafted"]["left_out"]) == lacking
    compared = {item["column"]: item["distance"] for item in evaluation["columns"]}
    assert set(compared) == set(patients().columns) - lacking
    assert evaluation["left_out"] == 0
    print(name, {column: round(distance, 3) for column, distance in compared.items()})
    # A fitted table is near to the real one in what each package models as codes.
    assert compared["sex"] < 0.2 and compared["died"] < 0.2 and compared["age"] < 0.4
