"""The file format of models and of checkpoint states: safetensors, with JSON facts in the header. No pickle."""

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tabsynth._files import parse_json, size_of
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError

MAX_HEADER_BYTES = 32 * 2**20  # the facts in it are JSON within JSON


def pack(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """Return the bytes of a file of tensors.

    Parameters
    ----------
    facts : mapping
        JSON-ready, with the name of the format under ``format``. A checksum over facts and tensors is
        added under ``sha256``: it shows damage, and is no signature.
    tensors : mapping to Tensor
        Contiguous, on the CPU, without shared memory.
    """
    text = json.dumps(facts, allow_nan=False)
    signed = json.dumps({**json.loads(text), "sha256": digest(text, tensors)})
    return safetensors.torch.save(dict(tensors), metadata={"tabsynth": signed})


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of facts, as JSON, and tensors."""
    result = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        result.update(name.encode())
        result.update(np.ascontiguousarray(tensors[name].numpy()).data)
    return result.hexdigest()


def read_tensors(
    path: Path,
    what: str,
    *,
    format: str,
    max_bytes: int,
    max_tensors: int,
    dtypes: Collection[str] | None = None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return facts and tensors of a file that :func:`pack` made; all limits are checked before tensors are read.

    Parameters
    ----------
    what : str
        What the file should be, for error messages, such as ``"model"``.
    format : str
        The format that the facts must name.
    max_bytes, max_tensors : int
        Limits of the file's size and of its number of tensors.
    dtypes : collection of str, optional
        Types that its tensors may have, as safetensors names them; all by default.

    Raises
    ------
    FileFormatError
        If the file is missing, damaged, too large, not such a file, or of another format version.
    """
    damaged = FileFormatError(f"{path} is not a tabsynth {what}, or it is damaged.")
    size = size_of(path, what, max_bytes)
    try:
        with open(path, "rb") as raw:
            header = int.from_bytes(raw.read(8), "little")
        if header > min(MAX_HEADER_BYTES, size):
            raise damaged
        with safe_open(path, framework="pt") as opened:
            facts = _facts(opened.metadata() or {}, path, what, format)
            names = list(opened.keys())
            if len(names) > max_tensors:
                raise damaged
            if dtypes is not None and any(
                opened.get_slice(name).get_dtype() not in dtypes for name in names
            ):
                raise damaged
            tensors = {name: opened.get_tensor(name) for name in names}
    except FileFormatError:
        raise
    except (SafetensorError, OSError, ValueError):
        raise damaged from None
    if facts.pop("sha256", None) != digest(json.dumps(facts), tensors):
        raise FileFormatError(f"{path} is damaged: it does not agree with its own checksum.")
    return facts, tensors


def _facts(metadata: Mapping[str, str], path: Path, what: str, format: str) -> dict[str, Any]:
    """Return the facts of the header besides the tensors, and refuse another format or version."""
    text = metadata.get("tabsynth")
    if text is None:
        raise FileFormatError(f"{path} holds weights, but is not a tabsynth {what}.")
    facts = parse_json(text, path, f"tabsynth {what}")
    stated = facts.get("format") if isinstance(facts, dict) else None
    if stated != format:
        raise FileFormatError(
            f"{path} has {what} format {quote(stated)}, this version reads {format!r}; use the"
            " version of tabsynth that wrote it."
        )
    return dict(facts)
