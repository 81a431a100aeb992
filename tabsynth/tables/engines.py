"""Lazy tables of DuckDB, Polars and Spark, which are counted without a copy of all rows in memory.

DuckDB and Polars run in this process: they give rows in batches, which it counts as it counts Parquet files.

From Spark only counts come back. It makes category codes of values by comparisons that follow from the schema
(:mod:`tabsynth.schema.facts`), and counts their combinations. Expressions are built by narwhals; no SQL text has a name or
a value of the table.
"""

import logging
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.dtypes import DType

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line
from tabsynth.privacy.noise.counts import Groups
from tabsynth.schema.column import Column
from tabsynth.schema.facts import Cells, Listed
from tabsynth.schema.missing import placing_of
from tabsynth.schema.schema import Schema
from tabsynth.tables.batch_counter import CHANGED, BatchCounter, batch_rows
from tabsynth.tables.counter import GroupedColumn, grouped_columns, refuse_all
from tabsynth.tables.frames import table_from_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame as SparkFrame

T = TypeVar("T")
LazyTable = nw.LazyFrame[Any]
logger = logging.getLogger(__name__)
MOST_CELLS = 10**6  # that one query may return
# That one expression compares; of more, Spark counts the values themselves.
MOST_VALUES = 10_000
MOST_SETS = 100  # of columns in one query
WORKER_ROWS = 2**18  # that a worker of Spark counts at a time
MOST_KEYS = 60  # different columns, or groups of their values, in one query
BLOCK = 10  # keys: pairs of those of two blocks are in one query, which encodes few columns for many pairs
EXACT_DIGITS = 15  # of decimals that become the nearest float, as Python makes it, in Spark
UNKNOWN = -1  # instead of a code: the schema does not take the value
ENCODED = 10**5  # values that are encoded in Python at a time
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

    Parameters
    ----------
    table : PySpark DataFrame

    Formal guarantees
    -----------------
    The counts are those that :meth:`tabsynth.schema.column.Column.encode` gives of the same rows: Spark compares values with
    bounds and lists of the schema, and where this is not exact, :meth:`encode` takes the distinct values, however many
    there are. All else is as of :class:`EngineCounter`.
    """

    most_cells = MOST_CELLS

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self._values: dict[str, tuple[Column, Listed | None]] = {}
        self._refused: dict[str, str] = {}  # what the encoder says of a column's undeclared values

    def parts(self, names: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Raise InputError, as :meth:`RowCounter.parts` does."""
        raise InputError(
            f"{self._engine} gives counts and no rows; fit margnet, or fit a copy in Parquet files."
        )

    def count_all(
        self,
        schema: Schema,
        sets: Sequence[tuple[int, ...]],
        groups: Sequence[Groups] | None = None,
    ) -> list[np.ndarray]:
        """See :meth:`RowCounter.count_all`: up to 100 sets in one scan."""
        grouped = grouped_columns(schema, sets, groups)
        for s in grouped:
            if math.prod(key.size for key in s) > MOST_CELLS:
                names = ", ".join(quote(key.column.name) for key in s)
                raise InputError(
                    f"Columns {names} have more than {MOST_CELLS:,} cells, the most that Spark returns; declare fewer"
                    " values or cells."
                )
        keys, problems = dict[GroupedColumn, _Key](), list[str]()
        for column in dict.fromkeys(column for s in grouped for column in s):
            try:
                keys[column] = self._key(column.column, column.group, f"k{len(keys)}")
            except InputError as error:
                problems.append(str(error))
        refuse_all(problems)
        key_sets = [tuple(keys[column] for column in s) for s in grouped]
        answers = self._answers(list(dict.fromkeys(key_sets)))
        self._refuse_undeclared(answers)
        counts = {s: counts[(slice(1, None),) * len(s)] for s, counts in answers.items()}
        self._check_unchanged(counts.items())
        return [counts[s].copy() for s in key_sets]

    def _refuse_undeclared(self, answers: Mapping["KeySet", np.ndarray]) -> None:
        """Refuse values that the schema does not take: one error for all columns."""
        wrong = {
            key.column.name: key
            for key_set, counts in answers.items()
            for axis, key in enumerate(key_set)
            if np.take(counts, 0, axis).any()
        }
        refuse_all([self._problem(key) for key in wrong.values()])

    def _problem(self, key: "_Key") -> str:
        """Return what :meth:`Column.encode` says of a value that has no code."""
        name = key.column.name
        if key.encoded:
            return self._refused[name]
        example = (
            self._frame.filter(key.expression == UNKNOWN).select(nw.col(name).alias("k0")).head(1)
        )
        values = _series(self._run(lambda: _arrow(example)), "k0", name)
        try:
            key.column.encode(key.column.convert(values))
        except InputError as error:
            return str(error)
        return CHANGED

    # Codes.

    def _key(self, column: Column, group: np.ndarray, name: str) -> "_Key":
        """Return the expression of the group of each value's code."""
        kind = self._schema()[column.name]
        values = _values_of(column.name, kind)
        word = _storage_word(kind)
        placing = placing_of(column, column.placing(word), word)
        if placing is None:
            observed = self._values.get(column.name)
            placing = (
                observed[1] if observed and observed[0] == column else self._codes_of_values(column)
            )
        elif isinstance(placing, Listed) and len(placing.codes) > MOST_VALUES:
            placing = None
        if placing is None:
            return _Key(column, group, name, values, encoded=True)
        null = int(group[column.size - 1]) if column.nulls else UNKNOWN
        if isinstance(placing, Cells):
            expression = _of_cells(placing, values, group, kind)
        else:
            expression = _of_values(placing, values, group)
        missing = values.is_null()
        if kind.is_float():
            missing = missing | values.is_nan()
        coded = nw.when(missing).then(nw.lit(null)).otherwise(expression)
        return _Key(column, group, name, coded.cast(nw.Int32))

    def _codes_of_values(self, column: Column) -> Listed | None:
        """Return the codes of the distinct values of a column, by :meth:`Column.encode`; None where they are too many."""
        named = self._frame.select(_values_of(column.name, self._schema()[column.name]).alias("k0"))
        distinct = named.group_by("k0").agg(nw.len().alias("n")).head(MOST_VALUES + 2)
        arrow = self._run(lambda: _arrow(distinct))
        listed = None
        if arrow.num_rows <= MOST_VALUES + 1:
            values = _series(arrow, "k0", column.name)
            codes = column.encode(column.convert(values))
            present = values.notna().to_numpy()
            cells = arrow.column("k0").to_pylist()
            listed = Listed({cells[i]: int(codes[i]) for i in np.flatnonzero(present)}, None)
        self._values[column.name] = column, listed
        return listed

    # Counts.

    def _answers(self, sets: Sequence["KeySet"]) -> dict["KeySet", np.ndarray]:
        """Return counts of different sets of keys, of which index 0 of each axis is that of unknown values."""
        answers = {s: self._count_values(s) for s in sets if any(key.encoded for key in s)}
        for batch in _batches([key_set for key_set in sets if key_set not in answers]):
            answers |= self._count_in_spark(batch)
        return answers

    def _codes_frame(self, sets: Sequence["KeySet"]) -> LazyTable:
        """Return the lazy table of the codes of some sets, or of the values of keys that are encoded here."""
        keys = {key.name: key for key_set in sets for key in key_set}
        return self._frame.select(key.expression.alias(name) for name, key in keys.items())

    def _count_in_spark(self, sets: Sequence["KeySet"]) -> dict["KeySet", np.ndarray]:
        """Return counts of sets of codes, as :meth:`_answers`, by one query."""
        frame = self._codes_frame(sets)
        named = {tuple(key.name for key in key_set): key_set for key_set in sets}
        sizes = {key.name: key.size + 1 for key_set in sets for key in key_set}
        answers = {key_set: _zeros(key_set) for key_set in sets}
        for names, codes, times in self._run(lambda: list(_in_spark(frame, list(named), sizes))):
            _add(answers[named[names]], codes, times)
        return answers

    def _count_values(self, key_set: "KeySet") -> np.ndarray:
        """Return counts of one set, as :meth:`_answers`: :meth:`Column.encode` makes codes of its combinations of values."""
        names, counts = [key.name for key in key_set], _zeros(key_set)
        counted = self._codes_frame([key_set]).group_by(names).agg(nw.len().alias("n"))
        combinations = self._run(lambda: _arrow(counted))
        for start in range(0, combinations.num_rows, ENCODED):
            part = combinations.slice(start, ENCODED)
            codes = [
                self._codes_of(key, part) if key.encoded else part.column(key.name).to_numpy()
                for key in key_set
            ]
            _add(counts, codes, part.column("n").to_numpy())
        return counts

    def _codes_of(self, key: "_Key", part: "pa.Table") -> np.ndarray:
        """Return the groups of values in a table of Arrow; where the schema does not take one, all are unknown."""
        column = key.column
        try:
            values = _series(part, key.name, column.name)
            return key.group[column.encode(column.convert(values))]
        except InputError as error:
            self._refused[column.name] = str(error)
            return np.full(part.num_rows, UNKNOWN)


