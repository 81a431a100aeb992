"""MargNet's generator: its loss by brute force, that it learns, when it stops, how it is rounded."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from tabsynth import Schema
from tabsynth.encoding import Layout, TableEncoder
from tabsynth.privacy.noise.counts import Measured, by_value, count_rows
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet import estimation
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import (
    MargNetFit,
    dependence_of,
)
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution
from tabsynth.synthesizers.mixture import Mixture
from tabsynth.training.loop import TrainingMonitor
from tabsynth.training.networks import one_cycle

torch.set_num_threads(1)


def columns_of(*sizes: int) -> list[Column]:
    return [
        Column(name=f"c{i}", kind="categorical", dtype="int64", categories=tuple(range(size)))
        for i, size in enumerate(sizes)
    ]


def layout_of(*sizes: int) -> Layout:
    return TableEncoder(Schema(columns_of(*sizes))).layout


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def counted(index: np.ndarray, sizes: tuple[int, ...], std: float, seed: int = 0) -> list[Measured]:
    """Noisy counts of all columns and pairs."""
    noise = np.random.default_rng(seed)
    results = []
    everyone = range(len(sizes))
    for columns in [*combinations(everyone, 1), *combinations(everyone, 2)]:
        exact = count_rows(index, columns, by_value(sizes))
        results.append(Measured(columns, exact + std * noise.standard_normal(exact.shape), std))
    return results


def measurements(
    counts: list[Measured], sizes: Sequence[int], rows: float, by: Resolution | None = None
) -> Measurements:
    """Counts of a fit; by default each value by itself."""
    return Measurements(counts, rows, by or Resolution.by_value(sizes))


def tiny(**changes: Any) -> MargNetConfig:
    parameters = {
        "components": 60,
        "latent_dim": 8,
        "hidden": (32,),
        "steps": 600,
        "learning_rate": 0.03,
    }
    return MargNetConfig(**{**parameters, **changes})


def fit_of(
    measured: list[Measured], sizes: tuple[int, ...], rows: float, seed: int = 0, **changes: Any
) -> MargNetFit:
    counts = measurements(measured, sizes, rows)
    return MargNetFit(layout_of(*sizes), tiny(**changes), counts, rng(seed))


def correlated(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, tuple[int, ...]]:
    """Columns that follow the first one, with three rows in four."""
    generator = np.random.default_rng(seed)
    first = generator.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    others = [
        np.where(generator.random(n) < 0.75, first % size, generator.integers(0, size, n))
        for size in (4, 3, 2)
    ]
    return np.stack([first, *others], axis=1), (4, 4, 3, 2)


def distance(one: np.ndarray, other: np.ndarray, sizes: tuple[int, ...]) -> float:
    """Mean total variation distance of pairs of columns."""
    results = [
        np.abs(
            count_rows(one, pair, by_value(sizes)) / len(one)
            - count_rows(other, pair, by_value(sizes)) / len(other)
        ).sum()
        / 2
        for pair in combinations(range(len(sizes)), 2)
    ]
    return float(np.mean(results))


# The fit.


def test_it_stops_at_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first step whose loss is that of the noise; what is left are steps that do nothing."""
    index, sizes = correlated()
    measured = counted(index, sizes, 12.0, seed=1)
    monkeypatch.setattr(estimation, "CONTINUATION", 0.0)
    monkeypatch.setattr(estimation, "FURTHER_STEPS", 0)
    fit = fit_of(measured, sizes, float(len(index)))
    assert fit.fit(TrainingMonitor()) == 600
    assert fit.noise_step is not None and 3 < len(fit.errors) < 300
    assert fit.errors[-1] <= 1 < min(fit.errors[:-1])
    # Nothing moved after it: a fit of no more steps than those, on the same schedule, is the same.
    second = fit_of(measured, sizes, float(len(index)))
    for i in range(len(fit.errors)):
        second.step(i, 600)
    torch.testing.assert_close(
        fit.mixture().probabilities, second.mixture().probabilities, rtol=0, atol=0
    )
    # The noise is what is left: without a stop the loss goes on down.
    longer = fit_of(measured, sizes, float(len(index)))
    longer.fit(TrainingMonitor(trial_steps=600))
    assert longer.errors[-1] < 0.8 and longer.noise_step is None


