"""The plan of a budget before there is a table: queries of PATE, noise of DP-SGD steps and of MargNet."""

import math
from dataclasses import dataclass, replace
from typing import Any

from tabsynth import methods
from tabsynth._validate import one_of, quote
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.attackers import (
    AttackBounds,
    attack_bounds,
    epsilon_of_advantage,
)
from tabsynth.privacy.accounting.labels import check_budget
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
)
from tabsynth.privacy.noise.counts import shares_by_cells
from tabsynth.schema.column import Column
from tabsynth.schema.linked import SchemaLike, read_table_schema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.plan import Plan

__all__ = [
    "AdvantagePlan",
    "ColumnError",
    "bounds_of",
    "column_errors",
    "plan",
    "plan_advantage",
]


@dataclass(frozen=True, kw_only=True)
class ColumnError:
    """The error that noise is expected to make in the counts of one column, before other releases correct it.

    Attributes
    ----------
    column : str
    codes : int
        Number of its values or cells, missing ones included.
    noise : float
        Standard deviation of the noise on one count, in rows.
    distance : float
        Expected total variation distance between the noisy and the real shares of the values: 0 is equal, 1 is the
        largest. A table of columns with many values and few rows has a large one.
    """

    column: str
    codes: int
    noise: float
    distance: float


def column_errors(fit_plan: Plan, schema: SchemaLike, rows: int) -> tuple[ColumnError, ...]:
    """Return the expected error of each column in MargNet's one-way counts, from the schema and a declared number of rows.

    The noise of a count is normal with standard deviation s, so that the L1 error of the counts is expected to be
    codes · s · √(2/π); half of it over the rows is the distance. Empty for other methods, and for rows with weights.
    """
    schema = read_table_schema(schema)
    first = next((s.mechanism for s in fit_plan.spends if s.purpose == methods.ONE_WAY), None)
    if fit_plan.method != "margnet" or not isinstance(first, Gaussian) or schema.weight is not None:
        return ()
    columns = schema.learned.columns
    sizes = [column.size for column in columns]
    out = []
    for column, share in zip(columns, shares_by_cells(sizes), strict=True):
        noise = first.noise_multiplier * schema.design.rows / math.sqrt(share)
        distance = column.size * noise * math.sqrt(2 / math.pi) / (2 * rows)
        out.append(
            ColumnError(
                column=column.name, codes=column.size, noise=noise, distance=min(1.0, distance)
            )
        )
    return tuple(out)


def plan(
    method: str,
    rows: int,
    epsilon: float,
    delta: float = 1e-5,
    schema: SchemaLike | None = None,
    **parameters: Any,
) -> Plan:
    """Return the privacy cost of a fit of ``method``, before there is a table.

    Parameters
    ----------
    method : str
        A name of :data:`tabsynth.synthesizers.METHODS`, such as ``"margnet"``.
    rows : int
        The number of rows. You declare it; it must not be counted in a private table.
    epsilon, delta : float
        The privacy budget.
    schema : Schema, dict or path, optional
        The schema of the table; required for methods whose noise depends on the columns (``margnet``).
    **parameters
        Further parameters of the estimator. ``class_column`` of ``pate-acgan`` has a default without a schema.

    Returns
    -------
    Plan
        As :meth:`tabsynth.MargNet.plan` returns it, without an estimate of the time.

    Raises
    ------
    InputError
        For an unknown method, or a parameter that it does not accept or that is out of range.
    """
    from tabsynth.synthesizers import METHODS  # torch takes seconds

    check_budget(rows, epsilon, delta)
    one_of("method", method, tuple(METHODS))
    _check_schema(method, schema)
    model: Any = METHODS[method]
    if schema is None and parameters.get("time_budget") is not None:
        raise InputError(
            "time_budget= needs the columns, on which the speed depends; give the table's schema (schema=)."
        )
    arguments: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rows": rows, **parameters}
    names = model.parameter_names()
    for name in arguments:
        if name not in names:
            raise InputError(f"Method {method} takes no parameter {quote(name)}; leave it out.")
    if schema is None and "class_column" in names:
        arguments.setdefault("class_column", _any_schema().names[0])
    estimator = model(_any_schema() if schema is None else schema, **arguments)
    fit_plan: Plan = estimator.plan(estimate_time=False)
    return fit_plan


def bounds_of(fit_plan: Plan) -> AttackBounds | None:
    """Return what the ε of a plan means for an attacker, by its mechanisms; None where ε is infinite.

    Parameters
    ----------
    fit_plan : Plan
        Of :func:`plan`: of a fit before which nothing was read.
    """
    spends = [(spend.mechanism, spend.count) for spend in fit_plan.spends]
    return attack_bounds(spends, fit_plan.epsilon, fit_plan.delta)


@dataclass(frozen=True, kw_only=True)
class AdvantagePlan:
    """The largest ε that keeps the advantage of every attacker below a bound.

    Attributes
    ----------
    max_advantage : float
        The bound: true minus false positive rate of deciding whether one unit of privacy is in the table.
    rows : int
    delta : float
    epsilon : float
        For whatever is (ε, δ)-differentially private.
    margnet : float
        For fits of ``margnet``, by the privacy curve of its mechanisms, which is that of one Gaussian mechanism whatever the schema
        is: larger, and the certificate states the same advantage.
    """

    max_advantage: float
    rows: int
    delta: float
    epsilon: float
    margnet: float


def plan_advantage(max_advantage: float, rows: int, delta: float = 1e-5) -> AdvantagePlan:
    """Return the ε to ask for, so that no attacker has more than ``max_advantage``; no table is read.

    Parameters
    ----------
    max_advantage : float
        Between 0 and 1; 0.05 means that the true positive rate is at most 5 percentage points above the false positive rate.
    rows : int
        Of the table, as the caller declares it.
    delta : float

    Raises
    ------
    InputError
        For a bound that δ alone exceeds.
    """
    check_budget(rows, 1.0, delta)
    smallest = epsilon_of_advantage(max_advantage, delta)
    return AdvantagePlan(
        max_advantage=float(max_advantage),
        rows=rows,
        delta=delta,
        epsilon=smallest,
        margnet=max(smallest, epsilon_of_advantage(max_advantage, delta, gaussian=True)),
    )


def _check_schema(method: str, schema: SchemaLike | None) -> None:
    if schema is None and methods.METHODS[method].by_schema:
        raise InputError(
            f"Method {method} allocates its budget by the columns; give the table's schema (schema=)."
        )


def _any_schema() -> Schema:
    """Return a schema of two columns, for a plan where nothing depends on their number or values."""
    column = Column(name="any", kind="categorical", dtype="str", categories=("a", "b"))
    return Schema([column, replace(column, name="other")])
