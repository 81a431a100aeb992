"""The figures of NIST's SDNist for tables that are like the national excerpt of 2019, in SDNist's own environment.

    python sdnist_score.py DATA TABLE ...

DATA holds census_national_2019.csv and census_data_dictionary.json (data/README.md). The last line that is printed is JSON: for each
table its k-marginal score, how many columns were scored, and how many rows have which inconsistency. SDNist's own code computes them; what it
draws besides is left out.
"""

import contextlib
import io
import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
import pandas as pd  # noqa: E402
import sdnist.report  # noqa: E402  before its parts, which import each other
from sdnist.load import TestDatasetName  # noqa: E402
from sdnist.metrics.inconsistency import Inconsistencies  # noqa: E402
from sdnist.metrics.kmarginal import KMarginal  # noqa: E402
from sdnist.utils import SimpleLogger  # noqa: E402

COUNTED = ("NOC", "NPF")  # their dictionary has bounds, where SDNist's schema lists values


def lay_out(data: Path, root: Path) -> None:
    """Write the excerpt and its dictionary into a folder as SDNist downloads them; its schema follows from the dictionary."""
    dictionary = json.loads((data / "census_data_dictionary.json").read_text("utf-8"))
    table = root / "national" / "national2019.csv"
    table.parent.mkdir(parents=True)
    shutil.copy(data / "census_national_2019.csv", table)
    schema = {}
    for name in pd.read_csv(table, nrows=0).columns:
        values = dictionary[name].get("values", {"N": ""})
        facts = {"dtype": {"PUMA": "object", "DENSITY": "float64"}.get(name, "int64")}
        if "N" in values:
            facts = {"dtype": "object", "has_null": True, "null_value": "N"}
        bounds = "min" in values and name not in COUNTED
        facts |= {"min": values["min"]} if bounds else {"values": list(values)}
        schema[name] = facts
    areas = {code: {"name": name} for code, name in dictionary["PUMA"]["values"].items()}
    for path, content in {
        table.with_suffix(".json"): {"schema": schema},
        root / "data_dictionary.json": dictionary,
        root / "mappings.json": {"PUMA": areas},
        root / "config.json": {},
    }.items():
        path.write_text(json.dumps(content), "utf-8")


def score(root: Path, table: Path, scratch: Path) -> dict:
    """Return the figures of one table; rows are counted once however many inconsistencies they have."""
    dataset = sdnist.report.Dataset(
        table, SimpleLogger(), TestDatasetName.national2019, root, False
    )
    marginals = KMarginal(dataset.d_target_data, dataset.d_synthetic_data, ["PUMA"])
    found = Inconsistencies(dataset.c_synthetic_data, scratch)
    found.compute()
    kinds = [
        kind
        for group in ("age", "work", "housing")
        for kind in found.report_data[group]["inconsistencies"]
    ]
    rows = {row for kind in kinds for row in kind["inconsistent_data_indexes"]}
    return {
        "k_marginal": round(float(marginals.compute_score()), 2),
        "columns": len(dataset.features),
        "inconsistent": len(rows),
        "kinds": {kind["inconsistency_name"]: kind["inconsistency_violations"] for kind in kinds},
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        scratch = Path(folder)
        lay_out(Path(sys.argv[1]), scratch / "excerpts")
        scores = [score(scratch / "excerpts", Path(path), scratch) for path in sys.argv[2:]]
    print(json.dumps(scores))
