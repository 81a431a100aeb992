"""The dtypes of pandas that columns declare, by what their values are."""

import re
from typing import Any

import numpy as np
import pandas as pd

from tabsynth.errors import InputError


def base_dtype(dtype: str) -> str:
    """Return ``"int"``, ``"float"``, ``"bool"``, ``"text"``, ``"category"``, ``"datetime"``, ``"timedelta"``, ``"period"``.

    ``"unsupported"`` for every other pandas dtype name.
    """
    name = dtype.lower()
    if re.match(r"u?int(\d|$)", name):  # and no interval
        return "int"
    if name.startswith(("float", "double")):
        return "float"
    if name.startswith("bool"):
        return "bool"
    if name == "category":
        return "category"
    if name in ("str", "string", "object"):
        return "text"
    if name.startswith(("datetime64", "timedelta64")):
        return name[: name.index("64")]
    return "period" if name.startswith("period[") else "unsupported"


def in_dtype(values: pd.Series, dtype: object) -> pd.Series:
    """Return values of dtype object in another one. pandas 2 has no dtype of texts, and writes missing ones as ``"None"``."""
    converted = values.astype(dtype)
    if dtype == "str" and converted.dtype == object:
        converted = converted.where(values.notna(), None)
    return converted


def with_nulls(dtype: str) -> str:
    """Return the dtype of the same values that holds missing ones, too."""
    if re.fullmatch(r"u?int\d+", dtype):
        return dtype.replace("int", "Int").replace("uI", "UI")
    return "boolean" if dtype == "bool" else dtype


def check_range(dtype: str, where: str, low: Any, high: Any) -> None:
    """Raise InputError for values between ``low`` and ``high`` that a dtype of whole numbers cannot hold."""
    match = re.match(r"(u?)int(\d+)", dtype.lower())
    if match is None:
        return
    limits = np.iinfo(match[0])
    if low < limits.min or high > limits.max:
        raise InputError(
            f"{where}: dtype {dtype} holds [{limits.min}, {limits.max}], and its values"
            f" are declared in [{low}, {high}]; use a wider dtype."
        )
