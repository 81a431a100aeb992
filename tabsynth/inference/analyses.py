"""Common analyses with intervals."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

from tabsynth._validate import in_range, quote
from tabsynth.errors import InputError
from tabsynth.inference.influence import (
    Influence,
    Reference,
    Rows,
    estimates,
)
from tabsynth.schema.cells import is_range, range_ends
from tabsynth.schema.column import Column
from tabsynth.synthesizers.margnet.estimator import MargNet

Model: TypeAlias = MargNet | Reference
Columns: TypeAlias = str | Sequence[str] | None
NUMBERS = ("estimate", "standard_error", "low", "high")
MOST_STATISTICS = 10_000
GRID = 500  # values at which the distribution of a column is estimated
NEWTON, CLOSE = 50, 1e-9
MOST_COEFFICIENT = 30.0


def mean(
    model: Model, column: str, by: Columns = None, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the mean of a numeric column, nulls left out, of all rows or of each group.

    Parameters
    ----------
    model : MargNet or Reference
        A fitted model. A :class:`Reference` of it serves several analyses, saves time, and takes a seed of its own.
    column : str
    by : str or sequence of str, optional
        Columns whose values make the groups.
    confidence : float
        Of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        A row for each statistic, with ``estimate``, ``standard_error``, ``low``, ``high`` and ``note``. The last says "not
        supported by the measured marginals" in place of numbers, where the noisy counts do not show the statistic.
    """
    reference, rows = _rows_of(model, [column], by)
    y = _numbers(reference, rows, column)
    groups, members = _groups(rows, _list_columns(by), column)
    inside = np.where(np.isnan(y), -1, members)
    return _ratio(reference, rows, groups, inside, np.nan_to_num(y), confidence)


