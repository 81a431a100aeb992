"""Sums over the rows of a batch, how far rounding can move them, and the Gaussian noise on them.

A private step releases S = Σᵢ cᵢ + noise, cᵢ = sᵢ(gᵢ − r), where row i's factor sᵢ keeps ‖cᵢ‖ within the
clipping bound C. What is computed is Ŝ, in floating point, and the sensitivity of the step is that of Ŝ. A
plain float32 sum over B rows errs by up to B · 2⁻²⁴ times the sum of the sizes of its terms, and a different
number of rows changes every partial sum: with B = 400,000 one row was seen to move such a sum by 5.9 C. So
the sums here have these parts.

1. *Places.* The rows of a batch lie at places of a public number and shape
   (:class:`tabsynth.training.private_step.Places`), and one row more takes a place that was blank. All other rows
   stay where they are, and a row's gradient is computed from the row, its place and public tensors. So the
   factors (lᵢ, rᵢ) and sᵢ of all other rows are the same, bit by bit.
2. *Chunks and blocks.* Outer products are summed in the network's precision over at most ``CHUNK`` places at a
   time, the sums of ``BLOCK`` chunks are added up in that precision too, and those of blocks in float64. Hence
   one row changes the rounding of its own chunk and block only.
3. *Small terms first.* Biases subtract their reference row by row, before the sum: for them gᵢ stands for
   fl(gᵢ − r) and r for 0 below. Weights subtract (Σ sᵢ) r in float64; only the part of r that belongs to
   weights enters the bound.

Proof of the bound (Higham 2002, §3.1: a sum or inner product of n terms, in any order, with or without fused
operations, errs by at most γₙ = nu/(1 − nu) times the sum of the absolute values of its terms; u is the unit
roundoff, 2⁻²⁴ for float32). Let ŝᵢ be the float64 factor. For every row i, let M bound the norm of the vector of
ŝᵢ Σₖ ‖lᵢₖ‖‖rᵢₖ‖ of each weight, k over its uses, and of the biases' ŝᵢ gᵢ.

- l̃ᵢ = fl(fl(ŝᵢ) lᵢ) differs from ŝᵢ lᵢ by at most 3u‖ŝᵢ lᵢ‖, so that c̃ᵢ = Σₖ l̃ᵢₖ ⊗ rᵢₖ − ŝᵢ r differs from
  ŝᵢ(gᵢ − r) by at most 3uM. A factor ŝᵢ below ``LEAST_SCALE`` would be rounded by more: it is taken for 0.
- In a chunk of m places |fl(Σ l̃ᵢₖ ⊗ rᵢₖ) − Σ l̃ᵢₖ ⊗ rᵢₖ| ≤ γₘ Σᵢ |l̃ᵢₖ| ⊗ |rᵢₖ|, of norm at most γₘ m (1 + 3u) M
  summed over k. Adding up the b chunks of a block errs by at most γ_b times the sum of their sizes, which is
  of norm at most b m (1 + 3u)(1 + γₘ) M. Two neighbouring batches differ in one chunk and in one block, each
  with its error: 2 (γₘ + b γ_b (1 + γₘ)) m (1 + 3u) M.
- A float64 sum over at most p places, in K chunks and with k uses of a weight, errs by at most
  (m + b + 2K + k + 8) p 2⁻⁵³ (M + C + ‖r‖), twice for two batches (one-hot rows, of which a weight's
  column takes what belongs to its ones, in float64 and row by row: p for m + b + 2K).
- Sums of several parts of a batch are added up as pairs of float64 (Knuth's TwoSum: the part that is lost is below
  2⁻¹⁰⁵ of the sum). The total is rounded to float64 once, for which the step sets ``PARTS`` C aside for each place.
- The noise reads the sum in multiples of its grid, a float64 integer and a float32 rest of at most half a
  grid step, below σC√G/256: an error of at most 2⁻²⁵ of that, √P times for P parameters, twice.

So ‖Ŝ(D) − Ŝ(D ∪ {x})‖ ≤ C′ + ηC, with η C the sum of these terms (:func:`rounding`) and C′ the norm to which
rows are clipped. ``PerExampleClipper`` clips to C′ = (1 − η) C, so that the sensitivity of what is released is
at most C. η follows from public numbers alone: C, r, the number of places and the shapes.

*Units of up to m rows* are clipped as one (:mod:`tabsynth.training.units`), and their rows lie in up to m chunks. So
chunks are summed in float64 (u = 2⁻⁵³ above), whatever the network's precision: the factors are numbers of
float64, too. M then bounds the sum over a unit's rows of ŝᵢ Σₖ ‖lᵢₖ‖‖rᵢₖ‖ and of ŝᵢ‖gᵢ − r‖ of biases, and
m ‖r‖ takes the place of ‖r‖. Each row has at most the M of its unit, so what is said of one chunk and one block
holds for each of m of them.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tabsynth.privacy.noise.samplers import FINENESS, QUARTER, Bits, Keystream, grid, nearest

LEAST_SCALE = 2.0**-126  # the smallest number that float32 holds in full precision
# Share of C set aside for each place of a batch in several parts, whose sums are added up and rounded once more.
PARTS = 2.0**-44
CHUNK = 128  # places whose outer products are summed in the network's precision
BLOCK = 8  # chunks whose sums are added up in that precision too
# A layer that is used more than once for a row has products that cancel: together they may be so many times as
# large as C + ‖r‖ before the row is scaled down further.
SEVERAL = {torch.float32: 8.0, torch.float64: 64.0}
# Factors of larger norm than this have products near the end of float32's range: such a row contributes nothing.
LARGEST_FACTOR = 2.0**80


def chunked_products(left: Tensor, right: Tensor) -> Tensor:
    """Return Σᵢ leftᵢ ⊗ rightᵢ in float64, rounded in chunks and blocks; shapes (rows, out) and (rows, in)."""
    total = left.new_zeros(left.shape[1], right.shape[1], dtype=torch.float64)
    for ours, theirs in zip(left.split(BLOCK * CHUNK), right.split(BLOCK * CHUNK), strict=True):
        size = math.ceil(len(ours) / _chunks(len(ours)))
        total += _block(ours, theirs, size)
    return total


def _block(left: Tensor, right: Tensor, size: int) -> Tensor:
    """Return the sum over one block, in the network's precision, from chunks of so many places."""
    if left.device.type != "cpu" and size and len(left) % size == 0:
        chunks = left.unflatten(0, (-1, size)).transpose(1, 2)
        return chunks.bmm(right.unflatten(0, (-1, size))).sum(0)
    pairs = list(zip(left.split(size), right.split(size), strict=True))
    total = pairs[0][0].T @ pairs[0][1]
    product = torch.empty_like(total)
    for ours, theirs in pairs[1:]:
        total += torch.mm(ours.T, theirs, out=product)
    return total


