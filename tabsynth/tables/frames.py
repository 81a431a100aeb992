"""DataFrames of any library as pandas DataFrames, and synthetic tables in the kind that a model was fitted to.

pyarrow's own conversion chooses the pandas dtype of a column by its values: whole numbers become float64 as
soon as one row is null, and numbers beyond 2**53 then change in every other row. Here the dtype follows from
the Arrow type alone.

What a model remembers of the table that it was fitted to are its library and how it stores texts. All other types follow
from the schema, because a program may have inferred them from rows.

A table that was read from a file carries the dtypes that follow from the types of the file. pandas infers dtypes from
rows, but it does not change this declaration: no edit of rows makes a dtype public.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import narwhals as nw
import pandas as pd

from tabsynth._validate import one_of, shown
from tabsynth.errors import FileFormatError, InputError
from tabsynth.schema.column import Column, base_dtype, with_plain_cells

PANDAS, POLARS, PYARROW = LIBRARIES = ("pandas", "polars", "pyarrow")
CHOICES = ("fitted", *LIBRARIES)
_STAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]\[]{1,40}))?\]")
_DECIMAL = re.compile(r"decimal128\((\d{1,2}), (\d{1,2})\)")
_DICTIONARY = re.compile(r"dictionary<values=([^<>]+), indices=([^<>,]+), ordered=(0|1)>")
_SIMPLE = re.compile(
    r"u?int(8|16|32|64)|halffloat|float|double|bool|(large_)?string|string_view|date(32\[day\]|64\[ms\])"
    r"|time32\[(s|ms)\]|time64\[(us|ns)\]|duration\[(s|ms|us|ns)\]"
)
_STORED = ("dictionary", "large_string")  # types that say how texts are stored
_MOST_TEXT = 200
DECLARED = "tabsynth: types that the file declares"  # key of attrs


@lru_cache(maxsize=1)
def _nullable_dtypes() -> Mapping[Any, Any]:
    """The pandas dtypes that hold each value and a null, by Arrow type."""
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
    """The Arrow type of a column's values: of dictionaries, that of what they list."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def column_from_arrow(values: Any, name: str) -> pd.Series:
    """An Arrow column as a pandas Series.

    Parameters
    ----------
    values : pyarrow.ChunkedArray
    name : str

    Returns
    -------
    Series, shape (n,)
        Whole numbers and booleans in pandas' nullable dtypes, whether or not there is a null; floats,
        texts and times as pyarrow converts them, which is value by value; decimals and dates as Python
        objects. Dictionaries are decoded.

    Raises
    ------
    InputError
        For a type that pandas cannot hold.

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
        series = values.to_pandas(types_mapper=_nullable_dtypes().get).rename(name)
    except pa.ArrowException:
        raise InputError(
            f"Column {shown(name)} holds {shown(str(values.type))}, which pandas cannot hold; convert it"
            " to text or numbers."
        ) from None
    # pandas infers the dtype of texts from their values: it is another one where all are null.
    if _is_text(values.type):
        return series.astype(pd.Series([""]).dtype)
    return with_plain_cells(series)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return any(
        of(kind) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def table_from_arrow(table: Any) -> pd.DataFrame:
    """A pyarrow Table as a DataFrame; see :func:`column_from_arrow`."""
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
    plain = [with_plain_cells(_without_arrow_dtype(values)) for values in columns]
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
    """InputError for columns whose names are no texts: a schema has texts, and no column is renamed silently."""
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
    """A pandas DataFrame from any eager DataFrame that narwhals knows (polars, pyarrow, …).

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
    return table_from_arrow(frame.to_arrow())


def arrow_type(text: str) -> Any:
    """The Arrow type that ``str`` of one gives; None for texts of other types than columns here have."""
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
    """What a DataFrame is, apart from its rows.

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
        """That of a table of any library; other libraries than the three count as pandas."""
        import pyarrow as pa

        if isinstance(table, pd.DataFrame):
            backed = {
                str(name): str(dtype.pyarrow_dtype)
                for name, dtype in zip(table.columns, table.dtypes, strict=True)
                if isinstance(dtype, pd.ArrowDtype)
            }
            return cls(PANDAS, _known(backed))
        if isinstance(table, pa.Table):
            return cls(PYARROW, _known({f.name: str(f.type) for f in table.schema}))
        try:
            frame = nw.from_native(table, eager_only=True)
        except TypeError:
            return cls(PANDAS, {})
        if not frame.implementation.is_polars():
            return cls(PANDAS, {})
        fields = frame.head(0).to_arrow().schema
        enums = {name for name, dtype in frame.schema.items() if isinstance(dtype, nw.Enum)}
        types = {f.name: "enum" if f.name in enums else str(f.type) for f in fields}
        return cls(POLARS, _known(types))

    def for_columns(self, columns: Mapping[str, Column]) -> Self:
        """Return the kind with types that follow from a schema, but for how texts are stored.

        Programs infer all other types from rows: one fraction makes whole numbers reals, in polars as in pandas.
        """
        types = {}
        for name in columns if self.library != PANDAS else self.types.keys() & columns.keys():
            column, text = columns[name], self.types.get(name, "")
            expected = _own_array(pd.Series([], dtype=column.dtype), column).type
            stored = text.startswith(_STORED) and _holds(arrow_type(text), column, expected)
            types[name] = text if stored or text == "enum" else str(expected)
        return type(self)(self.library, _known(dict(sorted(types.items()))))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"library": self.library, "types": dict(self.types)}

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Inverse of :meth:`to_dict`.

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
    """The types that :func:`arrow_type` reads back."""
    return {
        name: text
        for name, text in types.items()
        if text == "enum" or (len(text) <= _MOST_TEXT and arrow_type(text) is not None)
    }


def in_kind(
    table: pd.DataFrame, columns: Mapping[str, Column], kind: TableKind, choice: str
) -> Any:
    """A synthetic table in another library or in other types, with the same values.

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
    """Values as Arrow array of the remembered type, or where that is no type of the column's, of their own."""
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


def _own_array(values: pd.Series, column: Column) -> Any:
    """Values of the column's dtype as an Arrow array, of a type that follows from the dtype alone."""
    import pyarrow as pa

    base = base_dtype(column.dtype)
    if base == "period":
        return pa.array(values.astype(object).map(str, na_action="ignore"), pa.string())
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
    """Whether a type holds every value that the column declares; a function of the two alone."""
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
