"""A schema drafted from private rows under a budget: its facts are released with noise, and charged.

Public by statement are the names and the order of the columns, and the types that a file format or a DataFrame
declares. Everything else is a release: which formats the values of a column have, and with it its kind, dtype and
precision; whether it has nulls; its categories; its bounds and cells. Two Gaussian mechanisms read the rows, one
for the formats and one for the values. Categories are selected by a threshold (Korolova, Kenthapadi, Mishra, Ntoulas
2009; Desfontaines, Voss, Gipson, Mandayam 2022 for the analysis of thresholds), bounds by a threshold on counts over a fixed
grid. Columns that identify people, by their name or by the released formats, are left out.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from tabsynth._random import Randomness
from tabsynth._validate import between, positive, shown
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import (
    THRESHOLD_SHARE,
    Gaussian,
    Mechanism,
    NoPrivacy,
    ThresholdedGaussian,
)
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable, exact
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.privacy.noise import samplers
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.column import Column, base_dtype
from tabsynth.schema.conforming import numbers_of, truths_of
from tabsynth.schema.identifiers import named_for_one, value_format
from tabsynth.schema.number_texts import decimal_mark, one_group, plain_number
from tabsynth.schema.numeric import DEFAULT_BINS, Numeric
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema, duplicates
from tabsynth.schema.temporal import Date, Datetime, Duration, Period, Temporal, Time
from tabsynth.tables.frames import to_pandas

FORMATS, VALUES = "formats of columns", "values of columns"
SHARE = 0.1  # of the budget, in units of μ², that a fit without a schema spends on the draft
FORMATS_SHARE = 0.2  # of the draft
CLEAR = 4.0  # standard deviations of its noise: a count above is taken to be of rows
IDENTIFYING = (
    0.05  # of the rows: values that look like identifiers, above which a column is left out
)
PROSE = 0.5  # of the rows: names of persons, or free text
NUMERIC = 0.95  # of the rows with a value: numbers, for a column of numbers
MANTISSAS = (1, 1.5, 2, 3, 4, 5, 6, 8)
POWERS = range(-6, 16)  # of ten, of the grid of numbers
MOST_CATEGORIES = 4_000
EACH = 128  # whole steps between bounds, below which each has a cell of its own: they may be codes
OTHER = "other"


@dataclass(frozen=True, eq=False)
class _Part:
    """What is asked of the values of a column: a key for each row, shape (n,), over a fixed list or any texts."""

    name: str
    keys: Callable[[pd.Series], np.ndarray]
    cells: int | None  # None: keys are texts


def draft_private(
    table: Any,
    epsilon: float,
    delta: float = 1e-5,
    *,
    null_values: Sequence[str] = DEFAULT_NULL_VALUES,
    random_state: int | None = None,
    decimal: str | None = None,
    ledger: str | Path | None = None,
) -> Schema:
    """A schema of private rows, with (epsilon, delta)-differential privacy for adding or removing one record.

    Parameters
    ----------
    table : DataFrame
        Texts that are numbers, dates or truth values in most rows become columns of these.
    epsilon, delta : float
        The budget of the draft. It counts in every fit that takes the schema.
    null_values : sequence of str
        Texts that mean null.
    random_state : int, optional
        For tests; a seeded draft is not private.
    decimal : {".", ","}, optional
        The decimal mark of texts that are numbers, if it is public. By default noisy counts decide.
    ledger : path, optional
        A project's ledger (:class:`tabsynth.ProjectLedger`), to which the draft is charged before rows are read. Fits
        that take the schema must be made under it, and it counts the draft once.

    Returns
    -------
    Schema
        Its columns have the provenance ``released``; those that are left out are listed with the reason.

    Raises
    ------
    InputError
        If nothing could be released at this budget. It is spent all the same.
    BudgetError
        If the draft would exceed the limit of the project; nothing is read.
    """
    positive("epsilon", epsilon, finite=False)
    mu = math.inf
    if math.isfinite(epsilon):
        between("delta", delta, 0, 1, low_open=True, high_open=True)
        mu = gaussian_mu(epsilon, delta * (1 - THRESHOLD_SHARE))
    if ledger is None:
        return draft_on_ledger(
            table, mu, Ledger(epsilon, delta), null_values, random_state, decimal
        )
    with ProjectLedger(ledger) as project:
        if random_state is not None:
            raise InputError(
                f"A seeded draft is not private, so ledger {project.name} cannot count it; leave out the seed, or the"
                " ledger."
            )
        own = project.ledger(epsilon, delta)
        project.admit_draft(own, mu)
        return draft_on_ledger(table, mu, own, null_values, decimal=decimal)


def draft_share(epsilon: float, delta: float) -> float:
    """μ of the draft of a fit without a schema, whose whole budget is (epsilon, delta)."""
    if math.isinf(epsilon):
        return math.inf
    return math.sqrt(SHARE) * gaussian_mu(epsilon, delta * (1 - THRESHOLD_SHARE))


def draft_on_ledger(
    table: Any,
    mu: float,
    ledger: Ledger,
    null_values: Sequence[str] = DEFAULT_NULL_VALUES,
    random_state: int | None = None,
    decimal: str | None = None,
) -> Schema:
    """As :func:`draft_private`, by Gaussian mechanisms of ``mu`` together, charged to a ledger."""
    frame = to_pandas(table)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    for name in duplicates(list(frame.columns)):
        raise InputError(f"The table has column {shown(name)} twice; rename or drop one.")
    draft = _Draft(PrivateTable(frame, ledger), ledger, mu, null_values, random_state, decimal)
    dtypes = {name: str(frame.dtypes[name]) for name in frame.columns}
    try:
        columns, left_out = draft.columns(dtypes)
    finally:
        ledger.close()
    released: dict[str, Any] = {
        "mechanisms": ledger.to_list(),
        "seeded": random_state is not None,
    }
    if ledger.project is not None:  # which counts it already
        released |= {"project": ledger.project, "run": ledger.run}
    if not columns:
        first = left_out[0]
        raise InputError(
            f"The private draft could release no column, {shown(first['name'])} because {first['reason']}; raise epsilon, or"
            " declare a schema."
        )
    return Schema(columns, null_values, left_out=left_out, released=released, decimal=draft.decimal)


class _Draft:
    """The two releases of a draft, and what follows from them."""

    def __init__(
        self,
        table: PrivateTable[pd.DataFrame],
        ledger: Ledger,
        mu: float,
        null_values: Sequence[str],
        seed: int | None,
        decimal: str | None = None,
    ) -> None:
        self.decimal = decimal  # else decided by the noisy counts of formats
        self._table, self._ledger, self._mu = table, ledger, mu
        self._threshold_delta = 0.0 if math.isinf(mu) else ledger.threshold_delta
        self._nulls = tuple(dict.fromkeys(("", *null_values)))
        self._bits = Randomness(seed).noise()

    def columns(self, dtypes: Mapping[str, str]) -> tuple[list[Column], list[dict[str, str]]]:
        """The columns in their order, and those that are left out."""
        left: dict[str, str] = {
            name: "its name is that of an identifier" for name in dtypes if named_for_one(name)
        }
        left |= {
            name: f"its dtype {dtype} is not supported"
            for name, dtype in dtypes.items()
            if name not in left and base_dtype(dtype) == "unsupported"
        }
        names = [name for name in dtypes if name not in left]
        if not names:
            return [], [{"name": n, "reason": reason} for n, reason in left.items()]
        formats = self._formats(names)
        if self.decimal is None:
            self.decimal = _decimal_of(formats, self._clear(FORMATS, len(names)))
        formats = {name: _without_marks(counts, self.decimal) for name, counts in formats.items()}
        plans: dict[str, _Plan] = {}
        for name in names:
            plan = _planned(name, dtypes[name], formats[name], self._clear(FORMATS, len(names)))
            if not isinstance(plan, str) and plan.numbers is numbers_of:
                plan = replace(plan, numbers=partial(numbers_of, decimal=self.decimal))
            if isinstance(plan, str):
                left[name] = plan
            else:
                plans[name] = plan
        made = self._values(plans) if plans else {}
        columns = []
        for name, plan in plans.items():
            column = plan.column(*made[name])
            if isinstance(column, str):
                left[name] = column
            else:
                columns.append(column)
        reasons = [{"name": n, "reason": left[n]} for n in dtypes if n in left]
        return columns, reasons

    def _mechanism(self, stage: str, delta: float) -> Mechanism:
        if math.isinf(self._mu):
            return NoPrivacy()
        share = FORMATS_SHARE if stage == FORMATS else 1 - FORMATS_SHARE
        noise = 1 / (self._mu * math.sqrt(share))
        if stage == FORMATS:
            return Gaussian(noise_multiplier=noise)
        return ThresholdedGaussian(noise_multiplier=noise, threshold_delta=delta)

    def _open(self, stage: str, columns: int) -> tuple[Account, float]:
        """The account of a stage, and the standard deviation of the noise on each count, in rows."""
        mechanism = self._mechanism(stage, self._threshold_delta)
        details = {"l2_sensitivity": math.sqrt(columns), "unit": "counts", "columns": columns}
        account = self._ledger.open(f"schema: {stage}", mechanism, 1, details)
        return account, self._std(stage, columns)

    def _std(self, stage: str, columns: int) -> float:
        mechanism = self._mechanism(stage, 0.5)
        noise = 0.0 if isinstance(mechanism, NoPrivacy) else mechanism.noise_multiplier  # type: ignore[union-attr]
        return noise * math.sqrt(columns)

    def _clear(self, stage: str, columns: int) -> float:
        """Rows that a noisy count must have, to be taken for more than noise."""
        return max(0.5, CLEAR * self._std(stage, columns))

    def _formats(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Noisy numbers of rows by format, for each column. A row has one format in each: L2 sensitivity √columns."""
        account, std = self._open(FORMATS, len(names))
        frame = self._table.read(account)
        counts = []
        for name in names:
            codes = np.array([_FORMAT_CODES[f] for f in _formats_of(frame[name], self._nulls)], int)
            counts.append(np.bincount(codes, minlength=len(FORMAT_NAMES)).astype(float))
        counts = exact(account, counts, [std] * len(counts))
        noisy = [samplers.noisy(c, std, self._bits, whole=True) for c in counts]
        return {
            name: dict(zip(FORMAT_NAMES, c.tolist(), strict=True))
            for name, c in zip(names, noisy, strict=True)
        }

    def _values(self, plans: Mapping[str, "_Plan"]) -> dict[str, tuple[Any, float]]:
        """Noisy numbers of rows by value or grid cell, for each column, and what of them is clear of noise.

        A row adds 1 to one count of each column: L2 sensitivity √columns. Counts over a grid are there for every cell.
        Counts of texts are those of the texts that occur, so only those above the threshold leave this method.
        """
        account, std = self._open(VALUES, len(plans))
        frame = self._table.read(account)
        texts = sum(plan.grid is None for plan in plans.values())
        chance = self._threshold_delta / max(texts, 1)
        threshold = 1 + std * float(norm.isf(chance)) if std else 1.0
        out: dict[str, tuple[Any, float]] = {}
        for name, plan in plans.items():
            if plan.grid is None:
                out[name] = (
                    self._selected(account, plan.texts(frame[name], self._nulls), std, threshold),
                    0.0,
                )
                continue
            cells = plan.cells_of(frame[name], self._nulls)
            counted = np.bincount(cells[cells >= 0], minlength=len(plan.grid) + 1).astype(float)
            (counted,) = exact(account, [counted], [std])
            noisy = samplers.noisy(counted, std, self._bits, whole=True)
            out[name] = (noisy, max(0.5, CLEAR * std))
        return out

    def _selected(
        self, account: Account, texts: pd.Series, std: float, threshold: float
    ) -> list[str]:
        """Texts whose noisy count reaches the threshold, in the order of the alphabet."""
        counts = texts.value_counts()
        order = sorted(counts.index)  # independent of the rows' order
        values = counts.reindex(order).to_numpy(dtype=float)
        (values,) = exact(account, [values], [std])
        noisy = samplers.noisy(values, std, self._bits, whole=True) if len(values) else values
        kept = [(n, text) for n, text in zip(noisy.tolist(), order, strict=True) if n >= threshold]
        kept = sorted(kept, key=lambda pair: (-pair[0], pair[1]))[:MOST_CATEGORIES]
        return sorted(text for _, text in kept)


