"""Private drafts beside declared schemas: the distances of a fit whose draft is part of ε, on tables that have a codebook.

``OMP_NUM_THREADS=1 python reports/tables/drafts.py`` is run by the harness. Tables without a schema are given as texts, as CSV files
have them, and distances are by the cells of the declared schema.
"""

import itertools
import statistics
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "reports"), str(ROOT / "reports" / "benchmark")]

from harness import Row, Rows, Study, fill, releases, table  # noqa: E402
from tables import TABLES  # noqa: E402

from tabsynth import InputError, MargNet  # noqa: E402
from tabsynth.schema import Column, Schema  # noqa: E402

SEEDS = 2
TRIPLES = 200
NAMES = ("census", "adult", "hospital", "census-24")
KINDS = ("declared", "drafted")
SETTINGS = {
    f"{name}-{kind}-{seed}": (name, kind, seed)
    for name in NAMES
    for seed in range(SEEDS)
    for kind in KINDS
}
HEAD = ["table", "schema", "tvd1", "tvd2", "tvd3", "tvd3 relative", "left out", "CPU s"]


def measure(setting: tuple[str, str, int]) -> Row:
    """Fit and sample one table, and compare it with its rows."""
    name, kind, seed = setting
    schema, train, _ = TABLES[name].split()
    drafted = kind == "drafted"
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the summary of each draft
        model = MargNet(None if drafted else schema, epsilon=1.0, random_state=seed, device="cpu")
        model.fit(_texts(train).astype("str") if drafted else train)
    synthetic = model.sample(len(train), random_state=seed)
    taken = time.process_time() - began
    left_out = [name for name in train.columns if name not in synthetic.columns]
    return {**distances(schema, train, synthetic), "left_out": left_out, "seconds": round(taken, 1)}


def _texts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table as a CSV file has it."""
    values = rows.astype(object).where(rows.notna(), None)
    return values.map(lambda value: None if value is None else str(value))


def distances(schema: Schema, real: pd.DataFrame, synthetic: pd.DataFrame) -> Row:
    """Return mean total variation distances of columns, pairs and ``TRIPLES`` triples, by the codes of a schema."""
    codes = []
    for rows in (real, synthetic):
        texts, missing = _texts(rows), pd.Series([None] * len(rows))
        columns = [_codes(column, texts.get(column.name, missing)) for column in schema.columns]
        codes.append(np.stack(columns, axis=1))
    sizes = [column.size + 1 for column in schema.columns]
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
    cells = []
    for name, kind in itertools.product(NAMES, KINDS):
        measured, declared = (
            [row for seed in range(SEEDS) if (row := rows.get(f"{name}-{each}-{seed}"))]
            for each in (kind, "declared")
        )
        if measured and declared:
            means = {
                key: statistics.fmean(row[key] for row in measured)
                for key in ("tvd1", "tvd2", "tvd3", "seconds")
            }
            relative = means["tvd3"] / statistics.fmean(row["tvd3"] for row in declared) - 1
            left_out = statistics.fmean(len(row["left_out"]) for row in measured)
            distances_of = [f"{means[key]:.4f}" for key in ("tvd1", "tvd2", "tvd3")]
            rest = [f"{relative:+.0%}", f"{left_out:g}", f"{means['seconds']:.0f}"]
            cells.append([TABLES[name].title, kind, *distances_of, *rest])
    parts = {"TABLE": table(HEAD, cells), "RELEASE": releases(rows.values())}
    return fill(Path(__file__).with_name("drafts.template.md"), parts)


STUDY = Study(
    script=Path(__file__).resolve(),
    settings=SETTINGS,
    measure=measure,
    page=page,
    results="drafts.json",
    document="drafts.md",
)

if __name__ == "__main__":
    STUDY.main()
