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
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import narwhals as nw
import numpy as np
import pandas as pd

from tabsynth._validate import one_of, shown
from tabsynth.errors import FileFormatError, InputError
from tabsynth.schema.cells import OtherObject, with_plain_cells
from tabsynth.schema.column import Column
from tabsynth.schema.dtypes import base_dtype

PANDAS, POLARS, PYARROW = LIBRARIES = ("pandas", "polars", "pyarrow")
CHOICES = ("fitted", *LIBRARIES)
PART_ROWS = 2**18  # of a DataFrame that are encoded at a time
_STAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]\[]{1,40}))?\]")
_DECIMAL = re.compile(r"decimal128\((\d{1,2}), (\d{1,2})\)")
_DICTIONARY = re.compile(r"dictionary<values=([^<>]+), indices=([^<>,]+), ordered=(0|1)>")
_SIMPLE = re.compile(
    r"null|u?int(8|16|32|64)|halffloat|float|double|bool|(large_)?string|string_view|date(32\[day\]|64\[ms\])"
    r"|time32\[(s|ms)\]|time64\[(us|ns)\]|duration\[(s|ms|us|ns)\]"
)
_YEARS = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")
_SECONDS = -62_135_596_800, 253_402_300_800  # from 1970 to the years 1 and 10000
_CATEGORICAL = "dictionary<values=string, indices=int32, ordered=0>"
_MOST_TEXT = 200
DECLARED = "tabsynth: types that the file declares"  # key of attrs


@lru_cache(maxsize=1)
def _nullable_dtypes() -> Mapping[Any, Any]:
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


