"""Conditional mixtures against brute force: all rows of a tiny table, by Bayes' rule."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column
from tabsynth.synthesizers import mixture as conditions_module
from tabsynth.synthesizers.mixture import (
    EVERYTHING,
    HELD,
    Mixture,
    Restricted,
    disjoint_boxes,
)

torch.set_num_threads(1)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sharp_mixture(sizes: tuple[int, ...], components: int = 3, seed: int = 0) -> Mixture:
    columns = [
        Column(name=f"c{j}", kind="categorical", dtype="int64", categories=tuple(range(size)))
        for j, size in enumerate(sizes)
    ]
    layout = TableEncoder(Schema(columns)).layout
    logits = 2 * torch.randn(components, layout.width, generator=stream(seed))
    parts = [torch.softmax(logits[:, b.start : b.stop], 1) for b in layout.blocks]
    return Mixture(layout, components).set(torch.cat(parts, 1))


def joint(mixture: Mixture) -> np.ndarray:
    """The probability of each row, shape sizes: the sum over components of products."""
    p = mixture.probabilities.double().numpy()
    blocks = [p[:, b.start : b.stop] for b in mixture.layout.blocks]
    result = np.zeros(mixture.layout.sizes)
    for k in range(len(p)):
        result += math.prod(np.ix_(*[block[k] for block in blocks])) / len(p)
    return result


def only(size: int, *values: int) -> np.ndarray:
    return np.isin(np.arange(size), values)


def permitted(sizes: tuple[int, ...], zeros: Any, where: Any) -> np.ndarray:
    """What share of each row is within a condition and in none of the zeros, one by one."""
    result = np.zeros(sizes)
    for row in itertools.product(*map(range, sizes)):
        if not any(all(m[row[j]] for j, m in z.items()) for z in zeros):
            result[row] = math.prod(share[row[j]] for j, share in where.items())
    return result


SIZES = (3, 2, 4)
ZEROS = [{0: only(3, 0, 1), 2: only(4, 3)}, {1: only(2, 1), 2: only(4, 0, 3)}]
# The last: of some values a share.
PARTLY = {0: np.array([0.2, 1.0, 0.5]), 2: np.array([0.5, 0.0, 1.0, 0.25])}
WHERES = [{}, {0: only(3, 1)}, {1: only(2, 0), 2: only(4, 0, 2)}, PARTLY]


@st.composite
def conditions(draw: st.DrawFn) -> tuple[tuple[int, ...], list[dict[int, np.ndarray]], Any]:
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))

    def masks(least: int) -> dict[int, np.ndarray]:
        columns = draw(st.sets(st.integers(0, len(sizes) - 1), min_size=least))
        kept = {j: draw(st.sets(st.integers(0, sizes[j] - 1), min_size=1)) for j in columns}
        return {j: only(sizes[j], *values) for j, values in kept.items()}

    return sizes, [masks(2) for _ in range(draw(st.integers(0, 4)))], masks(0)


@settings(max_examples=150, deadline=None)
@given(given=conditions())
def test_boxes_part_what_is_permitted(given: Any) -> None:
    """Every permitted row lies in exactly one box, every other row in none."""
    sizes, zeros, where = given
    wanted = permitted(sizes, zeros, where)
    boxes = disjoint_boxes(zeros, where)
    holdout = sum((permitted(sizes, [], box).astype(int) for box in boxes), np.zeros(sizes, int))
    np.testing.assert_array_equal(holdout, wanted)


def test_zeros_that_share_columns_need_few_boxes() -> None:
    """A child skips 30 questions: two boxes. Eleven unrelated ones multiply, and are too many."""
    skips = [{0: only(9, 0, 1), j: only(4, 1, 2)} for j in range(1, 31)]
    assert len(disjoint_boxes(skips)) == 2
    unrelated = [{2 * j: only(3, 0), 2 * j + 1: only(3, 0)} for j in range(11)]
    assert disjoint_boxes(unrelated) is None


@pytest.mark.parametrize("where", WHERES, ids=["plain", "one", "two", "partly"])
@pytest.mark.parametrize("zeros", [[], ZEROS], ids=["free", "zeros"])
def test_the_conditional_mixture_is_bayes(zeros: Any, where: Any) -> None:
    """Shares and distributions of all parts make the joint distribution, given the condition."""
    mixture = sharp_mixture(SIZES)
    wanted = permitted(SIZES, zeros, where) * joint(mixture)
    boxes = disjoint_boxes(zeros, where)
    assert mixture.log_probability(boxes) == pytest.approx(np.log(wanted.sum()), abs=1e-6)
    restricted = Restricted(mixture.probabilities.double().numpy(), mixture.layout, boxes)
    result = np.zeros(SIZES)
    for part, share in enumerate(restricted.shares):
        if share > 0:
            box, k = divmod(part, 3)
            p = restricted.distributions(box, np.array([k]))[0]
            blocks = [p[b.start : b.stop] for b in mixture.layout.blocks]
            result += share * math.prod(np.ix_(*blocks))
    np.testing.assert_allclose(result, wanted / wanted.sum(), atol=1e-6)
    for other, (a, b) in {2: (0, 1), 1: (0, 2), 0: (1, 2)}.items():
        of_components = restricted.joint(a, b)
        np.testing.assert_allclose(of_components.sum(axis=0), result.sum(axis=other), atol=1e-9)
        shares = restricted.shares.reshape(-1, 3).sum(axis=0)
        np.testing.assert_allclose(of_components.sum(axis=(1, 2)), shares, atol=1e-9)


def fits(rows: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether the counts of whole rows are a draw of the wanted distribution (χ²)."""
    counts = np.zeros(wanted.shape)
    np.add.at(counts, tuple(rows.T), 1)
    assert not counts[wanted == 0].any()
    expected = wanted[wanted > 0] / wanted.sum() * len(rows)
    return stats.chisquare(counts[wanted > 0], expected).pvalue > 1e-4


