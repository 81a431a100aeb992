"""A table with a column of every kind and type that engines encode in ways of their own, for their tests."""

import datetime
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tabsynth import Hierarchical, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.privacy.noise.counts import by_value, count_rows
from tabsynth.schema import Column
from tabsynth.synthesizers.estimator import as_counter
from tabsynth.tables import RowCounter
from tabsynth.tables.frames import to_pandas

BAD_NAME = 'a"; DROP TABLE x; --'
DAY, MOMENT = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)
ENGINE_SCHEMA = Schema(
    [
        Column(name=BAD_NAME, kind="categorical", dtype="str", nulls=True, other="o", categories=("b", "a", "o", "é")),
        Column(name="code", kind="categorical", dtype="Int64", nulls=True, categories=(2**53, 2**53 + 1, -1)),
        Column(name="flag", kind="categorical", dtype="boolean", nulls=True, categories=(True, False)),
        Column(name="level", kind="ordinal", dtype="category", nulls=True, categories=("low", "high")),
        Column(name="age", kind="numeric", dtype="Int64", nulls=True, clip=True, low=0, high=99, bins=7),
        Column(name="share", kind="numeric", dtype="float64", nulls=True, clip=True, low=0, high=1, breaks=(0.1, 0.3)),
        Column(name="step", kind="numeric", dtype="float64", nulls=True, low=0, high=2, resolution=0.1),
        Column(name="visit", kind="date", dtype="object", nulls=True, low="2020-01-03", high="2021-12-31", bins=9, clip=True),
        Column(name="moment", kind="datetime", dtype="datetime64[us]", nulls=True, low="2020-01-01", high="2020-03-01",
               bins=5, clip=True, resolution="1min"),
        Column(name="text date", kind="date", dtype="str", low="2020-01-01", high="2020-12-31", bins=12),
        Column(name="income", kind="numeric", dtype="Int64", low=0, high=100, bins=4, missing={"-8": "refused"}),
        Hierarchical(name="job", dtype="str", nulls=True, codes=("a1", "a2", "b1"), parents={"a1": "a", "a2": "a", "b1": "b", "a": None, "b": None}),
    ]
)  # fmt: skip
TYPES = pa.schema(
    [
        (BAD_NAME, pa.string()),
        ("code", pa.int64()),
        ("flag", pa.bool_()),
        ("level", pa.string()),
        ("age", pa.int16()),
        ("share", pa.float64()),
        ("step", pa.float64()),
        ("visit", pa.date32()),
        ("moment", pa.timestamp("us")),
        ("text date", pa.string()),
        ("income", pa.int64()),
        ("job", pa.string()),
    ]
)
SETS = [*((j,) for j in range(12)), (0, 5), (4, 1), (7, 8), (2, 3, 6), (9, 10, 11)]


class Breaking(RowCounter):
    """A table that breaks before its second answer: that of the first release, after the comparison with the schema."""

    def __init__(self, table: Any, fault: Callable[[], Any]) -> None:
        self.table, self.fault, self.answered = as_counter(table), fault, 0
        self.check = self.table.check

    def count(self, columns: tuple[str, ...]) -> Any:
        raise NotImplementedError

    def count_all(self, schema: Any, sets: Any, groups: Any = None) -> list[np.ndarray]:
        self.answered += 1
        if self.answered == 2:
            self.fault()
        return self.table.count_all(schema, sets, groups)


def _or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


_days = st.integers(-500, 900).map(lambda n: DAY + datetime.timedelta(days=n))
_edges = st.sampled_from([0.0, -0.0, 0.1, 0.3, math.nextafter(0.3, 0), 1.0, -5.0, 7.5, math.nan])
ROWS = st.lists(
    st.tuples(
        _or_null(st.sampled_from(["a", "b", "o", "é", "", "A", "a ", "zz", "'; --"])),
        _or_null(st.sampled_from([2**53, 2**53 + 1, -1])),
        _or_null(st.booleans()),
        _or_null(st.sampled_from(["low", "high"])),
        _or_null(st.integers(-200, 200)),
        _or_null(st.one_of(_edges, st.floats(-1, 2))),
        _or_null(st.one_of(st.sampled_from([0.1 * 3, 0.15, 0.25, math.nan]), st.floats(0, 2))),
        _or_null(_days),
        _or_null(st.integers(-(10**13), 10**13).map(lambda n: MOMENT + datetime.timedelta(microseconds=n))),
        st.integers(0, 365).map(lambda n: str(DAY + datetime.timedelta(days=n))),
        st.one_of(st.just(-8), st.integers(0, 100)),
        _or_null(st.sampled_from(["a1", "a2", "b1"])),
    ),
    max_size=40,
)  # fmt: skip


def arrow_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """The rows, in the types that programs write."""
    columns = list(zip(*rows, strict=True)) or [()] * len(TYPES)
    arrays = [
        pa.array(list(values), field.type, from_pandas=False)
        for values, field in zip(columns, TYPES, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=TYPES)


def counts_of(table: pa.Table, sets: Sequence[tuple[int, ...]] = SETS) -> list[np.ndarray]:
    """Exact counts of the rows in memory."""
    frame = to_pandas(table)
    named = frame.assign(**{c.name: c.convert(frame[c.name]) for c in ENGINE_SCHEMA.columns})
    index = TableEncoder(ENGINE_SCHEMA).to_index(named)
    return [count_rows(index, s, by_value(ENGINE_SCHEMA.sizes)) for s in sets]


def some_rows(number: int, seed: int = 0) -> pa.Table:
    """Made-up rows, all of whose values are declared or clipped."""
    rng = np.random.default_rng(seed)

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    rows = [
        (
            pick("a", "b", "o", "é", "zz", None),
            pick(2**53, 2**53 + 1, -1, None),
            pick(True, False, None),
            pick("low", "high", None),
            pick(None, *range(-3, 120)),
            pick(None, math.nan, 0.1, 0.3, 2.0, rng.random()),
            pick(None, math.nan, 0.1 * 3, 2.0, rng.random()),
            pick(None, DAY + datetime.timedelta(days=int(rng.integers(-9, 900)))),
            pick(None, MOMENT + datetime.timedelta(seconds=int(rng.integers(-(10**6), 10**7)))),
            str(DAY + datetime.timedelta(days=int(rng.integers(0, 366)))),
            pick(-8, *range(101)),
            pick("a1", "a2", "b1", None),
        )
        for _ in range(number)
    ]
    return arrow_table(rows)
