"""Step rules: at which weights each row's gradient is taken. Clip, noise and accounting are the same.

All three release one Poisson-subsampled Gaussian a step, of the same sensitivity: what happens before
the clip is a function of one row and of what is public by then (R9).
"""

from dataclasses import dataclass
from typing import Any

from tabsynth._validate import one_of, positive


@dataclass(frozen=True, kw_only=True)
class DPSGD:
    """At the weights themselves (Abadi et al. 2016, arXiv:1607.00133)."""

    name = "dp-sgd"


@dataclass(frozen=True, kw_only=True)
class DPSAT:
    """At θ + ρ ĝ/‖ĝ‖, with ĝ the *previous* private gradient (Park et al. 2023).

    ``radius`` is ρ, in units of the weights. The first step is at θ. ĝ is released already, so the
    ascent is free.
    """

    radius: float = 0.03
    name = "dp-sat"

    def __post_init__(self) -> None:
        positive("radius", self.radius)


@dataclass(frozen=True, kw_only=True)
class BAM:
    """At θ + λ gᵢ/‖gᵢ‖, each row's weights moved along the row's own gradient (Knolle et al. 2023).

    ``radius`` is λ, in units of the weights. The ascent is inside the per-row map, so it is free; one
    along the batch's mean would not be. A row without gradient is not moved.

    The gradient at the moved weights is computed exactly, up to rounding. It is *not* the exact gradient
    of the bias-aware objective L + λ‖gᵢ‖, which is gᵢ + λ Hᵢ gᵢ/‖gᵢ‖ with Hᵢ the Hessian of the row's loss
    (the paper's equation 13). It approximates it to first order in λ where the loss is smooth, as the
    paper's Algorithm 2 does (equation 14). The exact one is a reference in ``reports/bias``, which
    measures its cost and its results beside BAM's.

    NOTE[DIFF] The gradient at the moved weights takes two ordinary passes: a row's own gradient is a sum
    of outer products, and so is the move of its weights. The paper gives no closed form.
    NOTE[DIFF] The gradient at the moved weights is that of L, as in the paper's text; line 5 of its
    Algorithm 2 prints the gradient of the penalised loss. Its per-row factor is clipped as
    max(1, ‖g‖/C), which the paper misprints, and noise is added once, to the sum.
    """

    radius: float = 0.01
    name = "bam"

    def __post_init__(self) -> None:
        positive("radius", self.radius)


StepRule = DPSGD | DPSAT | BAM
STEP_RULES: dict[str, type[StepRule]] = {rule.name: rule for rule in (DPSGD, DPSAT, BAM)}


def stated(rule: StepRule) -> dict[str, Any]:
    """What a certificate says of a rule: its name, and its radius where it has one."""
    radius = {} if isinstance(rule, DPSGD) else {"radius": rule.radius}
    return {"step_rule": rule.name, **radius}


def step_rule(name: str, radius: float | None = None) -> StepRule:
    """A step rule by its name: ``dp-sgd``, ``dp-sat`` or ``bam``; ``radius`` is ρ or λ."""
    one_of("step_rule", name, STEP_RULES)
    if name == DPSGD.name:
        return DPSGD()
    made = DPSAT if name == DPSAT.name else BAM
    return made() if radius is None else made(radius=radius)
