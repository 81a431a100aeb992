"""R12: the encoder is the schema's alone. R3: a bad row is refused, and never moves another."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_strategies import schemas, tables

from tabsynth import InputError, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column

SCHEMA = Schema(
    [
        Column(name="n", kind="numeric", dtype="float64", low=-1, high=1, nulls=True),
        Column(name="k", kind="numeric", dtype="Int64", low=0, high=99, nulls=True),
        Column(name="t", kind="categorical", dtype="str", categories=("x", "y"), nulls=True),
        Column(name="c", kind="ordinal", dtype="int64", categories=(1, 2, 3)),
    ]
)
GOOD = pd.DataFrame(
    {
        "n": [-1.0, 0.0, 1.0],
        "k": pd.array([0, 50, 99], dtype="Int64"),
        "t": ["x", "y", "x"],
        "c": [1, 2, 3],
    }
)


def same_layout(one: TableEncoder, other: TableEncoder) -> None:
    for left, right in zip(one.layout.blocks, other.layout.blocks, strict=True):
        assert (left.column, left.start, left.stop, left.head) == (
            right.column,
            right.start,
            right.stop,
            right.head,
        )
        np.testing.assert_array_equal(left.codebook, right.codebook)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_layout_and_rows_do_not_depend_on_the_table(data: st.DataObject) -> None:
    """Rows added or removed change neither the layout nor how other rows are encoded."""
    schema = data.draw(schemas())
    one, other = data.draw(tables(schema)), data.draw(tables(schema))
    encoder, replayed = TableEncoder(schema), TableEncoder(schema)
    alone, together = encoder.to_index(one), replayed.to_index(pd.concat([one, other]))
    np.testing.assert_array_equal(together[: len(one)], alone)
    np.testing.assert_array_equal(encoder.to_index(one.iloc[::-1])[::-1], alone)
    same_layout(encoder, replayed)


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("n", -1.0000001, "bounds [-1, 1]"),
        ("n", 2.0, "2 is outside its declared bounds"),
        ("n", np.inf, "inf is outside"),
        ("n", -np.inf, "-inf is outside"),
        ("n", 1e38, "1e+38 is outside"),
        ("n", "x", "holds 'x' where the schema declares numbers"),
        ("n", True, "holds True where the schema declares numbers"),
        ("k", -1, "-1 is outside its declared bounds [0, 99]"),
        ("k", 100, "100 is outside its declared bounds"),
        ("t", "z", "'z' is outside its declared categories"),
        ("t", "", "'' is outside its declared categories"),
        ("t", 1, "holds 1 where the schema declares text"),
        ("t", ["x"], "holds ['x'] where the schema declares text"),
        ("c", 4, "4 is outside its declared categories"),
        ("c", 1.5, "1.5 is outside"),
        ("c", "1", "holds '1' where the schema declares numbers"),
        ("c", None, "has a null"),
        ("c", np.nan, "has a null"),
        ("c", np.inf, "inf is outside"),
        ("c", pd.Timestamp("2020-01-01"), "is outside its declared categories"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_bad_row_is_refused_by_name_wherever_it_is(
    name: str, value: object, part: str, place: int
) -> None:
    rows = GOOD.astype(object).to_dict("records")
    rows.insert(place, {**rows[0], name: value})
    bad = pd.DataFrame(rows, dtype=object)
    with pytest.raises(InputError) as caught:
        TableEncoder(SCHEMA).encode(bad)
    message = str(caught.value)
    assert f"Column {name!r}" in message and part in message and "\n" not in message
    # The good rows are encoded as ever: the encoder learnt nothing from the refused table.
    encoder = TableEncoder(SCHEMA)
    with pytest.raises(InputError):
        encoder.encode(bad)
    np.testing.assert_array_equal(encoder.encode(GOOD), TableEncoder(SCHEMA).encode(GOOD))


@pytest.mark.parametrize("extreme", [-1e38, 1e38, -1.5, 1.5, np.nan])
def test_clipped_and_null_values_move_no_other_row(extreme: float) -> None:
    column = Column(
        name="n", kind="numeric", dtype="float64", low=-1, high=1, bins=4, nulls=True, clip=True
    )
    encoder = TableEncoder(Schema([column]))
    alone = encoder.to_index(pd.DataFrame({"n": [-0.9, 0.1, 0.9]}))
    joined = encoder.to_index(pd.DataFrame({"n": [-0.9, 0.1, 0.9, extreme]}))
    np.testing.assert_array_equal(joined[:3], alone)
    assert joined[3, 0] == (4 if np.isnan(extreme) else 3 if extreme > 0 else 0)
    with pytest.raises(InputError, match="inf is outside"):
        encoder.to_index(pd.DataFrame({"n": [0.0, np.inf]}))


def test_other_takes_what_is_not_declared() -> None:
    column = Column(
        name="t", kind="categorical", dtype="str", categories=("x", "rest"), other="rest"
    )
    index = TableEncoder(Schema([column])).to_index(pd.DataFrame({"t": ["x", "y", "rest", "z"]}))
    assert index[:, 0].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (pd.DataFrame({"t": [1]}), "lacks column 'n' of the schema;"),
        (GOOD.assign(extra=1), "column 'extra' that the schema does not know"),
        (pd.concat([GOOD, GOOD["t"]], axis=1), "column 't' twice"),
    ],
)
def test_tables_of_other_columns_are_refused(table: pd.DataFrame, part: str) -> None:
    with pytest.raises(InputError) as caught:
        TableEncoder(SCHEMA).encode(table)
    first, *others = str(caught.value).split("\n")
    assert part in first and (not others or "has 4 problems" in others[0])


def test_a_table_without_rows_is_encoded_as_any() -> None:
    """Its neighbour of one row is, so a refusal would tell them apart."""
    encoder = TableEncoder(SCHEMA)
    assert encoder.to_index(GOOD.iloc[:0]).shape == (0, len(SCHEMA.columns))
    assert encoder.encode(GOOD.iloc[:0]).shape == (0, encoder.layout.width)


def test_one_hot_codes_of_a_huge_column_are_refused_by_name():
    """Size² numbers would be gigabytes; shorter codes are offered."""
    many = tuple(f"v{i}" for i in range(20_000))
    schema = Schema([Column(name="huge", kind="categorical", dtype="str", categories=many)])
    with pytest.raises(InputError, match="'huge' has 20000 values"):
        TableEncoder(schema)
    assert TableEncoder(schema, "binary").layout.width < 20
