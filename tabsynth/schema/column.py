"""The base class of columns: public facts of a column, and what every kind of column can do with values and codes.

A kind is a subclass in a file of its own, registered by one line in ``tabsynth/schema/__init__.py``. Codes are
whole numbers from 0; null, where a column has nulls, is the last code.
"""

import dataclasses
import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from tabsynth._validate import check_text, native, one_of, shown
from tabsynth.errors import FileFormatError, InputError, one_line
from tabsynth.schema.number_texts import floats_of, one_group
from tabsynth.schema.placing import Placing
from tabsynth.tables.formulas import unescaped

Value = str | int | float | bool

PROVENANCES = ("declared", "drafted", "released")
COPIED = "copied_from_private_rows"
UNCHANGED = "declared, unchanged from a draft of the rows"  # provenance in words
MAX_CATEGORIES = 100_000
TRUE_TEXTS, FALSE_TEXTS = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")
LARGEST_FLOAT = float(np.finfo(np.float64).max)
# Whole numbers of fewer bits than that are floats.
_EXPONENT = math.frexp(LARGEST_FLOAT)[1]
_PLAIN = {
    bool, float, type(None), type(pd.NA), type(pd.NaT), np.datetime64, np.timedelta64,
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, pd.Timedelta,
}  # fmt: skip
# Values that tables may hold and schemas hardly declare; audits try them.
UNDECLARED_TEXT = "unheard of"
LONG_TEXT = "long " * 1000
LARGE_INTEGER = 2**53 + 1  # the first whole number that is no float
OBJECT = "<object>"  # the text of every list and other object


def base_dtype(dtype: str) -> str:
    """``"int"``, ``"float"``, ``"bool"``, ``"text"``, ``"category"``, ``"datetime"``, ``"timedelta"``, ``"period"``.

    ``"unsupported"`` for every other pandas dtype name.
    """
    name = dtype.lower()
    if re.match(r"u?int(\d|$)", name):  # and no interval
        return "int"
    if name.startswith(("float", "double")):
        return "float"
    if name.startswith("bool"):
        return "bool"
    if name == "category":
        return "category"
    if name in ("str", "string", "object"):
        return "text"
    if name.startswith(("datetime64", "timedelta64")):
        return name[: name.index("64")]
    return "period" if name.startswith("period[") else "unsupported"


def in_dtype(values: pd.Series, dtype: Any) -> pd.Series:
    """Values of dtype object in another one. pandas 2 has no dtype of texts, and writes missing ones as ``"None"``."""
    converted = values.astype(dtype)
    if dtype == "str" and converted.dtype == object:
        converted = converted.where(values.notna(), None)
    return converted


def with_nulls(dtype: str) -> str:
    """The dtype of the same values that holds missing ones, too."""
    if re.fullmatch(r"u?int\d+", dtype):
        return dtype.replace("int", "Int").replace("uI", "UI")
    return "boolean" if dtype == "bool" else dtype


def is_supported(dtype: Any) -> bool:
    """Whether a registered kind of column has a dtype, which is a text of at most 40 characters."""
    supported = {base for kind in KINDS.values() for base in kind.dtypes}
    return isinstance(dtype, str) and len(dtype) <= 40 and base_dtype(dtype) in supported


def check_dtype(dtype: Any, where: str) -> None:
    """InputError for a dtype that no registered kind of column has."""
    if not is_supported(dtype):
        raise InputError(
            f"{where}: dtype {shown(str(dtype))} is not supported; use text, whole numbers, reals,"
            " bool, category, datetime64, timedelta64 or period."
        )
    if not _is_pandas_dtype(dtype):
        raise InputError(f"{where}: pandas knows no dtype {shown(dtype)}.")


def check_range(dtype: str, where: str, low: Any, high: Any) -> None:
    """InputError for values between ``low`` and ``high`` that a dtype of whole numbers cannot hold."""
    match = re.match(r"(u?)int(\d+)", dtype.lower())
    if match is None:
        return
    limits = np.iinfo(match[0])
    if low < limits.min or high > limits.max:
        raise InputError(
            f"{where}: dtype {dtype} holds [{limits.min}, {limits.max}], and its values"
            f" are declared in [{low}, {high}]; use a wider dtype."
        )


@lru_cache(maxsize=256)
def _is_pandas_dtype(dtype: str) -> bool:
    try:
        pd.Series([], dtype=dtype)
    except TypeError:
        return False
    return True


def plain(value: Any) -> Any:
    """Return a cell's value in Python's own type, with None for NaN and ``pd.NA``."""
    value = native(value)
    nan = isinstance(value, float) and math.isnan(value)
    return None if value is pd.NA or nan else value


def is_range(value: Any) -> bool:
    """Whether a value of a condition is a range ``{"low": a, "high": b}``."""
    return isinstance(value, Mapping) and set(value) == {"low", "high"}


def range_ends(value: Mapping[str, Any]) -> tuple[Any, Any]:
    """Both ends of a range, in Python's own types."""
    return plain(value["low"]), plain(value["high"])


