"""Checkpoints: a folder from which an interrupted fit is resumed.

In it are ``ledger.jsonl`` (:mod:`tabsynth.privacy.ledger.journal`), ``checkpoint.json`` (which fit it belongs
to, its plan, a list of the other files with their checksums), noisy counts and the states of stages:
weights of generator and critic, optimisers, averages, curves. All of it follows from noised releases and
from public facts, so it is as private as the model. But it is more than the model: it is for the owner
of the table, not for others (mode 0600). What is not in it: private rows, seeds, RNG states. So a fit
that is resumed draws new noise: with ``random_state`` from a stream that follows from the seed and the
number of times the fit was resumed, else from the operating system.
"""

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from tabsynth._files import fsync_folder, read_json, sha256, size_of, writing
from tabsynth._tensors import pack, read_tensors
from tabsynth._typing import JsonObject
from tabsynth._validate import native, positive, quote
from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.privacy.ledger.journal import Journal
from tabsynth.privacy.ledger.ledger import EARLIER, Ledger, new_name, note, recorder

# A checkpoint of a fit under a project's ledger names that in ``fit``, and has no ledger of its own.
FORMAT = "tabsynth-checkpoint/1"
STATE_FILE = re.compile(r"state-\d{1,18}\.safetensors")
INDEX, LEDGER = "checkpoint.json", "ledger.jsonl"


SCHEMA = "schema"  # of the file with the schema that a fit has drafted


def write_index(path: Path, index: Mapping[str, Any]) -> None:
    """Write the list with its own checksum, whole or not at all."""
    signed = {**index, "sha256": _digest(index)}
    # The rest are checksums of the ledger and of the model, which are looked at themselves.
    note(path.name, {k: v for k, v in index.items() if k not in ("chain", "model")})
    write_durably(path, json.dumps(signed, indent=1).encode())


def _digest(index: Mapping[str, Any]) -> str:
    facts = {k: v for k, v in index.items() if k != "sha256"}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_index(path: Path) -> JsonObject:
    """Return what :func:`write_index` wrote; refuse damage, and a checkpoint without its ledger."""
    index = read_json(path, "checkpoint")
    format_name = index.get("format") if isinstance(index, dict) else None
    if format_name != FORMAT:
        raise FileFormatError(f"{path}: expected format {FORMAT!r}, got {quote(format_name)}.")
    if index.get("sha256") != _digest(index):
        raise FileFormatError(f"{path} is damaged: it does not agree with its own checksum.")
    if not _whole(index):
        raise FileFormatError(
            f"{path} is damaged: a part of it is missing, or not what it should be."
        )
    if "ledger" not in index["fit"] and not (path.parent / LEDGER).exists():
        raise FileFormatError(f"Checkpoint {path.parent} is damaged: its {LEDGER} is missing.")
    return dict(index)


_PARTS = {"fit": dict, "run": str, "chain": str, "resumes": int, "next": int, "seeded": bool}
_OF_FILE = {"kind": str, "name": str, "file": str, "sha256": str, "done": int}


def _whole(index: JsonObject) -> bool:
    """Return whether all parts are there. Refuse files outside: those that it names are read and removed."""
    files, plan, given_up = index.get("kept"), index.get("plan"), index.get("given_up", [])
    return (
        _has(index, _PARTS)
        and {"model", "plan"} <= set(index)
        and isinstance(index.get("model"), str | None)
        and (plan is None or (isinstance(plan, list) and all(isinstance(p, dict) for p in plan)))
        and isinstance(given_up, list)
        and all(isinstance(run, str) for run in given_up)
        and isinstance(files, list)
        and all(_has(item, _OF_FILE) and STATE_FILE.fullmatch(item["file"]) for item in files)
    )


def _has(item: Any, parts: Mapping[str, type]) -> bool:
    return isinstance(item, dict) and all(
        type(item.get(name)) is kind for name, kind in parts.items()
    )


