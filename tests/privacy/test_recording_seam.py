"""The seam that mechanisms pass: where no audit looks on, nothing of what passes stays behind (R1, R18)."""

import logging
from typing import Any

import numpy as np
import pytest

from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, exact, recorded_by, recorder


def test_without_a_recorder_nothing_stays(caplog: pytest.LogCaptureFixture) -> None:
    """Values come back as they are; the log, and what a certificate is made of, know none of them."""
    ledger = Ledger(8.0, 1e-5)
    account = ledger.open("counts", Gaussian(noise_multiplier=4.0), 1, {"unit": "counts"})
    ledger.spend(account)
    before = repr(ledger.to_list())
    values = [np.array([31337.0]), 27182.0]
    with caplog.at_level(logging.DEBUG):
        result = exact(account, values, [4.0, 4.0])
    assert [one is other for one, other in zip(result, values, strict=True)] == [True, True]
    assert not caplog.records and repr(ledger.to_list()) == before


def test_a_recorder_sees_what_is_private_and_within_its_block_alone() -> None:
    class Doubling:
        def exact(self, account: Any, labels: Any, values: Any, *rest: Any) -> tuple[Any, Any]:
            assert labels == [None] and list(rest[2]) == [1.0]
            return labels, [2 * value for value in values]

    free, ledger = Ledger(float("inf"), 1e-5), Ledger(8.0, 1e-5)
    paid = ledger.open("counts", Gaussian(noise_multiplier=4.0), 1)
    unpaid = free.open("counts", NoPrivacy(), 1)
    with recorded_by(Doubling()):  # type: ignore[arg-type]
        assert exact(paid, [3.0], [4.0]) == [6.0]
        assert exact(unpaid, [3.0], [0.0]) == [3.0]
    assert recorder() is None and exact(paid, [3.0], [4.0]) == [3.0]
