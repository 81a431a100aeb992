"""Noisy counts of pairs, shrunk: the law of the singular values, and that it is nearer to the truth."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.privacy.noise.counts import Measured
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import (
    MAX_SMOOTHING_NOISE,
    departures,
    shrink_noise,
    smooth_counts,
)
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution

SIZES = st.integers(1, 12)


def orthogonal(size: int, generator: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(generator.normal(size=(size, size)))[0]


@settings(max_examples=60, deadline=None)
@given(m=SIZES, n=SIZES, seed=st.integers(0, 99))
def test_singular_values_shrink_as_the_paper_has_it(m: int, n: int, seed: int) -> None:
    """From known singular vectors and values; the paper's form for noise of variance 1 / n.

    There a value y above 1 + √β becomes √((y² − β − 1)² − 4β) / y, with β = m / n ≤ 1.
    """
    generator = np.random.default_rng(seed)
    rank = min(m, n)
    left, right = orthogonal(m, generator)[:, :rank], orthogonal(n, generator)[:, :rank]
    values = generator.uniform(0, 4 * math.sqrt(m + n), rank)
    long, beta = max(m, n), min(m, n) / max(m, n)
    kept = []
    for y in values / math.sqrt(long):
        inside = (y**2 - beta - 1) ** 2 - 4 * beta
        kept.append(math.sqrt(inside) / y * math.sqrt(long) if y > 1 + math.sqrt(beta) else 0.0)
    result = shrink_noise((left * values) @ right.T)
    np.testing.assert_allclose(result, (left * kept) @ right.T, atol=1e-8 * (1 + max(values)))


def halves(std: float, part: float, rows: float = 4000.0) -> tuple[np.ndarray, ...]:
    """Truth, noisy and smoothed counts of two columns that one direction relates."""
    one = np.full(16, 1 / 16)
    tilt = np.outer(np.linspace(-1, 1, 16), np.linspace(-1, 1, 16))
    truth = rows * np.outer(one, one) * (1 + 0.8 * tilt)
    noisy = truth + std * np.random.default_rng(1).normal(size=truth.shape)
    counts = [Measured((0,), rows * one, std), Measured((0, 1), noisy, std)]
    measured = Measurements(counts, rows, Resolution.by_value((16, 16)))
    config = MargNetConfig(smoothing=part)
    result = smooth_counts(measured, departures(measured, [one, one]), config)
    assert result.keys() <= {(0, 1)}
    return truth, noisy, result.get((0, 1), noisy)


def test_smoothed_counts_are_nearer_to_the_truth() -> None:
    truth, noisy, result = halves(10.0, 1.0)
    assert np.square(result - truth).mean() < 0.3 * np.square(noisy - truth).mean()
    _, _, half = halves(10.0, 0.5)
    np.testing.assert_allclose(half, (noisy + result) / 2)


@pytest.mark.parametrize("std", [0.0, 0.3, 4.0, 40.0, 90.0])
def test_counts_of_no_and_of_much_noise_stay(std: float) -> None:
    """What noise of a 16 by 16 table hides is 8 standard deviations."""
    _, noisy, result = halves(std, 1.0)
    most = MAX_SMOOTHING_NOISE
    assert (result is noisy) == (not 0 < 8 * std / 4000 <= most) == (std in (0.0, 90.0))
