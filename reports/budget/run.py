"""What a proven privacy filter costs against the composition of the list that came about: ten typical projects.

``python reports/budget/run.py`` writes results.json and README.md. It computes, and reads no table.
"""

import json
import math
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from scipy.optimize import brentq

from tabsynth.privacy.accounting.accountants import (
    GAUSSIAN,
    RENYI,
    PrivacyFilter,
    Spend,
    accountant_of,
    epsilon_of,
)
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoisyVote, SubsampledGaussian
from tabsynth.privacy.certificate.certificate import code, versions

HERE = Path(__file__).parent
DELTA = 1e-5
BUDGETS = (1.0, 8.0)
ROWS = 20_000
LEAST, MOST = 1e-3, 1e6  # of the factor of noise that is looked for

# A project is a list of fits, by the noise s of its counts; the other mechanisms' noise follows from it. The accountant
# of fixed lists gives the smallest s, and the filter the factor by which all noise has to be larger.
Project = Callable[[float], list[Spend]]


def margnet(s: float, part: float = 1.0) -> list[Spend]:
    """One-way counts, scores and joint counts of a wide table, with ``part`` of the budget of the others."""
    return [
        (Gaussian(noise_multiplier=s / math.sqrt(part * share)), 1) for share in (0.08, 0.05, 0.87)
    ]


def steps(s: float, count: int, batch: int) -> list[Spend]:
    """Private steps, at a noise that costs about as much as counts at s, where there are many steps."""
    rate = batch / ROWS
    sigma = s * rate * math.sqrt(count)  # many steps are a Gaussian of μ² = count rate² / σ²
    return [
        (
            SubsampledGaussian(noise_multiplier=max(sigma, 0.35 + 0.25 * s), sampling_rate=rate),
            count,
        )
    ]


def dpwgan(s: float, count: int = 3000, batch: int = 256) -> list[Spend]:
    """One-way counts with a tenth of the budget, then a critic."""
    return [(Gaussian(noise_multiplier=s / math.sqrt(0.1)), 1), *steps(s, count, batch)]


def report(s: float, part: float = 0.1) -> list[Spend]:
    """Nine figures of a published report."""
    return [(Gaussian(noise_multiplier=3 * s / math.sqrt(part)), 9)]


def pategan(s: float, teachers: int = 760) -> list[Spend]:
    """One-way counts, then 2,000 labels by exact binary accounting."""
    labels = 2000
    noise = s * math.sqrt(labels * 2 / math.pi)
    vote = NoisyVote(noise=noise, teachers=teachers)
    return [(Gaussian(noise_multiplier=s / math.sqrt(0.1)), 1), (vote, labels)]


PROJECTS: dict[str, Project] = {
    "one MargNet fit": lambda s: margnet(s),
    "three MargNet fits": lambda s: margnet(s) * 3,
    "MargNet and five published reports": lambda s: margnet(s) + 5 * report(s),
    "five published reports": lambda s: 5 * report(s),
    "one DP-GAN, 5,000 steps": lambda s: steps(s, 5000, 256),
    "MargNet, then DP-WGAN": lambda s: margnet(s) + dpwgan(s),
    "MargNet, then 400 steps from its sample": lambda s: margnet(s) + steps(s, 400, 256),
    "three DP-WGAN fits": lambda s: dpwgan(s) * 3,
    "DP-WGAN of 1,000 steps on batches of 20": lambda s: dpwgan(s, 1000, 20),
    "PATE-GAN and MargNet": lambda s: pategan(s) + margnet(s),
}


def smallest(fits: Callable[[list[Spend]], float], project: Project) -> float:
    """The factor of noise at which the share of the budget is 1."""

    def excess(log_s: float) -> float:
        share = fits(project(math.exp(log_s)))
        return math.log(min(max(share, 1e-9), 1e9))

    return math.exp(brentq(excess, math.log(LEAST), math.log(MOST), xtol=2e-4))


def scaled(spends: Sequence[Spend], factor: float) -> list[Spend]:
    """The same mechanisms with ``factor`` times the noise."""
    return [
        (replace(m, noise=m.noise * factor), n)
        if isinstance(m, NoisyVote)
        else (replace(m, noise_multiplier=m.noise_multiplier * factor), n)
        for m, n in spends
    ]