def value_type(kind: Any) -> Any:
    """Return the Arrow type of a column's values: of dictionaries, that of what they list."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def column_from_arrow(values: Any, name: str) -> pd.Series:
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
        series = _converted(values).rename(name)
    except (pa.ArrowException, UnicodeDecodeError):
        if _is_text(values.type):
            raise InputError(
                f"Column {shown(name)} holds a text that is not valid UTF-8; correct it."
            ) from None
        raise InputError(
            f"Column {shown(name)} holds {shown(str(values.type))}, which pandas cannot hold; convert it"
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


def _numbers(values: Any) -> np.ndarray:
    """Return the whole numbers that an Arrow column of dates or times holds, shape (n,) int64; of nulls any."""
    import pyarrow as pa

    whole = pa.int32() if values.type.bit_width == 32 else pa.int64()
    return np.asarray(values.cast(whole).fill_null(0)).astype(np.int64)


def _dates(values: Any) -> np.ndarray:
    """Return Arrow dates as Python's, shape (n,) objects; as numpy's beyond the years that Python has."""
    unit = "D" if values.type.bit_width == 32 else "ms"
    days = _numbers(values).view(f"datetime64[{unit}]").astype("datetime64[D]")
    cells = days.astype(object)
    for row in np.flatnonzero((days < _YEARS[0]) | (days > _YEARS[1])):
        cells[row] = days[row]
    cells[np.asarray(values.is_null())] = None
    return cells


def _times(values: Any) -> np.ndarray:
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


def _converted(values: Any) -> pd.Series:
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


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return any(
        of(kind) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def table_from_arrow(table: Any) -> pd.DataFrame:
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
                f"The {what} has a column {shown(name)} whose name is no text; rename it, for example by"
                " df.columns = df.columns.map(str)."
            )


def to_pandas(table: Any, what: str = "table") -> pd.DataFrame:
    """Return a pandas DataFrame from any eager DataFrame that narwhals knows (polars, pyarrow, …).

    Whole numbers and booleans of Arrow data come in pandas' nullable dtypes, whether or not there is a null:
    see :func:`tabsynth.tables.frames.column_from_arrow`. Cells of objects become plain ones: see
    :func:`tabsynth.schema.column.with_plain_cells`. Other pandas columns are taken as they are.
    """
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


def parts_of(table: Any) -> Iterator[pd.DataFrame]:
    """Yield the rows of a DataFrame as :func:`to_pandas` has them, a part at a time."""
    frame = to_pandas(table)
    for start in range(0, max(1, len(frame)), PART_ROWS):
        yield frame.iloc[start : start + PART_ROWS]


def _is_foreign(dtype: Any) -> bool:
    """Return whether polars has a type that Arrow lacks."""
    if isinstance(dtype, nw.Struct):
        return any(_is_foreign(field.dtype) for field in dtype.fields)
    if isinstance(dtype, nw.List | nw.Array):
        return _is_foreign(dtype.inner)
    return dtype in (nw.Int128, nw.UInt128, nw.Object)


def arrow_type(text: str) -> Any:
    """Return the Arrow type that ``str`` of one gives; None for texts of other types than columns here have."""
    import pyarrow as pa

    if _SIMPLE.fullmatch(text):
        alias = text if "64[ms]" in text else text.removesuffix("[day]")
        return pa.type_for_alias(alias) if alias != "string_view" else pa.string_view()
    if match := _STAMP.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    if match := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(match[1]), int(match[2])) if 0 < int(match[1]) <= 38 else None
    if match := _DICTIONARY.fullmatch(text):
        values, indices = arrow_type(match[1]), arrow_type(match[2])
        if values is None or indices is None or not pa.types.is_integer(indices):
            return None
        return pa.dictionary(indices, values, match[3] == "1")
    return None


@dataclass(frozen=True)
class TableKind:
    """The kind of a DataFrame, apart from its rows.

    Attributes
    ----------
    library : {"pandas", "polars", "pyarrow"}
    types : dict of str
        By column, the Arrow type as text: of all columns of polars and pyarrow, of Arrow-backed ones of pandas.
    """

    library: str
    types: Mapping[str, str]

    @classmethod
    def of(cls, table: Any) -> Self:
        """Return the kind of a table of any library; other libraries than the three count as pandas."""
        import pyarrow as pa

        if isinstance(table, pd.DataFrame):
            backed = {
                str(name): str(dtype.pyarrow_dtype)
                for name, dtype in zip(table.columns, table.dtypes, strict=True)
                if isinstance(dtype, pd.ArrowDtype)
            }
            return cls(PANDAS, dict.fromkeys(backed, "null") | _known(backed))
        if isinstance(table, pa.Table):
            return cls(PYARROW, _known({f.name: str(f.type) for f in table.schema}))
        try:
            frame = nw.from_native(table, eager_only=True)
        except TypeError:
            return cls(PANDAS, {})
        if not frame.implementation.is_polars():
            return cls(PANDAS, {})
        known = [name for name, dtype in frame.schema.items() if not _is_foreign(dtype)]
        fields = frame.select(known).head(0).to_arrow().schema
        enums = {name for name in known if isinstance(frame.schema[name], nw.Enum)}
        types = {f.name: "enum" if f.name in enums else str(f.type) for f in fields}
        return cls(POLARS, _known(types))

    def for_columns(self, columns: Mapping[str, Column]) -> Self:
        """Return the kind with types that follow from a schema; texts of dtype ``category`` are in dictionaries.

        Programs infer types from rows: one fraction makes whole numbers reals, in polars as in pandas. Polars' enums stay.
        Of pandas, all columns are Arrow-backed where any is: programs convert only those whose cells are of one type.
        """
        types = {}
        for name in columns if self.library != PANDAS or self.types else ():
            column = columns[name]
            expected = _own_array(pd.Series([], dtype=column.dtype), column).type
            listed = base_dtype(column.dtype) == "category" and _is_text(expected)
            types[name] = _CATEGORICAL if listed else str(expected)
            if self.types.get(name) == "enum":
                types[name] = "enum"
        return type(self)(self.library, _known(dict(sorted(types.items()))))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {"library": self.library, "types": dict(self.types)}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Invert :meth:`to_dict`.

        Raises
        ------
        FileFormatError
        """
        types = data.get("types") if isinstance(data, dict) else None
        sound = (
            isinstance(types, dict)
            and data.get("library") in LIBRARIES
            and all(isinstance(n, str) and isinstance(t, str) for n, t in types.items())
            and _known(types) == types
        )
        if not sound:
            raise FileFormatError(f"No kind of table is {shown(data)}.")
        return cls(data["library"], dict(types or {}))


