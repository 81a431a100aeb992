"""What a checkpoint lists: which fit it belongs to, its plan, and its files with their checksums."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabsynth._files import read_json
from tabsynth._validate import shown
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.recording import note
from tabsynth.training.states import write_durably

# A checkpoint of a fit under a project's ledger names that in ``fit``, and has no ledger of its own.
FORMAT = "tabsynth-checkpoint/1"
STATE_FILE = re.compile(r"state-\d{1,18}\.safetensors")
INDEX, LEDGER = "checkpoint.json", "ledger.jsonl"


def write_index(path: Path, index: Mapping[str, Any]) -> None:
    """Write the list with its own checksum, whole or not at all."""
    signed = {**index, "sha256": _digest(index)}
    # The rest are checksums of the ledger and of the model, which are looked at themselves.
    note(path.name, {k: v for k, v in index.items() if k not in ("chain", "model")})
    write_durably(path, json.dumps(signed, indent=1).encode())


def _digest(index: Mapping[str, Any]) -> str:
    held = {k: v for k, v in index.items() if k != "sha256"}
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def read_index(path: Path) -> dict[str, Any]:
    """What :func:`write_index` wrote; refuses damage, and a checkpoint without its ledger."""
    index = read_json(path, "checkpoint")
    found = index.get("format") if isinstance(index, dict) else None
    if found != FORMAT:
        raise FileFormatError(f"{path}: expected format {FORMAT!r}, got {shown(found)}.")
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


def _whole(index: dict[str, Any]) -> bool:
    """Whether all parts are there. The files that it names are read and removed: none may lie outside."""
    kept, plan, given_up = index.get("kept"), index.get("plan"), index.get("given_up", [])
    return (
        _has(index, _PARTS)
        and {"model", "plan"} <= set(index)
        and isinstance(index.get("model"), str | None)
        and (plan is None or (isinstance(plan, list) and all(isinstance(p, dict) for p in plan)))
        and isinstance(given_up, list)
        and all(isinstance(run, str) for run in given_up)
        and isinstance(kept, list)
        and all(_has(item, _OF_FILE) and STATE_FILE.fullmatch(item["file"]) for item in kept)
    )


def _has(item: Any, parts: Mapping[str, type]) -> bool:
    return isinstance(item, dict) and all(
        type(item.get(name)) is kind for name, kind in parts.items()
    )


def make_folder(path: Path) -> None:
    """A folder for the owner alone; refuses one that holds something else, or points elsewhere."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        names = {file.name for file in path.iterdir()}
        links = [name for name in sorted(names) if (path / name).is_symlink()]
    except OSError as error:
        raise InputError(f"Cannot make checkpoint folder {path}: {error.strerror}.") from None
    if links:  # what is written under such a name would change a file somewhere else
        raise FileFormatError(
            f"Checkpoint {path} holds a symbolic link, {shown(links[0])}; remove it."
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
            f"Checkpoint {path} is of another fit: {name} is {shown(there)} there and {shown(here)}"
            " here; fit as it was begun, or name a new folder."
        )


def _difference(there: Any, here: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """The first leaf that differs, by its path."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            inner = f"{name}.{key}" if name else str(key)
            if (key in there) != (key in here):
                return inner, there.get(key), here.get(key)
            found = _difference(there[key], here[key], inner)
            if found is not None:
                return found
        return None
    return None if there == here else (name, there, here)


def standing(path: str | Path) -> list[str]:
    """Where a checkpoint stands, in plain words; nothing if there is none yet.

    Raises
    ------
    InputError
        If there can be none.
    """
    folder = Path(path)
    if not folder.absolute().parent.is_dir() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"Cannot make checkpoint folder {folder}; name a new one.")
    if not (folder / INDEX).exists():
        return []
    index = read_index(folder / INDEX)
    if index["model"] is not None:
        return [f"{path}: this fit has ended; its model is given back, and nothing is spent."]
    done = [
        f"{item['name']}: {item['done']:,} steps"
        for item in index["kept"]
        if item["kind"] == "stage"
    ]
    return [f"{path}: goes on from {', '.join(done) or 'the beginning'}."]
