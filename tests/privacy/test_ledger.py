"""R7: the ledger is asked before the data is touched, never passes its budget, never un-spends."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.errors import BudgetError, FileFormatError, InputError, TabsynthError
from tabsynth.privacy.accounting.accountants import epsilon_of, gaussian_delta, gaussian_mu
from tabsynth.privacy.accounting.mechanisms import (
    ACCOUNTINGS,
    Gaussian,
    Mechanism,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
)
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable

DELTA = 1e-5


def full(sigma: float) -> Gaussian:
    return Gaussian(noise_multiplier=sigma)


def sampled(sigma: float, rate: float) -> Mechanism:
    return SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate)


def test_a_use_past_what_was_granted_reads_nothing() -> None:
    """R7: step T + 1 raises with no further read."""
    ledger = Ledger(5.0, DELTA)
    account = ledger.open("critic", full(10.0), 7)
    table = PrivateTable(np.arange(3), ledger)
    for i in range(7):
        assert list(table.read(account)) == [0, 1, 2]
        assert (account.spent, table.reads) == (i + 1, i + 1)
    for _ in range(3):
        with pytest.raises(BudgetError, match=r"all 7 uses are spent; nothing was read"):
            table.read(account)
    assert (account.spent, table.reads) == (7, 7)


def test_several_uses_at_once_are_all_or_none() -> None:
    """R7: a read for more uses than are left spends none and reads nothing."""
    ledger = Ledger(5.0, DELTA)
    account = ledger.open("votes", full(10.0), 7)
    table = PrivateTable(np.arange(3), ledger)
    table.read(account, 5)
    assert (account.spent, table.reads) == (5, 1)
    with pytest.raises(BudgetError, match="3 uses were asked for, and of 7 5 are spent; nothing"):
        table.read(account, 3)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="uses"):
            table.read(account, wrong)  # type: ignore[arg-type]
    assert (account.spent, table.reads) == (5, 1)
    table.read(account, 2)
    assert (account.spent, table.reads) == (7, 2)


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_a_label_past_the_budget_reads_nothing(accounting: str) -> None:
    """R7: as many labels as the budget affords, and not one more; neither granted nor read."""
    vote = NoisyVote(noise=7.6, teachers=50, accounting=accounting)
    most = next(n for n in range(99) if epsilon_of([(vote, n + 1)], DELTA) > 1.0)
    ledger = Ledger(1.0, DELTA)
    table = PrivateTable(np.arange(3), ledger)
    with pytest.raises(BudgetError, match="nothing was read"):
        ledger.open("labels", vote, most + 1)
    account = ledger.open("labels", vote, most)
    for _ in range(most):
        table.read(account)
    with pytest.raises(BudgetError, match=f"all {most} uses are spent; nothing was read"):
        table.read(account)
    assert most >= 2 and table.reads == most and 0.6 < ledger.spent <= 1.0
    with pytest.raises(BudgetError):
        ledger.open("labels", vote, 1)


def test_an_account_of_another_ledger_is_refused() -> None:
    ledger, other = Ledger(5.0, DELTA), Ledger(math.inf, DELTA)
    second = ledger.open("critic", full(10.0), 7)
    table = PrivateTable(np.arange(3), ledger)
    for account in (
        other.open("critic", full(10.0), 7),
        Account("critic", full(10.0), 7),  # equal to the one on the ledger, but not it
        Account("critic", NoPrivacy(), 7),
    ):
        with pytest.raises(BudgetError, match="not on the ledger"):
            table.read(account)
    assert (table.reads, second.spent, ledger.spent) == (0, 0, 0.0)


def test_a_private_table_shows_nothing_but_through_reads() -> None:
    """R7, R14: no length, no iteration, no index, nothing in its repr."""
    table = PrivateTable(np.array([987654321, 2]), Ledger(1.0, DELTA))
    for look in (len, iter, list, lambda t: t[0], np.asarray):
        if look is np.asarray:
            assert np.asarray(table).shape == ()  # an object, not the rows
            continue
        with pytest.raises(TypeError):
            look(table)  # type: ignore[operator]
    assert not hasattr(table, "rows") and not hasattr(table, "shape")
    assert "987654321" not in repr(table) and repr(table) == "PrivateTable(reads=0)"


def test_a_grant_counts_what_was_granted_before() -> None:
    """R7: two halves of 1/σ² fit the budget, a third does not."""
    ledger, sigma = Ledger(1.0, DELTA), math.sqrt(2) * 1.0001 / gaussian_mu(1.0, DELTA)
    for purpose in ("first", "second"):
        ledger.open(purpose, full(sigma), 1)
    with pytest.raises(BudgetError):
        ledger.open("third", full(sigma), 1)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_no_target_is_overshot(data: st.DataObject) -> None:
    """R7: 50 random targets; accounts are opened until refused, then spent in any order."""
    epsilon = data.draw(st.floats(0.05, 30))
    ledger = Ledger(epsilon, DELTA)
    squared = 0.0
    refused = 0
    for _ in range(data.draw(st.integers(1, 8))):
        sigma, count = data.draw(st.floats(0.3, 60)), data.draw(st.integers(0, 400))
        try:
            account = ledger.open("counts", full(sigma), count)
        except BudgetError as error:
            assert "nothing was read" in str(error)
            assert gaussian_delta(math.sqrt(squared + count / sigma**2), epsilon) > DELTA * (
                1 - 1e-6
            )
            refused += 1
            continue
        squared += count / sigma**2
        for _ in range(data.draw(st.integers(0, count))):
            ledger.spend(account)
    assert gaussian_delta(math.sqrt(squared) or 1e-9, epsilon) <= DELTA * (1 + 1e-6)
    assert ledger.spent <= epsilon * (1 + 1e-6)
    assert len(ledger.accounts) + refused >= 1


def test_poisson_steps_up_to_the_budget() -> None:
    """R7: what one step more would pass is refused as a whole."""
    ledger = Ledger(1.0, DELTA)
    ledger.open("counts", full(8.0), 1)
    granted = 0
    for _ in range(40):
        try:
            ledger.open("critic", sampled(2.0, 0.05), 20)
        except BudgetError:
            break
        granted += 20
    assert 0 < granted < 800
    assert ledger.spent == 0.0
    for account in ledger.accounts:
        for _ in range(account.granted):
            ledger.spend(account)
    assert 0.8 < ledger.spent <= 1.0


def test_no_noise_needs_an_infinite_budget() -> None:
    with pytest.raises(BudgetError, match="epsilon to inf"):
        Ledger(1e6, DELTA).open("autoencoder", NoPrivacy(), 1)
    ledger = Ledger(math.inf, DELTA)
    account = ledger.open("autoencoder", NoPrivacy(), 2)
    assert ledger.spent == 0.0  # granted is not spent
    ledger.spend(account)
    assert ledger.spent == math.inf


def test_close_gives_back_what_was_not_used() -> None:
    ledger = Ledger(1.0, DELTA)
    account = ledger.open("critic", full(8.0), 4)
    with pytest.raises(BudgetError):
        ledger.open("critic", full(8.0), 4)
    ledger.spend(account)
    before = ledger.spent
    ledger.close()
    assert ledger.spent == before > 0
    with pytest.raises(BudgetError):
        ledger.spend(account)
    ledger.open("critic", full(8.0), 2)


def test_to_list_and_back() -> None:
    ledger = Ledger(9.0, DELTA)
    for account in (
        ledger.open("counts", full(3.25), 1, {"l2_sensitivity": 2.0}),
        ledger.open("critic", sampled(1.75, 0.125), 5),
        ledger.open("labels", NoisyVote(noise=9.5, teachers=61), 7),
        ledger.open("never", full(50.0), 5),
    ):
        for _ in range(account.granted if account.purpose != "never" else 0):
            ledger.spend(account)
    items = ledger.to_list()
    assert [(i["purpose"], i["count"]) for i in items] == [
        ("counts", 1),
        ("critic", 5),
        ("labels", 7),
    ]
    second = Ledger.from_list(9.0, DELTA, items)
    assert second.to_list() == items and second.spent == ledger.spent
    for account in second.accounts:  # all of it is spent
        with pytest.raises(BudgetError):
            second.spend(account)
    assert Ledger.from_list(9.0, DELTA, [{**items[0], "details": None}]).spent > 0


GOOD = {"purpose": "p", "mechanism": "gaussian", "noise_multiplier": 1.0, "count": 1}
VOTE = {"purpose": "p", "count": 1} | NoisyVote(noise=2.0, teachers=9).to_dict()
RUBBISH: list[Any] = [
    5,
    "gaussian",
    [],
    {},
    {**GOOD, "mechanism": "laplace"},
    {**GOOD, "mechanism": "noisy-vote"},
    *({**VOTE, "noise": v} for v in (0, -1, math.nan, "1", None, 10**400)),
    *({**VOTE, "teachers": v} for v in (0, 1.5, "9", None, 10**9)),
    *({**VOTE, "accounting": v} for v in ("data-dependent", None, 5, ["laplace"])),
    {**GOOD, "mechanism": ["gaussian"]},
    {**GOOD, "mechanism": "subsampled-gaussian"},
    {**GOOD, "mechanism": "subsampled-gaussian", "sampling_rate": 0},
    {**GOOD, "mechanism": "subsampled-gaussian", "sampling_rate": 1.5},
    {**GOOD, "mechanism": "subsampled-gaussian", "sampling_rate": math.nan},
    *(
        {**GOOD, "noise_multiplier": v}
        for v in (0, -1, math.nan, math.inf, "1", None, True, 10**400)
    ),
    *({**GOOD, "noise_multiplier": v} for v in (1e-200, 1e200)),
    *({**GOOD, "count": v} for v in (-1, 1.0, math.nan, True, "1", None, 10**400, 10**30)),
    *({**GOOD, "details": v} for v in ("text", 5, [1])),
]


@pytest.mark.parametrize("item", RUBBISH, ids=lambda item: repr(item)[:60])
def test_rubbish_on_a_list_is_refused(item: Any) -> None:
    with pytest.raises(TabsynthError) as error:
        Ledger.from_list(math.inf, DELTA, [item])
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_a_count_of_many_digits_is_accounted() -> None:
    assert Ledger.from_list(math.inf, DELTA, [{**GOOD, "count": 10**15}]).spent > 1e14
    with pytest.raises(FileFormatError, match="count"):
        Ledger.from_list(math.inf, DELTA, [{**GOOD, "count": 10**15 + 1}])


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1e-5), (-1, 1e-5), (math.nan, 1e-5), ("1", 1e-5), (1, 0), (1, 1)]
)
def test_budgets_that_are_none(epsilon: Any, delta: float) -> None:
    with pytest.raises(InputError):
        Ledger(epsilon, delta)


def test_counts_that_are_none() -> None:
    for count in (-1, 1.5, True, "3"):
        with pytest.raises(InputError, match="count"):
            Ledger(1.0, DELTA).open("critic", full(9.0), count)  # type: ignore[arg-type]
