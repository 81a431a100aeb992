"""Presets ``default`` and ``paper`` of PATE-GAN and PATE-ACGAN, beside one another on 8,000 census rows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import census_rows
import findings
import numpy as np
import run as census
import settings
import store
from config import Run

from tabsynth import PATEACGAN, PATEGAN
from tabsynth.encoding import TableEncoder
from tabsynth.synthesizers.gan.generator import ConditionalGenerator
from tabsynth.synthesizers.pate.config import paper_config

EPSILONS, SEEDS = (math.inf, 8.0, 1.0), (0, 1, 2)
REFERENCE = "reference"
FIGURES = ("tvd1", "tvd2", "auroc_b", "auprc_b", "agreement")


class _Cold(ConditionalGenerator):
    """Does not start from the noisy counts."""

    def start_from(self, marginals: Any) -> None:
        """Keep the initial weights."""


class _ColdACGAN(PATEACGAN):
    """The first rows are those of random weights; the noisy counts give the shares of the classes alone."""

    def _generator(self) -> Any:
        created = super()._generator()
        return lambda *args, **given: _Cold(*args, **given, **created.keywords)


@dataclass(frozen=True, kw_only=True)
class System:
    """What is fitted, and at which budgets."""

    title: str
    method: type[PATEGAN] | type[PATEACGAN]
    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)  # of the paper's configuration
    epsilons: tuple[float, ...] = EPSILONS


PAPER = {"preset": "paper"}
# 400 teachers of 20 rows, 16 labels a round, and the exact cost of a binary vote.
MANY: dict[str, Any] = {"labels": 3200, "accounting": "exact-binary", "teacher_batch": 8}
SYSTEMS = {
    "gan-default": System(title="PATE-GAN", method=PATEGAN),
    "gan-paper": System(title="PATE-GAN, `paper`", method=PATEGAN, options=PAPER),
    "acgan-default": System(title="PATE-ACGAN", method=PATEACGAN),
    "acgan-paper": System(title="PATE-ACGAN, `paper` (mode B)", method=PATEACGAN, options=PAPER),
    "acgan-paper-a": System(
        title="PATE-ACGAN, `paper`, mode A",
        method=PATEACGAN,
        options={**PAPER, "mode": "A"},
        epsilons=(math.inf,),
    ),
    "acgan-paper-c": System(
        title="PATE-ACGAN, `paper`, mode C",
        method=PATEACGAN,
        options={**PAPER, "mode": "C"},
        epsilons=(math.inf,),
    ),
    "acgan-paper-cold": System(
        title="PATE-ACGAN, `paper`, not started from counts",
        method=_ColdACGAN,
        options=PAPER,
        epsilons=(math.inf,),
    ),
    "gan-paper-many": System(
        title="PATE-GAN, `paper`, 400 teachers, 3,200 labels, exact cost",
        method=PATEGAN,
        options={**PAPER, "teachers": 400},
        changes=MANY,
        epsilons=(8.0,),
    ),
}

PRESETS = ("gan-default", "gan-paper", "acgan-default", "acgan-paper")


def key_of(name: str, epsilon: float, seed: int) -> str:
    return f"{name}-eps{epsilon:g}-seed{seed}"


def missing(results: dict[str, Any], only: str | None = None) -> Iterator[tuple[str, float, int]]:
    """Runs that are not among the results."""
    for seed in SEEDS:
        for name, system in SYSTEMS.items():
            for epsilon in system.epsilons:
                key = key_of(name, epsilon, seed)
                if key not in results and (only is None or only in key):
                    yield name, epsilon, seed


def run_missing(path: Path, only: str | None) -> None:
    if REFERENCE not in store.load(path) and (only is None or only in REFERENCE):
        store.add(path, {REFERENCE: reference()})
    for name, epsilon, seed in missing(store.load(path), only):
        key = key_of(name, epsilon, seed)
        result = fitted(SYSTEMS[name], epsilon, seed)
        store.add(path, {key: result})
        print(key, result["tvd1"], result["tvd2"], flush=True)


def reference() -> dict[str, Any]:
    """The classifiers' scores of real rows, and of independent columns."""
    rng = np.random.default_rng(1)
    shuffled = np.stack([rng.permutation(column) for column in census_rows.codes().T], axis=1)
    return {"A": settings.setting_a(), "shuffled": settings.settings_b_and_c(shuffled)}


