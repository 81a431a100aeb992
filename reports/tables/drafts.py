"""Private drafts beside declared schemas: the distances of a fit whose draft is part of ε, on tables that have a codebook.

``OMP_NUM_THREADS=1 python reports/tables/drafts.py`` is run by the harness. Tables without a schema are given as texts, as CSV files
have them, and distances are by the cells of the declared schema.
"""

import itertools
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("data", "reports", "reports/benchmark", "tests")]

import made_up_table  # noqa: E402
from benchmark_data import data_file  # noqa: E402
from harness import Row, Rows, Study, fill, releases, table  # noqa: E402
from sources import DIAGNOSES, IDENTIFIERS  # noqa: E402
from tables import TABLES, Table  # noqa: E402

from tabsynth import Hierarchical, Identifier, InputError, MargNet, read_table  # noqa: E402
from tabsynth.schema import Column, Schema  # noqa: E402
from tabsynth.schema.schema import DEFAULT_NULL_VALUES  # noqa: E402
from tabsynth.tables.files import read_any  # noqa: E402

SEEDS = 2
TRIPLES = 200
HOSPITAL = "diabetes_hospital_5000.csv"
NULLS = (*DEFAULT_NULL_VALUES, "?")
TABLES_AND_EPSILONS = [
    *((name, 1) for name in ("census", "adult", "hospital", "census-24", "hospital-50", "made-up")),
    *((name, 8) for name in ("hospital-50", "made-up")),
]
KINDS = ("declared", "drafted")
SETTINGS = {
    f"{name}-{epsilon}-{kind}-{seed}": (name, epsilon, kind, seed)
    for name, epsilon in TABLES_AND_EPSILONS
    for seed in range(SEEDS)
    for kind in KINDS
}
HEAD = [
    *("table", "ε", "tvd2, declared", "tvd2, drafted", "tvd3, declared", "tvd3, drafted"),
    *("tvd3 relative", "left out", "CPU s"),
]


def hospital_as_published() -> Schema:
    """Return the schema of all 50 columns: identifiers are not read, and diagnoses are ICD-9 codes."""
    diabetes = [f"250.{kind}{control}" for kind in range(10) for control in ("", *range(4))]
    external = [*(f"V{number:02}" for number in range(1, 92)), *map("E{}".format, range(800, 1000))]
    codes = (*map(str, range(1, 1000)), *diabetes, *external, "other")
    declared = Schema.load(ROOT / "data" / "hospital.schema.json")
    columns: list[Column] = [Identifier(name=name, dtype="int64") for name in IDENTIFIERS]
    for column in declared.columns:
        if column.name in DIAGNOSES:
            column = Hierarchical(
                name=column.name,
                dtype="str",
                nulls=True,
                codes=codes,
                levels=(1, 3),
                shorten=True,
                other="other",
                source="ICD-9-CM: categories, and the subclassification of diabetes",
            )
        columns.append(column)
    return Schema(columns, declared.null_values)


ALL_TABLES = {
    **TABLES,
    "hospital-50": Table(
        "hospital, 50 columns as published",
        hospital_as_published,
        lambda schema: read_table(data_file(HOSPITAL), schema),
    ),
    "made-up": Table(
        "made-up stays, 32 columns", made_up_table.schema, lambda schema: made_up_table.rows()
    ),
}


def measure(setting: tuple[str, float, str, int]) -> Row:
    """Fit and sample one table, and compare it with its rows."""
    name, epsilon, kind, seed = setting
    schema, train, _ = ALL_TABLES[name].split()
    drafted = kind == "drafted"
    given = as_file(name, train) if drafted else train
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the summary of each draft
        model = MargNet(None if drafted else schema, epsilon=epsilon, random_state=seed)
        model.fit(given)
    synthetic = model.sample(len(train), random_state=seed)
    taken = time.process_time() - began
    for column in model.schema_.columns:  # dates of a file, in its format
        if column.kind in ("date", "datetime") and column.dtype == "str":
            dates = pd.to_datetime(synthetic[column.name], format=column.format)
            synthetic[column.name] = dates
    columns = [column for column in schema.columns if column.learned]
    left_out = [column.name for column in columns if column.name not in synthetic.columns]
    return {
        **distances(columns, train, synthetic),
        "left_out": left_out,
        "seconds": round(taken, 1),
    }