@pytest.mark.parametrize("held", [HELD, 0], ids=["held", "anew"])
@pytest.mark.parametrize("zeros", [[], ZEROS], ids=["free", "zeros"])
def test_conditional_rows_follow_bayes(
    zeros: Any, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With cumulative probabilities that are kept, or made as they are needed."""
    monkeypatch.setattr(conditions_module, "HELD", held)
    mixture = sharp_mixture(SIZES, seed=2)
    for seed, where in enumerate(WHERES):
        wanted = permitted(SIZES, zeros, where) * joint(mixture)
        boxes = disjoint_boxes(zeros, where)
        rows = mixture.sample(20_000, stream(seed), rounded=False, boxes=boxes)
        assert fits(rows, wanted)
        assert not fits(rows, wanted**1.2)  # the comparison is not blind


def test_rounding_goes_on_under_a_condition() -> None:
    """Rounded rows are much closer to the conditional mixture's pairs than plain draws are."""
    sizes = (5, 4, 3, 2)
    mixture = sharp_mixture(sizes, components=40)
    zeros = [{0: only(5, 0, 1), 1: only(4, 2, 3)}]
    where = {2: only(3, 0, 2)}
    wanted = permitted(sizes, zeros, where) * joint(mixture)
    misses = {}
    for rounded in (False, True):
        rows = mixture.sample(4000, stream(3), rounded=rounded, boxes=disjoint_boxes(zeros, where))
        counts = np.zeros(sizes)
        np.add.at(counts, tuple(rows.T), 1)
        assert not counts[wanted == 0].any()
        error = counts / 4000 - wanted / wanted.sum()
        pairs = itertools.combinations(range(4), 2)
        misses[rounded] = sum(
            np.abs(error.sum(tuple({0, 1, 2, 3} - set(pair)))).sum() for pair in pairs
        )
    assert misses[True] < 0.25 * misses[False]


@settings(max_examples=60, deadline=None)
@given(given=conditions(), seed=st.integers(0, 9), rows=st.integers(1, 40))
def test_conditions_and_zeros_always_hold(given: Any, seed: int, rows: int) -> None:
    """Every rounded row is permitted."""
    sizes, zeros, where = given
    inside = permitted(sizes, zeros, where)
    boxes = disjoint_boxes(zeros, where)
    if not inside.any():
        assert boxes == []
        return
    mixture = sharp_mixture(sizes, components=4, seed=seed)
    synthetic = mixture.sample(rows, stream(seed), boxes=boxes)
    assert synthetic.shape == (rows, len(sizes)) and inside[tuple(synthetic.T)].all()


def test_what_has_no_probability() -> None:
    """A value of probability 0 in all components: no condition on it."""
    mixture = sharp_mixture(SIZES)
    p = mixture.probabilities.clone()
    p[:, 0] = 0
    mixture.set(p)
    assert mixture.log_probability([{0: only(3, 0)}]) == -np.inf
    assert np.isfinite(mixture.log_probability(EVERYTHING))


def test_many_conditions_do_not_underflow() -> None:
    """300 columns at 1e-6 each: the share of a component is beyond the least double."""
    sizes = (2,) * 300
    mixture = sharp_mixture(sizes, components=2)
    first = torch.tensor([1e-6, 1 - 1e-6]).repeat(300)
    second = torch.tensor([2e-6, 1 - 2e-6]).repeat(300)
    mixture.set(torch.stack([first, second]))
    boxes = [{j: only(2, 0) for j in range(299)}]
    assert mixture.log_probability(boxes) < -1000
    assert (mixture.sample(5, stream(), boxes=boxes)[:, :299] == 0).all()
