"""Tables and pictures of the study, from its results alone."""

import math
from pathlib import Path

import numpy as np
from ending import (
    depth_ratios,
    depth_table,
    direction_table,
    exact_table,
    excess_table,
    flatness_table,
    groups_table,
    recall_table,
)
from pictures import figure_2, figure_3, figure_5, figure_radii
from plans import (
    BY_LOSS,
    NAMES,
    RULES,
    SIZES,
    Plans,
    Results,
    found,
    grid,
    radii,
    sized,
    values,
)
from study import FOLDS
from wording import interval_text, mean_sd

HERE = Path(__file__).resolve().parent


def accuracy_table(results: Results, plans: Plans, family: str = "classifier") -> list[str]:
    lines = ["| ε | DP-SGD | DP-SAT | BAM | non-private |", "|---|---|---|---|---|"]
    free = found(results, "run", plans[family, "dp-sgd", math.inf])
    epsilons = sorted({e for task, _, e in plans if task == family and e < math.inf})
    for epsilon in epsilons:
        runs = [found(results, "run", plans[family, rule, epsilon]) for rule in RULES]
        cells = [
            f"{mean_sd(values(r, 'accuracy'), 100)} ({values(r, 'loss').mean():.3f})"
            for r in [*runs, free]
        ]
        lines.append(f"| {epsilon:g} | {' | '.join(cells)} |")
    return lines


def difference_table(results: Results, plans: Plans) -> list[str]:
    lines = [
        "| task, ε | measure | DP-SAT − DP-SGD | BAM − DP-SGD | BAM − DP-SAT |",
        "|---|---|---|---|---|",
    ]
    requests = [
        *(("classifier", e, "accuracy", 100.0, 2, "accuracy, points") for e in (1.0, 2.0, 10.0)),
        *(("classifier", e, "loss", 1.0, 4, "log-loss") for e in (1.0, 2.0, 10.0)),
        (BY_LOSS, 2.0, "accuracy", 100.0, 2, "accuracy, points"),
        (BY_LOSS, 2.0, "loss", 1.0, 4, "log-loss"),
        ("critic", 2.0, "auc", 100.0, 2, "AUC, points"),
    ]
    for task, epsilon, name, unit, digits, text in requests:
        runs = {r: values(found(results, "run", plans[task, r, epsilon]), name) for r in RULES}
        cells = [
            interval_text(runs[a] - runs[b], unit, digits)
            for a, b in (("dp-sat", "dp-sgd"), ("bam", "dp-sgd"), ("bam", "dp-sat"))
        ]
        lines.append(f"| {task}, {epsilon:g} | {text} | {' | '.join(cells)} |")
    return lines


def chosen_table(results: Results, plans: Plans) -> list[str]:
    lines = [
        "| task | ε | learning rate | C | ρ of DP-SAT | λ of BAM |",
        "|---|---|---|---|---|---|",
    ]
    for task, rule, epsilon in plans:
        if rule != "dp-sgd" or math.isinf(epsilon):
            continue
        plan = plans[task, rule, epsilon]
        radii = [f"{plans[task, r, epsilon].rule.radius:g}" for r in RULES[1:]]
        unit = " × median of generated rows" if task == "critic" else ""
        lines.append(
            f"| {task} | {epsilon:g} | {plan.lr:g} | {plan.max_norm:g}{unit} | {radii[0]} | {radii[1]} |"
        )
    return lines


def grid_table(results: Results) -> list[str]:
    """DP-SGD's grid on public rows."""
    lines = [
        "| learning rate | C | accuracy | log-loss | bias | cosine |",
        "|---|---|---|---|---|---|",
    ]
    for plan in grid():
        runs = found(results, "tune", plan, range(FOLDS))
        cells = [f"{values(runs, name).mean():.3f}" for name in ("loss", "bias", "cosine")]
        accuracy = f"{100 * values(runs, 'accuracy').mean():.2f}"
        lines.append(f"| {plan.lr:g} | {plan.max_norm:g} | {accuracy} | {' | '.join(cells)} |")
    return lines