def is_null(value: Any) -> bool:
    """Whether a scalar stands for a missing value."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


@dataclass(frozen=True)
class OtherObject:
    """A cell that is no number, truth value or time, and no text that a file could hold.

    Attributes
    ----------
    text : str
        What the object is for people: valid Unicode.
    exact : bool
        Whether ``text`` is ``str`` of the object. Otherwise objects that differ may have the same text.
    cell : object
        The object.
    """

    text: str
    exact: bool
    cell: Any = field(compare=False)

    def __repr__(self) -> str:
        return self.text


def with_plain_cells(values: pd.Series) -> pd.Series:
    """Return a column of objects with cells that every conversion takes; the same Series where they are already.

    Returns
    -------
    Series, shape (n,)
        Texts, ``bool``, ``int`` and ``float`` within the range of 64-bit floats, finite ``Decimal``, missing values, and
        dates and times stay. Other numbers become these: of numbers beyond every float the largest float, of NaNs null.
        What is none of them, such as a list or a text that is not valid Unicode, becomes an :class:`OtherObject`, which no
        schema declares.

    Formal guarantees
    -----------------
    Each cell of the result is a function of the cell in its place.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        listed = pd.Series(values.dtype.categories)
        return (
            values
            if with_plain_cells(listed) is listed
            else with_plain_cells(values.astype(object))
        )
    if values.dtype != object and getattr(values.dtype, "storage", None) != "python":
        return values
    cells = values.to_numpy(dtype=object)
    if all(map(_is_plain, cells)):
        return values
    converted = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        converted[row] = cell if _is_plain(cell) else _plain(cell)
    return pd.Series(converted, index=values.index, name=values.name, dtype=object)


def _is_plain(cell: Any) -> bool:
    kind = type(cell)
    if kind is str:
        return cell.isascii() or _is_unicode(cell)
    if kind is int:
        return bool(cell.bit_length() < _EXPONENT)
    if kind is Decimal:
        return bool(cell.is_finite() and cell.adjusted() < 308)
    if kind is pd.Timestamp or kind is pd.Period:
        return 1 <= cell.year <= 9999
    return kind in _PLAIN


def _plain(cell: Any) -> Any:
    """Return what takes the place of a cell that is not plain."""
    if isinstance(cell, np.bool_):
        return bool(cell)
    if isinstance(cell, pd.Timestamp):
        return cell.to_datetime64()
    if isinstance(cell, Real | Decimal):
        return _number(cell)
    if isinstance(cell, str) and _is_unicode(cell):
        return str.__str__(cell)
    return _other(cell)


def _number(cell: Any) -> Any:
    """Return a number in Python's types; None for a NaN."""
    try:
        if isinstance(cell, Integral):
            integer = int(cell)
            return integer if _is_plain(integer) else math.copysign(LARGEST_FLOAT, integer)
        if isinstance(cell, Decimal) and cell.is_nan():
            return None
        number = float(cell)
    except OverflowError:  # of a fraction
        return LARGEST_FLOAT if cell > 0 else -LARGEST_FLOAT
    except Exception:  # of what people define
        return _other(cell)
    if math.isinf(number) and isinstance(cell, Decimal) and cell.is_finite():
        return math.copysign(LARGEST_FLOAT, number)
    return None if math.isnan(number) else number


def _other(cell: Any) -> OtherObject:
    if isinstance(cell, OtherObject):  # of a table that was converted before
        return cell
    try:
        text = str(cell)
    except Exception:  # of what people define, and of lists of long numbers
        return OtherObject(f"<{type(cell).__name__}>", False, cell)
    if _is_unicode(text):
        return OtherObject(text, True, cell)
    return OtherObject(text.encode("utf-8", "backslashreplace").decode(), False, cell)


