"""Steps of a column with a resolution: found from its numbers, counted in its cells, allowed in ranges."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_strategies import numeric_columns

from tabsynth import Numeric
from tabsynth.schema.numeric import StepRanges


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_ranges_are_sets_of_steps(data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1))
    ranges = StepRanges((first, first + more) for first, more in pairs)
    steps = sorted({s for first, more in pairs for s in range(first, first + more + 1)})
    assert ranges.at(np.arange(len(steps))).tolist() == steps
    ends = np.arange(40)
    assert ranges.below(ends).tolist() == [sum(s < end for s in steps) for end in ends]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(column=numeric_columns().filter(lambda c: c.step is not None), seed=st.integers(0, 99))
def test_every_number_made_has_its_step(column: Numeric, seed: int) -> None:
    """And it alone: a condition on a number that a sample holds is that number."""
    first, count = column.cell_steps()
    assert first[0] == 0 and (count >= 1).all()
    np.testing.assert_array_equal(first[1:], (first + count)[:-1])
    rng = np.random.default_rng(seed)
    cells = rng.integers(len(first), size=20)
    created = column.decode(cells, rng).to_numpy(dtype=float)
    for cell, number in zip(cells, created, strict=True):
        step, last = column.steps_between(number, number)
        assert step == last and first[cell] <= step < first[cell] + count[cell]
        decoded = column.decode(np.array([cell]), rng, StepRanges([(step, step)]))
        assert float(decoded[0]) == number


@pytest.mark.parametrize("low", [0, -1e6, 12.5])
def test_steps_of_the_finest_resolution(low: float) -> None:
    """Floats that are hardly finer than the steps."""
    column = Numeric(name="x", dtype="float64", low=low, high=low + 1e6, resolution=1e-9)
    steps = np.random.default_rng(0).integers(10**15, size=200).astype(float)
    for step, number in zip(steps, column.numbers_at(steps), strict=True):
        assert column.steps_between(number, number) == (step, step)
    assert replace(column, resolution=5.0).steps_between(low + 1, low + 4)[0] == 1
