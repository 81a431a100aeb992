"""How a GAN's budget is split: counts, the overlap check, the autoencoder, and what the generator learns by."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tabsynth.autoencoder import AutoencoderConfig
from tabsynth.generators.adversarial_config import AdversarialConfig
from tabsynth.plan import PlannedSpend
from tabsynth.privacy.accounting import gaussian_mu
from tabsynth.privacy.calibration import calibrate, matching_noise
from tabsynth.privacy.ledger import Ledger
from tabsynth.privacy.mechanisms import Gaussian, Mechanism, NoPrivacy, SubsampledGaussian

MARGINALS, COUNT, OVERLAP = "one-way counts", "row count", "overlap with the public table"
AUTOENCODER, CRITIC = "autoencoder", "critic"
# Of the budget's μ², the unit in which Gaussian mechanisms add up.
SHARES = {MARGINALS: 0.1, COUNT: 0.005, OVERLAP: 0.005}


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What takes all that is left of a budget: ``count`` uses of the mechanism of some noise.

    Attributes
    ----------
    purpose : str
    mechanism : callable
        From the noise that is looked for, one for all parts, to the mechanism.
    count : int
    details : dict
        What else a reader of the certificate wants to know of it.
    """

    purpose: str
    mechanism: Callable[[float], Mechanism]
    count: int
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Split:
    """What a GAN's fit spends, in order.

    Attributes
    ----------
    once : tuple of str
        Counts that are released once: keys of ``SHARES``.
    autoencoder : AutoencoderConfig or None
        If it learns from private rows.
    learned : tuple of Learned
        What the generator learns by.
    """

    once: tuple[str, ...]
    autoencoder: AutoencoderConfig | None
    learned: tuple[Learned, ...]

    def spends(self, epsilon: float, delta: float, earlier: Ledger) -> list[PlannedSpend]:
        """The plan; ``learned`` takes all that the others leave of (epsilon, delta).

        Raises
        ------
        BudgetError
            If they leave nothing.
        """
        mu = _left(epsilon, delta, earlier)
        spends = [
            PlannedSpend(purpose=name, mechanism=_gaussian(mu, SHARES[name]), count=1)
            for name in self.once
        ]
        if self.autoencoder is not None:
            mechanism = _autoencoder(self.autoencoder, mu, delta)
            count = self.autoencoder.steps
            spends.append(PlannedSpend(purpose=AUTOENCODER, mechanism=mechanism, count=count))
        noise = math.inf
        if math.isfinite(mu):
            fixed = [*earlier.spends(), *((s.mechanism, s.count) for s in spends)]
            noise = calibrate(
                lambda s: [*fixed, *((part.mechanism(s), part.count) for part in self.learned)],
                epsilon,
                delta,
                earlier.filter if earlier.adaptive else None,
            )
        for part in self.learned:
            mechanism = part.mechanism(noise) if math.isfinite(mu) else NoPrivacy()
            spends.append(PlannedSpend(purpose=part.purpose, mechanism=mechanism, count=part.count))
        return spends

    def details(self, purpose: str, columns: int) -> dict[str, Any]:
        """What else a reader of the certificate wants to know of a mechanism."""
        if purpose == MARGINALS:
            return {"l2_sensitivity": math.sqrt(columns), "unit": "counts", "columns": columns}
        if purpose in SHARES:
            return {"l2_sensitivity": 1.0, "unit": "rows"}
        if purpose == AUTOENCODER:
            assert self.autoencoder is not None
            return self.autoencoder.stated_steps()
        return next(part.details for part in self.learned if part.purpose == purpose)


def critic(config: AdversarialConfig, stand_ins: str) -> Learned:
    """A critic's private steps, which go by the gradients of ``stand_ins``."""
    return Learned(
        purpose=CRITIC,
        mechanism=lambda noise: sampled(noise, config.sampling_rate),
        count=config.critic_steps,
        details=config.stated_steps(stand_ins),
    )


def _left(epsilon: float, delta: float, earlier: Ledger) -> float:
    """μ of the single Gaussian that would spend what is left, for sharing out."""
    if math.isinf(epsilon):
        return math.inf
    if earlier.adaptive:
        return max(earlier.filter.mu_left(earlier.spends()), 1e-6)
    return gaussian_mu(epsilon, delta)


def _gaussian(mu: float, share: float) -> Mechanism:
    if math.isinf(mu):
        return NoPrivacy()
    return Gaussian(noise_multiplier=1 / (mu * math.sqrt(share)))


def _autoencoder(config: AutoencoderConfig, mu: float, delta: float) -> Mechanism:
    if math.isinf(mu):
        return NoPrivacy()
    rate = config.sampling_rate
    noise = matching_noise(
        lambda s: SubsampledGaussian(noise_multiplier=s, sampling_rate=rate),
        config.steps,
        mu * math.sqrt(config.share),
        delta,
    )
    return SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)


def sampled(noise: float, rate: float) -> Mechanism:
    """The mechanism of one step at ``rate``."""
    if rate == 1.0:
        return Gaussian(noise_multiplier=noise)
    return SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)
