"""The loss of MargNet by brute force: columns, pairs and triples, in groups of values or not."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_margnet import layout_of, measurements

from tabsynth.encoding.table import Layout
from tabsynth.privacy.noise.counts import Groups, Measured, number_of
from tabsynth.synthesizers.margnet.estimation import CountLoss
from tabsynth.synthesizers.margnet.selection import Resolution

torch.set_num_threads(1)


def grouping(data: st.DataObject, sizes: list[int]) -> Groups:
    """Groups without a gap, any values in each."""
    results = []
    for size in sizes:
        drawn = data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
        results.append(np.unique(drawn, return_inverse=True)[1])
    return results


def probabilities(logits: torch.Tensor, layout: Layout) -> torch.Tensor:
    return torch.cat([torch.softmax(logits[:, b.start : b.stop], 1) for b in layout.blocks], 1)


MIXTURES: dict[str, Any] = {
    "sizes": st.lists(st.integers(1, 5), min_size=2, max_size=5),
    "components": st.integers(1, 6),
    "data": st.data(),
}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(**MIXTURES)
def test_loss_and_gradient_are_those_of_brute_force(
    sizes: list[int], components: int, data: st.DataObject
) -> None:
    """Set by set, component by component and value by value, differentiated by autograd in float64."""
    layout = layout_of(*sizes)
    everyone = range(len(sizes))
    sets = [s for width in (1, 2, 3) for s in combinations(everyone, width)]
    kept = data.draw(st.lists(st.sampled_from(sets), min_size=1, unique=True))
    whole = [np.arange(size) for size in sizes]
    by = Resolution(
        values=whole,
        pairs=grouping(data, sizes),
        triples=grouping(data, sizes),
    )
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = 50.0
    measured = [
        Measured(
            columns,
            generator.normal(10, 5, [number_of(by.of(columns)[j]) for j in columns]),
            float(generator.uniform(1.5, 9)),
        )
        for columns in kept
    ]
    logits = torch.tensor(generator.normal(size=(components, layout.width)), requires_grad=True)
    p = probabilities(logits, layout)
    p.retain_grad()
    total, cells = torch.zeros((), dtype=torch.float64), 0
    for m in measured:
        expected = torch.zeros(m.counts.shape, dtype=torch.float64)
        for k in range(components):
            values = [p[k, layout.blocks[j].start : layout.blocks[j].stop] for j in m.columns]
            product = torch.einsum(["i", "i,j->ij", "i,j,k->ijk"][len(values) - 1], *values)
            for spot in np.ndindex(*product.shape):
                groups = by.of(m.columns)
                cell = tuple(groups[j][v] for j, v in zip(m.columns, spot, strict=True))
                one = torch.zeros(m.counts.shape, dtype=torch.float64)
                one[cell] = 1
                expected = expected + rows / components * product[spot] * one
        total = total + ((expected - torch.tensor(m.counts)) / m.std).square().sum()
        cells += m.counts.size
    (total / cells).backward()
    assert p.grad is not None
    scale = float(p.grad.abs().max())
    for memory in (2**30, 1):  # all at once, and a group of the first column at a time
        counts = measurements(measured, sizes, rows, by)
        loss = CountLoss(layout, counts, components, memory=memory)
        result, gradient = loss(p.detach().float())
        assert result == pytest.approx(float(total.detach()) / cells, rel=1e-4)
        np.testing.assert_allclose(gradient.numpy(), p.grad.numpy(), atol=1e-4 * scale + 1e-9)


@settings(max_examples=40, deadline=None)
@given(**MIXTURES)
def test_the_way_from_impossible_rows_is_that_of_brute_force(
    sizes: list[int], components: int, data: st.DataObject
) -> None:
    layout, rows, weight = layout_of(*sizes), 50.0, 0.7
    zeros = []
    for _ in range(data.draw(st.integers(1, 4))):
        named = data.draw(
            st.lists(st.integers(0, len(sizes) - 1), min_size=2, max_size=4, unique=True)
        )
        marks = [
            data.draw(st.lists(st.booleans(), min_size=sizes[j], max_size=sizes[j])) for j in named
        ]
        zeros.append({j: np.array(mark) for j, mark in zip(named, marks, strict=True)})
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    logits = 2 * torch.randn(components, layout.width, generator=generator).double()
    p = probabilities(logits, layout).requires_grad_()
    measured = [Measured((0,), np.full(sizes[0], 5.0), 2.0)]
    total = torch.zeros((), dtype=torch.float64)
    for zero in zeros:
        each = torch.ones(components, dtype=torch.float64)
        for j, mark in zero.items():
            block = layout.blocks[j]
            each = each * (p[:, block.start : block.stop] * torch.from_numpy(mark)).sum(1)
        total = total + (weight * rows / components * each.sum()).square()
    (total / sizes[0]).backward()
    loss = CountLoss(layout, measurements(measured, sizes, rows), components, zeros=zeros)
    plain, before = loss(p.detach().float())
    result, after = loss(p.detach().float(), weight)
    assert p.grad is not None and result == plain
    scale = float(p.grad.abs().max())
    np.testing.assert_allclose(
        (after - before).numpy(),
        p.grad.numpy(),
        atol=1e-4 * scale + 1e-6 * float(before.abs().max()),
    )


@settings(max_examples=40, deadline=None)
@given(**MIXTURES)
def test_other_aims_turn_the_way_and_leave_the_loss(
    sizes: list[int], components: int, data: st.DataObject
) -> None:
    """The way is that towards the aims, were these what was measured; the loss is of the noisy counts."""
    layout, generator = layout_of(*sizes), np.random.default_rng(data.draw(st.integers(0, 99)))
    pairs = list(combinations(range(len(sizes)), 2))
    aimed = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    measured, others = [Measured((0,), np.full(sizes[0], 5.0), 2.0)], {}
    for a, b in pairs:
        noisy = generator.normal(10, 5, (sizes[a], sizes[b]))
        measured.append(Measured((a, b), noisy, float(generator.uniform(1.5, 9))))
    for pair in aimed:
        others[pair] = generator.normal(10, 5, [sizes[j] for j in pair])
    there = measurements(
        [replace(m, counts=others.get(m.columns, m.counts)) for m in measured], sizes, 50.0
    )
    here = measurements(measured, sizes, 50.0)
    logits = torch.from_numpy(generator.normal(size=(components, layout.width))).float()
    p = probabilities(logits, layout)
    plain, _ = CountLoss(layout, here, components)(p)
    _, towards = CountLoss(layout, there, components)(p)
    result, gradient = CountLoss(layout, here, components, aims=others)(p)
    assert result == pytest.approx(plain, rel=1e-5)
    close = 1e-4 * float(towards.abs().max())
    torch.testing.assert_close(gradient, towards, rtol=1e-3, atol=close)