# Formats of values. A column of a DataFrame that declares numbers or dates has only some of them.
NULL, WHOLE, LONG_WHOLE, BOOL, DAY, INSTANT, CLOCK = (
    "null",
    "whole",
    "long whole",
    "bool",
    "day",
    "instant",
    "clock",
)
DECIMALS = tuple(f"decimals {n}" for n in range(1, 7))
COMMA_DECIMALS = tuple(f"decimals {n} after a comma" for n in range(1, 7))
ONE_COMMA, ONE_POINT = "1,234", "1.234"  # a fraction or thousands, as the decimal mark says
REAL, IDENTIFIER, NAMES, LONG_TEXT, SHORT = (
    "real",
    "identifier",
    "name of person",
    "long text",
    "text",
)
FORMAT_NAMES = (
    NULL, WHOLE, LONG_WHOLE, *DECIMALS, *COMMA_DECIMALS, ONE_COMMA, ONE_POINT, REAL, BOOL, DAY, INSTANT, CLOCK, IDENTIFIER, NAMES, LONG_TEXT, SHORT,
)  # fmt: skip
_FORMAT_CODES = {name: code for code, name in enumerate(FORMAT_NAMES)}
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,14})")
_NUMBER = re.compile(r"[+-]?(\d{1,15})(?:\.(\d*))?(?:[eE][+-]?\d{1,3})?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?")
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?")
LONG_DIGITS = 7  # of a whole number that may number records


