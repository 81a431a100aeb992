"""Privacy loss distributions of tabsynth and of dp_accounting: ``python reports/accountants/run.py``, a minute on one core."""

import math
import sys
import time
from pathlib import Path

import dp_accounting as dpa
from dp_accounting import pld

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from harness import Row, Rows, Study, fill, releases, table  # noqa: E402

from tabsynth.privacy.accounting.accountants import rdp_epsilon  # noqa: E402
from tabsynth.privacy.accounting.mechanisms import (  # noqa: E402
    Gaussian,
    NoisyVote,
    SubsampledGaussian,
)
from tabsynth.privacy.accounting.pld import pld_epsilon  # noqa: E402

INTERVALS = (1e-3, 1e-4)  # of dp_accounting's grid; 1e-4 is its default
Spends = list[tuple[Gaussian | SubsampledGaussian, int]]


def poisson_steps(sigma: float, rate: float, steps: int) -> Spends:
    """Return a sampled Gaussian and how often it is used."""
    return [(SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate), steps)]


MIXED = [
    (Gaussian(noise_multiplier=8.0), 1),
    *poisson_steps(3.0, 0.0134, 5000),
    *poisson_steps(6.0, 0.02, 2000),
]
CASES: list[tuple[str, Spends, float]] = [
    ("σ = 2.7, q = 0.0134, 5,000 steps", poisson_steps(2.7, 0.0134, 5000), 1e-5),
    ("σ = 0.9, q = 0.0134, 5,000 steps", poisson_steps(0.9, 0.0134, 5000), 1e-5),
    ("σ = 5, q = 0.01, 100,000 steps", poisson_steps(5.0, 0.01, 100_000), 1e-5),
    ("σ = 0.5, q = 0.2, 1 step", poisson_steps(0.5, 0.2, 1), 1e-5),
    ("three mechanisms, 7,001 uses", MIXED, 1e-5),
    ("σ = 20, q = 0.0134, 5,000 steps", poisson_steps(20.0, 0.0134, 5000), 1e-5),
    ("σ = 200, q = 0.0134, 5,000 steps", poisson_steps(200.0, 0.0134, 5000), 1e-5),
    ("σ = 2,000, q = 0.05, 3,000 steps", poisson_steps(2000.0, 0.05, 3000), 1e-5),
    *(
        ("σ = 0.8, q = 0.001, 10,000 steps", poisson_steps(0.8, 0.001, 10_000), delta)
        for delta in (1e-5, 1e-9, 1e-12, 1e-13, 1e-15)
    ),
]
VOTES = [(57.9, 381, 1500), (7.6, 50, 222), (20.0, 100, 100)]  # noise, teachers, answers
# What the text below says of delta = 1e-12: tests/privacy/test_pld.py has it from an FFT in 80 bits.
FINER = 2.9375
COARSE = "σ = 0.8, q = 0.001, 10,000 steps, δ = 1e-12"  # the key of that case


def by_dp_accounting(spends: Spends, delta: float, interval: float) -> float:
    """Return ε by the accountant of dp_accounting with a grid of this interval."""
    events = []
    for mechanism, count in spends:
        event = dpa.GaussianDpEvent(mechanism.noise_multiplier)
        if isinstance(mechanism, SubsampledGaussian):
            event = dpa.PoissonSampledDpEvent(mechanism.sampling_rate, event)
        events.append(dpa.SelfComposedDpEvent(event, count))
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    return float(accountant.compose(dpa.ComposedDpEvent(events)).get_epsilon(delta))


SETTINGS: dict[str, tuple[list, float]] = {
    **{f"{name}, δ = {delta:g}": (spends, delta) for name, spends, delta in CASES},
    **{
        f"{count:,} answers of {teachers} teachers, noise {noise:g}": (
            [(NoisyVote(noise=noise, teachers=teachers), count)],
            1e-5,
        )
        for noise, teachers, count in VOTES
    },
}


def measure(setting: tuple[list, float]) -> Row:
    """Return ε by each accountant, with its processor time: of votes by PLD, and by RDP without a time."""
    spends, delta = setting
    pld_epsilon(poisson_steps(1.0, 0.5, 2), 1e-5)  # imports and first calls are not timed
    by_dp_accounting(poisson_steps(1.0, 0.5, 2), 1e-5, 1e-3)
    computed = [lambda: pld_epsilon(spends, delta)]
    votes = isinstance(spends[0][0], NoisyVote)
    if not votes:
        computed += [lambda h=h: by_dp_accounting(spends, delta, h) for h in INTERVALS]
    epsilons, seconds = list[float](), list[float]()
    for compute in computed:
        started = time.process_time()
        epsilons.append(compute())
        seconds.append(round(time.process_time() - started, 2))
    epsilons += [rdp_epsilon(spends, delta)] if votes else []
    shown = [f"{epsilon:.5g}" if math.isfinite(epsilon) else "∞" for epsilon in epsilons]
    return {"epsilon": shown, "seconds": seconds}


def page(rows: Rows) -> str:
    """Return the page."""
    gaussians, votes, slowest = list[list[str]](), list[list[str]](), [0.0, 0.0]
    for key, (spends, delta) in SETTINGS.items():
        if key not in rows:
            continue
        epsilons, seconds = rows[key]["epsilon"], rows[key]["seconds"]
        if isinstance(spends[0][0], NoisyVote):
            votes.append([key, *epsilons])
        else:
            gaussians.append([key.rpartition(", δ")[0], f"{delta:g}", epsilons[0], epsilons[2]])
            slowest = [max(slowest[0], seconds[0]), max(slowest[1], seconds[2])]
    parts = {
        "GAUSSIANS": table(["mechanism", "δ", "tabsynth", "dp_accounting"], gaussians),
        "SECONDS": f"{slowest[0]:.2f} s of processor time, and one of dp_accounting {slowest[1]:.2f} s",
        "VOTES": table(["votes", "ε by PLD", "ε by RDP"], votes),
        "FINER": f"{FINER:g}",
        "COARSE": rows.get(COARSE, {"epsilon": "––"})["epsilon"][1],
        "RELEASE": releases(rows.values()),
    }
    return fill(HERE / "template.md", parts)


STUDY = Study(script=Path(__file__).resolve(), settings=SETTINGS, measure=measure, page=page)

if __name__ == "__main__":
    STUDY.main()
