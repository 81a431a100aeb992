"""The base class of columns: public facts of a column, and what every kind of column can do with values and codes.

A kind is a subclass in a file of its own, registered by one line in ``tabsynth/schema/__init__.py``. Codes are
whole numbers from 0; null, where a column has nulls, is the last code.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from tabsynth._shown import Shown
from tabsynth._typing import JsonObject
from tabsynth._validate import check_text, make_fields_native, one_of, quote
from tabsynth.design import UNCHANGED
from tabsynth.errors import InputError, one_line
from tabsynth.schema.cells import base_dtype, in_dtype, is_range, with_nulls
from tabsynth.schema.conditions import Restriction, restriction_by_code
from tabsynth.schema.facts import Value
from tabsynth.schema.missing import (
    check_reasons,
    convert_values,
    missing_codes,
    reason_place,
    reason_value,
    with_reasons,
)
from tabsynth.schema.reading import all_within, convert_value, each, parse_text
from tabsynth.tables.formulas import unescape

PROVENANCES = ("declared", "drafted", "released")
COPIED = "copied_from_private_rows"
MAX_CATEGORIES = 100_000


def is_supported(dtype: object) -> bool:
    """Return whether a registered kind of column has a dtype, which is a text of at most 40 characters."""
    supported = {base for kind in KINDS.values() for base in kind.dtypes}
    return isinstance(dtype, str) and len(dtype) <= 40 and base_dtype(dtype) in supported


def check_dtype(dtype: object, where: str) -> None:
    """Raise InputError for a dtype that no registered kind of column has."""
    if not is_supported(dtype):
        raise InputError(
            f"{where}: dtype {quote(str(dtype))} is not supported; use text, whole numbers, reals,"
            " bool, category, datetime64, timedelta64 or period."
        )
    if not _is_pandas_dtype(dtype):
        raise InputError(f"{where}: pandas knows no dtype {quote(dtype)}.")


@lru_cache(maxsize=256)
def _is_pandas_dtype(dtype: str) -> bool:
    try:
        pd.Series([], dtype=dtype)
    except TypeError:
        return False
    return True


_SHARED_FIRST = ("name", "kind", "dtype", "nulls")
_SHARED_LAST = ("missing", "provenance", "source", "description", "labels", COPIED)
_ALWAYS_WRITTEN = ("name", "kind", "dtype", "provenance")
JsonTypes = Mapping[str, type | tuple[type, ...]]


@dataclass(frozen=True, kw_only=True, init=False)
class Column(Shown):
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
    * ``dtypes``: the dtypes that its values may have, in terms of :func:`base_dtype`.
    * ``json_types``: by the name of each fact of its own, the types of its value in a schema file.
    * ``copied_facts``: names of facts that a draft reads off rows.
    * ``ordered``: whether codes have an order, so that neighbours are alike and ranges mean something.
    * ``quantitative``: whether values are amounts, which can be added up.
    * ``learned``: whether synthesizers read the column.

    Methods that begin with ``_`` are for values without reasons for missing, of dtype :attr:`value_dtype`; this class
    does the rest.

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
        """Make a column of the class of its kind."""
        if cls is not Column:
            return object.__new__(cls)
        where = f"column {quote(facts.get('name'))}"
        kind = KINDS[one_of(f"kind of {where}", facts.get("kind"), KINDS)]
        field_names = [f.name for f in dataclasses.fields(kind)]
        for name in facts:
            if name not in field_names:
                raise InputError(
                    f"{where}: a column of kind {kind.kind} has no {name}; its facts are"
                    f" {', '.join(field_names)}."
                )
        return object.__new__(kind)

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        make_fields_native(self)
        where = f"column {quote(self.name)}"
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"A column's name must be text, got {quote(self.name)}.")
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
        if base_dtype(self.value_dtype) not in self.dtypes:
            raise InputError(
                f"{where}: a {self.kind} column cannot have dtype {quote(self.dtype)}."
            )
        self._check(where)
        _check_missing(self, where)
        stated = self.copied_from_private_rows
        if stated is not None:
            if not isinstance(stated, list | tuple) or not all(isinstance(n, str) for n in stated):
                raise InputError(
                    f"{where}: expected {COPIED} to be a list of facts, got {quote(stated)}."
                )
            facts = (*facts_of_drafts(self), *["missing"] * bool(self.missing))
            copied = tuple(name for name in facts if name in stated)
            default = facts_of_drafts(self) if self.provenance == "drafted" else ()
            stated = None if copied == default or self.provenance == "released" else copied
            object.__setattr__(self, COPIED, stated)

    # What a kind must define.

    def _check(self, where: str) -> None:
        """Raise an InputError, beginning with ``where``, for facts of the kind that contradict each other."""
        raise NotImplementedError

    @property
    def cells(self) -> int:
        """Number of codes of values."""
        raise NotImplementedError

    def label(self, code: int) -> str:
        """Return what a code stands for, for people; a kind defines that of values."""
        if code - self.cells >= len(self.missing):
            return "null"
        key = list(self.missing)[code - self.cells]
        return f"{key} ({self.missing[key]})" if self.missing[key] else key

    def domain(self, limit: int = 8) -> str:
        """Return what values the column has, for people; of a list, at most ``limit`` values."""
        raise NotImplementedError

    def _encode(self, values: pd.Series) -> np.ndarray:
        """Return codes of values without nulls, shape (n,) int64; see :meth:`encode`."""
        raise NotImplementedError

    def _decode(
        self, codes: np.ndarray, rng: np.random.Generator, within: Any, details: np.ndarray | None
    ) -> pd.Series:
        """Return values of codes, of which ``cells`` is null; see :meth:`decode`."""
        raise NotImplementedError

    # What most kinds take as it is.

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

    @cached_property
    def reasons(self) -> tuple[Any, ...]:
        """The values that stand for each reason for missing in tables; their codes come before that of null."""
        return tuple(reason_value(self, key) for key in self.missing)

    @property
    def size(self) -> int:
        """Number of codes, those of reasons for missing and of null included."""
        return self.cells + len(self.missing) + int(self.nulls)

    @property
    def value_dtype(self) -> str:
        """The dtype of values without reasons for missing."""
        return self.dtype

    @property
    def value_type(self) -> str:
        """The type of values: ``int``, ``float``, ``bool`` or ``text``."""
        return base_dtype(self.value_dtype)

    def cell_of(self, number: object) -> object:
        """Return a number, or null, as a column of texts has it, or of any values where the dtype is ``object``."""
        if number is None or self.dtype == "object":
            return number
        return f"{number:.15g}" if isinstance(number, float) else str(number)

    def strict(self) -> Self:
        """Return the column that takes declared values only, and nothing in place of others."""
        return self

    def scores(self) -> np.ndarray | None:
        """Return a number for each code, shape (size,), NaN for missing values: ranks. None where codes have no order."""
        return (
            fill_missing(self, np.arange(self.cells, dtype=float), np.nan) if self.ordered else None
        )

    def axis(self) -> tuple[str, np.ndarray] | None:
        """Return the kind of axis that the values have, and the edges of the codes on it, shape (cells + 1,).

        ``number``: numbers. ``date``: days since 1970 in UTC. ``time``: hours since midnight. ``duration``: hours.
        None for a column whose codes have no width.
        """
        return None

    def groups(self, shares: np.ndarray, min_share: float, merged: float) -> np.ndarray:
        """Return the number of the group of each code, shape (size,), for coarser counts. Each reason for missing has its own.

        Parameters
        ----------
        shares : ndarray, shape (size,)
            Released shares of rows.
        least : float
            The share of the rows that a group should have.
        merged : float
            Without an order: the largest share of the rows that may be merged.
        """
        reasons = self.cells + np.arange(len(self.missing))
        groups = self._groups(np.delete(shares, reasons), min_share, merged)
        apart = groups.max(initial=-1) + 1 + np.arange(len(reasons))
        return np.insert(groups, self.cells, apart)

    def _groups(self, shares: np.ndarray, min_share: float, merged: float) -> np.ndarray:
        """Return :meth:`groups` of values and null."""
        if not self.ordered:
            return merge_rare(shares, min_share, merged)
        groups = np.empty(len(shares), dtype=np.int64)
        groups[: self.cells] = _merge_neighbours(shares[: self.cells], min_share)
        groups[self.cells :] = groups[: self.cells].max(initial=-1) + 1
        return groups

    # Values to codes and back.

    def encode(self, values: pd.Series) -> np.ndarray:
        """Return codes of values, shape (n,) int64.

        Raises
        ------
        InputError
            Naming the column and the first value that it does not declare.
        """
        codes = missing_codes(self, values)
        present = codes < 0
        check_nulls(self, codes >= self.cells + len(self.missing))
        if present.all():
            return self._encode(values)
        codes[present] = self._encode(values[present])
        return codes

    def decode(
        self,
        codes: np.ndarray,
        rng: np.random.Generator,
        within: Any = None,
        details: np.ndarray | None = None,
    ) -> pd.Series:
        """Return values of codes, shape (n,), in the column's dtype.

        ``rng`` draws a value of those that a code stands for; ``within``, of a :class:`Restriction`, limits which.
        Where a code has values as the codes of :attr:`detail` in ``details`` say, it is one of them.
        """
        if not self.missing and self.value_dtype == self.dtype:
            return self._decode(codes, rng, within, details)
        places = np.where(codes < self.cells + len(self.missing), codes - self.cells, -1)
        places = np.maximum(places, -1)
        without_reason = places < 0
        if details is not None:
            details = details[without_reason]
        values = self._decode(np.minimum(codes[without_reason], self.cells), rng, within, details)
        return with_reasons(self, values, places)

    # A column beside it, where codes leave open what should be learned.

    @property
    def detail(self) -> "Column | None":
        """One more modelled column, of what the codes do not say; None where there is none."""
        return None

    def detail_codes(self, values: pd.Series) -> np.ndarray:
        """Return codes of :attr:`detail`, shape (n,), of values in the column's dtype; the last one for missing values."""
        raise NotImplementedError

    def detail_possible(self) -> np.ndarray:
        """Return whether a code has a value of each code of :attr:`detail`, bool, shape (size, detail.size)."""
        raise NotImplementedError

    # Amounts, for rules between columns.

    def amounts(self, values: pd.Series) -> np.ndarray:
        """Return values as numbers, shape (n,) float64, NaN for missing values: of dates days, of other times their resolution.

        Raises
        ------
        InputError
            For a column whose values are no amounts.
        """
        present = missing_codes(self, values) < 0
        amounts = np.full(len(values), np.nan)
        amounts[present] = self._amounts(values[present])
        return amounts

    def _amounts(self, values: pd.Series) -> np.ndarray:
        """Return :meth:`amounts` of values without nulls."""
        if self.value_type not in ("int", "float", "bool"):
            raise InputError(
                f"Column {quote(self.name)} holds no numbers, dates or times; a rule cannot compute with it."
            )
        return values.to_numpy(dtype=float)

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Return values of amounts, shape (n,); NaN becomes null. Amounts outside the bounds become the nearest bound."""
        raise InputError(
            f"Column {quote(self.name)} of kind {self.kind} cannot be computed from others by an expression;"
            " declare a table."
        )

    def code_amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest amount of each code, shape (cells,) each."""
        numbers = self._amounts(pd.Series(list(self.categories), dtype=object))
        return numbers, numbers

    @property
    def amount_step(self) -> float | None:
        """The step between amounts; None where any real number is one."""
        return 1.0 if self.value_type in ("int", "bool") else None

    # Conditions and combinations of values.

    def restriction(self, values: Sequence[Any], where: str = "where") -> Restriction:
        """Return what a condition, any of some values and ranges, leaves of the codes.

        Raises
        ------
        InputError
            For an undeclared value, beginning with ``where``.
        """
        places = [reason_place(self, value) for value in values]
        ordinary = [value for value, place in zip(values, places, strict=True) if place < 0]
        part = self._restriction(ordinary, where)
        reasons = np.isin(np.arange(len(self.missing)), places)
        if part.details is not None and reasons.any():
            part.details[-1] = True
        return dataclasses.replace(
            part,
            shares=np.insert(part.shares, self.cells, reasons),
            partly=np.insert(part.partly, self.cells, False & reasons),
        )

    def _restriction(self, values: Sequence[Any], where: str) -> Restriction:
        """Return :meth:`restriction` to values without reasons for missing; its arrays have the shape (cells and null,)."""
        return restriction_by_code(self, values, where)

    def mask(self, values: Any, where: str) -> np.ndarray:
        """Return which codes a list of values (None for null) or a range means, bool, shape (size,).

        Raises
        ------
        InputError
            For an undeclared value, and for values that fill a part of a code.
        """
        if isinstance(values, Mapping):
            if not is_range(values):
                raise InputError(
                    f"{where}, column {quote(self.name)}: expected a range with low and high, got"
                    f" {quote(dict(values))}; give both ends."
                )
            values = [values]
        restriction = self.restriction(values, where)
        if restriction.partly.any():
            cell = self.label(int(restriction.partly.argmax()))
            raise InputError(
                f"{where}, column {quote(self.name)}: only a part of the cell {cell} is listed; list all of its values,"
                " give a range of whole cells, or change the cells."
            )
        return restriction.shares > 0

    # Values of files and tables.

    def parse(self, texts: pd.Series) -> pd.Series:
        """Return texts of a file (nulls as NaN) in the column's dtype.

        Raises
        ------
        InputError
            Naming the column and a text that is no value of the dtype, unless the column has ``other``.
        """
        return convert_values(self, texts, partial(self._convert, texts=True))

    def convert(self, values: pd.Series) -> pd.Series:
        """Return values of a file with types, or of a counter, in the column's dtype; numbers never become texts.

        Raises
        ------
        InputError
            Naming the column and the value that the schema does not take.
        """
        if str(values.dtype) == self.dtype and base_dtype(self.dtype) not in ("text", "category"):
            return values
        return convert_values(self, values, partial(self._convert, texts=False))

    def _convert(self, values: pd.Series, texts: bool) -> pd.Series:
        """Return values, or ``texts`` of a file, in :attr:`value_dtype`."""
        nulls = values.isna().to_numpy()
        cells = values.astype(object).to_numpy()
        converted = np.empty(len(cells), dtype=object)
        if texts:
            distinct = {
                text: parse_text(self, unescape(text, self.positions))
                for text in values[~nulls].unique()
            }
            converted[~nulls] = [distinct[text] for text in cells[~nulls]]
            return self.to_series(converted, nulls)
        base, target = base_dtype(str(values.dtype)), base_dtype(self.value_dtype)
        if str(values.dtype) == self.dtype == self.value_dtype:
            return values
        if target == "text":
            anything = self.dtype.lower() == "object"
            # The encoder refuses what is no text, by name.
            all_texts = anything or all(isinstance(v, str) for v in cells[~nulls])
            return self.to_series(cells, nulls) if all_texts else values
        if base == target == "bool" or (base == target == "int" and all_within(self, values)):
            check_nulls(self, nulls)
            return values.astype(self.value_dtype)
        converted[~nulls] = each(self, cells[~nulls], partial(convert_value, self))
        return self.to_series(converted, nulls)

    def to_series(self, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
        """Return a Series of :attr:`value_dtype` from Python values, shape (n,); ``nulls`` is a mask."""
        check_nulls(self, nulls)
        filled = values.copy()
        filled[nulls] = np.nan if base_dtype(self.value_dtype) == "float" else None
        try:
            return in_dtype(pd.Series(filled, dtype="object", name=self.name), self.value_dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"Column {quote(self.name)} does not fit dtype {self.dtype}: {one_line(error)};"
                " correct the value, or declare another dtype."
            ) from None

    # Schema files.

    @property
    def facts_from_rows(self) -> tuple[str, ...]:
        """The facts that stand as a draft read them off the rows of a table."""
        if self.copied_from_private_rows is not None:
            return tuple(self.copied_from_private_rows)
        return facts_of_drafts(self) if self.provenance == "drafted" else ()

    def to_dict(self, *, copied: bool = True) -> JsonObject:
        """Return the facts that are no defaults, JSON-ready.

        ``copied``: with :attr:`facts_from_rows`, also where it follows from the provenance.
        """
        out: JsonObject = {}
        defaults = {f.name: f.default for f in dataclasses.fields(self)}
        for name in fact_names(type(self)):
            value = getattr(self, name)
            default = {} if name in ("labels", "missing") else defaults[name]
            if name in _ALWAYS_WRITTEN or value != default:
                if isinstance(value, tuple):
                    value = list(value)
                out[name] = dict(value) if default == {} else value
        if copied and self.facts_from_rows:
            out[COPIED] = list(self.facts_from_rows)
        return out


def _check_missing(column: Column, where: str) -> None:
    """Raise InputError for reasons for missing that the column cannot have."""
    if not column.missing:
        return
    if not column.learned:
        raise InputError(f"{where}: a column that is not learned has no reasons for missing.")
    check_reasons(column.missing, where)
    changes: dict[str, Any] = {"missing": {}, "dtype": column.value_dtype}
    changes |= {"format": None} if column.kind == "numeric" else {}  # which is of texts
    strict = dataclasses.replace(column, **changes).strict()
    for key, reason in zip(column.missing, column.reasons, strict=True):
        value = pd.Series([reason], dtype=object)
        try:
            strict.encode(value if column.value_dtype == column.dtype else strict.convert(value))
        except InputError:
            continue
        raise InputError(
            f"{where}: {quote(key)} stands for a missing value and is a declared value, too; take it out of one"
            " of the two, or narrow the bounds."
        )


def check_nulls(column: Column, nulls: np.ndarray) -> np.ndarray:
    """Return the mask of nulls, shape (n,), as it is; InputError where it has one and the column allows none."""
    if nulls.any() and not column.nulls:
        raise InputError(
            f"Column {quote(column.name)} has a null, and the schema allows none there; fill it, or"
            " declare nulls=true."
        )
    return nulls


def fill_missing(column: Column, of_values: np.ndarray, fill: object) -> np.ndarray:
    """Return what each code of a value has, and ``fill`` for the codes of reasons for missing and null."""
    return np.concatenate([of_values, np.repeat([fill], column.size - column.cells, axis=0)])


def domain_with_missing(column: Column, domain: str, limit: int) -> str:
    """Return the values of a column for people, and what it has in place of missing ones."""
    keys = ", ".join(quote(key) for key in list(column.missing)[:limit])
    return domain + " and None" * column.nulls + f", and for missing values {keys}" * bool(keys)


def label_of(labels: Mapping[str, str], text: str) -> str:
    """Return what labels say of a value that is written as ``text``; ``text`` itself if they say nothing.

    Where they say the same of several values, the value follows.
    """
    label = labels.get(text, text)
    shared = sum(other == label for other in labels.values()) > 1
    return f"{label} ({text})" if label != text and shared else label


def fact_names(kind: type[Column]) -> list[str]:
    """Return the keys of a column of a kind in a schema file, in their order."""
    names = [f.name for f in dataclasses.fields(kind)]
    shared = {*_SHARED_FIRST, *_SHARED_LAST}
    return [*_SHARED_FIRST, *(name for name in names if name not in shared), *_SHARED_LAST]


def facts_of_drafts(column: Column) -> tuple[str, ...]:
    """Return the facts that a draft of a column reads off rows."""
    facts = (name for name in column.copied_facts if getattr(column, name) not in (None, ()))
    return (*facts, "dtype", "nulls")


def provenance_in_words(column: Column) -> str:
    """Return the provenance, with the facts of a declared column that no person has changed since a draft."""
    if column.provenance != "declared" or not column.facts_from_rows:
        return column.provenance
    return f"{UNCHANGED} ({', '.join(column.facts_from_rows)})"


def merge_rare(shares: np.ndarray, min_share: float, merged: float) -> np.ndarray:
    """Return groups of codes without an order, shape (size,): rare codes, together at most ``merged`` of the rows, with rare neighbours.

    Codes of a classification are often declared in its order, so that neighbours are alike; where they are not, such groups are as good as others.
    """
    order = np.argsort(shares, kind="stable")
    rare = np.sort(order[(shares[order] < min_share) & (shares[order].cumsum() <= merged)])
    frequent = np.setdiff1d(np.arange(len(shares)), rare)
    groups = np.empty(len(shares), dtype=np.int64)
    groups[frequent] = np.arange(len(frequent))
    groups[rare] = len(frequent) + _merge_neighbours(shares[rare], min_share)
    return groups


def _merge_neighbours(shares: np.ndarray, min_share: float) -> np.ndarray:
    """Return groups of neighbouring codes that have at least ``least`` of the rows each."""
    groups = np.zeros(len(shares), dtype=np.int64)
    group, total = 0, 0.0
    for code, share in enumerate(shares):
        if code and total >= min_share:
            group, total = group + 1, 0.0
        groups[code] = group
        total += share
    if total < min_share and group:
        groups[groups == group] = group - 1
    return groups


REQUIRED = ("_check", "cells", "label", "domain", "_encode", "_decode")
KINDS: dict[str, type[Column]] = {}  # filled by register(), in tabsynth/schema/__init__.py


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
        raise InputError(f"A column kind {quote(kind.kind)} exists; give the new one another name.")
    KINDS[kind.kind] = kind