def proportion(
    model: Model, event: Mapping[str, object], by: Columns = None, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the share of rows with an event, of all rows or of each group.

    Parameters
    ----------
    model : MargNet or Reference
    event : mapping
        From columns to a value, a range ``{"low": a, "high": b}``, or several of these; None for null. As ``where`` of
        :meth:`tabsynth.MargNet.sample`.
    by, confidence
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`mean`. Intervals are within 0 and 1.
    """
    reference, rows = _rows_of(model, _columns_of(event), by)
    happens = _event(reference, rows, event)
    groups, members = _groups(rows, _list_columns(by), str(event))
    return _as_shares(_ratio(reference, rows, groups, members, happens.astype(float), confidence))


def crosstab(
    model: Model, columns: str | Sequence[str], *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the share of all rows in each cell of a table of one column or several.

    Parameters
    ----------
    model : MargNet or Reference
    columns : str or sequence of str
    confidence
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`proportion`, a row for each cell. Multiply by ``model.rows_`` for counts.
    """
    names = _list_columns(columns)
    if not names:
        raise InputError("Expected columns of a table, got none; name one or more.")
    reference, rows = _rows_of(model, names)
    cells, members = _groups(rows, names, "")
    shares = np.bincount(members, rows.synthetic, len(cells))

    def of(part: slice) -> np.ndarray:
        number = np.arange(part.start, part.stop)
        return (members[:, None] == number).astype(float) - shares[part]

    influence = Influence(cells, shares, of)
    return _as_shares(estimates(reference, rows, influence, confidence))


def quantile(
    model: Model, column: str, q: float = 0.5, by: Columns = None, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return a quantile of a numeric column, of all rows or of each group.

    The interval holds the values at which the interval of the distribution function has ``q`` (Woodruff 1952).

    Parameters
    ----------
    model : MargNet or Reference
    column : str
    q : float
        Between 0 and 1.
    by, confidence
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`mean`. The standard error is the width of the interval over that of a normal one.
    """
    in_range("q", q, 0, 1, low_open=True, high_open=True)
    in_range("confidence", confidence, 0, 1, low_open=True, high_open=True)
    reference, rows = _rows_of(model, [column], by)
    y = _numbers(reference, rows, column)
    groups, members = _groups(rows, _list_columns(by), column)
    inside = np.where(np.isnan(y), -1, members)
    values = np.unique(y[~np.isnan(y)])
    if len(values) > GRID:
        values = np.unique(np.quantile(values, np.linspace(0, 1, GRID)))
    z = norm.ppf((1 + confidence) / 2)
    out = []
    for g in range(len(groups)):
        influence = _distribution(
            np.where(inside == g, rows.synthetic, 0.0), inside == g, y, values
        )
        out.append(_crossing(estimates(reference, rows, influence, confidence), values, q, z))
    return pd.DataFrame(out, index=groups)


def _distribution(
    weights: np.ndarray, member: np.ndarray, y: np.ndarray, values: np.ndarray
) -> Influence:
    """Return the distribution function of a group of rows at some values."""
    size = weights.sum()
    below = np.array([weights[y <= v].sum() / size if size else np.nan for v in values])

    def of(part: slice) -> np.ndarray:
        under = (y[:, None] <= values[part]).astype(float) - below[part]
        return np.where(member[:, None], under, 0.0) / max(size, 1e-12)

    return Influence(values, below, of)


def _crossing(at: pd.DataFrame, values: np.ndarray, q: float, z: float) -> dict[str, float | str]:
    """Return where estimates of a distribution function, and the ends of their intervals, first reach ``q``."""
    good = (at["note"] == "").to_numpy()
    if not good.any():
        return {**dict.fromkeys(NUMBERS, np.nan), "note": at["note"].iloc[0]}
    curves = [
        np.maximum.accumulate(at[name].to_numpy()[good]) for name in ("high", "estimate", "low")
    ]
    low, middle, high = (
        values[good][min(int(np.searchsorted(curve, q)), int(good.sum()) - 1)] for curve in curves
    )
    error = (high - low) / (2 * z)
    return {"estimate": middle, "standard_error": error, "low": low, "high": high, "note": ""}


def ols(
    model: Model, outcome: str, predictors: Sequence[str], *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return coefficients of a linear regression by least squares, with an intercept.

    Parameters
    ----------
    model : MargNet or Reference
    outcome : str
        A numeric column.
    predictors : sequence of str
        Numeric columns as they are; of other columns an indicator of each value but the first. Rows with a null in a
        numeric column are left out.
    confidence
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`mean`, a row for each coefficient. Standard errors do not assume equal variances.
    """
    reference, rows = _rows_of(model, [outcome], predictors)
    y = _numbers(reference, rows, outcome)
    x, y, names = _regression(reference, rows, predictors, y)
    gram = np.linalg.pinv(x.T * rows.synthetic @ x)
    beta = gram @ (x.T @ (rows.synthetic * y))
    scores = x * (y - x @ beta)[:, None]
    influence = Influence(names, beta, lambda part: scores @ gram[:, part])
    return estimates(reference, rows, influence, confidence)


def logit(
    model: Model,
    event: Mapping[str, object],
    predictors: Sequence[str],
    *,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return coefficients of a logistic regression by maximum likelihood, with an intercept.

    Parameters
    ----------
    model : MargNet or Reference
    event : mapping
        The outcome, as of :func:`proportion`.
    predictors, confidence
        As of :func:`ols`.

    Returns
    -------
    DataFrame
        As of :func:`ols`: coefficients are log odds ratios.
    """
    reference, rows = _rows_of(model, _columns_of(event), predictors)
    y = _event(reference, rows, event).astype(float)
    x, y, names = _regression(reference, rows, predictors, y)
    beta, inverse = _logistic(x, y, rows.synthetic, names)
    scores = x * (y - expit(x @ beta))[:, None]
    influence = Influence(names, beta, lambda part: scores @ inverse[:, part])
    return estimates(reference, rows, influence, confidence)


def _logistic(
    x: np.ndarray, y: np.ndarray, shares: np.ndarray, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients by Newton's method, and the inverse of the mean information; rows have shares."""
    beta = np.zeros(x.shape[1])
    for _ in range(NEWTON):
        p = expit(x @ beta)
        information = (x * (shares * p * (1 - p))[:, None]).T @ x
        step = np.linalg.pinv(information) @ (x.T @ (shares * (y - p)))
        beta = beta + step
        if np.abs(step).max() < CLOSE:
            break
    if not np.abs(beta).max() < MOST_COEFFICIENT:
        name = names[int(np.abs(beta).argmax())]
        raise InputError(
            f"The logistic regression has no finite coefficient of {quote(name)}: its rows all have the event, or none has;"
            " leave it out."
        )
    return beta, np.linalg.pinv(information)


def _rows_of(model: Model, columns: Sequence[str], by: Columns = None) -> tuple[Reference, Rows]:
    """Return the reference rows of a model, and the distinct ones by the columns of an analysis."""
    reference = model if isinstance(model, Reference) else Reference(model)
    names = dict.fromkeys([*columns, *_list_columns(by)])
    return reference, reference.distinct(list(names))


def _columns_of(event: object) -> list[str]:
    """Return the columns of an event."""
    if not isinstance(event, Mapping) or not event:
        raise InputError(f'Expected an event such as {{"column": value}}, got {quote(event)}.')
    return list(event)


def _list_columns(names: Columns) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Sequence | pd.Index) or not all(isinstance(n, str) for n in names):
        raise InputError(f"Expected names of columns, got {quote(names)}.")
    out = list(dict.fromkeys(names))
    if len(out) < len(names):
        raise InputError(f"Expected different columns, got {quote(list(names))}.")
    return out


def _groups(rows: Rows, columns: list[str], name: str) -> tuple[pd.Index, np.ndarray]:
    """Return the groups of rows by the values of columns, and the number of each row's; without columns one of all rows."""
    if not columns:
        return pd.Index([name]), np.zeros(len(rows.table), dtype=int)
    grouped = rows.table.groupby(columns, dropna=False, observed=True, sort=True)
    groups = grouped.size().index
    if len(groups) > MOST_STATISTICS:
        raise InputError(
            f"The columns {', '.join(columns)} have {len(groups):,} combinations of values, past {MOST_STATISTICS:,};"
            " name fewer columns, or columns of fewer values."
        )
    return groups, grouped.ngroup().to_numpy()


def _ratio(
    reference: Reference,
    rows: Rows,
    groups: pd.Index,
    inside: np.ndarray,
    y: np.ndarray,
    confidence: float,
) -> pd.DataFrame:
    """Return the mean of numbers in each group; a row that is in none has -1."""
    count, member = len(groups), inside >= 0
    shares = rows.synthetic[member]
    sizes = np.bincount(inside[member], shares, count)
    sums = np.bincount(inside[member], shares * y[member], count)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / sizes

    def of(part: slice) -> np.ndarray:
        number = np.arange(part.start, part.stop)
        centred = (y[:, None] - means[part]) / np.maximum(sizes[part], 1e-12)
        return np.where(inside[:, None] == number, centred, 0.0)

    return estimates(reference, rows, Influence(groups, means, of), confidence)


def _numbers(reference: Reference, rows: Rows, name: str) -> np.ndarray:
    """Return the values of a numeric column, nan for null, shape (rows,)."""
    values = rows.table[name]
    if not pd.api.types.is_numeric_dtype(values) or _column(reference, name).kind != "numeric":
        raise InputError(f"Column {quote(name)} is not numeric; name a numeric column.")
    return values.to_numpy(dtype=float, na_value=np.nan)


def _column(reference: Reference, name: str) -> Column:
    column: Column = reference.encoder.whole[name]
    return column


def _event(reference: Reference, rows: Rows, event: Mapping[str, object]) -> np.ndarray:
    """Return which rows have an event, bool, shape (rows,)."""
    happens = np.ones(len(rows.table), dtype=bool)
    for name, value in event.items():
        column, values = _column(reference, name), rows.table[name]
        several = value if isinstance(value, list | tuple | set | frozenset) else [value]
        happens &= np.any([_matches(column, values, item) for item in several], axis=0)
    return happens


def _matches(column: Column, values: pd.Series, value: Any) -> np.ndarray:
    """Return which values of a column are a declared one, null, or in a range, bool, shape (rows,)."""
    if value is None:
        column.mask([None], "event")
        return values.isna().to_numpy()
    if not is_range(value):
        column.mask([value], "event")
        return (values == value).fillna(False).to_numpy(dtype=bool)
    allowed = column.mask(value, "event")
    if column.kind == "numeric":
        return values.between(*range_ends(value)).fillna(False).to_numpy(dtype=bool)
    return allowed[column.encode(values)]


def _regression(
    reference: Reference, rows: Rows, predictors: Sequence[str], y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return predictors with an intercept, the outcome, and the names of the coefficients; rows with a null in a number are all 0."""
    count = len(rows.table)
    complete = ~np.isnan(y)
    columns, labels = [np.ones(count)], ["intercept"]
    for name in _list_columns(predictors):
        if _column(reference, name).kind == "numeric":
            numbers = _numbers(reference, rows, name)
            complete &= ~np.isnan(numbers)
            columns.append(numbers)
            labels.append(name)
            continue
        codes, levels = pd.factorize(rows.table[name], sort=True, use_na_sentinel=False)
        present = np.unique(codes[rows.synthetic > 0])
        for code in present[1:]:
            columns.append((codes == code).astype(float))
            level = levels[code]
            labels.append(f"{name}[{'null' if pd.isna(level) else level}]")
    x = np.where(complete[:, None], np.stack(columns, axis=1), 0.0)
    return x, np.where(complete, y, 0.0), labels


def _as_shares(out: pd.DataFrame) -> pd.DataFrame:
    """Return estimates and intervals of shares of rows: within 0 and 1."""
    names = ["estimate", "low", "high"]
    out[names] = out[names].clip(0, 1)
    return out
