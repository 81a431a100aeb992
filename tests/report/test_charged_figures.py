"""R4, R12: bins of a published report follow from the public table, and its distances are as noisy as charged."""

import math

import numpy as np
import pytest

from tabsynth.evaluation import Columns, charged
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable


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
            Columns(names=("number",), sizes=(60,), scores=(np.arange(60.0),)),
            rng=rng,
        )
    np.testing.assert_array_equal(*bins)
    assert bins[0][0].max() == 19  # 20 bins


def test_every_distance_has_noise_of_its_own_use() -> None:
    """Of each order of columns, a mean that one record moves by 1 at most, with N(0, σ²) on it."""
    rng, sigma = np.random.default_rng(1), 20.0
    private, public = rng.integers(0, 4, (400, 3)), rng.integers(0, 7, (300, 3)).clip(max=3)
    rows, means = [], []
    for seed in range(120):
        ledger = Ledger(math.inf, 1e-5)
        result = charged.charged_metrics(
            PrivateTable(private, ledger),
            ledger.open("report", Gaussian(noise_multiplier=sigma), charged.uses(3)),
            public,
            Columns(names=("a", "b", "c"), sizes=(4, 4, 4)),
            rng=np.random.default_rng(seed),
        )
        values = {metric.key: metric.value for metric in result}
        rows.append(values["rows"])
        means.append([2 * values["rows"] * values[key] for key in ("tvd1", "tvd2", "tvd3")])
    for mean in np.array(means).T:
        # What the noise on the number of rows adds is subtracted: it is a smooth function of that.
        left = mean - np.polyval(np.polyfit(rows, mean, 2), rows)
        assert 0.75 * sigma < left.std() < 1.25 * sigma
