"""R21: how far one row moves the floating-point sum that a step releases, at every scale."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from private_steps import engine
from row_gradients import LOSSES, autoencoder, drawn, flat, plain, trained
from torch import Tensor, nn

from tabsynth._random import keystream
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import recorded_by
from tabsynth.synthesizers.adversarial.autoencoder import reconstruction_losses
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import Places, PrivateStep, minus_scores
from tabsynth.training.sums import (
    CHUNK,
    LARGEST_FACTOR,
    TensorNoise,
    Total,
    chunked_products,
    chunked_sum,
    noise_rounding,
)

torch.set_num_threads(1)


def critic(scale: float, widths: tuple[int, ...] = (6, 4, 1), seed: int = 0) -> nn.Module:
    """A critic in float32 whose weights are of a scale, the last biases included."""
    net, rng = mlp(widths, torch.Generator().manual_seed(seed), activation="leaky-relu"), seed + 1
    with torch.no_grad():
        for p in net.parameters():
            p.uniform_(-scale, scale, generator=torch.Generator().manual_seed(rng))
    return net


def codes(rows: int, scale: float, width: int = 6, seed: int = 0) -> Tensor:
    """One-hot codes of a few distinct rows, as tables of categories have them."""
    rng = torch.Generator().manual_seed(seed)
    distinct = (torch.rand(50, width, generator=rng) < 0.4).float() * scale
    return distinct[torch.randint(50, (rows,), generator=rng)]


def moved(
    clipper: PerExampleClipper,
    losses: object,
    rows: Tensor,
    bound: float,
    reference: list[Tensor] | None,
    place: int,
) -> float:
    """By how many bounds the sum moves if the place's row is not there."""
    keep = torch.ones(len(rows), dtype=torch.bool)
    whole = clipper.clipped_sum(losses, rows, bound, reference, keep)  # type: ignore[arg-type]
    keep[place], without = False, rows.clone()
    without[place] = 0
    less = clipper.clipped_sum(losses, without, bound, reference, keep)  # type: ignore[arg-type]
    return float((flat(whole).double() - flat(less).double()).norm()) / bound


