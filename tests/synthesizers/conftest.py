"""Fixtures of the tests of synthesizers."""

from typing import Any

import pytest

from tabsynth.privacy.ledger.ledger import PrivateTable


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
