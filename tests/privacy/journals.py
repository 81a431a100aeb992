"""Ledgers on disk for the tests of the journal."""

from pathlib import Path

from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.journal import Journal
from tabsynth.privacy.ledger.ledger import Ledger

FULL = Gaussian(noise_multiplier=100.0)


def on(path: Path, run: str = "a", epsilon: float = 5.0) -> Ledger:
    return Ledger(epsilon, 1e-5, journal=Journal(path, epsilon, 1e-5), run=run)


def released(ledger: Ledger) -> None:
    assert ledger.journal is not None
    ledger.journal.release()
