"""White-box canary audits of PATE: a record, or a unit of records, that changes its teacher's vote in every question.

The audit plans a fit, draws its noisy answers with the fit's own aggregator on the planned accounts, and compares
them on two neighbouring datasets. On the dataset without the canary half of the teachers vote yes; with it, one
more does: as many as the fit's own partition deals the canary's records to.
"""

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from scipy import stats

from tabsynth.auditing.canaries import KIND, WHOLE, Claim, make_canary_results, observe_marginals
from tabsynth.auditing.lower_bounds import (
    CONFIDENCE,
    estimate_bounds,
    estimate_mu,
    largest_bound,
    mu_standard_error,
    rate_lower_bound,
    rate_upper_bound,
)
from tabsynth.auditing.neighbouring_datasets import (
    NeighbouringDatasets,
    small_neighbouring_datasets,
)
from tabsynth.auditing.outcomes import (
    INCONCLUSIVE,
    MIN_MU_RATIO,
    REFUTED,
    AuditResult,
    decide_verdict,
)
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import KEY_BYTES, Rows, codes_of
from tabsynth.methods import CLASS_VOTES, ONE_WAY, VOTES
from tabsynth.privacy.accounting.accountants import Spend, epsilon_of
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoisyVote
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.privacy.noise.votes import chance_of_yes
from tabsynth.synthesizers import METHODS
from tabsynth.synthesizers.pate.rounds import NoisyAggregator, deal
from tabsynth.training.loop import Progress
from tabsynth.training.private_step import codes_of as inputs_of
from tabsynth.training.units import UnitRows

ROWS, QUERIES = 2000, 100  # declared rows and questions of the planned fit
VOTE_PURPOSES = (VOTES, CLASS_VOTES)
ONE, ALL = "one vote, at a tie", "all votes of a fit"
ONE_CLASS, ALL_CLASS = "one class vote, at a tie", "all class votes of a fit"
PARTS = {VOTES: (ONE, ALL), CLASS_VOTES: (ONE_CLASS, ALL_CLASS)}
CHUNK = 200  # fits at a time
MODES_AUDITED = (None, "B")  # where a method has modes; None is its default


