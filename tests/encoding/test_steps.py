"""Steps of a column with a resolution: found from its numbers, counted in its cells, asked for in runs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_strategies import numeric_columns

from tabsynth import Column
from tabsynth.encoding import table as numeric
from tabsynth.encoding.table import Runs, numbers_at, steps_between, steps_of_cells


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_runs_are_sets_of_steps(data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1))
    runs = Runs((first, first + more) for first, more in pairs)
    steps = sorted({s for first, more in pairs for s in range(first, first + more + 1)})
    assert runs.at(np.arange(len(steps))).tolist() == steps
    ends = np.arange(40)
    assert runs.below(ends).tolist() == [sum(s < end for s in steps) for end in ends]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(column=numeric_columns().filter(lambda c: c.step is not None), seed=st.integers(0, 99))
def test_every_number_made_has_its_step(column: Column, seed: int) -> None:
    """And it alone: a condition on a number that a sample holds is that number."""
    first, count = steps_of_cells(column)
    assert first[0] == 0 and (count >= 1).all()
    np.testing.assert_array_equal(first[1:], (first + count)[:-1])
    rng = np.random.default_rng(seed)
    cells = rng.integers(len(first), size=20)
    made = numeric._numeric_from_index(column, cells, rng).to_numpy(dtype=float)
    for cell, number in zip(cells, made, strict=True):
        step, last = steps_between(column, number, number)
        assert step == last and first[cell] <= step < first[cell] + count[cell]
        again = numeric._numeric_from_index(column, np.array([cell]), rng, Runs([(step, step)]))
        assert float(again[0]) == number


@pytest.mark.parametrize("low", [0, -1e6, 12.5])
def test_steps_of_the_finest_resolution(low: float) -> None:
    """Floats that are hardly finer than the steps."""
    column = Column(
        name="x", kind="numeric", dtype="float64", low=low, high=low + 1e6, resolution=1e-9
    )
    steps = np.random.default_rng(0).integers(10**15, size=200).astype(float)
    for step, number in zip(steps, numbers_at(column, steps), strict=True):
        assert steps_between(column, number, number) == (step, step)
    assert steps_between(replace(column, resolution=5.0), low + 1, low + 4)[0] == 1
