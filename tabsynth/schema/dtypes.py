"""Names of pandas dtypes, and single values: what a column of any kind needs to know of them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

Value = str | int | float | bool


def base_dtype(dtype: str) -> str:
    """``"int"``, ``"float"``, ``"bool"``, ``"text"``, ``"category"``, ``"datetime"``, ``"timedelta"``, ``"period"``.

    ``"unsupported"`` for every other pandas dtype name.
    """
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
    if name.startswith(("datetime64", "timedelta64")):
        return name[: name.index("64")]
    return "period" if name.startswith("period[") else "unsupported"


def plain(value: Any) -> Any:
    """Return a cell's value in Python's own type, with None for NaN and ``pd.NA``."""
    if isinstance(value, np.generic):
        value = value.item()
    nan = isinstance(value, float) and math.isnan(value)
    return None if value is pd.NA or nan else value


def is_range(value: Any) -> bool:
    """Whether a value of a condition is a range ``{"low": a, "high": b}``."""
    return isinstance(value, Mapping) and set(value) == {"low", "high"}


def range_ends(value: Mapping[str, Any]) -> tuple[Any, Any]:
    """Both ends of a range, in Python's own types."""
    return plain(value["low"]), plain(value["high"])


def is_null(value: Any) -> bool:
    """Whether a scalar stands for a missing value."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))
