"""Histograms on axes of numbers, dates and times: spans, values that are kept apart, the part that is shown."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import Categorical, Date, Datetime, Duration, Numeric, Period, Schema, Time
from tabsynth.evaluation.column_summaries import column_summaries
from tabsynth.schema import Column


def summary(column: Column, real: np.ndarray, synthetic: np.ndarray | None = None):
    other = real if synthetic is None else synthetic
    (item,) = column_summaries(Schema([column]), real[:, None], other[:, None])
    return item


def days(text: str) -> float:
    return pd.Timestamp(text).timestamp() / 86_400


def test_cells_of_unequal_width_have_spans_to_scale() -> None:
    income = Numeric(name="x", dtype="int64", low=-500, high=9_999, breaks=(0, 1, 100, 1_000))
    codes = np.repeat([0, 1, 2, 3, 4], [10, 300, 100, 400, 190])
    item = summary(income, codes)
    assert item.axis == "number"
    # 0 alone has 30% of the rows in one unit: no axis to scale shows that beside the others.
    assert item.labels == ("-500–-1", "1–99", "100–999", "1000–9999", "0")
    assert item.spans == ((-500.5, -0.5), (0.5, 99.5), (99.5, 999.5), (999.5, 9_999.5))
    assert item.real == (0.01, 0.1, 0.4, 0.19, 0.3)


def test_a_rare_narrow_cell_is_taken_together_with_the_next() -> None:
    cost = Numeric(name="x", dtype="float64", low=0, high=100, resolution=0.01, breaks=(0.01, 50))
    item = summary(cost, np.repeat([0, 1, 2], [1, 500, 499]))
    assert item.labels == ("0–49.99", "50–100")
    assert item.spans[0] == pytest.approx((-0.005, 49.995))
    assert summary(cost, np.repeat([0, 1, 2], [100, 500, 400])).labels[-1] == "0"


def test_dates_and_times_are_on_axes_of_their_own() -> None:
    visit = Date(name="x", dtype="str", low="2020-01-01", high="2020-12-31", bins=2)
    item = summary(visit, np.array([0, 1]))
    assert item.axis == "date" and item.spans[0][0] == days("2020-01-01")
    assert item.spans[1] == (days("2020-07-02"), days("2021-01-01"))
    seen = Datetime(
        name="x", dtype="datetime64[ns, UTC]", low="2020-01-01 06:00", high="2020-01-01 17:59",
        resolution="1min", bins=2,
    )  # fmt: skip
    ends = summary(seen, np.array([0, 1])).spans
    assert np.allclose(ends, days("2020-01-01") + np.array([[0.25, 0.5], [0.5, 0.75]]))
    shift = summary(Time(name="x", dtype="str", bins=3), np.array([0, 1, 2]))
    assert shift.axis == "time" and np.allclose(shift.spans, [(0, 8), (8, 16), (16, 24)])
    surgery = Duration(
        name="x", dtype="timedelta64[ns]", low="0min", high="10h", resolution="5min", breaks=("1h",)
    )
    spans = summary(surgery, np.array([0, 1])).spans
    assert np.allclose(spans, [(0, 1), (1, 10 + 1 / 12)])
    month = summary(
        Period(name="x", dtype="period[M]", low="2020-01", high="2020-03"), np.arange(3)
    )
    assert month.spans == (
        (days("2020-01-01"), days("2020-02-01")),
        (days("2020-02-01"), days("2020-03-01")),
        (days("2020-03-01"), days("2020-04-01")),
    )


def test_a_few_single_values_are_bars_and_have_their_labels() -> None:
    facts = {"name": "x", "dtype": "int64", "low": 0, "high": 2}
    item = summary(Numeric(**facts, labels={"0": "none", "2": "two or more"}), np.arange(3))
    assert item.axis == "rank" and item.labels == ("none", "1", "two or more")
    item = summary(Numeric(**facts, labels={"0": "no", "2": "no"}), np.arange(3))
    assert item.labels == ("no (0)", "1", "no (2)")
    listed = Categorical(name="x", dtype="bool", categories=(False, True), labels={"True": "yes"})
    assert summary(listed, np.arange(2)).labels == ("False", "yes")


def test_reasons_for_missing_come_after_the_values() -> None:
    column = Categorical(
        name="x", dtype="str", nulls=True, categories=("a", "b"), missing={"-8": "refused"}
    )
    item = summary(column, np.arange(4))
    assert item.labels == ("a", "b", "-8 (refused)", "null") and item.missing == 2


def test_a_long_axis_ends_where_few_rows_are_beyond() -> None:
    column = Numeric(name="x", dtype="int64", low=0, high=999, bins=100)
    codes = np.repeat([0, 1, 99], [600, 398, 2])
    item = summary(column, codes)
    assert item.window == (-0.5, 19.5) and item.outside == (0.002, 0.002)
    far = summary(column, codes, np.repeat([0, 99], [800, 200]))
    assert far.window == (-0.5, 999.5) and far.outside == (0, 0)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_spans_are_the_cells_and_shares_stay(data: st.DataObject) -> None:
    low = data.draw(st.integers(-50, 50))
    breaks = sorted(data.draw(st.sets(st.integers(low + 1, low + 400), min_size=1, max_size=150)))
    column = Numeric(name="x", dtype="int64", low=low, high=low + 400, breaks=tuple(breaks))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    weights = rng.dirichlet(np.full(column.cells, 0.3))
    tables = [rng.choice(column.cells, 200, p=weights) for _ in "ab"]
    item = summary(column, *tables)
    assert sum(item.real) == pytest.approx(1) and sum(item.synthetic) == pytest.approx(1)
    ends = np.array(item.spans)
    assert (ends[:, 0] < ends[:, 1]).all() and (ends[1:, 0] >= ends[:-1, 1]).all()
    # Rows of every span, counted by the values themselves.
    values = column.code_amounts()[0][tables[0]]
    if item.axis == "number":
        apart = [float(text) for text in item.labels[len(ends) :]]
        rest = values[~np.isin(values, apart)]
        counts = [((rest > a) & (rest < b)).sum() for a, b in item.spans]
        assert np.allclose(np.array(counts) / 200, item.real[: len(ends)])
