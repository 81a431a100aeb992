"""One file a model: weights as safetensors, the rest as JSON in its header. No pickle.

What is in it: the schema, the configuration, the certificate's facts, the generator's weights. What
is not: private rows, RNG states, seeds, the critic.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tabsynth._files import replacing
from tabsynth._tensors import MAX_HEADER_BYTES, packed, read_tensors
from tabsynth._validate import native
from tabsynth.errors import FileFormatError, InputError

FORMAT = "tabsynth-model/1"
MAX_FILE_BYTES = 512 * 2**20
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
    text = json.dumps({"format": FORMAT, **facts}, allow_nan=False, default=json_default)
    data = packed(json.loads(text), tensors)
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def json_default(value: Any) -> Any:
    """Convert a numpy number of a configuration for ``json.dumps(default=)``; raise TypeError for other types."""
    number = native(value)
    if number is value:
        raise TypeError(f"{type(value).__name__} has no JSON")
    return number


def read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Facts and weights of a model file.

    Raises
    ------
    FileFormatError
        If the file is missing, damaged, not a model, or of another format version.
    """
    facts, weights = read_tensors(
        Path(path),
        "model",
        format=FORMAT,
        max_bytes=MAX_FILE_BYTES,
        max_tensors=MAX_TENSORS,
        dtypes=DTYPES,
    )
    if not all(torch.isfinite(t).all() for t in weights.values()):
        raise FileFormatError(f"{path} holds weights that are not finite; it is damaged.")
    return facts, weights
