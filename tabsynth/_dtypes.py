"""Names of pandas dtypes: what they hold, and which of them tables of this library can have."""

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.errors import InputError


def base_dtype(dtype: str) -> str:
    """``"int"``, ``"float"``, ``"bool"``, ``"text"`` or ``"category"`` for a pandas dtype name."""
    name = dtype.lower()
    if name.startswith(("int", "uint")):
        return "int"
    if name.startswith(("float", "double")):
        return "float"
    if name.startswith("bool"):
        return "bool"
    if name == "category":
        return "category"
    if name in ("str", "string", "object"):
        return "text"
    return "unsupported"


def check_dtype(dtype: Any, where: str) -> None:
    """Refuse a dtype that tables of this library cannot have."""
    if not isinstance(dtype, str) or len(dtype) > 40 or base_dtype(dtype) == "unsupported":
        raise InputError(
            f"{where}: dtype {shown(str(dtype))} is not supported; use text, whole numbers, reals,"
            " bool or category (turn a date into a year, or into text)."
        )
    if not _known_to_pandas(dtype):
        raise InputError(f"{where}: pandas knows no dtype {shown(dtype)}.")


def check_range(dtype: str, where: str, low: Any, high: Any) -> None:
    """Refuse values between ``low`` and ``high`` that a dtype of whole numbers cannot hold."""
    match = re.match(r"(u?)int(\d+)", dtype.lower())
    if match is None:
        return
    limits = np.iinfo(match[0])
    if low < limits.min or high > limits.max:
        raise InputError(
            f"{where}: dtype {dtype} holds [{limits.min}, {limits.max}], and its values"
            f" are declared in [{low}, {high}]; use a wider dtype."
        )


@lru_cache(maxsize=256)
def _known_to_pandas(dtype: str) -> bool:
    try:
        pd.Series([], dtype=dtype)
    except TypeError:
        return False
    return True
