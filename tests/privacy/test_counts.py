"""R2, R4, R14: the noise on counts, and what follows from noisy counts."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rounded import as_normal
from scipy import optimize, stats

from tabsynth.encoding.rows import Rows
from tabsynth.errors import BudgetError
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoisyVote
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise import counts as counts_module
from tabsynth.privacy.noise.counts import (
    Measured,
    NoisyCounts,
    by_value,
    count_rows,
    count_sets,
    estimated_rows,
    marginal_noise,
    noise_of_total,
    noisy_marginals,
    noisy_row_count,
    probabilities,
    shares_by_cells,
    total_rows,
)


def opened(index: np.ndarray, sigma: float, uses: int) -> tuple[PrivateTable[np.ndarray], Account]:
    ledger = Ledger(math.inf, 1e-5)
    return PrivateTable(index, ledger), ledger.open(
        "counts", Gaussian(noise_multiplier=sigma), uses
    )


@pytest.mark.parametrize(("sigma", "columns"), [(0.6, 4), (2.0, 9), (7.5, 2)])
def test_noise_of_marginals(sigma: float, columns: int) -> None:
    """R4: N(0, σ²d), rounded, on every cell, independent over cells, columns and uses."""
    rng = np.random.default_rng(0)
    sizes = [50] * columns
    index = rng.integers(0, 50, (300, columns))
    exact = np.stack([np.bincount(index[:, j], minlength=50) for j in range(columns)])
    uses = math.ceil(101_000 / (50 * columns))
    table, account = opened(index, sigma, uses)
    noise = np.array([noisy_marginals(table, account, sizes, rng) for _ in range(uses)]) - exact
    scale = sigma * math.sqrt(columns)
    assert marginal_noise(account, columns) == pytest.approx(scale)
    noise = as_normal(noise, scale)
    assert noise.size > 1e5 and abs(noise.var() - 1) < 0.015
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    for one, other in (
        (noise[1:], noise[:-1]),
        (noise[:, 1:], noise[:, :-1]),
        (noise[..., 1:], noise[..., :-1]),
    ):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.015
    assert account.spent == uses == table.reads
    with pytest.raises(BudgetError):
        noisy_marginals(table, account, sizes, rng)


@pytest.mark.parametrize("most", [0, 700, 2**25])
def test_many_sets_are_counted_as_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Row by row, with survey weights or without, whether groups are held, few of them, or looked up each time; of no rows too."""
    monkeypatch.setattr(counts_module, "LOOKED_UP", most)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, (2, 5, 3), (200, 3))
    coarse = [np.arange(2), np.array([0, 0, 1, 1, 2]), np.arange(3)]
    sets = [(0, 1), (0, 1), (0, 1, 2), (2,)]
    for n, weights in ((200, None), (200, rng.integers(0, 4, 200) / 2), (0, None)):
        groups = [by_value((2, 5, 3)), coarse, coarse, by_value((2, 5, 3))]
        results = list(count_sets(Rows(codes[:n], weights), sets, groups))
        for s, by, counts in zip(sets, groups, results, strict=True):
            expected = np.zeros([len(np.unique(by[j])) for j in s])
            for i, row in enumerate(codes[:n]):
                expected[tuple(by[j][row[j]] for j in s)] += 1 if weights is None else weights[i]
            np.testing.assert_array_equal(counts, expected)


def test_sensitivity_of_marginals() -> None:
    """R2: one row more moves the d columns by √d together, which is what the noise is scaled by."""
    index = np.random.default_rng(0).integers(0, 4, (30, 6))
    before, after = (
        np.concatenate(noisy_marginals(*opened(rows, 1e-12, 1), [4] * 6, np.random.default_rng(1)))
        for rows in (index[:-1], index)
    )
    assert np.linalg.norm(after - before) == pytest.approx(math.sqrt(6), abs=1e-6)
    assert marginal_noise(opened(index, 3.0, 1)[1], 6) == pytest.approx(3.0 * math.sqrt(6))