@pytest.mark.slow
def test_it_goes_on_past_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """For so many times the steps till then, and softly: the last ones change next to nothing."""
    index, sizes = correlated()
    measured = counted(index, sizes, 12.0, seed=1)
    monkeypatch.setattr(estimation, "CONTINUATION", 0.0)
    monkeypatch.setattr(estimation, "FURTHER_STEPS", 0)
    stopped = fit_of(measured, sizes, float(len(index)))
    stopped.fit(TrainingMonitor())
    monkeypatch.setattr(estimation, "CONTINUATION", 5.0)
    fits = [fit_of(measured, sizes, float(len(index))) for _ in range(2)]
    fit, other = fits
    fit.fit(TrainingMonitor())
    assert 0.5 < fit.entropy_share == stopped.entropy_share < 1
    turned = len(stopped.errors) - 1
    assert (
        stopped.noise_step == fit.noise_step == turned
        and fit.errors[: turned + 1] == stopped.errors
    )
    # Where less is clear it goes on for less.
    assert len(fit.errors) == turned + int(5.0 * fit.entropy_share * turned) < 600
    assert fit.errors[-1] < stopped.errors[-1]
    moved = np.abs(np.diff(fit.errors))
    assert moved[-5:].max() < 0.1 * moved[turned : turned + 5].max()
    # Set back to its state on the way, it takes the same steps.
    half = turned + turned // 2
    for i in range(half):
        other.step(i, 600)
    second = fit_of(measured, sizes, float(len(index)), seed=9)
    second.load_state_dict(other.state_dict())
    for i in range(half, 600):
        second.step(i, 600)
    assert second.errors == fit.errors


def test_entropy_weighs_more_past_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weight and the rate at each step, against the schedules that the configuration promises."""
    taken: list[tuple[float, float]] = []
    descend = MargNetFit._descend

    def watched(fit: MargNetFit, p: Any, gradient: Any, rate: float, entropy: float) -> None:
        taken.append((rate, entropy))
        descend(fit, p, gradient, rate, entropy)

    monkeypatch.setattr(MargNetFit, "_descend", watched)
    index, sizes = correlated()
    fit = fit_of(counted(index, sizes, 12.0, seed=1), sizes, float(len(index)))
    fit.fit(TrainingMonitor())
    turned, steps = fit.noise_step, len(fit.errors)
    assert turned is not None and steps == len(taken) > 2 * turned
    rates, weights = np.array(taken).T
    before = np.arange(turned) / 600
    grown = np.minimum(np.arange(turned + 1) + 1, 100) / 100
    highest = 0.03 * grown * np.cos(np.pi / 2 * np.arange(turned + 1) / 600) ** 2
    np.testing.assert_allclose(rates[:turned], highest[:-1])
    np.testing.assert_allclose(weights[:turned], 1 - before)
    left = np.linspace(1, 0, steps - turned, endpoint=False)
    np.testing.assert_allclose(rates[turned:], highest[-1] * np.sin(np.pi * left / 2) ** 2)
    assert fit.late_entropy == 2
    np.testing.assert_allclose(weights[turned:], 2 * (1 - turned / 600) * left)


def test_components_follow_what_counts_show() -> None:
    """From 200 to 1,000, by the fifth root of the distance from independence; fewer for few columns."""
    results = [MargNetConfig().rows_of_mixture(columns) for columns in (1, 3, 10, 50)]
    assert results == [200, 300, 1000, 1000]
    shown = [MargNetConfig().rows_of_mixture(20, x) for x in (-5.0, 0.0, 2000.0, 64_000.0, 1e9)]
    assert shown == [200, 200, 250, 500, 1000]
    assert MargNetConfig().rows_of_mixture(3, 1e9) == 300
    assert MargNetConfig(components=7).rows_of_mixture(50, 1e9) == 7


def test_dependence_is_the_excess_error_of_independent_columns() -> None:
    """Of pairs and triples, against chi-squared sums cell by cell; about 0 where columns are independent."""
    index, sizes = correlated()
    std, n, everyone = 5.0, len(index), by_value((4, 4, 3, 2))
    measured = [*counted(index, sizes, std)]
    exact = count_rows(index, (0, 1, 2), everyone)
    measured.append(Measured((0, 1, 2), exact, std))
    shares = [np.bincount(index[:, j], minlength=size) / n for j, size in enumerate(sizes)]
    by_hand = 0.0
    for m in measured:
        if len(m.columns) > 1:
            for cell in np.ndindex(m.counts.shape):
                expected = n * math.prod(shares[j][v] for j, v in zip(m.columns, cell, strict=True))
                by_hand += ((m.counts[cell] - expected) / std) ** 2 - 1
    assert dependence_of(measurements(measured, sizes, n), shares) == pytest.approx(by_hand / 4)
    free = np.random.default_rng(0).permuted(index, axis=0)
    noisy = measurements(counted(free, sizes, 40.0), sizes, n)
    assert abs(dependence_of(noisy, shares)) < 10


def test_entropy_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two fits to the same counts, the one where entropy weighs has rows that say less."""
    index, sizes = correlated()
    measured = counted(index, sizes, 5.0)
    entropies = []
    for weight in (0.0, 20.0):
        monkeypatch.setattr(estimation, "ENTROPY", weight)
        fit = fit_of(measured, sizes, float(len(index)))
        fit.fit(TrainingMonitor(trial_steps=600))
        p = fit.mixture().probabilities.double().clamp_min(1e-12)
        entropies.append(float(-(p * p.log()).sum(1).mean()))
        assert fit.errors[-1] < 0.2 * fit.errors[0]
    assert entropies[1] > entropies[0] + 0.05


