"""The factor model of noisy counts, which a fit of MargNet starts from where it is nearer to them than the tree model."""

from itertools import combinations

import numpy as np
import pytest
import torch

from tabsynth.encoding import Layout, TableEncoder
from tabsynth.privacy.noise.counts import Measured, by_value, count_rows, in_groups
from tabsynth.schema import Column, Schema
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import MargNetFit
from tabsynth.synthesizers.margnet.factors import FactorModel
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution
from tabsynth.training.loop import TrainingMonitor

torch.set_num_threads(1)

COLUMNS, FACTORS, ROWS, STD = 60, 3, 10_000, 150.0
PAIRS = list(combinations(range(COLUMNS), 2))


def codes_of_factors(seed: int, rows: int = ROWS) -> np.ndarray:
    """Binary codes of patients, by three hidden causes."""
    random = np.random.default_rng(seed)
    slopes = 1.5 * random.standard_normal((FACTORS, COLUMNS))
    levels = random.uniform(-3, 0, COLUMNS)
    logits = random.standard_normal((rows, FACTORS)) @ slopes + levels
    return (random.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.int64)


def noisy(codes: np.ndarray, pairs: list[tuple[int, int]], seed: int) -> Measurements:
    """Counts of all columns, and of pairs, with noise that hides most single pairs."""
    random, groups = np.random.default_rng(seed), by_value((2,) * COLUMNS)
    counts = []
    for columns in [*((j,) for j in range(COLUMNS)), *pairs]:
        exact = count_rows(codes, columns, groups)
        counts.append(Measured(columns, exact + random.normal(0, STD, exact.shape), STD))
    return Measurements(counts, float(len(codes)), Resolution.by_value((2,) * COLUMNS))


def layout() -> Layout:
    return TableEncoder(
        Schema(
            Column(name=f"c{j}", kind="categorical", dtype="int64", categories=(0, 1))
            for j in range(COLUMNS)
        )
    ).layout


def correlations(p: np.ndarray) -> np.ndarray:
    """Of the pairs of columns of a mixture, by the probabilities of 1 in its components."""
    mean = p.mean(axis=0)
    deviation = np.sqrt(mean * (1 - mean))
    covariance = (p - mean).T @ (p - mean) / len(p)
    return np.asarray((covariance / np.outer(deviation, deviation))[tuple(np.transpose(PAIRS))])


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def fit_of(codes: np.ndarray, pairs: list[tuple[int, int]], seed: int) -> MargNetFit:
    counts, config = noisy(codes, pairs, seed), MargNetConfig(steps=400)
    return MargNetFit(layout(), config, counts, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_wide_table_of_few_causes_keeps_its_correlations(seed: int, share: float) -> None:
    """Nearer than single noisy pairs have them, also those of pairs that were not counted; the tree has but few."""
    codes = codes_of_factors(seed)
    true = correlations(codes.astype(float))
    counted = np.random.default_rng(seed).random(len(PAIRS)) < share
    fit = fit_of(codes, [pair for pair, of in zip(PAIRS, counted, strict=True) if of], seed)
    assert fit.tree is not None
    of_tree = fit.tree.components(1000, np.random.default_rng(0))
    assert rms(correlations(of_tree[:, 1::2]) - true) > 0.7 * rms(true)
    deviation = codes.std(axis=0)
    of_noise = rms(np.array([STD / (2 * ROWS * deviation[a] * deviation[b]) for a, b in PAIRS]))
    for _ in range(2):  # at the start, and after the fit
        errors = correlations(fit.network().detach().numpy()[:, 1::2]) - true
        assert rms(errors) < 0.9 * of_noise
        assert share == 1.0 or rms(errors[~counted]) < of_noise
        fit.fit(TrainingMonitor())


def test_the_factors_are_those_of_the_table() -> None:
    """Hardly more than there are, as codes are no linear functions of them; none in independent columns or without pairs; components have each column's distribution."""
    codes = codes_of_factors(0)
    assert FACTORS <= model_of(codes, PAIRS).means.shape[1] <= FACTORS + 2
    alone = np.stack([np.random.default_rng(j).permutation(of) for j, of in enumerate(codes.T)], 1)
    assert model_of(alone, PAIRS).means.size == 0
    assert model_of(codes, []).means.size == 0
    p = model_of(codes, PAIRS).components(500, np.random.default_rng(0))
    np.testing.assert_allclose(p[:, 1::2].mean(axis=0), codes.mean(axis=0), atol=0.005)
    np.testing.assert_allclose(p[:, ::2] + p[:, 1::2], 1.0)


def model_of(codes: np.ndarray, pairs: list[tuple[int, int]]) -> FactorModel:
    measured = noisy(codes, pairs, 1)
    ones = codes.mean(axis=0)
    shares = list(np.stack([1 - ones, ones], axis=1))
    departures = {
        m.columns: m.counts / ROWS - np.outer(*(shares[j] for j in m.columns))
        for m in measured.counts
        if len(m.columns) == 2
    }
    noise = dict.fromkeys(departures, STD / ROWS)
    return FactorModel.of(shares, by_value((2,) * COLUMNS), departures, noise, 64)


def test_values_in_groups_keep_their_shares() -> None:
    """Of a column whose two rarer values are counted together in pairs, and of one with a single value."""
    random = np.random.default_rng(0)
    shares = [np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.5]), np.array([1.0])]
    groups = [np.array([0, 1, 1]), np.array([0, 1]), np.array([0])]
    apart = np.array([[0.15, -0.15], [-0.15, 0.15]])
    departures = {(0, 1): apart, (0, 2): np.zeros((2, 1)), (1, 2): np.zeros((2, 1))}
    model = FactorModel.of(shares, groups, departures, dict.fromkeys(departures, 0.001), 64)
    p = model.components(4000, random)
    np.testing.assert_allclose(p.mean(axis=0), np.concatenate(shares), atol=0.005)
    np.testing.assert_allclose(p[:, 1] / p[:, 2], 3.0)
    pair = in_groups(p[:, :3].T @ p[:, 3:5] / len(p), groups[:2])
    np.testing.assert_allclose(pair, np.outer([0.6, 0.4], [0.5, 0.5]) + apart, atol=0.03)
