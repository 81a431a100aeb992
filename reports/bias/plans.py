"""Which runs there are, what they are called, and which of them the public rows choose."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
from study import BATCH, FOLDS, STEPS, Plan, rule_of

from tabsynth.training.private_step import DPSGD

EPSILONS = (1.0, 2.0, 10.0)
SEEDS, FEW = range(5), range(3)
LRS, BOUNDS = (3e-3, 1e-2, 3e-2), (0.3, 1.0, 3.0, 10.0)
RADII = {"dp-sat": (0.01, 0.03, 0.1, 0.3), "bam": (0.003, 0.01, 0.03, 0.1)}
SIZES = (64, 128, 256, 512, 1024, 2048)
BY_LOSS = "classifier, by log-loss"
RULES = ("dp-sgd", "dp-sat", "bam")
NAMES = {"dp-sgd": "DP-SGD", "dp-sat": "DP-SAT", "bam": "BAM", "bam-exact": "exact gradient"}
# A radius at which BAM lowers the bias by more than half, whatever the accuracy.
LARGE = 0.03
# Of the classifier on whose training BAM's direction is compared with the exact one.
ACTIVATIONS = ("relu", "tanh")

# The critic trains as DP-WGAN's does by default.
CRITIC = {"task": "critic", "lr": 1e-3, "max_norm": 0.5}

Results = dict[str, dict]
Plans = dict[tuple, Plan]


def name_of(stage: str, plan: Plan, seed: int) -> str:
    radius = getattr(plan.rule, "radius", 0.0)
    return (
        f"{stage} {plan.task} eps{plan.epsilon:g} {plan.rule.name} r{radius:g} lr{plan.lr:g}"
        f" C{plan.max_norm:g} B{plan.batch} seed{seed}"
    )


def best(results: dict, plans: list[Plan], seeds: range, score: str) -> Plan:
    """The plan of the best mean score on public rows: the lowest log-loss, or the highest of others."""

    def mean(plan: Plan) -> float:
        result = float(np.mean([results[name_of("tune", plan, k)][score] for k in seeds]))
        return -result if score == "loss" else result

    return max(plans, key=mean)


def grid() -> list[Plan]:
    """DP-SGD's learning rate and bound: one pair for all rules and ε, as in the source."""
    return [
        Plan(task="classifier", rule=DPSGD(), epsilon=2.0, lr=lr, max_norm=bound)
        for lr, bound in product(LRS, BOUNDS)
    ]


def radii(plan: Plan, rule: str) -> list[Plan]:
    """The plan under a rule, with each radius; the critic's best ρ was at the end, so one more."""
    more = (1.0,) if (plan.task, rule) == ("critic", "dp-sat") else ()
    return [replace(plan, rule=rule_of(rule, r)) for r in (*RADII[rule], *more)]


def families(results: dict) -> dict[str, tuple[Plan, str, tuple[float, ...], range]]:
    """DP-SGD's plan, the score that chooses, the ε and the seeds on public rows, by family."""
    pairs = {score: best(results, grid(), range(FOLDS), score) for score in ("accuracy", "loss")}
    return {
        "classifier": (pairs["accuracy"], "accuracy", EPSILONS, range(FOLDS)),
        "critic": (Plan(rule=DPSGD(), epsilon=2.0, **CRITIC), "auc", (2.0,), range(2)),
        BY_LOSS: (pairs["loss"], "loss", (2.0,), range(FOLDS)),
    }


def chosen(results: dict) -> dict[tuple, Plan]:
    """The plan of each family, rule and ε."""
    out = {}
    for family, (plain, score, epsilons, folds) in families(results).items():
        for epsilon in (*epsilons, math.inf):
            out[family, "dp-sgd", epsilon] = replace(plain, epsilon=epsilon)
        for epsilon, rule in product(epsilons, RADII):
            plans = radii(replace(plain, epsilon=epsilon), rule)
            out[family, rule, epsilon] = best(results, plans, folds, score)
    return out


def endings(plans: Plans) -> dict[tuple, Plan]:
    """Runs whose last weights are looked at, by family, rule, ε and radius: the chosen ones and more.

    The exact gradient has BAM's λ, each time. At ε = 2 both have a large λ too; DP-SAT is there alone.
    """
    out = {}
    for (family, rule, epsilon), plan in plans.items():
        if plan.task != "classifier" or (rule == "dp-sat" and epsilon != 2.0):
            continue
        radius = getattr(plan.rule, "radius", 0.0)
        out[family, rule, epsilon, radius] = plan
        if rule == "bam":
            exact = replace(plan, rule=rule_of("bam-exact", radius))
            out[family, "bam-exact", epsilon, radius] = exact
    pair = plans["classifier", "dp-sgd", 2.0]
    for rule in ("bam", "bam-exact"):
        out["classifier", rule, 2.0, LARGE] = replace(pair, rule=rule_of(rule, LARGE))
    return out


def sized(plan: Plan, size: int) -> Plan:
    """The same number of epochs in batches of another size."""
    return replace(plan, batch=size, steps=STEPS * BATCH // size)


def found(results: Results, stage: str, plan: Plan, seeds: range = SEEDS) -> list[dict]:
    """The runs of a plan, seed by seed."""
    return [results[name_of(stage, plan, seed)] for seed in seeds]


def values(runs: list[dict], name: str) -> np.ndarray:
    return np.array([run[name] for run in runs])
