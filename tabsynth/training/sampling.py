"""Poisson sampling: the batches that the accountant is told of (R5), and where their rows lie."""

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


class Places:
    """Where the rows of a batch lie: at places of a public number, each drawn at random.

    The rounding of a matrix product depends on its shape and on a row's place in it. Here neither depends on
    how many rows there are: a batch has ``parts`` tensors of ``size`` rows, and what is not taken is blank.

    Parameters
    ----------
    expected : float
        Expected number of rows, a public number. There are places for eight standard deviations more.
    physical : int, optional
        The most rows that go through a network at once.

    Notes
    -----
    Rows take places by a uniform injection. One restricted to all rows but one is uniform too, so that the
    batches of two neighbouring tables can be drawn together with every common row at the same place, and
    the other row's place blank in one of them. A batch that does not fit (fewer than one in 10¹⁴,
    if the expectation is right) is put in random order and takes further parts; then one common row, the last, has another
    place in the two batches, and what it contributes, still clipped, differs by the rounding of its own
    gradient. That matters where an activation has a kink: a one-hot row often has inputs of a unit that add
    up to 0, of which rounding decides the sign.
    """

    def __init__(self, expected: float, physical: int | None = None) -> None:
        self.room = int(expected + 8 * expected**0.5) + 8
        self.size = self.room if physical is None else min(self.room, physical)
        self.parts = math.ceil(self.room / self.size)

    def draw(self, count: int, bits: Bits) -> Tensor:
        """Places of ``count`` rows, LongTensor of shape (count,)."""
        keys = np.frombuffer(bits.bytes(8 * max(self.room, count)), dtype="<u8")
        return torch.from_numpy(np.argsort(keys, kind="stable")[:count].copy())

    def layout(self, picked: Tensor, places: Tensor) -> Tensor:
        """Row numbers by place, −1 where it is blank: LongTensor, a whole number of parts long."""
        parts = max(self.parts, math.ceil(len(picked) / self.size))
        held = torch.full((parts * self.size,), -1, dtype=torch.int64)
        held[places] = picked
        return held


def _geometric(count: int, rate: float, bits: Bits) -> np.ndarray:
    """Steps to the next success: P(k) = rate · (1 − rate)^(k − 1), k = 1, 2, …"""
    gaps = np.floor(np.log(uniform(count, bits)) / math.log1p(-rate)) + 1
    return np.minimum(gaps, 2**40).astype(np.int64)  # past any table
