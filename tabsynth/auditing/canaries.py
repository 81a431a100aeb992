"""White-box canary audits (R20): the real training path, seen by who knows everything but the noise.

In one world a table is fitted, in the other the same table and a canary. What the canary adds to each
release is known; how far the releases lie along it, over all of a run, is the statistic. At sampling rate
1 the theory says μ = √T/σ for T releases of multiplier σ, and the audit must find it, and no more.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tabsynth.auditing.lower_bounds import (
    CONFIDENCE,
    bounded,
    ceiling,
    detectable,
    separation,
    standard_error,
)
from tabsynth.auditing.observing import StepLanes, ratios
from tabsynth.auditing.outcomes import INVALID, NOT_REFUTED, REFUTED, WHOLE, AuditResult, judged
from tabsynth.auditing.worlds import Worlds, small_worlds
from tabsynth.privacy.accounting.accountants import Spend, epsilon_of
from tabsynth.privacy.accounting.mechanisms import steps_of
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.counts import noisy_marginals
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.synthesizers import DPGAN, DPWGAN
from tabsynth.synthesizers.gan.adversarial import AdversarialConfig
from tabsynth.synthesizers.gan.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.gan.dpgan import VARIANTS
from tabsynth.synthesizers.gan.dpwgan import WGANConfig
from tabsynth.synthesizers.gan.estimator import GAN, MARGINALS
from tabsynth.training.loop import Progress

KIND = "white-box"
HIDDEN = (16, 16)  # units of a critic
STEPS, FITS = 10, 6  # steps of a critic and of an autoencoder; fits in each world
CLIP = 0.1  # of the norm of public gradients: the canary is to be clipped, that is as long as it may be

Configured = TypeVar("Configured", bound=AdversarialConfig)
Ratios = Mapping[str, np.ndarray]  # by part, of the runs of one world


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is claimed of a part of a fit; μ only where all of it is full-batch Gaussians."""

    epsilon: float
    delta: float
    mu: float | None

    @classmethod
    def of(cls, spends: list[Spend], delta: float) -> "Claim":
        """The claim of a composition."""
        steps = [steps_of(mechanism, count) for mechanism, count in spends]
        squared = sum(count / sigma**2 for sigma, _, count in steps)
        full = all(rate == 1 for _, rate, _ in steps)
        return cls(
            epsilon=epsilon_of(spends, delta), delta=delta, mu=squared**0.5 if full else None
        )


def canary_results(
    method: str,
    claims: Mapping[str, Claim],
    worlds: tuple[Ratios, Ratios],
    seconds: float,
    confidence: float = CONFIDENCE,
) -> list[AuditResult]:
    """A result for each part, from its statistic in both worlds."""
    out = []
    for part, claim in claims.items():
        without, with_canary = worlds[0][part], worlds[1][part]
        bound = bounded(without, with_canary, claim.delta, confidence)
        estimate = separation(without, with_canary)
        error = standard_error(without, with_canary)
        verdict = judged(bound.epsilon, claim.epsilon, bound.mu, claim.mu, estimate, error)
        counted = bound.errors.without
        out.append(
            AuditResult(
                kind=KIND,
                method=method,
                part=part,
                verdict=verdict,
                sentence=_sentence(verdict, claim, estimate, bound.mu, bound.epsilon),
                epsilon_claimed=claim.epsilon,
                delta=claim.delta,
                epsilon_lower=bound.epsilon,
                mu_claimed=claim.mu,
                mu_estimate=estimate,
                mu_lower=bound.mu,
                confidence=confidence,
                runs=counted,
                power=_power(claim, counted, confidence),
                details={
                    "runs_in_all": len(without) + len(with_canary),
                    "false_positives": bound.errors.false_positives,
                    "false_negatives": bound.errors.false_negatives,
                    "seconds": round(seconds, 1),
                },
            )
        )
    return out


def _sentence(verdict: str, claim: Claim, estimate: float, mu: float, epsilon: float) -> str:
    if claim.mu is None:
        if verdict == REFUTED:
            return f"Refuted: ε is at least {epsilon:.3g}, and {claim.epsilon:.3g} is claimed."
        return f"Not refuted: ε is at least {epsilon:.3g}, within the {claim.epsilon:.3g} claimed."
    share = estimate / claim.mu
    if verdict == REFUTED:
        return f"Refuted: μ is at least {mu:.3g}, and {claim.mu:.3g} is claimed."
    if verdict == INVALID:
        return f"Says nothing: the attack saw only {share:.0%} of what the theory allows it to see."
    assert verdict == NOT_REFUTED
    return (
        f"Not refuted: the attack saw {share:.0%} of what the theory says it should see, and μ is at"
        f" least {mu:.3g}, within the {claim.mu:.3g} claimed."
    )


