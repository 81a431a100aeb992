"""R2: per-example gradients as factors, against autograd row by row and against vmap."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from row_gradients import (
    EPS,
    LOSSES,
    NETWORKS,
    Losses,
    autoencoder,
    clip_rows,
    drawn,
    flat,
    group_of_entries,
    normal_rows,
    row_gradients,
    squared,
    trained,
)
from torch import Tensor, nn

from tabsynth.synthesizers.adversarial.autoencoder import reconstruction_losses
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.factors import Factors, Trace, Use, row_squares
from tabsynth.training.networks import ACTIVATIONS, mlp

torch.set_num_threads(1)


def nudge(module: nn.Module) -> nn.Module:
    """The module, its weights moved by a few roundings."""
    out, rng = copy.deepcopy(module), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in out.parameters():
            p.mul_(1 + 4 * EPS * torch.randn(p.shape, generator=rng, dtype=p.dtype))
    return out


def shaky(module: nn.Module, losses: Losses, rows: Tensor, ascent: float, bounds: Tensor) -> float:
    """What rounding may do to a sum of clipped gradients, beyond a relative 1e-9.

    A row's gradient adds up uses of its layers that may cancel (real against generated); its norm, from
    their products, is then a difference too, which the engine takes for longer by 64 roundings of the
    largest: that shortens a clipped row, and BAM's step. And saturated units have slopes that are
    differences: a few roundings of the weights move brute force itself.
    """
    out, layers = 0.0, PerExampleClipper(module).layers
    for row in rows.split(1):
        at, there = (row_gradients(module, losses, row, a) for a in (0.0, ascent))
        pairs = [pair for f in Trace(layers, 1).factors(losses, module, row) for pair in f.norms]
        largest = 2 * sum(float(left + right) for left, right in pairs)
        norms = [float(g.norm()) + EPS * largest for g in (at, there)]
        longer = [min(1.0, 256 * EPS * (largest / norm) ** 2) for norm in norms]
        nudged = row_gradients(nudge(module), losses, row, ascent)
        out += 10 * float((nudged - there).norm()) + 256 * EPS * largest
        out += longer[1] * min(norms[1], float(bounds.sum()))
        if ascent and float(at.norm()) > 1e-12 * largest:
            step = row_gradients(module, losses, row, ascent * (1 - 1e-6))
            out += 2e6 * longer[0] * float((step - there).norm())
        elif ascent:  # a gradient of rounding only: no direction to go by
            out += 2 * float(bounds.sum())
    return out


def assert_closed_form(
    module: nn.Module,
    losses: Losses,
    rows: Tensor,
    public: Tensor | None,
    groups: list[int],
    ascent: float,
    bounds: Tensor,
) -> None:
    """Σ clip(gᵢ − r) in closed form is the brute-force sum.

    Relative 1e-9, of what each row adds. With a reference the norm of a difference is a difference of
    squares: there the engine may take it for longer by 64 roundings of the larger one (the safe side),
    and the tolerance grows with the cancellation. So it does where the uses of a layer cancel, and where
    a few roundings of the weights move brute force itself: see ``shaky``.
    """
    clipper = PerExampleClipper(module, groups, ascent)
    grads = row_gradients(module, losses, rows, ascent)
    entries, reference, slack = group_of_entries(module, groups), None, 0.0
    if public is not None:
        reference, _ = clipper.reference(losses, public)
        mean = row_gradients(module, losses, public, ascent).mean(0)
        size = float(mean.abs().max())
        torch.testing.assert_close(flat(reference), mean, rtol=1e-9, atol=1e-9 * size + 1e-300)
        for j, bound in enumerate(bounds):
            r, own = mean[entries == j], grads[:, entries == j]
            squares = own.square().sum(1) + 3 * r.square().sum()
            apart = (own - r).square().sum(1).clamp_min(float(bound) ** 2)
            slack += float((256 * EPS * squares / apart).clamp_max(1).sum() * bound)
        grads = grads - mean
    sums = clipper.clipped_sum(losses, rows, bounds, reference)
    aside, _ = clipper.rounding(
        bounds, reference, len(rows)
    )  # for rounding: rows are clipped below C
    assert (aside <= 1e-9 * (bounds + (0 if reference is None else flat(reference).norm()))).all()
    wanted = clip_rows(grads, (bounds - aside).clamp_min(0), entries).sum(0)
    assert not any("forward" in part.__dict__ for part in module.modules())
    gradient = flat(sums)
    scale = float(clip_rows(grads, bounds, entries).norm(dim=1).sum())
    error = float((gradient - wanted).norm())
    if error > 1e-9 * scale + slack:
        assert error <= 1e-9 * scale + slack + shaky(module, losses, rows, ascent, bounds)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("network", NETWORKS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_closed_form_is_brute_force(network: str, loss: str, data: st.DataObject) -> None:
    """R2, R9, R10: every loss × network × activation × rule, flat or in groups, centred or not."""
    seed = data.draw(st.integers(0, 2**31), "seed")
    module = drawn(NETWORKS[network](data.draw(st.sampled_from(list(ACTIVATIONS)))), seed)
    size = 10 ** data.draw(st.floats(-2, 1.5), "exponent")
    batch = data.draw(st.integers(0, 5), "batch")
    public = normal_rows(4, loss, seed + 7) if data.draw(st.booleans(), "centred") else None
    count = data.draw(st.integers(1, 3), "groups")
    groups = [(seed + i) % count for i in range(len(trained(module)))]
    bounds = torch.tensor([10 ** data.draw(st.floats(-2, 2)) for _ in range(count)]).double()
    ascent = data.draw(st.sampled_from([0.0, 0.05, 0.5]), "ascent")
    rows = normal_rows(batch, loss, seed, size)
    assert_closed_form(module, LOSSES[loss], rows, public, groups, ascent, bounds)


@pytest.mark.slow
@pytest.mark.parametrize("ascent", [0.0, 0.1])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_autoencoder_is_brute_force(centred: bool, ascent: float, activation: str) -> None:
    """Cross-entropy heads, softmax and sigmoid."""
    model, rows = autoencoder(3, activation)
    public = rows[:4] if centred else None
    groups = [i % 2 for i in range(len(list(model.parameters())))]
    bounds = torch.tensor([0.7, 0.3]).double()
    for batch in (rows[4:], rows[4:5], rows[:0]):
        losses = reconstruction_losses
        assert_closed_form(model, losses, batch, public, groups, ascent, bounds)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    batch=st.integers(0, 6),
    exponent=st.floats(-3, 3),
    seed=st.integers(0, 2**31),
    ascent=st.sampled_from([0.0, 0.1]),
)
def test_any_widths(
    sizes: list[int], batch: int, exponent: float, seed: int, ascent: float
) -> None:
    """R2: one layer or several, of width one as well, with several outputs."""
    module = drawn(mlp(sizes, torch.Generator(), activation="tanh"), seed)
    rng = torch.Generator().manual_seed(seed)
    rows = 10**exponent * torch.randn(batch, sizes[0], generator=rng, dtype=torch.float64)
    groups = [0] * len(trained(module))
    assert_closed_form(module, squared, rows, None, groups, ascent, torch.ones(1).double())


@settings(max_examples=40, deadline=None)
@given(uses=st.integers(1, 4), biased=st.integers(0, 4), seed=st.integers(0, 2**31))
def test_uses_add_up(uses: int, biased: int, seed: int) -> None:
    """Norms, products and sums of several uses are those of the gradients that they stand for."""
    rng = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    layer = nn.Linear(3, 2).double()
    parts = [Use(random(5, 2), random(5, 3), k < biased) for k in range(uses)]
    formed = sum(u.left[:, :, None] * u.right[:, None] for u in parts)
    bias = sum((u.left for u in parts if u.bias), torch.zeros(5, 2).double())
    factors, weight_id, bias_id = Factors(layer, parts), id(layer.weight), id(layer.bias)
    assert isinstance(formed, Tensor)
    result = row_squares([factors])
    largest = sum(u.left.norm(dim=1) * u.right.norm(dim=1) for u in parts)
    assert isinstance(largest, Tensor)
    excess = result[weight_id] - formed.square().sum((1, 2))
    # Several uses may cancel: never short, and long by 64 roundings at most (and a few more).
    if uses > 1:
        assert (excess >= 0).all() and (excess <= 80 * EPS * largest.square()).all()
    torch.testing.assert_close(
        result[weight_id], formed.square().sum((1, 2)), rtol=1e-9, atol=1e-11
    )
    torch.testing.assert_close(result[bias_id], bias.square().sum(1), rtol=1e-12, atol=1e-14)
    reference = {weight_id: random(2, 3), bias_id: random(2)}
    apart = row_squares([factors], {k: (r, r.norm()) for k, r in reference.items()})
    by_hand = (formed - reference[weight_id]).square().sum((1, 2))
    torch.testing.assert_close(apart[weight_id], by_hand, rtol=1e-9, atol=1e-11)
    by_hand = (bias - reference[bias_id]).square().sum(1)
    torch.testing.assert_close(apart[bias_id], by_hand, rtol=1e-9, atol=1e-12)
    means = factors.means()
    torch.testing.assert_close(means[weight_id], formed.mean(0), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(means[bias_id], bias.mean(0), rtol=1e-9, atol=1e-12)
    weights = {weight_id: random(5), bias_id: random(5)}
    blank = torch.tensor([False, True, False, False, True])
    for u in parts:
        u.left[1], u.right[4] = float("nan"), float("inf")
    factors = Factors(layer, parts)
    weights = {key: value.masked_fill(blank, 0) for key, value in weights.items()}
    sums = factors.weighted_sums(weights, blank, reference, torch.float64)
    differences = formed[~blank] - reference[weight_id]
    kept = torch.einsum("b,bij->ij", weights[weight_id][~blank], differences)
    torch.testing.assert_close(sums[weight_id], kept, rtol=1e-9, atol=1e-12)
    wanted = weights[bias_id][~blank] @ (bias[~blank] - reference[bias_id])
    torch.testing.assert_close(sums[bias_id], wanted, rtol=1e-9, atol=1e-12)


def test_a_short_factor_does_not_hide_a_long_one() -> None:
    """R2 in float32: |δ|² alone would vanish, and the row would pass for one of length zero."""
    layer = nn.Linear(2, 1)
    rows = torch.tensor([[1.7e19, 0.0]])

    def losses(module: nn.Module, x: Tensor) -> Tensor:
        return 3e-23 * module(x).squeeze(1)

    gradient = flat(PerExampleClipper(layer).clipped_sum(losses, rows, 1e-5))
    assert 0.99e-5 < float(gradient.norm()) <= 1e-5 * (1 + 1e-6)