def _decimal_of(formats: Mapping[str, Mapping[str, float]], clear: float) -> str | None:
    """The decimal mark of a table by its released formats: a comma where one column clearly has such fractions."""

    def some(names: Sequence[str]) -> bool:
        return any(counts[name] > clear for counts in formats.values() for name in names)

    if some(COMMA_DECIMALS):
        return ","
    return "." if some((ONE_COMMA,)) else None


def _without_marks(counts: Mapping[str, float], decimal: str | None) -> dict[str, float]:
    """Released formats of a column with the marks told apart: whole numbers, and numbers of some decimals."""
    out = dict(counts)
    for point, comma in zip(DECIMALS, COMMA_DECIMALS, strict=True):
        out[point] += out.pop(comma)
    for one, mark in ((ONE_COMMA, ","), (ONE_POINT, ".")):
        out[DECIMALS[2] if mark == (decimal or ".") else WHOLE] += out.pop(one)
    return out


def _formats_of(values: pd.Series, nulls: Sequence[str]) -> list[str]:
    """The format of each value, a function of that value and of the dtype alone."""
    if base_dtype(str(values.dtype)) in ("datetime", "timedelta", "period", "bool"):
        return [NULL if missing else SHORT for missing in values.isna()]
    missing = values.isna().to_numpy()
    cells = values.astype(object).to_numpy()
    known: dict[Any, str] = {}
    out = []
    for cell, is_missing in zip(cells, missing, strict=True):
        if is_missing:
            out.append(NULL)
            continue
        key = (type(cell), cell) if isinstance(cell, str | int | float | np.generic) else None
        if key is None:
            out.append(SHORT)
            continue
        if key not in known:
            known[key] = _format(cell, nulls)
        out.append(known[key])
    return out


