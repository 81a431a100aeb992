"""R12: what a published report asks of private rows follows from the public table."""

import math

import numpy as np
import pytest

from tabsynth.evaluation import charged
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Ledger
from tabsynth.privacy.mechanisms import NoPrivacy


def test_bins_follow_from_the_public_table_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two private tables without a number in common are counted in the same bins."""
    bins: list[list[np.ndarray]] = []
    real = charged.percentile_bins

    def kept(*given: object) -> list[np.ndarray]:
        bins.append(real(*given))  # type: ignore[arg-type]
        return bins[-1]

    monkeypatch.setattr(charged, "percentile_bins", kept)
    rng = np.random.default_rng(0)
    public = rng.integers(0, 60, (90, 1))
    for private in (rng.integers(0, 30, (80, 1)), rng.integers(30, 60, (40, 1))):
        ledger = Ledger(math.inf, 1e-5)
        charged.charged_metrics(
            PrivateTable(private, ledger),
            ledger.open("report", NoPrivacy(), charged.uses(1)),
            public,
            names=["number"],
            sizes=[60],
            scores=[np.arange(60.0)],
            rng=rng,
        )
    np.testing.assert_array_equal(*bins)
    assert bins[0][0].max() == 19  # 20 bins
