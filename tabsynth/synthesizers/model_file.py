"""One file a model: weights as safetensors, the rest as JSON in its header. No pickle.

What is in it: the schema, the configuration, the certificate's facts, the generator's weights. What
is not: private rows, RNG states, seeds, the critic.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tabsynth._files import parse_json, replacing, size_of
from tabsynth._validate import shown
from tabsynth.errors import FileFormatError, InputError

FORMAT = "tabsynth-model/1"
MAX_FILE_BYTES = 512 * 2**20
MAX_HEADER_BYTES = 32 * 2**20  # the facts in it are JSON within JSON
MAX_TENSORS = 1_000
DTYPES = ("F32", "F64", "I64")


def write_model(path: str | Path, facts: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Write facts (JSON-ready) and weights, whole or not at all."""
    if not all(torch.isfinite(t).all() for t in weights.values()):
        raise InputError(
            f"The model's weights are not finite, so {path} was not written: its training diverged;"
            " fit again with lower learning rates."
        )
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    if sum(t.nbytes for t in tensors.values()) > MAX_FILE_BYTES - MAX_HEADER_BYTES:
        raise InputError(
            f"The model's weights take more than {MAX_FILE_BYTES - MAX_HEADER_BYTES:,} bytes, so {path}"
            " was not written: no reader takes it; fit with fewer or narrower layers."
        )
    text = json.dumps({"format": FORMAT, **facts}, allow_nan=False, default=plain)
    signed = json.dumps({**json.loads(text), "sha256": _digest(text, tensors)})
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"tabsynth": signed})


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of facts and weights, so that damage shows; it is no signature."""
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(np.ascontiguousarray(tensors[name].numpy()).data)
    return found.hexdigest()


def plain(value: Any) -> Any:
    """A number of numpy's, from a configuration, as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON")


def read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Facts and weights of a model file.

    Raises
    ------
    FileFormatError
        If the file is missing, damaged, not a model, or of another format version.
    """
    file = Path(path)
    damaged = FileFormatError(f"{file} is not a tabsynth model, or it is damaged.")
    size = size_of(file, "model", MAX_FILE_BYTES)
    try:
        with open(file, "rb") as raw:
            header = int.from_bytes(raw.read(8), "little")
        if header > min(MAX_HEADER_BYTES, size):
            raise damaged
        with safe_open(file, framework="pt") as opened:
            facts = _facts(opened.metadata() or {}, file)
            names = list(opened.keys())
            if len(names) > MAX_TENSORS:
                raise damaged
            if any(opened.get_slice(name).get_dtype() not in DTYPES for name in names):
                raise damaged
            weights = {name: opened.get_tensor(name) for name in names}
    except FileFormatError:
        raise
    except (SafetensorError, OSError, ValueError):
        raise damaged from None
    if facts.pop("sha256", None) != _digest(json.dumps(facts), weights):
        raise FileFormatError(f"{file} is damaged: it does not agree with its own checksum.")
    if not all(torch.isfinite(t).all() for t in weights.values()):
        raise FileFormatError(f"{file} holds weights that are not finite; it is damaged.")
    return facts, weights


def _facts(metadata: dict[str, str], file: Path) -> dict[str, Any]:
    """What the header says besides the weights; refuses another format, or version."""
    text = metadata.get("tabsynth")
    if text is None:
        raise FileFormatError(f"{file} holds weights, but is not a tabsynth model.")
    facts = parse_json(text, file, "tabsynth model")
    found = facts.get("format") if isinstance(facts, dict) else None
    if found != FORMAT:
        raise FileFormatError(
            f"{file} has model format {shown(found)}, this version reads {FORMAT!r}; use the"
            " version of tabsynth that wrote it."
        )
    return dict(facts)