def _format(cell: Any, nulls: Sequence[str]) -> str:
    text = cell.strip() if isinstance(cell, str) else _number_text(cell)
    if isinstance(cell, str) and (cell in nulls or text in nulls):
        return NULL
    if _WHOLE.fullmatch(text):
        return LONG_WHOLE if len(text.lstrip("+-")) >= LONG_DIGITS else WHOLE
    if isinstance(cell, str) and (marked := _marked_format(text)) is not None:
        return marked
    match = _NUMBER.fullmatch(text)
    if match and not (len(match[1]) > 1 and match[1][0] == "0"):
        decimals = len((match[2] or "").rstrip("0"))
        return (
            REAL
            if "e" in text.lower() or decimals > len(DECIMALS)
            else (DECIMALS[decimals - 1] if decimals else WHOLE)
        )
    if text.lower() in ("true", "false"):
        return BOOL
    for form, name in ((_DAY, DAY), (_INSTANT, INSTANT), (_CLOCK, CLOCK)):
        if form.fullmatch(text):
            return name
    found = value_format(text)
    return {None: SHORT, "identifier": IDENTIFIER, "name": NAMES}.get(found, LONG_TEXT)


def _marked_format(text: str) -> str | None:
    """The format of a number with a comma, thousands marks or a sign of currency or percent; else None."""
    mark = one_group(text)
    plain = plain_number(text, ".")
    if plain is None or (plain == text and mark is None) or value_format(text) is not None:
        return None
    if mark is not None:
        return ONE_COMMA if mark == "," else ONE_POINT
    whole, _, fraction = plain.partition(".")
    if not _WHOLE.fullmatch(whole):
        return None
    if not fraction:
        return LONG_WHOLE if len(whole.lstrip("+-")) >= LONG_DIGITS else WHOLE
    names = COMMA_DECIMALS if decimal_mark(text) == "," else DECIMALS
    return names[min(len(fraction), len(names)) - 1]


