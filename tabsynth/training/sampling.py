"""Poisson sampling: the batches that the accountant is told of (R5)."""

import math

import numpy as np
import torch
from torch import Tensor

from tabsynth.privacy.noise import Bits, uniform


def poisson_sample(n: int, rate: float, bits: Bits) -> Tensor:
    """Row numbers of one Poisson batch: each of ``n`` rows is in, independently, at ``rate``.

    Returns
    -------
    LongTensor, shape (batch,), ascending
        May be empty; an empty batch is a step like any other.

    Notes
    -----
    The rows between two that are in are a geometric number, so the cost follows the size of the batch
    and not that of the table. Drawn in float64, so that the probability is ``rate`` to 2⁻⁵².
    """
    if rate >= 1:
        return torch.arange(n)
    last, parts = -1, [np.empty(0, dtype=np.int64)]
    while last < n - 1:
        mean = (n - 1 - last) * rate
        gaps = _geometric(math.ceil(mean + 4 * math.sqrt(mean)) + 8, rate, bits)
        parts.append(last + gaps.cumsum())
        last = int(parts[-1][-1])
    found = np.concatenate(parts)
    return torch.from_numpy(found[: np.searchsorted(found, n)])


def _geometric(count: int, rate: float, bits: Bits) -> np.ndarray:
    """Steps to the next success: P(k) = rate · (1 − rate)^(k − 1), k = 1, 2, …"""
    gaps = np.floor(np.log(uniform(count, bits)) / math.log1p(-rate)) + 1
    return np.minimum(gaps, 2**40).astype(np.int64)  # past any table
