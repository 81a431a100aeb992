"""The files of a fit that a replay looks into: its checkpoint, and the ledger of a project.

Names of runs and the time are those of the recorder (:mod:`tabsynth.privacy.ledger.ledger`), so that nothing in
them may differ, the chain of the ledger's lines included.
"""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.training import checkpoint as index

CHECKPOINT, LEDGER = "checkpoint", "project.ledger"
LEDGERS = (LEDGER, index.LEDGER)
Note = Callable[[str, Any], None]


def make_files(model: Synthesizer, place: Path) -> dict[str, Any]:
    """What :meth:`Synthesizer.fit` takes, in a folder that is made anew: in a replay at the same path.

    A warm start is on no ledger of the replay's, so a fit from one keeps its accounts in its checkpoint.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    files: dict[str, Any] = {"checkpoint": place / CHECKPOINT}
    if getattr(model, "warm_start", None) is None:
        files["ledger"] = place / LEDGER
        ProjectLedger.create(files["ledger"], epsilon=math.inf, delta=model.delta)
    return files


def note_files(place: Path, note: Note) -> None:
    """All that the folder holds: lines and lists by their parts, so that what differs has a name; and bytes."""
    found = sorted(path for path in place.rglob("*") if path.is_file())
    note("files", [str(path.relative_to(place)) for path in found])
    # Ledgers first: their chain is in the model and in the checkpoint's list.
    for path in sorted(found, key=lambda path: path.name not in LEDGERS):
        data, parts = path.read_bytes(), None
        if path.name in LEDGERS:
            parts = [_line(line) for line in data.splitlines()]
        elif path.suffix == ".json":
            parts = json.loads(data)
        note(path.name, [parts, data])


def fit_with_files(
    fresh: Callable[[], Synthesizer],
    table: Any,
    place: Path,
    note: Note,
    *,
    interrupted: int | None,
    look: Callable[[Synthesizer], None],
) -> None:
    """Fit with a checkpoint and on a ledger; ``look`` at the model, and note what the files hold.

    With ``interrupted``, Ctrl-C comes after so many reports of progress. What is left is looked at, and
    another object goes on.
    """
    told = 0

    def progress(*report: Any) -> None:
        nonlocal told
        note("progress", report)
        told += 1
        if told == interrupted:
            raise KeyboardInterrupt

    model = fresh()
    files = make_files(model, place)
    try:
        model.fit(table, progress=progress, **files)
    except KeyboardInterrupt:
        if interrupted is None or told < interrupted:  # another's
            raise
        note_files(place, note)
        look(model)
        model = fresh().fit(table, progress=progress, **files)
    note_files(place, note)
    look(model)


def _line(line: bytes) -> dict[str, Any]:
    """A line of a ledger without its chain, which hangs on all the rest."""
    return {name: value for name, value in json.loads(line).items() if name != "chain"}
