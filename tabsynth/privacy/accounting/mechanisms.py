"""Private mechanisms as frozen values. Units are in the docstrings: there is one meaning a name."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import ClassVar

from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import in_range, integer, one_of, quote
from tabsynth.errors import BudgetError, FileFormatError, InputError

# Beyond these no accountant's arithmetic is to be trusted.
LEAST_NOISE, MOST_NOISE = 1e-50, 1e50
MOST_TEACHERS = 100_000
# Different ones in an untrusted file: each takes the accountant a part of a second.
MOST_MECHANISMS = 50
THRESHOLD_SHARE = 0.1  # of δ: set aside for the thresholds of drafts of schemas
EXACT_BINARY, GAUSSIAN, LAPLACE = "exact-binary", "gaussian", "laplace"
ACCOUNTINGS = (EXACT_BINARY, GAUSSIAN, LAPLACE)


class _Listed:
    """A mechanism that certificates and journals list by its name and some of its facts."""

    name: ClassVar[str]
    listed: ClassVar[tuple[str, ...]] = ("noise_multiplier", "sampling_rate")

    def to_dict(self) -> JsonObject:
        """Return the mechanism as certificates and journals list it."""
        return {"mechanism": self.name, **{fact: getattr(self, fact) for fact in self.listed}}


@dataclass(frozen=True, kw_only=True)
class Gaussian(_Listed):
    """Gaussian noise on a sum over the whole table.

    ``noise_multiplier`` is (standard deviation of the noise) / (L2 sensitivity of the sum to adding
    or removing one record); it has no unit.
    """

    noise_multiplier: float

    name = "gaussian"
    sampling_rate = 1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        in_range("noise_multiplier", self.noise_multiplier, LEAST_NOISE, MOST_NOISE)

    def in_words(self, count: int) -> str:
        """Describe ``count`` uses of it, for a person."""
        return f"{_releases(count)}, σ = {self.noise_multiplier:.4g} × L2 sensitivity"


@dataclass(frozen=True, kw_only=True)
class SubsampledGaussian(_Listed):
    """Gaussian noise on a sum over a Poisson sample: each record is in with ``sampling_rate``.

    ``noise_multiplier`` is (standard deviation of the noise) / (L2 sensitivity of the sum), as in
    :class:`Gaussian`.
    """

    noise_multiplier: float
    sampling_rate: float

    name = "subsampled-gaussian"

    def __post_init__(self) -> None:
        """Check the fields."""
        in_range("noise_multiplier", self.noise_multiplier, LEAST_NOISE, MOST_NOISE)
        in_range("sampling_rate", self.sampling_rate, 0, 1, low_open=True)

    def in_words(self, count: int) -> str:
        """Describe ``count`` uses of it, for a person."""
        noise = f"{_releases(count)}, σ = {self.noise_multiplier:.4g} × L2 sensitivity"
        if self.sampling_rate == 1:
            return noise
        return f"{noise}, Poisson sampling rate {self.sampling_rate:.4g}"


@dataclass(frozen=True, kw_only=True)
class NoisyVote(_Listed):
    """One binary question to ``teachers`` voters, K of them; n₁ say yes, n₀ = K − n₁ say no.

    Of ``exact-binary`` and ``gaussian`` is released 1[n₁ + N(0, s²) > K/2], with s = ``noise``, in votes.
    Of ``laplace`` is released argmax_c(n_c + Laplace(1/λ)), noise of its own on each of the two counts,
    that is 1[2n₁ − K + L₁ − L₀ > 0], with the scale 1/λ = ``noise``, in votes: PATE_λ of Jordon et al.
    2019 and Papernot et al. 2017.

    Formal guarantees
    -----------------
    Each record is assigned to one teacher independently and permanently; a teacher's votes follow
    from its shard, its coins and what was released; K is public, and a teacher without records votes
    too. Then adding or removing a record moves n₁ by at most 1, up or down, with all coins as they were.
    The Rényi divergences below are bounds for every table and every question:

    * ``exact-binary``: RDP(α) = max over j < K of D_α(Bern(p_j)‖Bern(p_{j+1})) and of its reverse,
      p_j = Φ((j − K/2)/s). *Proof.* Given the coins of partition and teachers and the answers so far, the
      clean count is some j ∈ {0, …, K} on one table and j or j ± 1 on its neighbour. The answer is
      Bern(p_j), whatever led to j: P(j + s·z > K/2) = P(z > (K/2 − j)/s) = p_j. So the divergence of this
      answer is 0 or one of the 2K in the maximum, which is over all of them and therefore depends on
      no data. As it bounds the divergence given *every* past, the answers compose adaptively:
      RDPs add up (Mironov 2017, Prop. 1). Last, the coins are drawn alike on both tables, and D_α is
      quasi-convex (van Erven & Harremoës 2014, Thm 13): a mixture over coins diverges no more than the
      worst of its parts. ∎ By p_{K−j} = 1 − p_j the two directions have the same maximum. A threshold
      is post-processing of the noised count, so it is never above α/(2s²); for large s it is 2/π of it.
    * ``gaussian``: that of the noised count itself, sensitivity 1: α/(2s²). It composes exactly with
      other Gaussians.
    * ``laplace``: a record moves (n₀, n₁) by 2 in L1, so an answer is 2λ-DP. The moments bound of the
      paper, α(l) = 2λ²l(l + 1), is RDP(l + 1) = α(l)/l = 2λ²(l + 1); an RDP is never above the pure
      2λ either (Bun & Steinke 2016, Prop. 3.3). The paper's second, data-dependent branch is itself
      a private figure, and not used.
    """

    noise: float
    teachers: int
    accounting: str = EXACT_BINARY

    name = "noisy-vote"
    listed = ("noise", "teachers", "accounting")

    def __post_init__(self) -> None:
        """Check the fields."""
        in_range("noise", self.noise, LEAST_NOISE, MOST_NOISE)
        if integer("teachers", self.teachers) > MOST_TEACHERS:
            raise InputError(
                f"Expected teachers of at most {MOST_TEACHERS:,}, got {quote(self.teachers)}."
            )
        one_of("accounting", self.accounting, ACCOUNTINGS)

    def in_words(self, count: int) -> str:
        """Describe ``count`` uses of it, for a person."""
        labels = "1 label" if count == 1 else f"{count:,} labels"
        kind = "Laplace noise of scale" if self.accounting == LAPLACE else "Gaussian noise of"
        return (
            f"{labels} by {self.teachers:,} teachers, {kind} {self.noise:.4g} votes,"
            f" {self.accounting} accounting"
        )


@dataclass(frozen=True, kw_only=True)
class ThresholdedGaussian(_Listed):
    """Gaussian noise on counts of values that are not known in advance; those below a threshold are not released.

    ``noise_multiplier`` is as of :class:`Gaussian`, and ``threshold_delta`` bounds the chance that any value is
    released which a single record alone holds. Under a unit of privacy, a record here is a unit with all its rows.

    Formal guarantees
    -----------------
    Let D' have one record more than D. Given that no value is released which only that record holds, an event of
    probability at least 1 − ``threshold_delta``, the outputs on D' are those of the Gaussian mechanism on the values
    that D holds, for the noise of each value is independent. So the mechanism is ``threshold_delta``-approximately what the
    Gaussian mechanism is (Bun, Steinke 2016, Definition 8.1), approximations add up under adaptive composition, and
    where Gaussians with this noise compose to (ε, δ), these compose to (ε, δ + Σ ``threshold_delta``).
    """

    noise_multiplier: float
    threshold_delta: float

    name = "thresholded-gaussian"
    listed = (*_Listed.listed, "threshold_delta")
    sampling_rate = 1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        in_range("noise_multiplier", self.noise_multiplier, LEAST_NOISE, MOST_NOISE)
        in_range("threshold_delta", self.threshold_delta, 0, 1, low_open=True, high_open=True)

    def in_words(self, count: int) -> str:
        """Describe ``count`` uses of it, for a person."""
        return (
            f"{_releases(count)} of values above a threshold, σ = {self.noise_multiplier:.4g} × L2 sensitivity,"
            f" δ = {self.threshold_delta:.2g} for the threshold"
        )


@dataclass(frozen=True)
class NoPrivacy(_Listed):
    """A read without noise: its ε is infinite."""

    name = "none"
    noise_multiplier = 0.0
    sampling_rate = 1.0

    def in_words(self, count: int) -> str:
        """Describe ``count`` uses of it, for a person."""
        return f"{_releases(count)}, no noise (epsilon = inf)"


Sum = Gaussian | SubsampledGaussian | ThresholdedGaussian | NoPrivacy
Mechanism = Sum | NoisyVote
KINDS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (Gaussian, SubsampledGaussian, ThresholdedGaussian, NoPrivacy, NoisyVote)
}


def _releases(count: int) -> str:
    return "1 release" if count == 1 else f"{count:,} releases"


def mechanism_from(item: JsonMapping) -> Mechanism:
    """Return the mechanism that a certificate lists."""
    try:
        kind = KINDS[item["mechanism"]]
        return kind(**{part.name: item[part.name] for part in fields(kind)})
    except InputError as error:
        raise FileFormatError(f"A mechanism is listed that cannot be: {error}") from None
    except (KeyError, TypeError):
        pass
    raise FileFormatError(f"Unknown or incomplete mechanism {quote(item)}.")


def check_listed(items: Iterable[JsonMapping]) -> None:
    """Refuse a list from a file that would keep the accountant busy for minutes.

    Raises
    ------
    FileFormatError
    """
    different = {mechanism_from(item) for item in items}
    teachers = sum(m.teachers for m in different if isinstance(m, NoisyVote))
    if len(different) > MOST_MECHANISMS or teachers > 2 * MOST_TEACHERS:
        raise FileFormatError(
            f"{len(different):,} different mechanisms with {teachers:,} teachers are listed; at most"
            f" {MOST_MECHANISMS} and {2 * MOST_TEACHERS:,} are read."
        )


def of_sum(mechanism: Mechanism) -> Sum:
    """Return the mechanism, if it pays for a noised sum: a vote's account does not, for it releases less.

    Raises
    ------
    BudgetError
    """
    if isinstance(mechanism, NoisyVote):
        raise BudgetError("An account of noisy votes pays for votes, not for a noised sum.")
    return mechanism


def steps_of(mechanism: Mechanism, count: int) -> tuple[float, float, int]:
    """Return (noise multiplier, sampling rate, count), as accountants of Gaussians take it.

    Raises
    ------
    BudgetError
        For a vote whose accounting is not that of a Gaussian.
    """
    if isinstance(mechanism, NoisyVote) and mechanism.accounting == GAUSSIAN:
        return (mechanism.noise, 1.0, count)
    noisy_sum = of_sum(mechanism)
    return (noisy_sum.noise_multiplier, noisy_sum.sampling_rate, count)


def without_thresholds(
    spends: Iterable[tuple[Mechanism, int]], delta: float
) -> tuple[list[tuple[Mechanism, int]], float]:
    """Return spends with plain Gaussians for thresholded ones, and what these leave of ``delta``: 0 or less for nothing."""
    plain: list[tuple[Mechanism, int]] = []
    for mechanism, count in spends:
        if isinstance(mechanism, ThresholdedGaussian) and count:
            delta -= count * mechanism.threshold_delta
            plain.append((Gaussian(noise_multiplier=mechanism.noise_multiplier), count))
        else:
            plain.append((mechanism, count))
    return plain, delta


def thresholds_of(spends: Iterable[tuple[Mechanism, int]]) -> float:
    """Return the part of δ that the thresholds of drafts among ``spends`` take."""
    return math.fsum(n * m.threshold_delta for m, n in spends if isinstance(m, ThresholdedGaussian))


def is_private(mechanism: Mechanism) -> bool:
    """Return True if the mechanism has a finite ε."""
    return not isinstance(mechanism, NoPrivacy)


def finite(value: object) -> float | None:
    """Return a number as a float; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
