"""What a budget buys before there is a table: labels of PATE, noise of DP-SGD steps and of MargNet."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from tabsynth._validate import integer, one_of
from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.accounting.calibration import calibrate, noise_by_rdp
from tabsynth.privacy.accounting.labels import VOTING, LabelPlan, Labels, check_budget, plan_labels
from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.fitting import Plan

__all__ = ["LabelPlan", "Labels", "NoisePlan", "StepNoise", "plan_labels", "plan_noise"]

BATCHES, STEPS = (256, 1024), (1000, 5000)
# Methods whose noise follows from the columns: they share the budget between counts of them.
BY_SCHEMA = ("margnet",)


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
        ``dp-wgan``, ``dp-gan`` or ``margnet``.
    rows : int
        Of the table, as the caller declares it: public, never counted in a private table (R14).
    schema : Schema, optional
        A GAN's noise does not depend on it; MargNet's does.
    batches, steps : sequence of int
        The grid of a GAN's steps.
    """
    from tabsynth.synthesizers import METHODS  # torch takes seconds

    check_budget(rows, epsilon, delta)
    one_of("method", method, sorted(METHODS.keys() - VOTING))
    if schema is None and method in BY_SCHEMA:
        raise InputError(
            f"Method {method} shares its budget by the columns; give the table's schema (--schema)."
        )
    own = own_plan(method, rows, epsilon, delta, schema)
    pairs = [] if method in BY_SCHEMA else product(sorted(set(batches)), sorted(set(steps)))
    grid = tuple(_step_noise(rows, b, t, epsilon, delta) for b, t in pairs)
    return NoisePlan(rows=rows, epsilon=epsilon, delta=delta, grid=grid, own=own)


def own_plan(
    method: str,
    rows: int,
    epsilon: float,
    delta: float = 1e-5,
    schema: Schema | None = None,
    mode: str | None = None,
) -> Plan:
    """What ``method`` does unless told otherwise; without a schema where nothing depends on it.

    ``mode`` is of ``pate-acgan``.
    """
    from tabsynth.synthesizers import METHODS  # torch takes seconds

    model: Any = METHODS[method]
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rows": rows}
    if method == "pate-acgan":
        given["label"] = _any_schema().names[0]
    if mode is not None:
        given["mode"] = mode
    made = model(_any_schema() if schema is None else schema, **given)
    plan: Plan = made.plan(estimate_time=False)
    return plan


def listed(plan: Plan) -> dict[str, Any]:
    """A plan's spends and epsilon, JSON-ready."""
    spends = [
        {"purpose": s.purpose, **s.mechanism.to_dict(), "count": s.count} for s in plan.spends
    ]
    return {"mechanisms": spends, "epsilon": plan.epsilon, "accountant": plan.accountant}


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
