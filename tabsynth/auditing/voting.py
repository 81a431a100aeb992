"""The canary in PATE's votes: a record that flips its teacher, in every question that is asked."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from tabsynth.auditing.ballots import LABELS, Ballot, Plan, answers, plan_of
from tabsynth.auditing.canaries import KIND, WHOLE, Claim, canary_results, marginal_lanes
from tabsynth.auditing.lower_bounds import (
    CONFIDENCE,
    bounded,
    ceiling,
    lower_rate,
    separation,
    standard_error,
    upper_rate,
)
from tabsynth.auditing.outcomes import INVALID, LEAST_SHARE, REFUTED, AuditResult, judged
from tabsynth.auditing.worlds import small_worlds
from tabsynth.privacy.accounting.accountants import Spend, epsilon_of
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers.gan.estimator import MARGINALS
from tabsynth.synthesizers.pate.aggregation import CLASS_VOTES, VOTES, Booth
from tabsynth.training.loop import Progress

ONE, ALL = "one vote, at a tie", "all votes of a fit"
ONE_CLASS, ALL_CLASS = "one class vote, at a tie", "all class votes of a fit"
PARTS = {VOTES: (ONE, ALL), CLASS_VOTES: (ONE_CLASS, ALL_CLASS)}
CHUNK = 200  # fits at a time
MODES = {"pate-gan": (None,), "pate-acgan": (None, "B")}  # None: as a fit votes unless it is told


def audit_votes(
    method: str,
    epsilon: float,
    delta: float = 1e-5,
    *,
    samples: int = 100_000,
    runs: int = 2000,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
    mode: str | None = None,
    booth: type[Booth] = Booth,
) -> list[AuditResult]:
    """Audit the noisy majorities as a fit asks for them, by its booth, on its accounts; and its counts.

    In the world without the canary half of the teachers say yes to every question; in the other, one more
    (with an odd number of teachers the tie lies between the two). Of a class vote, a yes is the second of
    two classes.

    Parameters
    ----------
    samples : int
        Single answers in each world: are they as likely as the mechanism's law has it?
    runs : int
        Whole fits' worth of answers in each world, against the ε that all votes are charged.
    mode : {"A", "B", "C"}, optional
        Of ``pate-acgan``. Mode B has class votes besides.
    booth : type
        Another one only in tests.
    """
    plan = plan_of(method, epsilon, delta, mode)
    told = _counted(progress, f"{KIND} {method}", 2 * len(plan.ballots) * runs)
    begun = time.monotonic()
    counts = _counts(plan.counts, runs)
    claims = {MARGINALS: Claim.of([plan.counts], delta)}
    worlds = {MARGINALS: counts[0]}, {MARGINALS: counts[1]}
    wholes = canary_results(method, claims, worlds, time.monotonic() - begun, confidence)
    joined, mu = counts, claims[MARGINALS].mu or 0.0
    singles, spends = [], [plan.counts]
    for ballot in plan.ballots:
        started = time.monotonic()
        yes = [int(answers(plan, ballot, more, samples, booth).sum()) for more in (0, 1)]
        singles.append(_single(method, ballot, (yes[0], yes[1]), samples, confidence, started))
        started = time.monotonic()
        out, with_canary = (_totals(plan, ballot, more, runs, booth, told) for more in (0, 1))
        spent: list[Spend] = [(ballot.mechanism, ballot.count)]
        claim = method, PARTS[ballot.purpose][1], spent, ballot.mu(), delta, confidence, started
        wholes.append(_whole((out, with_canary), *claim))
        joined = joined[0] + ballot.ratios(out), joined[1] + ballot.ratios(with_canary)
        mu, spends = math.hypot(mu, ballot.mu()), spends + spent
    found = [_whole(joined, method, WHOLE, spends, mu, delta, confidence, begun), *wholes, *singles]
    return found if mode is None else [replace(r, part=f"{r.part}, mode {mode}") for r in found]


def audit_modes(method: str, epsilon: float, delta: float, **settings: Any) -> list[AuditResult]:
    """:func:`audit_votes` of a method as it votes by default, and of the mode that has class votes."""
    modes = MODES[method]
    return [r for m in modes for r in audit_votes(method, epsilon, delta, mode=m, **settings)]


def _counted(progress: Progress | None, what: str, total: int) -> Callable[[int], None]:
    """Adds up what is done."""
    done = 0

    def told(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(what, done, total)

    return told


def _counts(spend: Spend, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood ratios of the canary in one-way counts, without it and with it."""
    account = Ledger(math.inf, 0.5).open(MARGINALS, *spend)
    worlds = small_worlds()
    return (
        marginal_lanes(account, worlds, False, runs),
        marginal_lanes(account, worlds, True, runs),
    )


