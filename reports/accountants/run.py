"""Compare tabsynth's privacy loss distributions with those of dp_accounting: ``python reports/accountants/run.py``.

Writes README.md beside it. It takes about a minute on one core.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path

import dp_accounting as dpa
from dp_accounting import pld

from tabsynth.privacy.accounting.accountants import rdp_epsilon
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoisyVote, SubsampledGaussian
from tabsynth.privacy.accounting.pld import pld_epsilon

HERE = Path(__file__).resolve().parent
INTERVALS = (1e-3, 1e-4)  # of dp_accounting's grid; 1e-4 is its default
Spends = list[tuple[Gaussian | SubsampledGaussian, int]]


def sampled(sigma: float, rate: float, steps: int) -> Spends:
    return [(SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate), steps)]


MIXED = [
    (Gaussian(noise_multiplier=8.0), 1),
    *sampled(3.0, 0.0134, 5000),
    *sampled(6.0, 0.02, 2000),
]
CASES: list[tuple[str, Spends, float]] = [
    ("σ = 2.7, q = 0.0134, 5,000 steps", sampled(2.7, 0.0134, 5000), 1e-5),
    ("σ = 0.9, q = 0.0134, 5,000 steps", sampled(0.9, 0.0134, 5000), 1e-5),
    ("σ = 5, q = 0.01, 100,000 steps", sampled(5.0, 0.01, 100_000), 1e-5),
    ("σ = 0.5, q = 0.2, 1 step", sampled(0.5, 0.2, 1), 1e-5),
    ("three mechanisms, 7,001 uses", MIXED, 1e-5),
    ("σ = 20, q = 0.0134, 5,000 steps", sampled(20.0, 0.0134, 5000), 1e-5),
    ("σ = 200, q = 0.0134, 5,000 steps", sampled(200.0, 0.0134, 5000), 1e-5),
    ("σ = 2,000, q = 0.05, 3,000 steps", sampled(2000.0, 0.05, 3000), 1e-5),
    *(
        ("σ = 0.8, q = 0.001, 10,000 steps", sampled(0.8, 0.001, 10_000), delta)
        for delta in (1e-5, 1e-9, 1e-12, 1e-13, 1e-15)
    ),
]
VOTES = [(57.9, 381, 1500), (7.6, 50, 222), (20.0, 100, 100)]  # noise, teachers, answers
# What the text below says of delta = 1e-12: tests/privacy/test_pld.py has it from an FFT in 80 bits.
FINER = 2.9375


def by_dp_accounting(spends: Spends, delta: float, interval: float) -> float:
    events = []
    for mechanism, count in spends:
        event = dpa.GaussianDpEvent(mechanism.noise_multiplier)
        if isinstance(mechanism, SubsampledGaussian):
            event = dpa.PoissonSampledDpEvent(mechanism.sampling_rate, event)
        events.append(dpa.SelfComposedDpEvent(event, count))
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    return float(accountant.compose(dpa.ComposedDpEvent(events)).get_epsilon(delta))


def timed(compute: Callable[[], float]) -> str:
    started = time.process_time()
    epsilon = compute()
    seconds = time.process_time() - started
    return f"{epsilon:.5g} ({seconds:.2f} s)" if math.isfinite(epsilon) else f"∞ ({seconds:.2f} s)"


def main() -> None:
    pld_epsilon(sampled(1.0, 0.5, 2), 1e-5)  # imports and first calls are not timed
    by_dp_accounting(sampled(1.0, 0.5, 2), 1e-5, 1e-3)
    rows = [
        "| mechanism | δ | tabsynth | dp_accounting, interval 0.001 | dp_accounting, interval 0.0001 |",
        "|---|---|---|---|---|",
    ]
    for name, spends, delta in CASES:
        cells = [timed(lambda s=spends, d=delta: pld_epsilon(s, d))]
        cells += [
            timed(lambda s=spends, d=delta, h=interval: by_dp_accounting(s, d, h))
            for interval in INTERVALS
        ]
        rows.append(f"| {name} | {delta:g} | " + " | ".join(cells) + " |")
    votes = ["| votes | ε by PLD | ε by RDP |", "|---|---|---|"]
    for noise, teachers, count in VOTES:
        spent = [(NoisyVote(noise=noise, teachers=teachers), count)]
        cells = [timed(lambda s=spent: pld_epsilon(s, 1e-5)), f"{rdp_epsilon(spent, 1e-5):.5g}"]
        votes.append(
            f"| {count:,} answers of {teachers} teachers, noise {noise:g} | "
            + " | ".join(cells)
            + " |"
        )
    page = (HERE / "template.md").read_text("utf-8")
    page = page.replace("{gaussians}", "\n".join(rows)).replace("{votes}", "\n".join(votes))
    (HERE / "README.md").write_text(page.replace("{finer}", f"{FINER:g}"), "utf-8")


if __name__ == "__main__":
    main()
