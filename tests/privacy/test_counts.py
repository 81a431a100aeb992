"""R4, R14: the noise on counts, and what follows from noisy counts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from tabsynth.errors import BudgetError
from tabsynth.privacy.counts import (
    estimated_rows,
    marginal_noise,
    noisy_marginals,
    noisy_row_count,
    probabilities,
)
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account, Ledger
from tabsynth.privacy.mechanisms import Gaussian


def opened(index: np.ndarray, sigma: float, uses: int) -> tuple[PrivateTable[np.ndarray], Account]:
    ledger = Ledger(math.inf, 1e-5)
    return PrivateTable(index, ledger), ledger.open(
        "counts", Gaussian(noise_multiplier=sigma), uses
    )


@pytest.mark.parametrize(("sigma", "columns"), [(0.6, 4), (2.0, 9), (7.5, 2)])
def test_noise_of_marginals(sigma: float, columns: int) -> None:
    """R4: N(0, σ²d) on every cell, independent over cells, columns and uses."""
    rng = np.random.default_rng(0)
    sizes = [50] * columns
    index = rng.integers(0, 50, (300, columns))
    exact = np.stack([np.bincount(index[:, j], minlength=50) for j in range(columns)])
    uses = math.ceil(101_000 / (50 * columns))
    table, account = opened(index, sigma, uses)
    noise = np.array([noisy_marginals(table, account, sizes, rng) for _ in range(uses)]) - exact
    scale = sigma * math.sqrt(columns)
    assert marginal_noise(account, columns) == pytest.approx(scale)
    noise /= scale
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


def test_sensitivity_of_marginals() -> None:
    """R2: one row more moves the d columns by √d together, which is what the noise is scaled by."""
    index = np.random.default_rng(0).integers(0, 4, (30, 6))
    before, after = (
        np.concatenate(noisy_marginals(*opened(rows, 1e-12, 1), [4] * 6, np.random.default_rng(1)))
        for rows in (index[:-1], index)
    )
    assert np.linalg.norm(after - before) == pytest.approx(math.sqrt(6), abs=1e-6)
    assert marginal_noise(opened(index, 3.0, 1)[1], 6) == pytest.approx(3.0 * math.sqrt(6))


def test_noise_of_the_row_count() -> None:
    """R4, with the law cut off at 1 row."""
    rng = np.random.default_rng(1)
    for sigma in (0.5, 3.0, 20.0):
        table, account = opened(np.zeros((400, 1), dtype=int), sigma, 101_000)
        noise = np.array([noisy_row_count(table, account, rng) for _ in range(101_000)]) - 400
        noise /= sigma
        assert abs(noise.var() - 1) < 0.015 and stats.kstest(noise, "norm").pvalue > 1e-4
        assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.015
    table, account = opened(np.zeros((1, 1), dtype=int), 50.0, 200)
    found = [noisy_row_count(table, account, rng) for _ in range(200)]
    assert min(found) == 1.0 and max(found) > 20


def test_estimated_rows_is_unbiased_and_weighted() -> None:
    """R14: the mean is n; the spread is that of inverse-variance weights, better than any column."""
    rng = np.random.default_rng(2)
    sizes, n, std = [2, 40, 5], 500, 8.0
    index = np.stack([rng.integers(0, s, n) for s in sizes], axis=1)
    exact = [np.bincount(index[:, j], minlength=s) for j, s in enumerate(sizes)]
    found = np.array(
        [
            estimated_rows([c + std * rng.standard_normal(len(c)) for c in exact])
            for _ in range(4000)
        ]
    )
    spread = std / math.sqrt(sum(1 / s for s in sizes))
    assert abs(found.mean() - n) < 4 * spread / math.sqrt(4000)
    assert found.std() == pytest.approx(spread, rel=0.05)
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
    found = probabilities(noisy, rows, std)
    assert found.sum() == pytest.approx(1) and (found > 0).all()

    def total(shift: float) -> float:
        return np.maximum(noisy - shift, 0).sum() - rows

    shift = optimize.brentq(total, noisy.min() - rows - 1, noisy.max(), xtol=1e-12)
    values = np.maximum(noisy - shift, 0) + max(0.1 * std, 0.25)
    np.testing.assert_allclose(found, values / values.sum(), rtol=1e-6, atol=1e-9)
