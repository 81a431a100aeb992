"""The time that a fit will take, measured on made-up rows before the table is read."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tabsynth._random import Randomness
from tabsynth.encoding.rows import PrivateRows, Rows, codes_of
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.method import Method, PlannedSpend
from tabsynth.training.loop import TrainingMonitor

TRIAL_STEPS = 11
TRIAL_ROWS = 100_000
# Of made-up rows: how unequal values are, and how far columns depend on each other. With these the steps of a fit
# take about as long as on the tables of reports/tables, where uniform rows take up to ten times as long.
POWER, CLASSES, DEPENDENT, MODES = 1.5, 8, 0.6, 3


def made_up_rows(sizes: Sequence[int], rows: int, rng: np.random.Generator) -> np.ndarray:
    """Make up category codes of rows, shape (rows, columns): skewed columns that depend on a hidden class.

    Parameters
    ----------
    sizes : sequence of int
        Number of codes of each column.
    rows : int
    rng : Generator
    """
    hidden = rng.integers(0, CLASSES, rows)
    columns = []
    for size in sizes:
        shares = 1 / np.arange(1, size + 1) ** POWER
        codes = rng.choice(size, rows, p=shares / shares.sum())
        shift = rng.integers(0, min(size, MODES), CLASSES)[hidden]
        columns.append((codes + shift * (rng.random(rows) < DEPENDENT)) % size)
    return np.stack(columns, axis=1)


def estimate_seconds(method: Method, spends: Sequence[PlannedSpend], rows: int) -> float:
    """Estimate the seconds that a fit of ``rows`` rows will take here. No private row is touched.

    Parameters
    ----------
    method : TableMethod
    spends : sequence of PlannedSpend
        Its plan.
    """
    assert isinstance(method.schema, Schema)
    made_up, rng = min(rows, TRIAL_ROWS), np.random.default_rng(0)
    index: PrivateRows = made_up_rows(method.schema.learned.sizes, made_up, rng)
    if (cap := method.schema.design.max_weight) is not None:
        index = Rows(codes_of(index), cap * rng.random(made_up) ** POWER)
    few = [replace(s, count=min(s.count, TRIAL_STEPS)) for s in spends]
    times: dict[str, list[float]] = {}
    monitor = TrainingMonitor(
        progress=lambda stage, *_: times.setdefault(stage, []).append(time.monotonic()),
        trial_steps=TRIAL_STEPS,
    )
    started = time.monotonic()
    ledger = Ledger(math.inf, method.delta)
    trial = method.train(index, few, ledger, Randomness(0), monitor)
    private, public = time.monotonic() - started, 0.0
    charged = {s.purpose: s.count for s in spends}
    for stage, steps in {**charged, **method.free_steps(), **trial.likely_steps}.items():
        stamps = times.get(stage, [])
        if len(stamps) >= TRIAL_STEPS:
            # The first steps warm up (imports, allocators): they say nothing of the others.
            each = (stamps[-1] - stamps[2]) / (len(stamps) - 3)
            left = (steps - TRIAL_STEPS) * each
            if stage in charged:
                private += left
            else:  # such steps read no rows
                tried = stamps[-1] - stamps[0]
                private, public = private - tried, public + tried + left
    return private * rows / made_up + public
