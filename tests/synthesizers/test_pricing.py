"""How long a fit is said to take: private steps by the rows, others as they are."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fitted_tables import SCHEMA

from tabsynth import MargNet
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers import base as pricing
from tabsynth.synthesizers.base import TRIAL_ROWS, TRIAL_STEPS


@pytest.mark.parametrize("times", [1, 5, 1000])
def test_only_what_reads_rows_is_scaled(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts take 4 s, the network's first step 3 and each other half a second, by a clock of our own."""
    clock = [0.0]
    monkeypatch.setattr(pricing, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def train(index: np.ndarray, spends: Any, ledger: Ledger, *args: Any, most: int) -> None:
        assert len(index) == TRIAL_ROWS and most == TRIAL_STEPS
        monitor = args[1]
        clock[0] += 4
        for i in range(most):
            clock[0] += 0.5 if i else 3
            monitor.progress("generator", i + 1, most)

    model = MargNet(SCHEMA, epsilon=1.0)
    monkeypatch.setattr(model, "_train", train)
    monkeypatch.setattr(model, "_free_steps", lambda: {"generator": 101})
    spends = model.plan(estimate_time=False).spends
    result = model._estimated_seconds(list(spends), times * TRIAL_ROWS)
    assert result == pytest.approx(7 * times + 50)
