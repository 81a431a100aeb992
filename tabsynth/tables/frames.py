"""DataFrames of any library as pandas DataFrames, and synthetic tables in the kind that a model was fitted to.

pyarrow's own conversion chooses the pandas dtype of a column by its values: whole numbers become float64 as
soon as one row is null, and numbers beyond 2**53 then change in every other row. Here the dtype follows from
the Arrow type alone.

What a model remembers of the table that it was fitted to are its library, and which columns are enums of polars, whose
categories a person declares. All types follow from the schema, because a program may have inferred those of the table
from rows: pyarrow reads texts as a dictionary while they have few distinct values, and digits as numbers.

A table that was read from a file carries the dtypes that follow from the types of the file. pandas infers dtypes from
rows, but it does not change this declaration: no edit of rows makes a dtype public.
"""

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, cast

import narwhals as nw
import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype

from tabsynth._typing import JsonObject
from tabsynth._validate import one_of, quote
from tabsynth.errors import FileFormatError, InputError
from tabsynth.schema.cells import OtherObject, base_dtype, with_plain_cells
from tabsynth.schema.column import Column

if TYPE_CHECKING:
    import pyarrow as pa

PANDAS, POLARS, PYARROW = LIBRARIES = ("pandas", "polars", "pyarrow")
CHOICES = ("fitted", *LIBRARIES)
PART_ROWS = 2**18  # of a DataFrame that are encoded at a time
_YEARS = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")
_SECONDS = -62_135_596_800, 253_402_300_800  # from 1970 to the years 1 and 10000
UNNAMED = (
    "Unnamed: 0"  # what pandas calls a first column without a name, such as the names of rows of R
)
DECLARED = "tabsynth: types that the file declares"  # key of attrs


@lru_cache(maxsize=1)
def _nullable_dtypes() -> Mapping["pa.DataType", ExtensionDtype]:
    """Return the pandas dtypes that hold each value and a null, by Arrow type."""
    import pyarrow as pa

    return {
        pa.bool_(): pd.BooleanDtype(),
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
    }


