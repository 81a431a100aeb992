"""A sample comes in the kind of DataFrame, and in the types, that the model was fitted to."""

import dataclasses
import datetime as dt
import decimal
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv

from tabsynth import (
    Categorical,
    Date,
    Datetime,
    Duration,
    MargNet,
    Numeric,
    Time,
    load,
)
from tabsynth.drafting.drafts import draft_schema
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.certificate.attached import find_attached
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables.frames import TableKind, in_kind, to_pandas

RNG = np.random.default_rng(0)
SPAN = {"low": "2020-01-01", "high": "2020-12-31"}


def texts(dtype="str") -> Categorical:
    return Categorical(name="a", dtype=dtype, categories=("x", "y"), nulls=True)


def whole(dtype: str) -> Numeric:
    return Numeric(name="a", dtype=dtype, low=0, high=99, nulls=dtype[0] in "IU")


def reals(dtype: str) -> Numeric:
    return Numeric(name="a", dtype=dtype, low=0, high=1, nulls=True)


# By Arrow type: a column of which samples have it.
ARROW = {
    **{
        t: whole(t.capitalize().replace("Uint", "UInt"))
        for t in ("int8", "int16", "int32", "int64", "uint8", "uint64")
    },
    "float": reals("float32"),
    "double": reals("float64"),
    "bool": Categorical(name="a", dtype="boolean", categories=(False, True), nulls=True),
    "string": texts(),
    "dictionary<values=string, indices=int32, ordered=0>": texts("category"),
    "date32[day]": Date(name="a", dtype="object", nulls=True, **SPAN),
    "time64[us]": Time(name="a", dtype="object", nulls=True),
    **{
        f"timestamp[{unit}]": Datetime(name="a", dtype=f"datetime64[{unit}]", nulls=True, **SPAN)
        for unit in ("s", "ms", "us", "ns")
    },
    "timestamp[us, tz=Europe/Berlin]": Datetime(
        name="a", dtype="datetime64[us, Europe/Berlin]", nulls=True, **SPAN
    ),
    "duration[ns]": Duration(name="a", dtype="timedelta64[ns]", low="0h", high="9h", nulls=True),
}
LIBRARIES = ["pandas", "polars", "pyarrow"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("text", ARROW)
def test_every_arrow_type_comes_back_in_every_library(text: str, library: str) -> None:
    column = ARROW[text]
    codes = np.arange(column.size)
    values = column.decode(codes, np.random.default_rng(1))
    frame = pd.DataFrame({"a": values})
    arrow = table = in_kind(frame, {"a": column}, TableKind("pyarrow"), "fitted")
    assert str(arrow.schema.field("a").type) == text
    if library == "pandas":
        table = arrow.to_pandas(types_mapper=pd.ArrowDtype)
    elif library == "polars":
        table = pytest.importorskip("polars").from_arrow(arrow)
    kind = TableKind.of(table)
    assert (
        kind.library == library
        and TableKind.from_dict(json.loads(json.dumps(kind.to_dict()))) == kind
    )
    np.testing.assert_array_equal(column.encode(column.convert(to_pandas(table)["a"])), codes)
    made = in_kind(frame, {"a": column}, kind, "fitted")
    if library == "pandas":
        pd.testing.assert_frame_equal(made, table)
    else:
        assert type(made) is type(table) and made.equals(table)
        assert made.schema == table.schema


def read_as_dictionaries(values: list) -> pa.Table:
    lines = "\n".join(["a", *map(str, values)])
    options = csv.ConvertOptions(auto_dict_encode=True, auto_dict_max_cardinality=128)
    return csv.read_csv(io.BytesIO(lines.encode()), convert_options=options)


def converted_to_arrow(values: list) -> pd.DataFrame:
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object), "n": [1] * len(values)})
    return frame.convert_dtypes(dtype_backend="pyarrow")


MAKERS = {
    "array": lambda values: pa.table({"a": pa.array(values)}),
    "dictionary": lambda values: pa.table({"a": pa.array(values).dictionary_encode()}),
    "frame": lambda values: pa.Table.from_pandas(pd.DataFrame({"a": values})),
    "categorical": lambda values: pa.Table.from_pandas(
        pd.DataFrame({"a": pd.Categorical(values)}), preserve_index=False
    ),
    "csv": read_as_dictionaries,
    "polars": lambda values: pytest.importorskip("polars").DataFrame({"a": values}),
    "polars categories": lambda values: pytest.importorskip("polars").from_pandas(
        pd.DataFrame({"a": pd.Categorical(values)})
    ),
    "pandas": lambda values: MAKERS["array"](values).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas dictionary": lambda values: MAKERS["dictionary"](values).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "pandas converted": converted_to_arrow,
}
TEXTS = [f"c{number:03}" for number in range(128)]
NEIGHBOURS = {
    "one text more than int8 counts": (TEXTS, "rare"),
    "a fraction": ([1, 2, 3], 1.5),
    "a text": (["c000", None], "c001"),
    "the only text": ([None, None], "c001"),
    "a number beyond 64 bits": ([1, 2], 2**64 - 1),
    "a text among numbers": ([1, 2], "rare"),
    "a long number": ([decimal.Decimal(1)], decimal.Decimal(10**30)),
}