def per_seed(runs: list[dict], name: str) -> np.ndarray:
    """Mean of a diagnostic over training, a number a run."""
    return np.array([np.mean(run["probes"][name]) for run in runs])


def bias_table(results: Results, plans: Plans) -> list[str]:
    """Means over training, each rule on its own path, and what pairs of seeds say."""
    lines = [
        "| task | rule | ‖ĝ‖ | bias | − DP-SGD's | of it by the clip | a | cos(ĝ_clip, ĝ) | − DP-SGD's | clipped | ascent |",
        "|" + "---|" * 11,
    ]
    for task in ("classifier", "critic"):
        base = found(results, "run", plans[task, "dp-sgd", 2.0])
        for rule in RULES:
            runs = found(results, "run", plans[task, rule, 2.0])
            mean = {
                k: f"{per_seed(runs, k).mean():.3f}"
                for k in ("norm", "bias", "clipping_bias", "magnitude", "cosine", "clipped")
            }
            less = ["", ""]
            if rule != "dp-sgd":
                less = [
                    interval_text(per_seed(runs, k) - per_seed(base, k), 1, 3)
                    for k in ("bias", "cosine")
                ]
            ascent = "" if rule == "dp-sgd" else f"{ascents(runs).mean():+.3f}"
            lines.append(
                f"| {task} | {NAMES[rule]} | {mean['norm']} | {mean['bias']} | {less[0]}"
                f" | {mean['clipping_bias']} | {mean['magnitude']} | {mean['cosine']} | {less[1]}"
                f" | {mean['clipped']} | {ascent} |"
            )
    return lines


def ascents(runs: list[dict]) -> np.ndarray:
    every = [[x for x in run["probes"]["ascent"] if x is not None] for run in runs]
    return np.array([np.mean(x) for x in every])


def same_table(results: Results, plans: Plans) -> list[str]:
    """All rules at the weights that DP-SGD passes through, on the same batches."""
    lines = ["| task | rule | bias | by the clip | cos(ĝ_clip, ĝ) |", "|---|---|---|---|---|"]
    for task in ("classifier", "critic"):
        runs = found(results, "same", plans[task, "dp-sgd", 2.0], range(3))
        for rule in RULES:
            cells = []
            for name in ("bias", "clipping_bias", "cosine"):
                own = [
                    np.mean([v for v, r in zip(p[name], p["rule"], strict=True) if r == rule])
                    for p in (run["probes"] for run in runs)
                ]
                cells.append(f"{np.mean(own):.3f}")
            lines.append(f"| {task} | {NAMES[rule]} | {' | '.join(cells)} |")
    return lines


def by_size(runs: list[dict], name: str, size: int) -> np.ndarray:
    out = []
    for probes in (run["probes"] for run in runs):
        out.append(
            np.mean([v for v, s in zip(probes[name], probes["size"], strict=True) if s == size])
        )
    return np.array(out)


def size_numbers(results: Results, plans: Plans) -> dict[str, dict[int, np.ndarray]]:
    """Per size and seed: along each size's own training, and at the weights of one training."""
    pair = plans["classifier", "dp-sgd", 2.0]
    out: dict[str, dict[int, np.ndarray]] = {
        k: {} for k in ("own bias", "own cosine", "bias", "cosine", "accuracy")
    }
    fixed = found(results, "sizes", pair, range(3))
    for size in (*SIZES, 0):
        for name in ("bias", "cosine"):
            out[name][size] = by_size(fixed, name, size)
        if not size:
            continue
        runs = found(results, "size", sized(pair, size), range(3))
        for name in ("bias", "cosine"):
            out[f"own {name}"][size] = per_seed(runs, name)
        out["accuracy"][size] = values(runs, "accuracy")
    return out