def _number_text(cell: Any) -> str:
    number = float(cell)
    if math.isfinite(number) and number == int(number) and abs(number) < 1e15:
        return str(int(number))
    return repr(number)


@dataclass(frozen=True, eq=False)
class _Plan:
    """How the values of a column are counted, and what column the counts make.

    ``grid`` are edges of cells, in numbers or units; None: texts are counted.
    """

    name: str
    dtype: str
    nulls: bool
    grid: np.ndarray | None
    make: Callable[[dict[str, Any], Any, float], Column | str]
    numbers: Callable[[pd.Series, Sequence[str]], np.ndarray] | None = None

    def texts(self, values: pd.Series, nulls: Sequence[str]) -> pd.Series:
        """The values that are no nulls, as text."""
        texts = values.dropna().map(str)
        return texts[~texts.isin(list(nulls))]

    def cells_of(self, values: pd.Series, nulls: Sequence[str]) -> np.ndarray:
        """The grid cell of each value, -1 of what is none; the first and the last cell have no end."""
        assert self.numbers is not None and self.grid is not None
        numbers = self.numbers(values, nulls)
        cells = np.searchsorted(self.grid, numbers, side="right")
        return np.where(np.isnan(numbers), -1, cells)

    def column(self, released: Any, clear: float) -> Column | str:
        """The column, or why it is left out."""
        facts = {
            "name": self.name,
            "dtype": self.dtype,
            "nulls": self.nulls,
            "provenance": "released",
        }
        return self.make(facts, released, clear)


def _planned(name: str, dtype: str, formats: Mapping[str, float], clear: float) -> "_Plan | str":
    """What is asked of the values of a column, or why it is left out: of its dtype and released formats alone."""
    base = base_dtype(dtype)
    some = {f: count if count > clear else 0.0 for f, count in formats.items() if f != NULL}
    present = sum(some.values())
    if not present:
        return "it has too few values to be released at this budget"
    share = {f: count / present for f, count in some.items()}
    nulls = formats[NULL] > clear
    if base == "bool":
        whole = "boolean" if dtype == "boolean" else "bool"
        return _Plan(
            name,
            whole,
            whole == "boolean" and nulls,
            np.array([0.5]),
            _of_truth,
            lambda v, nulls: truths_of(v),
        )
    if base in ("datetime", "timedelta", "period"):
        return _temporal(name, dtype, nulls)
    if share[IDENTIFIER] > IDENTIFYING:
        return "its values look like identifiers"
    if share[NAMES] + share[LONG_TEXT] > PROSE:
        return "its values look like names of persons or free text"
    numbers = [WHOLE, LONG_WHOLE, *DECIMALS, REAL]
    if base in ("int", "float") or sum(share[f] for f in numbers) > NUMERIC:
        if share[LONG_WHOLE] > PROSE:
            return "its values are long whole numbers, as record numbers are"
        return _numeric(name, dtype, nulls, formats, clear)
    for form, kind in ((DAY, _days), (INSTANT, _instants), (CLOCK, _clocks)):
        if share[form] > NUMERIC:
            return kind(name, nulls)
    if share[BOOL] > NUMERIC:
        return _Plan(
            name, "boolean" if nulls else "bool", nulls, np.array([0.5]), _of_truth, _truths
        )
    return _Plan(name, "str", nulls, None, _of_texts)


