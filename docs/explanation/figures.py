"""Compute the figures of differential-privacy-for-data-stewards.md: python docs/explanation/figures.py.

It writes the tables of the page and ``odds.svg``. A test fails if the page has other figures.
"""

import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy import optimize, stats

from tabsynth.privacy.accounting.accountants import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from tabsynth.privacy.accounting.attackers import (
    AttackBounds,
    attack_bounds,
    percent,
    rounded_up,
)
from tabsynth.privacy.accounting.mechanisms import Gaussian

PAGE = Path(__file__).with_name("differential-privacy-for-data-stewards.md")
EPSILONS, DELTA = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0), 1e-5
PRIORS = (0.001, 0.01, 0.1, 0.5)


def release(epsilon: float, delta: float = DELTA) -> list[tuple[Gaussian, int]]:
    """Return one Gaussian release that is exactly (ε, δ), as a certificate lists it."""
    return [(Gaussian(noise_multiplier=1 / gaussian_mu(epsilon, delta)), 1)]


def bounds(epsilon: float, delta: float = DELTA) -> AttackBounds:
    """Return the bounds of the certificate of a table by MargNet."""
    found = attack_bounds(release(epsilon, delta), epsilon, delta)
    assert found is not None
    return found


def detected(epsilon: float, false_alarms: float, delta: float = DELTA) -> float:
    """Return the best true positive rate at a false positive rate, of one Gaussian release that is exactly (ε, δ)."""
    return float(stats.norm.cdf(stats.norm.ppf(false_alarms) + gaussian_mu(epsilon, delta)))


def composed(epsilon: float, releases: int, delta: float = DELTA) -> float:
    """Return ε at the same δ of so many Gaussian releases that are (ε, δ) each: μ grows with their square root."""
    mu = gaussian_mu(epsilon, delta) * math.sqrt(releases)
    return float(optimize.brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, 500.0, xtol=1e-6))


def group_epsilon(epsilon: float, size: int) -> float:
    """Return ε at the same δ for so many rows together, of one Gaussian release: they move its answer so many times as far."""
    return gaussian_epsilon(size * gaussian_mu(epsilon, DELTA), DELTA)


def group_delta(epsilon: float, size: int, of_group: float) -> float:
    """Return δ at the ε ``of_group`` for so many rows together, of one Gaussian release that is (``epsilon``, δ)."""
    return gaussian_delta(size * gaussian_mu(epsilon, DELTA), of_group)


def markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables() -> dict[str, str]:
    """Return the tables of the page by their names."""
    odds = [
        (
            f"{e:g}",
            rounded_up(bounds(e).odds),
            *(percent(bounds(e).posterior(p)) for p in PRIORS),
            rounded_up(bounds(e).advantage),
            f"{math.exp(e):,.0f}" if e > 5 else f"{math.exp(e):.3g}",
        )
        for e in EPSILONS
    ]
    noise = []
    for epsilon in EPSILONS:
        std = 1 / gaussian_mu(epsilon, DELTA)
        noise.append(
            (
                f"{epsilon:g}",
                f"{std:.2f}",
                f"± {1.96 * std:.0f}",
                percent(detected(epsilon, 0.05)),
            )
        )
    several = [(str(k), f"{k * 1.0:g}", f"{composed(1.0, k):.2f}") for k in (1, 2, 4, 10)]
    groups = [
        (
            str(size),
            rounded_up(group_epsilon(1.0, size)),
            rounded_up(group_delta(1.0, size, size * 1.0), 2),
        )
        for size in (1, 2, 5, 10)
    ]
    return {
        "odds": markdown(
            (
                "ε",
                "odds rise at most",
                *(f"from {100 * p:g}% to at most" for p in PRIORS),
                "advantage at most",
                "e^ε, the factor if δ = 0",
            ),
            odds,
        ),
        "groups": markdown(("rows", "ε at the same δ", "δ at so many times ε"), groups),
        "noise": markdown(
            ("ε", "standard deviation of one count", "95% of errors within", "detected at 5% false alarms, at most"),
            noise,
        ),
        "several": markdown(("releases", "sum of ε", "ε of all together"), several),
    }  # fmt: skip


def page(text: str) -> str:
    """Return the page with its tables written again between their marks."""
    for name, table in tables().items():
        begin, end = f"<!-- {name}: written by figures.py -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"
    return text


def draw(path: Path) -> None:
    """Return the largest posterior by the prior, for several ε."""
    import matplotlib.pyplot as plt

    fig, axis = plt.subplots(figsize=(6.2, 3.6), layout="constrained")
    priors = np.linspace(0.001, 0.999, 200)
    for epsilon in (0.0, *EPSILONS):
        label = "no table published" if epsilon == 0 else f"ε = {epsilon:g}"
        axis.plot(
            priors,
            priors if epsilon == 0 else [bounds(epsilon).posterior(p) for p in priors],
            label=label,
            ls="--" if epsilon == 0 else "-",
        )
    axis.set(
        xlabel="what an attacker believed before",
        ylabel="most that they can believe after",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    axis.legend(fontsize=8)
    fig.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tabsynth"})
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    draw(PAGE.with_name("odds.svg"))