@dataclass(frozen=True, eq=False)
class _Key(GroupedColumn):
    """A column's codes in some groups, as a query has them: ``size`` numbers from 0, and -1 for unknown values.

    Where ``encoded``, the query has the values themselves, and :meth:`Column.encode` makes codes of them.
    """

    name: str
    expression: nw.Expr
    encoded: bool = False


KeySet = tuple[_Key, ...]


def _zeros(key_set: KeySet) -> np.ndarray:
    return np.zeros([key.size + 1 for key in key_set])


def _add(counts: np.ndarray, codes: Sequence[np.ndarray], times: np.ndarray) -> None:
    """Count rows of codes from -1, each as often as it occurs."""
    np.add.at(counts, tuple(code.astype(np.int64) + 1 for code in codes), times)


def _storage_word(kind: Any) -> str:
    """Return a narwhals dtype in the words of :meth:`Column.placing`; others are of no use to it."""
    if isinstance(kind, nw.Decimal) and kind.precision <= EXACT_DIGITS:
        return "float64"
    if kind.is_integer():
        return "int" if kind not in (nw.Int128, nw.UInt128) else str(kind)
    if isinstance(kind, nw.Datetime) or kind == nw.Datetime:
        if kind.time_unit == "ns":
            return "nanoseconds"
        return "datetime" if kind.time_zone is None else "datetime with zone"
    words = {
        nw.Float32: "float32",
        nw.Float64: "float64",
        nw.Boolean: "bool",
        nw.String: "text",
        nw.Categorical: "text",
        nw.Enum: "text",
        nw.Date: "date",
        nw.Time: "time",
    }
    return next((word for dtype, word in words.items() if kind == dtype), str(kind))


