"""R7: a line is on the disk, not only on its way there, when the journal says so."""

import os
from pathlib import Path

import pytest

from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.journal import Journal
from tabsynth.privacy.ledger.ledger import Ledger


def test_every_line_is_synced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was written to the file was followed by an fsync of it before the call returned."""
    synced: dict[int, int] = {}
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        synced[os.fstat(fd).st_ino] = os.fstat(fd).st_size

    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "ledger"
    ledger = Ledger(5.0, 1e-5, journal=Journal(path, 5.0, 1e-5), run="a")

    def size() -> int:
        now = path.stat()
        assert synced[now.st_ino] == now.st_size
        return now.st_size

    sizes = [size()]
    account = ledger.open("critic", Gaussian(noise_multiplier=10.0), 3)
    sizes.append(size())
    for _ in range(3):
        ledger.spend(account)
        sizes.append(size())
    ledger.close()
    sizes.append(size())
    assert sizes == sorted(set(sizes))  # each of them has written
    assert ledger.journal is not None
    ledger.journal.release()
