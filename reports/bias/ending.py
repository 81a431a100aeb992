"""Tables of the runs whose last weights are looked at, of BAM beside the exact gradient, and of step times."""

import math

import numpy as np
from depth import CLOSED, DEPTHS, FORMED, ORDINARY, REPETITIONS
from ends import AROUND
from plans import (
    ACTIVATIONS,
    BY_LOSS,
    FEW,
    LARGE,
    NAMES,
    RADII,
    Plans,
    Results,
    endings,
    found,
    name_of,
    values,
)
from study import Plan
from wording import interval_text, mean_sd, shown

# By number of rows, 48,842 in all, as UCI gives them.
PEOPLE = {
    "sex 0": "women",
    "sex 1": "men",
    "race 0": "White",
    "race 1": "Asian-Pac-Islander",
    "race 2": "Amer-Indian-Eskimo",
    "race 3": "Other",
    "race 4": "Black",
}


def label(rule: str, radius: float) -> str:
    return NAMES[rule] + (f", {radius:g}" if radius else "")


def ended(results: Results, plan: Plan) -> list[dict]:
    return found(results, "end", plan, FEW)


def at_two(plans: Plans, family: str = "classifier") -> dict[str, Plan]:
    """A family's plans at ε = 2, small radii first, and the one without privacy, by label."""
    every = endings(plans)
    order = list(NAMES)
    keys = [key for key in every if key[0] == family and key[2] == 2.0]
    keys.sort(key=lambda key: (key[1].startswith("bam") and key[3] == LARGE, order.index(key[1])))
    out = {label(key[1], key[3]): every[key] for key in keys}
    return out | {"without privacy": every[family, "dp-sgd", math.inf, 0.0]}


def exact_pairs(plans: Plans) -> list[tuple[str, float, float, Plan, Plan, Plan]]:
    """Family, ε, λ and the plans of DP-SGD, BAM and the exact gradient."""
    every, out = endings(plans), []
    for (family, rule, epsilon, radius), plan in every.items():
        if rule == "bam-exact":
            plain = every[family, "dp-sgd", epsilon, 0.0]
            out.append(
                (family, epsilon, radius, plain, every[family, "bam", epsilon, radius], plan)
            )
    return sorted(out, key=lambda row: (row[0] == BY_LOSS, row[2], row[1]))


def bias_of_runs(runs: list[dict]) -> np.ndarray:
    return np.array([np.mean(run["probes"]["bias"]) for run in runs])


def exact_table(results: Results, plans: Plans) -> list[str]:
    """BAM beside the exact gradient: scores, and paired differences."""
    lines = [
        "| task, ε, λ | measure | DP-SGD | BAM | exact gradient | exact − BAM |",
        "|---|---|---|---|---|---|",
    ]
    for family, epsilon, radius, *three in exact_pairs(plans):
        runs = [ended(results, plan) for plan in three]
        for name, text, unit, digits in (
            ("accuracy", "accuracy, %", 100, 2),
            ("loss", "log-loss", 1, 4),
            ("bias", "bias", 1, 3),
        ):
            x = [bias_of_runs(r) if name == "bias" else values(r, name) for r in runs]
            cells = [mean_sd(v, unit, digits) for v in x]
            less = interval_text(x[2] - x[1], unit, digits)
            where = f"{family}, {shown(epsilon)}, {radius:g}"
            lines.append(f"| {where} | {text} | {' | '.join(cells)} | {less} |")
    return lines


def directions(results: Results, plans: Plans) -> dict[tuple[str, float], dict[str, np.ndarray]]:
    """By activation and λ: each measure's mean over training, a number a seed."""
    plan, out = plans["classifier", "dp-sgd", 2.0], {}
    for activation in ACTIVATIONS:
        runs = [results[name_of(f"direction {activation}", plan, k)]["probes"] for k in FEW]
        for radius in RADII["bam"]:
            out[activation, radius] = {
                name: np.array(
                    [
                        np.mean(
                            [x for x, r in zip(p[name], p["radius"], strict=True) if r == radius]
                        )
                        for p in runs
                    ]
                )
                for name in ("rows", "clipped", "size", "turn", "error")
            }
    return out


def direction_table(results: Results, plans: Plans) -> list[str]:
    lines = [
        "| activation | λ | cosine, row by row | cosine of clipped means | added by the penalty | cosine of what is added | distance |",
        "|---|---|---|---|---|---|---|",
    ]
    for (activation, radius), x in directions(results, plans).items():
        cells = [mean_sd(v, 1, 4 if name == "rows" else 3) for name, v in x.items()]
        lines.append(f"| {activation} | {radius:g} | {' | '.join(cells)} |")
    return lines


def depth_ratios(results: Results) -> dict[str, dict[int, np.ndarray]]:
    """Each step's time over the ordinary step's, by depth, a number a repetition."""
    out: dict[str, dict[int, np.ndarray]] = {name: {} for name in (*CLOSED, *FORMED)}
    for depth in DEPTHS:
        runs = [results[f"depth {depth} {k}"]["ms"] for k in range(REPETITIONS)]
        for name in out:
            out[name][depth] = np.array([run[name] / run[ORDINARY] for run in runs])
    return out


