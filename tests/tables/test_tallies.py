"""Counts of many sets of columns: those of each set alone, from few counts of columns together."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tabsynth.tables import batch_counter
from tabsynth.tables.batch_counter import Tallies

SIZES = {"a": 2, "b": 300, "c": 10, "d": 1, "e": 40}


@pytest.mark.parametrize("most", [2**27, 0])
def test_counts_are_those_of_each_set_alone(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over batches, of which one has no row; in any order of the columns."""
    monkeypatch.setattr(batch_counter, "MOST_CELLS", most)
    rng = np.random.default_rng(0)
    sets = [*itertools.permutations(SIZES, 2), ("a",), ("e", "a", "c"), ("c", "d", "a")]
    counted = Tallies(sets, SIZES)
    batches = [
        {k: rng.integers(0, s, n).astype(np.min_scalar_type(s)) for k, s in SIZES.items()}
        for n in (50, 0, 31)
    ]
    with ThreadPoolExecutor(2) as threads:
        for batch in batches:
            counted.add(batch.__getitem__, threads)
    codes = {name: np.concatenate([batch[name] for batch in batches]) for name in SIZES}
    for s in sets:
        wanted = np.zeros([SIZES[name] for name in s])
        np.add.at(wanted, tuple(codes[name] for name in s), 1)
        np.testing.assert_array_equal(counted.of(s), wanted)


def test_columns_of_few_codes_are_counted_together() -> None:
    sizes = dict.fromkeys("abcdefgh", 10)
    counted = Tallies([*((a,) for a in sizes), *itertools.combinations(sizes, 2)], sizes)
    assert len(counted._counts) == 6  # of four columns each; not 8 + 28
    triple = Tallies([*itertools.combinations("abc", 2), ("c", "h", "a")], sizes)
    assert len(triple._counts) <= 3