def texts_of(values: pd.Series) -> np.ndarray:
    """The text of each cell by :func:`text_of`, shape (n,); None for a null."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        listed = texts_of(pd.Series(values.cat.categories))
        return np.array([*listed, None], dtype=object)[values.cat.codes]
    numeric = values.dtype.kind in "iuf"
    cells = floats_of(values) if numeric else values.to_numpy(dtype=object)
    texts = np.full(len(values), None, dtype=object)
    for row in np.flatnonzero(values.notna().to_numpy()):
        texts[row] = text_of(cells[row])
    return texts


def text_of(cell: Any) -> str:
    """The text of a cell by its value alone, whatever type a program chose for its column.

    A null beside 7 makes it 7.0, also as the end of an interval, and a decimal beside others has as many decimals as these.
    All lists and other objects have one text: the numbers in a list may have become floats for another row.
    """
    if isinstance(cell, OtherObject):
        if isinstance(cell.cell, str):
            return cell.text
        return text_of(cell.cell) if isinstance(cell.cell, pd.Interval) else OBJECT
    if isinstance(cell, pd.Interval):
        opening, closing = "[("[cell.open_left], "])"[cell.open_right]
        return f"{opening}{text_of(cell.left)}, {text_of(cell.right)}{closing}"
    if isinstance(cell, Real | Decimal) and not isinstance(cell, bool | np.timedelta64):
        number = float(cell)
        return str(int(number) if number.is_integer() and abs(number) < 2**64 else number)
    return str(cell)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_SHARED_FIRST = ("name", "kind", "dtype", "nulls")
_SHARED_LAST = ("missing", "provenance", "source", "description", "labels", COPIED)
_ALWAYS_WRITTEN = ("name", "kind", "dtype", "provenance")
JsonTypes = Mapping[str, type | tuple[type, ...]]


@dataclass(frozen=True, kw_only=True, init=False)
class Column:
    """One column of a table: its public facts, and the conversion of its values to codes and back.

    ``Column(kind="numeric", …)`` gives a :class:`~tabsynth.Numeric`; ``"categorical"`` and ``"ordinal"`` give a
    :class:`~tabsynth.Categorical` and an :class:`~tabsynth.Ordinal`. Each of these documents the facts of its
    own kind.

    Parameters
    ----------
    name : str
    kind : {"categorical", "ordinal", "numeric"}
    dtype : str
        The pandas dtype of the column in every table that comes out, e.g. ``"str"``, ``"int64"``,
        ``"Int64"``, ``"float64"``, ``"bool"``, ``"category"``.
    nulls : bool
        Whether the column may hold nulls.
    provenance : {"declared", "drafted", "released"}
        ``declared``: from a public source, named in ``source``. ``released``: by a private draft, which the budget paid
        for. ``drafted``: read off a table.
    copied_from_private_rows : sequence of str, optional
        Facts that stand as a draft read them off a table. Default: of a drafted column all facts that a draft reads, of
        others none. A declared column that has some is `declared, unchanged from a draft of the rows`, which
        certificates and their statements say.
    source : str, optional
        The public source of the facts.
    missing : dict, optional
        Reasons for missing that are kept apart: from the text or number that stands for one in tables, as text, to
        what it means, such as ``{"-8": "refused"}``. Each has a code of its own and is never an amount; see
        :mod:`tabsynth.schema.missing`.
    description, labels : optional
        What the column and its values mean, for people and reports. ``labels`` is a dict from values, as text,
        to texts.
    **facts
        The facts of the kind.

    Raises
    ------
    InputError
        For facts that contradict each other, or that the kind does not have.

    Notes
    -----
    A new kind is a frozen, keyword-only dataclass that extends this class. It sets the class attributes below,
    defines the methods in ``REQUIRED``, and overrides what differs from the default of the others.

    * ``kind``: the kind's name, as the default of the field.
    * ``dtypes``: the dtypes that it may have, in terms of :func:`base_dtype`.
    * ``json_types``: by the name of each fact of its own, the types of its value in a schema file.
    * ``copied_facts``: names of facts that a draft reads off rows.
    * ``ordered``: whether codes have an order, so that neighbours are alike and ranges mean something.
    * ``quantitative``: whether values are amounts, which can be added up.
    * ``learned``: whether synthesizers read the column.

    Formal guarantees
    -----------------
    :meth:`parse`, :meth:`convert` and :meth:`encode` work value by value: what one row holds never changes
    what another becomes. All that they know comes from the declared facts.
    """

    name: str
    kind: str = ""
    dtype: str
    nulls: bool = False
    provenance: Literal["declared", "drafted", "released"] = "declared"
    source: str | None = None
    description: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    copied_from_private_rows: Sequence[str] | None = None

    dtypes: ClassVar[tuple[str, ...]] = ()
    json_types: ClassVar[JsonTypes] = {}
    copied_facts: ClassVar[tuple[str, ...]] = ()
    ordered: ClassVar[bool] = False
    quantitative: ClassVar[bool] = False
    learned: ClassVar[bool] = True

    def __new__(cls, **facts: Any) -> "Column":
        if cls is not Column:
            return object.__new__(REASONED[0](cls) if facts.get("missing") else cls)
        where = f"column {shown(facts.get('name'))}"
        kind = KINDS[one_of(f"kind of {where}", facts.get("kind"), KINDS)]
        field_names = [f.name for f in dataclasses.fields(kind)]
        for name in facts:
            if name not in field_names:
                raise InputError(
                    f"{where}: a column of kind {kind.kind} has no {name}; its facts are"
                    f" {', '.join(field_names)}."
                )
        return object.__new__(REASONED[0](kind) if facts.get("missing") else kind)

    def __post_init__(self) -> None:
        where = f"column {shown(self.name)}"
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"A column's name must be text, got {shown(self.name)}.")
        one_of(f"kind of {where}", self.kind, (type(self).kind,))
        one_of(f"provenance of {where}", self.provenance, PROVENANCES)
        check_dtype(self.dtype, where)
        if self.nulls and (re.fullmatch(r"u?int\d+", self.dtype) or self.dtype == "bool"):
            raise InputError(
                f"{where}: dtype {self.dtype} cannot hold the nulls that it declares; use"
                f" {with_nulls(self.dtype)}."
            )
        labels = [text for pair in self.labels.items() for text in pair]
        for text in (self.name, self.source, self.description, *labels):
            check_text(where, text)
        if base_dtype(self.dtype) not in self.dtypes:
            raise InputError(
                f"{where}: a {self.kind} column cannot have dtype {shown(self.dtype)}."
            )
        self._check(where)
        stated = self.copied_from_private_rows
        if stated is not None:
            if not isinstance(stated, list | tuple) or not all(isinstance(n, str) for n in stated):
                raise InputError(
                    f"{where}: expected {COPIED} to be a list of facts, got {shown(stated)}."
                )
            copied = tuple(name for name in self._copied_facts() if name in stated)
            default = self._copied_facts() if self.provenance == "drafted" else ()
            stated = None if copied == default or self.provenance == "released" else copied
            object.__setattr__(self, COPIED, stated)

    # What a kind must define.

    def _check(self, where: str) -> None:
        """InputError, beginning with ``where``, for facts of the kind that contradict each other."""
        raise NotImplementedError

    @property
    def cells(self) -> int:
        """Number of codes without that of null."""
        raise NotImplementedError

    def label(self, code: int) -> str:
        """What a code stands for, for people."""
        raise NotImplementedError

    def domain(self, limit: int = 8) -> str:
        """What values the column has, for people; of a list, at most ``limit`` values."""
        raise NotImplementedError

    def encode(self, values: pd.Series) -> np.ndarray:
        """Codes of values, shape (n,) int64.

        Raises
        ------
        InputError
            Naming the column and the first value that it does not declare.
        """
        raise NotImplementedError

    def decode(self, codes: np.ndarray, rng: np.random.Generator, within: Any = None) -> pd.Series:
        """Values of codes, shape (n,), in the column's dtype.

        ``rng`` draws a value of those that a code stands for; ``within``, from :meth:`restriction`, limits
        which.
        """
        raise NotImplementedError

    # What most kinds take as it is.

    def placing(self, held: str) -> Placing | None:
        """How a database finds the codes of values that it holds in a type.

        Parameters
        ----------
        held : {"int", "float32", "float64", "bool", "text", "date", "datetime", "datetime with zone", "time", "duration"}
            Whole numbers have at most 64 bits; instants are exact to a microsecond or less exact.

        Returns
        -------
        Cells, Listed or None
            Codes of all values but null, the same as :meth:`encode` gives them. None: only :meth:`encode` can say it.
        """
        return None

    @property
    def categories(self) -> tuple[Value, ...]:
        """The values that the column lists, in the order of their codes; empty where it lists none."""
        return ()

    @property
    def other(self) -> Value | None:
        """The value that takes undeclared ones, if there is one."""
        return None

    @cached_property
    def positions(self) -> dict[Value, int]:
        """The code of each listed value."""
        return {value: code for code, value in enumerate(self.categories)}

    @property
    def written(self) -> tuple[Value, ...]:
        """The values that the schema lists for the column, none of which a text for null may be."""
        return self.categories

    @property
    def reasons(self) -> tuple[Any, ...]:
        """What stands for each reason for missing in tables; their codes come before that of null."""
        return ()

    @property
    def size(self) -> int:
        """Number of codes, those of reasons for missing and of null included."""
        return self.cells + int(self.nulls)

    @property
    def value_type(self) -> str:
        """Of what type values are: ``int``, ``float``, ``bool`` or ``text``."""
        return base_dtype(self.dtype)

    def strict(self) -> Self:
        """The column that takes declared values only, and nothing in place of others."""
        return self

    def scores(self) -> np.ndarray | None:
        """A number for each code, shape (size,), NaN for null: ranks. None where codes have no order."""
        return self._with_null(np.arange(self.cells, dtype=float)) if self.ordered else None

    def _with_null(self, numbers: np.ndarray) -> np.ndarray:
        return np.append(numbers, np.nan) if self.nulls else numbers

    def axis(self) -> tuple[str, np.ndarray] | None:
        """The kind of axis that the values have, and the edges of the codes on it, shape (cells + 1,).

        ``number``: numbers. ``date``: days since 1970 in UTC. ``time``: hours since midnight. ``duration``: hours.
        None for a column whose codes have no width.
        """
        return None

    def groups(self, shares: np.ndarray, least: float, merged: float) -> np.ndarray:
        """The number of the group of each code, shape (size,), for coarser counts.

        Parameters
        ----------
        shares : ndarray, shape (size,)
            Released shares of rows.
        least : float
            The share of the rows that a group should have.
        merged : float
            Without an order: the largest share of the rows that may be merged.
        """
        if not self.ordered:
            return merge_rare(shares, least, merged)
        groups = np.empty(self.size, dtype=np.int64)
        groups[: self.cells] = _merge_neighbours(shares[: self.cells], least)
        groups[self.cells :] = groups[: self.cells].max(initial=-1) + 1
        return groups

    def edge_cases(self, counts: np.ndarray, above: bool) -> dict[str, Any]:
        """Values that a record may have to test code that reads tables.

        Parameters
        ----------
        counts : ndarray, shape (size,)
            How many rows have each code.
        above : bool
            Where two values would do: the larger one.

        Returns
        -------
        dict
            ``outlier``: a rare or extreme declared value. ``lowest``, ``highest``: the ends of an order.
            ``undeclared``, ``extreme``: a value outside the declared ones, and one that few types hold, where the
            column takes undeclared values. A key is missing where there is no such value.
        """
        return {}

    # A column beside it, where codes leave open what should be learned.

    @property
    def detail(self) -> "Column | None":
        """One more modelled column, of what the codes do not say; None where there is none."""
        return None

    def detail_codes(self, values: pd.Series) -> np.ndarray:
        """Codes of :attr:`detail`, shape (n,), of values in the column's dtype."""
        raise NotImplementedError

    def detail_possible(self) -> np.ndarray:
        """Whether a code has a value of each code of :attr:`detail`, bool, shape (size, detail.size)."""
        raise NotImplementedError

    def decode_detailed(
        self, codes: np.ndarray, details: np.ndarray, rng: np.random.Generator, within: Any = None
    ) -> pd.Series:
        """As :meth:`decode`, of values that are as the codes of :attr:`detail` say, where a code has any."""
        raise NotImplementedError

    def detail_restriction(self, values: Sequence[Any]) -> np.ndarray | None:
        """Beside :meth:`restriction`: which codes of :attr:`detail` a condition allows; None for all."""
        return None

    def labelled(self, text: str) -> str:
        """What ``labels`` says of a value that is written as ``text``; ``text`` itself if they say nothing.

        Where they say the same of several values, the value follows.
        """
        label = self.labels.get(text, text)
        return label if label == text or not self._shared(label) else f"{label} ({text})"

    def _shared(self, label: str) -> bool:
        return sum(other == label for other in self.labels.values()) > 1

    # Amounts, for rules between columns.

    def amounts(self, values: pd.Series) -> np.ndarray:
        """Values as numbers, shape (n,) float64, NaN for null: of dates days, of other times their resolution.

        Raises
        ------
        InputError
            For a column whose values are no amounts.
        """
        if self.value_type not in ("int", "float", "bool"):
            raise InputError(
                f"Column {shown(self.name)} holds no numbers, dates or times; a rule cannot compute with it."
            )
        return values.astype(object).where(values.notna(), np.nan).to_numpy(dtype=float)

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Values of amounts, shape (n,); NaN becomes null. Amounts outside the bounds become the nearest bound."""
        raise InputError(
            f"Column {shown(self.name)} of kind {self.kind} cannot be computed from others by an expression;"
            " declare a table."
        )

    def code_amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest amount of each code, shape (cells,) each."""
        numbers = self.amounts(pd.Series(list(self.categories), dtype=object))
        return numbers, numbers

    @property
    def amount_step(self) -> float | None:
        """The step between amounts; None where any real number is one."""
        return 1.0 if self.value_type in ("int", "bool") else None

    # Conditions and combinations of values.

    def code_of(self, value: Any, argument: str = "where", null: str = "") -> int:
        """The code of one declared value.

        Raises
        ------
        InputError
            For an undeclared value; it names ``argument``, and ``null`` as what asks for a null.
        """
        cell = np.empty(1, dtype=object)
        cell[0] = value
        try:
            return int(self.strict().encode(pd.Series(cell, dtype=object))[0])
        except InputError:
            raise self.has_no(value, argument, null) from None

    def has_no(self, value: Any, argument: str = "where", null: str = "") -> InputError:
        """The error for an undeclared value or range of a condition."""
        null = f" (null: {null})" if null and self.nulls else ""
        what = f"value {shown(value)}"
        if is_range(value):
            what = f"value from {value['low']} to {value['high']}"
        return InputError(
            f"{argument}: column {shown(self.name)} has no {what}; it has {self.domain()}{null}."
        )

    def declared_codes(self, values: Sequence[Any], where: str) -> np.ndarray:
        """Codes that listed values, none of them null, fill; int64.

        Raises
        ------
        InputError
            For an undeclared value, and for values that fill a part of a code.
        """
        return np.array([self.declared_code(value, where) for value in values], dtype=np.int64)

    def declared_code(self, value: Any, where: str) -> int:
        """The code of one value of a combination or an end of a range."""
        try:
            return int(self.strict().encode(pd.Series([value], dtype=object))[0])
        except InputError:
            raise self._undeclared(value, where) from None

    def _undeclared(self, value: Any, where: str) -> InputError:
        return InputError(f"{where}: it has no value {shown(value)}; it has {self.domain()}.")

    def code_range(self, low: Any, high: Any, where: str) -> tuple[int, int]:
        """The first and the last code of a range of values, both ends included.

        Raises
        ------
        InputError
            For a column without an order, an undeclared end, and a range that cuts through a code.
        """
        if not self.ordered:
            raise InputError(f"{where}: a {self.kind} column has no order; list the values.")
        first, last = self.declared_code(low, where), self.declared_code(high, where)
        if first > last:
            raise InputError(f"{where}: low={shown(low)} is above high.")
        return first, last

    def mask(self, values: Any, where: str) -> np.ndarray:
        """Which codes a list of values (None for null) or a range means, bool, shape (size,)."""
        mask = np.zeros(self.size, dtype=bool)
        if isinstance(values, Mapping):
            if not is_range(values):
                raise InputError(
                    f"{where}: expected a range with low and high, got {shown(dict(values))}; give both ends."
                )
            first, last = self.code_range(values["low"], values["high"], where)
            mask[first : last + 1] = True
            return mask
        declared = [value for value in values if value is not None]
        if len(declared) < len(values):
            if not self.nulls:
                raise InputError(f"{where}: it has no nulls; take None out, or declare nulls=true.")
            mask[-1] = True
        if declared:
            mask[self.declared_codes(declared, where)] = True
        return mask

    def restriction(self, values: Sequence[Any]) -> tuple[np.ndarray, Any]:
        """What a condition, any of some values and ranges, leaves of each code.

        Returns
        -------
        shares : ndarray, shape (size,)
            The share of each code's values that the condition allows: bool, or float in [0, 1].
        within : object
            For :meth:`decode`; None where each code is allowed as a whole or not.
        """
        allowed = np.zeros(self.size, dtype=bool)
        where = f"where: column {shown(self.name)}"
        for value in values:
            if is_range(value):
                first, last = self.code_range(*range_ends(value), where)
                allowed[first : last + 1] = True
            else:
                allowed[self.code_of(value)] = True
        return allowed, None

    def satisfies(self, values: pd.Series, shares: np.ndarray, within: Any) -> np.ndarray:
        """Which values, all of them declared, are among those that :meth:`restriction` leaves; bool, shape (n,)."""
        return np.asarray(shares[self.encode(values)] > 0)

    def stated(self, value: Any) -> Any:
        """A value or range of a condition as a certificate names it, JSON-ready: None for null."""
        if is_range(value):
            return dict(zip(("low", "high"), range_ends(value), strict=True))
        return None if is_null(value) else plain(value)

    def keep_given(self, decoded: pd.Series, given: pd.Series, where: np.ndarray) -> pd.Series:
        """Decoded values, with the given ones back where the mask ``where`` is True.

        Only kinds whose codes stand for several values have anything to put back.
        """
        return decoded

    # Values of files and tables.

    def parse(self, texts: pd.Series) -> pd.Series:
        """Texts of a file (nulls as NaN) in the column's dtype.

        Raises
        ------
        InputError
            Naming the column and a text that is no value of the dtype, unless the column has ``other``.
        """
        nulls = texts.isna().to_numpy()
        positions = self.positions
        distinct = {
            text: self._parse_text(unescaped(text, positions)) for text in texts[~nulls].unique()
        }
        values = np.empty(len(texts), dtype=object)
        values[~nulls] = [distinct[text] for text in texts[~nulls]]
        values[nulls] = None
        return self.to_series(values, nulls)

    def _parse_text(self, text: str) -> Any:
        base = self.value_type
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
                if text not in TRUE_TEXTS + FALSE_TEXTS:
                    raise ValueError
                return text in TRUE_TEXTS
            else:
                return text
        except (ValueError, ArithmeticError):
            return self._not_of_type(text)
        return self._within_dtype(whole)

    def convert(self, values: pd.Series) -> pd.Series:
        """Values of a file with types, or of a counter, in the column's dtype; numbers never become texts.

        Raises
        ------
        InputError
            Naming the column and the value that the schema does not take.
        """
        dtype, wanted = str(values.dtype), base_dtype(self.dtype)
        if dtype == self.dtype:
            return values
        nulls = values.isna().to_numpy()
        cells = values.astype(object).to_numpy()
        if wanted == "text":
            texts = self.dtype.lower() == "object" or all(isinstance(v, str) for v in cells[~nulls])
            # The encoder refuses what is no text, by name.
            return self.to_series(cells, nulls) if texts else values
        given = base_dtype(dtype)
        if given == wanted == "bool" or (given == wanted == "int" and self._all_within(values)):
            self.check_nulls(nulls)
            return values.astype(self.dtype)
        converted = np.empty(len(cells), dtype=object)
        converted[~nulls] = self._each(cells[~nulls], self._convert_value)
        return self.to_series(converted, nulls)

    def _each(self, cells: np.ndarray, convert: Callable[[Any], Any]) -> list[Any]:
        """Each cell converted, equal ones of one type once."""
        converted: dict[Any, Any] = {}
        out = []
        for cell in cells:
            key = (type(cell), cell)
            try:
                hash(key)
            except TypeError:  # of a list, for example
                raise self._outside(cell) from None
            if key not in converted:
                converted[key] = convert(cell)
            out.append(converted[key])
        return out

    def _convert_value(self, value: Any) -> Any:
        """A value as a number or truth value of the column's dtype."""
        base = base_dtype(self.dtype)
        value = native(value)
        if isinstance(value, str):
            return self._parse_text(value)
        if isinstance(value, int | float | Decimal):
            self._check_exact(value)
            finite = isinstance(value, int) or math.isfinite(value)
            if base == "int" and finite and value == int(value):
                return self._within_dtype(int(value))
            if base == "float" and finite:
                largest = float(np.finfo(self.dtype.lower()).max)
                if -largest <= value <= largest:
                    return float(value)
                substitute = self._substitute(value)
                return self._not_of_type(value) if substitute is None else substitute
            if base == "bool" and value in (0, 1):
                return bool(value)
        return self._not_of_type(value)

    def _check_exact(self, value: Any, dtype: str = "float64") -> None:
        """InputError for a float that may stand for several listed values; others pass."""

    def _all_within(self, values: pd.Series) -> bool:
        """Whether all whole numbers fit the column's dtype."""
        present = values.dropna()
        limits = np.iinfo(self.dtype.lower())
        return len(present) == 0 or all(
            limits.min <= int(end) <= limits.max for end in (present.min(), present.max())
        )

    def _within_dtype(self, number: int) -> Any:
        """A whole number that fits the column's dtype, or what the column takes in its place."""
        if base_dtype(self.dtype) != "int":
            return number
        limits = np.iinfo(self.dtype.lower())
        if limits.min <= number <= limits.max:
            return number
        substitute = self._substitute(number)
        if substitute is None:
            raise InputError(
                f"Column {shown(self.name)} does not fit dtype {self.dtype}: {shown(number)} is not in"
                f" [{limits.min}, {limits.max}]; correct the value, or declare another dtype."
            )
        return substitute

    def _substitute(self, number: Any) -> Any:
        """Return what stands for a number that the dtype cannot hold; None if it is refused."""
        return self.other

    def _not_of_type(self, value: Any) -> Any:
        """``other`` for a value of another type than the column's, or InputError."""
        if self.other is not None:
            return self.other
        if isinstance(value, str) and one_group(value):
            raise InputError(
                f"Column {shown(self.name)}: {shown(value)} may be a whole number or a fraction; name the decimal mark"
                " with --decimal, or as 'decimal' in the schema."
            )
        types = {"int": "a whole number", "float": "a number", "bool": "true or false"}
        wanted = types.get(self.value_type, f"a value of kind {self.kind}")
        raise InputError(
            f"Column {shown(self.name)}: {shown(value)} is not {wanted}; correct it, or add it to"
            " the schema's null_values if it stands for a missing value."
        )

    def to_series(self, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
        """A Series of the column's dtype from Python values, shape (n,); ``nulls`` is a mask."""
        self.check_nulls(nulls)
        filled = values.copy()
        filled[nulls] = np.nan if base_dtype(self.dtype) == "float" else None
        return self._as_dtype(filled, nulls)

    def _as_dtype(self, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
        try:
            return in_dtype(pd.Series(values, dtype="object", name=self.name), self.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"Column {shown(self.name)} does not fit dtype {self.dtype}: {one_line(error)};"
                " correct the value, or declare another dtype."
            ) from None

    def check_nulls(self, nulls: np.ndarray) -> np.ndarray:
        """The mask of nulls, shape (n,), as it is; InputError where it has one and the column allows none."""
        if nulls.any() and not self.nulls:
            raise InputError(
                f"Column {shown(self.name)} has a null, and the schema allows none there; fill it, or"
                " declare nulls=true."
            )
        return nulls

    def _outside(self, value: Any) -> InputError:
        return InputError(
            f"Column {shown(self.name)}: {shown(value)} is outside its declared categories; correct"
            " it, declare it in the schema, or declare an 'other' category to take such values."
        )

    # Schema files.

    def _copied_facts(self) -> tuple[str, ...]:
        """Return the facts that a draft of the column reads off rows."""
        facts = (name for name in self.copied_facts if getattr(self, name) not in (None, ()))
        return (*facts, "dtype", "nulls")

    @property
    def copied(self) -> tuple[str, ...]:
        """The facts that stand as a draft read them off the rows of a table."""
        if self.copied_from_private_rows is not None:
            return tuple(self.copied_from_private_rows)
        return self._copied_facts() if self.provenance == "drafted" else ()

    @property
    def provenance_in_words(self) -> str:
        """The provenance, with the facts of a declared column that no person has changed since a draft."""
        if self.provenance != "declared" or not self.copied:
            return self.provenance
        return f"{UNCHANGED} ({', '.join(self.copied)})"

    @classmethod
    def fact_names(cls) -> list[str]:
        """Keys of a column in a schema file, in their order."""
        own = [f.name for f in dataclasses.fields(cls)]
        shared = {*_SHARED_FIRST, *_SHARED_LAST}
        return [*_SHARED_FIRST, *(name for name in own if name not in shared), *_SHARED_LAST]

    def to_dict(self, *, copied: bool = True) -> dict[str, Any]:
        """Return the facts that are no defaults, JSON-ready.

        ``copied``: with :attr:`copied`, also where it follows from the provenance.
        """
        out: dict[str, Any] = {}
        defaults = {f.name: f.default for f in dataclasses.fields(self)}
        for name in self.fact_names():
            value = getattr(self, name)
            default = {} if name in ("labels", "missing") else defaults[name]
            if name in _ALWAYS_WRITTEN or value != default:
                if isinstance(value, tuple):
                    value = list(value)
                out[name] = dict(value) if default == {} else value
        if copied and self.copied:
            out[COPIED] = list(self.copied)
        return out

    @classmethod
    def _check_json(cls, item: Mapping[str, Any], where: str) -> None:
        """FileFormatError, beginning with ``where``, for a fact of the kind of a wrong form."""


def merge_rare(shares: np.ndarray, least: float, merged: float) -> np.ndarray:
    """Groups of codes without an order, shape (size,): rare codes, together at most ``merged`` of the rows, with rare neighbours.

    Codes of a classification are often declared in its order, so that neighbours are alike; where they are not, such groups are as good as others.
    """
    order = np.argsort(shares, kind="stable")
    rare = np.sort(order[(shares[order] < least) & (shares[order].cumsum() <= merged)])
    kept = np.setdiff1d(np.arange(len(shares)), rare)
    groups = np.empty(len(shares), dtype=np.int64)
    groups[kept] = np.arange(len(kept))
    groups[rare] = len(kept) + _merge_neighbours(shares[rare], least)
    return groups


def _merge_neighbours(shares: np.ndarray, least: float) -> np.ndarray:
    """Groups of neighbouring codes that have at least ``least`` of the rows each."""
    groups = np.zeros(len(shares), dtype=np.int64)
    group, total = 0, 0.0
    for code, share in enumerate(shares):
        if code and total >= least:
            group, total = group + 1, 0.0
        groups[code] = group
        total += share
    if total < least and group:
        groups[groups == group] = group - 1
    return groups


REQUIRED = ("_check", "cells", "label", "domain", "encode", "decode")
KINDS: dict[str, type[Column]] = {}  # filled by register(), in tabsynth/schema/__init__.py
# What makes the class of columns with reasons for missing of a kind: tabsynth/schema/missing.py.
REASONED: list[Callable[[Any], Any]] = []


def register(kind: type[Column]) -> None:
    """Make a kind of column known by the default of its field ``kind``.

    Drafts try the kinds in the reverse order of their registration.

    Raises
    ------
    TypeError
        For a class that lacks a method which every kind must define.
    InputError
        For a name that another kind has.
    """
    missing = [name for name in REQUIRED if getattr(kind, name) is getattr(Column, name)]
    if missing:
        raise TypeError(f"{kind.__name__} must define {', '.join(missing)}.")
    if KINDS.get(kind.kind, kind) is not kind:
        raise InputError(f"A column kind {shown(kind.kind)} exists; give the new one another name.")
    KINDS[kind.kind] = kind


def column_from(item: Mapping[str, Any], where: str) -> Column:
    """Inverse of :meth:`Column.to_dict`; refuses what it does not know."""
    values = dict(item)
    column = f"column {shown(values.get('name'))}"
    chosen = values.get("kind")
    named_kind = isinstance(chosen, str) and chosen in KINDS
    kinds = [KINDS[chosen]] if named_kind else list(KINDS.values())  # type: ignore[index]
    names = list(dict.fromkeys(name for kind in kinds for name in kind.fact_names()))
    unknown = set(values) - set(names)
    if unknown:
        raise FileFormatError(
            f"{where}: {column} has unknown key {shown(sorted(unknown)[0])}; known are"
            f" {', '.join(names)}."
        )
    values = {key: value for key, value in values.items() if value is not None}
    types: dict[str, Any] = {
        "nulls": bool,
        "labels": dict,
        "missing": dict,
        "source": str,
        "description": str,
        COPIED: list,
    }
    for kind in kinds:
        types.update(kind.json_types)
    for key, allowed in types.items():
        if key in values and not _is_of(values[key], allowed):
            raise FileFormatError(
                f"{where}: {column} has {key}={shown(values[key])}, of a wrong type."
            )
    for key in ("name", "kind", "dtype"):
        if not isinstance(values.get(key), str):
            raise FileFormatError(f"{where}: a column lacks {key!r}: {shown(item)}.")
    for key in ("labels", "missing"):
        if not all(isinstance(text, str) for text in values.get(key, {}).values()):
            raise FileFormatError(f"{where}: {key} of {column} must be texts.")
    for kind in kinds:
        kind._check_json(values, f"{where}: {column}")
    return Column(**values)


def _is_of(value: Any, allowed: Any) -> bool:
    """isinstance, but that True and False are no whole numbers."""
    types = allowed if isinstance(allowed, tuple) else (allowed,)
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types)
