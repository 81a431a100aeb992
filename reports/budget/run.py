"""The cost of a proven privacy filter, compared with the composition of a list that was fixed before: ten typical projects.

``python reports/budget/run.py`` is run by the harness. It computes, and reads no table.
"""

import math
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from scipy.optimize import brentq

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from harness import Row, Rows, Study, fill, releases, table  # noqa: E402

from tabsynth.privacy.accounting.accountants import (  # noqa: E402
    GAUSSIAN,
    RENYI,
    PrivacyFilter,
    Spend,
    accountant_of,
    epsilon_of,
)
from tabsynth.privacy.accounting.mechanisms import (  # noqa: E402
    Gaussian,
    NoisyVote,
    SubsampledGaussian,
)

DELTA = 1e-5
BUDGETS = (1.0, 8.0)
ROWS = 20_000
LOWEST, HIGHEST = 1e-3, 1e6  # of the factor of noise that is looked for

# A project is a list of fits, by the noise s of its counts; the other mechanisms' noise follows from it. The accountant
# of fixed lists gives the smallest s, and the filter the factor by which all noise has to be larger.
Project = Callable[[float], list[Spend]]


def margnet(s: float, part: float = 1.0) -> list[Spend]:
    """Return one-way counts, scores and joint counts of a wide table, with ``part`` of the budget of the others."""
    return [
        (Gaussian(noise_multiplier=s / math.sqrt(part * share)), 1) for share in (0.08, 0.05, 0.87)
    ]


def steps(s: float, count: int, batch: int) -> list[Spend]:
    """Return private steps, at a noise that costs about as much as counts at s, where there are many steps."""
    rate = batch / ROWS
    sigma = s * rate * math.sqrt(count)  # many steps are a Gaussian of μ² = count rate² / σ²
    return [
        (
            SubsampledGaussian(noise_multiplier=max(sigma, 0.35 + 0.25 * s), sampling_rate=rate),
            count,
        )
    ]


def dpwgan(s: float, count: int = 3000, batch: int = 256) -> list[Spend]:
    """Return one-way counts with a tenth of the budget, then a critic."""
    return [(Gaussian(noise_multiplier=s / math.sqrt(0.1)), 1), *steps(s, count, batch)]


def report(s: float, part: float = 0.1) -> list[Spend]:
    """Return nine figures of a published report."""
    return [(Gaussian(noise_multiplier=3 * s / math.sqrt(part)), 9)]


def pategan(s: float, teachers: int = 760) -> list[Spend]:
    """Return one-way counts, then 2,000 labels by exact binary accounting."""
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


SETTINGS = {f"{name}, ε = {e:g}": (name, e) for e in BUDGETS for name in PROJECTS}


def smallest_factor(fits: Callable[[list[Spend]], float], project: Project) -> float:
    """Return the factor of noise at which the share of the budget is 1."""

    def excess(log_s: float) -> float:
        share = fits(project(math.exp(log_s)))
        return math.log(min(max(share, 1e-9), 1e9))

    return math.exp(brentq(excess, math.log(LOWEST), math.log(HIGHEST), xtol=2e-4))


def scale_noise(spends: Sequence[Spend], factor: float) -> list[Spend]:
    """Return the same mechanisms with ``factor`` times the noise."""
    return [
        (replace(m, noise=m.noise * factor), n)
        if isinstance(m, NoisyVote)
        else (replace(m, noise_multiplier=m.noise_multiplier * factor), n)
        for m, n in spends
    ]


def measure(setting: tuple[str, float]) -> Row:
    """Return the cost of each filter that takes the project, against the accountant of fixed lists."""
    name, epsilon = setting
    project = PROJECTS[name]

    def share_of_fixed_list(spends: Sequence[Spend]) -> float:
        return epsilon_of(spends, DELTA) / epsilon

    renyi = PrivacyFilter.of(epsilon, DELTA, RENYI)
    minimal = project(smallest_factor(share_of_fixed_list, project))
    factor = smallest_factor(renyi.share, lambda f: scale_noise(minimal, f))
    exact = None
    if all(isinstance(mechanism, Gaussian) for mechanism, _ in minimal):
        exact = smallest_factor(
            PrivacyFilter.of(epsilon, DELTA, GAUSSIAN).share, lambda f: scale_noise(minimal, f)
        )
    return {
        "project": name,
        "epsilon": epsilon,
        "delta": DELTA,
        "order": round(renyi.order or 0.0, 3),
        "accountant": accountant_of(minimal, DELTA)["name"],
        "noise_factor_renyi": round(factor, 3),
        "epsilon_of_what_renyi_admits": round(epsilon_of(scale_noise(minimal, factor), DELTA), 3),
        "noise_factor_gaussian": None if exact is None else round(exact, 3),
    }


def page(rows: Rows) -> str:
    """Return the page, the result first."""
    planned = [rows[key] for key in SETTINGS if key in rows]
    lines = []
    for epsilon in BUDGETS:
        factors = sorted(r["noise_factor_renyi"] for r in planned if r["epsilon"] == epsilon)
        lines.append(
            f"At ε = {epsilon:g} the Rényi filter needs {factors[0]:.2f} to {factors[-1]:.2f} times the noise,"
            f" {factors[len(factors) // 2]:.2f} in the median of {len(factors)} projects."
        )
    head, cells = ["project", "accountant of fixed lists"], []
    for epsilon in BUDGETS:
        head += [f"noise, ε = {epsilon:g}", f"ε of what is admitted, of {epsilon:g}"]
    for name in PROJECTS:
        each = [rows[key] for e in BUDGETS if (key := f"{name}, ε = {e:g}") in rows]
        figures = [
            f"{r[what]:.3f}"
            for r in each
            for what in ("noise_factor_renyi", "epsilon_of_what_renyi_admits")
        ]
        cells.append([name, each[0]["accountant"], *figures] if each else [name])
    exact = [r["noise_factor_gaussian"] for r in planned if r["noise_factor_gaussian"] is not None]
    parts = {
        "RESULT": textwrap.fill(
            " ".join(lines) + f" The Gaussian filter needs {max(exact):.2f} times the noise.", 118
        ),
        "TABLE": table(head, cells),
        "RELEASE": releases(planned),
    }
    return fill(HERE / "template.md", parts)


STUDY = Study(script=Path(__file__).resolve(), settings=SETTINGS, measure=measure, page=page)

if __name__ == "__main__":
    STUDY.main()