def measured(name: str, project: Project, epsilon: float) -> dict:
    """The cost of each filter that takes the project, against the accountant of fixed lists."""

    def fixed(spends: Sequence[Spend]) -> float:
        return epsilon_of(spends, DELTA) / epsilon

    kept = PrivacyFilter.of(epsilon, DELTA, RENYI)
    least = project(smallest(fixed, project))
    factor = smallest(kept.share, lambda f: scaled(least, f))
    exact = None
    if all(isinstance(mechanism, Gaussian) for mechanism, _ in least):
        exact = smallest(
            PrivacyFilter.of(epsilon, DELTA, GAUSSIAN).share, lambda f: scaled(least, f)
        )
    return {
        "project": name,
        "epsilon": epsilon,
        "delta": DELTA,
        "order": round(kept.order or 0.0, 3),
        "accountant": accountant_of(least, DELTA)["name"],
        "noise_factor_renyi": round(factor, 3),
        "epsilon_of_what_renyi_admits": round(epsilon_of(scaled(least, factor), DELTA), 3),
        "noise_factor_gaussian": None if exact is None else round(exact, 3),
    }


def page(results: dict) -> str:
    """The report, the result first."""
    rows = results["rows"]
    lines = []
    for epsilon in BUDGETS:
        collected = [r["noise_factor_renyi"] for r in rows if r["epsilon"] == epsilon]
        middle = sorted(collected)[len(collected) // 2]
        lines.append(
            f"At ε = {epsilon:g} the Rényi filter needs {min(collected):.2f} to {max(collected):.2f} times the noise,"
            f" {middle:.2f} in the median project."
        )
    table = [
        "| project | ε | accountant of fixed lists | noise, Rényi filter | ε of what it admits | noise, Gaussian filter |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        other = "–" if r["noise_factor_gaussian"] is None else f"{r['noise_factor_gaussian']:.3f}"
        table.append(
            f"| {r['project']} | {r['epsilon']:g} | {r['accountant']} | {r['noise_factor_renyi']:.3f} |"
            f" {r['epsilon_of_what_renyi_admits']:.3f} | {other} |"
        )
    created = results["code"], results["versions"]
    paragraphs = [
        " ".join(lines) + " The Gaussian filter needs none: its factor is 1.",
        "Noise is given as a factor of what PRV, PLD, RDP or the exact formula ask for, composing the same mechanisms"
        " as a list that was fixed before the first of them ran. That composition is right for one planned fit and"
        " wrong for a project, in which later fits are chosen with earlier results at hand"
        " ([docs/explanation/privacy.md](../../docs/explanation/privacy.md)). The fifth column has the ε of that composition for what the"
        " filter admits with the whole budget: the difference to ε is what the proof costs.",
        "Each project is a list of mechanisms. The accountant gives the least noise that keeps (ε, 10⁻⁵); then all"
        " noise is multiplied by one factor, the smallest that the filter admits."
        f" Tables have {ROWS:,} rows, batches 256 unless stated. A fit that is alone under a ledger may have the"
        " whole budget by the accountant; the projects of one fit show what it costs if others are to follow. The"
        " order of the Rényi filter follows from (ε, δ): it suits full-batch Gaussians best, and small batches"
        " with little noise least.",
        "`python reports/budget/run.py` makes this page from [results.json](results.json). It computes: no table is"
        f" read, nothing is drawn. Code of SHA-256 {created[0]['sha256'][:16]}… ({created[0]['files']} files), scipy"
        f" {created[1]['scipy']}, opacus {created[1]['opacus']}; {results['seconds']} CPU seconds.",
    ]
    first, meaning, protocol, source = (textwrap.fill(p, 118) for p in paragraphs)
    parts = [
        "# The cost of a proven privacy filter",
        first,
        "\n".join(table),
        meaning,
        "## Protocol",
    ]
    return "\n\n".join([*parts, protocol, source]) + "\n"


def main() -> None:
    started = time.process_time()
    rows = [measured(name, p, e) for e in BUDGETS for name, p in PROJECTS.items()]
    results = {
        "code": code(),
        "versions": versions(),
        "seconds": round(time.process_time() - started),
        "rows": rows,
    }
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    (HERE / "results.json").write_text(text, encoding="utf-8")
    (HERE / "README.md").write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