@dataclass(frozen=True, kw_only=True)
class PlannedVotes:
    """The votes of one purpose that a fit plans, and the mechanism that it charges for each.

    Attributes
    ----------
    purpose : {"votes", "class votes"}
    mechanism : NoisyVote or Gaussian
        The charge for each answer.
    teachers, count : int
        Number of teachers, and of votes.
    """

    purpose: str
    mechanism: NoisyVote | Gaussian
    teachers: int
    count: int

    @property
    def binary_mechanism(self) -> NoisyVote:
        """The mechanism of an answer as a binary vote.

        A class vote is audited between two classes that have all K votes. Noise of standard deviation √2·z on each
        of two counts that differ by 2n₁ − K is noise of z on n₁ against K/2, where z is the noise multiplier.
        """
        if isinstance(self.mechanism, NoisyVote):
            return self.mechanism
        return NoisyVote(noise=self.mechanism.noise_multiplier, teachers=self.teachers)

    def yes_probabilities(self) -> np.ndarray:
        """Return the probability of the answer yes without the canary and with it, shape (2,)."""
        return chance_of_yes(self.teachers // 2 + np.arange(2), self.binary_mechanism)

    def log_likelihood_ratios(self, yes: np.ndarray) -> np.ndarray:
        """Return the canary's log-likelihood ratios for fits with ``yes`` answers yes, a sufficient statistic."""
        p = self.yes_probabilities()
        return yes * math.log(p[1] / p[0]) + (self.count - yes) * math.log((1 - p[1]) / (1 - p[0]))

    def expected_mu(self) -> float:
        """Return the distance of the expected numbers of yes on both datasets, in standard deviations."""
        p = self.yes_probabilities()
        return math.sqrt(self.count) * (p[1] - p[0]) / math.sqrt((p * (1 - p)).mean())


@dataclass(frozen=True, kw_only=True)
class PlannedReleases:
    """All that a fit releases: its one-way counts and its noisy votes."""

    counts: Spend
    votes: tuple[PlannedVotes, ...]


def plan_releases(
    method: str,
    epsilon: float,
    delta: float,
    mode: str | None = None,
    datasets: NeighbouringDatasets | None = None,
) -> PlannedReleases:
    """Plan a fit of ``method`` to ``ROWS`` declared rows with ``QUERIES`` questions."""
    schema = (datasets or small_neighbouring_datasets()).schema
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rows": ROWS, "queries": QUERIES}
    if "class_column" in signature(METHODS[method]).parameters:
        given["class_column"] = "colour"
    if mode is not None:
        given["mode"] = mode
    model = METHODS[method](schema, **given)
    spends = {s.purpose: s for s in model.plan(estimate_time=False).spends}
    vote, counts = spends[VOTES].mechanism, spends.pop(ONE_WAY)
    assert isinstance(vote, NoisyVote) and isinstance(counts.mechanism, Gaussian)
    votes = []
    for purpose, spend in spends.items():
        assert purpose in VOTE_PURPOSES and isinstance(spend.mechanism, NoisyVote | Gaussian)
        votes.append(
            PlannedVotes(
                purpose=purpose,
                mechanism=spend.mechanism,
                teachers=vote.teachers,
                count=spend.count,
            )
        )
    return PlannedReleases(counts=(counts.mechanism, counts.count), votes=tuple(votes))


def count_changed_teachers(datasets: NeighbouringDatasets, teachers: int) -> int:
    """Count the teachers whose shards differ between the two datasets, as a fit deals rows or units out."""
    encoder, secret = TableEncoder(datasets.schema), secrets.token_bytes(KEY_BYTES)
    key = np.frombuffer(Keystream().bytes(64), dtype="<u4")
    shards: list[list[list[bytes]]] = []
    for present in (False, True):
        rows = encoder.to_rows(datasets.table(present), secret)
        inputs: Any = torch.from_numpy(encoder.layout.encode(codes_of(rows)))
        if isinstance(rows, Rows) and rows.units is not None:
            inputs = UnitRows(inputs, rows.units, datasets.schema.design.rows)
        dealt, shard = deal(inputs, teachers, key)
        parts: list[list[bytes]] = [[] for _ in range(teachers)]
        for row, teacher in zip(inputs_of(dealt)[:], shard.tolist(), strict=True):
            parts[teacher].append(row.numpy().tobytes())
        shards.append(parts)
    return sum(one != other for one, other in zip(*shards, strict=True))


def draw_answers(
    plan: PlannedReleases,
    planned: PlannedVotes,
    more: int,
    questions: int,
    aggregator: type[NoisyAggregator],
) -> np.ndarray:
    """Draw noisy answers from an aggregator with all accounts of a fit, to questions at a tie.

    The number of teachers that vote yes is half of them, rounded down, plus ``more``: 0, or with the canary as many as
    its records have as teachers, which should be 1.
    """
    ledger, count = Ledger(math.inf, 0.5), planned.teachers // 2 + more
    accounts = [ledger.open(each.purpose, each.mechanism, questions) for each in plan.votes]
    voting = aggregator(PrivateTable(torch.zeros(1, 1), ledger), accounts, Keystream())
    voting.open(questions)
    if planned.purpose == CLASS_VOTES:
        votes = torch.tensor([[planned.teachers - count, count]]).expand(questions, 2)
        return voting.classes(votes).numpy() == 1
    return voting.binary(torch.full((questions,), count), planned.teachers).numpy()


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
    aggregator: type[NoisyAggregator] = NoisyAggregator,
    unit_rows: int | None = None,
) -> list[AuditResult]:
    """Audit the noisy votes of a fit, and its one-way counts.

    Without the canary half of the teachers vote yes in every question; with it, each teacher that the canary's records
    are dealt to does, too: one, if the claim is right (with an odd number of teachers the tie lies between the two). In a
    class vote, yes is the second of two classes.

    Parameters
    ----------
    samples : int
        Single answers on each dataset, which are compared with the mechanism's probabilities.
    runs : int
        Fits on each dataset, whose answers are compared with the ε that all votes are charged.
    mode : {"A", "B", "C"}, optional
        Only for ``pate-acgan``. Mode B has class votes in addition.
    aggregator : type
        The class that draws noisy answers; tests pass broken ones.
    unit_rows : int, optional
        The bound of a schema with a unit. The canary is then a unit with two rows more than that.
    """
    datasets = small_neighbouring_datasets()
    if unit_rows is not None:
        datasets = datasets.as_unit(unit_rows)
    plan = plan_releases(method, epsilon, delta, mode, datasets)
    both = 0, count_changed_teachers(datasets, plan.votes[0].teachers)
    report = _progress_counter(progress, f"{KIND} {method}", 2 * len(plan.votes) * runs)
    fit_started = time.monotonic()
    counts = _counts(plan.counts, runs, datasets)
    claims = {ONE_WAY: Claim.from_spends([plan.counts], delta)}
    ratios = {ONE_WAY: counts[0]}, {ONE_WAY: counts[1]}
    fit_results = make_canary_results(
        method, claims, ratios, time.monotonic() - fit_started, confidence
    )
    joint_ratios, mu = counts, claims[ONE_WAY].mu or 0.0
    single_results, spends = [], [plan.counts]
    for planned in plan.votes:
        started = time.monotonic()
        yes = [int(draw_answers(plan, planned, more, samples, aggregator).sum()) for more in both]
        single_results.append(
            _single(method, planned, (yes[0], yes[1]), samples, confidence, started)
        )
        started = time.monotonic()
        out, with_canary = (_totals(plan, planned, more, runs, aggregator, report) for more in both)
        spent: list[Spend] = [(planned.mechanism, planned.count)]
        claim = (
            method,
            PARTS[planned.purpose][1],
            spent,
            planned.expected_mu(),
            delta,
            confidence,
            started,
        )
        fit_results.append(_whole((out, with_canary), *claim))
        joint_ratios = (
            joint_ratios[0] + planned.log_likelihood_ratios(out),
            joint_ratios[1] + planned.log_likelihood_ratios(with_canary),
        )
        mu, spends = math.hypot(mu, planned.expected_mu()), spends + spent
    results = [
        _whole(joint_ratios, method, WHOLE, spends, mu, delta, confidence, fit_started),
        *fit_results,
        *single_results,
    ]
    about = "" if mode is None else f", mode {mode}"
    about += "" if unit_rows is None else f", unit of {unit_rows} rows"
    return [replace(r, part=f"{r.part}{about}") for r in results]


