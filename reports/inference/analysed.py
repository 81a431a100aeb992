"""The statistics whose intervals are checked, with their truth in the population and naive intervals from one synthetic table.

Truth and naive standard errors are computed here by the usual formulas, not by ``tabsynth.inference``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabsynth import inference

Z = 1.959964
Naive = tuple[pd.Series, pd.Series]  # values and standard errors


@dataclass(frozen=True)
class Statistic:
    """An analysis, which gives one or several numbers.

    Attributes
    ----------
    kind : str
        The class that its coverage is reported in.
    intervals : callable
        From a model or a reference to a DataFrame of intervals.
    naive : callable
        From a table to values and textbook standard errors; of the population, the values are the truth.
    shares : callable, optional
        From the population to the share of rows in each cell or group. None of regressions.
    constant : callable, optional
        Of a logistic regression: from a table to the categories of its regressors in which all rows have the same outcome.
    """

    kind: str
    intervals: Callable[[Any], pd.DataFrame]
    naive: Callable[[pd.DataFrame], Naive]
    shares: Callable[[pd.DataFrame], pd.Series] | None = None
    constant: Callable[[pd.DataFrame], list[str]] | None = None


def cells(kind: str, *names: str) -> Statistic:
    """Return the analysis of the shares of cells of a table."""

    def naive(table: pd.DataFrame) -> Naive:
        p = table.groupby(list(names), dropna=False, observed=True).size() / len(table)
        return p, np.sqrt(p * (1 - p) / len(table))

    return Statistic(
        kind, lambda r: inference.crosstab(r, list(names)), naive, lambda table: naive(table)[0]
    )


def means(column: str, by: str | None = None) -> Statistic:
    """Return the analysis of means of a column, of all rows or of groups."""

    def groups_of(table: pd.DataFrame) -> Any:
        complete = table[table[column].notna()]
        numbers = complete[column].astype(float)
        groups = pd.Series(column, index=complete.index) if by is None else complete[by]
        return numbers.groupby(groups, dropna=False, observed=True)

    def naive(table: pd.DataFrame) -> Naive:
        groups = groups_of(table)
        return groups.mean(), groups.std() / np.sqrt(groups.size())

    return Statistic(
        "group means",
        lambda r: inference.mean(r, column, by),
        naive,
        lambda table: groups_of(table).size() / len(table),
    )


def _matrix(table: pd.DataFrame, names: list[str], numeric: set[str]) -> pd.DataFrame:
    parts = [pd.Series(1.0, index=table.index, name="intercept")]
    for name in names:
        if name in numeric:
            parts.append(table[name].astype(float))
            continue
        levels = sorted(table[name].dropna().unique())
        levels += [None] if table[name].isna().any() else []
        for level in levels[1:]:
            is_level = table[name].isna() if level is None else (table[name] == level).fillna(False)
            label = f"{name}[{'null' if level is None else level}]"
            parts.append(is_level.astype(float).rename(label))
    return pd.concat(parts, axis=1)


def linear(outcome: str, *names: str, numeric: tuple[str, ...] = ()) -> Statistic:
    """Return the analysis of coefficients of least squares, with White's standard errors."""

    def naive(table: pd.DataFrame) -> Naive:
        x = _matrix(table, list(names), set(numeric))
        y = table[outcome].astype(float).to_numpy()
        a = x.to_numpy()
        inverse = np.linalg.inv(a.T @ a)
        beta = inverse @ a.T @ y
        error = (y - a @ beta)[:, None] * a
        var = inverse @ (error.T @ error) @ inverse
        return pd.Series(beta, x.columns), pd.Series(np.sqrt(np.diag(var)), x.columns)

    return Statistic("OLS", lambda r: inference.ols(r, outcome, list(names)), naive)


