"""Time and peak memory of MargNet by rows, columns and engine: fits, counts, samples and evaluations.

    TABSYNTH_SCALE_DATA=FOLDER python reports/scale/run.py

The tables are public (``made_codes.py``) and are written to that folder, where they stay; a table of 10⁹ rows takes 4.7 GB.
Each row of the results is measured in a process of its own, so that its peak memory is its own. Fits are seeded, so that they
can be repeated. Spark needs pyspark and a Java runtime.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import made_codes  # noqa: E402
import page  # noqa: E402
from harness import Study  # noqa: E402

ENGINES = ("parquet", "duckdb", "polars", "spark", "memory")
MOST_SAMPLED = 10**7
TICK = os.sysconf("SC_CLK_TCK")

# kind, engine, rows, columns
COUNTS = [
    *(("count", "parquet", 10**i, 10) for i in range(4, 9)),
    *(("count", "duckdb", 10**i, 10) for i in range(4, 9)),
    *(("count", "polars", 10**i, 10) for i in range(4, 9)),
    *(("count", "memory", 10**i, 10) for i in range(4, 8)),
    *(("count", "spark", 10**i, 10) for i in range(4, 8)),
    *(("count", engine, 10**5, d) for d in (24, 50, 100, 200, 500) for engine in ENGINES[:3]),
    *(("count", "memory", 10**5, d) for d in (24, 50, 100, 200, 500)),
    *(("count", "spark", 10**5, d) for d in (24, 50)),
]
STEPS = [("steps", "parquet", 10**5, d) for d in (10, 24, 50, 100, 200, 500)]
FITS = [
    *(("fit", "parquet", 10**i, 10) for i in range(4, 9)),
    *(("fit", "parquet", 10**5, d) for d in (24, 50, 100)),
    ("fit", "parquet", 10**7, 100),
    ("fit", "parquet", 10**9, 10),
]
PAIRS = [("pairs", engine, 10**7, 10) for engine in ("numpy", "parquet", "duckdb", "polars")]
SAMPLES = [("sample", "parquet", 10**i, 10) for i in (5, 6, 7, 8)]
EVALUATIONS = [("evaluate", "parquet", 10**i, 10) for i in (7, 8)]
RUNS = [*PAIRS, *COUNTS, *SAMPLES, *EVALUATIONS, *STEPS, *FITS]


def key_of(run: tuple[str, str, int, int]) -> str:
    """Return the key of a row."""
    return "-".join(map(str, run))


class Processes:
    """The CPU seconds and the peak memory of this process, and of those that it started."""

    def __init__(self) -> None:
        self.cpu = self.cpu_seconds()

    @staticmethod
    def _descendants() -> list[int]:
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                parents[int(entry.name)] = int(fields[1])
        started, this = [], os.getpid()
        for pid in parents:
            above = pid
            while above in parents and above != this:
                above = parents[above]
            if above == this and pid != this:
                started.append(pid)
        return started

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all threads of all these processes."""
        total = time.process_time()
        for pid in self._descendants():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                total += (int(fields[11]) + int(fields[12])) / TICK
            except OSError:
                continue
        return total

    def figures(self) -> dict[str, float]:
        """Return the figures since the start."""
        peaks = [peak_mib(pid) for pid in self._descendants()]
        return {
            "cpu_seconds": round(self.cpu_seconds() - self.cpu, 2),
            "peak_mib": round(peak_mib("self")),
            "peak_mib_of_others": round(sum(peaks)),
        }