def as_file(name: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return training rows as the file of the table has them, as texts."""
    if name == "hospital-50":
        return read_any(data_file(HOSPITAL), NULLS).loc[rows.index]
    if name == "made-up":
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "export.csv"
            made_up_table.write_messy(rows, path)
            return read_any(path, NULLS)
    return _texts(rows).astype("str")


def _texts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table as a CSV file has it."""
    values = rows.astype(object).where(rows.notna(), None)
    return values.map(lambda value: None if value is None else str(value))


def distances(columns: Sequence[Column], real: pd.DataFrame, synthetic: pd.DataFrame) -> Row:
    """Return mean total variation distances of columns, pairs and ``TRIPLES`` triples, by the codes of columns."""
    codes = []
    for rows in (real, synthetic):
        texts, missing = _texts(rows), pd.Series([None] * len(rows))
        listed = [_codes(column, texts.get(column.name, missing)) for column in columns]
        codes.append(np.stack(listed, axis=1))
    sizes = [column.size + 1 for column in columns]
    every = list(itertools.combinations(range(len(sizes)), 3))
    triples = [every[k] for k in np.random.default_rng(0).permutation(len(every))[:TRIPLES]]

    def mean(sets: Iterable[Sequence[int]]) -> float:
        return round(statistics.fmean(_distance(codes, sizes, each) for each in sets), 5)

    return {
        "tvd1": mean([k] for k in range(len(sizes))),
        "tvd2": mean(itertools.combinations(range(len(sizes)), 2)),
        "tvd3": mean(triples),
    }


def _codes(column: Column, texts: pd.Series) -> np.ndarray:
    """Return codes of texts, one more than the column has for those that it does not declare."""
    try:
        return column.encode(column.parse(texts))
    except InputError:
        codes: dict[object, int] = {}
    for text in texts.unique():
        try:
            codes[text] = int(column.encode(column.parse(pd.Series([text], dtype=object)))[0])
        except InputError:
            codes[text] = column.size
    return texts.map(codes).to_numpy()


def _distance(codes: Sequence[np.ndarray], sizes: Sequence[int], columns: Sequence[int]) -> float:
    keys = [np.ravel_multi_index(c[:, columns].T, [sizes[k] for k in columns]) for c in codes]
    values, places = np.unique(np.concatenate(keys), return_inverse=True)
    parts = places[: len(keys[0])], places[len(keys[0]) :]
    shares = [np.bincount(part, minlength=len(values)) / len(part) for part in parts]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def page(rows: Rows) -> str:
    """Return the page."""
    cells, changes = list[list[str]](), list[float]()
    for name, epsilon in TABLES_AND_EPSILONS:
        declared, drafted = (
            [row for seed in range(SEEDS) if (row := rows.get(f"{name}-{epsilon}-{kind}-{seed}"))]
            for kind in KINDS
        )
        if declared and drafted:
            means = {
                key: [statistics.fmean(row[key] for row in kind) for kind in (declared, drafted)]
                for key in ("tvd2", "tvd3", "seconds")
            }
            changes.append(means["tvd3"][1] / means["tvd3"][0] - 1)
            left_out = statistics.fmean(len(row["left_out"]) for row in drafted)
            shown = [f"{value:.4f}" for key in ("tvd2", "tvd3") for value in means[key]]
            rest = [f"{changes[-1]:+.0%}", f"{left_out:g}", f"{means['seconds'][1]:.0f}"]
            cells.append([ALL_TABLES[name].title, f"{epsilon}", *shown, *rest])
    parts = {
        "ANSWER": f"The distance of triples rises by {min(changes):.0%} to {max(changes):.0%}.",
        "TABLE": table(HEAD, cells),
        "RELEASE": releases(rows.values()),
    }
    return fill(Path(__file__).with_name("drafts.template.md"), parts)


STUDY = Study(script=Path(__file__).resolve(), settings=SETTINGS, measure=measure, page=page)

if __name__ == "__main__":
    STUDY.main()
