"""README.md and pictures, from results.json alone."""

import math
from pathlib import Path

import numpy as np
from document import CRITIC_STEPS, DOCUMENT, EVERY, TESTS
from pictures import cost_curves, picture, strips
from study import REHEARSALS

TITLES = {
    "free": "no privacy",
    "slice": "the GAN on the public slice alone",
    "basic": "`basic`",
    "advanced": "`advanced`, with the public slice",
    "warm": "`advanced`, from MargNet's table",
    "margnet": "MargNet alone, all of ε",
}
LISTED = (
    *(("free", "inf"), ("slice", "inf")),
    *((system, e) for system in ("basic", "advanced", "warm", "margnet") for e in (4.0, 10.0)),
)


def mean_sd(values: list[float], digits: int = 3) -> str:
    if len(values) == 1:
        return f"{values[0]:.{digits}f} (one seed)"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def runs_of(results: dict, system: str, epsilon: float | str) -> list[dict]:
    runs = results["runs"].values()
    return [r for r in runs if r["system"] == system and r["epsilon"] == epsilon]


def spent(run: dict) -> str:
    if run["system"] == "slice":
        return "0: reads public rows only"
    return "∞" if run["spent"] == "inf" else f"{math.ceil(run['spent'] * 1000) / 1000:.3f}, seeded"


def accuracy_table(results: dict) -> list[str]:
    real = results["references"]["handwritten"]
    rows = real["rows"]
    lines = [
        "| the classifier learns from | ε | accuracy on real rows | CPU s |",
        "|---|---|---|---|",
        f"| {rows['private']:,} real private rows | – | {real['real']:.3f} | |",
        f"| independent columns | – | {mean_sd(real['shuffled'])} | |",
        f"| the {rows['public']} public rows | 0 | {real['public']:.3f} | |",
    ]
    for system, epsilon in LISTED:
        runs = runs_of(results, system, epsilon)
        if runs:
            seconds = np.mean([r["cpu_seconds"] for r in runs])
            scores = mean_sd([r["accuracy"] for r in runs])
            lines.append(f"| {TITLES[system]} | {spent(runs[0])} | {scores} | {seconds:.0f} |")
    return lines


def critic_table(results: dict) -> list[str]:
    """s₊ and the inception score, of the runs that have them."""
    references = results["references"]["handwritten"]["inception"]
    lines = [
        "| system | ε | inception score | s₊, test rows | s₊, noise | s₊, generated rows |",
        "|---|---|---|---|---|---|",
        f"| real test rows | – | {references['test']:.2f} | | | |",
        f"| uniform noise | – | {mean_sd(references['noise'], 2)} | | | |",
    ]
    for system, epsilon in LISTED:
        runs = [r for r in runs_of(results, system, epsilon) if r.get("inception")]
        if runs:
            score = mean_sd([r["inception"] for r in runs], 2)
            s_plus = _s_plus([r["s_plus"] for r in runs if r["s_plus"]])
            cells = [TITLES[system], spent(runs[0]), score, *s_plus]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _s_plus(found: list[list[float]]) -> list[str]:
    if not found:
        return ["no critic"] * 3
    return [mean_sd(list(values), 2) for values in zip(*found, strict=True)]


def tests_of(results: dict) -> dict[int, list[dict]]:
    """Runs of the document's tests, by number and then by seed."""
    runs = results["document"].values()
    return {n: sorted((r for r in runs if r["test"] == n), key=lambda r: r["seed"]) for n in TESTS}


def claims_table(results: dict) -> list[str]:
    lines = [
        "| test | networks start | C | σ | Adam α, β₁, β₂ | ε by Algorithm 1's accountant: does not hold | ε that can be proved |",
        "|---|---|---|---|---|---|---|",
    ]
    for number, runs in tests_of(results).items():
        test, run = TESTS[number], runs[0]
        start = "trained on the private rows without noise" if test.pretrained else "at random"
        adam = ", ".join(f"{value:g}" for value in test.adam)
        proved = "∞" if run["provable"] == "inf" else f"{run['provable']:,.0f}"
        cells = [str(number), start, f"{test.bound:g}", f"{test.sigma:g}", adam]
        lines.append(f"| {' | '.join(cells)} | {run['claimed']:.1f} | {proved} |")
    return lines