@pytest.mark.slow
def test_noise_of_the_row_count() -> None:
    """R4, with the law cut off at 1 row."""
    rng = np.random.default_rng(1)
    parts = []
    for sigma in (0.5, 3.0, 20.0):
        table, account = opened(np.zeros((400, 1), dtype=int), sigma, 11_000)
        noise = np.array([noisy_row_count(table, account, rng) for _ in range(11_000)]) - 400
        parts.append(as_normal(noise, sigma))
        assert abs(parts[-1].var() - 1) < 0.06
        assert stats.kstest(parts[-1], "norm").pvalue > 1e-4
    noise = np.concatenate(parts)
    assert abs(noise.var() - 1) < 0.03
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.02
    table, account = opened(np.zeros((1, 1), dtype=int), 50.0, 200)
    results = [noisy_row_count(table, account, rng) for _ in range(200)]
    assert min(results) == 1.0 and max(results) > 20


def test_estimated_rows_is_unbiased_and_weighted() -> None:
    """R14: the mean is n; the spread is that of inverse-variance weights, better than any column."""
    rng = np.random.default_rng(2)
    sizes, n, std = [2, 40, 5], 500, 8.0
    index = np.stack([rng.integers(0, s, n) for s in sizes], axis=1)
    exact = [np.bincount(index[:, j], minlength=s) for j, s in enumerate(sizes)]
    result = np.array(
        [
            estimated_rows([c + std * rng.standard_normal(len(c)) for c in exact])
            for _ in range(4000)
        ]
    )
    spread = std / math.sqrt(sum(1 / s for s in sizes))
    assert abs(result.mean() - n) < 4 * spread / math.sqrt(4000)
    assert result.std() == pytest.approx(spread, rel=0.05)
    assert estimated_rows([np.array([-50.0, 3.0])]) == 1.0


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.floats(-500, 2000), min_size=1, max_size=12),
    rows=st.floats(1, 3000),
    std=st.floats(0, 50),
)
def test_probabilities_are_a_floored_projection(
    counts: list[float], rows: float, std: float
) -> None:
    """A strictly positive distribution: the L2 projection onto the simplex, by bisection here."""
    noisy = np.array(counts)
    result = probabilities(noisy, rows, std)
    assert result.sum() == pytest.approx(1) and (result > 0).all()

    def total(shift: float) -> float:
        return np.maximum(noisy - shift, 0).sum() - rows

    shift = optimize.brentq(total, noisy.min() - rows - 1, noisy.max(), xtol=1e-12)
    values = np.maximum(noisy - shift, 0) + max(0.1 * std, 0.25)
    np.testing.assert_allclose(result, values / values.sum(), rtol=1e-6, atol=1e-9)


# k-way counts.

SIZES = (3, 4, 2)
SETS = [(0,), (2,), (0, 1), (1, 2), (2, 0, 1)]


def source_of(index: np.ndarray, sigma: float, uses: int = 1) -> tuple[NoisyCounts, Account]:
    table, account = opened(index, sigma, uses)
    return NoisyCounts(table, SIZES), account


def test_counts_are_those_of_pandas() -> None:
    """Brute force, values that nobody has included."""
    rng = np.random.default_rng(3)
    index = np.stack([rng.integers(0, size, 40) for size in SIZES], axis=1)
    index[:, 1] = np.minimum(index[:, 1], 2)  # value 3 has no row
    frame = pd.DataFrame({j: pd.Categorical(index[:, j], range(SIZES[j])) for j in range(3)})
    counts, account = source_of(index, 1e-12)
    measured = counts.measure(account, SETS, shares_by_cells([3, 2, 12, 8, 24]), rng)
    assert [m.columns for m in measured] == SETS
    for m in measured:
        wanted = frame.groupby(list(m.columns), observed=False).size()
        shape = tuple(SIZES[j] for j in m.columns)
        np.testing.assert_allclose(m.counts, wanted.to_numpy().reshape(shape), atol=1e-8)
        assert m.counts.shape == shape
    one = count_rows(index, (0, 1), by_value(SIZES))
    np.testing.assert_array_equal(one, pd.crosstab(frame[0], frame[1], dropna=False))


def test_counts_of_groups_are_sums_of_counts() -> None:
    """Brute force; each set by its own groups; one record still moves one cell by 1."""
    rng = np.random.default_rng(12)
    index = np.stack([rng.integers(0, size, 40) for size in SIZES], axis=1)
    groups = [np.array([0, 1, 0]), np.array([2, 0, 1, 1]), np.array([0, 0])]
    whole = [np.arange(size) for size in SIZES]
    counts, account = source_of(index, 1e-12)
    by = [whole, groups, groups, whole, groups]
    for m, used in zip(counts.measure(account, SETS, [0.2] * 5, rng, by), by, strict=True):
        wanted = np.zeros([int(used[j].max()) + 1 for j in m.columns])
        for row in index:
            wanted[tuple(used[j][row[j]] for j in m.columns)] += 1
        np.testing.assert_allclose(m.counts, wanted, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.7, 3.0, 12.0])
