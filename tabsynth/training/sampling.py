"""Poisson sampling: the batches that the accountant is told of (R5)."""

import math

import torch
from torch import Tensor


def poisson_sample(n: int, rate: float, generator: torch.Generator) -> Tensor:
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
    last, parts = -1, []
    while last < n - 1:
        mean = (n - 1 - last) * rate
        gaps = _geometric(math.ceil(mean + 4 * math.sqrt(mean)) + 8, rate, generator)
        parts.append(last + gaps.cumsum(0))
        last = int(parts[-1][-1])
    found = torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)
    return found[: int(torch.searchsorted(found, n))]


def _geometric(count: int, rate: float, generator: torch.Generator) -> Tensor:
    """Steps to the next success: P(k) = rate · (1 − rate)^(k − 1), k = 1, 2, …"""
    uniform = 1 - torch.rand(count, generator=generator, dtype=torch.float64)  # in (0, 1]
    gaps = (uniform.log() / math.log1p(-rate)).floor() + 1
    return gaps.clamp_max(2**40).to(torch.int64)  # past any table