def _power(claim: Claim, runs: int, confidence: float) -> str:
    if claim.mu is None:
        most = ceiling(runs, claim.delta, confidence)
        return f"No bound above ε = {most:.2f} can come of so many runs."
    factor = detectable(claim.mu, runs, confidence)
    return f"Noise {factor:.2f} times too small would be found 19 times in 20."


def audit_gan(
    method: str,
    epsilon: float,
    delta: float = 1e-5,
    *,
    runs: int = 2000,
    rate: float = 1.0,
    fits: int = FITS,
    model: Callable[[Worlds], GAN] | None = None,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
) -> list[AuditResult]:
    """Audit whole fits of ``dp-wgan`` or ``dp-gan``: first counts, autoencoder and critic.

    Parameters
    ----------
    runs : int
        In each world, as lanes of ``fits`` fits (:class:`tabsynth.auditing.observing.StepLanes`); half of them
        choose the threshold.
    rate : float
        q, of critic and autoencoder. Below 1 there is no μ, and only the bound of ε is told.
    model : callable, optional
        Another estimator to be audited, from the worlds.
    """
    started = time.monotonic()
    worlds = small_worlds()
    make = model or (lambda w: small_gan(method, w, epsilon, delta, rate))
    lanes = -(-runs // fits)
    found: tuple[list[Ratios], list[Ratios]] = ([], [])
    spends: dict[str, list[Spend]] = {}
    for turn in range(2 * fits):
        present = turn % 2 == 1
        synthesizer = make(worlds)
        seen = StepLanes(worlds.code(), present, lanes)
        with seen.watching():
            synthesizer.fit(worlds.table(present))
        for account in synthesizer.ledger_.accounts:
            spends[account.purpose] = [(account.mechanism, account.spent)]
            if account.purpose == MARGINALS:
                seen.found[MARGINALS] = marginal_lanes(account, worlds, present, lanes)
        seen.found[WHOLE] = sum(seen.found.values(), np.zeros(lanes))
        found[present].append(seen.found)
        if progress is not None:
            progress(f"{KIND} {method}", turn + 1, 2 * fits)
    spends = {WHOLE: [spend for part in spends.values() for spend in part], **spends}
    claims = {part: Claim.of(spent, delta) for part, spent in spends.items()}
    joined = [{part: np.concatenate([f[part] for f in each]) for part in claims} for each in found]
    seconds = time.monotonic() - started
    return canary_results(method, claims, (joined[0], joined[1]), seconds, confidence)


def marginal_lanes(account: Account, worlds: Worlds, present: bool, lanes: int) -> np.ndarray:
    """Log-likelihood ratios of the canary in noisy one-way counts, of so many releases."""
    ledger = Ledger(np.inf, 0.5)
    again = ledger.open(account.purpose, account.mechanism, lanes)
    table = PrivateTable(worlds.index(worlds.table(present)), ledger)
    sizes, bits = worlds.schema.sizes, Keystream()
    known, (cells,) = worlds.index(worlds.without), worlds.index(worlds.canary)
    exact = np.array([(known[:, j] == cell).sum() for j, cell in enumerate(cells)])
    z = np.empty(lanes)
    for lane in range(lanes):
        counts = noisy_marginals(table, again, sizes, bits)
        at = np.array([c[cell] for c, cell in zip(counts, cells, strict=True)])
        z[lane] = (at - exact).sum() / len(sizes)  # √d along 1/√d, in units of √d
    return ratios(z, again.noise_multiplier, 1.0)


def small_gan(method: str, worlds: Worlds, epsilon: float, delta: float, rate: float) -> GAN:
    """The method, with its own losses and step, in small: few steps, narrow networks."""
    shared: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "rows": len(worlds.without),
        "device": "cpu",
    }
    coder = AutoencoderConfig(latent_dim=8, sampling_rate=rate, steps=STEPS, max_norm=CLIP)
    if method == "dp-wgan":
        return DPWGAN(
            worlds.schema,
            autoencoder="dp-sgd",
            autoencoder_config=coder,
            config=_narrow(WGANConfig(weight_clip=0.1), rate),
            **shared,
        )
    config = _narrow(VARIANTS["advanced"], rate)
    return DPGAN(worlds.schema, config=config, autoencoder=None, **shared)


def _narrow(config: Configured, rate: float) -> Configured:
    return replace(
        config,
        latent_dim=8,
        generator_hidden=(16,),
        critic_hidden=HIDDEN,
        sampling_rate=rate,
        critic_steps=STEPS,
        max_norm=CLIP,
    )
