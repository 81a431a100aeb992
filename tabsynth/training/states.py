"""States of a training as files: tensors as safetensors, all else as JSON in the header. No pickle."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from tabsynth._files import fsync_folder
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.recording import note

MAX_STATE_BYTES = 8 * 2**30
MAX_DEPTH = 50


class Stateful(Protocol):
    """What can be saved and set back: modules, optimisers, and objects that hold several."""

    def state_dict(self) -> dict[str, Any]:
        """Nested dicts, lists and tuples of tensors and plain values."""

    def load_state_dict(self, state: dict[str, Any], /) -> Any:
        """Take such a value back."""


def write_state(path: Path, value: Any) -> str:
    """Write a nested value of dicts, lists, tuples, tensors and plain values; returns its SHA-256.

    The file is on the disk when this returns, and only its owner may read it.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_plain(value, tensors))
    data = safetensors.torch.save(tensors, metadata={"tabsynth": text})
    note(path.name, data)
    write_durably(path, data)
    return hashlib.sha256(data).hexdigest()


def read_state(path: Path, sha256: str) -> Any:
    """What :func:`write_state` wrote, tensors on the CPU.

    Raises
    ------
    FileFormatError
        If the file is missing or not the one with this SHA-256.
    """
    damaged = FileFormatError(f"{path} is damaged: it does not agree with its checksum.")
    try:
        if path.stat().st_size > MAX_STATE_BYTES:
            raise damaged
        data = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"Cannot read state {path}: {error.strerror}.") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise damaged
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        tensors = safetensors.torch.load(data)
        return _nested(json.loads(header["__metadata__"]["tabsynth"]), tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None


def write_durably(path: Path, data: bytes) -> None:
    """Bytes to a file, whole or not at all, on the disk when this returns; mode 0600."""
    temporary = path.with_name(path.name + ".tmp")
    try:
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
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from None


def _plain(value: Any, tensors: dict[str, Tensor], depth: int = 0) -> Any:
    """The value as JSON; its tensors are moved to ``tensors``."""
    if depth > MAX_DEPTH:
        raise TypeError("a state is nested too deeply")
    if isinstance(value, np.generic):
        value = value.item()
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


def _nested(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Inverse of :func:`_plain`."""
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "tensor":
        return tensors[held]
    if kind == "dict":
        return {k: _nested(v, tensors) for k, v in held}
    parts = [_nested(v, tensors) for v in held]
    return {"list": parts, "tuple": tuple(parts)}[kind]
