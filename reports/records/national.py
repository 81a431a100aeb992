"""A national census on two cores: 55 million people, 60 columns and 200 relations, by the command line from Parquet files.

    TABSYNTH_SCALE_DATA=FOLDER python reports/records/national.py

The table is public: anyone can make it again. It is written to that folder, where it stays (1.6 GB). Each row of the results
is a fit and a sample of their own, with their own noise.
"""

import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from harness import Row, Rows, Study, fill, releases, table  # noqa: E402

from tabsynth import Schema  # noqa: E402
from tabsynth.schema import Column  # noqa: E402
from tabsynth.tables import ParquetCounter  # noqa: E402

PEOPLE, COLUMNS, RELATIONS = 55_000_000, 60, 200
SIZES = (2, 5, 10, 16, 100, 8, 12, 3, 50, 6)
FOLLOWS = 0.7  # the share of rows in which a column follows one of those before it
FILE_ROWS = 1_000_000
SAMPLED = 5_500_000
TARGETS = {"minutes": 30.0, "gib": 2.0, "tvd2": 0.01}


def sizes() -> list[int]:
    """Return the number of values of each column."""
    return [SIZES[j % len(SIZES)] for j in range(COLUMNS)]


def parents() -> list[list[int]]:
    """Return the columns that each column follows: ``RELATIONS`` in all."""
    rng, found = np.random.default_rng(54), [list[int]() for _ in range(COLUMNS)]
    found[1:] = [[int(rng.integers(0, j))] for j in range(1, COLUMNS)]
    while sum(map(len, found)) < RELATIONS:
        j = int(rng.integers(1, COLUMNS))
        before = sorted(set(range(j)) - set(found[j]))
        if before:
            found[j].append(int(rng.choice(before)))
    return found


def schema() -> Schema:
    """Return the schema, in which each value is a category."""
    return Schema(
        [
            Column(name=f"c{j}", kind="categorical", dtype="int32", categories=tuple(range(size)))
            for j, size in enumerate(sizes())
        ]
    )


def rows(part: int) -> pa.Table:
    """Draw the rows of one file: each value is a skewed one of its own, or follows one of the column's parents."""
    rng, drawn = np.random.default_rng([54, part]), list[np.ndarray]()
    for size, above in zip(sizes(), parents(), strict=True):
        values = (size * rng.random(FILE_ROWS, dtype=np.float32) ** 1.5).astype(np.int32)
        values = np.minimum(values, size - 1)
        if above:
            which = rng.integers(0, len(above), FILE_ROWS, dtype=np.int8)
            follows = rng.random(FILE_ROWS, dtype=np.float32) < FOLLOWS
            for k, parent in enumerate(above):
                image = (np.arange(sizes()[parent]) * size // sizes()[parent]).astype(np.int32)
                np.copyto(values, image[drawn[parent]], where=follows & (which == k))
        drawn.append(values)
    return pa.table({f"c{j}": values for j, values in enumerate(drawn)})


def _write(folder: Path, part: int) -> None:
    path = folder / f"part-{part:03d}.parquet"
    if not path.exists():
        temporary = path.with_suffix(".new")
        pq.write_table(rows(part), temporary, row_group_size=2**18)
        os.replace(temporary, path)


def prepare(data: Path) -> Path:
    """Write the table where it is not there, and return its folder."""
    folder = data / "national"
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2) as processes:
        list(processes.map(partial(_write, folder), range(PEOPLE // FILE_ROWS)))
    return folder


def shares(folder: Path) -> list[np.ndarray]:
    """Return the joint distribution of each pair of columns of a folder of Parquet files."""
    pairs = list(combinations(range(COLUMNS), 2))
    return [c / c.sum() for c in ParquetCounter(folder).count_all(schema(), pairs)]


def measure(number: int) -> Row:
    """Fit and sample by the command line, and compare all pairs of columns."""
    data = Path(os.environ["TABSYNTH_SCALE_DATA"])
    folder, work = prepare(data), data / f"run-{number}"
    work.mkdir(exist_ok=True)
    schema().save(work / "schema.json", overwrite=True)
    model, sample = work / "model.tabsynth", work / "sample"
    sample.mkdir(exist_ok=True)
    fit = ["fit", folder, "--schema", work / "schema.json", "--epsilon", 1, "-o", model]
    draw = ["sample", model, "-n", SAMPLED, "-o", sample / "synthetic.parquet"]
    row: Row = {"people": PEOPLE, "columns": COLUMNS, "epsilon": 1.0}
    for name, words in (("fit", fit), ("sample", draw)):
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "tabsynth", *map(str, words), "--overwrite"]
        subprocess.run(command, check=True, stdout=sys.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        row[f"{name}_minutes"] = round((time.perf_counter() - started) / 60, 2)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        row[f"{name}_cpu_minutes"] = round(cpu / 60, 2)
    row["gib"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, 2)
    real, synthetic = shares(folder), shares(sample)
    distances = [np.abs(a - b).sum() / 2 for a, b in zip(real, synthetic, strict=True)]
    of_relations = {(p, j) for j, above in enumerate(parents()) for p in above}
    pairs = combinations(range(COLUMNS), 2)
    related = [d for pair, d in zip(pairs, distances, strict=True) if pair in of_relations]
    return row | {
        "sampled": SAMPLED,
        "tvd2": round(float(np.mean(distances)), 5),
        "tvd2_relations": round(float(np.mean(related)), 5),
        "tvd2_largest": round(float(np.max(distances)), 5),
    }


def page(measured: Rows) -> str:
    """Return the page."""
    each = list(measured.values())
    head = ["run", "fit, minutes", "CPU minutes", "sample, minutes", "peak GiB", "tvd2"]
    head += ["of the 200 relations", "largest of a pair"]
    names = ("fit_minutes", "fit_cpu_minutes", "sample_minutes", "gib")
    figures = (*names, "tvd2", "tvd2_relations", "tvd2_largest")
    lines = [
        [key.split("-")[1], *(str(row[name]) for name in figures)] for key, row in measured.items()
    ]
    minutes = [row["fit_minutes"] + row["sample_minutes"] for row in each]
    parts = {
        "MINUTES": f"{max(minutes):.1f}",
        "GIB": f"{max(row['gib'] for row in each):.2f}",
        "TVD2": f"{max(row['tvd2'] for row in each):.4f}",
        "RUNS": table(head, lines),
        "RELEASE": releases(each),
    }
    return fill(HERE / "national.template.md", parts)


STUDY = Study(
    script=Path(__file__).resolve(),
    settings={f"run-{number}": number for number in range(3)},
    measure=measure,
    page=page,
    apart=True,
)

if __name__ == "__main__":
    STUDY.main()
