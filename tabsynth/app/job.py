"""Work in the background, one at a time: its progress, its outcome, and how it is cancelled."""

import logging
import re
import threading
from collections.abc import Callable
from typing import Any

from tabsynth.errors import InputError, TabsynthError

RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"
logger = logging.getLogger(__name__)
# What the page calls a parameter of Python that a message of the library names as ``name=`` or ``name='value'``.
WORDS = {
    **{"epsilon": "ε", "delta": "δ", "rows": "the number of rows", "n": "the number of rows"},
    **{
        "sep": "“Separator”",
        "encoding": "“Encoding”",
        "decimal": "“Decimal mark”",
        "sheet": "“Sheet”",
    },
    **{"formulas": "tabsynth sample --formulas", "key": "a private key", "unit": "its unit"},
}


def page_lines(message: str) -> list[str]:
    """Return the lines of a message of the library, in the words of the page."""

    def word(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in WORDS or value is None:
            return WORDS.get(name, match[0])
        return f"{WORDS[name]} {value}" if name == "formulas" else f"'{value}'"

    named = r"(?<![\w.'\"-])([a-z_]+)=(?:'([^']*)')?(?=[\s.,;)]|$)"
    return [re.sub(named, word, " ".join(line.split())) for line in message.split("\n")]


class Job(logging.Handler):
    """A function that runs in a thread of its own.

    Parameters
    ----------
    title : str
    work : callable
        ``work(job)`` returns what there is to say of the result. It calls :meth:`step` often; there a cancelled job ends.
    cancelled : callable, optional
        What there is to say when it was cancelled.

    Attributes
    ----------
    state : str
        ``running``, ``done``, ``failed`` or ``cancelled``.
    stage, done, total : str, int, int
        Progress; ``total`` is 0 where it is not known.
    lines : list of str
        What there is to say at its end: the result, or the errors.
    warnings : list of str
        Warnings of the library while it ran.
    """

    def __init__(
        self,
        title: str,
        work: Callable[["Job"], list[str]],
        cancelled: Callable[[], list[str]] = lambda: ["Cancelled."],
    ) -> None:
        super().__init__(logging.WARNING)
        self.title, self._work, self._cancelled = title, work, cancelled
        self.state = RUNNING
        self.stage, self.done, self.total = "", 0, 0
        self.lines: list[str] = []
        self.warnings: list[str] = []
        self._stop = threading.Event()
        # A daemon: where a step does not end in time after Ctrl-C, the checkpoint keeps what was spent.
        self._thread = threading.Thread(target=self._run, daemon=True, name=title)

    def start(self) -> "Job":
        """Begin the work in a thread."""
        self._thread.start()
        return self

    def cancel(self) -> None:
        """End the work at its next step."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """True while it was cancelled and has not ended yet."""
        return self._stop.is_set() and self.state == RUNNING

    @property
    def share(self) -> float:
        """The part of the stage that is done, from 0 to 1; 0 where it is not known."""
        return self.done / self.total if self.total else 0.0

    @property
    def progress(self) -> str:
        """The stage and its part that is done, in a sentence."""
        if self.stopping:
            return f"{self.title} ends at its next step."
        percent = f", {self.share:.0%}" if self.total else ""
        return f"{self.title}: {self.stage or 'running'}{percent}."

    def wait(self, seconds: float | None = None) -> "Job":
        """Wait for its end."""
        self._thread.join(seconds)
        return self

    def step(self, stage: str, done: int, total: int) -> None:
        """Take note of the progress of the work, as :meth:`tabsynth.MargNet.fit` reports it.

        Raises
        ------
        KeyboardInterrupt
            If the job was cancelled: as after Ctrl-C, a fit then keeps what it has spent, and its checkpoint.
        """
        self.stage, self.done, self.total = stage, done, total
        if self._stop.is_set():
            raise KeyboardInterrupt

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning of the library."""
        if record.thread == self._thread.ident:
            self.warnings.append(" ".join(page_lines(record.getMessage())))

    def _run(self) -> None:
        library = logging.getLogger("tabsynth")
        library.addHandler(self)
        try:
            self.lines = self._work(self)
            self.state = DONE
        except KeyboardInterrupt:
            self.lines = self._cancelled()
            self.state = CANCELLED
        except TabsynthError as error:  # of a table with several problems, a line for each
            self._fail(page_lines(str(error)))
        except MemoryError:
            self._fail(["Not enough memory; use fewer rows or fewer categories."])
        except (
            Exception
        ) as error:  # a mistake of ours: the page goes on, and the terminal has the rest
            logger.exception("%s failed", self.title)
            self._fail([f"{self.title} failed: {type(error).__name__}. The terminal has more."])
        finally:
            library.removeHandler(self)

    def _fail(self, lines: list[str]) -> None:
        self.lines = [" ".join(line.split()) for line in lines]
        self.state = FAILED


def refuse_second(job: Job | None) -> None:
    """Refuse to begin while a job runs.

    Raises
    ------
    InputError
    """
    if job is not None and job.state == RUNNING:
        raise InputError(f"{job.title} is still running; wait for it, or cancel it.")


def fractions(job: Job) -> Any:
    """Return the callback ``(stage, fraction)`` of evaluations."""
    return lambda stage, fraction: job.step(stage, round(100 * fraction), 100)