@settings(max_examples=25, deadline=None)
@given(
    batch=st.sampled_from([1, CHUNK - 1, CHUNK, CHUNK + 1, 3000, 40_000, 200_000]),
    weight=st.sampled_from([1e-5, 1e-4, 1e-3, 0.03, 1.0, 100.0]),
    code=st.sampled_from([1e-3, 1.0, 1e4]),
    bound=st.sampled_from([None, 1e-5, 1.0, 1e3]),
    centred=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_a_row_moves_the_sum_by_no_more_than_the_bound(
    batch: int, weight: float, code: float, bound: float | None, centred: bool, seed: int
) -> None:
    """In float32, with weights, codes and bounds of any scale; None is half the median, as training has it."""
    net, rows = critic(weight, seed=seed), codes(batch, code, seed=seed)
    clipper, public = PerExampleClipper(net), codes(64, code, seed=seed + 1)
    reference, norms = clipper.reference(minus_scores, public)
    bound = bound or max(1e-12, 0.5 * float(norms.median()))
    given = reference if centred else None
    assert moved(clipper, minus_scores, rows, bound, given, seed % batch) <= 1


@pytest.mark.slow
def test_a_million_rows() -> None:
    """The largest batch, and the smallest weights: 5.9 bounds before sums were added up in chunks."""
    net, rows = critic(1e-4), codes(1_000_000, 1.0)
    clipper = PerExampleClipper(net)
    reference, norms = clipper.reference(minus_scores, codes(64, 1.0, seed=1))
    result = moved(clipper, minus_scores, rows, 0.5 * float(norms.median()), reference, 777_777)
    assert 0.5 < result <= 1


def by_second_code(module: nn.Module, rows: Tensor) -> Tensor:
    return rows[:, 1] * module(rows[:, :1]).squeeze(1)


def test_biases_subtract_their_reference_before_the_sum() -> None:
    """Gradients of a bias that are 2²⁰ and a few eighths: summed as they are, they lose the eighths. The part of a
    bias in the reference is not in the bound of the rounding, for it is to be gone before the sum."""
    net = mlp((1, 1), torch.Generator().manual_seed(0))
    rows = torch.zeros(4096, 2)  # a weight sees zeros, so that its gradient is 0
    eighths = torch.tensor([3.0, -5.0, 7.0, -2.0, 11.0, -9.0, 4.0]) / 8
    rows[:, 1] = 2.0**20 + eighths[torch.arange(4096) % 7]
    reference = [torch.full_like(p, 2.0**20 * (p.dim() == 1)) for p in net.parameters()]
    clipper = PerExampleClipper(net)
    for place in (0, 100, 2000, 4095):
        assert 0.9 < moved(clipper, by_second_code, rows, 0.1, reference, place) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("ascent", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["wgan-gp", "autoencoder", "groups"])
def test_other_networks_and_rules(kind: str, ascent: float) -> None:
    """Gradient penalty, BAM, the autoencoder, and groups."""
    rows, losses, groups = codes(4000, 1.0, 11), LOSSES["wgan-gp"], None
    if kind == "autoencoder":
        model, encoded = autoencoder()
        net, losses, rows = model.float(), reconstruction_losses, encoded.float().repeat(500, 1)
    elif kind == "groups":
        net, losses, rows = critic(0.01, (5, 4, 1)), minus_scores, rows[:, :5]
        groups = [0, 1, 0, 1]
    else:
        net = drawn(plain("leaky-relu"), 2).float()
    clipper = PerExampleClipper(net, groups, ascent)
    reference, norms = clipper.reference(losses, rows[:20])
    bound = 0.3 * float(norms.median())
    largest = 0.0
    for place, r in itertools.product((3, 77), (None, reference)):
        result = moved(clipper, losses, rows, bound, r, place) / math.sqrt(clipper.group_count)
        assert result <= 1
        largest = max(largest, result)
    assert largest > 0.6


def test_what_is_set_aside_covers_the_rounding() -> None:
    """The sum against one in exact arithmetic of the same factors: within the bound of its proof."""
    net, rows = critic(0.03, (20, 16, 1)), codes(5000, 1.0, 20)
    clipper = PerExampleClipper(net)
    reference, norms = clipper.reference(minus_scores, codes(64, 1.0, 20, seed=1))
    bounds = (0.5 * norms.median()).double()[None]
    sums = clipper.clipped_sum(minus_scores, rows, bounds, reference)
    slack, _ = clipper.rounding(bounds, reference, len(rows))
    assert 0 < float(slack) < 0.03 * float(bounds)
    grads = clipper.gradients(minus_scores, rows)
    sizes = grads.sizes(clipper, reference)
    scale = ((bounds - slack) / sizes.norms).clamp_max(1)[:, 0]
    wanted = []
    named = dict(zip(map(id, clipper.parameters), reference, strict=True))
    for factors in grads.factors:  # type: ignore[union-attr]
        (use,) = factors.uses
        left, right = use.left.double() * scale[:, None], use.right.double()
        weight, bias = factors.layer.weight, factors.layer.bias
        wanted += [left.T @ right - scale.sum() * named[id(weight)].double()]
        wanted += [left.sum(0) - scale.sum() * named[id(bias)].double()]
    order = [id(p) for f in grads.factors for p in (f.layer.weight, f.layer.bias)]  # type: ignore[union-attr]
    result = dict(zip(map(id, clipper.parameters), sums, strict=True))
    error = math.sqrt(
        sum(float((result[k] - w).square().sum()) for k, w in zip(order, wanted, strict=True))
    )
    # A whole batch errs in every chunk, one row in its own: the bound is that of two chunks.
    assert 0 < error <= float(slack) * math.ceil(len(rows) / CHUNK) / 2


@pytest.mark.parametrize("bound", [1.0, 1e-6, 1e-12])
def test_a_factor_too_small_for_float32(bound: float) -> None:
    """Such a factor rounds to up to twice itself: the row would contribute up to twice the bound."""
    layer = nn.Linear(1, 1, bias=False)

    def losses(module: nn.Module, x: Tensor) -> Tensor:
        return module(x[:, :1])[:, 0] * x[:, 1]

    clipper, result = PerExampleClipper(layer), []
    for power in np.arange(124, 152, 0.25):
        rows = torch.full((9, 2), 0.1)
        rows[7] = math.sqrt(bound) * 2.0 ** (power / 2)
        if float(rows[7, 0]) <= LARGEST_FACTOR:
            result.append(moved(clipper, losses, rows, bound, None, 7))
    assert max(result) <= 1 and max(result) > 0.9
    assert len(result) == 112  # every factor from 2^-124 to below 2^-151


def test_a_row_that_is_not_finite_does_not_change_how_others_are_added_up() -> None:
    """Rows that lie column by column in memory: a mask would lay them row by row, and a product of other
    rounding would follow."""

    class Across(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 1, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.T.contiguous().T)

    net = Across()
    for value in (0.51, 0.6543, 0.91, 1.21):
        rows = torch.full((1000, 8), value)
        rows[5] = 0.0
        keep = torch.ones(len(rows), dtype=torch.bool)
        with_it = rows.clone()
        with_it[5] = math.inf

        def losses(module: nn.Module, x: Tensor) -> Tensor:
            return module(x)[:, 0] * x.sum(1)

        clipper = PerExampleClipper(net)
        keep_less = keep.clone()
        keep_less[5] = False
        less = clipper.clipped_sum(losses, rows, 1e-2, None, keep_less)
        more = clipper.clipped_sum(losses, with_it, 1e-2, None, keep)
        assert torch.equal(less[0], more[0])


def test_a_reference_that_is_too_large_is_not_taken_off() -> None:
    """Its rounding could take more of the bound than a quarter: the step does without, and says nothing."""
    net, rows = critic(1.0), codes(60, 1.0)
    with torch.no_grad():
        net[-1].weight.mul_(1e9)  # gradients of the first layer are a billion times the bound
    step, _, _ = engine(
        net, rows, Gaussian(noise_multiplier=1.0), max_norm=1.0, expected_batch=60.0
    )
    public = codes(30, 1.0, seed=1)
    taken: list[list[Tensor]] = []
    plain_sum = step.clipper.clipped_sum

    def watched(losses, inputs, bounds, reference=None, *others):  # type: ignore[no-untyped-def]
        taken.append(reference)
        return plain_sum(losses, inputs, bounds, reference, *others)

    step.clipper.clipped_sum = watched  # type: ignore[method-assign]
    step.gradient(minus_scores, public)
    assert all(float(r.abs().max()) == 0 for r in taken[0])
    with torch.no_grad():
        net[-1].weight.mul_(1e-9)
    step.gradient(minus_scores, public)
    assert any(float(r.abs().max()) > 0 for r in taken[1])


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(0, 5 * CHUNK + 3), seed=st.integers(0, 2**31))
def test_chunks_add_up(rows: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    left, right = torch.randn(rows, 3, generator=rng), torch.randn(rows, 5, generator=rng)
    wanted = left.double().T @ right.double()
    torch.testing.assert_close(chunked_products(left, right), wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(chunked_sum(left), left.double().sum(0), rtol=1e-5, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e20, 1e20), min_size=1, max_size=40))
