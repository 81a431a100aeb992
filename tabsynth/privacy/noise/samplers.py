"""Noise: from a cryptographic generator, and released on a public grid, with exactly the law claimed.

Every noisy release goes through here: counts, distances and scores (:func:`noisy`), votes
(:func:`bernoulli`), sums of clipped gradients (:mod:`tabsynth.training.sums`).

*Why a grid.* The floats that value + noise can take in floating point depend on the value, so that low-order
bits distinguish neighbouring datasets whatever ε is (Mironov 2012, "On significance of the least significant bits for
differential privacy", CCS). What is released here is the multiple of g nearest to f + s·Z, with Z ~ N(0, 1)
of all real numbers and g a power of two that follows from s alone: the same grid for all tables.

*Why it costs nothing.* Rounding is a function of f + s·Z. So the release is post-processing of the Gaussian
mechanism, and whatever holds of that one (exact composition, PRV, RDP, subsampling) holds of this, for it is
proved of real numbers and not approximated.

NOTE[DIFF] For counts the discrete Gaussian is usual (Canonne, Kamath, Steinke 2020, arXiv:2004.00010), with
probabilities ∝ exp(−k²/2s²). Its RDP is that of the Gaussian mechanism, its exact (ε, δ) curve is not, so that
exact-Gaussian and PRV accountants do not cover it. The rounded Gaussian here gives integers as well, with
P(k) = Φ((k + ½)/s) − Φ((k − ½)/s), and is covered. Rounding adds 1/12 to the variance.

*How it is exact.* The real number Z is never written down. Box and Muller's transform makes it of two uniform
numbers, of which some binary digits are drawn: with those, f/g + (s/g)·Z is known to within an error that is
bounded (:data:`ERROR`). Where no half-integer is within that bound, the nearest integer is certain, whatever
the digits not drawn. Where one is, more digits are drawn and the transform is enclosed in intervals of as many
digits, until one integer is left. So are tails past 5.7 standard deviations: they do not end.
"""

import builtins
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import mpmath
import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

STEP = 2.0**-20  # of public numbers among counts
FINENESS = 7  # of the grid of what is no integer: a step is between 2⁻⁸ and 2⁻⁷ standard deviations
# Of Z in float64, for a first uniform number in [TAIL, 1 − TAIL]. With U known to 2⁻⁶³ and rounded by a
# 2⁻⁵³rd, R = √(−2 ln U) errs by 2⁻⁶³/(U R) < 2⁻⁴¹ at U = TAIL, where R = 5.8; by 2⁻⁵³/R < 2⁻⁴¹ at 1 − TAIL,
# where R = 2⁻¹¹·⁵. The angle, below π, errs by 2⁻⁵⁰; logarithm, root and cosine by a few 2⁻⁵³ each.
ERROR = 2.0**-39
TAIL = 2.0**-24
LEAST = 1e-300  # standard deviation
MOST = 2.0**50  # grid steps: past them float64 has no halves
CLOSE = 2.0**-40  # of a chance and a uniform number, both in float64: far above their rounding
QUARTER = 2**62  # of a turn of 2⁶⁴


class Bits(Protocol):
    """Independent uniform bits: a :class:`Keystream`, or a numpy Generator where nothing is private."""

    def bytes(self, length: int) -> builtins.bytes:
        """Return the next ``length`` bytes."""


_ZEROS = memoryview(builtins.bytes(2**20))  # what is enciphered: at hand, for it is slow to clear


class Keystream:
    """Bits from AES-256 in counter mode: whoever sees some of them can foretell no other.

    Parameters
    ----------
    key : bytes, of length 32, optional
        By default from the operating system's entropy (``os.urandom``). The same key gives the same
        bits: only what is seeded, and hence not private, may give one that somebody else knows.

    Notes
    -----
    The counter has 128 bits, so a stream never comes round. It cannot be copied or pickled, and a process
    that was forked off continues with a key of its own, unless the key was given.
    """

    def __init__(self, key: builtins.bytes | None = None) -> None:
        self._given = key is not None
        self._start(os.urandom(32) if key is None else key)

    def _start(self, key: builtins.bytes) -> None:
        self._process = os.getpid()
        # A key is used for one stream, so that its counter may start at 0.
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(builtins.bytes(16))).encryptor()

    def bytes(self, length: int) -> builtins.bytes:
        """Return the next ``length`` bytes."""
        if not self._given and os.getpid() != self._process:
            self._start(os.urandom(32))
        return self._cipher.update(
            _ZEROS[:length] if length <= len(_ZEROS) else builtins.bytes(length)
        )