def make_folder(path: Path) -> None:
    """Make a folder for the owner alone; refuse one that holds something else, or points elsewhere."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        names = {file.name for file in path.iterdir()}
        links = [name for name in sorted(names) if (path / name).is_symlink()]
    except OSError as error:
        raise InputError(f"Cannot make checkpoint folder {path}: {error.strerror}.") from None
    if links:  # what is written under such a name would change a file somewhere else
        raise FileFormatError(
            f"Checkpoint {path} holds a symbolic link, {quote(links[0])}; remove it."
        )
    if INDEX in names or not names - {LEDGER, INDEX + ".tmp"}:
        return
    if LEDGER in names:
        raise FileFormatError(f"Checkpoint {path} is damaged: its {INDEX} is missing.")
    raise InputError(f"{path} is a folder, but not a checkpoint; name a new one.")


def check_same(path: Path, theirs: Any, ours: Any) -> None:
    """Refuse a checkpoint of another fit, and name what differs."""
    different = _difference(theirs, ours)
    if different is not None:
        name, there, here = different
        raise InputError(
            f"Checkpoint {path} belongs to another fit: {name} is {quote(there)} there and {quote(here)}"
            " here; fit with the same parameters, or name a new folder."
        )


def _difference(there: Any, here: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Return the first leaf that differs, by its path."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            inner = f"{name}.{key}" if name else str(key)
            if (key in there) != (key in here):
                return inner, there.get(key), here.get(key)
            difference = _difference(there[key], here[key], inner)
            if difference is not None:
                return difference
        return None
    return None if there == here else (name, there, here)


def standing(path: str | Path) -> list[str]:
    """Return the progress of a checkpoint, in plain words; nothing if there is none yet.

    Raises
    ------
    InputError
        If no checkpoint can be written there.
    """
    folder = Path(path)
    if not folder.absolute().parent.is_dir() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"Cannot make checkpoint folder {folder}; name a new one.")
    if not (folder / INDEX).exists():
        return []
    index = read_index(folder / INDEX)
    if index["model"] is not None:
        return [f"{path}: this fit is complete; its model is restored, and nothing is charged."]
    done = ["the drafted schema" for item in index["kept"] if item["kind"] == SCHEMA]
    done += [
        f"{item['name']}: {item['done']:,} steps"
        for item in index["kept"]
        if item["kind"] == "stage"
    ]
    return [f"{path}: resumes from {', '.join(done) or 'the beginning'}."]


STATE_FORMAT = "tabsynth-state/1"
MAX_STATE_BYTES = 8 * 2**30
MAX_STATE_TENSORS = 100_000
MAX_DEPTH = 15  # of a state, each level of which is up to three levels of its JSON


StateDict = dict[str, Any]  # nested dicts, lists and tuples of tensors and plain values


class Stateful(Protocol):
    """A thing that can be saved and set back: modules, optimisers, and objects that hold several."""

    def state_dict(self) -> StateDict:
        """Return nested dicts, lists and tuples of tensors and plain values."""

    def load_state_dict(self, state: StateDict, /) -> object:
        """Take such a value back."""


def write_state(path: Path, value: Any) -> str:
    """Write a nested value of dicts, lists, tuples, tensors and plain values; returns its SHA-256.

    The file is on the disk when this returns, and only its owner may read it.
    """
    tensors: dict[str, Tensor] = {}
    facts = {"format": STATE_FORMAT, "value": _plain(value, tensors)}
    data = pack(facts, tensors)
    note(path.name, data)
    write_durably(path, data)
    return hashlib.sha256(data).hexdigest()


def read_state(path: Path, checksum: str) -> Any:
    """Return what :func:`write_state` wrote and returned the SHA-256 of; tensors are on the CPU.

    Raises
    ------
    FileFormatError
        If the file is missing or not the one with this SHA-256.
    """
    size_of(path, "state", MAX_STATE_BYTES)
    damaged = FileFormatError(f"{path} is damaged: it does not agree with its checksum.")
    if sha256(path) != checksum:
        raise damaged
    facts, tensors = read_tensors(
        path,
        "state",
        format=STATE_FORMAT,
        max_bytes=MAX_STATE_BYTES,
        max_tensors=MAX_STATE_TENSORS,
    )
    try:
        return _nest(facts["value"], tensors)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None


def write_durably(path: Path, data: bytes) -> None:
    """Write bytes to a file, whole or not at all, on the disk when this returns; mode 0600."""
    temporary = path.with_name(path.name + ".tmp")
    with writing(path):
        temporary.unlink(
            missing_ok=True
        )  # of a crash; then a new file, never one that a link names
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
        fsync_folder(path.parent)


def _plain(value: Any, tensors: dict[str, Tensor], depth: int = 0) -> Any:
    """Return the value as JSON; its tensors are moved to ``tensors``."""
    if depth > MAX_DEPTH:
        raise TypeError("a state is nested too deeply")
    value = native(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}  # JSON has no such numbers
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.array(value, order="C"))
    if isinstance(value, Tensor):
        name = f"t{len(tensors)}"
        # A copy of its own: safetensors refuses views that share memory.
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(value, dict):
        if not all(isinstance(key, str | int) for key in value):
            raise TypeError("the keys of a state are texts or whole numbers")
        return {"dict": [[k, _plain(v, tensors, depth + 1)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_plain(v, tensors, depth + 1) for v in value]}
    raise TypeError(f"a state holds tensors and plain values, not {type(value).__name__}")


def _nest(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Invert :func:`_plain`."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "float":
        return float(content)
    if kind == "dict":
        return {k: _nest(v, tensors) for k, v in content}
    parts = [_nest(v, tensors) for v in content]
    return {"list": parts, "tuple": tuple(parts)}[kind]


class StateFiles:
    """The state files of a checkpoint, by kind and name.

    Attributes
    ----------
    path : Path
        The folder.
    journal : Journal
        The index says up to where it was written.
    """

    path: Path
    journal: Journal
    _index: JsonObject

    def _find(self, kind: str, name: str) -> JsonObject | None:
        for item in self._index["kept"]:
            if (item["kind"], item["name"]) == (kind, name):
                return dict(item)
        return None

    def _keep(self, kind: str, name: str, value: Any, done: int, **changes: Any) -> None:
        """Write a new file, then the index that lists it, with other ``changes``; then remove the file that it replaces."""
        self.journal.check_process()
        file = f"state-{self._index['next']}.safetensors"
        self._index["next"] += 1
        item = {"kind": kind, "name": name, "file": file, "done": done}
        item["sha256"] = write_state(self.path / file, value)
        before = self._find(kind, name)
        files = list(self._index["kept"])
        if before is None:
            files.append(item)
        else:
            files[files.index(before)] = item
        self._index |= {"kept": files, **changes}
        self._write_index()
        if before is not None:
            self._drop([before["file"]])

    def _drop(self, files: Sequence[str]) -> None:
        self.journal.check_process()
        for file in files:
            (self.path / file).unlink(missing_ok=True)

    def _write_index(self) -> None:
        self.journal.check_process()
        write_index(self.path / INDEX, {**self._index, "chain": self.journal.chain})


MODEL = "model.tabsynth"
OURS = re.compile(rf"{STATE_FILE.pattern}(\.tmp)?")
EVERY = 10.0  # seconds from one state to the next at most …
COST = 0.02  # … and as often as takes this share of the time


class LostRelease(Exception):
    """A release was paid, and a crash came before its result was kept: the fit needs a new plan."""


class Checkpoint(StateFiles):
    """A folder in which a fit keeps how far it came; open for one process at a time.

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
        What the fit set out to spend, JSON-ready; kept, so that the resumed fit uses the same noise.

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

    def _begin(self, fit: JsonObject) -> None:
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
        if not self.is_finished:
            self._index["resumes"] += 1
            self._write_index()
        self._went_on = True
        self._close_others()

    def _close_others(self) -> None:
        """Close what a plan that was given up, or a fit that has ended, left open in the journal."""
        keep = {EARLIER} if self.is_finished else {EARLIER, self.run}
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
        """The runs of this fit: those whose plans were given up, and :attr:`run`."""
        return [*self._index.get("given_up", []), self.run]

    @property
    def resumes(self) -> int:
        """The number of times that the fit was resumed."""
        return int(self._index["resumes"])

    @property
    def plan(self) -> list[JsonObject] | None:
        """The planned mechanisms, JSON-ready; None before :meth:`begin`."""
        return self._index["plan"]

    @property
    def is_seeded(self) -> bool:
        """True if any part of the fit was seeded."""
        return bool(self._index["seeded"])

    @property
    def is_finished(self) -> bool:
        """True if the fit is complete: then only its model is left."""
        return self._index["model"] is not None

    def ledger(self) -> Ledger:
        """Return the ledger as the journal has it: all that was reserved counts as spent."""
        before = [] if self._own else self._earlier  # else the journal has it
        return Ledger.from_list(
            *self._limit, before, journal=self.journal, run=self.run, given_up=self.runs
        )

    def schema(self) -> JsonObject | None:
        """Return the schema that this fit has drafted, as a schema file has it; None if it has drafted none."""
        entry = self._find(SCHEMA, SCHEMA)
        if entry is None:
            return None
        return dict(json.loads(read_state(self.path / entry["file"], entry["sha256"])["json"]))

    def keep_schema(self, schema: Mapping[str, Any]) -> None:
        """Keep the schema that this fit has drafted, and end the run that has drafted it, in one write.

        What follows is another run, planned after it.
        """
        text = {"json": json.dumps(schema)}
        runs = {"given_up": self.runs, "run": new_name(), "plan": None}
        self._keep(SCHEMA, SCHEMA, text, 1, **runs)
        self._close_others()

    @property
    def has_charges(self) -> bool:
        """True if anything was charged, or granted, to the present run."""
        return any(entry.run == self.run for entry in self.journal.entries.values())

    def begin(self, plan: list[JsonObject] | None, *, seeded: bool) -> None:
        """Record the plan (None of a draft), and whether this part of the fit is seeded, before the first account."""
        self._index["plan"] = plan
        self._index["seeded"] = self.is_seeded or seeded
        self._write_index()

    def start_over(self) -> None:
        """Abandon the plan: its charges stay, its results are deleted, and a new plan may begin.

        A schema that the fit has drafted is kept: it was charged to a run of its own.
        """
        files = [item for item in self._index["kept"] if item["kind"] == SCHEMA]
        dropped = [item["file"] for item in self._index["kept"] if item not in files]
        self._index["given_up"] = self.runs
        self._index |= {"run": new_name(), "plan": None, "kept": files}
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
        """Return the finished model's file."""
        path = self.path / MODEL
        if sha256(path) != self._index["model"]:
            raise FileFormatError(f"{path} is not the model that the fit ended with.")
        return path

    def release(self) -> None:
        """Unlock the journal; a project's ledger is unlocked by its owner."""
        if self._own:
            self.journal.release()

    # One-shot releases and stages.

    def once(
        self, name: str, compute: Callable[[], Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Return the results of a release that is charged once: computed now, or as an earlier process kept them.

        Raises
        ------
        LostRelease
            If it was charged and a crash came before the results were kept.
        """
        entry = self._find("once", name)
        if entry is not None:
            state = read_state(self.path / entry["file"], entry["sha256"])
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
        entry = self._find("stage", stage)
        if entry is None:
            return 0
        file = self.path / entry["file"]
        try:
            state.load_state_dict(read_state(file, entry["sha256"]))
        except FileFormatError:
            raise
        except (KeyError, ValueError, TypeError, RuntimeError, AttributeError, IndexError):
            raise FileFormatError(
                f"Stage {stage!r} of checkpoint {self.path} does not fit this version of tabsynth; use"
                " the one that wrote it."
            ) from None
        return int(entry["done"])

    def is_followed(self, stage: str) -> bool:
        """Return whether a later stage has begun: then this one is not taken up again."""
        names = [item["name"] for item in self._index["kept"] if item["kind"] == "stage"]
        return stage in names[:-1]

    def due(self) -> bool:
        """Return whether it is time to save; never in a recorded run, which must not depend on the clock."""
        return recorder() is None and time.monotonic() >= self._next_save

    def save(self, stage: str, done: int, state: Stateful) -> None:
        """Keep the state of a stage after ``done`` steps; on the disk when this returns."""
        started = time.monotonic()
        self._keep("stage", stage, state.state_dict(), done)
        ended = time.monotonic()
        self._next_save = ended + min(self.every, (ended - started) / COST)