def _of_texts(facts: dict[str, Any], released: list[str], clear: float) -> Column | str:
    if not released:
        return "no value has enough rows to be released"
    if len(released) == 1 and released[0] == OTHER:
        return "no value has enough rows to be released"
    others = released if OTHER in released else [*released, OTHER]
    return Categorical(**facts, categories=tuple(others), other=OTHER)


def _of_truth(facts: dict[str, Any], released: Any, clear: float) -> Column | str:
    return Categorical(**facts, categories=(False, True))


def _truths(values: pd.Series, nulls: Sequence[str]) -> np.ndarray:
    return truths_of(values)


def _grid_of_numbers() -> np.ndarray:
    sizes = np.array([m * 10.0**power for power in POWERS for m in MANTISSAS])
    return np.concatenate([-sizes[::-1], [0.0, 1e-9], sizes])


def _numeric(
    name: str, dtype: str, nulls: bool, formats: Mapping[str, float], clear: float
) -> _Plan:
    """Decimals are those that a clear number of rows has; rows with more are rounded."""
    decimals: int | None = 0
    for n, form in enumerate(DECIMALS, start=1):
        if formats[form] > clear:
            decimals = n
    if formats[REAL] > clear:
        decimals = None
    base = base_dtype(dtype)
    if base == "int":
        decimals = 0
        kept, nulls = dtype, nulls and dtype[0] in "IU"
    elif base == "float":
        kept = dtype
    elif decimals == 0:
        kept = "Int64" if nulls else "int64"
    else:
        kept = "float64"
    step = None if decimals is None else 10.0**-decimals

    def make(facts: dict[str, Any], counts: np.ndarray, least: float) -> Column | str:
        return _of_numbers(facts, counts, least, step)

    return _Plan(name, kept, nulls, _grid_of_numbers(), make, numbers_of)


def _of_numbers(
    facts: dict[str, Any], counts: np.ndarray, clear: float, step: float | None
) -> Column | str:
    """Bounds are those of the outermost grid cells with clearly any rows; skewed columns keep the grid's cells."""
    grid = _grid_of_numbers()
    some = np.flatnonzero(counts[1:-1] > clear)
    if not len(some):
        return "no range of its values has enough rows to be released"
    low, high = float(grid[some[0]]), float(grid[some[-1] + 1])
    if step is not None:
        low = math.ceil(low / step - 1e-6) * step
        # The upper edge of a cell belongs to the next one; 0 has a cell of its own.
        high = 0.0 if grid[some[-1]] == 0 else (math.ceil(high / step - 1e-6) - 1) * step
        low, high = (round(end, 9) for end in (low, max(low, high)))
    if base_dtype(facts["dtype"]) == "int":
        limits = np.iinfo(facts["dtype"].lower())
        low, high = (int(min(max(end, limits.min), limits.max)) for end in (low, high))
    breaks = _breaks(grid, np.maximum(counts, 0), low, high, step, clear)
    if breaks and base_dtype(facts["dtype"]) == "int":
        breaks = tuple(int(b) for b in breaks)
    steps = 0 if step is None else round((high - low) / step) + 1
    bins = steps if DEFAULT_BINS < steps <= EACH else None
    return Numeric(
        **facts, low=low, high=high, resolution=step, bins=bins, breaks=breaks, clip=True
    )


def _breaks(
    grid: np.ndarray, counts: np.ndarray, low: float, high: float, step: float | None, clear: float
) -> tuple[float, ...]:
    """The grid's edges between the bounds, where they divide the rows more evenly than equal cells; else none."""
    if step is not None and (high - low) / step < EACH:
        return ()
    inside = np.flatnonzero((grid[:-1] >= low - 1e-9) & (grid[:-1] <= high))
    starts, total = [], 0.0
    for cell in inside:
        start = grid[cell] if step is None else round(math.ceil(grid[cell] / step - 1e-6) * step, 9)
        within = start <= high if step is not None else start < high
        if total > clear and start > low and within and start not in starts:
            starts.append(float(start))
            total = 0.0
        total += float(counts[cell + 1])
    if not starts or len(starts) >= DEFAULT_BINS:
        return ()
    # How likely two rows are to share a cell, with rows spread evenly within the grid's cells.
    points = np.concatenate(
        [grid[c] + (grid[c + 1] - grid[c]) * (np.arange(16) + 0.5) / 16 for c in inside[:-1]]
        or [np.array([low])]
    )
    weights = np.repeat(counts[inside[:-1] + 1], 16)[: len(points)]
    if weights.sum() <= 0:
        return ()
    shared = []
    for edges in (
        np.array([low, *starts, max(high, starts[-1]) + 1e-9]),
        np.linspace(low, high, DEFAULT_BINS + 1),
    ):
        part = np.histogram(points, edges, weights=weights)[0] / weights.sum()
        shared.append(float(np.square(part).sum()))
    return tuple(starts) if shared[0] <= 0.75 * shared[1] else ()


