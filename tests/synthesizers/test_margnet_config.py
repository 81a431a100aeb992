"""Every invalid setting of MargNet is rejected in one line that names the field, its value and the remedy."""

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from tabsynth import MargNetConfig
from tabsynth.errors import InputError

COUNTS = ("latent_dim", "steps", "patience", "zero_steps", "max_cells", "memory", "components")
COUNTS_FROM_0 = ("max_unscored", "max_triples")
SHARES = ("smoothing", "min_entropy", "max_merged", "max_merged_in_triples", "max_group")
SHARES_BELOW_1 = ("max_one_way_share", "triples_share", "min_improvement")
SHARES_ABOVE_0 = ("short_steps", "learning_rate", "zero_rate", "counts_time")
BUDGET_SHARES = ("one_way_share", "scores_share")
FROM_0 = (
    "stop", "continuation", "entropy", "score_margin", "residual_noise", "strong_dependence",
    "strong_margin", "triples_noise", "rows_tolerance",
)  # fmt: skip
ABOVE_0 = (
    "clear_dependence", "noisy_dependence", "group_noise", "one_way_noise", "strong_refinement",
    "workload_weight", "zero_std",
)  # fmt: skip
GROUPS = {
    COUNTS: ((0, -1), ">= 1"),
    COUNTS_FROM_0: ((-1,), ">= 0"),
    SHARES: ((-0.1, 1.1, math.inf), "[0, 1]"),
    SHARES_BELOW_1: ((-0.1, 1, math.inf), "[0, 1)"),
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
    assert f"Expected {name} " in text
    assert remedy in text
    assert repr(value) in text


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["1", True, math.nan, [1]])
def test_values_that_are_no_numbers_are_rejected(name: str, value: Any) -> None:
    text = error_of(name, value)
    assert f"Expected {name} to be" in text
    assert repr(value) in text


@pytest.mark.parametrize("name", [*COUNTS, *COUNTS_FROM_0])
def test_counts_are_whole_numbers(name: str) -> None:
    text = error_of(name, 2.5)
    assert name in text
    assert "2.5" in text


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("bumps", 0.01, "tuple"),
        ("bumps", (0.0,), "(0, 1]"),
        ("bumps", (0.5, 1.5), "(0, 1]"),
        ("bumps", ("0.5",), "number"),
        ("smoothing_range", 0.1, "tuple"),
        ("smoothing_range", (0.1,), "two numbers"),
        ("smoothing_range", (0.1, 0.2, 0.3), "two numbers"),
        ("smoothing_range", (-0.1, 0.2), "[0, inf]"),
        ("hidden", 128, "width"),
        ("hidden", (0,), "hidden"),
    ],
)
def test_tuples_are_checked_as_a_whole_and_by_item(name: str, value: Any, remedy: str) -> None:
    text = error_of(name, value)
    assert name in text
    assert remedy in text
    wrong = value if not isinstance(value, tuple) or "two" in remedy else None
    assert wrong is None or repr(wrong) in text


@pytest.mark.parametrize(
    "changes",
    [
        {"components": None},
        {"max_unscored": 0, "max_triples": 0},
        {"bumps": (), "smoothing_range": (0, math.inf)},
        *({name: value} for name in SHARES for value in (0, 1)),
        *({name: 0} for name in (*SHARES_BELOW_1, *FROM_0)),
        *({name: 1} for name in SHARES_ABOVE_0),
        {"steps": np.int64(3), "entropy": np.float64(0.5)},
    ],
)
def test_ends_of_the_ranges_and_numpy_numbers_are_accepted(changes: dict[str, Any]) -> None:
    config = MargNetConfig(**changes)
    assert all(getattr(config, name) == value for name, value in changes.items())


def test_every_field_is_checked() -> None:
    assert {field.name for field in fields(MargNetConfig)} == {
        *NUMBERS, "bumps", "smoothing_range", "hidden"
    }  # fmt: skip
