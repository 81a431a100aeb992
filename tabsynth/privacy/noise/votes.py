"""The noisy answers of a vote, from clean counts; and how sure an answer is."""

from typing import Any

import numpy as np

from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import LAPLACE, NoisyVote
from tabsynth.privacy.noise.samplers import Bits, bernoulli


def majority(counts: np.ndarray, mechanism: NoisyVote, bits: Bits) -> np.ndarray:
    """Return whether each vote was won, with noise: one use of ``mechanism`` a query.

    The caller writes the uses off first: counts are private until they have passed here.

    Parameters
    ----------
    counts : int array, shape (queries,)
        n₁ of each query: how many of ``mechanism.teachers`` teachers say yes.
    mechanism : NoisyVote
        What is released in each case is in its docstring. Where n₁ is exactly half, the noise decides.
    bits : Bits

    Returns
    -------
    bool array, shape (queries,)

    Raises
    ------
    InputError
        If a count is not between 0 and the number of teachers.

    Notes
    -----
    An answer is one bit, so the chance that it is yes is all there is of its law: it is a coin of exactly
    that chance (:func:`tabsynth.privacy.noise.samplers.bernoulli`), and no noise is written down.
    """
    votes = np.asarray(counts)
    if votes.size and not (votes.min() >= 0 and votes.max() <= mechanism.teachers):
        raise InputError(f"Expected counts of votes in [0, {mechanism.teachers}].")
    flat = votes.ravel()

    def digits(i: int, library: Any) -> Any:
        return _chance(int(flat[i]), mechanism, library)

    return bernoulli(chance_of_yes(votes, mechanism), digits, bits)


def _chance(count: int, mechanism: NoisyVote, library: Any) -> Any:
    """Return :func:`chance_of_yes` to the precision of an mpmath context."""
    noise = library.mpf(mechanism.noise)
    if mechanism.accounting != LAPLACE:
        return library.ncdf((count - library.mpf(mechanism.teachers) / 2) / noise)
    margin = 2 * count - mechanism.teachers
    u = abs(margin) / noise
    tail = library.exp(-u) * (1 + u / 2) / 2
    return 1 - tail if margin > 0 else tail


def chance_of_yes(counts: np.ndarray, mechanism: NoisyVote) -> np.ndarray:
    """Return the chance that :func:`majority` answers yes, shape of ``counts``; counts may be fractional.

    Gaussian: Φ((n₁ − K/2)/s). Laplace: the difference of two of scale b exceeds t ≥ 0 with chance
    ½ e^(−t/b) (1 + t/(2b)), here at t = |2n₁ − K|.
    """
    from scipy.special import ndtr  # only methods with votes wait for it

    margin = np.asarray(counts, dtype=float) - mechanism.teachers / 2
    if mechanism.accounting != LAPLACE:
        return ndtr(margin / mechanism.noise)
    u = 2 * np.abs(margin) / mechanism.noise
    tail = np.exp(-u) * (1 + u / 2) / 2
    return np.where(margin > 0, 1 - tail, tail)
