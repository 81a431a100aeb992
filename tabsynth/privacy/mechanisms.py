"""Private mechanisms as frozen values. Units are in the docstrings: there is one meaning a name."""

import math
from dataclasses import dataclass
from typing import Any

from tabsynth._validate import between, shown
from tabsynth.errors import FileFormatError

# Beyond these no accountant's arithmetic is to be trusted.
LEAST_NOISE, MOST_NOISE = 1e-50, 1e50


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """Gaussian noise on a sum over the whole table.

    ``noise_multiplier`` is (standard deviation of the noise) / (L2 sensitivity of the sum to adding
    or removing one record); it has no unit.
    """

    noise_multiplier: float

    name = "gaussian"
    sampling_rate = 1.0

    def __post_init__(self) -> None:
        between("noise_multiplier", self.noise_multiplier, LEAST_NOISE, MOST_NOISE)


@dataclass(frozen=True, kw_only=True)
class SubsampledGaussian:
    """Gaussian noise on a sum over a Poisson sample: each record is in with ``sampling_rate``.

    ``noise_multiplier`` is (standard deviation of the noise) / (L2 sensitivity of the sum), as in
    :class:`Gaussian`.
    """

    noise_multiplier: float
    sampling_rate: float

    name = "subsampled-gaussian"

    def __post_init__(self) -> None:
        between("noise_multiplier", self.noise_multiplier, LEAST_NOISE, MOST_NOISE)
        between("sampling_rate", self.sampling_rate, 0, 1, low_open=True)


@dataclass(frozen=True)
class NoPrivacy:
    """A read without noise: its ε is infinite."""

    name = "none"
    noise_multiplier = 0.0
    sampling_rate = 1.0


Mechanism = Gaussian | SubsampledGaussian | NoPrivacy


def mechanism_from(item: dict[str, Any]) -> Mechanism:
    """The mechanism that a certificate lists."""
    try:
        name = item["mechanism"]
        if name == Gaussian.name:
            return Gaussian(noise_multiplier=item["noise_multiplier"])
        if name == SubsampledGaussian.name:
            return SubsampledGaussian(
                noise_multiplier=item["noise_multiplier"], sampling_rate=item["sampling_rate"]
            )
        if name == NoPrivacy.name:
            return NoPrivacy()
    except (KeyError, TypeError):
        pass
    raise FileFormatError(f"Unknown or incomplete mechanism {shown(item)}.")


def steps_of(mechanism: Mechanism, count: int) -> tuple[float, float, int]:
    """(noise multiplier, sampling rate, count), as accountants take it."""
    if isinstance(mechanism, NoPrivacy):
        return (0.0, 1.0, count)
    return (mechanism.noise_multiplier, mechanism.sampling_rate, count)


def is_private(mechanism: Mechanism) -> bool:
    """Whether the mechanism has a finite ε."""
    return not isinstance(mechanism, NoPrivacy) and math.isfinite(mechanism.noise_multiplier)