def size_table(numbers: dict) -> list[str]:
    lines = [
        "| batch | bias, own training | cosine, own training | accuracy | bias, same weights | cosine, same weights |",
        "|---|---|---|---|---|---|",
    ]
    for size in sorted(numbers["own bias"]):
        cells = [
            mean_sd(numbers["own bias"][size], 1, 3),
            mean_sd(numbers["own cosine"][size], 1, 3),
            mean_sd(numbers["accuracy"][size], 100),
            mean_sd(numbers["bias"][size], 1, 3),
            mean_sd(numbers["cosine"][size], 1, 3),
        ]
        lines.append(f"| {size} | {' | '.join(cells)} |")
    ends = [mean_sd(numbers[name][0], 1, 3) for name in ("bias", "cosine")]
    return [*lines, f"| all public rows | | | | {ends[0]} | {ends[1]} |"]


def radius_table(results: Results, plans: Plans, task: str, folds: int) -> list[str]:
    """What each radius does on public rows at ε = 2, against DP-SGD on the same folds."""
    measures = (("auc", 100, 2),) if task == "critic" else (("accuracy", 100, 2), ("loss", 1, 3))
    heads = {"auc": "AUC, points", "accuracy": "accuracy, points", "loss": "log-loss"}
    names = " | ".join(f"{heads[m]} | − DP-SGD's" for m, _, _ in measures)
    lines = [
        f"| rule | radius | {names} | bias | by the clip | cosine |",
        "|---" * (5 + 2 * len(measures)) + "|",
    ]
    plain = plans[task, "dp-sgd", 2.0]
    base = found(results, "tune", plain, range(folds))
    for plan in [plain, *(plan for rule in RULES[1:] for plan in radii(plain, rule))]:
        runs = found(results, "tune", plan, range(folds))
        cells = []
        for name, unit, digits in measures:
            x, less = values(runs, name), values(runs, name) - values(base, name)
            cells.append(f"{unit * x.mean():.{digits}f}")
            cells.append("" if plan is plain else f"{unit * less.mean():+.{digits}f}")
        cells += [f"{values(runs, n).mean():.3f}" for n in ("bias", "clipping_bias", "cosine")]
        radius = f"{getattr(plan.rule, 'radius', 0):g}"
        lines.append(f"| {NAMES[plan.rule.name]} | {radius} | {' | '.join(cells)} |")
    return lines


def critic_table(results: Results, plans: Plans) -> list[str]:
    cells = [
        mean_sd(values(found(results, "run", plans["critic", r, 2.0]), "auc"), 100) for r in RULES
    ]
    free = mean_sd(values(found(results, "run", plans["critic", "dp-sgd", math.inf]), "auc"), 100)
    head = ["| ε | DP-SGD | DP-SAT | BAM | non-private |", "|---|---|---|---|---|"]
    return [*head, f"| 2 | {' | '.join(cells)} | {free} |"]


def write_readme(results: Results, plans: Plans) -> None:
    figure_2(results, plans)
    figure_radii(results, plans)
    numbers = size_numbers(results, plans)
    figure_5(numbers)
    figure_3(depth_ratios(results))
    text = (HERE / "template.md").read_text()
    parts = {
        "ACCURACY": accuracy_table(results, plans),
        "BYLOSS": accuracy_table(results, plans, BY_LOSS),
        "DIFFERENCES": difference_table(results, plans),
        "CHOSEN": chosen_table(results, plans),
        "GRID": grid_table(results),
        "BIAS": bias_table(results, plans),
        "SAME": same_table(results, plans),
        "SIZES": size_table(numbers),
        "CRITIC": critic_table(results, plans),
        "RADII": radius_table(results, plans, "classifier", 4),
        "CRITICRADII": radius_table(results, plans, "critic", 2),
        "DIRECTION": direction_table(results, plans),
        "EXACT": exact_table(results, plans),
        "DEPTH": depth_table(results),
        "FLATNESS": flatness_table(results, plans),
        "GROUPS": groups_table(results, plans),
        "EXCESS": excess_table(results, plans),
        "RECALL": recall_table(results, plans),
    }
    for name, lines in parts.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines))
    (HERE / "README.md").write_text(text)
