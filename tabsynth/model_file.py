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

from tabsynth._files import replacing
from tabsynth._validate import shown
from tabsynth.errors import FileFormatError, InputError

FORMAT = "tabsynth-model/1"
MAX_FILE_BYTES = 2 * 2**30
MAX_HEADER_BYTES = 64 * 2**20


def write_model(path: str | Path, facts: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Write facts (JSON-ready) and weights, whole or not at all."""
    if not all(torch.isfinite(t).all() for t in weights.values()):
        raise InputError(
            f"The model's weights are not finite, so {path} was not written: its training diverged;"
            " fit again with lower learning rates."
        )
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    text = json.dumps({"format": FORMAT, **facts}, allow_nan=False, default=_plain)
    signed = json.dumps({**json.loads(text), "sha256": _digest(text, tensors)})
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"tabsynth": signed})


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of facts and weights, so that damage shows; it is no signature."""
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        found.update(name.encode() + tensors[name].numpy().tobytes())
    return found.hexdigest()


def _plain(value: Any) -> Any:
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
    try:
        size = file.stat().st_size
        with open(file, "rb") as raw:
            header = int.from_bytes(raw.read(8), "little")
    except OSError as error:
        raise FileFormatError(f"Cannot read model {file}: {error.strerror}.") from None
    if size > MAX_FILE_BYTES or header > min(MAX_HEADER_BYTES, size):
        raise FileFormatError(f"{file} is not a tabsynth model, or it is damaged.")
    try:
        with safe_open(file, framework="pt") as opened:
            text = (opened.metadata() or {}).get("tabsynth")
            if text is None:
                raise FileFormatError(f"{file} holds weights, but is not a tabsynth model.")
            facts = json.loads(text)
            found = facts.get("format") if isinstance(facts, dict) else None
            if found != FORMAT:
                raise FileFormatError(
                    f"{file} has model format {shown(found)}, this version reads {FORMAT!r}; use the"
                    " version of tabsynth that wrote it."
                )
            weights = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, RecursionError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{file} is not a tabsynth model, or it is damaged.") from None
    if facts.pop("sha256", None) != _digest(json.dumps(facts), weights):
        raise FileFormatError(f"{file} is damaged: it does not agree with its own checksum.")
    if not all(torch.isfinite(t).all() for t in weights.values() if t.is_floating_point()):
        raise FileFormatError(f"{file} holds weights that are not finite; it is damaged.")
    return facts, weights
