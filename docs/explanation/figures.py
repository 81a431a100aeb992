"""Compute the figures of differential-privacy-for-data-stewards.md: python docs/explanation/figures.py.

It writes the tables of the page and ``odds.svg``. A test fails if the page has other figures.
"""

import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy import optimize, stats

from tabsynth.privacy.accounting.accountants import gaussian_delta, gaussian_mu

PAGE = Path(__file__).with_name("differential-privacy-for-data-stewards.md")
EPSILONS, DELTA = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0), 1e-5
PRIORS = (0.001, 0.01, 0.1, 0.5)


def posterior(prior: float, epsilon: float) -> float:
    """The most that a prior chance can become, apart from δ: its odds grow by e^ε at most."""
    odds = prior / (1 - prior) * math.exp(epsilon)
    return odds / (1 + odds)


def advantage(epsilon: float, delta: float = 0.0) -> float:
    """The largest true positive rate less false positive rate under (ε, δ) (Kairouz et al. 2015)."""
    return (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)


def detected(epsilon: float, false_alarms: float, delta: float = DELTA) -> float:
    """The best true positive rate at a false positive rate, of one Gaussian release that is exactly (ε, δ)."""
    return float(stats.norm.cdf(stats.norm.ppf(false_alarms) + gaussian_mu(epsilon, delta)))


def composed(epsilon: float, releases: int, delta: float = DELTA) -> float:
    """ε at the same δ of so many Gaussian releases that are (ε, δ) each: μ grows with their square root."""
    mu = gaussian_mu(epsilon, delta) * math.sqrt(releases)
    return float(optimize.brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, 500.0, xtol=1e-6))


def percent(share: float) -> str:
    """A bound in per cent, rounded up: with one decimal below 10%, with two above 99%."""
    decimals = 1 if share < 0.1 else 2 if share > 0.99 else 0
    scale = 10**decimals
    return f"{math.ceil(100 * share * scale - 1e-9) / scale:.{decimals}f}%"


def markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables() -> dict[str, str]:
    """The tables of the page by their names."""
    odds = [
        (
            f"{e:g}",
            f"{math.exp(e):,.0f}" if e > 5 else f"{math.exp(e):.3g}",
            *(percent(posterior(p, e)) for p in PRIORS),
            percent(advantage(e)),
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
    return {
        "odds": markdown(
            ("ε", "factor e^ε", *(f"from {100 * p:g}% to at most" for p in PRIORS), "advantage at most"), odds
        ),
        "noise": markdown(
            ("ε", "standard deviation of one count", "95% of errors within", "detected at 5% false alarms, at most"),
            noise,
        ),
        "several": markdown(("releases", "sum of ε", "ε of all together"), several),
    }  # fmt: skip


def page(text: str) -> str:
    """The page with its tables written again between their marks."""
    for name, table in tables().items():
        begin, end = f"<!-- {name}: written by figures.py -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"
    return text


def draw(path: Path) -> None:
    """The largest posterior by the prior, for several ε."""
    import matplotlib.pyplot as plt

    fig, axis = plt.subplots(figsize=(6.2, 3.6), layout="constrained")
    priors = np.linspace(0.001, 0.999, 200)
    for epsilon in (0.0, *EPSILONS):
        label = "no table published" if epsilon == 0 else f"ε = {epsilon:g}"
        axis.plot(
            priors,
            [posterior(p, epsilon) for p in priors],
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
