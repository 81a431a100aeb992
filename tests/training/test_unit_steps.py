"""Private steps over units: all rows of a unit are sampled together and clipped as one."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from private_steps import RULES, grads
from row_gradients import (
    LOSSES,
    NETWORKS,
    Losses,
    autoencoder,
    clip_rows,
    drawn,
    flat,
    group_of_entries,
    normal_rows,
    plain,
    row_gradients,
    scores,
    trained,
)
from scipy import stats
from torch import Tensor, nn

from tabsynth.privacy.accounting.mechanisms import Gaussian, Mechanism, SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.synthesizers.adversarial.autoencoder import reconstruction_losses
from tabsynth.training.clipping import Clipping, PerExampleClipper
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import Batches, Places, PrivateStep, minus_scores
from tabsynth.training.units import UnitPlaces, UnitRows

torch.set_num_threads(1)


def laid(counts: list[int], size: int, most: int, seed: int = 0) -> tuple[Tensor, UnitPlaces]:
    """Places of the rows of units, and the units."""
    rng = torch.Generator().manual_seed(seed)
    places = torch.randperm(size, generator=rng)[: sum(counts)]
    return places, UnitPlaces.of(torch.tensor(counts), places, size, most)


def unit_sums(gradients: Tensor, counts: list[int]) -> Tensor:
    """Sums over the rows of each unit, which come one unit after the other."""
    return torch.stack([part.sum(0) for part in gradients.split(counts)])


COUNTS = [1, 3, 2, 3, 1]
CASES = [
    *(("plain", loss) for loss in LOSSES),
    ("residual", "wgan-gp"),
    ("shared", "scores"),
    ("partial", "scores"),
    ("autoencoder", "heads"),
]


def case(network: str, loss: str, rows: int, seed: int) -> tuple[nn.Module, Losses, Tensor]:
    if network == "autoencoder":
        module, codes = autoencoder(seed)
        return module, reconstruction_losses, codes[:rows]
    module = drawn(NETWORKS[network]("tanh"), seed)
    return module, LOSSES[loss], normal_rows(rows, loss, seed)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ascent", [0.0, 0.1])
@pytest.mark.parametrize("referenced", [False, True])
@pytest.mark.parametrize(("network", "loss"), CASES)
def test_the_sum_of_units_is_brute_force(
    network: str, loss: str, referenced: bool, ascent: float, weighted: bool
) -> None:
    """R2: a unit adds the clipped sum of its rows' gradients, by autograd one row at a time."""
    module, losses, rows = case(network, loss, sum(COUNTS), 3)
    count = len(trained(module))
    groups = [i % 2 for i in range(count)]
    clipper = PerExampleClipper(module, groups, ascent, rows=3)
    reference, mean = None, torch.zeros(1)
    if referenced:
        public = case(network, loss, 4, 9)[2] if network != "autoencoder" else rows[:4]
        reference, _ = clipper.reference(losses, public)
        mean = flat(reference)
    places, units = laid(COUNTS, 14, 3)
    batch = torch.full((14, *rows.shape[1:]), 7.0, dtype=rows.dtype)
    if network == "autoencoder":
        batch = rows[:1].repeat(14, 1)
    batch[places] = rows
    keep = torch.zeros(14, dtype=torch.bool)
    keep[places] = True
    apart, parts = row_gradients(module, losses, rows, ascent) - mean, None
    if weighted:
        parts = torch.rand(14, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        apart = apart * parts[places][:, None]
    sums = unit_sums(apart, COUNTS)
    entries = group_of_entries(module, groups)
    norms = torch.stack([sums[:, entries == j].norm(dim=1) for j in range(2)], dim=1)
    bounds = norms.median(0).values * 1.01  # some units are cut
    result = clipper.clipped_sum(losses, batch, bounds, reference, keep, parts, units)
    slack, _ = clipper.rounding(bounds, reference, 14)
    assert (slack <= 1e-7 * (bounds + mean.norm())).all()
    wanted = clip_rows(sums, bounds - slack, entries).sum(0)
    torch.testing.assert_close(flat(result), wanted, rtol=1e-9, atol=1e-9)
    # A unit that is not kept adds nothing.
    keep[places[1:4]] = False
    result = clipper.clipped_sum(losses, batch, bounds, reference, keep, parts, units)
    without = clip_rows(sums[[0, 2, 3, 4]], bounds - slack, entries).sum(0)
    torch.testing.assert_close(flat(result), without, rtol=1e-9, atol=1e-9)


# The places of two neighbouring batches: the second one lacks the unit of the first places.
SENSITIVE = [
    ("plain", "scores"),
    ("plain", "wgan-gp"),
    ("shared", "scores"),
    ("autoencoder", "heads"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("network", "loss"), SENSITIVE)
def test_one_unit_moves_the_sum_by_its_bound(network: str, loss: str) -> None:
    """R2, R9, R10: over random states and gradient scales, a unit of one to four rows moves group j by at most C_j."""
    rng, most = torch.Generator().manual_seed(7), 4
    module, losses, rows = case(network, loss, 12, 1)
    count = len(trained(module))
    largest = [0.0] * 4
    for state in range(40):
        size = 10.0 ** (-2 + 5 * (state % 30) / 29)
        with torch.no_grad():
            for p in module.parameters():
                p.normal_(generator=rng).mul_(size ** (1 / 3))
        batch = rows[torch.randperm(len(rows), generator=rng)]
        if state % 3 == 0:
            batch = batch * size
        kind = state % 4
        groups, ascent = [i % 3 * (kind % 2) for i in range(count)], 0.3 * (kind // 2)
        clipper = PerExampleClipper(module, groups, ascent, rows=most)
        bounds = torch.tensor([0.8, 3.0, 0.05][: clipper.group_count]).double()
        reference = clipper.reference(losses, batch[9:])[0] if state % 3 else None
        own = 1 + state % most
        places, units = laid([own, 3, 2], len(batch), most, state)
        keep = torch.zeros(len(batch), dtype=torch.bool)
        keep[places] = True
        one = clipper.clipped_sum(losses, batch, bounds, reference, keep, units=units)
        keep[places[:own]] = False
        fewer = UnitPlaces.of(torch.tensor([3, 2]), places[own:], len(batch), most)
        other = clipper.clipped_sum(losses, batch, bounds, reference, keep, units=fewer)
        apart, entries = flat(one) - flat(other), group_of_entries(module, groups)
        moved = torch.stack([apart[entries == j].norm() for j in range(len(bounds))]) / bounds
        assert (moved <= 1 + 1e-9).all(), (state, size, moved)
        largest[kind] = max(largest[kind], float(moved.norm()) / math.sqrt(len(bounds)))
    assert min(largest) > 0.99  # the bound was reached: the test can fail


@settings(max_examples=15, deadline=None)
@given(
    weight=st.sampled_from([1e-4, 0.03, 1.0, 100.0]),
    code=st.sampled_from([1e-3, 1.0, 1e4]),
    bound=st.sampled_from([None, 1e-5, 1e3]),
    centred=st.booleans(),
    units=st.sampled_from([1, 40, 3000]),
    most=st.sampled_from([2, 5]),
    seed=st.integers(0, 2**16),
)
def test_rounding_moves_the_sum_by_no_more_than_the_bound(
    weight: float, code: float, bound: float | None, centred: bool, units: int, most: int, seed: int
) -> None:
    """R21: in float32, with weights, codes and bounds of any scale, and rows of a unit in many chunks."""
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    net = mlp((6, 4, 1), generator, activation="leaky-relu")
    with torch.no_grad():
        for p in net.parameters():
            p.uniform_(-weight, weight, generator=generator)
    counts = rng.integers(1, most + 1, units)
    counts[0] = most
    size = int(counts.sum()) + 5
    rows = (torch.rand(50, 6, generator=generator) < 0.4).float() * code
    batch = rows[torch.randint(50, (size,), generator=generator)]
    places = torch.randperm(size, generator=generator)[: int(counts.sum())]
    clipper = PerExampleClipper(net, rows=most)
    reference, norms = clipper.reference(minus_scores, rows)
    bound = bound or max(1e-12, 0.5 * float(norms.median()))
    sums = []
    for first in (0, most):  # with the first unit, and without it
        counted = torch.from_numpy(counts if first == 0 else counts[1:])
        keep = torch.zeros(size, dtype=torch.bool)
        keep[places[first:]] = True
        where = UnitPlaces.of(counted, places[first:], size, most)
        given = reference if centred else None
        sums.append(flat(clipper.clipped_sum(minus_scores, batch, bound, given, keep, units=where)))
    assert float((sums[0] - sums[1]).norm()) <= bound


@pytest.mark.parametrize("network", ["plain"])
def test_a_unit_with_a_row_that_is_not_finite_adds_nothing(network: str) -> None:
    """R3: neither does it change what other units add, to the bit; nor do such rows at blank places."""
    module, losses, rows = case(network, "scores", 10, 2)
    batch, results = rows.float(), []
    module.float()
    for bad in (math.nan, math.inf, 1e38, 0.0):
        clipper = PerExampleClipper(module, rows=3)
        places, units = laid([3, 2, 1], 10, 3)
        keep = torch.zeros(10, dtype=torch.bool)
        keep[places] = True
        changed = batch.clone()
        changed[places[1]] = bad
        if bad == 0.0:
            keep[places[:3]] = False
        else:
            changed[~keep] = bad
        results.append(flat(clipper.clipped_sum(losses, changed, 0.5, None, keep, units=units)))
    assert float(results[0].norm()) > 0.5
    assert all(torch.equal(result, results[0]) for result in results[1:])


def unit_step(
    module: nn.Module,
    rows: Tensor,
    units: np.ndarray,
    mechanism: Mechanism,
    *,
    most: int,
    rate: float = 1.0,
    rule: str = "dp-sgd",
    expected_batch: float = 10.0,
    seed: int = 0,
    **clipping: object,
) -> PrivateStep:
    ledger = Ledger(math.inf, 1e-5)
    return PrivateStep(
        module,
        table=PrivateTable(UnitRows(rows, units, most), ledger),
        account=ledger.open("critic", mechanism, 10**6),
        batches=Batches(
            rate=rate,
            expected_batch=expected_batch,
            max_rows_per_unit=most,
        ),
        generator=torch.Generator().manual_seed(seed),
        rule=RULES[rule],
        clipping=Clipping(**clipping),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("expected", [10.0, 0.1])  # a batch that fits, and one that does not
def test_a_step_is_the_clipped_sum_of_units(rule: str, expected: float) -> None:
    """R2, R5: Σ clip(Σⱼ (gⱼ − r)) over the expected number of rows, whatever the order of the table."""
    module = drawn(plain("tanh"), 0)
    public, rows = normal_rows(11, "scores", 1), normal_rows(60, "scores", 2, 3.0)
    units = np.random.default_rng(0).integers(0, 30, 60).astype(np.uint64)
    most = int(np.unique(units, return_counts=True)[1].max())
    step = unit_step(
        module,
        rows,
        units,
        Gaussian(noise_multiplier=1e-13),
        most=most,
        rule=rule,
        expected_batch=expected,
        max_norm=0.7,
        bound="public",
    )
    step.gradient(scores, public)
    mean = row_gradients(module, scores, public, step.clipper.ascent).mean(0)
    apart = row_gradients(module, scores, rows, step.clipper.ascent) - mean
    sums = torch.stack([apart[units == unit].sum(0) for unit in np.unique(units)])
    assert most > 2
    wanted = clip_rows(sums, step.bounds.now).sum(0) / expected
    np.testing.assert_allclose(grads(module), wanted.numpy(), rtol=1e-7, atol=1e-9)


def test_a_unit_more_changes_no_place_and_one_part() -> None:
    """R2: each unit has the places that were drawn for it."""
    module = drawn(plain("tanh"), 0)
    rows, units = normal_rows(10, "scores", 2, 3.0), np.repeat(np.arange(5), [1, 3, 2, 3, 1])
    given = {"most": 3, "max_norm": 0.5}
    step = unit_step(module, rows, units.astype(np.uint64), Gaussian(noise_multiplier=1.0), **given)
    layout, where = step._layout_of_units(step.table.read(step.account))
    batch = rows[layout.clamp_min(0)]
    whole = step.clipped_sums(scores, batch, layout >= 0, None, None, where)
    for unit in range(5):
        keep = (layout >= 0) & torch.from_numpy(units != unit)[layout.clamp_min(0)]
        fewer = step.clipped_sums(scores, batch, keep, None, None, where)
        moved = flat([a - b for a, b in zip(whole, fewer, strict=True)])
        own = clip_rows(unit_sums(row_gradients(module, scores, rows), COUNTS), torch.tensor([0.5]))
        torch.testing.assert_close(moved, own[unit], rtol=1e-6, atol=1e-9)
        assert moved.norm() <= 0.5


def test_units_are_sampled_whole_at_the_rate_of_the_account() -> None:
    """R5: 2,000 batches: each unit in, independently, at q, and then with all of its rows."""
    counts = np.array([1, 2, 5, 3, 1, 1, 4, 2])
    units = np.repeat(np.arange(8), counts).astype(np.uint64)
    order = np.random.default_rng(3).permutation(len(units))
    rows, most, rate = torch.from_numpy(order)[:, None].float(), 5, 0.3
    step = unit_step(
        mlp([1, 1], torch.Generator().manual_seed(0)),
        rows,
        units[order],
        SubsampledGaussian(noise_multiplier=1.0, sampling_rate=rate),
        most=most,
        rate=rate,
        expected_batch=rate * len(units),
    )
    table = step.table.read(step.account)
    batches, taken = 2000, np.zeros((2000, 8))
    for batch in range(batches):
        layout, where = step._layout_of_units(table)
        picked = layout[layout >= 0].numpy()
        inside = np.bincount(units[order][picked].astype(int), minlength=8)
        assert ((inside == 0) | (inside == counts)).all()
        assert len(layout) == step.places.room
        assert (where.members[:, 0] == torch.arange(len(where.members))).sum() == (inside > 0).sum()
        taken[batch] = inside > 0
    spread = ((taken.sum(0) - batches * rate) ** 2).sum() / (batches * rate * (1 - rate))
    assert 1e-4 < stats.chi2(8).cdf(spread) < 1 - 1e-4
    pairs = np.corrcoef(taken.T)[np.triu_indices(8, 1)] * math.sqrt(batches)
    assert np.abs(pairs).max() < 4.5


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(1, 5), max_size=40),
    spare=st.integers(0, 30),
    seed=st.integers(0, 2**31),
)
def test_places_of_a_unit_list_each_other(counts: list[int], spare: int, seed: int) -> None:
    """At each place the rows of its unit, in order; sums over units are those of the rows, the same at each place."""
    size = sum(counts) + spare
    places = Places(float(sum(counts)), together=5).draw(sum(counts), Keystream(seed.to_bytes(32)))
    size = max(size, int(places.max()) + 1 if len(places) else 1)
    units = UnitPlaces.of(torch.tensor(counts, dtype=torch.int64), places, size, 5)
    values = torch.rand(size, 2, generator=torch.Generator().manual_seed(seed))
    totals, where = units.total(values), 0
    for count in counts:
        own = places[where : where + count]
        for rank, place in enumerate(own):
            assert units.members[place].tolist() == own.tolist() + [-1] * (5 - count)
            later = [at[place].item() for at in units.later]
            assert later == own[rank + 1 :].tolist() + [-1] * (4 - (count - 1 - rank))
            torch.testing.assert_close(totals[place], values[own].double().sum(0))
            assert torch.equal(totals[place], totals[own[0]])
        where += count
    blank = torch.ones(size, dtype=torch.bool)
    blank[places] = False
    assert (units.members[blank] == -1).all() and (totals[blank] == 0).all()
    assert (units.members[:, 0] == torch.arange(len(units.members))).sum() == len(counts)


def test_room_for_units() -> None:
    """Units of m rows have room for as many units as rows would have, where all have m; the shape is public."""
    for expected, most in itertools.product((0.0, 3.0, 500.0), (1, 4, 50)):
        alone = Places(expected / most)
        assert Places(expected, together=most).room >= most * (alone.room - 1)


def test_units_with_one_number_are_cut_to_their_bound() -> None:
    """Two units whose hashes are equal count as one, of no more rows than one may have."""
    rows = UnitRows(torch.zeros(7, 1), np.array([4, 4, 9, 4, 9, 4, 4], dtype=np.uint64), 3)
    picked, counts = rows.of(torch.arange(rows.count))
    assert picked.tolist() == [0, 1, 3, 2, 4] and counts.tolist() == [3, 2]


@pytest.mark.slow
def test_a_canary_of_three_rows_is_seen_as_one_record() -> None:
    """R20 in small: a unit of three rows that is as long as it may be is as visible as μ = √T/σ says, and no more."""
    runs, steps, sigma, most = 150, 2, 0.7, 3
    module = nn.Linear(6, 1, bias=False)
    canary = torch.zeros(3, 6)
    canary[torch.arange(3), torch.tensor([2, 2, 4])] = torch.tensor([100.0, 50.0, 70.0])
    rows, units = torch.zeros(4, 6), np.array([5, 5, 6, 7], dtype=np.uint64)

    def losses(m: nn.Module, x: Tensor) -> Tensor:
        return scores(m, x) * (x.abs().sum(1) > 0)

    part = torch.autograd.grad(losses(module, canary).sum(), trained(module))[0]

    def statistics(table: Tensor, numbers: np.ndarray, seed: int) -> np.ndarray:
        step = unit_step(
            module,
            table,
            numbers,
            Gaussian(noise_multiplier=sigma),
            most=most,
            seed=seed,
            max_norm=0.5,
        )
        out = np.zeros(runs)
        for run, _ in itertools.product(range(runs), range(steps)):
            step.gradient(losses)
            out[run] += float((module.weight.grad * part).sum() / part.norm())
        return out

    numbers = np.append(units, [9, 9, 9]).astype(np.uint64)
    without = statistics(rows, units, 1)
    with_canary = statistics(torch.cat([rows, canary]), numbers, 2)
    mu = math.sqrt(steps) / sigma
    spread = np.sqrt((without.var(ddof=1) + with_canary.var(ddof=1)) / 2)
    assert 0.8 * mu < (with_canary.mean() - without.mean()) / spread < 1.25 * mu
