"""Gaussian noise on tensors: sums of clipped gradients, and the votes that share their noise."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tabsynth.privacy.noise import (
    FINENESS,
    QUARTER,
    Bits,
    Keystream,
    grid,
    nearest,
    rounded_gaussian,
)

# As ERROR and TAIL of tabsynth.privacy.noise, but in float32 from 31 and 32 digits: R errs by
# 2⁻³¹/(U R) < 2⁻²² at U = 2⁻¹⁰ and by 2⁻²⁵/R < 2⁻²⁰ at 1 − 2⁻¹⁰, the angle by 2⁻²¹ times R < 3.8.
ERROR = 2.0**-17
TAIL = 2**21  # of 2³¹


class TensorNoise:
    """Adds Gaussian noise to tensors, and rounds to a public grid.

    Parameters
    ----------
    bits : Bits
        Of the noise on tensors in the host's memory.
    generator : torch.Generator
        Of the noise on tensors elsewhere, on their device.

    Formal guarantees
    -----------------
    On the CPU: exactly the law of :func:`tabsynth.privacy.noise.noisy`, so the release is post-processing
    of the Gaussian mechanism on the sum as it stands in floating point. That rounding moved that sum
    already, while it was added up, is not undone here.

    NOTE[DIFF] Elsewhere (CUDA) noise is torch's own: Philox, a counter-based generator that is not a
    cryptographic one, under a key of 63 bits of the system's entropy, and float64 normals of it, rounded to
    the same grid. The low-order bits are gone, the law is not exact: a normal made of 53-bit numbers
    errs by some 2⁻⁵⁰, so that a value lands on another point of the grid with a chance near 2⁻⁴². Over
    2²⁹ values (5,000 steps of a critic of 83,000 parameters) that adds up to a distance of at most 2⁻¹³
    between all that a fit releases and what the theory says of it.
    """

    def __init__(self, bits: Bits, generator: torch.Generator) -> None:
        self.bits, self.generator = bits, generator

    def add(self, sums: Sequence[Tensor], stds: Tensor, groups: Sequence[int]) -> None:
        """Noise on each tensor, in place: of standard deviation ``stds[j]`` where its group is j."""
        for j, std in enumerate(stds.unbind()):
            part = [s for s, group in zip(sums, groups, strict=True) if group == j]
            found = self.noisy(torch.cat([s.flatten() for s in part]), std)
            for s, piece in zip(part, found.split([s.numel() for s in part]), strict=True):
                s.copy_(piece.view_as(s))

    def noisy(self, values: Tensor, std: Tensor) -> Tensor:
        """Values, shape (count,), plus noise; ``std`` is one number, on the same device.

        Noise whose size is not finite leaves nothing of the values.
        """
        if values.device.type != "cpu":
            return self._elsewhere(values, std)
        size = float(std)
        if not math.isfinite(size):
            return torch.full_like(values, math.nan)
        if size == 0:
            return values
        step = grid(size)
        if values.dtype == torch.float32:
            return _times(rounded(values, step, size / step, self.bits), step)
        found = rounded_gaussian(values.double().numpy() / step, size / step, self.bits)
        return _times(torch.from_numpy(found), step).to(values)

    def _elsewhere(self, values: Tensor, std: Tensor) -> Tensor:
        """The same without waiting for the device."""
        size = std.double()
        power = (size.view(torch.int64) & 0x7FF << 52).view(torch.float64)  # exponent bits alone
        step = power * 2.0**-FINENESS
        noise = torch.empty(len(values), dtype=torch.float64, device=values.device)
        noise.normal_(generator=self.generator)
        total = (values.double() / step + size / step * noise).round()
        return (total * step).add_(0.0).to(values)


def _times(found: Tensor, step: float) -> Tensor:
    """step · found, without negative zeros: they would tell on which side of zero it was."""
    return torch.zeros((), dtype=found.dtype).add(found, alpha=step)


def rounded(values: Tensor, step: float, ratio: float, bits: Bits) -> Tensor:
    """As :func:`tabsynth.privacy.noise.rounded_gaussian`, of ``values / step``: a float32 tensor on the CPU.

    In float32 first, from half the digits, two values from each pair of uniform numbers; those that this
    leaves in doubt (one in some hundred) get the other half of their digits, and float64.
    """
    count = len(values)
    half = (count + 1) // 2
    words = np.frombuffer(bits.bytes(8 * half), dtype="<i4").reshape(2, half)
    spare = Keystream(bits.bytes(32))
    first = words[0] & 2**31 - 1
    radius = torch.from_numpy(first.astype(np.float32)).mul_(2.0**-31).log_()
    turn = torch.from_numpy(words[1].astype(np.float32)).mul_(math.pi * 2.0**-31)
    radius.mul_(-2 * ratio**2).sqrt_()
    both = torch.empty(2 * half)
    torch.mul(radius, turn.cos(), out=both[:half])
    torch.mul(radius, turn.sin_(), out=both[half:])
    total = both[:count].add_(values, alpha=1 / step)
    found = total.round()
    apart = (total - found).abs_().add_(total.abs_(), alpha=2.0**-22).numpy()
    with np.errstate(invalid="ignore"):
        doubt = np.flatnonzero(apart >= np.float32(0.5 - ratio * ERROR))
    tail = np.flatnonzero(np.abs(first - 2**30) >= 2**30 - TAIL)
    doubt = np.union1d(doubt, np.concatenate([tail, tail + half]))
    doubt = doubt[doubt < count]
    if len(doubt):
        centres = values.numpy()[doubt].astype(np.float64) / step
        found.numpy()[doubt] = _in_float64(centres, ratio, words, doubt, spare)
    return found


def _in_float64(
    centres: np.ndarray, ratio: float, words: np.ndarray, which: np.ndarray, spare: Bits
) -> np.ndarray:
    """The integers of some of the values, of whose numbers the first half of the digits are given."""
    half = words.shape[1]
    pairs, pair = np.unique(which % half, return_inverse=True)
    more = np.frombuffer(spare.bytes(8 * len(pairs)), dtype="<u4").reshape(2, -1).astype(np.int64)
    first = (words[0, pairs] & 2**31 - 1).astype(np.int64) << 32 | more[0]
    turn = words[1, pairs].astype(np.int64) << 32 | more[1]
    # sin x = cos(x − a quarter of a turn), round the circle: int64 wraps as angles do.
    turn = turn[pair] - np.where(which < half, 0, QUARTER)
    return nearest(centres, ratio, first[pair], turn, pair, spare.bytes(32))
