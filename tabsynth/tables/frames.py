"""DataFrames of any library as pandas DataFrames, and their values as the schema declares them.

pyarrow's own conversion chooses the pandas dtype of a column by its values: whole numbers become float64 as
soon as one row is null, and numbers beyond 2**53 then change in every other row. Here the dtype follows from
the Arrow type alone.
"""

import math
import sys
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from tabsynth._validate import native, shown
from tabsynth.errors import InputError, one_line
from tabsynth.schema.column import Column, base_dtype
from tabsynth.tables.formulas import unescaped


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
        return values.to_pandas(types_mapper=_nullable_dtypes().get).rename(name)
    except pa.ArrowException:
        raise InputError(
            f"Column {shown(name)} holds {shown(str(values.type))}, which pandas cannot hold; convert it"
            " to text or numbers."
        ) from None


def table_from_arrow(table: Any) -> pd.DataFrame:
    """A pyarrow Table as a DataFrame; see :func:`column_from_arrow`."""
    parts = {
        i: column_from_arrow(table.column(i), name) for i, name in enumerate(table.column_names)
    }
    frame = pd.DataFrame(parts, index=pd.RangeIndex(table.num_rows))
    return frame.set_axis(list(table.column_names), axis=1)


def without_arrow_dtypes(frame: pd.DataFrame) -> pd.DataFrame:
    """A DataFrame with its Arrow-backed columns converted by :func:`column_from_arrow`.

    The same object where there are none.
    """
    if not any(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes):
        return frame
    parts = {j: _without_arrow_dtype(frame.iloc[:, j]) for j in range(frame.shape[1])}
    found = pd.DataFrame(parts, index=frame.index).set_axis(frame.columns, axis=1)
    found.attrs = frame.attrs
    return found


def _without_arrow_dtype(values: pd.Series) -> pd.Series:
    import pyarrow as pa

    if not isinstance(values.dtype, pd.ArrowDtype):
        return values
    held = pa.array(values.array)
    chunks = held.chunks if isinstance(held, pa.ChunkedArray) else [held]
    column = pa.chunked_array(chunks, type=values.dtype.pyarrow_dtype)
    return column_from_arrow(column, str(values.name)).set_axis(values.index)


_MOST = sys.float_info.max
_TRUE, _FALSE = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")


def to_pandas(table: Any, what: str = "table") -> pd.DataFrame:
    """A pandas DataFrame from any eager DataFrame that narwhals knows (polars, pyarrow, …).

    Whole numbers and booleans of Arrow data come in pandas' nullable dtypes, whether or not there is a null:
    see :func:`tabsynth.tables.frames.column_from_arrow`. Other pandas columns are taken as they are.
    """
    if isinstance(table, pd.DataFrame):
        return without_arrow_dtypes(table)
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise InputError(f"The {what} must be a DataFrame, got {type(table).__name__}.") from None
    if frame.implementation.is_modin():  # pandas columns, which Arrow would read anew
        return without_arrow_dtypes(frame.to_pandas())
    return table_from_arrow(frame.to_arrow())


def as_declared(column: Column, values: pd.Series, as_text: bool = False) -> pd.Series:
    """A column as read from a file, in the dtype that the schema declares.

    Each value is converted by itself; numbers never become texts.

    Raises
    ------
    InputError
        Naming the column and the value that the schema does not take.
    """
    if as_text:
        return parse_text(column, values)
    dtype, wanted = str(values.dtype), base_dtype(column.dtype)
    found = base_dtype(dtype)
    if dtype == column.dtype and wanted != "category":
        return values
    nulls = values.isna().to_numpy()
    cells = values.astype(object).to_numpy()
    if wanted in ("text", "category"):
        texts = column.dtype.lower() == "object" or all(isinstance(v, str) for v in cells[~nulls])
        if wanted == "text" and not texts:
            return values  # the encoder refuses what is no text, by name
        if wanted == "category" and column.other is not None:  # pandas would make nulls of others
            listed = nulls | values.isin(list(column.categories)).to_numpy()
            cells = np.where(listed, cells, column.other)
        return with_dtype(column, cells, nulls)
    if found == wanted == "bool" or (found == wanted == "int" and _all_within(column, values)):
        if nulls.any() and not column.nulls:
            raise InputError(nulls_refused(column))
        return values.astype(column.dtype)
    converted = np.empty(len(cells), dtype=object)
    converted[~nulls] = _each(cells[~nulls], lambda value: _declared(column, value, wanted), column)
    return with_dtype(column, converted, nulls)


