"""Whatever a draft releases of a column, a column follows from it, or a reason why the column is left out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabsynth import Schema, draft_private
from tabsynth.drafting.formats import FORMAT_NAMES, NUMBER, distinct
from tabsynth.drafting.released_columns import Rest, TextDraft
from tabsynth.drafting.released_lines import LineDraft
from tabsynth.drafting.released_numbers import draft_of
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.column import Column

DTYPES = (
    NUMBER, "str", "object", "category", "bool", "boolean", "int8", "uint8", "int64", "Int64", "uint64", "UInt16",
    "float32", "float64", "Float64", "datetime64[us]", "datetime64[s]", "datetime64[ns]", "datetime64[ms, UTC]",
    "timedelta64[us]", "timedelta64[s]", "timedelta64[ns]", "period[D]", "period[M]", "period[Y]", "period[h]",
)  # fmt: skip


POINTS = (
    "0", "1", "-7", "99", "2.5", "1e9", "-3e14", "8e18", "1,5", "", "other", "True", "2020-01-31", "9999-12-31", "1899-12-30",
    "31.12.2020", "2020-01-31 08:30:00", "08:30", "2 days", "-400 days", 0, 1, 17, 2.5, 1e300, True, None,
)  # fmt: skip
POINTS_OF = {
    "datetime": tuple(
        map(pd.Timestamp, ("2020-02-29 10:00", "2020-03-01", "1700-01-01", "9999-12-31"))
    ),
    "timedelta": tuple(map(pd.Timedelta, ("90min", "-3 days", "0s", "1us"))),
    "period": tuple(pd.Period(text, "M") for text in ("2020-03", "1850-01", "2020-04")),
}


def made(draft: Any, nulls: tuple[str, ...]) -> Column | str:
    """The column, in a schema, or the reason."""
    column = draft.column()
    assert isinstance(column, Column | str) and column != ""
    if isinstance(column, Column):
        Schema([replace(column, provenance="declared")], nulls)
        assert column.cells > 0
    return column


@given(st.data())
def test_a_column_or_a_reason_follows_from_whatever_was_released(data: Any) -> None:
    nulls = data.draw(st.sampled_from([("",), ("", "other", "NA"), ("", "True", "1")]))
    counts = dict.fromkeys(FORMAT_NAMES, 0.0)
    for form in data.draw(st.lists(st.sampled_from(FORMAT_NAMES), min_size=1, max_size=3)):
        counts[form] = data.draw(st.floats(20, 1e4))
    dtype = data.draw(st.sampled_from(DTYPES))
    draft = draft_of("a", dtype, counts, 10.0, nulls, data.draw(st.sampled_from([None, ".", ","])))
    if isinstance(draft, str):
        return
    if isinstance(draft, TextDraft):
        texts = data.draw(st.lists(st.sampled_from(["a", "other", " NA", "(other)", "True"])))
        draft.texts = {text: 30.0 for text in texts if text not in nulls}
        draft.others = data.draw(st.booleans())
    if isinstance(draft, LineDraft):
        rng = np.random.default_rng(data.draw(st.integers(0, 999)))
        std = rng.choice([0.0, 1.0, 30.0])
        points = POINTS_OF.get(base_dtype(dtype), POINTS)
        for number in range(1, rng.integers(2, 7)):
            draft.begin(number)
            column = distinct(pd.Series(rng.choice(np.array(points, dtype=object), 6)))
            for question in draft.questions(column, number):
                sums = rng.choice([-30.0, 0.0, 9.0, 60.0, 900.0], question.size)
                draft.learn(question, sums, std, sums > 3.5 * std, "round")
        draft.learn_rest(Rest(rng.choice([-9.0, 90.0]), std, 90.0, True), "rest")
    made(draft, nulls)


LARGE = {
    "cents": (1e13, 9e13, 0.01, float),
    "many cents": (4e9, 5e9, 0.01, float),
    "around": (-9e14, 9e14, 0.01, float),
}


@pytest.mark.filterwarnings("ignore:The draft takes as public")
@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("seed", range(2))
def test_numbers_with_more_steps_than_floats_tell_apart(case: str, seed: int) -> None:
    low, high, step, kind = LARGE[case]
    rng = np.random.default_rng(seed)
    steps = rng.integers(round(low / step), round(high / step), 1500).tolist()
    numbers = [kind(round(number * step, 2)) for number in steps]
    table = pd.DataFrame({"x": numbers, "o": rng.choice(["a", "b"], 1500)})
    drafted = draft_private(table, 20.0, random_state=seed)
    assert drafted["o"].categories == ("a", "b")
    left = {item["name"]: item["reason"] for item in drafted.left_out}
    assert (drafted["x"].resolution is None) == (case != "many cents") and not left


@pytest.mark.filterwarnings("ignore:The draft takes as public")
def test_a_text_that_means_null_is_no_category() -> None:
    table = pd.DataFrame({"x": ["a"] * 200 + [f"rare {n}" for n in range(200)]})
    drafted = draft_private(table, 20.0, null_values=("other",), random_state=0)
    assert drafted["x"].other == "(other)" and drafted["x"].categories == ("(other)", "a")
