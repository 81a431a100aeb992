"""DataFrame ⇄ category codes ⇄ network inputs, by the schema alone."""

import math
import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import Any, Literal

import category_encoders as ce
import numpy as np
import pandas as pd

from tabsynth._validate import native, one_of, shown
from tabsynth.errors import InputError
from tabsynth.schema.column import Column, base_dtype
from tabsynth.schema.schema import Schema, refuse_impossible, zeros
from tabsynth.tables.frames import check_exact, nulls_refused, outside, value_base, with_dtype

Head = Literal["softmax", "sigmoid"]


@dataclass(frozen=True, eq=False)
class Block:
    """The codes of one column.

    Attributes
    ----------
    column : str
    start, stop : int
        The block is ``codes[:, start:stop]``.
    head : {"softmax", "sigmoid"}
        What a network ends with to make such a block: a softmax where the code is one-hot, else a
        sigmoid per entry.
    codebook : ndarray, shape (size, stop - start), float32 in [0, 1]
        Row ``i`` is the code of the column's value number ``i``.
    """

    column: str
    start: int
    stop: int
    head: Head
    codebook: np.ndarray

    @property
    def size(self) -> int:
        """Number of values of the column."""
        return len(self.codebook)


@dataclass(frozen=True, eq=False)
class Layout:
    """The blocks of a table, side by side. A function of the schema and the scheme alone (R12)."""

    blocks: tuple[Block, ...]

    @property
    def width(self) -> int:
        """Length of a row of codes."""
        return self.blocks[-1].stop

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each column."""
        return tuple(block.size for block in self.blocks)

    def encode(self, index: np.ndarray) -> np.ndarray:
        """Codes, shape (n, width) float32, of value numbers, shape (n, columns)."""
        parts = [block.codebook[index[:, j]] for j, block in enumerate(self.blocks)]
        return np.concatenate(parts, axis=1)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Value numbers, shape (n, columns) int64, of the nearest codes; inverse of `encode`."""
        return np.stack([_nearest(b, codes[:, b.start : b.stop]) for b in self.blocks], axis=1)