def test_the_weight_of_entropy_follows_what_counts_show() -> None:
    """By what independent columns leave unexplained, for each column.

    It is a tenth to all of its weight, after the noise level twice as much or less.
    """
    fit = fit_of(counted(*correlated(300), 3.0), (4, 4, 3, 2), 300.0)
    assert fit.entropy_share == pytest.approx(fit.dependence / 2000)
    for dependence, share, late in (
        (-50, 0.1, 2),
        (199, 0.1, 2),
        (1000, 0.5, 2),
        (2000, 1, 2),
        (50_000, 1, 2),
        (200_000, 1, 1.25),
    ):
        fit.dependence = float(dependence)
        assert fit.entropy_share == pytest.approx(share)
        assert fit.late_entropy == pytest.approx(late)


def clearer(index: np.ndarray, sizes: tuple[int, ...]) -> list[Measured]:
    """Noisy counts, of which those of one pair are twice as clear as the others."""
    noisy, clear = (counted(index, sizes, std) for std in (10.0, 5.0))
    return [c if c.columns == (0, 1) else m for m, c in zip(noisy, clear, strict=True)]


def test_a_rise_leads_back_to_the_step_of_less_error() -> None:
    """Also where the error is no number; a rise to less than four times the error changes nothing."""
    index, sizes = correlated(300)
    fit = fit_of(counted(index, sizes, 3.0), sizes, 300.0, steps=40)
    for i in range(10):
        fit.step(i, 40)
    assert fit.best is not None and fit.best["loss"] < fit.errors[0]
    best = fit.best["network"]
    for rise, rate in ((3.9, 0.03), (4.1, 0.015), (math.nan, 0.0075)):
        with torch.no_grad():
            fit.network.inputs.add_(1.0)
        fit._is_stable(rise * fit.best["loss"])
        assert fit.rate == rate
        same = all(torch.equal(best[name], t) for name, t in fit.network.state_dict().items())
        assert same == (rate < 0.03)


