"""Rounded Gaussian noise and its law, by scipy's Φ, for tests."""

import numpy as np
from scipy.special import ndtr, ndtri


def pmf(steps: np.ndarray, ratio: float, centre: float = 0.0) -> np.ndarray:
    """P(k) = Φ((k + ½ − centre)/ratio) − Φ((k − ½ − centre)/ratio), from the nearer tail."""
    away = np.abs(np.asarray(steps, dtype=float) - centre)
    return ndtr((0.5 - away) / ratio) - ndtr((-0.5 - away) / ratio)


def as_normal(steps: np.ndarray, ratio: float, seed: int = 0) -> np.ndarray:
    """Integers to what is N(0, 1), exactly, if they have that law: each is spread over its own bin."""
    away = np.abs(steps)
    low = ndtr((-0.5 - away) / ratio)
    place = np.random.default_rng(seed).random(np.shape(steps))
    z = ndtri(low + place * (ndtr((0.5 - away) / ratio) - low))
    return np.where(steps > 0, -z, z)