def fitted(system: System, epsilon: float, seed: int) -> dict[str, Any]:
    """Distances, and classifiers' scores, of one fit."""
    frame, schema = census_rows.frame()
    options = dict(system.options)
    if issubclass(system.method, PATEACGAN):
        options["label"] = settings.LABEL
    if system.changes:
        options["config"] = replace(paper_config(), **system.changes)
    model = system.method(
        schema, epsilon=epsilon, rows=len(frame), random_state=seed, **options
    ).fit(frame)
    index = TableEncoder(schema).to_index(model.sample(len(frame), random_state=seed))
    votes = [m for m in model.certificate()["mechanisms"] if m["purpose"] == "votes"]
    return {
        **census_rows.distances(index),
        "noise": votes[0].get("noise"),
        "labels": votes[0]["count"],
        "teachers": model._teachers(),
        "settings": settings.settings_b_and_c(index),
    }


def figures(row: dict[str, Any], real: settings.Scores) -> dict[str, float]:
    """The figures of the table, of one run."""
    b, c = row["settings"]["B"], row["settings"]["C"]
    return {
        "tvd1": row["tvd1"],
        "tvd2": row["tvd2"],
        "auroc_b": settings.mean(b, "auroc"),
        "auprc_b": settings.mean(b, "auprc"),
        "agreement": settings.agreement(real, c),
    }


def lines(results: dict[str, Any], gans: Sequence[dict[str, Any]]) -> list[str]:
    """The table of the page; ``gans`` are rows of the GAN that is not private."""
    head = "| 8,000 census rows | ε | K | noise, votes | tvd1 | tvd2 | AUROC, B | AUPRC, B | SRA, A and C | seeds |"
    table = [head, "|" + "---|" * 10]
    known = results[REFERENCE]
    real = known["A"]
    pair = [f"{settings.mean(real, name):.3f}" for name in ("auroc", "auprc")]
    table.append(
        f"| setting A: real rows | – | – | – | 0.000 | 0.000 | {' | '.join(pair)} | 1.000 | – |"
    )
    row = {"settings": known["shuffled"], **census_rows.shuffled()}
    cells = [f"{value:.3f}" for value in figures(row, real).values()]
    table.append(f"| independent columns | – | – | – | {' | '.join(cells)} | – |")
    if gans:
        title = "a GAN of the size of `paper`, not private"
        table.append(f"| {title} | ∞ | – | – | {_cells(gans, real)} |")
    for name, system in SYSTEMS.items():
        for epsilon in system.epsilons:
            keys = [key_of(name, epsilon, seed) for seed in SEEDS]
            runs = [results[key] for key in keys if key in results]
            if not runs:
                continue
            budget = "∞" if math.isinf(epsilon) else f"{epsilon:g}"
            noise = "–" if runs[0]["noise"] is None else f"{runs[0]['noise']:,.0f}"
            teachers = f"{runs[0]['teachers']:,}"
            table.append(
                f"| {system.title} | {budget} | {teachers} | {noise} | {_cells(runs, real)} |"
            )
    left = [Run("census", name, epsilon, seed) for name, epsilon, seed in missing(results)]
    titles = {name: system.title for name, system in SYSTEMS.items()}
    return [*table, "", findings.listed_runs(left, titles)]


def _cells(runs: Sequence[dict[str, Any]], real: settings.Scores) -> str:
    each = [figures(run, real) for run in runs]
    cells = [census.mean_sd([e[figure] for e in each]) for figure in FIGURES]
    return " | ".join([*cells, str(len(runs))])


def classifier_lines(results: dict[str, Any]) -> list[str]:
    """AUROC of each classifier in settings A, B and C at ε = 1, means over the seeds of :func:`lines`."""
    runs = {
        name: [r for s in SEEDS if (r := results.get(key_of(name, 1.0, s)))] for name in PRESETS
    }
    shown = [name for name in PRESETS if runs[name]]
    titles = [f"{SYSTEMS[name].title}: {setting}" for name in shown for setting in ("B", "C")]
    collected = [
        f"| AUROC, ε = 1 | {' | '.join(['real rows: A', *titles])} |",
        "|" + "---|" * (2 + len(titles)),
    ]
    for classifier in settings.CLASSIFIERS:
        values = [results[REFERENCE]["A"][classifier]["auroc"]] + [
            np.mean([run["settings"][setting][classifier]["auroc"] for run in runs[name]])
            for name in shown
            for setting in ("B", "C")
        ]
        collected.append(f"| {classifier} | {' | '.join(f'{value:.3f}' for value in values)} |")
    return collected