def test_totals_keep_what_is_rounded_off(values: list[float]) -> None:
    """Against rational numbers."""
    total = Total([torch.tensor([values[0]], dtype=torch.float64)])
    for value in values[1:]:
        total.add([torch.tensor([value], dtype=torch.float64)])
    exact = sum(map(Fraction, values), Fraction(0))
    error = abs(Fraction(float(total.value()[0])) - exact)
    size = sum(abs(Fraction(v)) for v in values)
    assert error <= abs(exact) * Fraction(1, 2**52) + size * Fraction(len(values), 2**100)


@settings(max_examples=40, deadline=None)
@given(
    whole=st.integers(-(2**40), 2**40),
    exponent=st.integers(-20, 20),
    seed=st.integers(0, 2**31),
)
def test_noise_on_a_large_sum_is_noise_on_its_rest(whole: int, exponent: int, seed: int) -> None:
    """A sum is read in steps of the grid, exactly: a sum that is larger by whole steps is released with the
    same noise, larger by as many."""
    std = torch.tensor(1.3 * 2.0**exponent)
    step = 2.0 ** (exponent - 7)
    rest = torch.randn(50, generator=torch.Generator().manual_seed(seed)).double() * step
    out = []
    for shift in (0.0, whole * step):
        noise = TensorNoise(keystream(torch.Generator().manual_seed(seed)), torch.Generator())
        out.append(noise.noisy(rest + shift, std))
    assert out[0].dtype == torch.float64
    # `rest + shift` rounds a rest off below 2^-12 of a step, which moves one value in thousands.
    assert int(((out[1] - out[0]) / step - whole).abs().max()) <= 1
    assert float(((out[1] - out[0]) / step - whole).abs().mean()) < 0.1


def test_what_the_noise_reads_is_covered() -> None:
    assert noise_rounding(10**6, 10.0) < 1e-5
    noise = TensorNoise(keystream(torch.Generator().manual_seed(0)), torch.Generator())
    step = 2.0**-7
    values = torch.full((4000,), (2.0**30 + 37) * step, dtype=torch.float64)  # 2^30 + 64 in float32
    out = noise.noisy(values, torch.tensor(1.0)) / step - 2.0**30
    assert float(out.mean()) == pytest.approx(37, abs=10) and 120 < float(out.std()) < 136


