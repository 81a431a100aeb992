"""Tables that Spark counts, in local mode with two workers: the counts and the fit of the rows in memory.

``make test-spark`` installs pyspark and runs these tests; they need a Java runtime.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from engine_tables import (
    ENGINE_SCHEMA,
    ROWS,
    SETS,
    Breaking,
    arrow_table,
    counts_of,
    some_rows,
)
from hypothesis import given, settings
from omop_database import database, vocabulary
from record_replay import replay

from tabsynth import InputError, MargNet, Schema
from tabsynth.omop.database import read_omop
from tabsynth.privacy import ProjectLedger
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables import ParquetCounter
from tabsynth.tables.batch_counter import CHANGED
from tabsynth.tables.engines import SparkCounter
from tabsynth.tables.frames import table_from_arrow

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-spark")
if shutil.which("java") is None:
    pytest.skip(
        "there is no Java runtime: make test-spark says how to get one", allow_module_level=True
    )
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of pyspark about pandas 3
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
torch.set_num_threads(1)
FEW = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=20)
SMALL = Schema(ENGINE_SCHEMA.columns[:3])
EDGES = [
    ("a", 2**53 + 1, True, "low", -5, float("nan"), 0.1 * 3, None, None, "2020-01-01", -8, "a1"),
    ("A", -1, None, None, 100, -0.0, float("nan"), None, None, "2020-12-31", 0, None),
    ("a ", None, False, "high", None, 0.3, 2.0, None, None, "2020-02-29", 100, "b1"),
    ("", None, False, "high", None, 1e300, 2.0, None, None, "2020-02-29", 7, "a2"),
]  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable  # of workers
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "Europe/Berlin",
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    yield session
    session.stop()


def in_spark(session: Any, table: pa.Table, folder: Path) -> Any:
    """The rows in three files of Parquet, one of them empty."""
    folder.mkdir()
    for part, rows in enumerate((table[:0], table[: len(table) // 2], table[len(table) // 2 :])):
        # Moments as instants in UTC: Spark has them so.
        pq.write_table(rows, folder / f"{part}.parquet")
    return session.read.parquet(str(folder))


def test_codes_are_those_of_the_rows_in_memory(session: Any, tmp_path: Path) -> None:
    """Nulls, not-a-number, clipped values, ``other``, dates, moments, reasons for missing, repeated rows."""
    table = pa.concat_tables([some_rows(200), arrow_table(EDGES), arrow_table(EDGES)])
    counter = SparkCounter(in_spark(session, table, tmp_path / "t"))
    counter.check(ENGINE_SCHEMA)
    result = counter.count_all(ENGINE_SCHEMA, SETS)
    for columns, one, other in zip(SETS, counts_of(table), result, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=str(columns))


@pytest.mark.hypothesis
@settings(max_examples=3, deadline=None)
@given(rows=ROWS)
def test_any_rows_have_the_same_counts(session: Any, rows: list[Any]) -> None:
    table = arrow_table(rows)
    with tempfile.TemporaryDirectory() as folder:
        counter = SparkCounter(in_spark(session, table, Path(folder) / "t"))
        result = counter.count_all(ENGINE_SCHEMA, SETS)
    for columns, one, other in zip(SETS, counts_of(table), result, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=str(columns))


def test_workers_without_tabsynth_are_named(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys, runpy; sys.modules['tabsynth'] = None; sys.argv = sys.argv[2:];"
        " runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    poor = tmp_path / "python"
    poor.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    poor.chmod(0o755)
    monkeypatch.setattr(session.sparkContext, "pythonExec", str(poor))
    counter = SparkCounter(in_spark(session, some_rows(20), tmp_path / "t"))
    with pytest.raises(InputError, match="install tabsynth for the Python of Spark's workers"):
        counter.count_all(SMALL, [(0,)])


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("rows", [0, 150])
def test_the_same_seed_gives_the_same_fit(session: Any, tmp_path: Path, rows: int) -> None:
    """In memory, from Parquet and from Spark; of a table without rows too."""
    table = some_rows(max(rows, 1))[:rows]
    spark = in_spark(session, table, tmp_path / "t")
    frame = table_from_arrow(table)
    frame = frame.assign(**{c.name: c.convert(frame[c.name]) for c in ENGINE_SCHEMA.columns})
    one, *others = (
        MargNet(ENGINE_SCHEMA, epsilon=2.0, random_state=3, config=FEW).fit(source)
        for source in (frame, ParquetCounter(tmp_path / "t"), spark)
    )
    for other in others:
        pd.testing.assert_frame_equal(other.sample(50), one.sample(50))
        assert other.certificate()["mechanisms"] == one.certificate()["mechanisms"]


def test_a_replay_over_spark(session: Any, tmp_path: Path) -> None:
    """No release's input moves by more than its sensitivity, and nothing else differs, where one row is added."""
    rows = some_rows(40)
    one, other = (in_spark(session, rows[:n], tmp_path / str(n)) for n in (39, 40))
    result = replay(MargNet(SMALL, epsilon=60.0, device="cpu", config=FEW), one, other)
    assert result.passes, result.first_difference
    assert 0.9 < result.worst_move <= 1 + 1e-9


