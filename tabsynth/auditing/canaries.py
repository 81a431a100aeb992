"""White-box canary audits of GANs: the attacker knows everything but the noise.

One of two neighbouring datasets has the canary, the other has not. The attacker knows what the canary adds to each
release. The test statistic is the projection of the releases on that contribution, summed over the run. At
sampling rate 1, theory gives μ = √T/σ for T releases with noise multiplier σ. A valid audit measures about that μ,
and a correct mechanism never exceeds it.

The audits of MargNet and PATE (:mod:`tabsynth.auditing.canary_counts`, :mod:`tabsynth.auditing.canary_votes`) use the
claims and results of this module.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from tabsynth.auditing.lower_bounds import (
    CONFIDENCE,
    LowerBounds,
    detectable_noise_ratio,
    estimate_bounds,
    estimate_mu,
    largest_bound,
    mu_standard_error,
)
from tabsynth.auditing.neighbouring_datasets import NeighbouringDatasets
from tabsynth.auditing.outcomes import (
    INCONCLUSIVE,
    REFUTED,
    WHOLE,
    AuditResult,
    decide_verdict,
)
from tabsynth.auditing.request import WHITE_BOX, AuditRequest
from tabsynth.methods import ONE_WAY
from tabsynth.privacy.accounting.accountants import Spend, epsilon_of
from tabsynth.privacy.accounting.attackers import whole_table_mu
from tabsynth.privacy.accounting.mechanisms import of_sum
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.counts import noisy_marginals
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.synthesizers import DPGAN, DPWGAN
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.adversarial.critic import DPGANConfig, WGANConfig
from tabsynth.synthesizers.adversarial.dpgan import VARIANTS
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.method import with_settings
from tabsynth.training.factors import OneHotRows, inputs_of
from tabsynth.training.private_step import PrivateStep, StepConfig, poisson_sample
from tabsynth.training.units import UnitPlaces

HIDDEN = (16, 16)  # units of a critic
STEPS, FITS = 10, 6  # steps of a critic and of an autoencoder; fits to each dataset
CLIP = 0.1  # of the norm of public gradients, so that the canary's gradient is clipped and has the largest norm
MAX_VALUES_PER_CALL = 2**22  # values of all replicates that get noise in one call

Configured = TypeVar("Configured", bound=WGANConfig | DPGANConfig)
Ratios = Mapping[str, np.ndarray]  # by part: log-likelihood ratios of the runs on one dataset


class StepObserver:
    """Log-likelihood ratios of "the canary is in the table" for many replicates of a fit's private steps.

    The observer stands beside :class:`tabsynth.training.private_step.PrivateStep` while an unchanged fit runs. For
    each step it knows the exact sum and the canary's part of it. It draws the noise of many *replicates* of that
    sum by the method that draws the fit's own noise. Each replicate is one run of the same mechanisms at the same
    weights with independent noise, so one fit gives thousands of runs.

    Parameters
    ----------
    canary : Tensor, shape (width,)
        The canary's category codes as network inputs; of a unit, those of each of its rows.
    present : bool
        Whether the canary is in the table that is fitted.
    replicates : int

    Attributes
    ----------
    log_ratios : dict of ndarray, shape (replicates,)
        By purpose of the account that was charged: the sum over steps.

    Notes
    -----
    A step's sum is divided by its sensitivity (√G·C_j for group j). The canary then changes it by at most 1 along
    a unit vector u, and the noise has standard deviation σ. Let z be the projection on u of the released sum minus
    the other rows' part. The log-likelihood ratio is (z − ½)/σ² at sampling rate 1, and
    log(1 − q + q e^((z − ½)/σ²)) at rate q. Its distribution without the canary does not depend on the weights.
    """

    def __init__(self, canary: Tensor, present: bool, replicates: int) -> None:
        self.canary, self.present, self.replicates = canary, present, replicates
        self.log_ratios: dict[str, np.ndarray] = {}
        self._exact_parts: tuple[list[Tensor], list[Tensor]] | None = None
        self._bits = Keystream()

    @contextmanager
    def observe(self) -> Iterator["StepObserver"]:
        """Observe all private steps of this process within a ``with`` block."""
        sums, noised = PrivateStep.clipped_sums, PrivateStep.noisy_mean

        def observe_sums(
            step: PrivateStep,
            losses: Any,
            batch: Tensor | OneHotRows,
            keep: Tensor,
            reference: Any,
            _: object,
            units: UnitPlaces | None,
        ) -> list[Tensor]:
            clipped = sums(step, losses, batch, keep, reference, None, units)
            canary_rows = (inputs_of(batch) == self.canary).all(1) & keep
            if canary_rows.any():  # the canary was sampled into this batch
                without = sums(step, losses, batch, keep & ~canary_rows, reference, None, units)
                part = [a - b for a, b in zip(clipped, without, strict=True)]
            else:
                without = [s.clone() for s in clipped]
                row_count = step.clipper.rows
                unit = None
                if units is not None:
                    unit = UnitPlaces.of(
                        torch.tensor([row_count]), torch.arange(row_count), row_count, row_count
                    )
                alone = torch.ones(row_count, dtype=torch.bool)
                part = sums(
                    step, losses, self.canary.repeat(row_count, 1), alone, reference, None, unit
                )
            self._exact_parts = without, part
            return clipped

        def observe_noise(step: PrivateStep, clean: list[Tensor]) -> list[Tensor]:
            self._observe_step(step, noised)
            return noised(step, clean)

        with patch.multiple(PrivateStep, clipped_sums=observe_sums, noisy_mean=observe_noise):
            yield self

    def _observe_step(
        self, step: PrivateStep, noised: Callable[[PrivateStep, list[Tensor]], list[Tensor]]
    ) -> None:
        """Add the log-likelihood ratio of one released step to every replicate."""
        assert self._exact_parts is not None
        without, part = self._exact_parts
        mechanism = of_sum(step.account.mechanism)
        scales = math.sqrt(len(step.bounds.now)) * step.bounds.now
        units = [scales[j] for j in step.clipper.groups]
        along = _direction([p / c for p, c in zip(part, units, strict=True)])
        along = [d / c for d, c in zip(along, units, strict=True)]
        other_rows = _inner_products([w[None] for w in without], along)[0]
        in_batch = self._draw_in_batch(step.rate)
        size = max(1, MAX_VALUES_PER_CALL // sum(p.numel() for p in part))
        z = []
        for chunk in in_batch.split(size):
            sums = [
                w + chunk.to(w).view(-1, *[1] * w.dim()) * p
                for w, p in zip(without, part, strict=True)
            ]
            z.append(
                _inner_products(noised(step, sums), along) * float(step.expected_batch) - other_rows
            )
        purpose = step.account.purpose
        before = self.log_ratios.get(purpose, np.zeros(self.replicates))
        ratios = log_likelihood_ratios(torch.cat(z).numpy(), mechanism.noise_multiplier, step.rate)
        self.log_ratios[purpose] = before + ratios

    def _draw_in_batch(self, rate: float) -> Tensor:
        """Draw for each replicate if the canary is in its batch, by the fit's own Poisson sampling."""
        if not self.present or rate == 1:
            return torch.full((self.replicates,), self.present)
        # A Poisson batch of a table with one row for each replicate: independent Bernoulli(rate) draws.
        in_batch = torch.zeros(self.replicates, dtype=torch.bool)
        in_batch[poisson_sample(self.replicates, rate, self._bits)] = True
        return in_batch