def _values_of(name: str, kind: DType) -> nw.Expr:
    """Return a column's values, texts of every type as plain texts."""
    values = nw.col(name)
    return values.cast(nw.String) if kind in (nw.Categorical, nw.Enum, nw.String) else values


def _of_cells(cells: Cells, values: nw.Expr, group: np.ndarray, kind: DType) -> nw.Expr:
    """Return the group of the cell of each value, by halving; cells of one group are not told apart."""
    if kind.is_numeric():
        values = values.cast(nw.Float64)
    number = len(cells.starts) + 1
    first = [0] + [code for code in range(1, number) if group[code] != group[code - 1]]

    def choose(low: int, high: int) -> nw.Expr:
        if low == high:
            return nw.lit(int(group[first[low]]))
        middle = (low + high + 1) // 2
        below = values < nw.lit(cells.starts[first[middle] - 1])
        return nw.when(below).then(choose(low, middle - 1)).otherwise(choose(middle, high))

    placed = choose(0, len(first) - 1)
    if not cells.clip or kind.is_float():
        placed = _inside(cells, values, placed)
    for reason, code in cells.apart.items():
        same = values == nw.lit(float(reason))
        placed = nw.when(same).then(nw.lit(int(group[code]))).otherwise(placed)
    return placed


def _inside(cells: Cells, values: nw.Expr, placed: nw.Expr) -> nw.Expr:
    """Return the groups of values within the bounds, or of finite ones where others are clipped."""
    low, high = (
        (-np.finfo(float).max, np.finfo(float).max) if cells.clip else (cells.low, cells.high)
    )
    outside = (values < nw.lit(low)) | (values > nw.lit(high))
    return nw.when(outside).then(nw.lit(UNKNOWN)).otherwise(placed)


def _in_groups(listed: Listed, group: np.ndarray) -> tuple[dict[Any, int], int]:
    other = UNKNOWN if listed.other is None else int(group[listed.other])
    return {value: int(group[code]) for value, code in listed.codes.items()}, other


def _of_values(listed: Listed, values: nw.Expr, group: np.ndarray) -> nw.Expr:
    """Return the group of the code of each value, by halving the ordered list."""
    codes, other = _in_groups(listed, group)
    ordered = sorted(codes)

    def choose(low: int, high: int) -> nw.Expr:
        if low == high:
            same = values == nw.lit(ordered[low])
            return nw.when(same).then(nw.lit(codes[ordered[low]])).otherwise(nw.lit(other))
        middle = (low + high + 1) // 2
        below = values < nw.lit(ordered[middle])
        return nw.when(below).then(choose(low, middle - 1)).otherwise(choose(middle, high))

    return choose(0, len(ordered) - 1) if ordered else nw.lit(other)


