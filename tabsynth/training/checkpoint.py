"""A folder from which a killed fit goes on: its ledger, what it has released, and how far it came.

In it are ``ledger.jsonl`` (:mod:`tabsynth.privacy.journal`), ``checkpoint.json`` (which fit it belongs
to, its plan, a list of the other files with their checksums), noisy counts and the states of stages:
weights of generator and critic, optimisers, averages, curves. All of it follows from noised releases and
from public facts, so it is as private as the model. But it is more than the model: it is for the owner
of the table, not for others (mode 0600). What is not in it: private rows, seeds, RNG states. So a fit
that goes on draws new noise: with ``random_state`` from a stream that follows from the seed and the
number of times the fit went on, else from the operating system.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tabsynth._files import sha256
from tabsynth._validate import positive
from tabsynth.errors import BudgetError, FileFormatError
from tabsynth.privacy.journal import Journal
from tabsynth.privacy.ledger import EARLIER, Ledger
from tabsynth.privacy.recording import new_name, recorder
from tabsynth.training.index import (
    FORMAT,
    INDEX,
    LEDGER,
    STATE_FILE,
    check_same,
    make_folder,
    read_index,
)
from tabsynth.training.kept_files import KeptFiles
from tabsynth.training.states import Stateful, read_state, write_durably

MODEL = "model.tabsynth"
OURS = re.compile(rf"{STATE_FILE.pattern}(\.tmp)?")
EVERY = 10.0  # seconds from one state to the next at most …
COST = 0.02  # … and as often as takes this share of the time


class LostRelease(Exception):
    """A release was paid, and a crash came before its result was kept: the fit must plan anew."""


class Checkpoint(KeptFiles):
    """Where a fit keeps how far it came; open for one process at a time.

    Parameters
    ----------
    path : path
        A folder: new, empty, or an earlier checkpoint of the same fit.
    epsilon, delta : float
        Of the ledger.
    fit : dict
        What the fit is, JSON-ready; a checkpoint of another one is refused.
    earlier : sequence of dict
        What was spent before this fit began, as :meth:`Ledger.to_list` gives it.
    every : float, optional
        Seconds from one state to the next at most; by default ``EVERY``.
    journal : Journal, optional
        A project's ledger, open: the fit's accounts are there, and the folder has no ledger of its own.
        ``fit`` then names it.

    Attributes
    ----------
    resumes : int
        How often the fit went on.
    plan : list of dict or None
        What the fit set out to spend, JSON-ready; kept, so that it goes on with the same noise.

    Formal guarantees
    -----------------
    What was read is on the ledger before it was read, and no release is paid twice for the want of its
    results. Whoever puts an older copy of the whole folder in its place makes it forget: nothing in the
    folder can know.

    Raises
    ------
    InputError
        If it is another fit's, in use by another process, or not a checkpoint.
    FileFormatError
        If it is damaged.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        epsilon: float,
        delta: float,
        fit: Mapping[str, Any],
        earlier: Sequence[Mapping[str, Any]] = (),
        every: float | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.path = Path(path)
        self.every = positive("every", EVERY if every is None else every)
        self._limit = (epsilon, delta)
        self._next_save = -np.inf
        self._went_on = False  # with the plan of an earlier process
        binding = json.loads(json.dumps({**fit, "earlier": list(earlier)}))
        make_folder(self.path)
        index = self.path / INDEX
        # Another fit's is refused before its ledger, of another limit perhaps, is opened.
        if index.exists():
            check_same(self.path, read_index(index)["fit"], binding)
        self._own = journal is None
        self._earlier = list(earlier)
        self.journal = Journal(self.path / LEDGER, epsilon, delta) if journal is None else journal
        try:
            if index.exists():
                self._index = read_index(index)
                check_same(self.path, self._index["fit"], binding)
                self._resume()
            else:
                self._begin(binding)
            if self._own:
                self.journal.note_spent(EARLIER, self._earlier)
        except BaseException:
            self.release()
            raise

    def _begin(self, fit: dict[str, Any]) -> None:
        if self._own and self.journal.entries:
            raise FileFormatError(f"Checkpoint {self.path} is damaged: its {INDEX} is missing.")
        self._index = {"format": FORMAT, "fit": fit, "run": new_name(), "resumes": 0}
        self._index |= {"seeded": False, "plan": None, "next": 0, "kept": [], "model": None}
        self._index["given_up"] = []
        self._write_index()

    def _resume(self) -> None:
        if self._index["chain"] not in self.journal.chains:
            raise FileFormatError(
                f"Checkpoint {self.path} is damaged: its ledger lacks what was written to it."
            )
        listed = {item["file"] for item in self._index["kept"]}
        for file in self.path.iterdir():  # what a crash left half done
            if OURS.fullmatch(file.name) and file.name not in listed:
                file.unlink(missing_ok=True)
        if not self.finished:
            self._index["resumes"] += 1
            self._write_index()
        self._went_on = True
        self._close_others()

    def _close_others(self) -> None:
        """Close what a plan that was given up, or a fit that has ended, left open in the journal."""
        keep = {EARLIER} if self.finished else {EARLIER, self.run}
        if not self._own:  # the others are not this fit's
            keep |= {entry.run for entry in self.journal.entries.values()} - {*self.runs}
        self.journal.close_all(but=keep)

    # The fit.

    @property
    def run(self) -> str:
        """The name of this fit's accounts in the journal."""
        return str(self._index["run"])

    @property
    def runs(self) -> list[str]:
        """Of this fit: those whose plans were given up, and :attr:`run`."""
        return [*self._index.get("given_up", []), self.run]

    @property
    def resumes(self) -> int:
        """How often the fit went on."""
        return int(self._index["resumes"])

    @property
    def plan(self) -> list[dict[str, Any]] | None:
        """What the fit set out to spend, JSON-ready; None before :meth:`begin`."""
        return self._index["plan"]

    @property
    def seeded(self) -> bool:
        """Whether any part of the fit was."""
        return bool(self._index["seeded"])

    @property
    def finished(self) -> bool:
        """Whether the fit has ended whole: then only its model is left."""
        return self._index["model"] is not None

    def ledger(self) -> Ledger:
        """The ledger as the journal has it: all that was reserved counts as spent."""
        before = [] if self._own else self._earlier  # else the journal has it
        return Ledger.from_list(
            *self._limit, before, journal=self.journal, run=self.run, given_up=self.runs
        )

    def begin(self, plan: list[dict[str, Any]], *, seeded: bool) -> None:
        """Note the plan, and whether this part of the fit is seeded, before the first account."""
        self._index["plan"] = plan
        self._index["seeded"] = self.seeded or seeded
        self._write_index()

    def start_over(self) -> None:
        """Give the plan up: all it spent stays spent, all it made is dropped, and a new one may begin."""
        dropped = [item["file"] for item in self._index["kept"]]
        self._index["given_up"] = self.runs
        self._index |= {"run": new_name(), "plan": None, "kept": []}
        self._index["resumes"] += 1  # never twice the same noise
        self._went_on = False
        self._write_index()
        self._close_others()
        self._drop(dropped)

    def finish(self, save: Callable[[Path], object]) -> None:
        """Keep the model that ``save`` writes, and nothing else but the ledger."""
        path = self.path / MODEL
        save(path)
        write_durably(path, path.read_bytes())
        dropped = [item["file"] for item in self._index["kept"]]
        self._index |= {"model": sha256(path), "kept": []}
        self._write_index()
        self._close_others()
        self._drop(dropped)

    def model(self) -> Path:
        """The finished model's file."""
        path = self.path / MODEL
        if sha256(path) != self._index["model"]:
            raise FileFormatError(f"{path} is not the model that the fit ended with.")
        return path

    def release(self) -> None:
        """Let other processes have it; a project's ledger is for its owner to release."""
        if self._own:
            self.journal.release()

    # One-shot releases and stages.

    def once(
        self, name: str, compute: Callable[[], Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """The results of a release that is paid once: computed now, or as an earlier process kept them.

        Raises
        ------
        LostRelease
            If it was paid and a crash came before the results were kept.
        """
        found = self._find("once", name)
        if found is not None:
            state = read_state(self.path / found["file"], found["sha256"])
            return {key: tensor.numpy() for key, tensor in state.items()}
        try:
            results = {key: np.array(value) for key, value in compute().items()}
        except BudgetError:
            if self._went_on:
                raise LostRelease(name) from None
            raise
        self._keep("once", name, results, 1)
        return results

    def restore(self, stage: str, state: Stateful) -> int:
        """Set the state of a stage back to where it was saved; returns the steps done by then."""
        found = self._find("stage", stage)
        if found is None:
            return 0
        file = self.path / found["file"]
        try:
            state.load_state_dict(read_state(file, found["sha256"]))
        except FileFormatError:
            raise
        except (KeyError, ValueError, TypeError, RuntimeError, AttributeError, IndexError):
            raise FileFormatError(
                f"Stage {stage!r} of checkpoint {self.path} does not fit this version of tabsynth; use"
                " the one that wrote it."
            ) from None
        return int(found["done"])

    def followed(self, stage: str) -> bool:
        """Whether a later stage has begun: then this one is not taken up again."""
        names = [item["name"] for item in self._index["kept"] if item["kind"] == "stage"]
        return stage in names[:-1]

    def due(self) -> bool:
        """Whether it is time to save; never in a recorded run, which must not hang on the clock."""
        return recorder() is None and time.monotonic() >= self._next_save

    def save(self, stage: str, done: int, state: Stateful) -> None:
        """Keep the state of a stage after ``done`` steps; on the disk when this returns."""
        started = time.monotonic()
        self._keep("stage", stage, state.state_dict(), done)
        now = time.monotonic()
        self._next_save = now + min(self.every, (now - started) / COST)
