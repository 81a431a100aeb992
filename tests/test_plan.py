"""What a plan says, and that it is what the accountant says."""

import math

import pytest

from tabsynth.plan import Plan, PlannedSpend, duration, planned_epsilon
from tabsynth.privacy.accounting import epsilon_of
from tabsynth.privacy.mechanisms import Gaussian, NoPrivacy, SubsampledGaussian

COUNTS = PlannedSpend(purpose="one-way counts", mechanism=Gaussian(noise_multiplier=4.5), count=1)
CRITIC = PlannedSpend(
    purpose="critic",
    mechanism=SubsampledGaussian(noise_multiplier=1.25, sampling_rate=0.05),
    count=3000,
)
FREE = PlannedSpend(purpose="autoencoder", mechanism=NoPrivacy(), count=10)


def plan(epsilon: float, **changes: object) -> Plan:
    known = {"rows": 20_000, "rows_declared": False, "device": "cpu", "delta": 1e-5}
    known |= {"accountant": "PRV"}
    return Plan(method="dp-wgan", spends=(COUNTS, CRITIC), epsilon=epsilon, **{**known, **changes})  # type: ignore[arg-type]


def test_spends_in_words() -> None:
    assert str(COUNTS) == "one-way counts: once, noise 4.5 x sensitivity"
    assert str(CRITIC) == (
        "critic: 3,000 steps, noise 1.25 x sensitivity, each row in a batch with chance 0.05"
    )
    assert str(FREE) == "autoencoder: 10 steps, no noise (epsilon = inf)"


def test_plan_in_words() -> None:
    text = str(plan(7.98765, seconds=130.0, notes=("mind this",)))
    assert text.startswith("dp-wgan:\n  one-way counts")
    assert "spends epsilon = 7.988 at delta = 1e-05 (PRV accountant" in text
    assert "takes about 2 min on cpu for a table of 20,000 rows" in text
    assert text.endswith("mind this")
    assert "about 5 s at most on cpu" in str(plan(1.0, seconds=5.0, at_most=True))
    assert "the declared 20,000 rows" in str(plan(1.0, seconds=5.0, rows_declared=True))
    assert "NOT private" in str(plan(math.inf)) and "takes" not in str(plan(math.inf))


def test_planned_epsilon_counts_what_was_spent_before() -> None:
    alone = planned_epsilon([COUNTS], [], 1e-5)
    assert alone == epsilon_of([(COUNTS.mechanism, 1)], 1e-5)
    both = planned_epsilon([COUNTS], [(Gaussian(noise_multiplier=4.5), 3)], 1e-5)
    assert both == epsilon_of([(COUNTS.mechanism, 4)], 1e-5) > alone
    assert planned_epsilon([COUNTS, FREE], [], 1e-5) == math.inf


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.01, "1 s"),
        (45.4, "45 s"),
        (89.0, "89 s"),
        (100, "2 min"),
        (5399, "90 min"),
        (7560, "2.1 h"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words