def uniform(count: int, bits: Bits) -> np.ndarray:
    """Return uniform numbers in (0, 1], multiples of 2⁻⁵³, shape (count,)."""
    words = np.frombuffer(bits.bytes(8 * count), dtype="<u8") >> np.uint64(11)
    return (words.astype(np.int64) + 1) * 2.0**-53


def noisy(
    values: npt.ArrayLike, std: float, bits: Bits, *, whole: bool = False, fineness: int = FINENESS
) -> np.ndarray:
    """Return values plus Gaussian noise, on a public grid.

    Parameters
    ----------
    values : float array
    std : float
        s, the standard deviation of the noise; 0 gives the values back.
    bits : Bits
    whole : bool
        Whether the values are integers; so is then what is released.
    fineness : int
        The grid's step is at least 2^−fineness / 2 of ``std``.

    Returns
    -------
    float64 array, shape of ``values``
        Multiples of the power of two that :func:`grid` says.

    Formal guarantees
    -----------------
    With Δ the values' L2 sensitivity, this is post-processing of a Gaussian mechanism of multiplier s/Δ: see
    the top of this file. Values are taken as they are: that their float64 sums have sensitivity Δ is for
    the caller to see to (integers, and multiples of a public power of two, add up without rounding). Past
    ``MOST`` steps of the grid nothing is promised: noise is then below 2⁻⁴³ of a value.
    """
    exact = np.asarray(values, dtype=np.float64)
    if not std:
        return exact.copy()
    if not LEAST < std < math.inf:
        raise ValueError(f"no noise has a standard deviation of {std}")
    step = grid(std, whole=whole, fineness=fineness)
    multiples = rounded_gaussian(exact.ravel() / step, std / step, bits)
    return step * multiples.reshape(exact.shape) + 0.0  # no negative zero: one more bit


def grid(std: float, *, whole: bool = False, fineness: int = FINENESS) -> float:
    """Return the step of the grid: the power of two in (std/2, std], over 2^fineness; 1 at least if ``whole``."""
    step = math.ldexp(1.0, math.frexp(std)[1] - 1 - fineness)
    return max(1.0, step) if whole else step


def on_grid(expected: np.ndarray, step: float = STEP) -> np.ndarray:
    """Return public numbers in multiples of a power of two: among counts that are such, too, they add up exactly in float64.

    With the step of 2⁻²⁰ to 2³³.
    """
    return np.rint(expected / step) * step


def rounded_gaussian(centres: np.ndarray, ratio: float, bits: Bits) -> np.ndarray:
    """Return the integers nearest to ``centres`` + ``ratio`` · Z, Z ~ N(0, 1), exactly.

    Parameters
    ----------
    centres : float64 array, shape (count,)
        Taken as exact. What is not finite stays so.
    ratio : float

    Returns
    -------
    float64 array, shape (count,)
    """
    count = len(centres)
    first, turn = np.frombuffer(bits.bytes(16 * count), dtype="<i8").reshape(2, count)
    return nearest(centres, ratio, first & 2**63 - 1, turn, np.arange(count), bits.bytes(32))