def _direction(part: list[Tensor]) -> list[Tensor]:
    """Return the unit vector along ``part``; any unit vector where all gradients are 0, because the noise is isotropic."""
    length = torch.stack([p.norm() for p in part]).norm()
    if length > 0:
        return [p / length for p in part]
    basis = [torch.zeros_like(p) for p in part]
    basis[0].view(-1)[0] = 1.0
    return basis


def _inner_products(values: list[Tensor], along: list[Tensor]) -> Tensor:
    """Return inner products over all parameters, shape (replicates,)."""
    pairs = zip(values, along, strict=True)
    return torch.stack([v.double().flatten(1) @ d.double().flatten() for v, d in pairs]).sum(0)


def log_likelihood_ratios(z: np.ndarray, sigma: float, rate: float) -> np.ndarray:
    """Return the log-likelihood ratios of (1 − q) N(0, σ²) + q N(1, σ²) against N(0, σ²), with q = ``rate``."""
    full_batch = (z - 0.5) / sigma**2
    if rate == 1:
        return full_batch
    return np.logaddexp(math.log1p(-rate), math.log(rate) + full_batch)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claim for a part of a fit; μ only where all its mechanisms are Gaussian on the whole table.

    ``expected_mu`` is the μ that the attack should measure: that of the claim, or what theory predicts without one.
    """

    epsilon: float
    delta: float
    mu: float | None
    expected_mu: float | None

    @classmethod
    def from_spends(
        cls, spends: list[Spend], delta: float, expected_mu: float | None = None
    ) -> "Claim":
        """Return the claim of a composition; one of other mechanisms than Gaussians has an ``expected_mu``."""
        mu = whole_table_mu(spends) if expected_mu is None else None
        epsilon = epsilon_of(spends, delta)
        return cls(epsilon=epsilon, delta=delta, mu=mu, expected_mu=expected_mu or mu)


def make_canary_results(
    method: str, claims: Mapping[str, Claim], datasets: tuple[Ratios, Ratios], seconds: float
) -> list[AuditResult]:
    """Return an :class:`AuditResult` for each part, from its statistic on both neighbouring datasets."""
    out = []
    for part, claim in claims.items():
        without, with_canary = datasets[0][part], datasets[1][part]
        bound = estimate_bounds(without, with_canary, claim.delta)
        estimate = estimate_mu(without, with_canary)
        verdict = decide_verdict(
            bound.epsilon,
            claim.epsilon,
            bound.mu,
            claim.mu,
            estimate + 2 * mu_standard_error(without, with_canary),
            claim.expected_mu,
        )
        counted = bound.errors.runs_without
        expected = {} if claim.mu is not None else {"mu_expected": claim.expected_mu}
        out.append(
            AuditResult(
                kind=WHITE_BOX,
                method=method,
                part=part,
                verdict=verdict,
                sentence=_sentence(verdict, claim, estimate, bound),
                epsilon_claimed=claim.epsilon,
                delta=claim.delta,
                epsilon_lower=bound.epsilon,
                mu_claimed=claim.mu,
                mu_estimate=estimate,
                mu_lower=bound.mu,
                confidence=CONFIDENCE,
                runs=counted,
                power=_power(claim, counted),
                details={
                    **expected,
                    "runs_in_all": len(without) + len(with_canary),
                    "false_positives": bound.errors.false_positives,
                    "false_negatives": bound.errors.false_negatives,
                    "seconds": round(seconds, 1),
                },
            )
        )
    return out


def _sentence(verdict: str, claim: Claim, estimate: float, bound: LowerBounds) -> str:
    """Return the result in one sentence: in μ where the claim has one, else in ε."""
    finding = {REFUTED: "Refuted", INCONCLUSIVE: "Inconclusive"}.get(
        verdict, "No evidence against the claim"
    )
    name, lower, claimed = "μ", bound.mu, claim.mu
    if claimed is None:
        name, lower, claimed = "ε", bound.epsilon, claim.epsilon
    measured = "the audit gives"
    if claim.expected_mu is not None and verdict != REFUTED:
        share = f"{estimate / claim.expected_mu:.0%}"
        measured = f"the attack measured {share} of the μ that theory predicts and gives"
    return f"{finding}: {measured} {name} ≥ {lower:.3g}; the claim is {name} = {claimed:.3g}."


def _power(claim: Claim, runs: int) -> str:
    if claim.mu is None:
        largest = largest_bound(runs, claim.delta)
        return f"With this number of runs, no lower bound above ε = {largest:.2f} is possible."
    factor = detectable_noise_ratio(claim.mu, runs)
    return f"The audit detects noise that is {factor:.2f} times too small with probability 95%."


def audit_gan(request: AuditRequest, *, rate: float = 1.0, fits: int = FITS) -> list[AuditResult]:
    """Audit whole fits of ``dp-wgan`` or ``dp-gan``: one-way counts, autoencoder and critic.

    The runs are replicates of ``fits`` fits to each neighbouring dataset (:class:`StepObserver`). Half of them choose the
    threshold.

    Parameters
    ----------
    request : AuditRequest
    rate : float
        Sampling rate of critic and autoencoder. Below 1 there is no μ, and results have only a bound on ε.
    fits : int
    """
    started = time.monotonic()
    datasets = request.datasets
    replicates = -(-request.runs // fits)
    log_ratios: tuple[list[Ratios], list[Ratios]] = ([], [])
    spends: dict[str, list[Spend]] = {}
    for turn in range(2 * fits):
        present = turn % 2 == 1
        synthesizer = make_small_gan(request.method, datasets, request.epsilon, request.delta, rate)
        observer = StepObserver(datasets.encoded_canary(), present, replicates)
        with observer.observe():
            synthesizer.fit(datasets.table(present))
        for account in synthesizer.ledger_.accounts:
            spends[account.purpose] = [(account.mechanism, account.spent)]
            if account.purpose == ONE_WAY:
                observer.log_ratios[ONE_WAY] = observe_marginals(
                    account, datasets, present, replicates
                )
        observer.log_ratios[WHOLE] = sum(observer.log_ratios.values(), np.zeros(replicates))
        log_ratios[present].append(observer.log_ratios)
        request.report(WHITE_BOX, turn + 1, 2 * fits)
    spends = {WHOLE: [spend for part in spends.values() for spend in part], **spends}
    claims = {part: Claim.from_spends(spent, request.delta) for part, spent in spends.items()}
    stacked = [
        {part: np.concatenate([f[part] for f in each]) for part in claims} for each in log_ratios
    ]
    seconds = time.monotonic() - started
    return make_canary_results(request.method, claims, (stacked[0], stacked[1]), seconds)


def observe_marginals(
    account: Account, datasets: NeighbouringDatasets, present: bool, replicates: int
) -> np.ndarray:
    """Draw log-likelihood ratios of the canary from replicates of the noisy one-way counts."""
    ledger = Ledger(np.inf, 0.5)
    replicate_account = ledger.open(account.purpose, account.mechanism, replicates)
    table = PrivateTable(datasets.rows(datasets.table(present)), ledger)
    sizes, bits, bound = datasets.schema.sizes, Keystream(), datasets.schema.design.bound
    other_rows, cells = datasets.codes(datasets.without), datasets.codes(datasets.canary)[0]
    exact = np.array([(other_rows[:, j] == cell).sum() for j, cell in enumerate(cells)])
    z = np.empty(replicates)
    for replicate in range(replicates):
        counts = noisy_marginals(table, replicate_account, sizes, bits, bound)
        at = np.array([c[cell] for c, cell in zip(counts, cells, strict=True)])
        # Projection on the canary's direction, in units of the sensitivity, √d times the bound of a unit.
        z[replicate] = (at - exact).sum() / (bound * len(sizes))
    return log_likelihood_ratios(z, replicate_account.noise_multiplier, 1.0)


def make_small_gan(
    method: str, datasets: NeighbouringDatasets, epsilon: float, delta: float, rate: float
) -> Synthesizer:
    """Make the method with its own losses and steps, few steps and narrow networks."""
    shared: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "rows": len(datasets.without),
        "device": "cpu",
    }
    step = StepConfig(count=STEPS, sampling_rate=rate)
    coder = AutoencoderConfig(latent_dim=8, step=step, max_norm=CLIP)
    if method == "dp-wgan":
        return DPWGAN(
            datasets.schema,
            autoencoder="dp-sgd",
            autoencoder_config=coder,
            config=_shrink(WGANConfig(weight_clip=0.1), rate),
            **shared,
        )
    config = _shrink(VARIANTS["advanced"], rate)
    return DPGAN(datasets.schema, config=config, autoencoder=None, **shared)


def _shrink(config: Configured, rate: float) -> Configured:
    return with_settings(
        config,
        generator__latent_dim=8,
        generator__hidden=(16,),
        critic__hidden=HIDDEN,
        step__sampling_rate=rate,
        step__count=STEPS,
        clipping__max_norm=CLIP,
    )
