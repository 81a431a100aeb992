"""Tables that DuckDB and Polars count: the counts and the fit of the rows in memory, and one line where they fail."""

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from engine_tables import (
    BAD_NAME,
    ENGINE_SCHEMA,
    ROWS,
    SETS,
    arrow_table,
    counts_of,
    some_rows,
)
from hypothesis import example, given, settings

from tabsynth import BudgetError, InputError, MargNet, Schema
from tabsynth.privacy import ProjectLedger
from tabsynth.schema import Column
from tabsynth.synthesizers.estimator import as_counter
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables import ParquetCounter, engines
from tabsynth.tables.batch_counter import CHANGED
from tabsynth.tables.engines import EngineCounter, SparkCounter
from tabsynth.tables.frames import table_from_arrow, to_pandas

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")
torch.set_num_threads(1)
FEW = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=20)
SMALL = Schema([ENGINE_SCHEMA[name] for name in (BAD_NAME, "age", "visit")])


def relation_of(table: pa.Table) -> Any:
    """A table that the relation is of, with a name that would end a careless query."""
    connection = duckdb.connect(config={"threads": 2})
    connection.register("rows", table)
    connection.execute("CREATE TABLE x AS SELECT * FROM rows")
    return connection.sql("SELECT * FROM x")


def in_duckdb(table: pa.Table) -> EngineCounter:
    return EngineCounter(relation_of(table))


def in_polars(table: pa.Table) -> EngineCounter:
    return EngineCounter(polars.from_arrow(table).lazy())


