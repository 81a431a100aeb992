"""White-box canary audits of PATE: a record, or a unit of records, that changes its teacher's vote in every question.

The audit plans a fit, draws its noisy answers with the fit's own aggregator on the planned accounts, and compares
them on two neighbouring datasets. On the dataset without the canary half of the teachers vote yes; with it, one
more does: as many as the fit's own partition deals the canary's records to.
"""

import math
import secrets
import time
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from scipy import stats

from tabsynth.auditing.canaries import Claim, make_canary_results, observe_marginals
from tabsynth.auditing.lower_bounds import CONFIDENCE, rate_lower_bound, rate_upper_bound
from tabsynth.auditing.neighbouring_datasets import (
    NeighbouringDatasets,
    small_neighbouring_datasets,
)
from tabsynth.auditing.outcomes import REFUTED, WHOLE, AuditResult, decide_verdict
from tabsynth.auditing.request import WHITE_BOX, AuditRequest
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import KEY_BYTES, Rows, codes_of
from tabsynth.methods import CLASS_VOTES, ONE_WAY, VOTES
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoisyVote
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.privacy.noise.votes import chance_of_yes
from tabsynth.synthesizers import METHODS
from tabsynth.synthesizers.pate.config import PATEConfig
from tabsynth.synthesizers.pate.rounds import NoisyAggregator, deal
from tabsynth.training.private_step import codes_of as inputs_of
from tabsynth.training.units import UnitRows

ROWS, QUERIES = 2000, 100  # declared rows and questions of the planned fit
VOTE_PURPOSES = (VOTES, CLASS_VOTES)
ONE, ALL = "one vote, at a tie", "all votes of a fit"
ONE_CLASS, ALL_CLASS = "one class vote, at a tie", "all class votes of a fit"
PARTS = {VOTES: (ONE, ALL), CLASS_VOTES: (ONE_CLASS, ALL_CLASS)}
CHUNK = 200  # fits at a time


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
    teachers: str = "marginals",
    datasets: NeighbouringDatasets | None = None,
) -> PlannedReleases:
    """Plan a fit of ``method`` to ``ROWS`` declared rows with ``QUERIES`` questions to teachers of a kind."""
    schema = (datasets or small_neighbouring_datasets()).schema
    parameters: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "rows": ROWS,
        "queries": QUERIES,
        "teachers": teachers,
        "config": PATEConfig(),
        "autoencoder": None,  # its steps are those of a critic, which another audit covers
    }
    if "class_column" in signature(METHODS[method]).parameters:
        parameters["class_column"] = "colour"
    model = METHODS[method](schema, **parameters)
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
    return sum(without != with_canary for without, with_canary in zip(*shards, strict=True))


def draw_answers(
    plan: PlannedReleases,
    planned: PlannedVotes,
    canary_teachers: int,
    questions: int,
    aggregator: type[NoisyAggregator],
) -> np.ndarray:
    """Draw noisy answers from an aggregator with all accounts of a fit, to questions at a tie.

    The number of teachers that vote yes is half of them, rounded down, plus ``canary_teachers``: 0, or with the canary as many as
    its records have as teachers, which should be 1.
    """
    ledger, count = Ledger(math.inf, 0.5), planned.teachers // 2 + canary_teachers
    accounts = [ledger.open(each.purpose, each.mechanism, questions) for each in plan.votes]
    voting = aggregator(PrivateTable(torch.zeros(1, 1), ledger), accounts, Keystream())
    voting.open(questions)
    if planned.purpose == CLASS_VOTES:
        votes = torch.tensor([[planned.teachers - count, count]]).expand(questions, 2)
        return voting.classes(votes).numpy() == 1
    return voting.binary(torch.full((questions,), count), planned.teachers).numpy()


