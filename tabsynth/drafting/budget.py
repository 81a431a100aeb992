"""The budget of a private draft: its part of the budget of a fit, the noise of its releases, and what new values must pass."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import (
    THRESHOLD_SHARE,
    Gaussian,
    NoPrivacy,
    ThresholdedGaussian,
)
from tabsynth.privacy.noise import samplers

# Of the budget of a fit without a schema, in μ²: what the draft may spend for each column, and at least and at most. Of tables with
# more than so many rows it spends less than it may, for values and bounds that a share of their rows have are clear of more noise.
SHARE = 1 / 120
LEAST_SHARE, MOST_SHARE = 0.15, 0.4
ENOUGH_ROWS = 6_000
RELATIONS_SHARE = 0.03  # of the same budget: the search for relations between columns
FORMATS_SHARE, REST_SHARE, DIFFERENT_SHARE = 0.08, 0.04, 0.05  # of the draft
ROUNDS = (1, 2, 4, 8, 16)  # budgets of the rounds of values, in μ², relative to each other
UNIT = 2**16  # a row's weights are multiples of 1 / UNIT or less, so that sums are exact
Noise = NoPrivacy | Gaussian | ThresholdedGaussian


def draft_share(epsilon: float, delta: float, columns: int) -> float:
    """Return μ of the draft of a fit without a schema, whose whole budget is (epsilon, delta)."""
    return mu_of_share(epsilon, delta, min(max(LEAST_SHARE, SHARE * columns), MOST_SHARE))


def mu_of_share(epsilon: float, delta: float, share: float) -> float:
    """Return μ of a share, in μ², of a budget (epsilon, delta) of a fit without a schema."""
    if math.isinf(epsilon):
        return math.inf
    return math.sqrt(share) * gaussian_mu(epsilon, delta * (1 - THRESHOLD_SHARE))


@dataclass(frozen=True, kw_only=True)
class DraftBudget:
    """The budget of a private draft.

    Attributes
    ----------
    mu : float
        Of all releases together; infinite for none with noise.
    threshold_delta : float
        Of δ, for the thresholds of all rounds.
    max_rows : int
        The most rows of a unit, which share the weights of one row.
    used : float
        The part of the budget, in μ², that releases after the first use.
    """

    mu: float
    threshold_delta: float
    max_rows: int = 1
    used: float = 1.0

    def for_rows(self, rows: float) -> "DraftBudget":
        """Return the budget of the releases after the first, for a table of so many rows."""
        return replace(self, used=min(1.0, math.sqrt(ENOUGH_ROWS / max(1.0, rows))))

    @property
    def scale(self) -> int:
        """The number of parts of a weight of 1, in which weights are counted."""
        return UNIT * 2 ** (self.max_rows - 1).bit_length()

    def mechanism(self, share: float, chance: float | None = None) -> Noise:
        """Return the mechanism of a release for a share of the budget, with the probability that a threshold fails."""
        if math.isinf(self.mu):
            return NoPrivacy()
        noise = 1 / (self.mu * math.sqrt(share * self.used))
        if chance is None:
            return Gaussian(noise_multiplier=noise)
        return ThresholdedGaussian(noise_multiplier=noise, threshold_delta=chance)

    def round_of_values(self, number: int, spare: float = 0.0) -> tuple[Noise, float]:
        """Return the mechanism of a round of values, of which 1 is the first, and the probability that its threshold fails.

        ``spare`` is a further share of the budget.
        """
        of_rounds = 1 - FORMATS_SHARE - REST_SHARE - DIFFERENT_SHARE
        share = of_rounds * ROUNDS[number - 1] / sum(ROUNDS) + spare
        chance = self.threshold_delta / len(ROUNDS)
        return self.mechanism(share, chance), chance

    def threshold(self, std: float, chance: float, questions: int) -> float:
        """Return what a noisy sum of weights must pass, so that no new value of one unit does, but with ``chance``.

        A record with k values that no other has gives each a weight of at most 1/√k. The probability that one of their noisy
        sums passes T is 1 − Φ((T − 1/√k)/σ)^k; T is the largest that any k asks for.

        A unit has n ≤ R rows, of which row r gives each of its k_r values 1/(n √k_r). Let G(w) = −log Φ((T − w)/σ), which is
        convex. For a value that m rows have, G of the sum of their weights is at most the mean over them of
        G(m/(n √k_r)), by Jensen. Added up over the values, −log P(none passes) is at most the largest
        (k/s) G(s/√k) of any k and s = m/n from 1/R to 1: that of R/m groups of m equal rows. The T that keeps this below
        −log(1 − chance) is s/√k + σ Φ⁻¹((1 − chance)^(s/k)), which is convex in s. So it is largest at s = 1/R or s = 1.
        """
        if not std or not questions:
            return 0.0
        counts = np.arange(1, questions + 1)
        # Of what is released, to the nearest.
        rounding = samplers.grid(std * self.scale, whole=True) / self.scale
        largest = 0.0
        for share in (1.0, 1 / self.max_rows):
            each = -np.expm1(np.log1p(-chance) * share / counts)
            quantiles = np.array([NormalDist().inv_cdf(p) for p in each])
            largest = max(largest, float(np.max(share / np.sqrt(counts) - std * quantiles)))
        return largest + rounding
