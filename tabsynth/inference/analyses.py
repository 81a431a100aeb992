"""Common analyses with intervals, and any function of a DataFrame."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

from tabsynth._random import Randomness
from tabsynth._validate import between, shown
from tabsynth.errors import InputError
from tabsynth.inference.influence import (
    NO_CHANGE,
    Influence,
    Reference,
    Rows,
    estimates,
)
from tabsynth.schema.cells import is_range, range_ends
from tabsynth.schema.column import Column

MOST_STATISTICS = 10_000
MOST_CALLS = 4_000  # of a function of a DataFrame
GRID = 500  # values at which the distribution of a column is estimated
ADDED = 5  # rows that are added for one evaluation of a function of a DataFrame
NEWTON, CLOSE = 50, 1e-9
MOST_COEFFICIENT = 30.0


def mean(
    model: Any,
    column: str,
    by: str | Sequence[str] | None = None,
    *,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Return the mean of a numeric column, nulls left out, of all rows or of each group.

    Parameters
    ----------
    model : MargNet or Reference
        A fitted model. A :class:`Reference` of it serves several analyses and saves time.
    column : str
    by : str or sequence of str, optional
        Columns whose values make the groups.
    confidence : float
        Of the intervals, between 0 and 1.
    random_state : int, optional
        Of the synthetic rows that the estimate starts from.

    Returns
    -------
    DataFrame
        A row for each statistic, with ``estimate``, ``standard_error``, ``low``, ``high`` and ``note``. The last says "not
        supported by the measured marginals" in place of numbers, where the noisy counts do not show the statistic.
    """
    reference, rows = _rows_of(model, random_state, [column], by)
    y = _numbers(reference, rows, column)
    groups = _Groups(rows, _list_columns(by), column)
    inside = np.where(np.isnan(y), -1, groups.of)
    return _ratio(reference, rows, groups, inside, np.nan_to_num(y), confidence)


