"""R4: the distances of a published report are as noisy as charged."""

import math

import numpy as np

from tabsynth.evaluation import Columns, charged
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable


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
