"""Any valid table comes back: exactly where it is discrete, to the cell where it is numeric."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_strategies import schemas, tables

from tabsynth import InputError, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.table import codebook
from tabsynth.schema import Column

SCHEMES = [
    *("one-hot", "ordinal", "binary", "base-4", "base-7"),
    *("gray", "rank-hot", "sum", "helmert"),
]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), scheme=st.sampled_from(SCHEMES))
def test_discrete_columns_come_back_exactly(data: st.DataObject, scheme: str) -> None:
    schema = data.draw(schemas(numeric=False))
    table = data.draw(tables(schema))
    encoder = TableEncoder(schema, scheme)
    codes = encoder.encode(table)
    assert codes.dtype == np.float32 and codes.shape == (len(table), encoder.layout.width)
    assert codes.min() >= 0 and codes.max() <= 1
    back = encoder.decode(codes, np.random.default_rng(0))
    pd.testing.assert_frame_equal(back, table)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(data=st.data(), scheme=st.sampled_from(SCHEMES))
def test_all_columns_come_back_to_the_cell(data: st.DataObject, scheme: str) -> None:
    schema = data.draw(schemas())
    table = data.draw(tables(schema))
    encoder = TableEncoder(schema, scheme)
    index = encoder.to_index(table)
    assert (index >= 0).all() and (index < np.array(schema.sizes)).all()
    np.testing.assert_array_equal(encoder.layout.decode(encoder.encode(table)), index)
    back = encoder.from_index(index, np.random.default_rng(0))
    assert list(back.columns) == list(schema.names)
    assert (back.dtypes == table.dtypes).all()
    np.testing.assert_array_equal(encoder.to_index(back), index)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_code_makes_a_table_that_encodes_to_it(data: st.DataObject) -> None:
    """The whole range of the generator: whatever codes it emits decode to a valid table."""
    schema = data.draw(schemas())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    encoder = TableEncoder(schema, data.draw(st.sampled_from(SCHEMES)))
    codes = rng.random((30, encoder.layout.width)).astype(np.float32)
    index = encoder.layout.decode(codes)
    table = encoder.decode(codes, rng)
    np.testing.assert_array_equal(encoder.to_index(table), index)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_column_order_and_extra_dtypes_do_not_matter(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    table = data.draw(tables(schema))
    shuffled = table[list(table.columns)[::-1]]
    for name in table.columns:
        if table[name].dtype != np.float32:  # whose numbers are others as Python floats
            shuffled = shuffled.astype({name: object})
    encoder = TableEncoder(schema)
    np.testing.assert_array_equal(encoder.to_index(shuffled), encoder.to_index(table))


def test_schemes_by_column_and_their_widths() -> None:
    column = Column(name="a", kind="ordinal", dtype="int64", categories=tuple(range(17)))
    schema = Schema([column, Column(name="b", kind="categorical", dtype="str", categories=("x",))])
    widths = {s: TableEncoder(schema, {"a": s}).layout.width - 1 for s in SCHEMES}
    assert widths == {
        **{"one-hot": 17, "ordinal": 1, "binary": 5, "base-4": 3, "base-7": 2},
        **{"gray": 5, "rank-hot": 16, "sum": 17, "helmert": 16},
    }
    blocks = TableEncoder(schema, {"a": "binary"}).layout.blocks
    assert [(b.start, b.stop, b.head, b.size) for b in blocks] == [
        (0, 5, "sigmoid", 17),
        (5, 6, "softmax", 1),
    ]


def test_codes_of_ordered_columns_keep_their_order() -> None:
    """Neighbours differ in one entry by ``gray``; by ``rank-hot`` as many entries differ as there are ranks between."""
    gray, thermometer, against_lower = (
        codebook(9, scheme)[0] for scheme in ("gray", "rank-hot", "helmert")
    )
    assert (np.abs(np.diff(gray, axis=0)).sum(axis=1) == 1).all()
    apart = np.abs(thermometer[:, None] - thermometer).sum(axis=2)
    ranks = np.arange(9)
    np.testing.assert_array_equal(apart, np.abs(ranks[:, None] - ranks))
    # Entry j has the lower of two values for ranks up to j, the higher for rank j + 1, and one between for all others.
    for j, entry in enumerate(against_lower.T):
        assert (entry[: j + 1] == 0).all() and entry[j + 1] == 1
        assert np.allclose(entry[j + 2 :], 1 / (j + 2))


@pytest.mark.parametrize("scheme", ["rank-hot", "sum", "helmert"])
def test_wide_codes_of_too_many_values_are_refused(scheme: str) -> None:
    """Each is as wide as a one-hot code."""
    column = Column(name="a", kind="ordinal", dtype="int64", categories=tuple(range(4_097)))
    with pytest.raises(InputError, match="'a' has 4097 values, too many for"):
        TableEncoder(Schema([column]), scheme)


@pytest.mark.parametrize(
    "scheme", ["one_hot", "base-1", "base-", "base-²", "base-x", "base-1001", "base--2", 3, None]
)
def test_unknown_schemes_are_refused(scheme: object) -> None:
    schema = Schema([Column(name="a", kind="categorical", dtype="str", categories=("x", "y"))])
    with pytest.raises(InputError, match="network_encoding") as caught:
        TableEncoder(schema, {"a": scheme})  # type: ignore[dict-item]
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="network_encoding names column 'z'"):
        TableEncoder(schema, {"z": "one-hot"})


def test_large_codebooks_decode_in_bounded_memory() -> None:
    column = Column(name="a", kind="ordinal", dtype="int64", categories=tuple(range(20_000)))
    layout = TableEncoder(Schema([column]), "ordinal").layout
    index = np.arange(0, 20_000, 7)[:, None]
    np.testing.assert_array_equal(layout.decode(layout.encode(index)), index)


def test_no_rows_decode_to_an_empty_table() -> None:
    schema = Schema(
        [
            Column(name="a", kind="categorical", dtype="str", categories=("x", "y")),
            Column(name="n", kind="numeric", dtype="int64", low=0, high=9),
        ]
    )
    for scheme in SCHEMES:
        encoder = TableEncoder(schema, scheme)
        empty = np.zeros((0, encoder.layout.width), dtype=np.float32)
        table = encoder.decode(empty, np.random.default_rng(0))
        assert len(table) == 0 and table.dtypes.astype(str).tolist() == ["str", "int64"]


@pytest.mark.parametrize("clip", [False, True])
def test_an_integer_beyond_any_float_is_one_line(clip: bool) -> None:
    column = Column(name="x", kind="numeric", dtype="float64", low=0, high=9, clip=clip)
    table = pd.DataFrame({"x": pd.Series([1, 10**400], dtype=object)})
    with pytest.raises(InputError, match="'x' holds an integer beyond any float"):
        TableEncoder(Schema([column])).to_index(table)