@pytest.mark.parametrize("rate", [0.03, 1.0])
def test_state_goes_on_where_it_was(rate: float) -> None:
    """A fit set back to its state takes the same steps to the bit, also after it has gone back to a smaller rate."""
    index, sizes = correlated(3000)
    measured = clearer(index, sizes)
    whole, first, second = (
        fit_of(measured, sizes, 3000.0, seed=seed, steps=400, learning_rate=rate)
        for seed in (0, 0, 7)
    )
    whole.fit(TrainingMonitor())

    def interrupt(stage: str, done: int, total: int) -> None:
        if done == 120:
            raise KeyboardInterrupt

    monitor = TrainingMonitor(progress=interrupt)
    assert first.fit(monitor) == 120 and monitor.stopped == "interrupted"
    state = first.state_dict()
    second.load_state_dict(state)
    for i in range(120, 400):
        second.step(i, 400)
    assert second.errors == whole.errors and second.rate == whole.rate
    assert (whole.rate < rate) == (rate == 1)
    torch.testing.assert_close(
        second.mixture().probabilities, whole.mixture().probabilities, rtol=0, atol=0
    )


def short_network(monkeypatch: pytest.MonkeyPatch, further: int = 40) -> None:
    """Let the components go on by themselves after 20 steps."""
    monkeypatch.setattr(MargNetFit, "network_steps", 20)
    monkeypatch.setattr(estimation, "COMPONENT_STEPS", further)


def test_components_go_on_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the network's steps have not led to the noise: with fewer steps than it, and with less entropy past the noise."""
    index, sizes = correlated(3000)
    measured = counted(index, sizes, 0.8)
    network = fit_of(measured, sizes, 3000.0)
    network.fit(TrainingMonitor())
    short_network(monkeypatch)
    fit = fit_of(measured, sizes, 3000.0)
    fit.fit(TrainingMonitor())
    assert network.noise_step is not None and fit.noise_step is not None
    assert 20 < fit.noise_step < network.noise_step
    further = max(40, fit.noise_step - 20)
    assert len(fit.errors) == fit.noise_step + further
    assert fit.errors[fit.noise_step] <= 1 < fit.errors[fit.noise_step - 1]
    p = fit.mixture().probabilities
    blocks = fit.layout.blocks
    for block in blocks:
        torch.testing.assert_close(p[:, block.start : block.stop].sum(1), torch.ones(len(p)))
    assert fit.loss(p)[0] <= 1.02 * fit.errors[-1]
    # The weights of entropy, which are those of the network before.
    places = [
        19,
        20,
        fit.noise_step,
        *(fit.noise_step + 1 + math.ceil(further * k / 3) for k in range(3)),
    ]
    weights = [fit._entropy_of_components(i, 600) for i in places]
    late = np.array([1.0, 0.8, 0.6]) * fit.late_entropy
    np.testing.assert_allclose(weights, (1 - 20 / 600) * np.array([1, 1, 1, *late]))


def test_components_stop_where_nothing_more_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts that no table has are never met: the steps end long before the last, and the error is the least that there is."""
    short_network(monkeypatch)
    index, sizes = correlated(1000)
    measured = counted(index, sizes, 1.0)
    # The counts of a pair, in another order than the columns by themselves have it.
    wrong = [
        replace(m, counts=m.counts[::-1].copy()) if m.columns == (0, 1) else m for m in measured
    ]
    fit = fit_of(wrong, sizes, 1000.0, steps=3000)
    fit.fit(TrainingMonitor())
    assert min(fit.errors) > 5 and fit.noise_step is not None and len(fit.errors) < 600
    longer = fit_of(wrong, sizes, 1000.0, steps=3000)
    longer.trial = True
    for i in range(1000):
        longer.step(i, 3000)
    assert longer.noise_step is None and fit.errors[-1] < 1.05 * longer.errors[-1]


def test_components_go_on_from_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after they leave the network, and past the noise, to the bit."""
    short_network(monkeypatch)
    index, sizes = correlated(3000)
    measured = counted(index, sizes, 0.8)
    whole = fit_of(measured, sizes, 3000.0)
    whole.fit(TrainingMonitor())
    assert whole.noise_step is not None
    for half in (10, 20, 27, whole.noise_step + 5):
        first, second = (fit_of(measured, sizes, 3000.0, seed=seed) for seed in (0, 7))
        for i in range(half):
            first.step(i, 600)
        second.load_state_dict(first.state_dict())
        for i in range(half, len(whole.errors)):
            second.step(i, 600)
        assert second.errors == whole.errors
        ours, theirs = (fit.mixture().probabilities for fit in (second, whole))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_a_trial_takes_as_many_steps_as_it_may() -> None:
    index, sizes = correlated(100)
    fit = fit_of(counted(index, sizes, 0.0), sizes, 100.0)
    assert fit.fit(TrainingMonitor(trial_steps=8)) == 8 == len(fit.errors)
    (curve,) = fit.curves.values()
    assert curve["value"] == [fit.errors[0], fit.errors[6]] and curve["step"] == [0.0, 6.0]


