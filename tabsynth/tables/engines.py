"""Lazy tables of DuckDB, Polars and Spark, which are counted without a copy of all rows in memory.

DuckDB and Polars run in this process: they give rows in batches, which it counts as it counts Parquet files.

From Spark only counts come back: its workers count their rows by the same code. Expressions are built by narwhals; no SQL
text has a name or a value of the table.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.dtypes import DType

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line
from tabsynth.schema.schema import Schema
from tabsynth.tables.batch_counter import BatchCounter, KeySet, batch_rows, count_batches
from tabsynth.tables.counter import refuse_all

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
MOST_CELLS = 10**7  # of the sets of columns that Spark counts in one query
WORKER_ROWS = 2**18  # that a worker of Spark counts at a time
WORKER_ANSWER = "place bigint, problem string, n bigint"  # columns of what a worker returns
ENGINES = {
    "duckdb": "DuckDB",
    "polars": "Polars",
    "pyspark": "Spark",
    "pyspark[connect]": "Spark",
}


def is_lazy(table: object) -> bool:
    """Return whether narwhals reads a table lazily."""
    return isinstance(nw.from_native(table, pass_through=True), nw.LazyFrame)


class EngineCounter(BatchCounter):
    """The rows of a lazy table of DuckDB or Polars.

    ``fit`` makes one of every table of these kinds.

    Parameters
    ----------
    table : DuckDB relation or polars LazyFrame

    Raises
    ------
    InputError
        If it is none of these.

    Formal guarantees
    -----------------
    Those of :class:`BatchCounter`. Whether a table is refused follows from the schema, the types of its columns and, row
    by row, its values; never from their number.
    """

    def __init__(self, table: Any) -> None:
        super().__init__()
        if not is_lazy(table):
            raise InputError(
                f"Expected a lazy table of DuckDB, Polars or Spark, got {type(table).__name__}."
            )
        self._frame = frame = nw.from_native(table)
        self._library = str(frame.implementation.value)
        if self._library not in ENGINES:
            raise InputError(
                f"Expected a lazy table of DuckDB, Polars or Spark, got one of {self._library}; fit a copy in Parquet files."
            )
        self._types: Mapping[str, DType] | None = None

    @property
    def _engine(self) -> str:
        return ENGINES[self._library]

    def _run(self, query: Callable[[], T]) -> T:
        """Run a query; whatever the engine raises becomes an InputError of one line."""
        try:
            return query()
        except InputError:
            raise
        except Exception as error:  # each engine has errors of its own
            if "ModuleNotFoundError" in str(error):
                raise InputError(
                    "Spark's workers miss a package; install tabsynth for the Python of Spark's workers, in this version."
                ) from None
            raise InputError(
                f"{self._engine} could not count the table: {one_line(error)}; correct it and fit again."
            ) from None

    def _schema(self) -> Mapping[str, DType]:
        if self._types is None:
            self._types = self._run(lambda: dict(self._frame.collect_schema()))
        return self._types

    def check(self, schema: Schema) -> None:
        """See :meth:`RowCounter.check`: the table has each column, of a plain type."""
        types = self._schema()
        missing = [name for name in schema.names if name not in types]
        if missing:
            raise InputError(
                f"The table has no column {', '.join(map(quote, missing[:5]))}; add it, or take it out of the schema."
            )
        nested = [n for n in schema.names if types[n].is_nested() or types[n] == nw.Object]
        if nested:
            raise InputError(
                f"Column {quote(nested[0])} holds {types[nested[0]]}; unfold or convert it."
            )

    def batches(self, names: Sequence[str], *, ordered: bool = True) -> Iterator["pa.RecordBatch"]:
        """See :meth:`BatchCounter.batches`."""
        types = self._schema()
        missing = [name for name in names if name not in types]
        if missing:
            raise InputError(f"The table has no column {quote(missing[0])}; add it.")
        frame = self._frame.select(
            _values_of(name, types[name]).alias(f"k{i}") for i, name in enumerate(names)
        )
        batches = self._native_batches(frame.to_native(), batch_rows(len(names)), ordered)
        with closing(batches):
            while (batch := self._run(lambda: next(batches, None))) is not None:
                for name, field in zip(names, batch.schema, strict=True):
                    _refuse_nested(name, field)
                yield batch.rename_columns(list(names))

    def _native_batches(self, table: Any, rows: int, ordered: bool) -> Generator["pa.RecordBatch"]:
        if self._library == "duckdb":
            with table.to_arrow_reader(rows) as reader:
                yield from reader
            return
        import polars as pl

        options = {"maintain_order": ordered, "engine": "streaming"}
        for part in table.collect_batches(chunk_size=rows, **options):
            arrow = part.to_arrow(compat_level=pl.CompatLevel.oldest())
            yield from arrow.combine_chunks().to_batches()


class SparkCounter(EngineCounter):
    """The rows of a table that a Spark cluster counts.

    Each worker counts its rows as :class:`BatchCounter` does, and Spark adds the counts of workers. So the Python of the
    workers needs tabsynth.

    Parameters
    ----------
    table : PySpark DataFrame

    Formal guarantees
    -----------------
    Those of :class:`EngineCounter`: the counts are made by the code that counts batches of rows in this process.
    """

    def parts(self, names: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Raise InputError, as :meth:`RowCounter.parts` does."""
        raise InputError(
            f"{self._engine} gives counts and no rows; fit margnet, or fit a copy in Parquet files."
        )

    def _count(self, key_sets: Sequence[KeySet]) -> dict[KeySet, np.ndarray]:
        """See :meth:`BatchCounter._count`: sets of few cells in one query."""
        counts = dict[KeySet, np.ndarray]()
        for query_sets in _queries(key_sets):
            counts |= self._run(partial(self._count_in_workers, query_sets))
        return counts

    def _count_in_workers(self, key_sets: Sequence[KeySet]) -> dict[KeySet, np.ndarray]:
        columns = list(dict.fromkeys(key.column.name for s in key_sets for key in s))
        types = self._schema()
        values = self._frame.select(_values_of(name, types[name]) for name in columns).to_native()
        counted = values.mapInArrow(partial(_count_in_worker, key_sets), WORKER_ANSWER)
        answers = counted.groupBy("place", "problem").sum("n").toArrow()
        refused = answers.drop_null().to_pydict()  # only of these rows is no entry null
        problems = dict(zip(refused["place"], refused["problem"], strict=True))
        refuse_all([problems[place] for place in sorted(problems)])
        place, _, n = answers.columns
        cells = np.zeros(sum(map(_cells_of, key_sets)), dtype=np.int64)
        cells[place.to_numpy()] = n.to_numpy()
        parts = np.split(cells, np.cumsum([_cells_of(s) for s in key_sets])[:-1])
        return {
            s: part.reshape([key.size for key in s])
            for s, part in zip(key_sets, parts, strict=True)
        }