def _nearest(block: Block, codes: np.ndarray, cells: int = 4_194_304) -> np.ndarray:
    """The value whose code is nearest in Euclidean distance (for one-hot codes: the largest)."""
    if block.head == "softmax":
        return codes.argmax(axis=1)
    book = block.codebook.astype(np.float64)
    norms = (book**2).sum(axis=1)
    chunk = max(1, cells // len(book))  # rows at a time: distances take at most 8 * cells bytes
    parts = [
        (norms - 2 * codes[i : i + chunk].astype(np.float64) @ book.T).argmin(axis=1)
        for i in range(0, len(codes), chunk)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


SCHEMES = ("one-hot", "ordinal", "binary", "base-4", "base-10")


def codebook(size: int, scheme: str) -> tuple[np.ndarray, Head]:
    """The code of each of ``size`` values, and the head that makes such codes.

    Parameters
    ----------
    size : int
    scheme : {"one-hot", "ordinal", "binary", "base-N"}
        ``ordinal``: one entry, the rank scaled to [0, 1]. ``binary`` and ``base-N``: the digits of
        the rank, each scaled to [0, 1].

    Returns
    -------
    codes : ndarray, shape (size, width), float32 in [0, 1]
        Rows are distinct, so that the nearest row decodes exactly.
    head : {"softmax", "sigmoid"}

    Codebooks are kept and shared, for an encoder is made many times in a fit: do not write to them.
    """
    if not (isinstance(scheme, str) and scheme.startswith("base-")):
        one_of("encoding", scheme, SCHEMES)
    return _codebook(size, scheme, _base(scheme))


@lru_cache(maxsize=64)
def _codebook(size: int, scheme: str, base: int) -> tuple[np.ndarray, Head]:
    if size == 1:
        return np.ones((1, 1), dtype=np.float32), "softmax"
    values = pd.DataFrame({"value": np.arange(size)})
    keep = {"cols": ["value"], "handle_unknown": "error", "handle_missing": "error"}
    with warnings.catch_warnings():
        # category-encoders 2.x still sets a pandas option that pandas 3 calls deprecated.
        warnings.filterwarnings("ignore", message=".*no_silent_downcasting")
        if scheme == "one-hot":
            codes = ce.OneHotEncoder(**keep).fit_transform(values).to_numpy()
            return codes.astype(np.float32), "softmax"
        if scheme == "ordinal":
            ranks = ce.OrdinalEncoder(**keep).fit_transform(values).to_numpy(dtype=float)
            return _scaled(ranks - ranks.min(), size - 1), "sigmoid"
        if scheme == "binary":
            return _scaled(ce.BinaryEncoder(**keep).fit_transform(values).to_numpy(), 1), "sigmoid"
        digits = ce.BaseNEncoder(base=base, **keep).fit_transform(values).to_numpy()
    return _scaled(digits, base - 1), "sigmoid"


def _scaled(digits: np.ndarray, top: int) -> np.ndarray:
    codes = (digits.astype(np.float64) / top).astype(np.float32)
    assert len(np.unique(codes, axis=0)) == len(codes)
    return codes


def _base(scheme: str) -> int:
    """The base of ``base-N``; 2 for the other schemes."""
    if not scheme.startswith("base-"):
        return 2
    text = scheme.removeprefix("base-")
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 2 <= int(text) <= 1_000:
        raise InputError(f"Expected encoding base-N with N in [2, 1000], got {scheme!r}.")
    return int(text)


DECIMALS = 12  # of numbers that are written as decimals; a third has more
MOST_DIGITS = 300  # that a decimal rounding may name
DUST = 1e-6  # of a step: what a number may lie off it, as 0.1 * 3 does


def steps_of_cells(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """The first step of each cell, and how many it has; shape (cells,) each."""
    assert column.low is not None and column.step is not None
    edges, step = column.edges(), column.step
    first = np.round((edges[:-1] + step / 2 - column.low) / step)
    return first, np.round(np.diff(edges) / step)


def numbers_at(column: Column, steps: np.ndarray | float) -> np.ndarray:
    """The numbers at some steps."""
    assert column.low is not None and column.step is not None
    # Decimal rounding takes off the dust of step * rank, e.g. 0.1 * 3.
    digits = max(_decimals(column.low), _decimals(column.step))
    if digits > DECIMALS:
        digits = min(12 + max(0, -math.floor(math.log10(column.step))), MOST_DIGITS)
    return np.round(column.low + column.step * np.asarray(steps), digits)


def _decimals(number: float) -> int:
    """How many a number has as it is written."""
    exponent = Decimal(repr(float(number))).normalize().as_tuple().exponent
    return max(0, -int(exponent))


def steps_between(column: Column, low: float, high: float) -> tuple[float, float]:
    """The first and the last step from one number to another, both included; first > last: none."""
    assert column.low is not None and column.step is not None
    dust = np.full(2, DUST * column.step)
    if column.dtype.lower() in ("float16", "float32"):  # whose 0.1 is a little more, or less
        dust += np.finfo(column.dtype.lower()).eps * np.abs([low, high])
    first, last = np.round((np.array([low, high]) - column.low) / column.step)
    first += numbers_at(column, first) < low - dust[0]
    last -= numbers_at(column, last) > high + dust[1]
    return float(first), float(last)


class Runs:
    """Some of a column's steps, in order, from runs of them: pairs of a first and a last step.

    They are not listed one by one: a column may have 2**52 of them.
    """

    def __init__(self, runs: Iterable[tuple[float, float]]) -> None:
        merged: list[list[float]] = []
        for first, last in sorted(runs):
            if merged and first <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], last + 1)
            else:
                merged.append([first, last + 1])
        self._ends = np.array(merged, dtype=np.float64)
        self._before = np.append(0.0, np.diff(self._ends).cumsum())  # steps of the runs before each

    def below(self, steps: np.ndarray) -> np.ndarray:
        """How many of them are below each of ``steps``."""
        counts = np.stack([self._before[:-1], self._before[1:]], axis=1)
        return np.interp(steps, self._ends.ravel(), counts.ravel())

    def at(self, places: np.ndarray) -> np.ndarray:
        """Those at some places, the first at place 0."""
        run = np.searchsorted(self._before, places, side="right") - 1
        return self._ends[run, 0] + places - self._before[run]


def _discrete_to_index(column: Column, values: pd.Series) -> np.ndarray:
    """Positions in ``column.categories``, null last; shape (n,) int64.

    Row by row: what one row holds never changes what another becomes (R3).

    Raises
    ------
    InputError
        Naming the column and the first value outside the declared domain, unless it has ``other``.
    """
    nulls = values.isna().to_numpy()
    if nulls.any() and not column.nulls:
        raise InputError(nulls_refused(column))
    codes, distinct = _distinct(column, values, nulls)
    short = _short_float(values.dtype)
    positions = {_key(value): i for i, value in enumerate(_in_dtype(column, values.dtype))}
    other = None if column.other is None else column.categories.index(column.other)
    table = np.empty(len(distinct) + 1, dtype=np.int64)
    table[-1] = len(column.categories)  # factorize marks a null by -1
    for i, value in enumerate(distinct):
        check_exact(column, native(value), short or "float64")
        place = positions.get(_key(value), other)
        if place is None:
            raise InputError(_outside(column, value))
        table[i] = place
    return table[codes]


def _distinct(
    column: Column, values: pd.Series, nulls: np.ndarray
) -> tuple[np.ndarray, Sequence[Any]]:
    """For each row the number of its value among the distinct ones, -1 for null; and these."""
    if values.dtype != object or pd.api.types.infer_dtype(values, skipna=True) == "string":
        return pd.factorize(values, use_na_sentinel=True)
    # Values of several types: by Python's equality, which is exact between whole numbers and floats.
    numbers: dict[Any, int] = {}
    distinct: list[Any] = []
    codes = np.full(len(values), -1, dtype=np.int64)
    cells = values.to_numpy()
    for row in np.flatnonzero(~nulls):
        value = cells[row]
        if not isinstance(value, Hashable):
            raise InputError(_outside(column, value))
        codes[row] = numbers.setdefault(_key(value), len(distinct))
        if codes[row] == len(distinct):
            distinct.append(value)
    return codes, distinct


def _discrete_from_index(column: Column, index: np.ndarray) -> pd.Series:
    """Inverse of :func:`to_index`: a Series of the column's dtype."""
    values = np.empty(len(column.categories) + 1, dtype=object)
    values[:-1] = column.categories
    values[-1] = None
    return with_dtype(column, values[index], index == len(column.categories))


def _short_float(dtype: Any) -> str | None:
    """``float16`` or ``float32``, for columns of such floats."""
    name = str(dtype).lower()
    return name if name in ("float16", "float32") else None


def _in_dtype(column: Column, dtype: Any) -> list[Any]:
    """The categories as the table's dtype has them: 0.1 is another number in float32."""
    if _short_float(dtype):
        return [
            value if isinstance(value, str) else dtype.type(value) for value in column.categories
        ]
    return list(column.categories)


def _key(value: Any) -> Any:
    """Equal for values that are the same fact: 1, 1.0 and numpy's 1, but not the text "1"."""
    value = native(value)
    return value if isinstance(value, str) else ("number", value)


def _outside(column: Column, value: Any) -> str:
    name = f"Column {shown(column.name)}"
    text = isinstance(value, str)
    if text != (value_base(column) == "text") and value_base(column) in ("text", "int", "float"):
        kind = "text" if value_base(column) == "text" else "numbers"
        return (
            f"{name} holds {shown(value)} where the schema declares {kind}; read the file with"
            " tabsynth.read_table, or convert the column with astype."
        )
    return outside(column, value)


def _numeric_to_index(column: Column, values: pd.Series) -> np.ndarray:
    """The cell of each value, null last; shape (n,) int64. Row by row (R3).

    Raises
    ------
    InputError
        Naming the column and the value: not a number, infinite, or outside the declared bounds
        (unless ``clip``).
    """
    if base_dtype(str(values.dtype)) not in ("int", "float"):
        # Value by value: unique() would take True for 1.0 where a row holds that as well.
        wrong = [value for value in values.dropna() if not _is_number(value)]
        if wrong:
            raise InputError(
                f"Column {shown(column.name)} holds {shown(wrong[0])} where the schema declares"
                " numbers; read the file with tabsynth.read_table, or convert the column with"
                " astype."
            )
        values = values.astype(object).where(values.notna(), np.nan)
    try:
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except OverflowError:
        raise InputError(
            f"Column {shown(column.name)} holds an integer beyond any float, of more than 300 digits;"
            " correct it."
        ) from None
    nulls = np.isnan(numbers)
    if nulls.any() and not column.nulls:
        raise InputError(nulls_refused(column))
    assert column.low is not None and column.high is not None
    known = np.where(nulls, column.low, numbers)
    low, high = _bounds(column, str(values.dtype))
    bad = np.isinf(known) if column.clip else (known < low) | (known > high)
    if bad.any():
        value = known[bad.argmax()]
        raise InputError(
            f"Column {shown(column.name)}: {value:g} is outside its declared bounds"
            f" [{column.low:g}, {column.high:g}]; correct it, widen the bounds, or declare"
            " clip=true."
        )
    if base_dtype(column.dtype) == "int" and (known % 1 != 0).any():
        value = known[(known % 1 != 0).argmax()]
        raise InputError(
            f"Column {shown(column.name)}: {value:g} is no whole number, and the schema declares dtype"
            f" {column.dtype}; round it, or declare float64."
        )
    known = np.clip(known, column.low, column.high)
    edges = column.edges()
    cells = np.clip(np.searchsorted(edges, known, side="right") - 1, 0, len(edges) - 2)
    return np.where(nulls, len(edges) - 1, cells).astype(np.int64)


def _bounds(column: Column, dtype: str) -> tuple[float, float]:
    """The declared bounds as a table of ``dtype`` has them: 0.1 is a little more in float32."""
    assert column.low is not None and column.high is not None
    if dtype.lower() not in ("float16", "float32"):
        return column.low, column.high
    short = np.array([column.low, column.high]).astype(dtype.lower()).astype(np.float64)
    return min(column.low, short[0]), max(column.high, short[1])


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _numeric_from_index(
    column: Column, index: np.ndarray, rng: np.random.Generator, asked: Runs | None = None
) -> pd.Series:
    """Uniform draws within each cell, on the declared resolution; a Series of the column's dtype.

    ``asked``: the only steps of a column with a resolution that are drawn; each cell of ``index`` has one.
    """
    assert column.low is not None and column.high is not None
    edges = column.edges()
    nulls = index == len(edges) - 1
    cell = np.where(nulls, 0, index)
    left, right = edges[cell], edges[cell + 1]
    if column.step is None:
        numbers = left + (right - left) * rng.random(len(index))
        numbers = np.minimum(numbers, np.nextafter(right, -np.inf))
        numbers = np.where(cell == len(edges) - 2, np.minimum(numbers, column.high), numbers)
    else:
        first, count = (of_cells[cell] for of_cells in steps_of_cells(column))
        if asked is None:
            steps = first + np.floor(rng.random(len(index)) * count)
        else:
            place, stop = asked.below(first), asked.below(first + count)
            steps = asked.at(place + np.floor(rng.random(len(index)) * (stop - place)))
        numbers = np.clip(numbers_at(column, steps), column.low, column.high)
    if base_dtype(column.dtype) == "int":
        whole = np.empty(len(index), dtype=object)
        whole[:] = [int(number) for number in np.round(numbers)]
        return with_dtype(column, whole, nulls)
    if column.dtype.lower() in ("float32", "float16"):
        numbers = _narrowed(numbers, column, left, right)
    return with_dtype(column, numbers.astype(object), nulls)


def _narrowed(
    numbers: np.ndarray, column: Column, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Numbers in the column's short floats, stepped back into the cell that rounding took them from."""
    short = numbers.astype(column.dtype.lower())
    over = (short >= right) | (short > column.high)
    short = np.where(over, np.nextafter(short, short.dtype.type(-np.inf)), short)
    under = (short < left) | (short < column.low)
    return np.where(under, np.nextafter(short, short.dtype.type(np.inf)), short)


# A one-hot codebook takes size² numbers; past this it is gigabytes.
MAX_ONE_HOT = 4_096
MAX_CODEBOOKS = 2**26  # numbers in the one-hot codebooks of all columns, those of one size once


class TableEncoder:
    """Encoder of tables of one schema.

    It has no ``fit``: everything it knows comes from the schema (R12).

    Parameters
    ----------
    schema : Schema
    encoding : str or dict of str
        The scheme of all columns (``one-hot``, ``ordinal``, ``binary``, ``base-N``), or a scheme by
        column name; columns not named are one-hot.

    Formal guarantees
    -----------------
    Data-independent: ``layout`` is the same for every table, and each row is encoded by itself.
    """

    def __init__(self, schema: Schema, encoding: str | Mapping[str, str] = "one-hot") -> None:
        self.schema = schema
        self.encoding = encoding
        schemes = (
            encoding if isinstance(encoding, Mapping) else dict.fromkeys(schema.names, encoding)
        )
        for name in schemes:
            if name not in schema.names:
                raise InputError(f"encoding names column {shown(name)}, which the schema lacks.")
        _check_one_hot([c for c in schema.columns if schemes.get(c.name, "one-hot") == "one-hot"])
        blocks, start = [], 0
        for column in schema.columns:
            scheme = schemes.get(column.name, "one-hot")
            book, head = codebook(column.size, scheme)
            blocks.append(Block(column.name, start, start + book.shape[1], head, book))
            start += book.shape[1]
        self.layout = Layout(tuple(blocks))
        self.zeros = zeros(schema.columns, schema.impossible)

    def to_index(self, table: pd.DataFrame, what: str = "table") -> np.ndarray:
        """Value numbers, shape (rows, columns) int64.

        Refuses what the schema does not declare, and rows that it declares impossible.
        """
        self.schema.check_columns(table, what)
        named = table.set_axis([str(name) for name in table.columns], axis=1)
        parts = [column_to_index(c, named[c.name]) for c in self.schema.columns]
        index = np.stack(parts, axis=1)
        refuse_impossible(self.schema.columns, self.zeros, index, what)
        return index

    def from_index(
        self,
        index: np.ndarray,
        rng: np.random.Generator,
        asked: Mapping[str, Runs] | None = None,
    ) -> pd.DataFrame:
        """A table of the schema's columns, order and dtypes; numeric cells are filled by ``rng``.

        ``asked``: by column, the only steps that fill its cells.
        """
        series = {}
        for j, column in enumerate(self.schema.columns):
            if column.kind == "numeric":
                series[column.name] = _numeric_from_index(
                    column, index[:, j], rng, (asked or {}).get(column.name)
                )
            else:
                series[column.name] = _discrete_from_index(column, index[:, j])
        return pd.DataFrame(series, columns=list(self.schema.names))

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Codes, shape (rows, layout.width) float32."""
        return self.layout.encode(self.to_index(table))

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        """Inverse of :meth:`encode`: exact for discrete columns, to the cell for numeric ones."""
        return self.from_index(self.layout.decode(codes), rng)


def _check_one_hot(columns: Sequence[Column]) -> None:
    """Refuse columns whose codebooks take too much memory; columns of one size share one."""
    sizes = {column.size: column.name for column in columns}
    for size, name in sizes.items():
        if size > MAX_ONE_HOT:
            raise InputError(
                f"Column {shown(name)} has {size} values, too many for one-hot codes (at most"
                f" {MAX_ONE_HOT}); declare the common ones, with 'other' for the rest, or fewer bins, or take"
                " a GAN and encode the column as binary or base-N."
            )
    if sum(size**2 for size in sizes) > MAX_CODEBOOKS:
        raise InputError(
            "The one-hot codes of all columns take too much memory; group values, or encode the largest"
            f" column, {shown(sizes[max(sizes)])}, as binary or base-N."
        )


def column_to_index(column: Column, values: pd.Series) -> np.ndarray:
    """Value numbers of one column, shape (n,) int64."""
    convert = _numeric_to_index if column.kind == "numeric" else _discrete_to_index
    return convert(column, values)
