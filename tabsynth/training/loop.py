"""The one loop: steps, a deadline, an interrupt, progress by callback."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

TIME_LIMIT, INTERRUPTED = "time limit", "interrupted"

Progress = Callable[[str, int, int], None]


@dataclass(kw_only=True)
class Watch:
    """Who looks on while a fit runs, and when it has to stop.

    Attributes
    ----------
    progress : callable, optional
        ``progress(stage, done, total)`` after each step.
    deadline : float, optional
        A time of :func:`time.monotonic` after which no new step begins.
    stopped : str or None
        Why the fit ended before its plan: ``"time limit"`` or ``"interrupted"``.
    """

    progress: Progress | None = None
    deadline: float | None = None
    stopped: str | None = None


def run_steps(
    stage: str, steps: int, step: Callable[[int], None], watch: Watch, share: float = 1.0
) -> int:
    """Call ``step(0) … step(steps - 1)`` until done or stopped; returns the steps done.

    A stage may use up to ``share`` of the time that is left: an early one must leave some to those
    that follow. Ctrl-C ends the loop between or within steps: what was spent stays on the ledger, and
    the state is that of a shorter run.
    """
    now = time.monotonic()
    deadline = math.inf if watch.deadline is None else now + share * (watch.deadline - now)
    for i in range(steps):
        if watch.stopped == INTERRUPTED:
            return i
        if time.monotonic() >= deadline:
            watch.stopped = TIME_LIMIT
            return i
        try:
            step(i)
            if watch.progress is not None:
                watch.progress(stage, i + 1, steps)
        except KeyboardInterrupt:
            watch.stopped = INTERRUPTED
            return i
    return steps