@pytest.mark.parametrize("rows", NEIGHBOURS)
@pytest.mark.parametrize("maker", MAKERS)
def test_one_row_changes_nothing_that_is_remembered(maker: str, rows: str) -> None:
    """Whatever types pyarrow, pandas and polars choose for a column without it and with it."""
    usual, rare = NEIGHBOURS[rows]
    kinds = set()
    for values in (usual, [*usual, rare]):
        try:
            table = MAKERS[maker](values)
        except (TypeError, ValueError, OverflowError, pa.ArrowException):
            pytest.skip("The program makes no such column.")
        kinds.add(str(TableKind.of(table)))
    assert len(kinds) == 1


def test_types_of_polars_that_arrow_lacks() -> None:
    polars = pytest.importorskip("polars")
    wide = [2**100, None, 5]
    table = polars.DataFrame(
        {
            "a": polars.Series(wide, dtype=polars.Int128),
            "b": polars.Series([[v] for v in wide], dtype=polars.List(polars.Int128)),
            "c": polars.Series([b"x", None, 1.5], dtype=polars.Object),
            "d": [1, None, 3],
            "e": polars.Series(["Object"] * 3, dtype=polars.Enum(["Object"])),
        }
    )
    read = to_pandas(table)
    assert read["a"].tolist() == wide and read["d"].tolist() == [1, pd.NA, 3]
    assert [*map(str, read["c"])] == ["b'x'", "None", "1.5"]
    assert [*map(str, read["b"])] == ["[1267650600228229401496703205376]", "[None]", "[5]"]
    assert str(read["d"].dtype) == "Int64" and str(read["e"].dtype) == "str"
    assert TableKind.of(table) == TableKind("polars", enums=("e",))
    column = Numeric(name="a", dtype="Int64", low=0, high=99, nulls=True, clip=True)
    assert column.convert(read["a"]).tolist() == [99, pd.NA, 5]


def test_an_enum_has_the_declared_categories() -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"a": ["x"]}, schema={"a": polars.Enum(["y", "x", "z"])})
    made = in_kind(pd.DataFrame({"a": ["x"]}), {"a": texts()}, TableKind.of(table), "fitted")
    assert made.schema["a"] == polars.Enum(["x", "y"])


def test_kinds_of_files_of_version_0_2() -> None:
    """They have the types of the fitted table, of which samples have those of the schema today."""
    types = {"a": "int8", "b": "enum"}
    assert TableKind.from_dict({"library": "polars", "types": types}) == TableKind(
        "polars", enums=("b",)
    )
    arrow = TableKind.from_dict({"library": "pandas", "types": {"a": "int8"}})
    assert arrow == TableKind("pandas", arrow_backed=True)


@pytest.mark.parametrize(
    "data", [None, {}, {"library": "spark", "types": {}}, {"library": "pandas"}]
)
def test_damaged_kinds_are_refused(data) -> None:
    with pytest.raises(FileFormatError, match="No kind of table"):
        TableKind.from_dict(data)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_returns_the_kind_that_it_was_fitted_to(library: str, tmp_path) -> None:
    days = [dt.date(2020, 1, 1 + int(i)) for i in RNG.integers(0, 28, 200)]
    table = pa.table(
        {
            "day": pa.array(days, pa.date32()),
            "n": pa.array(RNG.integers(0, 9, 200), pa.int16()),
            "s": pa.array(RNG.choice(["x", "y"], 200).tolist()).dictionary_encode(),
        }
    )
    if library == "pandas":
        table = table.to_pandas(types_mapper=pd.ArrowDtype)
    elif library == "polars":
        table = pytest.importorskip("polars").from_arrow(table)
    drafted = draft_schema(to_pandas(table), min_count=1)
    listed = dataclasses.replace(drafted["s"], dtype="category")
    schema = drafted.replace(columns=(*drafted.columns[:-1], listed))
    config = MargNetConfig(steps=20)
    model = MargNet(schema, epsilon=5, config=config, random_state=0, accept_drafted_domain=True)
    model.fit(table).save(tmp_path / "m.tabsynth")
    for fitted in (model, load(tmp_path / "m.tabsynth")):
        made = fitted.sample(30, random_state=1)
        assert type(made) is type(table)
        if library == "pandas":
            assert (made.dtypes == table.dtypes).all()
            assert made.attrs["certificate"]["table"]["rows"] == 30
            assert find_attached(made) is not None
        else:
            assert made.schema == table.schema
        plain = fitted.sample(30, random_state=1, dataframe="pandas")
        assert isinstance(plain, pd.DataFrame) and str(plain.dtypes["n"]) == "Int16"
        pd.testing.assert_frame_equal(
            plain,
            pd.DataFrame({c.name: c.convert(to_pandas(made)[c.name]) for c in schema.columns}),
            check_names=False,
        )
    with pytest.raises(InputError, match="Expected dataframe to be one of"):
        model.sample(3, dataframe="spark")
    model.sample_to(tmp_path / "out.csv", 10)
