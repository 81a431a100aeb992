"""What fails while DuckDB or Polars count: one line, nothing is spent twice, and the fit resumes from its checkpoint."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from engine_tables import BAD_NAME, ENGINE_SCHEMA, Breaking, some_rows

from tabsynth import InputError, MargNet, Schema
from tabsynth.privacy import ProjectLedger
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables import ParquetCounter
from tabsynth.tables.batch_counter import CHANGED
from tabsynth.tables.databases import open_duckdb
from tabsynth.tables.engines import EngineCounter
from tabsynth.tables.frames import table_from_arrow

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")
torch.set_num_threads(1)
FEW = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=20)
SMALL = Schema([ENGINE_SCHEMA[name] for name in (BAD_NAME, "age", "visit")])
Fault = tuple[Any, Callable[[], Any], Callable[[], Any]]  # a table, what breaks it, the repair


def interrupted(folder: Path) -> Fault:
    """A query of DuckDB that another thread cancels while it runs."""
    connection, asked = duckdb.connect(config={"threads": 2}), threading.Event()

    def slow(values: Any) -> Any:
        if asked.is_set():
            threading.Thread(target=connection.interrupt).start()
            time.sleep(0.1)
        return values

    connection.create_function("slow", slow, ["SMALLINT"], "SMALLINT", type="arrow")
    connection.register("rows", some_rows(300))
    return (
        connection.sql("SELECT * REPLACE (slow(age) AS age) FROM rows"),
        asked.set,
        asked.clear,
    )


def without_a_file(folder: Path, read: Callable[[str], Any]) -> Fault:
    for part in range(3):
        pq.write_table(some_rows(100, seed=part), folder / f"{part}.parquet")
    one = folder / "1.parquet"
    return read(f"{folder}/*.parquet"), one.unlink, lambda: pq.write_table(some_rows(100, 1), one)


def with_table() -> Any:
    """A connection to a database with a table x."""
    connection = duckdb.connect()
    connection.register("rows", some_rows(300))
    connection.execute("CREATE TABLE x AS SELECT * FROM rows")
    return connection


def changed(folder: Path) -> Fault:
    connection = with_table()
    return (
        connection.table("x"),
        lambda: connection.execute("INSERT INTO x SELECT * FROM rows LIMIT 1"),
        lambda: connection.execute("CREATE OR REPLACE TABLE x AS SELECT * FROM rows"),
    )


def dropped(folder: Path) -> Fault:
    connection = with_table()
    return (
        connection.table("x"),
        lambda: connection.execute("DROP TABLE x"),
        lambda: connection.execute("CREATE TABLE x AS SELECT * FROM rows"),
    )


FAULTS: dict[str, tuple[Callable[[Path], Fault], str]] = {
    "a cancelled query": (interrupted, "DuckDB could not count the table: .*Interrupted!"),
    "a file, DuckDB": (
        lambda folder: without_a_file(folder, lambda p: duckdb.connect().read_parquet(p)),
        f"DuckDB could not count the table|{CHANGED}",
    ),
    "a file, Polars": (
        lambda folder: without_a_file(folder, polars.scan_parquet),
        f"Polars could not count the table|{CHANGED}",
    ),
    "a file, Parquet folder": (
        lambda folder: without_a_file(folder, lambda p: ParquetCounter(folder)),
        r"Cannot read .*1\.parquet",
    ),
    "a row more": (changed, CHANGED),
    "the table": (dropped, "DuckDB could not count the table"),
}


def fitted(table: Any, folder: Path) -> MargNet:
    model = MargNet(SMALL, epsilon=0.9, config=FEW)
    return model.fit(table, ledger=folder / "project.ledger", checkpoint=folder / "kept")


@pytest.fixture(scope="module")
def cost(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The share of the project's budget that a fit without a fault takes."""
    folder = tmp_path_factory.mktemp("whole")
    ProjectLedger.create(folder / "project.ledger", epsilon=1.0, delta=1e-5)
    fitted(polars.from_arrow(some_rows(300)).lazy(), folder)
    return ProjectLedger.read(folder / "project.ledger").share


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_an_engine_is_charged_once(name: str, cost: float, tmp_path: Path) -> None:
    """One line. The release that failed stays charged; the resumed fit pays for another within the same budget."""
    make, message = FAULTS[name]
    (tmp_path / "parts").mkdir()
    table, fault, repair = make(tmp_path / "parts")
    path = tmp_path / "project.ledger"
    ProjectLedger.create(path, epsilon=1.0, delta=1e-5)
    with pytest.raises(InputError, match=message) as error:
        fitted(Breaking(table, fault), tmp_path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500
    lost = ProjectLedger.read(path).share
    assert 0 < lost < cost
    repair()
    model = fitted(table, tmp_path)
    assert len(model.sample(5)) == 5
    charged = [account.purpose for account in model.ledger_.accounts]
    assert charged == ["one-way counts", "one-way counts", "sign interactions", "joint counts"]
    assert lost < ProjectLedger.read(path).share < cost * (1 + 1e-6)
    kept = fitted(table, tmp_path)  # the checkpoint of a finished fit has its model
    assert kept.certificate()["mechanisms"] == model.certificate()["mechanisms"]
    assert ProjectLedger.read(path).share < cost * (1 + 1e-6)


WRONG = {
    "text": ("'old'", "'old' is not a whole number"),
    "a date": ("DATE '2020-02-03'", "is not a whole number"),
    "bytes": ("'a'::BLOB", "is not a whole number"),
    "an interval": ("INTERVAL 3 DAY", "is not a whole number"),
    "half a number": ("1.5", "is not a whole number"),
    "a list": ("[1]", "holds List"),
    "a structure": ("{'a': 1}", "holds Struct"),
    "a map": ("MAP {'a': 1}", "holds map"),
    "a union": ("1::UNION(n INTEGER, s VARCHAR)", "holds sparse_union"),
    "JSON": ("'{}'::JSON", "is not a whole number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_type_that_does_not_fit_is_one_line(name: str, tmp_path: Path) -> None:
    """With the column's name, before anything is charged."""
    sql, message = WRONG[name]
    schema = Schema([Column(name='v"; --', kind="numeric", dtype="int64", low=0, high=99)])
    path = tmp_path / "project.ledger"
    ProjectLedger.create(path, epsilon=1.0, delta=1e-5)
    table = duckdb.sql(f'SELECT {sql} AS "v""; --" FROM range(3)')
    with pytest.raises(InputError, match=message) as error:
        MargNet(schema, epsilon=1.0, config=FEW).fit(table, ledger=path)
    assert str(error.value).startswith("Column 'v\"; --'") and "\n" not in str(error.value)
    assert ProjectLedger.read(path).share == 0


def test_texts_of_json_are_texts() -> None:
    """DuckDB compares values of its type JSON as JSON, and 'b' is none."""
    schema = Schema([Column(name="v", kind="categorical", dtype="str", categories=("b", "{}"))])
    relation = duckdb.sql("SELECT '{}'::JSON AS v FROM range(3)")
    assert EngineCounter(relation).count_all(schema, [(0,)])[0].tolist() == [0, 3]


def test_what_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    """A connection that was closed, files that are not there, a database that another process has open."""
    connection = duckdb.connect()
    connection.register("rows", some_rows(20))
    relation = connection.sql("SELECT * FROM rows")
    connection.close()
    for table in (relation, polars.scan_parquet(tmp_path / "none.parquet")):
        model = MargNet(SMALL, epsilon=1.0, config=FEW)
        with pytest.raises(InputError, match="could not count the table") as error:
            model.fit(table, checkpoint=tmp_path / "kept")
        assert "\n" not in str(error.value) and not (tmp_path / "kept").exists()
    path = tmp_path / "people.db"
    code = f"import duckdb; c = duckdb.connect({str(path)!r}); print('open', flush=True); input()"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as other:
        assert other.stdout is not None and other.stdout.readline() == b"open\n"
        with pytest.raises(InputError, match=r"Cannot read .*people\.db: .*lock") as error:
            open_duckdb(path)
        other.communicate(b"\n")
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_table_without_rows_is_fitted_as_a_data_frame_is(tmp_path: Path) -> None:
    """R25: to the bit with a seed; a refusal would tell the empty table from one of a single row."""
    empty = some_rows(1)[:0]
    pq.write_table(empty, tmp_path / "t.parquet")
    connection = duckdb.connect(str(tmp_path / "people.db"))
    connection.read_parquet(str(tmp_path / "t.parquet")).create("people")
    frame = table_from_arrow(empty.select(list(SMALL.names)))
    sources = {
        "memory": frame.assign(**{c.name: c.convert(frame[c.name]) for c in SMALL.columns}),
        "Parquet": ParquetCounter(tmp_path / "t.parquet"),
        "DuckDB": connection.table("people"),
        "Polars": polars.scan_parquet(tmp_path / "t.parquet"),
    }
    samples = [
        MargNet(SMALL, epsilon=2.0, random_state=3, config=FEW).fit(source).sample(20)
        for source in sources.values()
    ]
    for other in samples[1:]:
        pd.testing.assert_frame_equal(other, samples[0])
    connection.close()
