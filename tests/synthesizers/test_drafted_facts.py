"""Whatever a draft releases of a column, a column follows from it, or a reason why the column is left out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabsynth import Schema, draft_private
from tabsynth.drafting.formats import FORMAT_NAMES, NUMBER
from tabsynth.drafting.released_columns import TextDraft
from tabsynth.drafting.released_numbers import GridDraft, draft_of
from tabsynth.schema.column import Column

DTYPES = (
    NUMBER, "str", "object", "category", "bool", "boolean", "int8", "uint8", "int64", "Int64", "uint64", "UInt16",
    "float32", "float64", "Float64", "datetime64[us]", "datetime64[s]", "datetime64[ns]", "datetime64[ms, UTC]",
    "timedelta64[us]", "timedelta64[s]", "timedelta64[ns]", "period[D]", "period[M]", "period[Y]", "period[h]",
)  # fmt: skip


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
    if isinstance(draft, GridDraft):
        cells = len(draft.grid) - 1
        near = st.integers(0, 12) | st.integers(0, cells)
        first = data.draw(st.integers(0, cells - 1))
        draft.bounds = first, min(cells - 1, first + data.draw(near))
        draft.commonest = data.draw(st.integers(0, cells - 1))
        draft.nulls = data.draw(st.booleans())
        if draft.many_steps:
            assert draft.step is not None
            low, high = draft.ends()
            last = round((high - low) / draft.step)
            steps = data.draw(st.lists(st.integers(0, last), max_size=5))
            draft.common = {round(low + step * draft.step, 9) for step in steps}
            draft.counts = np.exp(-np.arange(cells) % data.draw(st.floats(1, 9))) * 1e3
            draft.heaping = data.draw(st.sampled_from([(), (5,), (100, 10), (1000, 100, 10, 5)]))
            if data.draw(st.booleans()):  # a later round may find cells far off
                draft.bounds = draft.bounds[0], cells - 1
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