def depth_table(results: Results) -> list[str]:
    ratios = depth_ratios(results)
    lines = [
        f"| hidden layers | ordinary step, ms | {' | '.join(ratios)} |",
        "|---" * (2 + len(ratios)) + "|",
    ]
    for depth in DEPTHS:
        own = [results[f"depth {depth} {k}"]["ms"][ORDINARY] for k in range(REPETITIONS)]
        cells = [mean_sd(x[depth], 1, 1) for x in ratios.values()]
        lines.append(f"| {depth} | {np.mean(own):.1f} | {' | '.join(cells)} |")
    return lines


def flat(runs: list[dict], name: str) -> np.ndarray:
    return np.array([run["flatness"][name] for run in runs])


def flatness_table(results: Results, plans: Plans) -> list[str]:
    far = AROUND[-1]
    names = ("gradient", "row gradients", "weights", f"mean {far:g}", f"max {far:g}")
    names += (f"ascent {AROUND[0]:g}",)
    lines = [
        f"| rule, radius | ‖∇L‖ | mean ‖gᵢ‖ | ‖θ‖ | mean rise at {far:g} | largest rise at {far:g} | rise along ∇L at {AROUND[0]:g} |",
        "|---" * 7 + "|",
    ]
    for family in ("classifier", BY_LOSS):
        for text, plan in at_two(plans, family).items():
            runs = ended(results, plan)
            digits = {"weights": 2, f"mean {far:g}": 4, f"max {far:g}": 4}
            cells = [mean_sd(flat(runs, name), 1, digits.get(name, 3)) for name in names]
            lines.append(f"| {text}{', C = 10' * (family == BY_LOSS)} | {' | '.join(cells)} |")
    return lines


def of_group(runs: list[dict], group: str, name: str) -> np.ndarray:
    return np.array([run["groups"][group][name] for run in runs])


def groups_table(results: Results, plans: Plans) -> list[str]:
    """Accuracy by group, and the gap between the best and the worst group of a column."""
    every = at_two(plans)
    some = ended(results, every["DP-SGD"])[0]["groups"]
    lines = [
        f"| group | test rows | high incomes, % | {' | '.join(every)} |",
        "|---" * (3 + len(every)) + "|",
    ]
    for group, about in some.items():
        cells = [
            mean_sd(of_group(ended(results, plan), group, "accuracy"), 100)
            for plan in every.values()
        ]
        head = f"| {PEOPLE[group]} | {about['n']:,} | {100 * about['positive']:.1f}"
        lines.append(f"{head} | {' | '.join(cells)} |")
    for column in ("sex", "race"):
        cells = [mean_sd(gap(ended(results, plan), column), 100) for plan in every.values()]
        lines.append(f"| gap of {column}, points | | | {' | '.join(cells)} |")
    return lines


def gap(runs: list[dict], column: str) -> np.ndarray:
    """Accuracy of a column's best group less that of its worst, a number a run."""
    every = [
        [g["accuracy"] for name, g in run["groups"].items() if name.startswith(column)]
        for run in runs
    ]
    return np.array([max(x) - min(x) for x in every])


def excess_table(results: Results, plans: Plans) -> list[str]:
    """Each group's log-loss less that of the same seed without privacy (its excess risk)."""
    lines = []
    for family in ("classifier", BY_LOSS):
        every = at_two(plans, family)
        base = ended(results, every.pop("without privacy"))
        if not lines:
            lines = [
                "| C | rule, radius | all rows | women | men | gap | White | Black | Asian-Pac-Islander |",
                "|---" * 9 + "|",
            ]
        for text, plan in every.items():
            runs = ended(results, plan)
            by = {
                group: of_group(runs, group, "loss") - of_group(base, group, "loss")
                for group in ("sex 0", "sex 1", "race 0", "race 4", "race 1")
            }
            cells = [mean_sd(values(runs, "loss") - values(base, "loss"), 1, 3)]
            cells += [mean_sd(by[g], 1, 3) for g in ("sex 0", "sex 1")]
            cells += [mean_sd(by["sex 1"] - by["sex 0"], 1, 3)]
            cells += [mean_sd(by[g], 1, 3) for g in ("race 0", "race 4", "race 1")]
            lines.append(f"| {plan.max_norm:g} | {text} | {' | '.join(cells)} |")
    return lines


def recall_table(results: Results, plans: Plans) -> list[str]:
    """Share of the high incomes of each group that are predicted."""
    every = at_two(plans)
    lines = [f"| group | {' | '.join(every)} |", "|---" * (1 + len(every)) + "|"]
    for group in ("sex 0", "sex 1", "race 0", "race 4", "race 1"):
        cells = [
            mean_sd(of_group(ended(results, plan), group, "recall"), 100, 1)
            for plan in every.values()
        ]
        lines.append(f"| {PEOPLE[group]} | {' | '.join(cells)} |")
    return lines
