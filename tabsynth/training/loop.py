"""The training loop: steps, a deadline, an interrupt, progress by callback, checkpoints."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tabsynth._threads import limit_threads
from tabsynth.privacy.ledger.ledger import Account, note, recorder
from tabsynth.training.checkpoint import Checkpoint, Stateful

TIME_LIMIT, INTERRUPTED = "time limit", "interrupted"

Progress = Callable[[str, int, int], None]


@dataclass(kw_only=True)
class TrainingMonitor:
    """Progress, deadline and checkpoint of a running fit.

    Attributes
    ----------
    progress : callable, optional
        ``progress(stage, done, total)`` after each step.
    deadline : float, optional
        A time of :func:`time.monotonic` after which no new step begins.
    stopped : str or None
        Why the fit ended before its plan: ``"time limit"`` or ``"interrupted"``.
    checkpoint : Checkpoint, optional
    trial_steps : int, optional
        The steps that each stage without an account takes in a trial on made-up rows; None: it is a fit.
    """

    progress: Progress | None = None
    deadline: float | None = None
    stopped: str | None = None
    checkpoint: Checkpoint | None = None
    trial_steps: int | None = None

    def limit_steps(self, steps: int) -> int:
        """Return the number of steps of a stage without an account: fewer in a trial."""
        return steps if self.trial_steps is None else min(steps, self.trial_steps)

    def once(
        self, name: str, compute: Callable[[], Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Return arrays of a release that is charged once a fit: computed, or as the checkpoint kept them."""
        checkpoint = self.checkpoint
        arrays = dict(compute()) if checkpoint is None else checkpoint.once(name, compute)
        note(name, arrays)
        return arrays


def run_steps(
    stage: str,
    steps: int,
    step: Callable[[int], None],
    monitor: TrainingMonitor,
    share: float = 1.0,
    *,
    account: Account | None = None,
    state: Stateful | None = None,
    numbers: int = 0,
    may_stop: Callable[[], bool] | None = None,
) -> int:
    """Call ``step(0) … step(steps - 1)`` until done or stopped; returns the steps done.

    A stage may use up to ``share`` of the time that is left: an early one must leave some to those
    that follow. Ctrl-C ends the loop between or within steps: what was spent stays on the ledger, and
    the state is that of a shorter run.

    Parameters
    ----------
    stage : str
        Unique within a fit.
    account : Account, optional
        Charged for one step at a time. Where a crash left steps of unknown outcome, they are charged, and
        that many fewer are done.
    state : Stateful, optional
        What the steps change. With a checkpoint it is set back to where an earlier process saved it,
        the steps go on from there, and it is saved every so often and at the end. After an exception
        other than Ctrl-C it is not: it may be half a step.
    numbers : int
        About how many a step computes at once, which decides the number of threads.
    may_stop : callable, optional
        Asked when the time is over: until it returns True, the steps go on.
    """
    checkpoint = monitor.checkpoint if state is not None else None
    first = 0
    if checkpoint is not None and state is not None:
        first = checkpoint.restore(stage, state)
        if checkpoint.is_followed(stage):
            return first
    count = (
        steps - first if account is None else min(steps - first, account.granted - account.spent)
    )

    def save(done: int) -> None:
        if checkpoint is not None and state is not None:
            checkpoint.save(stage, done, state)

    started = time.monotonic()
    deadline = (
        math.inf if monitor.deadline is None else started + share * (monitor.deadline - started)
    )
    done = saved = first
    try:
        with limit_threads(numbers):
            while done < first + count and monitor.stopped != INTERRUPTED:
                if time.monotonic() >= deadline and (may_stop is None or may_stop()):
                    monitor.stopped = TIME_LIMIT
                    break
                step(done)
                done += 1
                if (trace := recorder()) is not None and state is not None:
                    trace.note(f"{stage}, step {done}", state.state_dict())
                if monitor.progress is not None:
                    monitor.progress(stage, done, first + count)
                if checkpoint is not None and checkpoint.due():
                    save(done)
                    saved = done
    except KeyboardInterrupt:
        monitor.stopped = INTERRUPTED
    if done > saved:
        save(done)
    return done