def test_a_trial_does_not_stop_at_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps are to be timed: on made-up rows a fit would soon be done."""
    monkeypatch.setattr(MargNetFit, "_at_noise", lambda *_: True)
    monkeypatch.setattr(estimation, "CONTINUATION", 0.0)
    monkeypatch.setattr(estimation, "FURTHER_STEPS", 0)
    index, sizes = correlated(100)
    lengths = []
    for most in (8, None):
        fit = fit_of(counted(index, sizes, 3.0), sizes, 100.0)
        fit.fit(TrainingMonitor(trial_steps=most))
        lengths.append(len(fit.errors))
    assert lengths == [8, 1]


def test_the_first_rows_follow_the_one_way_counts() -> None:
    """Also of a column of many values, and of null."""
    column = Column(
        name="a",
        kind="ordinal",
        dtype="Int64",
        nulls=True,
        categories=tuple(range(80)),
    )
    layout = TableEncoder(Schema([column])).layout
    counts = 1000 * np.exp(-0.5 * ((np.arange(81) - 30) / 15) ** 2)
    counts[80] = 5000
    config = tiny()
    measured = measurements([Measured((0,), counts, 1.0)], layout.sizes, counts.sum())
    fit = MargNetFit(layout, config, measured, rng())
    result = fit.mixture().probabilities.double().mean(0).numpy()
    np.testing.assert_allclose(result, counts / counts.sum(), atol=5e-3)


def test_a_fit_starts_near_the_tree_model() -> None:
    """Its first error is a part of that of independent columns with the same counts."""
    index, sizes = correlated()
    fit = fit_of(counted(index, sizes, 12.0, seed=1), sizes, float(len(index)))
    start = fit.loss(fit.network())[0]
    with torch.no_grad():
        fit.network.body[-1].weight.zero_()
    assert start < 0.4 * fit.loss(fit.network())[0]


def test_one_cycle() -> None:
    results = [one_cycle(t) for t in np.linspace(0, 1, 101)]
    assert results[0] == pytest.approx(0.04) and max(results) == 1.0 and results[-1] < 1e-12
    peak = int(np.argmax(results))
    assert all(np.diff(results[: peak + 1]) > 0) and all(np.diff(results[peak:]) < 0)


# Whole rows.


def mixture_of(sizes: tuple[int, ...], components: int = 40, seed: int = 0) -> Mixture:
    layout = layout_of(*sizes)
    logits = 2 * torch.randn(components, layout.width, generator=rng(seed))
    parts = [torch.softmax(logits[:, b.start : b.stop], 1) for b in layout.blocks]
    return Mixture(layout, components).set(torch.cat(parts, 1))


def expected_pairs(mixture: Mixture) -> dict[tuple[int, int], np.ndarray]:
    p = mixture.probabilities.double().numpy()
    blocks = mixture.layout.blocks
    return {
        (a, b): p[:, blocks[a].start : blocks[a].stop].T
        @ p[:, blocks[b].start : blocks[b].stop]
        / len(p)
        for a, b in combinations(range(len(blocks)), 2)
    }


def test_rows_follow_the_mixture() -> None:
    """Rounded or not, many draws have the mixture's pairs, and rounding is much the closer one."""
    sizes = (5, 4, 3, 2)
    mixture = mixture_of(sizes)
    wanted = expected_pairs(mixture)
    misses = {}
    for rounded in (False, True):
        synthetic = mixture.sample(4000, rng(2), rounded=rounded)
        assert synthetic.shape == (4000, 4) and synthetic.dtype == np.int64
        errors = [
            count_rows(synthetic, pair, by_value(sizes)) / 4000 - wanted[pair] for pair in wanted
        ]
        misses[rounded] = sum(np.abs(e).sum() for e in errors) / 2 / len(errors)
    assert misses[False] < 0.03 and misses[True] < 0.25 * misses[False]


