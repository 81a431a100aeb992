"""Any value as a list of named leaves, so that of two values the first thing that differs has a name."""

import types
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
import torch

Leaf = tuple[str, str]  # where it is, and what: a short text, or a digest of bytes

SHOWN = 60  # characters of a leaf in a message
# Where a module keeps its parts: no part of a name.
_INNER = ("_parameters", "_buffers", "_modules")
_DATED = ("created",)  # of a certificate: the clock is public


def leaves(value: Any, path: str = "") -> list[Leaf]:
    """The leaves of nested dicts, lists, arrays, tensors, frames, modules and plain objects, in order."""
    return list(_walk(value, path, ()))


def difference(one: list[Leaf], other: list[Leaf]) -> str | None:
    """The first leaf that differs, in words; None where all are the same."""
    for (path, text), (name, found) in zip(one, other, strict=False):
        if path != name:
            return f"{name or 'a value'} stands where {path or 'a value'} did"
        if text != found:
            return f"{path or 'the value'} is {_cut(found)}, not {_cut(text)}"
    if len(one) != len(other):
        extra, verb = (one, "is missing") if len(one) > len(other) else (other, "is new")
        return f"{extra[min(len(one), len(other))][0] or 'a value'} {verb}"
    return None


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def _walk(value: Any, path: str, above: tuple[int, ...]) -> Iterator[Leaf]:
    text = _plain(value)
    if text is not None:
        yield path, text
        return
    if id(value) in above:
        yield path, "itself"
        return
    above = (*above, id(value))
    if isinstance(value, pd.DataFrame):
        yield from _walk(dict(value.attrs), _join(path, "attrs"), above)
        for name in value.columns:
            yield _join(path, str(name)), _column(value[name])
        return
    if isinstance(value, list | tuple):
        parts: Any = ((f"[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, Mapping):
        parts = ((str(name), part) for name, part in value.items())
    else:
        yield path, type(value).__qualname__
        parts = _attributes(value)
    for name, part in parts:
        if name not in _DATED:
            yield from _walk(part, path if name in _INNER else _join(path, name), above)


def _plain(value: Any) -> str | None:
    """The text of a leaf; None of what has parts."""
    if value is None or isinstance(value, bool | int | float | complex | str | np.generic):
        return repr(value)
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes {_digest(value)}"
    if isinstance(value, np.ndarray):
        data = repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes()
        return f"{value.dtype} {value.shape} {_digest(data)}"
    if isinstance(value, torch.Tensor):
        array = value.detach().cpu().contiguous().numpy()
        return f"{array.dtype} {array.shape} {_digest(array.tobytes())}"
    if isinstance(value, pd.Series | pd.Index):
        return _column(value)
    if isinstance(value, torch.Generator):
        return f"generator {_digest(value.get_state().numpy().tobytes())}"
    if isinstance(value, np.random.Generator):
        return f"generator {_digest(repr(value.bit_generator.state).encode())}"
    if isinstance(value, set | frozenset):
        return repr(sorted(map(repr, value)))
    if isinstance(value, type | types.FunctionType | types.MethodType | types.ModuleType):
        return getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if isinstance(value, torch.device | torch.dtype | np.dtype):
        return str(value)
    return None


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)


def _column(values: Any) -> str:
    cells = repr(np.asarray(values, dtype=object).tolist()).encode()
    return f"{values.dtype} {len(values)} {_digest(cells)}"


def _digest(data: Any) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def _join(path: str, name: str) -> str:
    return f"{path}{name}" if not path or name.startswith("[") else f"{path}.{name}"