def _batches(sets: Sequence[KeySet]) -> Iterator[list[KeySet]]:
    """Yield sets that one query answers: few enough in number, keys and cells, and of columns near each other."""
    places = {key: i for i, key in enumerate(dict.fromkeys(key for s in sets for key in s))}
    batch, keys, cells = list[KeySet](), set[_Key](), 0
    for key_set in sorted(sets, key=lambda s: [places[key] // BLOCK for key in s]):
        size = math.prod(key.size + 1 for key in key_set)
        full = len(batch) == MOST_SETS or cells + size > MOST_CELLS
        if batch and (full or len(keys.union(key_set)) > MOST_KEYS):
            yield batch
            batch, keys, cells = [], set(), 0
        batch.append(key_set)
        keys.update(key_set)
        cells += size
    if batch:
        yield batch


def _arrow(frame: LazyTable) -> "pa.Table":
    """Return a lazy table as a pyarrow Table."""
    return frame.collect("pyarrow").to_native()


def _series(table: "pa.Table", key: str, name: str) -> pd.Series:
    """Return the values of a column of a pyarrow Table, with the name that users know."""
    _refuse_nested(name, table.schema.field(key))
    return table_from_arrow(table.select([key]).rename_columns([name])).iloc[:, 0]


def _refuse_nested(name: str, field: "pa.Field") -> None:
    if field.type.num_fields:  # a map, a union: narwhals does not say so
        raise InputError(f"Column {quote(name)} holds {field.type}; unfold or convert it.")


# Names of codes, the codes of each from -1, and how often they occur.
Counted = tuple[tuple[str, ...], Sequence[np.ndarray], np.ndarray]


def _in_spark(
    frame: LazyTable, sets: Sequence[tuple[str, ...]], sizes: Mapping[str, int]
) -> Iterator[Counted]:
    from pyspark.errors import PythonException

    native = frame.to_native()
    try:
        yield from _in_workers_of_spark(native, sets, sizes)
        return
    except PythonException as error:  # workers may lack numpy or pyarrow, or have another Python
        logger.info("Spark counts in grouping sets, for its workers fail: %s", one_line(error))
    names = list(dict.fromkeys(name for of_set in sets for name in of_set))
    counted = native.groupingSets([list(s) for s in sets], *names).count()
    yield from _of_grouping_sets(counted.withColumnRenamed("count", "n").toArrow(), names, sets)


def _in_workers_of_spark(
    native: "SparkFrame", sets: Sequence[tuple[str, ...]], sizes: Mapping[str, int]
) -> Iterator[Counted]:
    """Let each worker count the codes of its rows, and Spark add the counts of workers.

    Grouping sets repeat each row for each set. ``count`` is sent to workers by value: they need numpy and pyarrow, and
    not tabsynth.
    """
    shapes = [tuple(sizes[name] for name in names) for names in sets]
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
    spans = list(zip([0, *ends], ends, strict=False))
    names, most_rows = list(dict.fromkeys(name for of_set in sets for name in of_set)), WORKER_ROWS

    def count(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import numpy
        import pyarrow

        cells = numpy.zeros(ends[-1], dtype=numpy.int64)
        waiting: list[pa.RecordBatch] = []

        def add() -> None:
            table = pyarrow.Table.from_batches(waiting)
            codes = {name: table.column(name).to_numpy().astype(numpy.int64) + 1 for name in names}
            for columns, shape, (start, end) in zip(sets, shapes, spans, strict=True):
                places = numpy.ravel_multi_index([codes[name] for name in columns], shape)
                cells[start:end] += numpy.bincount(places, minlength=end - start)
            waiting.clear()

        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows > most_rows:
                add()
                rows = 0
        if waiting:
            add()
        occupied = numpy.flatnonzero(cells)
        yield pyarrow.RecordBatch.from_pydict({"cell": occupied, "n": cells[occupied]})

    counted = native.mapInArrow(count, "cell bigint, n bigint").groupBy("cell").sum("n").toArrow()
    cell, n = (counted.column(i).to_numpy() for i in range(2))
    for columns, shape, (start, end) in zip(sets, shapes, spans, strict=True):
        inside = (start <= cell) & (cell < end)
        codes = np.unravel_index(cell[inside] - start, shape)
        yield columns, [code - 1 for code in codes], n[inside]


def _of_grouping_sets(
    table: "pa.Table", names: Sequence[str], sets: Sequence[tuple[str, ...]]
) -> Iterator[Counted]:
    """Return answers by the columns that are not null: codes never are, and null columns are not in the row's set."""
    present = np.stack([table.column(name).is_valid().to_numpy() for name in names], axis=1)
    which = present @ (1 << np.arange(len(names), dtype=np.int64))
    codes = {name: table.column(name).fill_null(0).to_numpy() for name in names}
    times = table.column("n").to_numpy()
    for of_set in sets:
        rows = which == sum(1 << names.index(name) for name in of_set)
        yield of_set, [codes[name][rows] for name in of_set], times[rows]
