"""A released count is shown with its 95% interval: of the noise that it has, and of every count that a person sees."""

import re
from pathlib import Path

import numpy as np
import pytest

from tabsynth._random import Randomness
from tabsynth.privacy.noise import samplers
from tabsynth.privacy.noise.counts import (
    Measured,
    estimated_rows,
    interval,
    noise_of_estimated_rows,
    noise_of_total,
    share_interval,
    stated_count,
    stated_share,
    total_rows,
)

RUNS = 20_000
PACKAGE = Path(__file__).parents[2] / "tabsynth"
# Words for a noisy number in the texts of the package, and the only functions that write one.
SAID = re.compile(r"(?i)\babout \{|about %|, by a noisy count|by noisy counts|noisy counts hold")
STATED = {
    "privacy/noise/counts.py",  # the functions themselves
    "cli/fit.py",
    "synthesizers/linked/estimator.py",
    "synthesizers/margnet/measurement.py",
    "drafting/summary.py",
}
NO_COUNT = {  # texts in which no released number stands
    "synthesizers/pate/rounds.py",  # says that there are fewer rows than teachers
    "synthesizers/plan.py",  # the time of a fit
    "drafting/private_schema.py",  # how many rows a column needs
    "cli/plan.py",  # what a draft may be expected to keep
    "privacy/ledger/project.py",  # what remains of a budget
}


def noise_of(std, whole):
    bits = Randomness(7).noise()
    return samplers.noisy(np.zeros(RUNS), std, bits, whole=whole)


def covered(low, high, truth):
    """The share of runs whose interval has the truth, and the least that a 95% interval has by chance."""
    share = float(np.mean([a <= truth <= b for a, b in zip(low, high, strict=True)]))
    return share, 0.95 - 4 * np.sqrt(0.05 * 0.95 / RUNS)


@pytest.mark.parametrize("std", [0.3, 1.0, 30.0])
@pytest.mark.parametrize("whole", [True, False])
def test_an_interval_covers_the_exact_count(std, whole):
    exact = 500.0
    ends = [interval(exact + e, std, rounded=whole) for e in noise_of(std, whole)]
    share, least = covered(*zip(*ends, strict=True), exact)
    assert share >= least
    if std == 30.0:  # and it is not needlessly wide
        assert share < 0.96
    assert interval(exact, 0.0, rounded=whole) == (exact, exact)


def test_an_interval_near_0_covers_and_is_of_counts():
    ends = [interval(e, 5.0, rounded=True) for e in noise_of(5.0, True)]
    share, least = covered(*zip(*ends, strict=True), 0.0)
    assert share >= least and all(0 <= low <= high for low, high in ends)


@pytest.mark.parametrize("total_std", [0.0, 15.0])
@pytest.mark.parametrize("dependent", [True, False])
def test_an_interval_covers_the_exact_share(total_std, dependent):
    count, total, std = 83.0, 1000.0, 12.0
    of_count = noise_of(std, True)
    of_total = of_count * total_std / std if dependent else noise_of(total_std, False)[::-1]
    ends = [
        share_interval(count + a, std, total + b, total_std)
        for a, b in zip(of_count, of_total, strict=True)
    ]
    share, least = covered(*zip(*ends, strict=True), count / total)
    assert share >= least
    assert share_interval(83.0, 0.0, 1000.0) == (0.083, 0.083)
    assert share_interval(-50.0, 12.0, 1000.0, 15.0)[0] == 0.0


@pytest.mark.parametrize("sizes", [(2,), (2, 7, 40)])
def test_the_noise_of_a_number_of_rows_that_follows_from_counts(sizes):
    std, runs = 3.0, 4_000
    rng = np.random.default_rng(0)
    found, other = [], []
    for _ in range(runs):
        counts = [200 / size + std * rng.standard_normal(size) for size in sizes]
        found.append(estimated_rows(counts))
        measured = [Measured((j,), c, std) for j, c in enumerate(counts)]
        other.append(total_rows(measured))
    assert np.std(found) == pytest.approx(noise_of_estimated_rows(sizes, std), rel=0.05)
    assert np.std(other) == pytest.approx(noise_of_total(measured), rel=0.05)


def test_words():
    assert stated_count(1234.4, interval(1234.4, 10.0)) == "about 1,234 (95%: 1,214 to 1,254)"
    assert stated_count(12, (12, 12)) == "12"
    assert stated_share(0.083, (0.0611, 0.1049)) == "about 8.3% (95%: 6.1% to 10.5%)"
    assert stated_share(0.02, (0.02, 0.02), 2) == "2.00%"


def test_no_text_has_a_released_count_without_its_interval():
    """A new text with a noisy number uses the functions above, or is listed here with what it says."""
    said = {
        str(path.relative_to(PACKAGE)): path.read_text("utf-8")
        for path in PACKAGE.rglob("*.py")
        if SAID.search(path.read_text("utf-8"))
    }
    assert set(said) <= STATED | NO_COUNT
    for name in STATED:
        assert re.search(r"stated_(count|share)\(", said[name]), name
