"""Distances and nearest rows against sorting everything."""

import threading

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.evaluation.attacks.nearest import (
    THREADED,
    HammingSearch,
    distance_limit,
    in_chunks,
    nearest,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 50), st.integers(0, 5))
def test_nearest_are_those_of_a_sort(seed, rows, k, top):
    rng = np.random.default_rng(seed)
    distance = rng.integers(0, top + 1, rows).astype(np.uint8)
    result, limit = nearest(distance, k, rng)
    assert len(set(result.tolist())) == len(result) == min(k, rows)
    np.testing.assert_array_equal(distance[result], np.sort(distance)[:k])
    assert limit == distance[result].max()
    second, same = nearest(distance, k, rng, top + 1)
    assert same == limit == distance_limit(distance, min(k, rows), limit)
    np.testing.assert_array_equal(distance[second], distance[result])


def test_ties_are_equally_likely_inside_and_at_the_edge():
    rng = np.random.default_rng(0)
    distance = np.array([1, 0, 0, 0, 1, 2], dtype=np.uint8)
    first = np.array([nearest(distance, 4, rng)[0] for _ in range(3_000)])
    counts = np.bincount(first[:, 0], minlength=6)
    assert set(np.flatnonzero(counts)) == {1, 2, 3} and counts[1:4].min() > 880
    last = np.bincount(first[:, 3], minlength=6)
    assert set(np.flatnonzero(last)) == {0, 4} and last[[0, 4]].min() > 1_380


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from([1, 2, 300, 70_000]), min_size=1))
def test_distances_are_those_of_comparing(seed, sizes):
    rng = np.random.default_rng(seed)
    table, records = (
        np.stack([rng.integers(0, min(s, 3), n) + max(0, s - 3) for s in sizes], axis=1)
        for n in (20, 35)
    )
    searched = HammingSearch(table, sizes)
    expected = (records[:, None] != table[None]).sum(axis=2)
    for record, distances in zip(records, expected, strict=True):
        np.testing.assert_array_equal(searched.distance(searched.differs(record)), distances)


def test_many_columns_do_not_overflow():
    sizes = (2,) * 300
    searched = HammingSearch(np.zeros((3, 300), dtype=np.int64), sizes)
    assert searched.distance(searched.differs(np.ones(300, dtype=np.int64))).tolist() == [300] * 3


def test_comparisons_are_kept_within_their_bound(monkeypatch):
    """Kept or not, they are the same; and no more bytes are kept than may be."""
    rng = np.random.default_rng(0)
    table, records = rng.integers(0, 4, (20, 6)), rng.integers(0, 4, (35, 6))
    expected = (records[:, None] != table[None]).sum(axis=2)
    for room, kept in ((2**26, 24), (20 * 7 + 19, 7), (0, 0)):
        monkeypatch.setattr("tabsynth.evaluation.attacks.nearest.KEPT", room)
        searched = HammingSearch(table, (4,) * 6)
        for _ in range(2):
            results = [searched.distance(searched.differs(record)) for record in records]
            np.testing.assert_array_equal(results, expected)
        assert len(searched._kept) == kept


def test_chunks_keep_order_and_do_not_depend_on_threads(monkeypatch):
    records = np.arange(100)[:, None]
    results = []
    for count, rows in ((1, THREADED), (4, THREADED), (4, THREADED - 1)):
        monkeypatch.setattr("tabsynth.evaluation.attacks.nearest.workers", lambda n=count: n)
        calls, threads = [], set()

        def work(part, own, threads=threads):
            threads.add(threading.current_thread())
            return part + own.random(part.shape)

        results.append(in_chunks(records, work, np.random.default_rng(0), rows, calls.append))
        assert calls == [0.25, 0.5, 0.75, 1.0]
        assert (threading.main_thread() in threads) == (rows < THREADED)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    np.testing.assert_array_equal(np.floor(results[0]), records)