def in_parts(table: pa.Table) -> EngineCounter:
    """Partitions, the first and the last of which are empty."""
    parts = [table[:0], table[: len(table) // 3], table[len(table) // 3 :], table[:0]]
    return EngineCounter(polars.concat([polars.from_arrow(part).lazy() for part in parts]))


def in_parquet(table: pa.Table, folder: Path) -> ParquetCounter:
    """Files, of which the first has no rows."""
    for part, rows in enumerate((table[:0], table[: len(table) // 3], table[len(table) // 3 :])):
        pq.write_table(rows, folder / f"{part}.parquet")
    return ParquetCounter(folder)


ENGINES: dict[str, Callable[[pa.Table], EngineCounter]] = {
    "DuckDB": in_duckdb,
    "Polars": in_polars,
    "Polars, partitions": in_parts,
}


@pytest.fixture(params=ENGINES)
def make(request: pytest.FixtureRequest) -> Callable[[pa.Table], EngineCounter]:
    return ENGINES[request.param]


@pytest.mark.slow
@pytest.mark.hypothesis
@settings(max_examples=12, deadline=None)
@given(rows=ROWS)
@example(rows=[])
@example(rows=[("a", None, None, None, None, None, None, None, None, "2020-01-01", -8, None)] * 3)
def test_codes_are_those_of_the_rows_in_memory(rows: list[Any]) -> None:
    """Nulls, not-a-number, bounds, ``other``, dates, moments, reasons for missing, hierarchies, repeated rows."""
    table = arrow_table(rows)
    wanted = counts_of(table)
    with tempfile.TemporaryDirectory() as folder:
        counters = [make(table) for make in ENGINES.values()]
        for counter in (*counters, in_parquet(table, Path(folder))):
            counter.check(ENGINE_SCHEMA)
            answers = counter.count_all(ENGINE_SCHEMA, SETS)
            for columns, one, other in zip(SETS, wanted, answers, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=str(columns))


def test_groups_of_values_are_counted_in_the_engine(
    make: Callable[[pa.Table], EngineCounter],
) -> None:
    """Several groupings of one column give the sums of the single values."""
    table, rng = some_rows(200), np.random.default_rng(0)
    sizes = ENGINE_SCHEMA.sizes
    groups = [
        [np.unique(rng.integers(0, 3, size), return_inverse=True)[1] for size in sizes]
        for _ in SETS
    ]
    for columns, by, exact, result in zip(
        SETS,
        groups,
        counts_of(table),
        make(table).count_all(ENGINE_SCHEMA, SETS, groups),
        strict=True,
    ):
        wanted = np.zeros([by[j].max() + 1 for j in columns])
        for cell in np.ndindex(exact.shape):
            place = tuple(by[j][code] for j, code in zip(columns, cell, strict=True))
            wanted[place] += exact[cell]
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_fit(tmp_path: Path) -> None:
    """To the bit, in memory, from Parquet and from engines; fit takes the engines' own tables."""
    table = some_rows(400)
    pq.write_table(table, tmp_path / "t.parquet")
    frame = table_from_arrow(table)
    frame = frame.assign(**{c.name: c.convert(frame[c.name]) for c in ENGINE_SCHEMA.columns})
    sources = {
        "memory": frame,
        "Parquet": ParquetCounter(tmp_path / "t.parquet"),
        "DuckDB": duckdb.connect().read_parquet(str(tmp_path / "t.parquet")),
        "Polars": polars.scan_parquet(tmp_path / "t.parquet"),
    }
    fits = {
        name: MargNet(ENGINE_SCHEMA, epsilon=2.0, random_state=3, config=FEW).fit(source)
        for name, source in sources.items()
    }
    first = fits.pop("memory")
    for name, other in fits.items():
        pd.testing.assert_frame_equal(other.sample(50), first.sample(50), obj=name)
        assert other.certificate()["mechanisms"] == first.certificate()["mechanisms"], name


@pytest.mark.slow
@pytest.mark.hypothesis
@settings(max_examples=4, deadline=None)
@given(rows=ROWS)
def test_any_rows_give_the_same_fit(rows: list[Any]) -> None:
    """To the bit with a seed, whatever the rows are: none, repeated, null, clipped, ``other``, dates, hierarchies."""
    table, few = arrow_table(rows), MargNetConfig(components=5, latent_dim=2, hidden=(4,), steps=2)
    schema = Schema([ENGINE_SCHEMA[name] for name in (BAD_NAME, "age", "visit", "job")])
    frame = table_from_arrow(table.select(list(schema.names)))
    frame = frame.assign(**{c.name: c.convert(frame[c.name]) for c in schema.columns})
    with tempfile.TemporaryDirectory() as folder:
        sources = [frame, *(make(table) for make in ENGINES.values())]
        first, *others = (
            MargNet(schema, epsilon=50.0, random_state=1, config=few).fit(source).sample(30)
            for source in [*sources, in_parquet(table, Path(folder))]
        )
    for other in others:
        pd.testing.assert_frame_equal(other, first)


def test_values_in_other_types_than_the_schema_has() -> None:
    """Decimals, moments with a zone, times, whole numbers in texts and floats."""
    relation = duckdb.sql(
        "SELECT (i % 3 + 0.5)::DECIMAL(10, 2) AS amount, (i % 3)::DECIMAL(30, 10) AS long, (i % 4)::DOUBLE AS whole, (i % 2)::VARCHAR AS text,"
        " TIMESTAMPTZ '2020-01-01 23:30:00+02' + INTERVAL (i % 5) HOUR AS moment, TIME '08:30:59.5' AS time,"
        " (i % 2)::HUGEINT AS huge, (CASE i % 2 WHEN 0 THEN 'low' ELSE 'high' END)::ENUM('low', 'high') AS level,"
        " DATE '2020-01-01'::TIMESTAMP AS day"
        " FROM range(60) t(i)"
    )
    schema = Schema(
        [
            Column(name="amount", kind="numeric", dtype="float64", low=0, high=4, bins=8),
            Column(name="long", kind="numeric", dtype="float64", low=0, high=4, resolution=0.5),
            Column(name="whole", kind="numeric", dtype="int64", low=0, high=3),
            Column(name="text", kind="categorical", dtype="int64", categories=(1, 0)),
            Column(
                name="moment",
                kind="datetime",
                dtype="datetime64[us, UTC]",
                low="2020-01-01",
                high="2020-01-02 23:59",
                bins=2,
            ),
            Column(name="time", kind="time", dtype="str", low="08:00", high="08:59"),
            Column(name="huge", kind="numeric", dtype="int64", low=0, high=1),
            Column(name="level", kind="ordinal", dtype="category", categories=("low", "high")),
            Column(name="day", kind="date", dtype="str", low="2020-01-01", high="2020-01-03"),
        ]
    )
    counter = EngineCounter(relation)
    counter.check(schema)
    amount, long, whole, text, moment, time, huge, level, day = counter.count_all(
        schema, [(j,) for j in range(9)]
    )
    assert amount.tolist() == [0, 20, 0, 20, 0, 20, 0, 0]
    assert long.tolist() == [20, 0, 20, 0, 20, 0, 0, 0, 0]
    assert whole.tolist() == [15] * 4 and text.tolist() == huge.tolist() == [30, 30]
    assert moment.tolist() == [36, 24]  # 21:30 in UTC, and up to four hours later
    assert time.argmax() == schema["time"].encode(pd.Series(["08:30"]))[0] and time.sum() == 60
    assert level.tolist() == [30, 30] and day.tolist() == [60, 0, 0]


def test_reasons_for_missing_are_counted_apart(
    make: Callable[[pa.Table], EngineCounter],
) -> None:
    """Numbers beside amounts and codes, and texts beside texts; null is another code, and so is ``other``."""
    reasons = {"-8": "refused", "-9": "unknown"}
    schema = Schema(
        [
            Column(name="n", kind="numeric", dtype="Int64", low=0, high=10**6, bins=3, clip=True, nulls=True, missing=reasons),
            Column(name="x", kind="numeric", dtype="float64", low=0, high=1, nulls=True, missing=reasons),
            Column(name="c", kind="categorical", dtype="Int64", categories=(1, 2), other=2, nulls=True, missing=reasons),
            Column(name="t", kind="categorical", dtype="str", categories=("a",), nulls=True, missing={"N": "no", "-8": "x"}),
        ]
    )  # fmt: skip
    table = pa.table(
        {
            "n": [-8, -9, -10, None, 5, 10**7],
            "x": [-8.0, float("nan"), 0.5, None, -9.0, 1.0],
            "c": [-8, 1, 2, None, -9, 77],
            "t": ["N", "-8", "a", None, "a", "N"],
        }
    )
    counter = make(table)
    counter.check(schema)
    frame = to_pandas(table)
    for column, counts in zip(
        schema.columns, counter.count_all(schema, [(j,) for j in range(4)]), strict=True
    ):
        codes = column.encode(column.convert(frame[column.name]))
        assert counts.tolist() == np.bincount(codes, minlength=column.size).tolist(), column.name


def test_undeclared_values_cost_nothing(
    make: Callable[[pa.Table], EngineCounter], tmp_path: Path
) -> None:
    """R25: one refusal names all columns and a value of each, before the first charge."""
    schema = Schema(
        [
            Column(name="code", kind="categorical", dtype="Int64", nulls=True, categories=(-1, 5)),
            Column(name="age", kind="numeric", dtype="Int64", nulls=True, low=-3, high=80),
            Column(name="visit", kind="date", dtype="object", low="2019-01-01", high="2030-01-01"),
            Column(name="income", kind="numeric", dtype="Int64", low=0, high=100),
        ]
    )
    path = tmp_path / "project.ledger"
    ProjectLedger.create(path, epsilon=1.0, delta=1e-5)
    model = MargNet(schema, epsilon=1.0, config=FEW)
    with pytest.raises(InputError) as error:
        model.fit(make(some_rows(300)), ledger=path, checkpoint=tmp_path / "kept")
    text = str(error.value)
    for part in ("'code'", "900719925474099", "'age': ", "'visit' has a null", "'income': -8"):
        assert part in text, text
    assert "\n" not in text
    assert ProjectLedger.read(path).share == 0 and not (tmp_path / "kept").exists()


class Failing(EngineCounter):
    """An engine whose answer number ``last`` fails: a worker died, or a person cancelled the query."""

    def __init__(self, table: Any, last: int) -> None:
        super().__init__(table)
        self.left = last

    def batches(self, names: Any, *, ordered: bool = True) -> Any:
        def query() -> Any:
            self.left -= 1
            if self.left == 0:
                raise duckdb.InterruptException("Interrupted!\nat a\tsecond line")
            return None

        self._run(query)
        return super().batches(names, ordered=ordered)


@pytest.mark.slow
def test_a_failed_query_counts_as_spent_where_it_was_charged(tmp_path: Path) -> None:
    """The error is one line. The resumed fit plans with the rest of the budget, and spends no more than all of it."""
    relation = duckdb.connect().from_arrow(some_rows(300))
    shares = {}
    for last in (0, 1, 2, 4):
        path, kept = tmp_path / f"{last}.ledger", tmp_path / f"kept-{last}"
        ProjectLedger.create(path, epsilon=1.0, delta=1e-5)
        if last:
            with pytest.raises(InputError) as error:
                _fit(Failing(relation, last), path, kept)
            assert str(error.value) == (
                "DuckDB could not count the table: Interrupted! at a second line; correct it and fit again."
            )
        failed = ProjectLedger.read(path).share
        assert (failed > 0) == (
            last > 1
        )  # values are compared with the schema before the first charge
        if last < 4:
            assert len(_fit(relation, path, kept).sample(5)) == 5
        else:  # nearly the whole budget was charged for the counts that were lost
            with pytest.raises(BudgetError, match="lost the joint counts that were charged"):
                _fit(relation, path, kept)
            assert ProjectLedger.read(path).share == failed
        shares[last] = ProjectLedger.read(path).share
    assert shares[1] == pytest.approx(shares[0])
    assert shares[2] < shares[0] * (1 + 1e-6)
    assert shares[4] < shares[0] * (1 + 1e-6)


def _fit(table: Any, ledger: Path, checkpoint: Path) -> MargNet:
    model = MargNet(SMALL, epsilon=0.9, config=FEW)
    return model.fit(table, ledger=ledger, checkpoint=checkpoint)


def test_a_table_that_changes_is_refused() -> None:
    connection = duckdb.connect()
    connection.register("rows", some_rows(50))
    connection.execute("CREATE TABLE x AS SELECT * FROM rows")
    counter = EngineCounter(connection.table("x"))
    singles = [(0,), (1,), (2,)]
    counter.count_all(SMALL, singles)
    groups = [
        np.arange(SMALL.sizes[0]),
        np.zeros(8, dtype=int),
        np.zeros(SMALL.sizes[2], dtype=int),
    ]
    counter.count_all(SMALL, [(0, 1)], [groups])
    for change in ("INSERT INTO x SELECT * FROM rows LIMIT 1", "UPDATE x SET age = 7 - age"):
        with pytest.raises(InputError, match="changed while it was counted") as error:
            connection.execute(change)
            counter.count_all(SMALL, [(0, 1)])
        assert str(error.value) == CHANGED and not any(char.isdigit() for char in CHANGED)
        connection.execute("CREATE OR REPLACE TABLE x AS SELECT * FROM rows")
    assert counter.count_all(SMALL, [(1, 2)])[0].sum() == 50


def test_a_partition_that_disappears_is_refused(tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(some_rows(20, seed=part), tmp_path / f"{part}.parquet")
    for lazy in (
        polars.scan_parquet(tmp_path / "*.parquet"),
        duckdb.connect().sql(f"SELECT * FROM read_parquet('{tmp_path}/*.parquet')"),
    ):
        pq.write_table(some_rows(20, seed=2), tmp_path / "2.parquet")
        counter = EngineCounter(lazy)
        counter.count_all(SMALL, [(0,)])
        (tmp_path / "2.parquet").unlink()
        with pytest.raises(InputError) as error:
            counter.count_all(SMALL, [(0, 1)])
        assert "could not count the table" in str(error.value) or str(error.value) == CHANGED
        assert "\n" not in str(error.value)


def test_what_an_engine_cannot_encode_is_refused() -> None:
    """A nested column, and one that is missing."""
    relation = duckdb.sql("SELECT [i] AS list FROM range(99) t(i)")
    nested = Column(name="list", kind="categorical", dtype="str", categories=("a",))
    with pytest.raises(InputError, match="'list' holds List"):
        EngineCounter(relation).check(Schema([nested]))
    missing = Column(name="none", kind="categorical", dtype="str", categories=("a",))
    with pytest.raises(InputError, match="no column 'none'"):
        EngineCounter(relation).check(Schema([missing]))


class Workers:
    """A table of which each part is sent to a worker, as Spark does it; it groups and adds up what they return."""

    def __init__(self, *parts: pa.Table) -> None:
        self.parts = parts

    def mapInArrow(self, count: Any, names: str) -> Any:
        sent = pickle.loads(pickle.dumps(count))
        batches = [batch for part in self.parts for batch in sent(iter(part.to_batches()))]
        return _Answers(pa.Table.from_batches(batches))


class _Answers:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def groupBy(self, *names: str) -> "_Answers":
        self.keys = list(names)
        return self

    def sum(self, name: str) -> "_Answers":
        return _Answers(self.table.group_by(self.keys).aggregate([(name, "sum")]))

    def toArrow(self) -> pa.Table:
        return self.table


def by_workers(table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> SparkCounter:
    """A counter of Spark whose rows are those of a relation, sent to three workers; the first has none."""
    counter = SparkCounter(relation_of(table))
    half = len(table) // 2

    def parts(frame: Any) -> Workers:
        rows = table.select(frame.collect_schema().names())
        return Workers(rows[:0], rows[:half], rows[half:])

    monkeypatch.setattr(narwhals.LazyFrame, "to_native", parts)
    return counter


def test_workers_of_spark_count_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a query counts few cells, there are several; ``test_spark.py`` runs Spark itself."""
    table = some_rows(200)
    counter = by_workers(table, monkeypatch)
    for cells in (10**7, 50):
        monkeypatch.setattr(engines, "MOST_CELLS", cells)
        answers = counter.count_all(ENGINE_SCHEMA, SETS)
        for columns, one, other in zip(SETS, counts_of(table), answers, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(columns))


def test_workers_of_spark_refuse_undeclared_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """R25: one error names both columns, of which different workers see the values."""
    schema = Schema(
        [Column(name=name, kind="numeric", dtype="int64", low=0, high=9) for name in "ab"]
    )
    counter = by_workers(pa.table({"a": [1, 2, 99], "b": [-5, 3, 4]}), monkeypatch)
    with pytest.raises(InputError, match=r"'b': -5 is .* 'a': 99 is "):
        counter.count_all(schema, [(1,), (0,), (0, 1)])


def test_only_lazy_tables_are_engines() -> None:
    eager = polars.from_arrow(some_rows(3))
    assert as_counter(eager) is eager and as_counter(7) == 7
    assert isinstance(as_counter(eager.lazy()), EngineCounter)
    with pytest.raises(InputError, match="a lazy table of DuckDB, Polars or Spark, got DataFrame"):
        EngineCounter(eager)
    with pytest.raises(InputError, match="A draft of a schema needs rows"):
        MargNet(epsilon=1.0).fit(eager.lazy())