@settings(max_examples=60, deadline=None)
@given(
    expected=st.floats(0, 300),
    count=st.integers(0, 500),
    seed=st.integers(0, 2**31),
)
def test_places(expected: float, count: int, seed: int) -> None:
    """Every row has a place of its own; shapes are public until a batch does not fit."""
    places = Places(expected)
    bits = keystream(torch.Generator().manual_seed(seed))
    picked = torch.arange(1000, 1000 + count)
    drawn = places.draw(count, bits)
    holdout = places.layout(picked, drawn)
    assert sorted(holdout[holdout >= 0].tolist()) == picked.tolist()
    assert torch.equal(holdout[drawn], picked)
    if count <= places.room:
        assert len(holdout) == places.room
    assert len(holdout) % places.room == 0


def test_places_are_drawn_uniformly() -> None:
    """Each of a row's places as likely as any other, whatever the rows are: that is what the bound rests on."""
    places, bits = Places(9.0), np.random.default_rng(0)
    counts = np.zeros((2, places.room))
    for _ in range(20_000):
        drawn = places.draw(6, bits)
        counts[0, int(drawn[0])] += 1
        counts[1, int(drawn[5])] += 1
    expected = 20_000 / places.room
    chi = ((counts - expected) ** 2 / expected).sum(1)
    assert (chi < places.room + 5 * math.sqrt(2 * places.room)).all()


class Beside:
    """A recorder that keeps the sums of steps, and gives all rows of both tables the same places."""

    def __init__(self) -> None:
        self.sums: list[Tensor] = []

    def read(self, account: object, uses: int) -> None: ...

    def batch(self, rows: int, rate: float, generator: torch.Generator) -> Tensor:
        self.rows = rows
        return torch.arange(rows)

    def places(self, room: int) -> Tensor:
        return torch.randperm(room, generator=torch.Generator().manual_seed(5))[: self.rows]

    def exact(
        self, account: object, labels: list[None], values: list[Tensor], *rest: object
    ) -> tuple[list[None], list[Tensor]]:
        self.sums.append(torch.cat([v.flatten() for v in values]))
        return labels, values


@pytest.mark.slow
def test_a_canary_among_many_rows() -> None:
    """R20 at B = 400,000 and weights of 1e-4: what an observer of the noised sums learns of one row is what the
    ledger charges. With plain float32 sums it was five times as much."""
    net, count = critic(1e-4, (12, 8, 1)), 400_000
    rows, public = codes(count + 1, 1.0, 12), codes(256, 1.0, 12, seed=1)
    released: list[list[Tensor]] = [[], []]
    recorder, steps, sigma = Beside(), 3, 1.0
    for with_canary in (0, 1):
        step, _, _ = engine(
            net,
            rows[: count + with_canary],
            Gaussian(noise_multiplier=sigma),
            max_norm=0.5,
            expected_batch=float(count),
            seed=3 + with_canary,
            bound="public",
        )
        released[with_canary], plain_noised = [], step.noisy_mean

        def noised(
            sums: list[Tensor], step: PrivateStep = step, run: object = plain_noised
        ) -> object:
            out = run(sums)  # type: ignore[operator]
            scale = float(step.bounds.noise_scales()[0])
            released[with_canary].append(  # noqa: B023
                torch.cat([s.flatten() for s in out]).double() * count / scale
            )
            return out

        step.noisy_mean = noised  # type: ignore[method-assign, assignment]
        with recorded_by(recorder):  # type: ignore[arg-type]
            for _ in range(steps):
                step.gradient(minus_scores, public)
    direction = recorder.sums[steps] - recorder.sums[0]
    direction = direction / direction.norm()
    one, other = (torch.stack(result) @ direction for result in released)
    mu = float(other.mean() - one.mean())
    error = math.sqrt(2 / steps)  # the noise has standard deviation 1 in these units
    assert mu - 3.3 * error <= 1 / sigma  # 99.9%: no evidence against the charge
    assert mu + 3.3 * error >= 0.85 / sigma  # and the canary was seen
    scale = float(step.bounds.noise_scales()[0])
    assert 0.9 < float((recorder.sums[steps] - recorder.sums[0]).norm()) / scale * sigma <= 1
    assert len(trained(net)) == 4


def test_one_row_changes_the_rounding_of_its_own_chunk_alone() -> None:
    """Four hundred thousand products of one sign: in one float32 sum a row's own is lost in the rounding."""
    rng = torch.Generator().manual_seed(0)
    left, right = (1 + torch.rand(400_000, k, generator=rng) for k in (3, 5))
    whole, place = chunked_products(left, right), 123_456
    own = left[place].double()[:, None] * right[place].double()
    left[place] = 0
    error = (whole - chunked_products(left, right) - own).abs() / own
    assert (
        float(error.max()) <= 2 * CHUNK**2 * 2.0**-24 * 4
    )  # each product is at most four times another