def test_triples_count_where_there_is_time() -> None:
    """Of too many triples there is one sweep, or sweeps are of pairs alone; of too many pairs there are fewer sweeps, or none."""
    narrow, wide = mixture_of((3,) * 10), mixture_of((3,) * 24)
    assert narrow._sweeps(20_000) == (2, True) and narrow._sweeps(550_000) == (1, True)
    assert narrow._sweeps(560_000) == (2, False) and narrow._sweeps(3_000_000) == (1, False)
    assert wide._sweeps(16_000) == (2, True) and wide._sweeps(27_000) == (1, True)
    assert wide._sweeps(34_000) == (2, False)
    assert wide._sweeps(1_000_000) == (0, False)


def test_draws_have_the_law_of_their_component() -> None:
    """One component: each column's draws, before rounding, are those of its distribution (χ²)."""
    from scipy import stats

    mixture = mixture_of((7, 3), components=1, seed=4)
    synthetic = mixture.sample(30_000, rng(5), rounded=False)
    p = mixture.probabilities.double().numpy()[0]
    for j, block in enumerate(mixture.layout.blocks):
        wanted = 30_000 * p[block.start : block.stop]
        counts = np.bincount(synthetic[:, j], minlength=block.size)
        assert stats.chisquare(counts, wanted * counts.sum() / wanted.sum()).pvalue > 1e-4
    assert abs(np.corrcoef(synthetic.T)[0, 1]) < 0.03


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "draws"), [(1, 1500), (5, 400), (50, 60), (400, 10)])
def test_tables_of_few_rows_follow_the_mixture(rows: int, draws: int) -> None:
    """Values and pairs of which less than one is expected come as often as they should on average."""
    mixture = mixture_of((3, 8, 5))
    counts = {pair: np.zeros(p.shape) for pair, p in expected_pairs(mixture).items()}
    for seed in range(draws):
        index = mixture.sample(rows, rng(seed))
        for (a, b), result in counts.items():
            np.add.at(result, (index[:, a], index[:, b]), 1)
    for pair, p in expected_pairs(mixture).items():
        wanted, result = p * rows * draws, counts[pair]
        for axis in (
            0,
            1,
        ):  # values: those of few rows are as drawn; rounding only moves the others
            one, other = wanted.sum(axis), result.sum(axis)
            assert (abs(other - one) < 5 * np.sqrt(one) + 1).all(), (pair, axis)
        if rows <= 50:
            assert (abs(result - wanted) < 5 * np.sqrt(wanted) + 1).all(), pair


def test_rounding_holds_what_cannot_be() -> None:
    """A value of no probability in any component has no row; components have equal shares."""
    mixture = mixture_of((4, 3))
    p = mixture.probabilities.clone()
    p[:, 2] = 0
    mixture.set(p)
    synthetic = mixture.sample(3000, rng(1))
    assert 2 not in synthetic[:, 0]
    # Component k marks itself in column 0: no component has more than a row more than another.
    layout = layout_of(7, 2)
    marked = Mixture(layout, 7).set(torch.cat([torch.eye(7), torch.full((7, 2), 0.5)], 1))
    counts = np.bincount(marked.sample(1000, rng(2))[:, 0])
    assert set(counts) == {142, 143}


@pytest.mark.parametrize("rows", [1, 2, 63, 65])
def test_few_rows_and_columns_of_one_value(rows: int) -> None:
    mixture = mixture_of((1, 1, 3))
    synthetic = mixture.sample(rows, rng(0))
    assert synthetic.shape == (rows, 3) and not synthetic[:, :2].any() and synthetic[:, 2].max() < 3