def tests_table(results: dict) -> list[str]:
    lines = [
        "| test | | s₊, test rows | s₊, noise | s₊, generated images | inception score | sd of a pixel |",
        "|---|---|---|---|---|---|---|",
    ]
    for number, runs in tests_of(results).items():
        text = " | ".join(f"{value:.2f}" for value in DOCUMENT[number])
        lines.append(f"| {number} | the document, MNIST | {text} | – | – |")
        ours = " | ".join(_s_plus([r["s_plus"] for r in runs]))
        score, spread = (mean_sd([r[k] for r in runs], 2) for k in ("inception", "spread"))
        lines.append(f"| {number} | ours, 8 × 8 digits | {ours} | {score} | {spread} |")
    return lines


def pretraining_table(results: dict) -> list[str]:
    runs = tests_of(results)[2]
    errors, scores, costs = (
        mean_sd([r[key] for r in runs], digits)
        for key, digits in (("error", 3), ("inception_before", 2), ("mse", 4))
    )
    return [
        "| pretraining | the document, MNIST | ours |",
        "|---|---|---|",
        f"| generator: mean squared error on test rows | 0.0297 | {costs} |",
        f"| critic as a classifier: share of test rows misnamed | 0.0189 | {errors} |",
        f"| generator on uniform noise: inception score | – | {scores} |",
    ]


def rehearsal_table(results: dict) -> list[str]:
    printed = results["references"]["printed"]
    lines = [
        "| on printed digits, ε = 10 but where it says otherwise, seed 0 | accuracy |",
        "|---|---|",
    ]
    for name, value in (
        ("real rows", printed["real"]),
        ("independent columns", np.mean(printed["shuffled"])),
        ("25 public rows", printed["public"]),
    ):
        lines.append(f"| {name} | {value:.3f} |")
    for name in (n for n in REHEARSALS if n in results["rehearsals"]):
        run = results["rehearsals"][name]
        lines.append(f"| {name} | {run['accuracy']:.3f} |")
    return lines


def pictures(results: dict, folder: Path) -> None:
    """One picture for each ε: the same samples that the README speaks of, of seed 0."""
    real = ("real rows", results["references"]["handwritten"]["samples"])
    free = ("no privacy (ε = ∞)", _samples(results, "free", "inf"))
    for epsilon in (4.0, 10.0):
        at = f"ε = {epsilon:g}"
        panels = [real, free]
        for system, title in (
            ("basic", f"dp-GAN basic, {at}"),
            ("advanced", f"advanced, 25 public rows, {at}"),
            ("warm", f"advanced, from MargNet, {at}"),
            ("margnet", f"MargNet alone, {at}"),
        ):
            panels.append((title, _samples(results, system, epsilon)))
        picture(folder / f"eps{epsilon:g}.png", [p for p in panels if p[1]])
    picture(
        folder / "free.png",
        [real, free, ("GAN on the 25 public rows", _samples(results, "slice", "inf"))],
    )
    tests = tests_of(results)
    cost_curves(folder / "costs.png", tests, EVERY, CRITIC_STEPS)
    rows = []
    for number, runs in tests.items():
        kinds = ("test rows", "uniform noise z", "G(z) after dp-GAN")
        named = zip(kinds, runs[0]["samples"], runs[0]["scores"], strict=True)
        if "samples_before" in runs[0]:
            rows.append((f"{number}: G(z) before", runs[0]["samples_before"], None))
        rows += [(f"{number}: {kind}", images, scores) for kind, images, scores in named]
    strips(folder / "document.png", rows)


def _samples(results: dict, system: str, epsilon: float | str) -> dict | None:
    runs = [r for r in runs_of(results, system, epsilon) if r["seed"] == 0]
    return runs[0]["samples"] if runs else None


def page(results: dict, folder: Path) -> str:
    """The template with its tables."""
    text = (folder / "template.md").read_text("utf-8")
    sections = {
        "ACCURACY": accuracy_table,
        "CRITICS": critic_table,
        "CLAIMS": claims_table,
        "TESTS": tests_table,
        "PRETRAINING": pretraining_table,
        "REHEARSALS": rehearsal_table,
    }
    for name, table in sections.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(table(results)))
    return text


def write_readme(results: dict, folder: Path) -> None:
    """README.md, and the pictures beside it."""
    pictures(results, folder)
    (folder / "README.md").write_text(page(results, folder), "utf-8")