def audit_votes(
    request: AuditRequest,
    *,
    samples: int = 100_000,
    teachers: str = "marginals",
    aggregator: type[NoisyAggregator] = NoisyAggregator,
) -> list[AuditResult]:
    """Audit the noisy votes of a fit, and its one-way counts.

    Without the canary half of the teachers vote yes in every question; with it, each teacher that the canary's records
    are dealt to does, too: one, if the claim is right (with an odd number of teachers the tie lies between the two). In a
    class vote, yes is the second of two classes.

    Parameters
    ----------
    request : AuditRequest
        Answers of its runs are compared with the ε that all votes are charged.
    samples : int
        Single answers on each dataset, which are compared with the mechanism's probabilities.
    teachers : {"marginals", "networks"}
        Networks of ``pate-acgan`` have class votes in addition.
    aggregator : type
        The class that draws noisy answers; tests pass broken ones.
    """
    started, runs, delta = time.monotonic(), request.runs, request.delta
    datasets = request.datasets
    plan = plan_releases(request.method, request.epsilon, delta, teachers, datasets)
    both = 0, count_changed_teachers(datasets, plan.votes[0].teachers)
    counts = _counts(plan.counts, runs, datasets)
    of_counts = Claim.from_spends([plan.counts], delta)
    claims, ratios = {ONE_WAY: of_counts}, {ONE_WAY: counts}
    joint, mu, spends, single_results = counts, of_counts.mu or 0.0, [plan.counts], []
    for number, planned in enumerate(plan.votes):
        yes = [
            int(draw_answers(plan, planned, canary_teachers, samples, aggregator).sum())
            for canary_teachers in both
        ]
        single_results.append(_single(request.method, planned, (yes[0], yes[1]), samples))
        totals = [
            _totals(plan, planned, canary_teachers, runs, aggregator) for canary_teachers in both
        ]
        request.report(WHITE_BOX, number + 1, len(plan.votes))
        spend, part = (planned.mechanism, planned.count), PARTS[planned.purpose][1]
        claims[part] = Claim.from_spends([spend], delta, planned.expected_mu())
        ratios[part] = totals[0], totals[1]
        joint = (
            joint[0] + planned.log_likelihood_ratios(totals[0]),
            joint[1] + planned.log_likelihood_ratios(totals[1]),
        )
        mu, spends = math.hypot(mu, planned.expected_mu()), [*spends, spend]
    claims = {WHOLE: Claim.from_spends(spends, delta, mu), **claims}
    ratios[WHOLE] = joint
    without, with_canary = ({part: pair[k] for part, pair in ratios.items()} for k in (0, 1))
    seconds = time.monotonic() - started
    results = make_canary_results(request.method, claims, (without, with_canary), seconds)
    about = "" if teachers == "marginals" else f", {teachers}"
    return [replace(r, part=f"{r.part}{about}") for r in (*results, *single_results)]


def audit_all_votes(request: AuditRequest, samples: int = 1_000_000) -> list[AuditResult]:
    """Return :func:`audit_votes` of a method as it votes by default, and by the teachers that have class votes."""
    conditional = "class_column" in signature(METHODS[request.method]).parameters
    kinds = ("marginals", "networks") if conditional else ("marginals",)
    return [r for kind in kinds for r in audit_votes(request, samples=samples, teachers=kind)]


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
    canary_teachers: int,
    runs: int,
    aggregator: type[NoisyAggregator],
) -> np.ndarray:
    """Draw the number of answers yes of each fit, shape (runs,)."""
    out = []
    for first in range(0, runs, CHUNK):
        fits = min(CHUNK, runs - first)
        answers = draw_answers(plan, planned, canary_teachers, fits * planned.count, aggregator)
        out.append(answers.reshape(fits, -1).sum(1).astype(float))
    return np.concatenate(out)


def _single(method: str, planned: PlannedVotes, yes: tuple[int, int], samples: int) -> AuditResult:
    """Compare the log probability ratio of one answer on both datasets with that of the mechanism."""
    probabilities = planned.yes_probabilities()
    claimed = max(
        math.log(probabilities[1] / probabilities[0]),
        math.log((1 - probabilities[0]) / (1 - probabilities[1])),
    )
    each = (3 + CONFIDENCE) / 4  # two bounds for each of two ratios
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
        kind=WHITE_BOX,
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
        confidence=CONFIDENCE,
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
        },
    )


def _detectable(probabilities: np.ndarray, claimed: float, samples: int, each: float) -> float:
    """Return how many times too small the noise must be for a detection probability of 95%.

    Near a tie the log ratio is proportional to 1/noise.
    """
    spread = math.sqrt(((1 - probabilities) / probabilities).sum() / samples)
    bounds = sum(math.sqrt((1 - p) / (p * samples)) for p in probabilities) * stats.norm.ppf(each)
    return 1 + (bounds + stats.norm.ppf(0.95) * spread) / claimed


def _log_ratio(numerator: float, denominator: float) -> float:
    if numerator <= 0:
        return -math.inf
    return math.inf if denominator <= 0 else math.log(numerator / denominator)