def _each(cells: np.ndarray, convert: Callable[[Any], Any], column: Column) -> list[Any]:
    """Each cell converted, equal ones of one type once."""
    known: dict[Any, Any] = {}
    found = []
    for cell in cells:
        if not isinstance(cell, Hashable):  # a list, for example
            raise InputError(outside(column, cell))
        key = (type(cell), cell)
        if key not in known:
            known[key] = convert(cell)
        found.append(known[key])
    return found


def _declared(column: Column, value: Any, base: str) -> Any:
    """A value of Arrow data or of a counter, as a number or truth value of the column's base dtype."""
    value = native(value)
    if isinstance(value, str):
        return _parse(column, value, base)
    if isinstance(value, int | float | Decimal):
        check_exact(column, value)
        if base == "int" and math.isfinite(value) and value == int(value):
            return _within(column, int(value))
        if base == "float" and -_MOST <= value <= _MOST:
            return float(value)
        if base == "bool" and value in (0, 1):
            return bool(value)
    return _no_number(column, value, base)


def _all_within(column: Column, values: pd.Series) -> bool:
    """Whether all whole numbers fit the column's dtype."""
    known = values.dropna()
    limits = np.iinfo(column.dtype.lower())
    return (
        all(limits.min <= int(end) <= limits.max for end in (known.min(), known.max()))
        if len(known)
        else True
    )


def _within(column: Column, number: int) -> Any:
    """A whole number that fits the column's dtype; others go to ``other`` or, clipped, to a bound."""
    if base_dtype(column.dtype) != "int":
        return number
    limits = np.iinfo(column.dtype.lower())
    if limits.min <= number <= limits.max:
        return number
    if column.other is not None:
        return column.other
    if column.kind == "numeric" and column.clip:
        assert column.low is not None and column.high is not None
        return int(column.low if number < column.low else column.high)
    raise InputError(
        f"Column {shown(column.name)} does not fit dtype {column.dtype}: {shown(number)} is not in"
        f" [{limits.min}, {limits.max}]; correct the value, or declare another dtype."
    )


def check_exact(column: Column, value: Any, dtype: str = "float64") -> None:
    """Refuse a float that may be the rounding of another whole number than the category it equals.

    From 2**53 on, floats skip whole numbers (from 2**24 on in float32): where a table was read into floats,
    different codes have become one.

    Parameters
    ----------
    column : Column
    value : object
        Other types than floats pass.
    dtype : str
        The floats that the table held.

    Raises
    ------
    InputError
    """
    if not isinstance(value, float) or not math.isfinite(value):
        return
    kind = np.dtype(dtype).type
    if abs(value) < 2.0 ** (np.finfo(kind).nmant + 1) or value_base(column) != "int":
        return
    with np.errstate(over="ignore"):
        near = any(kind(number) == value for number in column.categories)
    if near:
        raise InputError(
            f"Column {shown(column.name)}: {shown(value)} is a float so large that it may stand for"
            " several whole numbers; read the column as Int64, or as text, not as floats."
        )