def _cells_of(key_set: KeySet) -> int:
    return math.prod(key.size for key in key_set)


def _queries(key_sets: Sequence[KeySet]) -> Iterator[list[KeySet]]:
    """Yield the sets that one query counts, of at most :data:`MOST_CELLS` in all, or a single set."""
    sets, cells = list[KeySet](), 0
    for key_set in key_sets:
        if sets and cells + _cells_of(key_set) > MOST_CELLS:
            yield sets
            sets, cells = [], 0
        sets.append(key_set)
        cells += _cells_of(key_set)
    if sets:
        yield sets


def _count_in_worker(
    key_sets: Sequence[KeySet], batches: Iterator["pa.RecordBatch"]
) -> Iterator["pa.RecordBatch"]:
    """Yield the counts of the rows of a worker: the cells of all sets that have some, one set after the other.

    Instead, where the schema does not take a value, there is a row for each such column: its place, and the problem.
    """
    import pyarrow as pa

    counts, problems = count_batches(_joined(batches), key_sets, threads=1)
    cells = np.concatenate([counts[s].ravel() for s in key_sets])
    occupied = np.flatnonzero(cells)
    place, n, problem = pa.array(occupied), pa.array(cells[occupied]), pa.nulls(len(occupied))
    if problems:
        place, problem = pa.array(problems.keys()), pa.array(problems.values())
        n = pa.array([0] * len(problems))
    names = ["place", "problem", "n"]
    yield pa.RecordBatch.from_arrays([place, problem.cast("string"), n], names)


def _joined(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    """Yield larger batches of the same rows: Spark gives 10,000 rows at a time."""
    import pyarrow as pa

    waiting = list[pa.RecordBatch]()
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) > WORKER_ROWS:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _values_of(name: str, kind: DType) -> nw.Expr:
    """Return a column's values, texts of every type as plain texts."""
    values = nw.col(name)
    return values.cast(nw.String) if kind in (nw.Categorical, nw.Enum, nw.String) else values


def _refuse_nested(name: str, field: "pa.Field") -> None:
    if field.type.num_fields:  # a map, a union: narwhals does not say so
        raise InputError(f"Column {quote(name)} holds {field.type}; unfold or convert it.")