def nearest(
    centres: np.ndarray,
    ratio: float,
    first: np.ndarray,
    turn: np.ndarray,
    owner: np.ndarray,
    spare: bytes,
) -> np.ndarray:
    """Return the integers nearest to centre + ratio · √(−2 ln U) cos(2π V), float64, shape (count,).

    Parameters
    ----------
    centres : float64 array, shape (count,)
    ratio : float
    first, turn : int64 array, shape (count,)
        The first 63 binary digits of U, in [0, 1), and 64 of V, in [−1/2, 1/2).
    owner : int array, shape (count,)
        Values of one owner are the sides of one right angle: they have the same U, their V are
        ``QUARTER`` apart, and what further digits are drawn is for both.
    spare : bytes, of length 32
        Key of a stream for the digits that are still missing. It is drawn whether or not any are, so that
        how far a stream of noise is used up follows from shapes alone, never from values.
    """
    uniform = first * 2.0**-63
    with np.errstate(divide="ignore", invalid="ignore"):  # log 0 is a tail
        radius = np.sqrt(-2 * np.log(uniform))
        total = centres + ratio * (radius * np.cos(turn * (math.pi * 2.0**-63)))
        integers = np.rint(total)
        sure = np.abs(total - integers) < 0.5 - ratio * ERROR - 2.0**-51 * np.abs(total)
    sure &= (uniform > TAIL) & (uniform < 1 - TAIL)
    if sure.all():
        return integers
    further: dict[int, list[tuple[int, int]]] = {}
    bits, library = Keystream(spare), mpmath.ctx_iv.MPIntervalContext()  # not mpmath's own context
    for i in np.flatnonzero(~sure & (np.abs(centres) < MOST)):
        u, v, digits = int(first[i]), int(turn[i]), further.setdefault(int(owner[i]), [])
        integers[i] = _resolve_integer(float(centres[i]), ratio, u, v, digits, bits, library)
    return integers


def _resolve_integer(
    centre: float,
    ratio: float,
    first: int,
    turn: int,
    digits: list[tuple[int, int]],
    bits: Bits,
    library: Any,
) -> int:
    """Return the same integer from as many digits as it takes: those drawn already, then new ones."""
    used = 0
    while True:
        low, high = _enclosing_integers(centre, ratio, first, turn, 64 * used, library)
        if low == high:
            return low
        if used == len(digits):
            block = bits.bytes(16)
            digits.append(
                (int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little"))
            )
        first, turn = (
            x << 64 | block for x, block in zip((first, turn), digits[used], strict=True)
        )
        used += 1


def _enclosing_integers(
    centre: float, ratio: float, first: int, turn: int, further: int, library: Any
) -> tuple[int, int]:
    """Return the integers nearest to the ends of an interval that holds the value for sure."""
    if first == 0:
        return 0, 1  # without bound until a digit of U is not 0
    library.prec = 192 + further
    scale = 2 ** (63 + further)
    radius = library.sqrt(-2 * library.log(library.mpf([first, first + 1]) / scale))
    wave = library.cos(library.mpf([turn, turn + 1]) / scale * library.pi)
    low, high = (centre + ratio * radius * wave + library.mpf(0.5))._mpi_
    return mpmath.libmp.to_int(low, "f"), mpmath.libmp.to_int(high, "f")


def bernoulli(chances: np.ndarray, digits: Callable[[int, Any], Any], bits: Bits) -> np.ndarray:
    """Return independent coins, each True with exactly its chance: bool array, shape of ``chances``.

    Parameters
    ----------
    chances : float64 array
        To within ``CLOSE`` / 2.
    digits : callable
        ``digits(i, library)``: chance i, of the flattened array, in mpmath's context ``library``, to its
        precision but for 16 bits.

    Notes
    -----
    True if a uniform number U is below the chance. Where its first 53 digits leave that open, more are
    drawn, and the chance is computed to as many.
    """
    flat = np.asarray(chances, dtype=np.float64).ravel()
    words = np.frombuffer(bits.bytes(8 * len(flat)), dtype="<u8")
    drawn, spare = (words >> np.uint64(11)) * 2.0**-53, Keystream(bits.bytes(32))
    outcomes = drawn < flat
    for i in np.flatnonzero(np.abs(drawn - flat) <= CLOSE):
        outcomes[i] = _below(int(words[i]), partial(digits, int(i)), spare)
    return outcomes.reshape(np.shape(chances))


def _below(word: int, chance: Callable[[Any], Any], bits: Bits) -> bool:
    """Return whether a uniform number of which 64 digits are drawn is below a chance."""
    count = 64
    while True:
        library = mpmath.MPContext()
        library.prec = count + 64
        limit = library.ldexp(chance(library), count)
        slack = library.ldexp(abs(limit), 16 - library.prec)
        if word + 1 <= limit - slack:
            return True
        if word >= limit + slack:
            return False
        word = word << 64 | int.from_bytes(bits.bytes(8), "little")
        count += 64
