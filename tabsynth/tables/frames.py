"""DataFrames of any library as pandas DataFrames.

pyarrow's own conversion chooses the pandas dtype of a column by its values: whole numbers become float64 as
soon as one row is null, and numbers beyond 2**53 then change in every other row. Here the dtype follows from
the Arrow type alone.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import narwhals as nw
import pandas as pd

from tabsynth._validate import shown
from tabsynth.errors import InputError


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
    see :func:`tabsynth.tables.frames.column_from_arrow`. Other pandas columns are taken as they are.
    """
    if isinstance(table, pd.DataFrame):
        check_names(table, what)
        return without_arrow_dtypes(table)
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise InputError(f"The {what} must be a DataFrame, got {type(table).__name__}.") from None
    if frame.implementation.is_modin():  # pandas columns, which Arrow would read anew
        return without_arrow_dtypes(frame.to_pandas())
    return table_from_arrow(frame.to_arrow())