def test_noise_of_k_way_counts(sigma: float) -> None:
    """R4: N(0, σ²/share), rounded, on every cell of a set, independent over cells, sets and uses."""
    rng = np.random.default_rng(4)
    index = np.stack([rng.integers(0, size, 50) for size in SIZES], axis=1)
    shares = [0.1, 0.05, 0.3, 0.15, 0.4]
    uses = 2100
    counts, account = source_of(index, sigma, uses)
    rows = []
    for _ in range(uses):
        measured = counts.measure(account, SETS, shares, rng)
        for m, share in zip(measured, shares, strict=True):
            assert m.std == pytest.approx(sigma / math.sqrt(share))
        noise = [
            (m.counts - count_rows(index, m.columns, by_value(SIZES))).ravel() for m in measured
        ]
        rows.append(np.concatenate(noise))
    noise = as_normal(
        np.array(rows), np.repeat([m.std for m in measured], [m.counts.size for m in measured])
    )
    assert noise.size > 1e5 and abs(noise.var() - 1) < 0.015
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    for one, other in ((noise[1:], noise[:-1]), (noise[:, 1:], noise[:, :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.015
    edges = np.cumsum([m.counts.size for m in measured])[:-1]
    for part in np.split(noise, edges, axis=1):
        assert abs(part.var() - 1) < 0.06
    assert account.spent == uses == counts.table.reads
    with pytest.raises(BudgetError):
        counts.measure(account, SETS, shares, rng)
    assert counts.table.reads == uses


@settings(max_examples=40, deadline=None)
@given(
    row=st.tuples(*(st.integers(0, size - 1) for size in SIZES)),
    weights=st.lists(st.floats(0.01, 1), min_size=len(SETS), max_size=len(SETS)),
)
def test_sensitivity_of_k_way_counts(row: tuple[int, ...], weights: list[float]) -> None:
    """R2: a row more moves all counts, in units of their noise, by 1/σ together, whatever it holds."""
    shares = list(np.array(weights) / sum(weights))
    rng = np.random.default_rng(5)
    index = np.stack([rng.integers(0, size, 20) for size in SIZES], axis=1)
    scaled = []
    for rows in (index, np.vstack([index, row])):
        counts, account = source_of(rows, 2.0)  # the same noise: integers, and rounded after it
        measured = counts.measure(account, SETS, shares, np.random.default_rng(6))
        scaled.append(np.concatenate([m.counts.ravel() / m.std for m in measured]))
    assert np.linalg.norm(scaled[1] - scaled[0]) == pytest.approx(1 / 2.0, rel=1e-9)


@pytest.mark.parametrize("shares", [[0.5, 0.6], [0.5, 0.4], [1.5, -0.5], [1.0, 0.0]])
def test_shares_that_are_not_shares_read_nothing(shares: list[float]) -> None:
    counts, account = source_of(np.zeros((4, 3), dtype=int), 1.0)
    with pytest.raises(ValueError, match="sum to 1"):
        counts.measure(account, [(0,), (1,)], shares, np.random.default_rng(0))
    assert account.spent == 0 == counts.table.reads


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5000), min_size=2, max_size=8), st.integers(0, 10**6))
def test_shares_minimise_the_error(cells: list[int], seed: int) -> None:
    """Σ cells · std is least: no other shares do better, and none of a random few do."""
    size = np.array(cells, dtype=float)
    result = np.array(shares_by_cells(cells))
    assert result.sum() == pytest.approx(1)
    least = (size / np.sqrt(result)).sum()
    for other in np.random.default_rng(seed).dirichlet(np.full(len(cells), 3.0), 20):
        near = 0.9 * result + 0.1 * other
        assert (size / np.sqrt(near)).sum() >= least * (1 - 1e-12)


def test_important_sets_have_less_error() -> None:
    """Σ w · cells · std is least: no other shares do better."""
    cells, importance = np.array([6.0, 50, 400]), np.array([5.0, 1, 1])
    result = np.array(shares_by_cells([6, 50, 400], importance))
    least = (importance * cells / np.sqrt(result)).sum()
    for other in np.random.default_rng(0).dirichlet(np.ones(3), 200):
        assert (importance * cells / np.sqrt(0.9 * result + 0.1 * other)).sum() >= least
    assert result[0] > shares_by_cells([6, 50, 400])[0]