def _months() -> np.ndarray:
    """First days of the months from 1900 to 2100, in microseconds since 1970."""
    months = np.arange("1900-01", "2101-01", dtype="datetime64[M]")
    return months.astype("datetime64[us]").astype("int64").astype(float)


def _dated(
    kind: type[Temporal], **more: Any
) -> Callable[[dict[str, Any], Any, float], Column | str]:
    def make(facts: dict[str, Any], counts: np.ndarray, clear: float) -> Column | str:
        some = np.flatnonzero(counts[1:-1] > clear)
        if not len(some):
            return "no period of its values has enough rows to be released"
        months = np.arange("1900-01", "2101-01", dtype="datetime64[M]")
        low = str(months[some[0]].astype("datetime64[D]"))
        last = months[some[-1] + 1].astype("datetime64[D]") - np.timedelta64(1, "D")
        high = str(last) if kind in (Date, Period) else f"{last} 23:59:59"
        return kind(**facts, low=low, high=high, clip=True, **more)

    return make


def _microseconds(column: Temporal) -> Callable[[pd.Series, Sequence[str]], np.ndarray]:
    def numbers(values: pd.Series, nulls: Sequence[str]) -> np.ndarray:
        if base_dtype(str(values.dtype)) == "period":
            values = values.dt.to_timestamp()
        kept = values.where(~values.isin(list(nulls)), None) if values.dtype == object else values
        return column.amounts(kept) * _UNITS[column.kind]

    return numbers


_UNITS = {"date": 86_400_000_000.0, "datetime": 1_000_000.0}


def _days(name: str, nulls: bool) -> _Plan:
    wide = Date(name=name, dtype="str", nulls=True, low="1700-01-01", high="2250-12-31")
    return _Plan(name, "str", nulls, _months(), _dated(Date), _microseconds(wide))


def _instants(name: str, nulls: bool) -> _Plan:
    wide = Datetime(name=name, dtype="str", nulls=True, low="1700-01-01", high="2250-12-31")
    return _Plan(name, "str", nulls, _months(), _dated(Datetime), _microseconds(wide))


def _clocks(name: str, nulls: bool) -> _Plan:
    def make(facts: dict[str, Any], counts: Any, clear: float) -> Column | str:
        return Time(**facts)

    return _Plan(name, "str", nulls, np.array([0.0]), make, lambda v, n: np.zeros(len(v)))


def _temporal(name: str, dtype: str, nulls: bool) -> _Plan:
    base = base_dtype(dtype)
    if base == "timedelta":
        edges = np.array(
            [-(10.0**p) for p in range(8, -1, -1)] + [0.0] + [10.0**p for p in range(9)]
        )

        def make(facts: dict[str, Any], counts: np.ndarray, clear: float) -> Column | str:
            some = np.flatnonzero(counts[1:-1] > clear)
            if not len(some):
                return "no range of its values has enough rows to be released"
            low, high = edges[some[0]], edges[some[-1] + 1]
            return Duration(**facts, low=f"{int(low)}s", high=f"{int(high)}s", clip=True)

        wide = Duration(name=name, dtype=dtype, nulls=True, low="-36500 days", high="36500 days")
        return _Plan(name, dtype, nulls, edges, make, lambda v, n: wide.amounts(v))
    wide_dates = Datetime(
        name=name, dtype="datetime64[us]", nulls=True, low="1700-01-01", high="2250-12-31"
    )
    kind = Period if base == "period" else Datetime
    return _Plan(name, dtype, nulls, _months(), _dated(kind), _microseconds(wide_dates))
