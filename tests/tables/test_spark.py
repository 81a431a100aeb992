"""Tables that Spark counts, in local mode with two workers: the counts and the fit of the rows in memory.

``make test-spark`` installs pyspark and runs these tests; they need a Java runtime.
"""

import shutil
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
from command_lines import run
from engine_tables import ENGINE_SCHEMA, SETS, arrow_table, counts_of, some_rows

from tabsynth import InputError, MargNet, ParquetCounter, Schema
from tabsynth.auditing.replay import replay
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables.engines import CHANGED, EngineCounter, spark_table

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
    counter = EngineCounter(in_spark(session, table, tmp_path / "t"))
    counter.check(ENGINE_SCHEMA)
    result = counter.count_all(ENGINE_SCHEMA, SETS)
    for columns, one, other in zip(SETS, counts_of(table), result, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=str(columns))


def test_the_same_seed_gives_the_same_fit(session: Any, tmp_path: Path) -> None:
    frame = in_spark(session, some_rows(300), tmp_path / "t")
    schema = Schema(ENGINE_SCHEMA.columns[:8])
    one, other = (
        MargNet(schema, epsilon=2.0, random_state=3, config=FEW).fit(source)
        for source in (ParquetCounter(tmp_path / "t"), frame)
    )
    pd.testing.assert_frame_equal(other.sample(50), one.sample(50))
    assert other.certificate()["mechanisms"] == one.certificate()["mechanisms"]


def test_a_replay_over_spark(session: Any, tmp_path: Path) -> None:
    """No release's input moves by more than its sensitivity, and nothing else differs, where one row is added."""
    rows = some_rows(40)
    one, other = (in_spark(session, rows[:n], tmp_path / str(n)) for n in (39, 40))
    result = replay(MargNet(SMALL, epsilon=60.0, device="cpu", config=FEW), one, other, sampled=5)
    assert result.passed, result.first_difference
    assert 0.9 < result.worst_move <= 1 + 1e-9


def test_what_fails_is_one_line(session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    counter = EngineCounter(in_spark(session, some_rows(60), folder))
    counter.count_all(SMALL, [(0,)])
    (folder / "2.parquet").unlink()
    with pytest.raises(InputError) as error:
        counter.count_all(SMALL, [(0, 1)])
    assert "Spark could not count the table" in str(error.value) or str(error.value) == CHANGED
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="Spark has no table 'none'") as error:
        spark_table("local[2]", "none")
    assert "\n" not in str(error.value)


def test_spark_on_the_command_line(session: Any, tmp_path: Path) -> None:
    in_spark(session, some_rows(200), tmp_path / "t").createOrReplaceTempView("people")
    SMALL.save(tmp_path / "s.json")
    words = ["--schema", "s.json", "--epsilon", 1, "-o", "m.tabsynth", "--time-limit", "3s"]
    run("fit", "--spark", "local[2]", "--table", "people", *words, cwd=tmp_path)
    run("sample", "m.tabsynth", "-n", 20, "-o", "out.csv", cwd=tmp_path)
    assert len(pd.read_csv(tmp_path / "out.csv")) == 20
    done = run("fit", "--spark", "local[2]", "--table", "none", *words, cwd=tmp_path, code=2)
    assert "Spark has no table 'none'" in done.stderr
