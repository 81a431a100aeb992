"""Fixtures of the tests of synthesizers."""

from typing import Any

import pytest

from tabsynth.privacy.ledger.ledger import PrivateTable
from tabsynth.synthesizers import plan


@pytest.fixture(autouse=True)
def few_made_up_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few rows of the tables on which times of fits are estimated."""
    monkeypatch.setattr(plan, "TRIAL_ROWS", 2_000)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The purposes of all reads of private rows."""
    results: list[str] = []
    real = PrivateTable.read

    def read(table: Any, account: Any, uses: int = 1) -> Any:
        results.append(account.purpose)
        return real(table, account, uses)

    monkeypatch.setattr(PrivateTable, "read", read)
    return results