def parse_text(column: Column, texts: pd.Series) -> pd.Series:
    """Texts of one column (nulls as NaN) to the column's dtype.

    A text that is no number where one is declared is refused by column and value; where the column
    declares ``other``, it goes there.
    """
    nulls = texts.isna().to_numpy()
    base = value_base(column)
    known = column.positions
    distinct = {
        text: _parse(column, unescaped(text, known), base) for text in texts[~nulls].unique()
    }
    if column.dtype == "category" and column.other is not None:
        distinct = {t: v if v in known else column.other for t, v in distinct.items()}
    values = np.empty(len(texts), dtype=object)
    values[~nulls] = [distinct[text] for text in texts[~nulls]]
    values[nulls] = None
    return with_dtype(column, values, nulls)


def value_base(column: Column) -> str:
    """What the values of a column are: ``int``, ``float``, ``bool`` or ``text``."""
    base = base_dtype(column.dtype)
    if base != "category" and column.dtype.lower() != "object":
        return base
    kinds = {type(value) for value in column.categories}
    return next((k.__name__ for k in (float, int, bool) if k in kinds), "text")


def _parse(column: Column, text: str, base: str) -> Any:
    try:
        if base in ("int", "float"):
            number = float(text)
            # Python also reads 1_000, nan and inf, which no table means as a number.
            if "_" in text or math.isnan(number) or math.isinf(number):
                raise ValueError
            if base == "float":
                return number
            exact = Decimal(text.strip())  # a float may be the rounding of another whole number
            whole = int(exact)
            if exact != whole:
                raise ValueError
        elif base == "bool":
            if text not in _TRUE + _FALSE:
                raise ValueError
            return text in _TRUE
        else:
            return text
    except (ValueError, ArithmeticError):
        return _no_number(column, text, base)
    return _within(column, whole)


def _no_number(column: Column, value: Any, base: str) -> Any:
    """Where a value goes that is none of the column's base dtype: to ``other``, or it is refused."""
    if column.other is not None:
        return column.other
    kind = {"int": "a whole number", "float": "a number", "bool": "true or false"}[base]
    raise InputError(
        f"Column {shown(column.name)}: {shown(value)} is not {kind}; correct it, or add it to"
        " the schema's null_values if it stands for a missing value."
    )


def with_dtype(column: Column, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
    """A Series of the column's dtype from Python values; ``nulls`` is a mask, shape (n,)."""
    if nulls.any() and not column.nulls:
        raise InputError(nulls_refused(column))
    filled = values.copy()
    filled[nulls] = np.nan if base_dtype(column.dtype) == "float" else None
    if column.dtype == "category":
        return _of_categories(column, filled, nulls)
    try:
        return pd.Series(filled, dtype="object", name=column.name).astype(column.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"Column {shown(column.name)} does not fit dtype {column.dtype}: {one_line(error)};"
            " correct the value, or declare another dtype."
        ) from None


def _of_categories(column: Column, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
    """A Series of a category column; other values go to ``other``, or are refused.

    The places are looked up here: pandas would turn an unknown value into a null, and whole numbers into
    floats where there is a float among them.
    """

    def place(value: Any) -> int:
        check_exact(column, value)
        found = column.positions.get(value, column.positions.get(column.other))  # type: ignore[arg-type]
        if found is None:
            raise InputError(outside(column, value))
        return found

    codes = np.full(len(values), -1, dtype=np.int64)
    codes[~nulls] = _each(values[~nulls], place, column)
    dtype = pd.CategoricalDtype(list(column.categories), ordered=column.kind == "ordinal")
    return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), name=column.name)


def outside(column: Column, value: Any) -> str:
    """The one line for a value outside the declared categories."""
    return (
        f"Column {shown(column.name)}: {shown(value)} is outside its declared categories; correct"
        " it, declare it in the schema, or declare an 'other' category to take such values."
    )


def nulls_refused(column: Column) -> str:
    """The one line for a null where the schema allows none."""
    return (
        f"Column {shown(column.name)} has a null, and the schema allows none there; fill it, or"
        " declare nulls=true."
    )
