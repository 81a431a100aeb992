"""Rules that combine analyses of several synthetic tables."""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import t as student

from tabsynth._validate import in_range
from tabsynth.errors import InputError

Implicates: TypeAlias = Iterable[float | Iterable[float] | pd.Series]


def pool(estimates: Implicates, variances: Implicates, *, confidence: float = 0.95) -> pd.DataFrame:
    """Combine estimates from several implicates by Rubin's rules for missing data (Rubin 1987).

    With the mean variance u and the variance b of the estimates, the total variance is u + (1 + 1/m) b. The rules are for tables
    that each stand for the private table, such as those of ``sample(implicates=m)``, and not for those of other synthesizers.

    Parameters
    ----------
    estimates : sequence of length m
        The estimates of each implicate: numbers, or sequences or Series of k numbers.
    variances : sequence of length m
        The squared standard errors of the same, as the usual software states them.
    confidence : float
        Of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        A row for each estimate, with ``estimate``, ``standard_error``, ``low``, ``high`` and ``df``, the degrees of freedom of
        Student's distribution.

    Raises
    ------
    InputError
        For fewer than two implicates, and for estimates or variances that are no finite numbers.
    """
    in_range("confidence", confidence, 0, 1, low_open=True, high_open=True)
    q, names = _stack(estimates, "estimates")
    u_all, _ = _stack(variances, "variances")
    m = len(q)
    if q.shape != u_all.shape:
        raise InputError(
            f"Expected as many variances as estimates, got {u_all.shape[0]} × {u_all.shape[1]} and {m} × {q.shape[1]}."
        )
    if (u_all < 0).any():
        raise InputError(
            "Expected variances of 0 or more, got a negative one; square standard errors."
        )
    u, b = u_all.mean(axis=0), q.var(axis=0, ddof=1)
    between_tables = (1 + 1 / m) * b
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (m - 1) * (1 + u / between_tables) ** 2
    df = np.where(np.isfinite(df), df, np.inf)
    error = np.sqrt(between_tables + u)
    width, middle = student.ppf((1 + confidence) / 2, df) * error, q.mean(axis=0)
    return pd.DataFrame(
        {"estimate": middle, "standard_error": error, "low": middle - width, "high": middle + width, "df": df},
        index=names,
    )  # fmt: skip


def _stack(values: Implicates, what: str) -> tuple[np.ndarray, pd.Index | None]:
    """Return numbers of each implicate, shape (m, k), and the names of the k, where they have any."""
    values = list(values) if np.iterable(values) and not isinstance(values, str) else []
    if len(values) < 2:
        raise InputError(f"Expected {what} of two implicates or more, got {len(values)}.")
    names = values[0].index if isinstance(values[0], pd.Series) else None
    rows = list[np.ndarray]()
    for i, value in enumerate(values):
        try:
            if names is not None:
                value = value.reindex(names) if isinstance(value, pd.Series) else ()
            row = np.atleast_1d(np.asarray(value, dtype=float))
        except (TypeError, ValueError, AttributeError):
            row = np.empty(0)
        if row.ndim > 1 or not row.size or not np.isfinite(row).all():
            raise InputError(
                f"Expected {what} of finite numbers, but those of implicate {i + 1} are not."
            )
        if rows and len(row) != len(rows[0]):
            raise InputError(
                f"Expected as many {what} of each implicate, got {len(row)} of implicate {i + 1} and {len(rows[0])} of the first."
            )
        rows.append(row)
    return np.stack(rows), names