def proportion(
    model: Any,
    event: Mapping[str, Any],
    by: str | Sequence[str] | None = None,
    *,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Return the share of rows with an event, of all rows or of each group.

    Parameters
    ----------
    model : MargNet or Reference
    event : mapping
        From columns to a value, a range ``{"low": a, "high": b}``, or several of these; None for null. As ``where`` of
        :meth:`tabsynth.MargNet.sample`.
    by, confidence, random_state
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`mean`. Intervals are within 0 and 1.
    """
    reference, rows = _rows_of(model, random_state, _columns_of(event), by)
    happens = _event(reference, rows, event)
    groups = _Groups(rows, _list_columns(by), str(event))
    return _as_shares(_ratio(reference, rows, groups, groups.of, happens.astype(float), confidence))


def crosstab(
    model: Any,
    columns: str | Sequence[str],
    *,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Return the share of all rows in each cell of a table of one column or several.

    Parameters
    ----------
    model : MargNet or Reference
    columns : str or sequence of str
    confidence, random_state
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`proportion`, a row for each cell. Multiply by ``model.rows_`` for counts.
    """
    names = _list_columns(columns)
    if not names:
        raise InputError("Expected columns of a table, got none; name one or more.")
    reference, rows = _rows_of(model, random_state, names)
    groups = _Groups(rows, names, "")
    shares = np.bincount(groups.of, rows.synthetic, len(groups.names))

    def of(part: slice) -> np.ndarray:
        number = np.arange(part.start, part.stop)
        return (groups.of[:, None] == number).astype(float) - shares[part]

    influence = Influence(groups.names, shares, of)
    return _as_shares(estimates(reference, rows, influence, confidence))


def quantile(
    model: Any,
    column: str,
    q: float = 0.5,
    by: str | Sequence[str] | None = None,
    *,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Return a quantile of a numeric column, of all rows or of each group.

    The interval holds the values at which the interval of the distribution function has ``q`` (Woodruff 1952).

    Parameters
    ----------
    model : MargNet or Reference
    column : str
    q : float
        Between 0 and 1.
    by, confidence, random_state
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`mean`. The standard error is the width of the interval over that of a normal one.
    """
    between("q", q, 0, 1, low_open=True, high_open=True)
    between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    reference, rows = _rows_of(model, random_state, [column], by)
    y = _numbers(reference, rows, column)
    groups = _Groups(rows, _list_columns(by), column)
    inside = np.where(np.isnan(y), -1, groups.of)
    values = np.unique(y[~np.isnan(y)])
    if len(values) > GRID:
        values = np.unique(np.quantile(values, np.linspace(0, 1, GRID)))
    z = norm.ppf((1 + confidence) / 2)
    out = []
    for g in range(len(groups.names)):
        member = inside == g
        weights = np.where(member, rows.synthetic, 0.0)
        size = weights.sum()
        below = np.array([weights[y <= v].sum() / size if size else np.nan for v in values])

        def of(
            part: slice, member: Any = member, size: Any = size, below: Any = below
        ) -> np.ndarray:
            under = (y[:, None] <= values[part]).astype(float) - below[part]
            return np.where(member[:, None], under, 0.0) / max(size, 1e-12)

        at = estimates(reference, rows, Influence(values, below, of), confidence)
        out.append(_crossing(at, values, q, z))
    return pd.DataFrame(out, index=groups.names)


def _crossing(at: pd.DataFrame, values: np.ndarray, q: float, z: float) -> dict[str, Any]:
    """Return where estimates of a distribution function, and the ends of their intervals, first reach ``q``."""
    nothing = {"estimate": np.nan, "standard_error": np.nan, "low": np.nan, "high": np.nan}
    good = (at["note"] == "").to_numpy()
    if not good.any():
        return {**nothing, "note": at["note"].iloc[0]}
    curves = [
        np.maximum.accumulate(at[name].to_numpy()[good]) for name in ("high", "estimate", "low")
    ]
    low, middle, high = (
        values[good][min(int(np.searchsorted(curve, q)), int(good.sum()) - 1)] for curve in curves
    )
    error = (high - low) / (2 * z)
    return {"estimate": middle, "standard_error": error, "low": low, "high": high, "note": ""}


def ols(
    model: Any,
    outcome: str,
    predictors: Sequence[str],
    *,
    confidence: float = 0.95,
    random_state: int | None = None,
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
    confidence, random_state
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`mean`, a row for each coefficient. Standard errors do not assume equal variances.
    """
    reference, rows = _rows_of(model, random_state, [outcome], predictors)
    y = _numbers(reference, rows, outcome)
    x, y, names = _regression(reference, rows, predictors, y)
    gram = np.linalg.pinv(x.T * rows.synthetic @ x)
    beta = gram @ (x.T @ (rows.synthetic * y))
    scores = x * (y - x @ beta)[:, None]
    influence = Influence(names, beta, lambda part: scores @ gram[:, part])
    return estimates(reference, rows, influence, confidence)


def logit(
    model: Any,
    event: Mapping[str, Any],
    predictors: Sequence[str],
    *,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Return coefficients of a logistic regression by maximum likelihood, with an intercept.

    Parameters
    ----------
    model : MargNet or Reference
    event : mapping
        The outcome, as of :func:`proportion`.
    predictors, confidence, random_state
        As of :func:`ols`.

    Returns
    -------
    DataFrame
        As of :func:`ols`: coefficients are log odds ratios.
    """
    reference, rows = _rows_of(model, random_state, _columns_of(event), predictors)
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
            f"The logistic regression has no finite coefficient of {shown(name)}: its rows all have the event, or none has;"
            " leave it out."
        )
    return beta, np.linalg.pinv(information)


def infer(
    analysis: Callable[[pd.DataFrame], Any],
    model: Any,
    columns: Sequence[str] | None = None,
    *,
    confidence: float = 0.95,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Return estimates and intervals of any function of a DataFrame that returns numbers.

    Its influence function is computed by adding a few copies of a row to a synthetic table, for each combination of values
    of its columns, or for 4,000 rows. It must change smoothly with the rows, as means, ratios and coefficients do; for quantiles there
    is :func:`quantile`. The note of a number that does not change at all says so, in place of numbers.

    Parameters
    ----------
    analysis : callable
        From a DataFrame with the schema's columns to a number, a sequence of numbers, or a Series or mapping of them.
    model : MargNet or Reference
    columns : sequence of str, optional
        The columns that the analysis uses; it then gets no others. Default: those without which it fails or gives another
        result.
    confidence, random_state
        As of :func:`mean`.

    Returns
    -------
    DataFrame
        As of :func:`mean`, a row for each number.

    Raises
    ------
    InputError
        If the analysis fails or returns no numbers, or uses so many columns that their measured sets have more than
        2,000 cells.
    """
    reference = reference_of(model, random_state)
    names, values = _call_analysis(analysis, reference.synthetic)
    if columns is None:
        columns = _trace_columns(analysis, reference.synthetic, values)
    else:
        columns = _list_columns(columns)
        reference.modelled(columns)
        _call_analysis(analysis, reference.synthetic[columns], values)
    if not columns:
        raise InputError("The analysis uses no column of the table; it has no sampling error.")
    rows, sample = reference.distinct(columns, by_value=False), None
    if len(rows.index) > MOST_CALLS:
        _check_cells(reference, columns)
        sample = rows.sample(MOST_CALLS, Randomness(random_state).numpy())
    at = rows.index if sample is None else sample[1].index
    table, half = reference.table[columns], reference.rows
    phi = np.empty((len(at), len(values)))
    for i, row in enumerate(at):  # a few copies of each row: a numerical derivative
        more = table.iloc[np.append(np.arange(half), np.full(ADDED, row))]
        phi[i] = (_call_analysis(analysis, more, values)[1] - values) * (half / ADDED + 1)
    influence = Influence(names, values, lambda part: phi[:, part])
    result = estimates(reference, rows, influence, confidence, sample)
    still = ~phi.any(axis=0)  # such as a median: its standard error would be 0
    result.loc[still, "note"] = NO_CHANGE
    result.loc[still, ["estimate", "standard_error", "low", "high"]] = np.nan
    return result


def _check_cells(reference: Reference, columns: list[str]) -> None:
    """Refuse columns of so many cells that a sample of rows does not show them."""
    cells = sum(len(a.counts) for a in reference.aggregates(reference.modelled(columns)))
    if cells > MOST_CALLS // 2:
        raise InputError(
            f"The analysis uses columns of {cells:,} cells in the measured sets, past {MOST_CALLS // 2:,}; use fewer columns,"
            " or a function of tabsynth.inference such as ols."
        )


def _call_analysis(
    analysis: Callable[[pd.DataFrame], Any], table: pd.DataFrame, like: np.ndarray | None = None
) -> tuple[Sequence[Any], np.ndarray]:
    """Return names and values of what an analysis returns.

    Raises
    ------
    InputError
        If it fails, or returns no finite numbers, or not as many as ``like``.
    """
    try:
        result = analysis(table)
    except Exception as error:  # an analysis is the caller's own code
        text = " ".join(str(error).split())
        raise InputError(
            f"The analysis failed on a synthetic table: {type(error).__name__}: {shown(text, 120)}; correct it."
        ) from error
    names, values = numbers_of(result)
    if like is not None and len(values) != len(like):
        raise InputError(
            f"The analysis returned {len(values)} numbers, and {len(like)} before; it must return the same ones of each table."
        )
    return names, values


def numbers_of(result: Any, what: str = "The analysis") -> tuple[Sequence[Any], np.ndarray]:
    """Return names and values of numbers: of one, a sequence, a Series or a mapping.

    Raises
    ------
    InputError
        If there is none, or one that is not finite.
    """
    if isinstance(result, pd.DataFrame):
        result = result.stack()
    if isinstance(result, Mapping):
        result = pd.Series(result)
    names: Any = result.index if isinstance(result, pd.Series) else None
    try:
        values = np.atleast_1d(np.asarray(result, dtype=float)).ravel()
    except (TypeError, ValueError):
        values = np.empty(0)
    if not len(values) or not np.isfinite(values).all() or result is None:
        raise InputError(
            f"{what} must return finite numbers, got {shown(str(result), 60)}; return a number, or several."
        )
    return (range(len(values)) if names is None else names), values


def _trace_columns(
    analysis: Callable[[pd.DataFrame], Any], table: pd.DataFrame, values: np.ndarray
) -> list[str]:
    """Return the columns without which an analysis fails, or gives another result."""
    used = []
    for name in table.columns:
        try:
            without = numbers_of(analysis(table.drop(columns=name)))[1]
        except Exception:  # whatever it is, the column is needed
            used.append(name)
            continue
        if len(without) != len(values) or not np.allclose(without, values):
            used.append(name)
    return used


def reference_of(model: Any, random_state: int | None) -> Reference:
    """Return the reference rows of a model, or those that are given in its place."""
    return model if isinstance(model, Reference) else Reference(model, random_state)


def _rows_of(
    model: Any, random_state: int | None, columns: Sequence[str], others: Any = None
) -> tuple[Reference, Rows]:
    """Return the reference rows of a model, and the distinct ones by the columns of an analysis."""
    reference = reference_of(model, random_state)
    names = dict.fromkeys([*columns, *_list_columns(others)])
    return reference, reference.distinct(list(names))


def _columns_of(event: Any) -> list[str]:
    """Return the columns of an event."""
    if not isinstance(event, Mapping) or not event:
        raise InputError(f'Expected an event such as {{"column": value}}, got {shown(event)}.')
    return list(event)


def _list_columns(names: Any) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Sequence | pd.Index) or not all(isinstance(n, str) for n in names):
        raise InputError(f"Expected names of columns, got {shown(names)}.")
    out = list(dict.fromkeys(names))
    if len(out) < len(names):
        raise InputError(f"Expected different columns, got {shown(list(names))}.")
    return out


class _Groups:
    """Groups of rows by the values of columns; one of all rows without columns.

    Parameters
    ----------
    rows : Rows
    columns : list of str
    name : str
        Of the one group.

    Attributes
    ----------
    of : ndarray, shape (rows,), int64
    names : Index
    """

    def __init__(self, rows: Rows, columns: list[str], name: str) -> None:
        if not columns:
            self.names, self.of = pd.Index([name]), np.zeros(len(rows.table), dtype=int)
            return
        grouped = rows.table.groupby(columns, dropna=False, observed=True, sort=True)
        self.of = grouped.ngroup().to_numpy()
        self.names = grouped.size().index
        if len(self.names) > MOST_STATISTICS:
            raise InputError(
                f"The columns {', '.join(columns)} have {len(self.names):,} combinations of values, past {MOST_STATISTICS:,};"
                " name fewer columns, or columns of fewer values."
            )


def _ratio(
    reference: Reference,
    rows: Rows,
    groups: _Groups,
    inside: np.ndarray,
    y: np.ndarray,
    confidence: float,
) -> pd.DataFrame:
    """Return the mean of numbers in each group; a row that is in none has -1."""
    count, member = len(groups.names), inside >= 0
    shares = rows.synthetic[member]
    sizes = np.bincount(inside[member], shares, count)
    sums = np.bincount(inside[member], shares * y[member], count)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / sizes

    def of(part: slice) -> np.ndarray:
        number = np.arange(part.start, part.stop)
        centred = (y[:, None] - means[part]) / np.maximum(sizes[part], 1e-12)
        return np.where(inside[:, None] == number, centred, 0.0)

    return estimates(reference, rows, Influence(groups.names, means, of), confidence)


def _numbers(reference: Reference, rows: Rows, name: str) -> np.ndarray:
    """Return the values of a numeric column, nan for null, shape (rows,)."""
    values = rows.table[name]
    if not pd.api.types.is_numeric_dtype(values) or _column(reference, name).kind != "numeric":
        raise InputError(f"Column {shown(name)} is not numeric; name a numeric column.")
    return values.to_numpy(dtype=float, na_value=np.nan)


def _column(reference: Reference, name: str) -> Column:
    column: Column = reference.encoder.whole[name]
    return column


def _event(reference: Reference, rows: Rows, event: Mapping[str, Any]) -> np.ndarray:
    """Return which rows have an event, bool, shape (rows,)."""
    happens = np.ones(len(rows.table), dtype=bool)
    for name, wanted in event.items():
        column = _column(reference, name)
        values = rows.table[name]
        several = wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        any_of = np.zeros(len(values), dtype=bool)
        for one in several:
            any_of |= _is(column, values, one)
        happens &= any_of
    return happens


def _is(column: Column, values: pd.Series, wanted: Any) -> np.ndarray:
    """Return which values of a column are a declared one, null, or in a range, bool, shape (rows,)."""
    if wanted is None:
        column.mask([None], "event")
        return values.isna().to_numpy()
    if not is_range(wanted):
        column.mask([wanted], "event")
        return (values == wanted).fillna(False).to_numpy(dtype=bool)
    low, high = range_ends(wanted)
    first, last = column.code_range(low, high, "event")
    if column.kind == "numeric":
        return values.between(low, high).fillna(False).to_numpy(dtype=bool)
    codes = column.encode(values)
    return (codes >= first) & (codes <= last)


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