def _known(types: Mapping[str, str]) -> dict[str, str]:
    """Return the types that :func:`arrow_type` reads back."""
    return {
        name: text
        for name, text in types.items()
        if text == "enum" or (len(text) <= _MOST_TEXT and arrow_type(text) is not None)
    }


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
        A type of ``kind`` is used where it holds the values that the schema declares: what type a column gets never
        depends on the values drawn.

    Raises
    ------
    InputError
        If the library is not installed.
    """
    one_of("dataframe", choice, CHOICES)
    if choice == PANDAS or (choice == "fitted" and kind.library == PANDAS and not kind.types):
        return table
    library = kind.library if choice == "fitted" else choice
    arrays = {
        name: _array(table[name], columns[name], kind.types.get(name))
        for name in table.columns
        if library != PANDAS or name in kind.types
    }
    if library == PANDAS:
        out = table.copy(deep=False)
        for name, array in arrays.items():
            out[name] = pd.Series(pd.arrays.ArrowExtensionArray(array), index=table.index)
        out.attrs = table.attrs
        return out
    import pyarrow as pa

    whole = pa.table(arrays)
    if library == PYARROW:
        return whole
    try:
        return _polars(whole, columns, kind)
    except ModuleNotFoundError:
        raise InputError(
            "dataframe='polars' needs polars; install it, or take 'pandas' or 'pyarrow'."
        ) from None


def _polars(whole: Any, columns: Mapping[str, Column], kind: TableKind) -> Any:
    import polars as pl

    frame: Any = pl.from_arrow(whole)
    enums = {
        name: pl.Enum([str(value) for value in (*columns[name].categories, *columns[name].reasons)])
        for name, text in kind.types.items()
        if text == "enum" and name in whole.column_names and columns[name].categories
    }
    return frame.with_columns(pl.col(name).cast(enum) for name, enum in enums.items())


def _array(values: pd.Series, column: Column, text: str | None) -> Any:
    """Return values as Arrow array of the remembered type, or where that is no type of the column's, of their own."""
    import pyarrow as pa

    own = _own_array(values, column)
    wanted = None if text in (None, "enum") else arrow_type(text)
    if wanted is None or not _holds(wanted, column, own.type):
        return own
    try:
        if pa.types.is_dictionary(wanted):
            return own.cast(wanted.value_type).dictionary_encode().cast(wanted)
        return own.cast(wanted)
    except pa.ArrowException as error:
        raise InputError(
            f"Column {shown(column.name)} cannot be made {shown(text)} as in the fitted table: {error}; take"
            " dataframe='pandas'."
        ) from None


def period_texts(values: pd.Series) -> pd.Series:
    """Return periods as texts, because Arrow has no type for them."""
    return values.astype(object).map(str, na_action="ignore").astype("string")


def _own_array(values: pd.Series, column: Column) -> Any:
    """Return values of the column's dtype as an Arrow array, of a type that follows from the dtype alone."""
    import pyarrow as pa

    base = base_dtype(column.dtype)
    if base == "period":
        return pa.array(period_texts(values), pa.string())
    if base == "category":
        values = values.astype(object)
    if base in ("text", "category"):
        kinds = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
        fixed = kinds.get(column.value_type, pa.string())
        if column.kind in ("date", "time") and column.dtype == "object":
            fixed = pa.date32() if column.kind == "date" else pa.time64("us")
        if any(isinstance(reason, str) for reason in column.reasons) and fixed != pa.string():
            values, fixed = values.map(str, na_action="ignore"), pa.string()
        cells = values.astype(object)
        return pa.array(cells.where(values.notna(), None), fixed)
    return pa.array(values, from_pandas=True)


def _holds(wanted: Any, column: Column, own: Any) -> bool:
    """Return whether a type holds every value that the column declares; a function of the two alone."""
    import pyarrow as pa

    if pa.types.is_dictionary(wanted):
        if not column.categories:
            return False
        limit = {8: 2**7, 16: 2**15}.get(wanted.index_type.bit_width, 2**31)
        return column.size <= limit and _holds(wanted.value_type, column, own)
    if _is_text(own):
        return _is_text(wanted)
    read = str(column_from_arrow(pa.chunked_array([], type=wanted), column.name).dtype)
    if pa.types.is_integer(own) or pa.types.is_floating(own) or pa.types.is_boolean(own):
        same = pa.types.is_boolean(own) == pa.types.is_boolean(wanted)
        number = (
            pa.types.is_integer(wanted)
            if pa.types.is_integer(own)
            else pa.types.is_floating(wanted)
        )
        if pa.types.is_decimal(wanted):
            return False
        return same and (
            pa.types.is_boolean(wanted)
            or (number and wanted.bit_width >= own.bit_width and _signs(wanted, own))
        )
    if pa.types.is_timestamp(own) and pa.types.is_timestamp(wanted):
        return own.tz == wanted.tz and own.unit == wanted.unit
    dates = (pa.types.is_date, pa.types.is_time, pa.types.is_duration)
    return read != "" and any(of(own) and of(wanted) for of in dates)


def _signs(wanted: Any, own: Any) -> bool:
    import pyarrow as pa

    return bool(
        not pa.types.is_integer(own)
        or pa.types.is_signed_integer(wanted) == pa.types.is_signed_integer(own)
    )
