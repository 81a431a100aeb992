"""How long a fit is said to take: private steps by the rows, others as they are."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fitted_tables import SCHEMA

from tabsynth import MargNet
from tabsynth._random import Randomness
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers import plan
from tabsynth.synthesizers.margnet.estimator import MargNetMethod
from tabsynth.synthesizers.method import Trained
from tabsynth.synthesizers.plan import TRIAL_STEPS, estimate_seconds, made_up_rows
from tabsynth.training.loop import TrainingMonitor


@pytest.mark.parametrize("times", [1, 5, 1000])
@pytest.mark.parametrize("likely", [None, 51])
def test_only_what_reads_rows_is_scaled(
    times: int, likely: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts take 4 s, the network's first step 3 and each other half a second, by a clock of our own."""
    clock = [0.0]
    monkeypatch.setattr(plan, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def train(
        method: MargNetMethod, index: np.ndarray, spends: Any, ledger: Ledger, *args: Any
    ) -> Trained:
        monitor = args[1]
        assert len(index) == plan.TRIAL_ROWS and monitor.trial_steps == TRIAL_STEPS
        clock[0] += 4
        for i in range(TRIAL_STEPS):
            clock[0] += 0.5 if i else 3
            monitor.progress("generator", i + 1, TRIAL_STEPS)
        steps = {} if likely is None else {"generator": likely}
        return Trained(generator=None, curves={}, likely_steps=steps)

    model = MargNet(SCHEMA, epsilon=1.0)
    monkeypatch.setattr(MargNetMethod, "train", train)
    monkeypatch.setattr(MargNetMethod, "free_steps", lambda _: {"generator": 101})
    spends = model.plan(estimate_time=False).spends
    result = estimate_seconds(model.make_method(SCHEMA), spends, times * plan.TRIAL_ROWS)
    assert result == pytest.approx(7 * times + (50 if likely is None else 25))


def test_made_up_rows_are_codes_that_depend_on_each_other() -> None:
    sizes = (1, 2, 7, 300)
    rows = made_up_rows(sizes, 20_000, np.random.default_rng(0))
    assert rows.shape == (20_000, 4) and (rows >= 0).all() and (rows < sizes).all()
    shares = np.bincount(rows[:, 3], minlength=300) / 20_000
    assert shares[0] > 0.1 > shares[100:].max()
    together = np.histogram2d(rows[:, 1], rows[:, 2], bins=(2, 7))[0] / 20_000
    apart = np.outer(together.sum(1), together.sum(0))
    assert np.abs(together - apart).sum() > 0.03


def test_a_fit_that_reaches_the_noise_early_takes_fewer_steps() -> None:
    """More noise, fewer steps; and no more than the configuration allows."""
    told = {}
    for epsilon in (0.2, 10.0):
        model = MargNet(SCHEMA, epsilon=epsilon, rows=2_000)
        spends = model.plan(estimate_time=False).spends
        rows = made_up_rows(SCHEMA.learned.sizes, 2_000, np.random.default_rng(0))
        monitor = TrainingMonitor(trial_steps=11)
        trial = model.make_method(SCHEMA).train(
            rows, spends, Ledger(math.inf, 1e-5), Randomness(0), monitor
        )
        told[epsilon] = trial.likely_steps["generator"]
    assert 0 < told[0.2] < told[10.0] <= 3_000


def test_a_short_time_limit_takes_no_time_for_an_estimate() -> None:
    plan = MargNet(SCHEMA, epsilon=1.0, time_limit=2.0).plan()
    assert plan.seconds is None and "stops at the time limit of 2 s" in str(plan)
    assert MargNet(SCHEMA, epsilon=1.0, rows=100, time_limit=60.0).plan().seconds is not None
