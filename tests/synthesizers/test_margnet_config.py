"""Every invalid setting of MargNet is rejected in one line that names the field, its value and the remedy."""

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from tabsynth.errors import InputError
from tabsynth.synthesizers import MargNetConfig

COUNTS = ("latent_dim", "steps", "max_cells", "memory", "components")
COUNTS_FROM_0 = ("max_unscored",)
SHARES = ("smoothing", "prior_share")
SHARES_BELOW_1 = ("triples_share",)
SHARES_BELOW_A_THIRD = ("interactions_share",)
SHARES_WITHIN = ("tables_share",)
SHARES_ABOVE_0 = ("learning_rate",)
BUDGET_SHARES = ("one_way_share", "scores_share")
FROM_0 = ("residual_noise", "interaction_noise")
ABOVE_0 = ("group_noise", "largest_drift")
GROUPS = {
    COUNTS: ((0, -1), ">= 1"),
    COUNTS_FROM_0: ((-1,), ">= 0"),
    SHARES: ((-0.1, 1.1, math.inf), "[0, 1]"),
    SHARES_BELOW_1: ((-0.1, 1, math.inf), "[0, 1)"),
    SHARES_BELOW_A_THIRD: ((-0.1, 0.3, math.inf), "[0, 0.3)"),
    SHARES_WITHIN: ((0, 1, -0.1, math.inf), "(0, 1)"),
    SHARES_ABOVE_0: ((0, -0.1, 1.1), "(0, 1]"),
    BUDGET_SHARES: ((0, 0.5, -0.1), "(0, 0.5)"),
    FROM_0: ((-1, math.inf), "[0, inf)"),
    ABOVE_0: ((0, -1, math.inf), "(0, inf)"),
}
OUTSIDE = [
    (name, value, remedy)
    for names, (values, remedy) in GROUPS.items()
    for name in names
    for value in values
]
OUTSIDE += [(name, 2.5, "whole") for name in (*COUNTS, *COUNTS_FROM_0)]
OUTSIDE += [("hidden", 128, "width"), ("hidden", (0,), "hidden")]
NUMBERS = [name for names in GROUPS for name in names]


def error_of(name: str, value: Any) -> str:
    with pytest.raises(InputError) as caught:
        MargNetConfig(**{name: value})
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(("name", "value", "remedy"), OUTSIDE)
def test_numbers_outside_their_range_are_rejected(name: str, value: float, remedy: str) -> None:
    text = error_of(name, value)
    assert name in text and remedy in text
    assert name == "hidden" or repr(value) in text


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["1", True, math.nan, [1]])
def test_values_that_are_no_numbers_are_rejected(name: str, value: Any) -> None:
    text = error_of(name, value)
    assert f"Expected {name} to be" in text
    assert repr(value) in text


@pytest.mark.parametrize(
    "changes",
    [
        {"components": None},
        {"max_unscored": 0},
        *({name: value} for name in SHARES for value in (0, 1)),
        *({name: 0} for name in (*SHARES_BELOW_1, *FROM_0)),
        *({name: 1} for name in SHARES_ABOVE_0),
        {"steps": np.int64(3), "smoothing": np.float64(0.5)},
    ],
)
def test_ends_of_the_ranges_and_numpy_numbers_are_accepted(changes: dict[str, Any]) -> None:
    config = MargNetConfig(**changes)
    assert all(getattr(config, name) == value for name, value in changes.items())


def test_every_field_is_checked() -> None:
    assert {field.name for field in fields(MargNetConfig)} == {*NUMBERS, "hidden"}
