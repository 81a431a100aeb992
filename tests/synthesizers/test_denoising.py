"""Noisy counts of pairs, shrunk: the law of the singular values, and that it is nearer to the truth."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.privacy.noise.counts import Measured
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import shrunk, smoothed, without_rare
from tabsynth.synthesizers.margnet.selection import Resolution

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
    result = shrunk((left * values) @ right.T)
    np.testing.assert_allclose(result, (left * kept) @ right.T, atol=1e-8 * (1 + max(values)))


def test_noise_alone_is_taken_away_and_a_strong_direction_kept() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(30, 20))
    assert np.square(shrunk(noise)).mean() < 0.02
    truth = 60 * np.outer(orthogonal(30, generator)[0], orthogonal(20, generator)[0])
    error = np.square(shrunk(truth + noise) - truth).mean()
    assert error < 0.2 * np.square(noise).mean()
    assert not shrunk(np.zeros((3, 2))).any()


def halves(std: float, part: float, rows: float = 4000.0) -> tuple[np.ndarray, ...]:
    """Truth, noisy and smoothed counts of two columns that one direction relates."""
    one = np.full(16, 1 / 16)
    tilt = np.outer(np.linspace(-1, 1, 16), np.linspace(-1, 1, 16))
    truth = rows * np.outer(one, one) * (1 + 0.8 * tilt)
    noisy = truth + std * np.random.default_rng(1).normal(size=truth.shape)
    measured = [Measured((0,), rows * one, std), Measured((0, 1), noisy, std)]
    config = MargNetConfig(smoothing=part)
    result = smoothed(measured, [one, one], rows, Resolution.by_value((16, 16)), config)
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
    most = MargNetConfig().max_smoothing_noise
    assert (result is noisy) == (not 0 < 8 * std / 4000 <= most) == (std in (0.0, 90.0))


def test_a_column_is_constant_where_noise_explains_all_values_but_one() -> None:
    """Limits by hand: 2 standard deviations of a value, √4 times that of the sum of four, and 5% of the rows."""
    for rare, constant in (
        ([19.0, -8.0, 7.0, 15.0], True),
        ([21.0, -8.0, 7.0, 0.0], False),  # one value stands out
        ([15.0, 15.0, 14.0, -5.0], True),
        ([15.0, 15.0, 15.0, -4.0], False),  # and here their sum, of 41, does
    ):
        noisy = Measured((0,), np.array([rare[0], 950.0, *rare[1:]]), 10.0)
        result = without_rare(noisy, 1000.0, MargNetConfig())
        assert result.std == noisy.std and (result is not noisy) == constant
        if constant:
            assert result.counts.tolist() == [0, 1000, 0, 0, 0]


def test_values_of_many_rows_are_never_taken_for_noise() -> None:
    """5% of the rows, where the noise is so high that twice of it is more; of one value, and of the sum."""
    config = MargNetConfig(max_group=0.05)
    for rare, constant in (
        ([49.0], True),
        ([51.0], False),
        ([20.0] * 2, True),
        ([20.0] * 3, False),
    ):
        measured = Measured((0,), np.array([950.0, *rare]), 100.0)
        assert (without_rare(measured, 1000.0, config) is not measured) == constant


def test_counts_stay_without_noise_without_the_setting_and_in_pairs() -> None:
    counts = np.array([90.0, 1.0, -1.0])
    for measured, config in (
        (Measured((0,), counts, 0.0), MargNetConfig()),
        (Measured((0,), counts, 9.0), MargNetConfig(rare_noise=0.0)),
        (Measured((0, 1), counts.reshape(1, 3), 9.0), MargNetConfig()),
        (Measured((0,), np.array([90.0]), 9.0), MargNetConfig()),
    ):
        assert without_rare(measured, 90.0, config) is measured
