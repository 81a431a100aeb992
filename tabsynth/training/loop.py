"""The one loop: steps, a deadline, an interrupt, progress by callback."""

import time
from collections.abc import Callable
from dataclasses import dataclass

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

    def must_stop(self) -> bool:
        """Whether no new step may begin."""
        if self.stopped is None and self.deadline is not None and time.monotonic() >= self.deadline:
            self.stopped = "time limit"
        return self.stopped is not None


def run_steps(stage: str, steps: int, step: Callable[[int], None], watch: Watch) -> int:
    """Call ``step(0) … step(steps - 1)`` until done or stopped; returns the steps done.

    Ctrl-C ends the loop between or within steps: what was spent stays on the ledger, and the state
    is that of a shorter run.
    """
    for i in range(steps):
        if watch.must_stop():
            return i
        try:
            step(i)
            if watch.progress is not None:
                watch.progress(stage, i + 1, steps)
        except KeyboardInterrupt:
            watch.stopped = "interrupted"
            return i
    return steps
