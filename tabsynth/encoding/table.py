"""DataFrame ⇄ category codes ⇄ network inputs, by the schema alone."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import pandas as pd

from tabsynth._shown import Shown
from tabsynth._validate import one_of, quote, quote_text
from tabsynth.encoding.holding import CodeRules
from tabsynth.encoding.rows import PrivateRows, Records, records_of
from tabsynth.errors import InputError
from tabsynth.schema.column import Column
from tabsynth.schema.constraints import Derived, Implication, Order, Rule, Sum
from tabsynth.schema.schema import Schema, refuse_impossible, zeros

Head = Literal["softmax", "sigmoid"]


@dataclass(frozen=True, eq=False)
class Block(Shown):
    """The network codes of one column.

    Attributes
    ----------
    column : str
    start, stop : int
        The block is ``codes[:, start:stop]``.
    head : {"softmax", "sigmoid"}
        What a network ends with to make such a block: a softmax where the code is one-hot, else a
        sigmoid per entry.
    codebook : ndarray, shape (size, stop - start), float32 in [0, 1]
        Row ``i`` is the network code of the column's category code ``i``.
    """

    column: str
    start: int
    stop: int
    head: Head
    codebook: np.ndarray

    @property
    def size(self) -> int:
        """Number of category codes of the column."""
        return len(self.codebook)


@dataclass(frozen=True, eq=False)
class Layout(Shown):
    """The blocks of a table, side by side. A function of the schema and the scheme alone."""

    blocks: tuple[Block, ...]

    @property
    def width(self) -> int:
        """Length of a row of codes."""
        return self.blocks[-1].stop

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of category codes of each column."""
        return tuple(block.size for block in self.blocks)

    def encode(self, index: np.ndarray) -> np.ndarray:
        """Return the network codes, shape (n, width) float32, of category codes, shape (n, columns)."""
        parts = [block.codebook[index[:, j]] for j, block in enumerate(self.blocks)]
        return np.concatenate(parts, axis=1)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return category codes, shape (n, columns) int64, of the nearest network codes; inverse of `encode`."""
        return np.stack([_nearest(b, codes[:, b.start : b.stop]) for b in self.blocks], axis=1)


def _nearest(block: Block, codes: np.ndarray, cells: int = 4_194_304) -> np.ndarray:
    """Return the value whose code is nearest in Euclidean distance (for one-hot codes: the largest)."""
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


# The encoders of category_encoders whose codes follow from the list of categories alone, by scheme, besides ``one-hot``. Of the
# others, ``BackwardDifferenceEncoder`` is ``rank-hot`` when it is scaled, ``PolynomialEncoder`` overflows with 1,000 categories, and
# the rest read rows or give several categories one code.
ENCODERS = {
    "ordinal": "OrdinalEncoder",
    "binary": "BinaryEncoder",
    "gray": "GrayEncoder",
    "rank-hot": "RankHotEncoder",
    "sum": "SumEncoder",
    "helmert": "HelmertEncoder",
}
SCHEMES = ("one-hot", *ENCODERS, "base-4", "base-10")
WIDE = ("one-hot", "rank-hot", "sum", "helmert")  # as many entries as categories


def codebook(size: int, scheme: str) -> tuple[np.ndarray, Head]:
    """Return the network code of each of ``size`` category codes, and the head that makes such codes.

    Parameters
    ----------
    size : int
    scheme : {"one-hot", "ordinal", "binary", "base-N", "gray", "rank-hot", "sum", "helmert"}
        ``ordinal``: one entry, the rank. ``binary`` and ``base-N``: the digits of the rank. ``gray``: binary digits, of which
        neighbours differ in one. ``rank-hot``: an entry for each rank but the lowest, 1 up to the own (a thermometer).
        ``sum``: as ``one-hot``, made by a sigmoid for each entry. ``helmert``: each rank against the mean of the lower ones. All
        entries are scaled to [0, 1].

    Returns
    -------
    codes : ndarray, shape (size, width), float32 in [0, 1]
        Rows are distinct, so that the nearest row decodes exactly.
    head : {"softmax", "sigmoid"}

    Notes
    -----
    The codes are those of category_encoders, fitted on the codes that the schema declares, never on rows. Each encoder
    transforms every code once; rows are then looked up (:meth:`Layout.encode`). The result equals that of ``transform``,
    scaled to [0, 1], and 10,000 rows of the census table take 2 to 90 ms in place of 110 to 200 ms. Of 4,096 categories
    rank-hot codes take 21 s to make, ``sum`` 8 and ``helmert`` 6. Their
    ``inverse_transform`` takes exact codes only: of a network's output such as (0.2, 0.5, 0.3) it makes no value or
    an error. So :meth:`Layout.decode` looks for the nearest code.

    Codebooks are cached and shared: do not write to them.
    """
    if not (isinstance(scheme, str) and scheme.startswith("base-")):
        one_of("network_encoding", scheme, SCHEMES)
    return _codebook(size, scheme, _base(scheme))


@lru_cache(maxsize=64)
def _codebook(size: int, scheme: str, base: int) -> tuple[np.ndarray, Head]:
    if size == 1:
        return np.ones((1, 1), dtype=np.float32), "softmax"
    if scheme == "one-hot":
        return np.eye(size, dtype=np.float32), "softmax"
    # Imported here: with what it imports itself, it takes a second, and most tables are one-hot.
    import category_encoders as ce

    options: dict[str, Any] = {"cols": ["code"], "handle_unknown": "error"}
    options |= {"handle_missing": "error"} | ({} if scheme in ENCODERS else {"base": base})
    encoder = getattr(ce, ENCODERS.get(scheme, "BaseNEncoder"))(**options)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # category-encoders 2.x calls pandas in ways that are deprecated
        values = encoder.fit_transform(pd.DataFrame({"code": np.arange(size)})).to_numpy()
    digits = values.astype(np.float64)
    if scheme in ("binary", "gray") or scheme not in ENCODERS:
        codes = digits / (base - 1)
    else:
        digits = digits[
            :, np.ptp(digits, axis=0) > 0
        ]  # an entry that is the same of all categories
        codes = (digits - digits.min(axis=0)) / np.ptp(digits, axis=0)
    codes = codes.astype(np.float32)
    assert len(np.unique(codes, axis=0)) == len(codes)
    return codes, "sigmoid"


def _base(scheme: str) -> int:
    """Return the base of ``base-N``; 2 for the other schemes."""
    if not scheme.startswith("base-"):
        return 2
    text = scheme.removeprefix("base-")
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 2 <= int(text) <= 1_000:
        raise InputError(f"Expected network_encoding base-N with N in [2, 1000], got {scheme!r}.")
    return int(text)


# A codebook of ``WIDE`` takes size² numbers; past this it is gigabytes.
MAX_ONE_HOT = 4_096
MAX_CODEBOOKS = 2**26  # numbers in such codebooks of all columns, those of one size once


class TableEncoder:
    """Encoder of tables of one schema.

    It has no ``fit``: everything it knows comes from the schema.

    Parameters
    ----------
    schema : Schema
    network_encoding : str or dict of str
        The scheme of all columns, as :func:`codebook` takes it, or a scheme by column name; columns not named are
        one-hot.

    Attributes
    ----------
    whole : Schema
        The schema of the tables.
    schema : Schema
        That of the modelled columns, which category codes are of: ``whole.learned``.
    layout : Layout
    zeros : list of dict
        Impossible combinations of modelled columns, by category codes.

    Formal guarantees
    -----------------
    Data-independent: ``layout`` is the same for every table, and each row is encoded by itself.
    """

    def __init__(
        self, schema: Schema, network_encoding: str | Mapping[str, str] = "one-hot"
    ) -> None:
        self.whole = schema
        self.schema = schema = schema.learned
        self.network_encoding = network_encoding
        schemes = (
            network_encoding
            if isinstance(network_encoding, Mapping)
            else dict.fromkeys(schema.names, network_encoding)
        )
        for name in schemes:
            if name not in schema.names:
                raise InputError(
                    f"network_encoding names column {quote(name)}, which the schema lacks."
                )
        _check_wide([c for c in schema.columns if schemes.get(c.name, "one-hot") in WIDE])
        blocks, start = [], 0
        for column in schema.columns:
            scheme = schemes.get(column.name, "one-hot")
            book, head = codebook(column.size, scheme)
            blocks.append(Block(column.name, start, start + book.shape[1], head, book))
            start += book.shape[1]
        self.layout = Layout(tuple(blocks))
        self.zeros = zeros(schema.columns, schema.impossible)

    @cached_property
    def rules(self) -> CodeRules:
        """All rules, as far as category codes decide them."""
        return CodeRules(self.whole)

    def to_index(self, table: pd.DataFrame, what: str = "table") -> np.ndarray:
        """Return category codes of the modelled columns, shape (rows, columns) int64.

        Refuses what the schema does not declare. Rows that break a rule are refused, left out or repaired, as the
        schema says; so there may be fewer rows of codes than of the table.
        """
        return self.codes_and_rows(table, what)[0]

    def kept_index(self, table: pd.DataFrame, what: str = "table") -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`to_index`, and the numbers of the rows that the codes are of, shape (rows,) int64."""
        index, rows = self.codes_and_rows(table.reset_index(drop=True), what)
        return index, rows.index.to_numpy()

    def to_rows(self, table: pd.DataFrame, key: bytes, what: str = "table") -> PrivateRows:
        """See :meth:`to_index`, with weights and units where the schema declares them.

        Parameters
        ----------
        key : bytes
            Secret, of 16 bytes: it chooses which rows of a unit are used.
        """
        return self.to_records(table, what).within_bound(self.whole.design, key)

    def to_records(self, table: pd.DataFrame, what: str = "table") -> Records:
        """Return category codes with weights and names of units, before what one unit adds is bounded."""
        design = self.whole.design
        index, rows = self.codes_and_rows(table, what, with_design=bool(design))
        return records_of(index, rows, design, self.whole.decimal)

    def codes_and_rows(
        self, table: pd.DataFrame, what: str, with_design: bool = False
    ) -> tuple[np.ndarray, pd.DataFrame]:
        """Return category codes, and the rows that they are of."""
        try:
            if with_design:
                wrong = self.whole.design.problems(table, self.whole.decimal, needed=True)
                if wrong:
                    raise InputError(" ".join(message for *_, message in wrong))
            return self._to_index(table, what)
        except InputError as error:
            raise self.whole.refusal(table, f"the {what}", error) from None

    def _to_index(self, table: pd.DataFrame, what: str) -> tuple[np.ndarray, pd.DataFrame]:
        self.whole.check_columns(table, what)
        named = table.set_axis([str(name) for name in table.columns], axis=1)
        if self.whole is self.schema and self.whole.violations == "refuse":
            index = np.stack([c.encode(named[c.name]) for c in self.schema.columns], axis=1)
            refuse_impossible(self.schema.columns, self.zeros, index, what)
            return index, named
        named = self.keeping_rules(named, what)
        columns = [self._codes(column, named) for column in self.schema.columns]
        return np.stack(columns, axis=1), named

    def codes_of(self, table: pd.DataFrame) -> np.ndarray:
        """Return category codes of a synthetic table, shape (rows, columns) int64, whatever rules its rows break."""
        return np.stack([self._codes(column, table) for column in self.schema.columns], axis=1)

    def _violations(self, table: pd.DataFrame) -> Iterator[tuple[Rule, np.ndarray]]:
        """Return each rule with the rows that break it."""
        codes: dict[str, np.ndarray] = {}
        for rule in self.whole.row_rules:
            if isinstance(rule, Implication):  # there may be thousands: columns are encoded once
                for column in rule.columns:
                    if column.name not in codes:
                        codes[column.name] = column.encode(table[column.name])
                yield rule, rule.broken_codes([codes[name] for name in rule.names])
            else:
                yield rule, rule.violations(table)

    def keeping_rules(self, table: pd.DataFrame, what: str) -> pd.DataFrame:
        """Return the rows that satisfy all rules; an error names the first rule that one breaks."""
        repair = self.whole.violations == "repair"
        if repair:
            for rule in self.whole.rules:
                if isinstance(rule, Order):
                    table = rule.repair(table)
        satisfying = np.ones(len(table), dtype=bool)
        for rule, broken in self._violations(table):
            if repair and isinstance(rule, Derived):
                continue  # the column is not read
            if broken.any() and self.whole.violations == "refuse":
                row = table.iloc[int(broken.argmax())]
                values = ", ".join(f"{name}={quote_text(row[name])}" for name in rule.names)
                raise InputError(
                    f"The {what} has a row with {values}, which breaks the rule {quote(rule.text, 120)}; correct it,"
                    " or declare violations='drop' or 'repair' in the schema."
                )
            satisfying &= ~broken
        return table[satisfying]

    def _codes(self, column: Column, table: pd.DataFrame) -> np.ndarray:
        """Return codes of one modelled column of a table."""
        if column.name in self.whole.names:
            return column.encode(table[column.name])
        for public_column in self.whole.columns:
            if public_column.learned and public_column.detail == column:
                return public_column.detail_codes(public_column.convert(table[public_column.name]))
        first, second = self._difference(column).columns
        amounts = (c.amounts(table[c.name]) for c in (second, first))
        return column.encode(pd.Series(np.subtract(*amounts)))

    def _difference(self, column: Column) -> Order:
        """Return the rule that has a modelled column of differences."""
        return next(
            rule
            for rule in self.whole.rules
            if isinstance(rule, Order) and rule.difference is not None and rule.difference == column
        )

    def from_index(
        self,
        index: np.ndarray,
        rng: np.random.Generator,
        within: Mapping[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Return a table of the schema's columns, order and dtypes.

        Parameters
        ----------
        index : ndarray, shape (rows, columns)
            Category codes.
        rng : Generator
            Draws a value where a code stands for several.
        within : dict, optional
            By column, what limits these draws: ``within`` of ``Column.restriction``.
        """
        within = within or {}
        series: dict[str, pd.Series] = {}
        codes = dict(zip(self.schema.names, index.T, strict=True))
        for column in self.schema.columns:
            if column.name in self.whole.names:
                details = None if column.detail is None else codes[column.detail.name]
                series[column.name] = column.decode(
                    codes[column.name], rng, within.get(column.name), details
                )
        if self.whole is not self.schema:
            self._complete(series, codes, len(index), rng)
        return pd.DataFrame(series, columns=[c.name for c in self.whole.generated_columns])

    def _complete(
        self,
        series: dict[str, pd.Series],
        codes: Mapping[str, np.ndarray],
        rows: int,
        rng: np.random.Generator,
    ) -> None:
        """Add the columns that are not modelled to decoded ones; draw values again that break an order or a sum."""
        computed = set(self.whole.makers)
        free = [
            rule
            for rule in self.whole.rules
            if isinstance(rule, Order | Sum) and not set(rule.names) & computed
        ]
        followed = _draw_within(free, series, codes, rng)
        if followed is not None:
            codes = {name: of[followed] for name, of in codes.items()}
            for name in series:
                series[name] = series[name].iloc[followed].reset_index(drop=True)
        for name, rule in self.whole.makers.items():
            if isinstance(rule, Derived):
                series[name] = rule.values(pd.DataFrame(series))
            elif isinstance(rule, Order) and rule.difference is not None:
                first, second = rule.columns
                apart = rule.difference.decode(codes[rule.difference.name], rng)
                amounts = first.amounts(series[first.name]) + rule.difference.amounts(apart)
                series[name] = second.from_amounts(amounts).rename(name)
        for column in self.whole.generated_columns:
            if not column.learned:
                series[column.name] = column.decode(np.zeros(rows, dtype=np.int64), rng)

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Return codes, shape (rows, layout.width) float32."""
        return self.layout.encode(self.to_index(table))

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        """Invert :meth:`encode`: exact for discrete columns, to the cell for numeric ones."""
        return self.from_index(self.layout.decode(codes), rng)


DRAWS = 20  # of the values of rows that break rules which share columns


def _draw_within(
    rules: Sequence[Order | Sum],
    series: dict[str, pd.Series],
    codes: Mapping[str, np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Draw values again, within their cells, in the rows that break an order or a sum.

    Returns
    -------
    ndarray, shape (n,), or None
        Where cells satisfy each rule and not all together: the row that is to take the place of each row.
    """
    for _ in range(DRAWS):
        wrong = [rule for rule in rules if _redraw(rule, series, codes, rng)]
        if not wrong or len(rules) == 1:
            return None
    names = [*dict.fromkeys(name for rule in rules for name in rule.names)]
    table = pd.DataFrame({name: series[name] for name in names})
    broken = np.any([rule.violations(table) for rule in rules], axis=0)
    if not broken.any():
        return None
    if broken.all():
        raise InputError(
            f"No row of the model satisfies {rules[0].text!r} and the rules that share columns with it; check whether they"
            " contradict each other."
        )
    rows = np.arange(len(broken))
    rows[broken] = rng.choice(rows[~broken], size=int(broken.sum()))
    return rows


def _redraw(
    rule: Order | Sum,
    series: dict[str, pd.Series],
    codes: Mapping[str, np.ndarray],
    rng: np.random.Generator,
) -> bool:
    """Draw values again in the rows that break a rule; whether there were any."""
    broken = rule.violations(pd.DataFrame({name: series[name] for name in rule.names}))
    if not broken.any():
        return False
    cells = [c.code_amounts() for c in rule.columns]
    bounds = [
        np.stack(
            [
                np.append(ends[i], np.nan)[codes[c.name][broken]]
                for c, ends in zip(rule.columns, cells, strict=True)
            ],
            axis=1,
        )
        for i in (0, 1)
    ]
    drawn = rule.draw_amounts(bounds[0], bounds[1], rng)
    for j, column in enumerate(rule.columns):
        present = ~np.isnan(drawn[:, j])
        values = column.from_amounts(drawn[present, j])
        redrawn = series[column.name].copy()
        rows = np.flatnonzero(broken)[present]
        redrawn.iloc[rows] = (
            values.to_numpy() if isinstance(values.dtype, np.dtype) else values.array
        )
        series[column.name] = redrawn
    return True


def _check_wide(columns: Sequence[Column]) -> None:
    """Refuse columns whose codebooks take too much memory; columns of one size share one."""
    sizes = {column.size: column.name for column in columns}
    for size, name in sizes.items():
        if size > MAX_ONE_HOT:
            raise InputError(
                f"Column {quote(name)} has {size} values, too many for one-hot, rank-hot, sum or helmert codes (at most"
                f" {MAX_ONE_HOT}); declare the common ones, with 'other' for the rest, or kind hierarchy, or fewer bins, or"
                " take a GAN and encode the column as binary or base-N."
            )
    if sum(size**2 for size in sizes) > MAX_CODEBOOKS:
        raise InputError(
            "The codebooks of all columns take too much memory; group values, or encode the largest"
            f" column, {quote(sizes[max(sizes)])}, as binary or base-N."
        )