def test_what_fails_is_one_line(session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    counter = SparkCounter(in_spark(session, some_rows(60), folder))
    counter.count_all(SMALL, [(0,)])
    (folder / "2.parquet").unlink()
    with pytest.raises(InputError) as error:
        counter.count_all(SMALL, [(0, 1)])
    assert "Spark could not count the table" in str(error.value) or str(error.value) == CHANGED
    assert "\n" not in str(error.value)


def killed(session: Any, frame: Any, mark: Path) -> Any:
    """The rows, by way of a Python worker, which dies while the file ``mark`` exists."""
    path = str(mark)

    def die(parts: Any) -> Any:
        for part in parts:
            if os.path.exists(path):
                os.kill(os.getpid(), signal.SIGKILL)
            yield part

    return frame.mapInPandas(die, frame.schema)


def slow(session: Any, frame: Any, mark: Path) -> Any:
    """The rows, by way of a worker that takes a minute while the file ``mark`` exists."""
    path = str(mark)

    def wait(parts: Any) -> Any:
        for part in parts:
            if os.path.exists(path):
                time.sleep(60)
            yield part

    return frame.mapInPandas(wait, frame.schema)


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("name", ["a killed worker", "a cancelled job", "a file"])
def test_a_fault_of_spark_is_charged_once(name: str, session: Any, tmp_path: Path) -> None:
    """One line. The release that failed stays charged; the resumed fit pays for another within the same budget."""
    names = [f"`{c.name}`" for c in SMALL.columns]
    frame = in_spark(session, some_rows(100), tmp_path / "t").select(names)
    mark, one = tmp_path / "mark", tmp_path / "t" / "2.parquet"
    context = session.sparkContext

    def cancel() -> None:
        mark.touch()
        context.setJobGroup("fit", "a fit", interruptOnCancel=True)
        threading.Timer(3, lambda: context.cancelJobGroup("fit")).start()

    table, fault, repair = {
        "a killed worker": (killed(session, frame, mark), mark.touch, mark.unlink),
        "a cancelled job": (slow(session, frame, mark), cancel, mark.unlink),
        "a file": (frame, lambda: one.rename(mark), lambda: mark.rename(one)),
    }[name]
    path = tmp_path / "project.ledger"
    ProjectLedger.create(path, epsilon=1.0, delta=1e-5)

    def fitted(table: Any) -> MargNet:
        model = MargNet(SMALL, epsilon=0.9, config=FEW)
        return model.fit(table, ledger=path, checkpoint=tmp_path / "kept")

    started = time.monotonic()
    with pytest.raises(InputError, match="Spark could not count the table") as error:
        fitted(Breaking(table, fault))
    assert "\n" not in str(error.value) and len(str(error.value)) < 500
    assert time.monotonic() - started < 40  # a cancelled job does not end by itself
    lost = ProjectLedger.read(path).share
    assert 0 < lost < 1
    repair()
    model = fitted(table)
    assert len(model.sample(5)) == 5
    charged = [account.purpose for account in model.ledger_.accounts]
    assert charged == ["one-way counts", "one-way counts", "sign interactions", "joint counts"]
    assert lost < ProjectLedger.read(path).share < 1


@pytest.mark.slow(cases=7)
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("'old'", "'old' is not a whole number"),
        ("DATE '2020-02-03'", "is not a whole number"),
        ("X'00'", "is not a whole number"),
        ("map('a', 1)", "."),
        ("array(1)", "holds List"),
        ("CAST(NULL AS VOID)", "."),
        ("INTERVAL '3' DAY", "."),
    ],
)
def test_a_type_that_does_not_fit_is_one_line(session: Any, sql: str, message: str) -> None:
    schema = Schema([Column(name="v", kind="numeric", dtype="int64", low=0, high=99)])
    with pytest.raises(InputError, match=message) as error:
        MargNet(schema, epsilon=1.0, config=FEW).fit(session.sql(f"SELECT {sql} AS v"))
    assert "\n" not in str(error.value) and "v" in str(error.value)


def test_an_omop_database(session: Any, tmp_path: Path) -> None:
    """Tables of Spark by name, and the folder that Spark writes, are the database that pandas has; identifiers are not collected."""
    from pyspark.sql import functions

    tables = database(25, seed=4) | vocabulary()
    tables["death"]["death_date"] = pd.to_datetime(tables["death"]["death_date"]).dt.date
    frames = {}
    for name, table in tables.items():
        parts = pa.Table.from_pandas(table, preserve_index=False)
        frames[name] = in_spark(session, parts, tmp_path / f"in {name}")
        frames[name].write.parquet(str(tmp_path / "cdm" / name))
    refused = functions.expr("raise_error('an identifier was collected')").cast("string")
    frames["person"] = frames["person"].withColumn("person_source_value", refused)
    expected = read_omop(tables)
    for source in (frames, tmp_path / "cdm"):
        read = read_omop(source)
        assert read.vocabulary is not None
        for name, table in expected.tables.items():
            pd.testing.assert_frame_equal(read.tables[name], table)
    broken = frames | {"death": frames["death"].withColumn("death_date", refused)}
    with pytest.raises(InputError, match=r"Cannot read table death: .*an identifier was collected"):
        read_omop(broken)