def _totals(
    plan: Plan,
    ballot: Ballot,
    more: int,
    runs: int,
    booth: type[Booth],
    told: Callable[[int], None],
) -> np.ndarray:
    """How many answers of each fit are yes, shape (runs,)."""
    out = []
    for first in range(0, runs, CHUNK):
        some = min(CHUNK, runs - first)
        said = answers(plan, ballot, more, some * ballot.count, booth)
        out.append(said.reshape(some, -1).sum(1).astype(float))
        told(some)
    return np.concatenate(out)


def _single(
    method: str,
    ballot: Ballot,
    yes: tuple[int, int],
    samples: int,
    confidence: float,
    started: float,
) -> AuditResult:
    """Of one answer: the log of how much likelier it is in one world, against the law's."""
    chances = ballot.chances()
    claimed = max(math.log(chances[1] / chances[0]), math.log((1 - chances[0]) / (1 - chances[1])))
    each = (3 + confidence) / 4  # two bounds for each of two ratios
    lower = max(
        _log_ratio(lower_rate(yes[1], samples, each), upper_rate(yes[0], samples, each)),
        _log_ratio(
            lower_rate(samples - yes[0], samples, each),
            upper_rate(samples - yes[1], samples, each),
        ),
    )
    verdict = judged(lower, claimed)
    said = "Refuted: " if verdict == REFUTED else "Not refuted: "
    return AuditResult(
        kind=KIND,
        method=method,
        part=PARTS[ballot.purpose][0],
        verdict=verdict,
        sentence=(
            f"{said}a record makes an answer likelier by ε = {lower:.4f} at least; the noise is to keep"
            f" it to {claimed:.4f} there."
        ),
        epsilon_claimed=claimed,
        delta=0.0,
        epsilon_lower=lower,
        confidence=confidence,
        runs=samples,
        power=f"Noise {_detectable(chances, claimed, samples, each):.2f} times too small would be found 19 times in 20.",
        details={
            "yes": list(yes),
            "chances": [float(c) for c in chances],
            "teachers": ballot.teachers,
            "noise": ballot.vote.noise,
            "seconds": round(time.monotonic() - started, 1),
        },
    )


def _detectable(chances: np.ndarray, claimed: float, samples: int, each: float) -> float:
    """How many times too small the noise must be to be found: the ratio's log is as 1/noise, near a tie."""
    spread = math.sqrt(((1 - chances) / chances).sum() / samples)
    bounds = sum(math.sqrt((1 - p) / (p * samples)) for p in chances) * stats.norm.ppf(each)
    return 1 + (bounds + stats.norm.ppf(0.95) * spread) / claimed


def _whole(
    totals: tuple[np.ndarray, np.ndarray],
    method: str,
    part: str,
    spends: list[Spend],
    mu: float,
    delta: float,
    confidence: float,
    started: float,
) -> AuditResult:
    """Of all answers of a fit, by a statistic that says all that they say together."""
    claimed = epsilon_of(spends, delta)
    bound = bounded(*totals, delta, confidence)
    estimate = separation(*totals)
    verdict = judged(bound.epsilon, claimed)
    if verdict != REFUTED and estimate + 2 * standard_error(*totals) < LEAST_SHARE * mu:
        verdict = INVALID
    said = {REFUTED: "Refuted", INVALID: "Says nothing"}.get(verdict, "Not refuted")
    return AuditResult(
        kind=KIND,
        method=method,
        part=part,
        verdict=verdict,
        sentence=(
            f"{said}: the attack saw {estimate / mu:.0%} of what the law of the releases lets it see, and"
            f" ε is at least {bound.epsilon:.3g}, of {claimed:.3g} claimed."
        ),
        epsilon_claimed=claimed,
        delta=delta,
        epsilon_lower=bound.epsilon,
        mu_estimate=estimate,
        mu_lower=bound.mu,
        confidence=confidence,
        runs=bound.errors.without,
        power=f"No bound above ε = {ceiling(bound.errors.without, delta, confidence):.2f} can come of so many runs.",
        details={
            "labels": LABELS,
            "mu_of_the_law": mu,
            "false_positives": bound.errors.false_positives,
            "false_negatives": bound.errors.false_negatives,
            "seconds": round(time.monotonic() - started, 1),
        },
    )


def _log_ratio(one: float, other: float) -> float:
    if one <= 0:
        return -math.inf
    return math.inf if other <= 0 else math.log(one / other)
