"""What a plan says, and that it is what the accountant says."""

import math

import pytest

from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy, SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger, as_earlier
from tabsynth.synthesizers.method import PlannedSpend
from tabsynth.synthesizers.plan import Plan, duration, planned_ledger

COUNTS = PlannedSpend(purpose="one-way counts", mechanism=Gaussian(noise_multiplier=4.5), count=1)
CRITIC = PlannedSpend(
    purpose="critic",
    mechanism=SubsampledGaussian(noise_multiplier=1.25, sampling_rate=0.05),
    count=3000,
)
FREE = PlannedSpend(purpose="autoencoder", mechanism=NoPrivacy(), count=10)


def plan(epsilon: float, **changes: object) -> Plan:
    parameters = {"rows": 20_000, "rows_declared": False, "device": "cpu", "delta": 1e-5}
    parameters |= {"accountant": "PRV"}
    return Plan(
        method="dp-wgan", spends=(COUNTS, CRITIC), epsilon=epsilon, **{**parameters, **changes}
    )  # type: ignore[arg-type]


def test_spends_in_words() -> None:
    assert str(COUNTS) == "one-way counts: 1 release, σ = 4.5 × L2 sensitivity"
    assert str(CRITIC) == (
        "critic: 3,000 releases, σ = 1.25 × L2 sensitivity, Poisson sampling rate 0.05"
    )
    assert str(FREE) == "autoencoder: 10 releases, no noise (epsilon = inf)"


def test_plan_in_words() -> None:
    text = str(plan(7.98765, seconds=130.0, notes=("mind this",)))
    assert text.startswith("dp-wgan:\n  one-way counts")
    assert "spends epsilon = 7.988 at delta = 1e-05 (PRV accountant" in text
    assert "takes about 2 min on cpu for a table of 20,000 rows" in text
    assert text.endswith("mind this")
    assert "stops at the time limit of 5 s" in str(plan(1.0, time_limit=5.0))
    assert "the declared 20,000 rows" in str(plan(1.0, seconds=5.0, rows_declared=True))
    assert "NOT private" in str(plan(math.inf)) and "takes" not in str(plan(math.inf))


def test_a_plan_counts_what_was_spent_before() -> None:
    """Alone it has the accountant's epsilon; after earlier outputs that of the filter, the budget itself."""
    ledger = Ledger(1.5, 1e-5)
    alone = planned_ledger([COUNTS], ledger)
    assert alone.spent == epsilon_of([(COUNTS.mechanism, 1)], 1e-5)
    assert alone.accountant()["name"] == "exact Gaussian"
    before = {"purpose": "x", **Gaussian(noise_multiplier=4.5).to_dict(), "count": 1}
    both = planned_ledger([COUNTS], Ledger.from_list(1.5, 1e-5, as_earlier([before])))
    assert both.spent == 1.5 > epsilon_of([(COUNTS.mechanism, 2)], 1e-5) > alone.spent
    assert both.accountant()["name"] == "Rényi filter"
    more = planned_ledger([COUNTS], Ledger.from_list(1.0, 1e-5, as_earlier([before] * 9)))
    assert more.spent > epsilon_of([(COUNTS.mechanism, 10)], 1e-5) > 1.0
    assert planned_ledger([COUNTS, FREE], ledger).spent == math.inf


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
