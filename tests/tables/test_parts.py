"""Rows that are kept apart from a fit: each is drawn by itself, so that the fit's privacy holds for the whole table."""

import numpy as np
import pandas as pd
import pytest

from tabsynth.tables.parts import are_parts, keep_apart


def table(rows=1000):
    rng = np.random.default_rng(1)
    return pd.DataFrame({"person": rng.integers(0, rows // 4, rows), "x": rng.random(rows)})


@pytest.mark.parametrize("unit", [None, "person"])
def test_each_row_is_in_one_part_and_each_unit_too(unit):
    train, kept = keep_apart(table(), 0.25, 7, unit)
    assert sorted([*train.index, *kept.index]) == [*range(1000)] and 180 < len(kept) < 320
    assert are_parts(table(), [kept, train]) and not are_parts(table(), [kept, train[1:]])
    shared = set(train["person"]) & set(kept["person"])
    assert (shared == set()) is (unit == "person")


@pytest.mark.parametrize("unit", [None, "person"])
def test_one_more_record_changes_one_part_by_that_record(unit):
    """Also where it is not in the part; a fixed number of rows for the fit would exchange another record."""
    added = pd.concat([table(), pd.DataFrame({"person": [9999], "x": [0.5]})], ignore_index=True)
    sizes = set()
    for seed in range(20):
        before, after = keep_apart(table(), 0.25, seed, unit), keep_apart(added, 0.25, seed, unit)
        for old, new in zip(before, after, strict=True):
            assert set(old.index) == set(new.index) - {1000}
        sizes.add(len(after[0]) - len(before[0]))
    assert sizes == {0, 1}


def test_parts_are_drawn_anew_by_the_seed_and_may_be_all():
    first, second = (keep_apart(table(), 0.25, seed)[1].index for seed in (1, 2))
    assert set(first) != set(second) and len(keep_apart(table(), 0, 1)[0]) == 1000
    assert len(keep_apart(table()[:0], 0.25, 1)[0]) == 0
