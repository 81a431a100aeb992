"""How a GAN's budget is split: counts, the overlap check, the autoencoder, and the critic's steps."""

import math
from dataclasses import dataclass
from typing import Any

from tabsynth.autoencoder import AutoencoderConfig
from tabsynth.generators.adversarial_config import AdversarialConfig
from tabsynth.plan import PlannedSpend
from tabsynth.privacy.accounting import calibrate, gaussian_mu, matching_noise
from tabsynth.privacy.ledger import Ledger
from tabsynth.privacy.mechanisms import Gaussian, Mechanism, NoPrivacy, SubsampledGaussian

MARGINALS, COUNT, OVERLAP = "one-way counts", "row count", "overlap with the public table"
AUTOENCODER, CRITIC = "autoencoder", "critic"
# Of the budget's μ², the unit in which Gaussian mechanisms add up.
SHARES = {MARGINALS: 0.1, COUNT: 0.005, OVERLAP: 0.005}


@dataclass(frozen=True, kw_only=True)
class Split:
    """What a GAN's fit spends, in order.

    Attributes
    ----------
    once : tuple of str
        Counts that are released once: keys of ``SHARES``.
    autoencoder : AutoencoderConfig or None
        If it learns from private rows.
    gan : AdversarialConfig
    """

    once: tuple[str, ...]
    autoencoder: AutoencoderConfig | None
    gan: AdversarialConfig

    def spends(self, epsilon: float, delta: float, earlier: Ledger) -> list[PlannedSpend]:
        """The plan; the critic takes all that the others leave of (epsilon, delta).

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
        rate, count = self.gan.sampling_rate, self.gan.critic_steps
        mechanism = NoPrivacy()
        if math.isfinite(mu):
            fixed = [*earlier.spends(), *((s.mechanism, s.count) for s in spends)]
            noise = calibrate(lambda s: [*fixed, (sampled(s, rate), count)], epsilon, delta)
            mechanism = sampled(noise, rate)
        spends.append(PlannedSpend(purpose=CRITIC, mechanism=mechanism, count=count))
        return spends

    def details(self, purpose: str, columns: int) -> dict[str, Any]:
        """What else a reader of the certificate wants to know of a mechanism."""
        if purpose == MARGINALS:
            return {"l2_sensitivity": math.sqrt(columns), "unit": "counts", "columns": columns}
        if purpose in SHARES:
            return {"l2_sensitivity": 1.0, "unit": "rows"}
        config = self.gan if purpose == CRITIC else self.autoencoder
        assert config is not None
        return {"l2_sensitivity": config.max_norm, **config.noted()}


def _left(epsilon: float, delta: float, earlier: Ledger) -> float:
    """μ of the single Gaussian that would spend what is left, for sharing out."""
    if math.isinf(epsilon):
        return math.inf
    spent = earlier.spent
    used = gaussian_mu(spent, delta) if spent > 0 else 0.0
    return math.sqrt(max(gaussian_mu(epsilon, delta) ** 2 - used**2, 1e-12))


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