def test_groups_are_counted_without_all_cells() -> None:
    """A pair of 10⁵ × 10⁵ values in few groups: memory is that of the groups."""
    rng = np.random.default_rng(0)
    index = rng.integers(0, 100_000, (500, 2))
    groups = [np.arange(100_000) % 7, np.arange(100_000) // 50_000]
    result = count_rows(index, (0, 1), groups)
    assert result.shape == (7, 2) and result.sum() == 500
    np.testing.assert_array_equal(
        result, pd.crosstab(index[:, 0] % 7, index[:, 1] // 50_000).to_numpy()
    )


def test_counts_of_any_store_of_rows() -> None:
    """A store that counts by itself, here a DataFrame, gives what an array of category codes gives."""
    rng = np.random.default_rng(7)
    index = np.stack([rng.integers(0, size, 30) for size in SIZES], axis=1)

    def by_pandas(frame: pd.DataFrame, sets: Any, groups: Any) -> list[np.ndarray]:
        return [of_set(frame, columns, by) for columns, by in zip(sets, groups, strict=True)]

    def of_set(frame: pd.DataFrame, columns: Any, groups: Any) -> np.ndarray:
        out = np.zeros([groups[j].max() + 1 for j in columns])
        grouped = frame.apply(lambda column: groups[column.name][column])
        for values, count in grouped.value_counts(list(columns)).items():
            out[values] = count
        return out

    ledger = Ledger(math.inf, 1e-5)
    other = NoisyCounts(PrivateTable(pd.DataFrame(index), ledger), SIZES, by_pandas)
    account = ledger.open("counts", Gaussian(noise_multiplier=1.5), 1)
    measured = other.measure(account, SETS, [0.2] * 5, np.random.default_rng(8))
    ours, ours_account = source_of(index, 1.5)
    for one, two in zip(
        measured,
        ours.measure(ours_account, SETS, [0.2] * 5, np.random.default_rng(8)),
        strict=True,
    ):
        np.testing.assert_array_equal(one.counts, two.counts)
        assert (one.columns, one.std) == (two.columns, two.std)


@pytest.mark.slow
def test_total_rows_is_unbiased_and_weighted() -> None:
    """R14: inverse-variance weights over sets of any width; exact where there is no noise."""
    rng = np.random.default_rng(9)
    index = np.stack([rng.integers(0, size, 400) for size in SIZES], axis=1)
    shares = shares_by_cells([3, 2, 12, 8, 24])
    counts, account = source_of(index, 6.0, 4000)
    results = [counts.measure(account, SETS, shares, rng) for _ in range(4000)]
    totals = np.array([total_rows(measured) for measured in results])
    spread = math.sqrt(1 / sum(1 / (m.counts.size * m.std**2) for m in results[0]))
    assert abs(totals.mean() - 400) < 4 * spread / math.sqrt(4000)
    assert totals.std() == pytest.approx(spread, rel=0.05)
    assert noise_of_total(results[0]) == pytest.approx(spread)
    exact = [Measured((0,), np.array([7.0, 5.0]), 0.0), Measured((1,), np.array([40.0]), 3.0)]
    assert noise_of_total(exact) == 0 and noise_of_total(exact[1:]) == pytest.approx(3)
    assert total_rows(exact) == 12 and total_rows(exact[1:]) == pytest.approx(40)
    assert total_rows([Measured((0,), np.array([-9.0, 2.0]), 1.0)]) == 1.0


def test_an_account_of_votes_pays_for_no_count() -> None:
    """It is charged less than counts release: refused before a row is read."""
    ledger = Ledger(9.0, 1e-5)
    rows = np.zeros((4, 2), dtype=int)
    table = PrivateTable(rows, ledger)
    account = ledger.open("labels", NoisyVote(noise=9.0, teachers=5), 9)
    counts = NoisyCounts(table, (1, 1))
    rng = np.random.default_rng(0)
    for release in (
        lambda: counts.measure(account, [(0,), (1,)], [0.5, 0.5], rng),
        lambda: counts.distances(account, [(0, 1)], lambda _: np.zeros((1, 1)), rng),
        lambda: noisy_marginals(table, account, (1, 1), rng),
        lambda: noisy_row_count(table, account, rng),
    ):
        with pytest.raises(BudgetError, match="pays for votes"):
            release()
    assert table.reads == 0 == account.spent
