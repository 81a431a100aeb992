"""README.md and pictures, from results.json alone."""

import math
from pathlib import Path

import numpy as np
from pictures import picture
from study import REHEARSALS

TITLES = {
    "free": "no privacy",
    "slice": "the GAN on the public slice alone",
    "basic": "`basic`",
    "advanced": "`advanced`, with the public slice",
    "warm": "`advanced`, from MargNet's table",
    "margnet": "that table's kind: MargNet alone, all of ε",
}
LISTED = (
    *(("free", "inf"), ("slice", "inf")),
    *((system, e) for system in ("basic", "advanced", "warm", "margnet") for e in (4.0, 10.0)),
)


def mean_sd(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f} (one seed)"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def runs_of(results: dict, system: str, epsilon: float | str) -> list[dict]:
    found = results["runs"].values()
    return [r for r in found if r["system"] == system and r["epsilon"] == epsilon]


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
        f"| their columns, each shuffled by itself | – | {mean_sd(real['shuffled'])} | |",
        f"| the {rows['public']} public rows | 0 | {real['public']:.3f} | |",
    ]
    for system, epsilon in LISTED:
        found = runs_of(results, system, epsilon)
        if found:
            seconds = np.mean([r["cpu_seconds"] for r in found])
            scores = mean_sd([r["accuracy"] for r in found])
            lines.append(f"| {TITLES[system]} | {spent(found[0])} | {scores} | {seconds:.0f} |")
    return lines


def rehearsal_table(results: dict) -> list[str]:
    printed = results["references"]["printed"]
    lines = [
        "| on printed digits, ε = 10 but where it says otherwise, seed 0 | accuracy |",
        "|---|---|",
    ]
    for name, value in (
        ("real rows", printed["real"]),
        ("shuffled columns", np.mean(printed["shuffled"])),
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


def _samples(results: dict, system: str, epsilon: float | str) -> dict | None:
    found = [r for r in runs_of(results, system, epsilon) if r["seed"] == 0]
    return found[0]["samples"] if found else None


def write_readme(results: dict, folder: Path) -> None:
    """The template with its tables, and the pictures beside it."""
    pictures(results, folder)
    text = (folder / "template.md").read_text()
    sections = {"ACCURACY": accuracy_table, "REHEARSALS": rehearsal_table}
    for name, table in sections.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(table(results)))
    (folder / "README.md").write_text(text)