def chunked_sum(values: Tensor) -> Tensor:
    """Return Σᵢ valuesᵢ in float64, rounded in chunks too; shape (rows, …).

    Chunk j has places j, j + chunks, and so on.
    """
    chunks = _chunks(len(values))
    in_chunks = len(values) // chunks * chunks
    sums = values[:in_chunks].unflatten(0, (in_chunks // chunks, chunks)).sum(0)
    return sums.sum(0, dtype=torch.float64) + values[in_chunks:].sum(0, dtype=torch.float64)


def _chunks(places: int) -> int:
    """Return how many chunks so many places make."""
    return max(1, math.ceil(places / CHUNK))


class Total:
    """A sum of lists of float64 tensors that keeps what each addition rounds off."""

    def __init__(self, parts: Sequence[Tensor]) -> None:
        self.high = list(parts)
        self.low: list[Tensor] | None = None

    def add(self, parts: Sequence[Tensor]) -> None:
        """Apply Knuth's TwoSum, element by element."""
        low = self.low or [torch.zeros_like(part) for part in parts]
        for j, part in enumerate(parts):
            high = self.high[j]
            total = high + part
            rest = total - high
            low[j] += (high - (total - rest)) + (part - rest)
            self.high[j] = total
        self.low = low

    def value(self) -> list[Tensor]:
        """Return the sum as float64."""
        if self.low is None:
            return self.high
        return [high + low for high, low in zip(self.high, self.low, strict=True)]


def rounding(
    bounds: Tensor,
    weights: Tensor,
    reference: Tensor,
    *,
    places: int,
    uses: int,
    looked_up: bool,
    working: torch.dtype,
    rows: int = 1,
) -> Tensor:
    """Return η C of the module's docstring but for the noise: by how much rounding can move a sum, in each group.

    Parameters
    ----------
    bounds : float64 Tensor, shape (G,)
        C.
    weights, reference : float64 Tensor, shape (G,)
        Norms of the reference's weights, and of all of it.
    places : int
        p.
    uses : int
        How often a weight is used for a row, at most.
    looked_up : bool
        Whether there are one-hot rows, which are added up one after the other.
    working : dtype
        Of the network, or float64 for units of several rows.
    rows : int
        m, the most rows of a unit; norms of the reference are then m times as large.

    Returns
    -------
    float64 Tensor, shape (G,)
    """
    unit = torch.finfo(working).eps / 2
    chunk, block = _gamma(CHUNK, unit), _gamma(BLOCK, unit)
    most = largest_products(bounds, weights, uses > 1 or rows > 1, working)
    if uses > 1:  # beside the products, biases have a norm of at most C
        most = most * math.sqrt(1 + SEVERAL[working] ** -2)
    terms = places if looked_up else CHUNK + BLOCK + 2 * math.ceil(places / CHUNK)
    in_float64 = (terms + uses + 8) * places * 2.0**-53
    in_working = rows * (chunk + BLOCK * block * (1 + chunk)) * CHUNK * (1 + 3 * unit)
    first = (3 * unit + 2 * in_working) * most
    return first + 2 * in_float64 * (most + bounds + reference)


def _gamma(terms: int, unit: float) -> float:
    return terms * unit / (1 - terms * unit)


def largest_products(
    bounds: Tensor, weights: Tensor, several: bool, working: torch.dtype
) -> Tensor:
    """Return M of the module's docstring, shape (G,)."""
    return (bounds + weights) * (SEVERAL[working] if several else 1.0)


def noise_rounding(parameters: int, std: float) -> float:
    """Return by how much the noise's reading of a sum can move it; ``std`` is that of the noise."""
    return 2 * math.sqrt(parameters) * std / 128 / 2 * 2.0**-25


# As ERROR and TAIL of tabsynth.privacy.noise.samplers, but in float32 from 31 and 32 digits: R errs by
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
    On the CPU: exactly the law of :func:`tabsynth.privacy.noise.samplers.noisy` around values that differ from those
    given by at most 2⁻²⁶ steps of the grid each, so the release is post-processing of the Gaussian mechanism.
    By how much rounding moves a sum before the noise, that difference included, is bounded in
    the head of this module, and rows are clipped below their bound by as much.

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

    def add(self, sums: Sequence[Tensor], stds: Tensor, groups: Sequence[int]) -> list[Tensor]:
        """Return each tensor plus noise: of standard deviation ``stds[j]`` where its group is j."""
        noisy: dict[int, Tensor] = {}
        for j, std in enumerate(stds.unbind()):
            part = [i for i, group in enumerate(groups) if group == j]
            noised = self.noisy(torch.cat([sums[i].flatten() for i in part]), std)
            noisy.update(zip(part, noised.split([sums[i].numel() for i in part]), strict=True))
        return [noisy[i].view(s.shape) for i, s in enumerate(sums)]

    def noisy(self, values: Tensor, std: Tensor) -> Tensor:
        """Return values, shape (count,), plus noise; ``std`` is one number, on the same device.

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
        multiples = draw_rounded(rest.float(), 1.0, size / step, self.bits, self._room)
        # Zero is added to leave no negative zeros: they would reveal on which side of zero it was.
        return whole.add_(multiples).mul_(step).add_(0.0).to(values)

    def _elsewhere(self, values: Tensor, std: Tensor) -> Tensor:
        """Add the noise without waiting for the device."""
        size = std.double()
        power = (size.view(torch.int64) & 0x7FF << 52).view(torch.float64)  # exponent bits alone
        step = power * 2.0**-FINENESS
        noise = torch.empty(len(values), dtype=torch.float64, device=values.device)
        noise.normal_(generator=self.generator)
        whole, rest = _parts(values, step)
        total = whole + (rest + size / step * noise).round()
        return (total * step).add_(0.0).to(values)


def _parts(values: Tensor, step: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return values in steps of the grid, a power of two: a whole number and a rest, exactly, in float64."""
    steps = values.double() / step
    whole = steps.round()
    return whole, steps.sub_(whole)


def draw_rounded(
    values: Tensor, step: float, ratio: float, bits: Bits, room: Tensor | None = None
) -> Tensor:
    """See :func:`tabsynth.privacy.noise.samplers.rounded_gaussian`, of ``values / step``: a float32 tensor on the CPU.

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
    radius, turn, wave, both, integers, apart = room.split([half] * 3 + [2 * half] * 3)
    first = words[0] & 2**31 - 1
    np.copyto(radius.numpy(), first, casting="unsafe")
    np.copyto(turn.numpy(), words[1], casting="unsafe")
    radius.mul_(2.0**-31).log_().mul_(-2 * ratio**2).sqrt_()
    turn.mul_(math.pi * 2.0**-31)
    torch.mul(radius, torch.cos(turn, out=wave), out=both[:half])
    torch.mul(radius, turn.sin_(), out=both[half:])
    total, integers, apart = (
        both[:count].add_(values, alpha=1 / step),
        integers[:count],
        apart[:count],
    )
    torch.round(total, out=integers)
    torch.sub(total, integers, out=apart).abs_().add_(total.abs_(), alpha=2.0**-22)
    with np.errstate(invalid="ignore"):
        doubt = np.zeros(2 * half, dtype=bool)
        np.greater_equal(apart.numpy(), np.float32(0.5 - ratio * ERROR), out=doubt[:count])
    first -= 2**30
    tail = np.abs(first, out=first) >= 2**30 - TAIL
    pairs = np.flatnonzero(doubt[:half] | doubt[half:] | tail)
    if len(pairs):
        _settle(integers.numpy(), values.numpy(), step, ratio, words, pairs, spare)
    return integers


def workspace(count: int) -> int:
    """Return numbers that :func:`draw_rounded` writes to on its way."""
    return 9 * ((count + 1) // 2)


def _settle(
    integers: np.ndarray,
    values: np.ndarray,
    step: float,
    ratio: float,
    words: np.ndarray,
    pairs: np.ndarray,
    spare: Bits,
) -> None:
    """Return both integers of some pairs, of whose numbers the first half of the digits are given."""
    further = (
        np.frombuffer(spare.bytes(8 * len(pairs)), dtype="<u4").reshape(2, -1).astype(np.int64)
    )
    first = (words[0, pairs] & 2**31 - 1).astype(np.int64) << 32 | further[0]
    turn = words[1, pairs].astype(np.int64) << 32 | further[1]
    which = np.concatenate([pairs, pairs + words.shape[1]])
    inside = which < len(values)  # the last pair may have one value
    which = which[inside]
    # sin x = cos(x − a quarter of a turn), round the circle: int64 wraps as angles do.
    turn = np.concatenate([turn, turn - QUARTER])[inside]
    centres = values[which].astype(np.float64) / step
    owner = np.tile(pairs, 2)[inside]
    integers[which] = nearest(
        centres, ratio, np.tile(first, 2)[inside], turn, owner, spare.bytes(32)
    )
