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
)

# As ERROR and TAIL of tabsynth.privacy.noise, but in float32 from 31 and 32 digits: R errs by
# 2⁻³¹/(U R) < 2⁻²⁰ at U = 2⁻¹² and by 2⁻²⁵/R < 2⁻¹⁹ at 1 − 2⁻¹², the angle by 2⁻²⁰ times R < 4.1.
ERROR = 2.0**-17
TAIL = 2**19  # of 2³¹


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
    On the CPU: exactly the law of :func:`tabsynth.privacy.noise.noisy` around values that differ from those
    given by at most 2⁻²⁶ steps of the grid each, so the release is post-processing of the Gaussian mechanism.
    By how much rounding moves a sum before the noise, that difference included, is bounded in
    :mod:`tabsynth.training.sums`, and rows are clipped below their bound by as much.

    NOTE[DIFF] Elsewhere (CUDA) noise is torch's own: Philox, a counter-based generator that is not a
    cryptographic one, under a key of 63 bits of the system's entropy, and float64 normals of it, rounded to
    the same grid. The low-order bits are gone, the law is not exact: a normal made of 53-bit numbers
    errs by some 2⁻⁵⁰, so that a value lands on another point of the grid with a chance near 2⁻⁴². Over
    2²⁹ values (5,000 steps of a critic of 83,000 parameters) that adds up to a distance of some 2⁻¹³ at worst
    between all that a fit releases and what the theory says of it.
    """

    def __init__(self, bits: Bits, generator: torch.Generator) -> None:
        self.bits, self.generator = bits, generator
        self._room = torch.empty(0, dtype=torch.float32)

    def add(self, sums: Sequence[Tensor], stds: Tensor, groups: Sequence[int]) -> None:
        """Noise on each tensor, in place: of standard deviation ``stds[j]`` where its group is j."""
        for j, std in enumerate(stds.unbind()):
            part = [s for s, group in zip(sums, groups, strict=True) if group == j]
            found = self.noisy(torch.cat([s.flatten() for s in part]), std)
            for s, piece in zip(part, found.split([s.numel() for s in part]), strict=True):
                s.copy_(piece.view_as(s))

    def noisy(self, values: Tensor, std: Tensor) -> Tensor:
        """Values, shape (count,), plus noise; ``std`` is one number, on the same device.

        Noise whose size is no positive number leaves nothing of the values.
        """
        if values.device.type != "cpu":
            return self._elsewhere(values, std)
        size = float(std.numpy())
        if not math.isfinite(size) or size <= 0:  # a size too small for a float is 0
            return torch.full_like(values, math.nan)
        step = grid(size)
        whole, rest = _parts(values, step)
        if len(self._room) != workspace(len(values)):
            self._room = torch.empty(workspace(len(values)), dtype=torch.float32)
        found = rounded(rest.float(), 1.0, size / step, self.bits, self._room)
        # Zero is added to leave no negative zeros: they would tell on which side of zero it was.
        return whole.add_(found).mul_(step).add_(0.0).to(values)

    def _elsewhere(self, values: Tensor, std: Tensor) -> Tensor:
        """The same without waiting for the device."""
        size = std.double()
        power = (size.view(torch.int64) & 0x7FF << 52).view(torch.float64)  # exponent bits alone
        step = power * 2.0**-FINENESS
        noise = torch.empty(len(values), dtype=torch.float64, device=values.device)
        noise.normal_(generator=self.generator)
        whole, rest = _parts(values, step)
        total = whole + (rest + size / step * noise).round()
        return (total * step).add_(0.0).to(values)


def _parts(values: Tensor, step: float | Tensor) -> tuple[Tensor, Tensor]:
    """Values in steps of the grid, a power of two: a whole number and a rest, exactly, in float64."""
    steps = values.double() / step
    whole = steps.round()
    return whole, steps.sub_(whole)


def rounded(
    values: Tensor, step: float, ratio: float, bits: Bits, room: Tensor | None = None
) -> Tensor:
    """As :func:`tabsynth.privacy.noise.rounded_gaussian`, of ``values / step``: a float32 tensor on the CPU.

    In float32 first, from half the digits, two values from each pair of uniform numbers; those that this
    leaves in doubt (one in some hundred) get the other half of their digits, and float64.

    Parameters
    ----------
    room : float32 Tensor, shape (workspace(count),), optional
        Written over, and held by what is returned: new memory for each call takes longer than the noise.
    """
    count = len(values)
    half = (count + 1) // 2
    words = np.frombuffer(bits.bytes(8 * half), dtype="<i4").reshape(2, half)
    spare = Keystream(bits.bytes(32))
    room = torch.empty(workspace(count), dtype=torch.float32) if room is None else room
    radius, turn, wave, both, found, apart = room.split([half] * 3 + [2 * half] * 3)
    first = words[0] & 2**31 - 1
    np.copyto(radius.numpy(), first, casting="unsafe")
    np.copyto(turn.numpy(), words[1], casting="unsafe")
    radius.mul_(2.0**-31).log_().mul_(-2 * ratio**2).sqrt_()
    turn.mul_(math.pi * 2.0**-31)
    torch.mul(radius, torch.cos(turn, out=wave), out=both[:half])
    torch.mul(radius, turn.sin_(), out=both[half:])
    total, found, apart = both[:count].add_(values, alpha=1 / step), found[:count], apart[:count]
    torch.round(total, out=found)
    torch.sub(total, found, out=apart).abs_().add_(total.abs_(), alpha=2.0**-22)
    with np.errstate(invalid="ignore"):
        doubt = np.zeros(2 * half, dtype=bool)
        np.greater_equal(apart.numpy(), np.float32(0.5 - ratio * ERROR), out=doubt[:count])
    first -= 2**30
    tail = np.abs(first, out=first) >= 2**30 - TAIL
    pairs = np.flatnonzero(doubt[:half] | doubt[half:] | tail)
    if len(pairs):
        _settle(found.numpy(), values.numpy(), step, ratio, words, pairs, spare)
    return found


def workspace(count: int) -> int:
    """Numbers that :func:`rounded` writes to on its way."""
    return 9 * ((count + 1) // 2)


def _settle(
    found: np.ndarray,
    values: np.ndarray,
    step: float,
    ratio: float,
    words: np.ndarray,
    pairs: np.ndarray,
    spare: Bits,
) -> None:
    """Both integers of some pairs, of whose numbers the first half of the digits are given."""
    more = np.frombuffer(spare.bytes(8 * len(pairs)), dtype="<u4").reshape(2, -1).astype(np.int64)
    first = (words[0, pairs] & 2**31 - 1).astype(np.int64) << 32 | more[0]
    turn = words[1, pairs].astype(np.int64) << 32 | more[1]
    which = np.concatenate([pairs, pairs + words.shape[1]])
    held = which < len(values)  # the last pair may have one value
    which = which[held]
    # sin x = cos(x − a quarter of a turn), round the circle: int64 wraps as angles do.
    turn = np.concatenate([turn, turn - QUARTER])[held]
    centres = values[which].astype(np.float64) / step
    owner = np.tile(pairs, 2)[held]
    found[which] = nearest(centres, ratio, np.tile(first, 2)[held], turn, owner, spare.bytes(32))
