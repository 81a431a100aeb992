"""The unit of privacy on hospital encounters: what protecting a patient costs, for several bounds of rows.

``python reports/units/units.py`` runs what is missing, writes results-units.json and units.md; ``--page`` writes the page
alone.
"""

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "benchmark")]

from tables import TABLES, data_file  # noqa: E402

from tabsynth import MargNet, Schema  # noqa: E402
from tabsynth.encoding import TableEncoder  # noqa: E402
from tabsynth.encoding.rows import bounded, names_of  # noqa: E402
from tabsynth.privacy.certificate.certificate import code  # noqa: E402
from tabsynth.tables.files import read_any  # noqa: E402

RESULTS, PAGE = HERE / "results-units.json", HERE / "units.md"
UNIT = "patient_nbr"
COLUMNS = (
    "race",
    "gender",
    "age",
    "admission_type_id",
    "time_in_hospital",
    "num_medications",
    "number_inpatient",
    "diag_1",
    "insulin",
    "change",
    "diabetesMed",
    "readmitted",
)
BOUNDS, SEEDS, EPSILON = (1, 2, 3, 5), (0, 1, 2), 1.0
KEY = b"of these figures"  # of rows that are chosen without a fit
RUNS = [
    *(("record", 0, seed) for seed in SEEDS),
    *(("unit", bound, seed) for bound in BOUNDS for seed in SEEDS),
    *((how, bound, 0) for how in ("chosen", "weighted") for bound in BOUNDS),
]


def encounters() -> tuple[Schema, pd.DataFrame]:
    """The declared columns, and all encounters with the patient of each."""
    whole = TABLES["hospital"].schema()
    schema = Schema([whole[name] for name in COLUMNS], null_values=whole.null_values)
    rows = TABLES["hospital"].rows(whole)[list(COLUMNS)]
    patients = read_any(data_file("diabetes_hospital_5000.csv"))[UNIT]
    return schema, rows.assign(**{UNIT: patients.to_numpy()}).dropna(subset=[UNIT])


def distances(
    sizes: tuple[int, ...], real: np.ndarray, made: np.ndarray, weights: np.ndarray | None = None
) -> dict[str, float]:
    """Mean total variation distances of the counts of columns and of pairs; ``weights`` are of the rows ``made``."""
    out = {}
    for order, name in ((1, "tvd1"), (2, "tvd2")):
        gaps = []
        for columns in itertools.combinations(range(len(sizes)), order):
            shape = [sizes[j] for j in columns]
            cells = [np.ravel_multi_index(rows[:, columns].T, shape) for rows in (real, made)]
            counts = [
                np.bincount(cell, times, int(np.prod(shape)))
                for cell, times in zip(cells, (None, weights), strict=True)
            ]
            gaps.append(np.abs(counts[0] / counts[0].sum() - counts[1] / counts[1].sum()).sum() / 2)
        out[name] = float(np.mean(gaps))
    return out


def run(how: str, bound: int, seed: int) -> dict[str, Any]:
    """The figures of one fit, or of rows that are chosen or weighted without noise."""
    schema, table = encounters()
    encoder = TableEncoder(schema)
    real, started = encoder.to_index(table[list(COLUMNS)]), time.process_time()
    names = names_of(table[UNIT])
    sizes = pd.Series(names).map(pd.Series(names).value_counts()).to_numpy()
    out: dict[str, Any] = {}
    if how == "chosen":
        kept = bounded(names, bound, KEY)
        out |= distances(schema.sizes, real, real[kept]) | {"used": float(kept.mean())}
    elif how == "weighted":
        weights = np.minimum(1.0, bound / sizes)
        out |= distances(schema.sizes, real, real, weights) | {"used": 1.0}
    else:
        if how == "unit":
            schema = Schema(schema.columns, schema.null_values, unit=UNIT, max_rows_per_unit=bound)
        model = MargNet(schema, epsilon=EPSILON, random_state=seed)
        made = model.fit(table if how == "unit" else table[list(COLUMNS)]).sample(len(table))
        out |= distances(encoder.schema.sizes, real, encoder.to_index(made))
        out["rows"] = model.rows_
    out["cpu_seconds"] = round(time.process_time() - started, 1)
    return {**out, "code": code()["sha256"][:12]}


def key_of(one: tuple[Any, ...]) -> str:
    return "-".join(map(str, one))


def page(results: dict[str, Any]) -> str:
    """The page of the results."""
    lines = [
        "# The unit of privacy on hospital encounters",
        "",
        f"MargNet at ε = {EPSILON:g}, δ = 1e-5, seeded, on {len(COLUMNS)} columns of the 4,999 encounters of 4,259 patients in the"
        " UCI diabetes excerpt. Distances are total variation distances of the counts of columns (tvd1) and of pairs (tvd2)"
        " between all encounters and as many synthetic ones: mean ± standard deviation over seeds. `python"
        " reports/units/units.py` writes this page. It needs [benchmark files](../../data/README.md#benchmark-files).",
        "",
        "| what ε protects | rows of a patient used | seeds | tvd1 | tvd2 | CPU s | code |",
        "|---|---|---|---|---|---|---|",
    ]
    for how, bound in [("record", 0), *(("unit", bound) for bound in BOUNDS)]:
        rows = [results[k] for s in SEEDS if (k := key_of((how, bound, s))) in results]
        if not rows:
            continue
        cells = [
            "one encounter" if how == "record" else "one patient",
            "all" if how == "record" else f"at most {bound}",
            str(len(rows)),
            *(_over(rows, figure) for figure in ("tvd1", "tvd2")),
            f"{np.mean([row['cpu_seconds'] for row in rows]):.0f}",
            ", ".join(sorted({row["code"] for row in rows})),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "## Without noise: rows chosen, or all rows weighted",
        "",
        "What the bound alone does to the tables, in place of noise. `chosen`: a keyed hash chooses the rows of a patient that are"
        " used, as fits do. `weighted`: all k rows of a patient count min(1, bound / k). Both have the same sensitivity.",
        "",
        "| how | bound | share of rows used | tvd1 | tvd2 |",
        "|---|---|---|---|---|",
    ]
    for bound in BOUNDS:
        for how in ("chosen", "weighted"):
            row = results.get(key_of((how, bound, 0)))
            if row is not None:
                figures = f"{row['used']:.1%} | {row['tvd1']:.4f} | {row['tvd2']:.4f}"
                lines.append(f"| {how} | {bound} | {figures} |")
    lines += [
        "",
        "The code is the hash that `tabsynth.privacy.certificate.certificate.code()` gives; rows with another hash are older.",
    ]
    return "\n".join(lines) + "\n"


def _over(rows: list[dict[str, Any]], figure: str) -> str:
    values = [row[figure] for row in rows]
    spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{spread}"


def main() -> None:
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for one in RUNS if "--page" not in sys.argv else ():
        if key_of(one) not in results:
            results[key_of(one)] = run(*one)
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
            print(key_of(one), results[key_of(one)], flush=True)
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
