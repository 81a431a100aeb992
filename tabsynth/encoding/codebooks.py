"""Codebooks of discrete columns, made by category-encoders from the declared domain alone (R12)."""

import re
import warnings
from functools import lru_cache

import category_encoders as ce
import numpy as np
import pandas as pd

from tabsynth._validate import one_of
from tabsynth.encoding.layout import Head
from tabsynth.errors import InputError

SCHEMES = ("one-hot", "ordinal", "binary", "base-4", "base-10")


def codebook(size: int, scheme: str) -> tuple[np.ndarray, Head]:
    """The code of each of ``size`` values, and the head that makes such codes.

    Parameters
    ----------
    size : int
    scheme : {"one-hot", "ordinal", "binary", "base-N"}
        ``ordinal``: one entry, the rank scaled to [0, 1]. ``binary`` and ``base-N``: the digits of
        the rank, each scaled to [0, 1].

    Returns
    -------
    codes : ndarray, shape (size, width), float32 in [0, 1]
        Rows are distinct, so that the nearest row decodes exactly.
    head : {"softmax", "sigmoid"}

    Codebooks are kept and shared, for an encoder is made many times in a fit: do not write to them.
    """
    if not (isinstance(scheme, str) and scheme.startswith("base-")):
        one_of("encoding", scheme, SCHEMES)
    return _codebook(size, scheme, _base(scheme))


@lru_cache(maxsize=64)
def _codebook(size: int, scheme: str, base: int) -> tuple[np.ndarray, Head]:
    if size == 1:
        return np.ones((1, 1), dtype=np.float32), "softmax"
    values = pd.DataFrame({"value": np.arange(size)})
    keep = {"cols": ["value"], "handle_unknown": "error", "handle_missing": "error"}
    with warnings.catch_warnings():
        # category-encoders 2.x still sets a pandas option that pandas 3 calls deprecated.
        warnings.filterwarnings("ignore", message=".*no_silent_downcasting")
        if scheme == "one-hot":
            codes = ce.OneHotEncoder(**keep).fit_transform(values).to_numpy()
            return codes.astype(np.float32), "softmax"
        if scheme == "ordinal":
            ranks = ce.OrdinalEncoder(**keep).fit_transform(values).to_numpy(dtype=float)
            return _scaled(ranks - ranks.min(), size - 1), "sigmoid"
        if scheme == "binary":
            return _scaled(ce.BinaryEncoder(**keep).fit_transform(values).to_numpy(), 1), "sigmoid"
        digits = ce.BaseNEncoder(base=base, **keep).fit_transform(values).to_numpy()
    return _scaled(digits, base - 1), "sigmoid"


def _scaled(digits: np.ndarray, top: int) -> np.ndarray:
    codes = (digits.astype(np.float64) / top).astype(np.float32)
    assert len(np.unique(codes, axis=0)) == len(codes)
    return codes


def _base(scheme: str) -> int:
    """The base of ``base-N``; 2 for the other schemes."""
    if not scheme.startswith("base-"):
        return 2
    text = scheme.removeprefix("base-")
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 2 <= int(text) <= 1_000:
        raise InputError(f"Expected encoding base-N with N in [2, 1000], got {scheme!r}.")
    return int(text)
