"""What a budget buys before there is a table: labels of PATE, noise of DP-SGD steps and of MargNet."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from tabsynth import methods
from tabsynth._validate import integer, one_of, shown
from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.accounting.calibration import calibrate, noise_by_rdp
from tabsynth.privacy.accounting.labels import LabelPlan, Labels, check_budget, plan_labels
from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.fitting import Plan

__all__ = ["LabelPlan", "Labels", "NoisePlan", "StepNoise", "plan", "plan_labels", "plan_noise"]

BATCHES, STEPS = (256, 1024), (1000, 5000)


@dataclass(frozen=True, kw_only=True)
class StepNoise:
    """The noise of ``steps`` steps on batches of ``batch`` rows, if all of the budget goes to them.

    Attributes
    ----------
    rate : float
        q, the chance of a row to be in a batch.
    noise_by_rdp : float or None
        Noise multiplier by the RDP accountant; None where it finds none that is enough.
    noise : float
        By PRV, the accountant of the ledger: less noise for the same promise.
    """

    batch: int
    steps: int
    rate: float
    noise_by_rdp: float | None
    noise: float


@dataclass(frozen=True, kw_only=True)
class NoisePlan:
    """A budget in noise.

    Attributes
    ----------
    grid : tuple of StepNoise
        Empty for a method without steps.
    own : Plan
        What the method itself would do with its defaults.
    """

    rows: int
    epsilon: float
    delta: float
    grid: tuple[StepNoise, ...]
    own: Plan

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **{"method": self.own.method, "rows": self.rows},
            **{"epsilon": self.epsilon, "delta": self.delta},
            "grid": [asdict(step) for step in self.grid],
            "default": listed(self.own),
        }


def plan_noise(
    method: str,
    rows: int,
    epsilon: float,
    delta: float = 1e-5,
    *,
    schema: Schema | None = None,
    batches: Sequence[int] = BATCHES,
    steps: Sequence[int] = STEPS,
) -> NoisePlan:
    """The noise that ``method`` takes under (epsilon, delta).

    Parameters
    ----------
    method : str
        Any method without teachers.
    rows : int
        Of the table, as the caller declares it: public, never counted in a private table.
    schema : Schema, optional
        A GAN's noise does not depend on it; MargNet's does.
    batches, steps : sequence of int
        The grid of a GAN's steps.
    """
    check_budget(rows, epsilon, delta)
    one_of(
        "method",
        method,
        sorted(n for n, registered in methods.METHODS.items() if not registered.votes),
    )
    _check_schema(method, schema)
    own = plan(method, rows, epsilon, delta, schema)
    pairs = (
        []
        if methods.METHODS[method].by_schema
        else product(sorted(set(batches)), sorted(set(steps)))
    )
    grid = tuple(_step_noise(rows, b, t, epsilon, delta) for b, t in pairs)
    return NoisePlan(rows=rows, epsilon=epsilon, delta=delta, grid=grid, own=own)


def plan(
    method: str,
    rows: int,
    epsilon: float,
    delta: float = 1e-5,
    schema: Schema | None = None,
    **parameters: Any,
) -> Plan:
    """The privacy cost of a fit of ``method``, before there is a table.

    Parameters
    ----------
    method : str
        A name of :data:`tabsynth.synthesizers.METHODS`, such as ``"margnet"``.
    rows : int
        The number of rows. You declare it; it must not be counted in a private table.
    epsilon, delta : float
        The privacy budget.
    schema : Schema, optional
        The schema of the table; required for methods whose noise depends on the columns (``margnet``).
    **parameters
        Further parameters of the estimator. ``label`` of ``pate-acgan`` has a default without a schema.

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
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rows": rows, **parameters}
    names = model._get_param_names()
    for name in given:
        if name not in names:
            raise InputError(f"Method {method} takes no parameter {shown(name)}; leave it out.")
    if schema is None and "label" in names:
        given.setdefault("label", _any_schema().names[0])
    estimator = model(_any_schema() if schema is None else schema, **given)
    fit_plan: Plan = estimator.plan(estimate_time=False)
    return fit_plan


def _check_schema(method: str, schema: Schema | None) -> None:
    if schema is None and methods.METHODS[method].by_schema:
        raise InputError(
            f"Method {method} allocates its budget by the columns; give the table's schema (--schema)."
        )


def listed(fit_plan: Plan) -> dict[str, Any]:
    """A plan's spends and epsilon, JSON-ready."""
    spends = [
        {"purpose": s.purpose, **s.mechanism.to_dict(), "count": s.count} for s in fit_plan.spends
    ]
    return {"mechanisms": spends, "epsilon": fit_plan.epsilon, "accountant": fit_plan.accountant}


def _any_schema() -> Schema:
    """Stands for a schema where nothing depends on it."""
    return Schema([Column(name="any", kind="categorical", dtype="str", categories=("a", "b"))])


def _step_noise(rows: int, batch: int, steps: int, epsilon: float, delta: float) -> StepNoise:
    integer("batch", batch)
    integer("steps", steps)
    rate = min(1.0, batch / rows)

    def build(noise: float) -> list[Spend]:
        return [(SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate), steps)]

    try:
        by_rdp = noise_by_rdp(build, epsilon, delta)
    except BudgetError:
        by_rdp = None
    return StepNoise(
        batch=batch,
        steps=steps,
        rate=rate,
        noise_by_rdp=by_rdp,
        noise=calibrate(build, epsilon, delta),
    )