def audit_modes(method: str, epsilon: float, delta: float, **settings: Any) -> list[AuditResult]:
    """Return :func:`audit_votes` of a method as it votes by default, and of the mode that has class votes."""
    modes = MODES_AUDITED if "mode" in signature(METHODS[method]).parameters else (None,)
    return [r for m in modes for r in audit_votes(method, epsilon, delta, mode=m, **settings)]


def _progress_counter(progress: Progress | None, what: str, total: int) -> Callable[[int], None]:
    """Return a function that adds to the number of finished runs and reports the sum."""
    done = 0

    def report(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(what, done, total)

    return report


def _counts(
    spend: Spend, runs: int, datasets: NeighbouringDatasets
) -> tuple[np.ndarray, np.ndarray]:
    """Draw log-likelihood ratios of the canary from one-way counts, without it and with it."""
    account = Ledger(math.inf, 0.5).open(ONE_WAY, *spend)
    return (
        observe_marginals(account, datasets, False, runs),
        observe_marginals(account, datasets, True, runs),
    )


def _totals(
    plan: PlannedReleases,
    planned: PlannedVotes,
    more: int,
    runs: int,
    aggregator: type[NoisyAggregator],
    report: Callable[[int], None],
) -> np.ndarray:
    """Draw the number of answers yes of each fit, shape (runs,)."""
    out = []
    for first in range(0, runs, CHUNK):
        some = min(CHUNK, runs - first)
        answers = draw_answers(plan, planned, more, some * planned.count, aggregator)
        out.append(answers.reshape(some, -1).sum(1).astype(float))
        report(some)
    return np.concatenate(out)


def _single(
    method: str,
    planned: PlannedVotes,
    yes: tuple[int, int],
    samples: int,
    confidence: float,
    started: float,
) -> AuditResult:
    """Compare the log probability ratio of one answer on both datasets with that of the mechanism."""
    probabilities = planned.yes_probabilities()
    claimed = max(
        math.log(probabilities[1] / probabilities[0]),
        math.log((1 - probabilities[0]) / (1 - probabilities[1])),
    )
    each = (3 + confidence) / 4  # two bounds for each of two ratios
    lower = max(
        _log_ratio(
            rate_lower_bound(yes[1], samples, each), rate_upper_bound(yes[0], samples, each)
        ),
        _log_ratio(
            rate_lower_bound(samples - yes[0], samples, each),
            rate_upper_bound(samples - yes[1], samples, each),
        ),
    )
    verdict = decide_verdict(lower, claimed)
    finding = "Refuted" if verdict == REFUTED else "No evidence against the claim"
    return AuditResult(
        kind=KIND,
        method=method,
        part=PARTS[planned.purpose][0],
        verdict=verdict,
        sentence=(
            f"{finding}: for one answer the audit gives ε ≥ {lower:.4f}; the mechanism has ε = {claimed:.4f}"
            " at a tie."
        ),
        epsilon_claimed=claimed,
        delta=0.0,
        epsilon_lower=lower,
        confidence=confidence,
        runs=samples,
        power=(
            f"The audit detects noise that is {_detectable(probabilities, claimed, samples, each):.2f} times too"
            " small with probability 95%."
        ),
        details={
            "yes": list(yes),
            "yes_probabilities": [float(c) for c in probabilities],
            "teachers": planned.teachers,
            "noise": planned.binary_mechanism.noise,
            "seconds": round(time.monotonic() - started, 1),
        },
    )


def _detectable(probabilities: np.ndarray, claimed: float, samples: int, each: float) -> float:
    """Return how many times too small the noise must be for a detection probability of 95%.

    Near a tie the log ratio is proportional to 1/noise.
    """
    spread = math.sqrt(((1 - probabilities) / probabilities).sum() / samples)
    bounds = sum(math.sqrt((1 - p) / (p * samples)) for p in probabilities) * stats.norm.ppf(each)
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
    """Bound ε from all answers of a fit by their sufficient statistic."""
    claimed = epsilon_of(spends, delta)
    bound = estimate_bounds(*totals, delta, confidence)
    estimate = estimate_mu(*totals)
    most = largest_bound(bound.errors.runs_without, delta, confidence)
    verdict = decide_verdict(bound.epsilon, claimed)
    if verdict != REFUTED and estimate + 2 * mu_standard_error(*totals) < MIN_MU_RATIO * mu:
        verdict = INCONCLUSIVE
    finding = {REFUTED: "Refuted", INCONCLUSIVE: "Inconclusive"}.get(
        verdict, "No evidence against the claim"
    )
    return AuditResult(
        kind=KIND,
        method=method,
        part=part,
        verdict=verdict,
        sentence=(
            f"{finding}: the attack measured {estimate / mu:.0%} of the μ that theory predicts and gives"
            f" ε ≥ {bound.epsilon:.3g}; the claim is ε = {claimed:.3g}."
        ),
        epsilon_claimed=claimed,
        delta=delta,
        epsilon_lower=bound.epsilon,
        mu_estimate=estimate,
        mu_lower=bound.mu,
        confidence=confidence,
        runs=bound.errors.runs_without,
        power=(f"With this number of runs, no lower bound above ε = {most:.2f} is possible."),
        details={
            "queries": QUERIES,
            "mu_expected": mu,
            "false_positives": bound.errors.false_positives,
            "false_negatives": bound.errors.false_negatives,
            "seconds": round(time.monotonic() - started, 1),
        },
    )


def _log_ratio(one: float, other: float) -> float:
    if one <= 0:
        return -math.inf
    return math.inf if other <= 0 else math.log(one / other)
