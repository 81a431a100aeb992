"""JSON-ready values: one conversion for results, audits and models."""

import json
import math

import numpy as np

from tabsynth._files import json_ready
from tabsynth._validate import native


class Named:
    def to_dict(self):
        return {"x": np.float32(0.5)}


def test_nested_values_become_json() -> None:
    value = {
        1: (np.int64(3), np.bool_(True), None),
        "inner": [Named(), np.array([1.5, math.nan])],
        "other": complex(1, 2),
    }
    ready = json_ready(value)
    assert ready == {"1": [3, True, None], "inner": [{"x": 0.5}, [1.5, None]], "other": "(1+2j)"}
    assert json.loads(json.dumps(ready, allow_nan=False)) == ready


def test_numbers_that_json_lacks() -> None:
    values = [math.inf, -math.inf, np.float64("nan")]
    assert json_ready(values) == [None] * 3
    assert json_ready(values, not_finite=str) == ["inf", "-inf", "nan"]


def test_native_numbers() -> None:
    assert type(native(np.int32(4))) is int and type(native(np.float32(0.5))) is float
    assert type(native(np.bool_(True))) is bool and type(native(np.str_("a"))) is str
    text = "a"
    assert native(text) is text