def logistic(event: dict[str, Any], *names: str, numeric: tuple[str, ...] = ()) -> Statistic:
    """Return the analysis of coefficients of a logistic regression, with the standard errors of maximum likelihood.

    A table with a category in which all rows have the same outcome has no estimate: ``naive`` raises ``LinAlgError``.
    """

    def data(table: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
        ((column, value),) = event.items()
        y = (table[column] == value).fillna(False).to_numpy(dtype=float)
        return _matrix(table, list(names), set(numeric)), y

    def constant(table: pd.DataFrame) -> list[str]:
        x, y = data(table)
        categories = [name for name in x if set(x[name]) == {0.0, 1.0} and name not in numeric]
        return [name for name in categories if len(set(y[x[name] == 1])) == 1]

    def naive(table: pd.DataFrame) -> Naive:
        x, y = data(table)
        a = x.to_numpy()
        beta = np.zeros(a.shape[1])
        for _ in range(40):
            p = 1 / (1 + np.exp(-a @ beta))
            information = (a * (p * (1 - p))[:, None]).T @ a
            beta = beta + np.linalg.solve(information, a.T @ (y - p))
        return pd.Series(beta, x.columns), pd.Series(
            np.sqrt(np.diag(np.linalg.inv(information))), x.columns
        )

    return Statistic(
        "logistic", lambda r: inference.logit(r, event, list(names)), naive, constant=constant
    )


ONE, TWO, THREE = "proportions", "two-way cells", "three-way cells"
CELLS = (ONE, TWO, THREE)
CENSUS = [
    *(
        cells(ONE, name)
        for name in (
            "PUMA", "SEX", "MSP", "RAC1P", "NPF", "EDU", "INDP_CAT", "OWN_RENT", "PINCP_DECILE"
        )
    ),
    *(
        cells(TWO, *pair)
        for pair in (
            ("SEX", "MSP"), ("MSP", "OWN_RENT"), ("EDU", "PINCP_DECILE"), ("RAC1P", "OWN_RENT"),
            ("PUMA", "OWN_RENT"), ("SEX", "INDP_CAT"),
        )
    ),
    *(means("AGEP", by) for by in (None, "SEX", "MSP", "OWN_RENT", "RAC1P", "PUMA", "EDU")),
    linear("AGEP", "SEX", "OWN_RENT"),
    linear("AGEP", "SEX", "MSP"),
    linear("AGEP", "PINCP_DECILE", "SEX"),
    logistic({"OWN_RENT": 1}, "AGEP", "SEX", numeric=("AGEP",)),
    logistic({"SEX": 2}, "MSP"),
    logistic({"OWN_RENT": 1}, "RAC1P", "SEX"),
    cells(THREE, "SEX", "MSP", "OWN_RENT"),
]  # fmt: skip
HOSPITAL = [
    *(
        cells(ONE, name)
        for name in (
            "race", "gender", "age", "admission_type_id", "A1Cresult", "max_glu_serum", "insulin", "metformin", "change",
            "diabetesMed", "readmitted", "diag_1",
        )
    ),
    *(
        cells(TWO, *pair)
        for pair in (
            ("insulin", "change"), ("change", "diabetesMed"), ("insulin", "diabetesMed"), ("age", "diag_1"),
            ("admission_type_id", "admission_source_id"), ("race", "age"), ("gender", "readmitted"),
        )
    ),
    *(means("time_in_hospital", by) for by in (None, "change", "admission_type_id", "insulin")),
    *(means("number_diagnoses", by) for by in (None, "age", "race")),
    linear("time_in_hospital", "num_procedures", numeric=("num_procedures",)),
    linear("time_in_hospital", "num_medications", numeric=("num_medications",)),
    linear("num_medications", "num_procedures", numeric=("num_procedures",)),
    linear("num_medications", "change"),
    linear("num_medications", "diabetesMed"),
    linear("number_diagnoses", "age"),
    logistic({"insulin": "No"}, "change"),
    logistic({"change": "Ch"}, "num_medications", numeric=("num_medications",)),
    logistic({"diabetesMed": "Yes"}, "num_medications", numeric=("num_medications",)),
    logistic({"change": "Ch"}, "time_in_hospital", numeric=("time_in_hospital",)),
    logistic({"readmitted": "NO"}, "number_inpatient", numeric=("number_inpatient",)),
    cells(THREE, "insulin", "change", "readmitted"),
]  # fmt: skip
STATISTICS = {"census": CENSUS, "hospital": HOSPITAL}