def peak_mib(pid: Any) -> float:
    """Return the largest resident memory that a process has had, in MiB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line), 0) / 1024


@contextmanager
def record_times(
    owner: Any, name: str, into: list[float], clock: Callable[[], float] = time.perf_counter
) -> Iterator[None]:
    """Append the seconds of each call of a method to a list."""
    inner: Callable[..., Any] = getattr(owner, name)

    def outer(*arguments: Any, **named: Any) -> Any:
        started = clock()
        try:
            return inner(*arguments, **named)
        finally:
            into.append(round(clock() - started, 3))

    setattr(owner, name, outer)
    try:
        yield
    finally:
        setattr(owner, name, inner)


def table_of(engine: str, folder: Path) -> Any:
    """Return the table that ``fit`` takes, of a folder of Parquet files."""
    from tabsynth.tables import ParquetCounter

    if engine == "parquet":
        return ParquetCounter(folder)
    if engine == "polars":
        import polars

        return polars.scan_parquet(folder)
    if engine == "duckdb":
        import duckdb

        return duckdb.connect(str(database_of(folder)), read_only=True).table("t")
    if engine == "spark":
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master("local[2]").getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session.read.parquet(str(folder))
    import pyarrow.parquet as pq

    return pq.read_table(folder).to_pandas()


def database_of(folder: Path) -> Path:
    """Return a DuckDB file with the rows of a folder, which is made where it is not there."""
    import duckdb

    path = folder.with_suffix(".duckdb")
    if not path.exists():
        with duckdb.connect(str(path)) as connection:
            connection.execute(
                f"CREATE TABLE t AS SELECT * FROM read_parquet('{folder}/*.parquet')"
            )
    return path


def count(engine: str, rows: int, columns: int, data: Path) -> dict[str, Any]:
    """Measure all reading of a fit with the default settings, whose estimation ends after one step."""
    from tabsynth.synthesizers import MargNetConfig

    return _measure_fit(engine, rows, columns, data, MargNetConfig(steps=1), None)


def fit(engine: str, rows: int, columns: int, data: Path) -> dict[str, Any]:
    """Measure a fit with the default settings, and a sample in a Parquet file."""
    return _measure_fit(engine, rows, columns, data, None, min(rows, MOST_SAMPLED))


def _measure_fit(
    engine: str, rows: int, columns: int, data: Path, config: Any, sampled: int | None
) -> dict[str, Any]:
    import hashlib

    from tabsynth import MargNet
    from tabsynth.synthesizers.margnet.estimation import MargNetFit

    table, measured = table_of(engine, data / f"{rows}-{columns}"), Processes()
    started = time.perf_counter()
    estimation = list[float]()
    model = MargNet(made_codes.schema(columns), epsilon=1.0, random_state=0, config=config)
    with record_times(MargNetFit, "fit", estimation):
        model.fit(table)
    seconds = time.perf_counter() - started
    out: dict[str, Any] = {"fit_seconds": round(seconds, 2)}
    if sampled is not None:
        sampling = time.perf_counter()
        path = data / "synthetic.parquet"
        model.sample_to(path, sampled)
        out |= {"sampled": sampled, "sample_seconds": round(time.perf_counter() - sampling, 2)}
        path.unlink()
        path.with_name(path.name + ".certificate.json").unlink(missing_ok=True)
    out["estimation_seconds"] = round(sum(estimation), 2)
    out["reading_seconds"] = round(seconds - sum(estimation), 2)
    noisy = model.certificate()["mechanisms"]
    out["sets"] = [
        {k: v for k, v in m["details"].items() if k in ("columns", "pairs", "triples")}
        for m in noisy
    ]
    p = model.model_.generator.probabilities.cpu().numpy()
    out["model"] = hashlib.sha256(p.tobytes()).hexdigest()[:16]
    return {**out, "seconds": round(time.perf_counter() - started, 2), **measured.figures()}


def steps(engine: str, rows: int, columns: int, data: Path) -> dict[str, Any]:
    """Measure the time of a step of the estimation: the median of the second to the last of a few."""
    from tabsynth import MargNet
    from tabsynth.synthesizers import MargNetConfig
    from tabsynth.synthesizers.margnet.estimation import MargNetFit

    few, each = MargNetConfig(steps=8), list[float]()
    table, measured = table_of(engine, data / f"{rows}-{columns}"), Processes()
    model = MargNet(made_codes.schema(columns), epsilon=1.0, random_state=0, config=few)
    with record_times(MargNetFit, "step", each, time.process_time):
        model.fit(table)
    return {
        "cpu_seconds_a_step": round(sorted(each[1:])[3], 4),
        "seconds": round(sum(each), 2),
        **measured.figures(),
    }


def pairs(engine: str, rows: int, columns: int, data: Path) -> dict[str, Any]:
    """Measure counts of all pairs of columns, after the values of the columns were compared with the schema."""
    from itertools import combinations

    from tabsynth.privacy.noise.counts import by_value
    from tabsynth.synthesizers.estimator import as_counter
    from tabsynth.tables.counter import check_values

    schema, folder = made_codes.schema(columns), data / f"{rows}-{columns}"
    sets = list(combinations(range(columns), 2))
    if engine == "numpy":
        return _with_numpy(folder, sets, schema.sizes)
    counter = as_counter(table_of(engine, folder))
    check_values(schema, counter)
    measured, started = Processes(), time.perf_counter()
    counter.count_all(schema, sets, [by_value(schema.sizes)] * len(sets))
    return {"seconds": round(time.perf_counter() - started, 2), **measured.figures()}


def _with_numpy(folder: Path, sets: list[tuple[int, int]], sizes: Any) -> dict[str, Any]:
    """Measure ``bincount`` of integer codes in memory, in chunks: no file is read, and no value compared."""
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(folder)
    codes = [table.column(j).to_numpy().astype(np.int16) for j in range(len(sizes))]
    measured, started, chunk = Processes(), time.perf_counter(), 2**16
    counts = {(a, b): np.zeros(sizes[a] * sizes[b], dtype=np.int64) for a, b in sets}
    for start in range(0, len(codes[0]), chunk):
        part = [c[start : start + chunk] for c in codes]
        for a, b in sets:
            cells = part[a] * np.int16(sizes[b]) + part[b]
            counts[a, b] += np.bincount(cells, minlength=len(counts[a, b]))
    return {"seconds": round(time.perf_counter() - started, 2), **measured.figures()}


def sample(engine: str, rows: int, columns: int, data: Path) -> dict[str, Any]:
    """Measure the loading of a saved model, and its sample in a Parquet file."""
    from tabsynth import load

    model_file, path = data / f"model-{columns}.tabsynth", data / "sampled.parquet"
    measured, started = Processes(), time.perf_counter()
    load(model_file).sample_to(path, rows)
    out = {"seconds": round(time.perf_counter() - started, 2), **measured.figures()}
    out["bytes"] = path.stat().st_size
    path.unlink()
    return out


def evaluate(engine: str, rows: int, columns: int, data: Path) -> dict[str, Any]:
    """Measure ``tabsynth evaluate`` of a folder and a synthetic file of 10⁶ rows, on its default sample of 100,000 rows of each."""
    from typer.testing import CliRunner

    from tabsynth.cli import app

    schema, synthetic = data / f"schema-{columns}.json", data / f"synthetic-{columns}.parquet"
    out = tempfile.mkdtemp(dir=data)
    words = ["evaluate", "--real", data / f"{rows}-{columns}", "--synthetic", synthetic]
    words += ["--schema", schema, "--sample-rows", 100_000, "-o", out]
    measured, started = Processes(), time.perf_counter()
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exit_code:
        raise SystemExit(done.output)
    figures = {"seconds": round(time.perf_counter() - started, 2), **measured.figures()}
    sampled = json.loads((Path(out) / "metrics.json").read_text())["evaluation"]["sampled"]
    return {**figures, "sampled": sampled}


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "count": count,
    "fit": fit,
    "pairs": pairs,
    "steps": steps,
    "sample": sample,
    "evaluate": evaluate,
}


def prepare(run: tuple[str, str, int, int], data: Path) -> None:
    """Write the files that a row reads, in a process of its own, whose memory is not that of the row."""
    from tabsynth import MargNet
    from tabsynth.tables import ParquetCounter

    kind, engine, rows, columns = run
    read = 10**5 if kind == "sample" else rows
    folder = made_codes.write(data / f"{read}-{columns}", read, columns)
    if engine == "duckdb":
        database_of(folder)
    model = data / f"model-{columns}.tabsynth"
    if kind in ("sample", "evaluate") and not model.exists():
        source = made_codes.write(data / f"{10**5}-{columns}", 10**5, columns)
        schema = made_codes.schema(columns)
        MargNet(schema, epsilon=1.0, random_state=0).fit(ParquetCounter(source)).save(model)
    synthetic = data / f"synthetic-{columns}.parquet"
    if kind == "evaluate" and not synthetic.exists():
        from tabsynth import load

        made_codes.schema(columns).save(data / f"schema-{columns}.json")
        load(model).sample_to(synthetic, 10**6)


def measure(run: tuple[str, str, int, int]) -> dict[str, Any] | None:
    """Return one row, measured in this process; what it reads is made in another one before."""
    if "TABSYNTH_SCALE_DATA" not in os.environ:
        raise SystemExit("Set TABSYNTH_SCALE_DATA to a folder for the tables.")
    data = Path(os.environ["TABSYNTH_SCALE_DATA"])
    process = get_context("fork").Process(target=prepare, args=(run, data))
    process.start()
    process.join()
    load, started = os.getloadavg()[0], time.perf_counter()
    kind, *about = run
    figures = MEASURES[kind](*about, data)
    return {
        **figures,
        "process_seconds": round(time.perf_counter() - started, 2),
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "machine": page.machine(),
    }


STUDY = Study(
    script=Path(__file__).resolve(),
    settings={key_of(run): run for run in RUNS},
    measure=measure,
    page=page.page,
    draw=page.plots,
    apart=True,
)

if __name__ == "__main__":
    STUDY.main()