def value_type(kind: "pa.DataType") -> "pa.DataType":
    """Return the Arrow type of a column's values: of dictionaries, that of what they list."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def column_from_arrow(values: "pa.ChunkedArray", name: str) -> pd.Series:
    """Return an Arrow column as a pandas Series.

    Parameters
    ----------
    values : pyarrow.ChunkedArray
    name : str

    Returns
    -------
    Series, shape (n,)
        Whole numbers and booleans in pandas' nullable dtypes, whether or not there is a null; floats,
        texts and timestamps as pyarrow converts them, which is value by value; decimals, dates and times of day
        as Python objects. Dictionaries are decoded. Dates beyond Python's years are numpy's, times of day lose
        their nanoseconds, and those beyond a day are lengths of time.

    Raises
    ------
    InputError
        For a type that pandas cannot hold, and for a text that is not UTF-8.

    Formal guarantees
    -----------------
    The dtype is a function of the Arrow type, and each entry a function of the type and of its own value:
    no row changes what another becomes.
    """
    import pyarrow as pa

    try:
        if pa.types.is_dictionary(values.type):
            kind = values.type.value_type
            values = pa.chunked_array([c.dictionary_decode() for c in values.chunks], type=kind)
        if pa.types.is_date(values.type):
            return pd.Series(_dates(values), name=name, dtype=object)
        if pa.types.is_time(values.type):
            return pd.Series(_times(values), name=name, dtype=object)
        series = _to_series(values).rename(name)
    except (pa.ArrowException, UnicodeDecodeError):
        if _is_text(values.type):
            raise InputError(
                f"Column {quote(name)} holds a text that is not valid UTF-8; correct it."
            ) from None
        raise InputError(
            f"Column {quote(name)} holds {quote(str(values.type))}, which pandas cannot hold; convert it"
            " to text or numbers."
        ) from None
    # pandas infers the dtype of texts from their values: it is another one where all are null.
    if _is_text(values.type):
        return series.astype(pd.Series([""]).dtype)
    return with_plain_cells(_within_zones(series))


def _within_zones(values: pd.Series) -> pd.Series:
    """Return instants of a time zone; the nearest one in place of each whose local time is beyond Python's years or 64 bits.

    A day, which is more than a zone moves any instant, is left to both ends in zones other than UTC.
    """
    zone = getattr(values.dtype, "tz", None)
    if zone is None:
        return values
    instants = values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy().copy()
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.dt.unit]
    margin = 0 if str(zone) == "UTC" else 86_400 * second
    low = max(_SECONDS[0] * second, -(2**63) + 1) + margin
    high = min(_SECONDS[1] * second - 1, 2**63 - 1) - margin
    numbers, present = instants.view("int64"), ~np.isnat(instants)
    near = np.clip(numbers, low, high)
    if not (near != numbers)[present].any():
        return values
    numbers[present] = near[present]
    moved = pd.Series(instants, index=values.index, name=values.name)
    return moved.dt.tz_localize("UTC").dt.tz_convert(zone)


def _numbers(values: "pa.ChunkedArray") -> np.ndarray:
    """Return the whole numbers that an Arrow column of dates or times holds, shape (n,) int64; of nulls any."""
    import pyarrow as pa

    integers = pa.int32() if values.type.bit_width == 32 else pa.int64()
    return np.asarray(values.cast(integers).fill_null(0)).astype(np.int64)


def _dates(values: "pa.ChunkedArray") -> np.ndarray:
    """Return Arrow dates as Python's, shape (n,) objects; as numpy's beyond the years that Python has."""
    unit = "D" if values.type.bit_width == 32 else "ms"
    days = _numbers(values).view(f"datetime64[{unit}]").astype("datetime64[D]")
    cells = days.astype(object)
    for row in np.flatnonzero((days < _YEARS[0]) | (days > _YEARS[1])):
        cells[row] = days[row]
    cells[np.asarray(values.is_null())] = None
    return cells


def _times(values: "pa.ChunkedArray") -> np.ndarray:
    """Return Arrow times of day as Python's, shape (n,) objects, to the microsecond; as lengths of time beyond a day."""
    numbers = _numbers(values)
    if values.type.unit == "ns":
        numbers //= 1_000
    else:
        numbers *= {"s": 1_000_000, "ms": 1_000, "us": 1}[values.type.unit]
    cells = numbers.view("timedelta64[us]").astype(object)
    midnight, day = datetime.datetime(1970, 1, 1), datetime.timedelta(days=1)
    for row in np.flatnonzero((numbers >= 0) & (numbers < day // datetime.timedelta.resolution)):
        cells[row] = (midnight + cells[row]).time()
    cells[np.asarray(values.is_null())] = None
    return cells


def _to_series(values: "pa.ChunkedArray") -> pd.Series:
    """Return an Arrow column as pyarrow converts it; values of a nested type one by one where one of them has no counterpart."""
    import pyarrow as pa

    try:
        return values.to_pandas(types_mapper=_nullable_dtypes().get)
    except (ValueError, OverflowError, pa.ArrowException):
        if _is_text(values.type) or values.slice(0, 0).to_pandas().dtype != object:
            raise
    cells = np.empty(len(values), dtype=object)
    for row in range(len(values)):
        try:
            cells[row] = values.slice(row, 1).to_pandas().iloc[0]
        except (ValueError, OverflowError, pa.ArrowException):
            cells[row] = OtherObject(f"<{values.type}>", False, None)
    return pd.Series(cells, dtype=object)


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return any(
        of(kind) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def table_from_arrow(table: "pa.Table") -> pd.DataFrame:
    """Return a pyarrow Table as a DataFrame; see :func:`column_from_arrow`."""
    parts = {
        i: column_from_arrow(table.column(i), name) for i, name in enumerate(table.column_names)
    }
    frame = pd.DataFrame(parts, index=pd.RangeIndex(table.num_rows))
    return frame.set_axis(list(table.column_names), axis=1)


def plain_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a DataFrame with plain cells: Arrow-backed columns are converted by :func:`column_from_arrow`.

    :func:`with_plain_cells` converts the others. It is the same object where nothing changes.
    """
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    plain = [with_plain_cells(_within_zones(_without_arrow_dtype(values))) for values in columns]
    if all(after is before for after, before in zip(plain, columns, strict=True)):
        return frame
    parts = dict(enumerate(plain))
    result = pd.DataFrame(parts, index=frame.index).set_axis(frame.columns, axis=1)
    result.attrs = frame.attrs
    return result


def _without_arrow_dtype(values: pd.Series) -> pd.Series:
    import pyarrow as pa

    if not isinstance(values.dtype, pd.ArrowDtype):
        return values
    array = pa.array(values.array)
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    column = pa.chunked_array(chunks, type=values.dtype.pyarrow_dtype)
    return column_from_arrow(column, str(values.name)).set_axis(values.index)


def with_declared_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the same table, with its dtypes as the declaration of the file that it was read from."""
    # As text: pandas copies attrs in each operation, and writes them to files as JSON.
    frame.attrs[DECLARED] = json.dumps({str(n): str(d) for n, d in frame.dtypes.items()})
    return frame


def declared_types(frame: pd.DataFrame) -> dict[str, str]:
    """Return the dtypes that the file of a table declares, by column; of a table from elsewhere none."""
    try:
        stated = json.loads(frame.attrs.get(DECLARED, "{}"))
    except (TypeError, ValueError):
        return {}
    return (
        {n: d for n, d in stated.items() if isinstance(d, str)} if isinstance(stated, dict) else {}
    )


def with_first_name(names: Sequence[str]) -> list[str]:
    """Return names of columns, the first of which pandas gives if it is empty."""
    return [UNNAMED if place == 0 and not name else name for place, name in enumerate(names)]


def check_names(frame: pd.DataFrame, what: str = "table") -> None:
    """Raise an InputError for columns whose names are no texts: a schema has texts, and no column is renamed silently."""
    if isinstance(frame.columns, pd.MultiIndex):
        raise InputError(
            f"The columns of the {what} have names of {frame.columns.nlevels} levels; join them to one text, such as"
            " df.columns = df.columns.map('_'.join)."
        )
    for name in frame.columns:
        if not isinstance(name, str):
            raise InputError(
                f"The {what} has a column {quote(name)} whose name is no text; rename it, for example by"
                " df.columns = df.columns.map(str)."
            )


def to_pandas(table: Any, what: str = "table") -> pd.DataFrame:
    """Return a pandas DataFrame from any eager DataFrame that narwhals knows (polars, pyarrow, …).

    Whole numbers and booleans of Arrow data come in pandas' nullable dtypes, whether or not there is a null:
    see :func:`tabsynth.tables.frames.column_from_arrow`. Cells of objects become plain ones: see
    :func:`tabsynth.schema.cells.with_plain_cells`. Other pandas columns are taken as they are. A first column without a
    name has the name :data:`UNNAMED`.
    """
    frame = _to_pandas(table, what)
    if not len(frame.columns) or frame.columns[0] != "":
        return frame
    return frame.set_axis(with_first_name(frame.columns), axis=1)


def _to_pandas(table: Any, what: str) -> pd.DataFrame:
    if isinstance(table, pd.DataFrame):
        check_names(table, what)
        return plain_frame(table)
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise InputError(f"The {what} must be a DataFrame, got {type(table).__name__}.") from None
    if frame.implementation.is_modin():  # pandas columns, which Arrow would read again
        return plain_frame(frame.to_pandas())
    if not any(map(_is_foreign, frame.schema.values())):
        return table_from_arrow(frame.to_arrow())
    parts = {}
    for i, values in enumerate(frame.iter_columns()):
        if _is_foreign(values.dtype):
            parts[i] = with_plain_cells(pd.Series(values.to_list(), dtype=object))
        else:
            parts[i] = table_from_arrow(values.to_frame().to_arrow()).iloc[:, 0]
    return pd.DataFrame(parts, index=pd.RangeIndex(len(frame))).set_axis(frame.columns, axis=1)


def parts_of(table: object) -> Iterator[pd.DataFrame]:
    """Yield the rows of a DataFrame as :func:`to_pandas` has them, a part at a time."""
    frame = to_pandas(table)
    for start in range(0, max(1, len(frame)), PART_ROWS):
        yield frame.iloc[start : start + PART_ROWS]


def _is_foreign(dtype: object) -> bool:
    """Return whether polars has a type that Arrow lacks."""
    if isinstance(dtype, nw.Struct):
        return any(_is_foreign(field.dtype) for field in dtype.fields)
    if isinstance(dtype, nw.List | nw.Array):
        return _is_foreign(dtype.inner)
    return dtype in (nw.Int128, nw.UInt128, nw.Object)


@dataclass(frozen=True)
class TableKind:
    """The kind of a DataFrame, apart from its rows and from the types that a program may have inferred from them.

    Attributes
    ----------
    library : {"pandas", "polars", "pyarrow"}
    arrow_backed : bool
        Whether columns of a pandas DataFrame are Arrow-backed: in samples all are where any is, because programs convert
        only those whose cells are of one type.
    enums : tuple of str
        The columns of polars that are enums.
    """

    library: str = PANDAS
    arrow_backed: bool = False
    enums: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: object) -> Self:
        """Return the kind of a table of any library; other libraries than the three count as pandas."""
        import pyarrow as pa

        if isinstance(table, pd.DataFrame):
            return cls(arrow_backed=any(isinstance(d, pd.ArrowDtype) for d in table.dtypes))
        if isinstance(table, pa.Table):
            return cls(PYARROW)
        frame = nw.from_native(table, pass_through=True)
        if not isinstance(frame, nw.DataFrame) or not frame.implementation.is_polars():
            return cls()
        enums = (name for name, dtype in frame.schema.items() if isinstance(dtype, nw.Enum))
        return cls(POLARS, enums=tuple(enums))

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready mapping."""
        types = dict.fromkeys(self.enums, "enum")
        return {"library": self.library, "types": types, "arrow_backed": self.arrow_backed}

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Invert :meth:`to_dict`. Files of version 0.2 have the Arrow types of all columns, which follow from the schema.

        Raises
        ------
        FileFormatError
        """
        stated = data if isinstance(data, dict) else {}
        library, types = stated.get("library"), stated.get("types")
        if library not in LIBRARIES or not isinstance(types, dict):
            raise FileFormatError(f"No kind of table is {quote(data)}.")
        arrow_backed = stated.get("arrow_backed", library == PANDAS and bool(types))
        enums = (name for name, kind in types.items() if kind == "enum")
        return cls(library, arrow_backed is True, tuple(enums))


def in_kind(
    table: pd.DataFrame, columns: Mapping[str, Column], kind: TableKind, choice: str
) -> Any:
    """Return a synthetic table in another library or in other types, with the same values.

    Parameters
    ----------
    table : DataFrame
        Of pandas, as :meth:`tabsynth.encoding.TableEncoder.from_index` makes it.
    columns : dict of Column
        By name.
    kind : TableKind
    choice : {"fitted", "pandas", "polars", "pyarrow"}
            ``fitted``: as ``kind`` says. ``pandas``: the table with the dtypes that the schema declares.

    Returns
    -------
    DataFrame or Table
        The type of each column follows from the schema. Of models that were fitted to Arrow data, texts of dtype ``category``
        are in dictionaries.

    Raises
    ------
    InputError
        If the library is not installed.
    """
    one_of("dataframe", choice, CHOICES)
    library = kind.library if choice == "fitted" else choice
    if library == PANDAS and not (choice == "fitted" and kind.arrow_backed):
        return table
    listed = kind.library != PANDAS or kind.arrow_backed
    arrays = {name: _array(table[name], columns[name], listed) for name in table.columns}
    if library == PANDAS:
        out = table.copy(deep=False)
        for name, array in arrays.items():
            out[name] = pd.Series(pd.arrays.ArrowExtensionArray(array), index=table.index)
        out.attrs = table.attrs
        return out
    import pyarrow as pa

    arrow = pa.table(arrays)
    if library == PYARROW:
        return arrow
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise InputError(
            "dataframe='polars' needs polars; install it, or take 'pandas' or 'pyarrow'."
        ) from None
    frame = cast(pl.DataFrame, pl.from_arrow(arrow))
    enums = [columns[name] for name in kind.enums if name in arrays and columns[name].categories]
    return frame.with_columns(
        pl.col(c.name).cast(pl.Enum([str(value) for value in (*c.categories, *c.reasons)]))
        for c in enums
    )


def period_texts(values: pd.Series) -> pd.Series:
    """Return periods as texts, because Arrow has no type for them."""
    return values.astype(object).map(str, na_action="ignore").astype("string")


def _array(values: pd.Series, column: Column, listed: bool) -> "pa.Array":
    """Return values of the column's dtype as an Arrow array, of a type that follows from the dtype alone.

    ``listed``: texts of dtype ``category`` become a dictionary.
    """
    import pyarrow as pa

    base = base_dtype(column.dtype)
    if base == "period":
        return pa.array(period_texts(values), pa.string())
    if base not in ("text", "category"):
        return pa.array(values, from_pandas=True)
    kinds = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    kind = kinds.get(column.value_type, pa.string())
    if column.kind in ("date", "time") and column.dtype == "object":
        kind = pa.date32() if column.kind == "date" else pa.time64("us")
    cells = values.astype(object)
    if any(isinstance(reason, str) for reason in column.reasons) and kind != pa.string():
        cells, kind = cells.map(str, na_action="ignore"), pa.string()
    array = pa.array(cells.where(values.notna(), None), kind)
    return array.dictionary_encode() if listed and base == "category" and _is_text(kind) else array
