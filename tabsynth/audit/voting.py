"""The canary in PATE's votes: a record that flips its teacher, in every question that is asked."""

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from tabsynth.audit.bounds import (
    CONFIDENCE,
    bounded,
    ceiling,
    lower_rate,
    separation,
    standard_error,
    upper_rate,
)
from tabsynth.audit.canaries import KIND
from tabsynth.audit.results import INVALID, LEAST_SHARE, REFUTED, AuditResult, judged
from tabsynth.audit.worlds import small_worlds
from tabsynth.generators.pate import Booth
from tabsynth.privacy.accounting import Spend, epsilon_of
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Ledger
from tabsynth.privacy.mechanisms import NoisyVote
from tabsynth.privacy.noise import Keystream
from tabsynth.privacy.votes import chance_of_yes
from tabsynth.synthesizers import METHODS
from tabsynth.synthesizers.voting import Voting
from tabsynth.training.loop import Progress

ONE, ALL = "one vote, at a tie", "all votes of a fit"
ROWS, LABELS, CHUNK = 2000, 100, 200
PURPOSE = "votes"


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """What is asked, and what is claimed of the answers."""

    vote: NoisyVote
    count: int


def ballot_of(method: str, epsilon: float, delta: float) -> Ballot:
    """The votes of a fit of so many declared rows, with a hundred questions, as the method plans them."""
    schema = small_worlds().schema
    label = {"label": "colour"} if method == "pate-acgan" else {}
    model = METHODS[method](schema, epsilon=epsilon, delta=delta, rows=ROWS, labels=LABELS, **label)
    assert isinstance(model, Voting)
    spends = {s.purpose: s for s in model._spends(Ledger(epsilon, delta))}
    vote = spends[PURPOSE].mechanism
    assert isinstance(vote, NoisyVote)
    return Ballot(vote=vote, count=spends[PURPOSE].count)


def audit_votes(
    method: str,
    epsilon: float,
    delta: float = 1e-5,
    *,
    samples: int = 100_000,
    runs: int = 2000,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
    ballot: Ballot | None = None,
    booth: type[Booth] = Booth,
) -> list[AuditResult]:
    """Audit the noisy majority as a fit asks for it: by its booth, on its account.

    In the world without the canary half of the teachers say yes to every question; in the other, one more
    (with an odd number of teachers the tie lies between the two).

    Parameters
    ----------
    samples : int
        Single answers in each world: are they as likely as the mechanism's law has it?
    runs : int
        Whole fits' worth of answers in each world, against the ε that all votes are charged.
    booth : type
        Another one only in tests.
    """
    ballot = ballot or ballot_of(method, epsilon, delta)
    started = time.monotonic()
    yes = [
        answers(ballot.vote, ballot.vote.teachers // 2 + more, samples, booth).sum()
        for more in (0, 1)
    ]
    single = _single(method, ballot, (int(yes[0]), int(yes[1])), samples, confidence, started)
    started = time.monotonic()
    totals: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for first in range(0, runs, CHUNK):
        some = min(CHUNK, runs - first)
        for more in (0, 1):
            count = ballot.vote.teachers // 2 + more
            said = answers(ballot.vote, count, some * ballot.count, booth)
            totals[more].append(said.reshape(some, -1).sum(1).astype(float))
        if progress is not None:
            progress(f"{KIND} {method}", first + some, runs)
    joined = np.concatenate(totals[0]), np.concatenate(totals[1])
    return [_whole(method, ballot, joined, delta, confidence, started), single]


def answers(vote: NoisyVote, count: int, questions: int, booth: type[Booth]) -> np.ndarray:
    """Noisy answers to questions to which ``count`` teachers say yes."""
    ledger = Ledger(math.inf, 0.5)
    account = ledger.open(PURPOSE, vote, questions)
    asked = booth(PrivateTable(torch.zeros(1, 1), ledger), [account], Keystream())
    asked.open(questions)
    return asked.binary(torch.full((questions,), count), vote.teachers).numpy()


def _single(
    method: str,
    ballot: Ballot,
    yes: tuple[int, int],
    samples: int,
    confidence: float,
    started: float,
) -> AuditResult:
    """Of one answer: the log of how much likelier it is in one world, against the law's."""
    counts = ballot.vote.teachers // 2 + np.arange(2)
    chances = chance_of_yes(counts, ballot.vote)
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
        part=ONE,
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
            "teachers": ballot.vote.teachers,
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
    method: str,
    ballot: Ballot,
    totals: tuple[np.ndarray, np.ndarray],
    delta: float,
    confidence: float,
    started: float,
) -> AuditResult:
    """Of all answers: how many are yes says all that they say together."""
    spends: list[Spend] = [(ballot.vote, ballot.count)]
    claimed = epsilon_of(spends, delta)
    bound = bounded(*totals, delta, confidence)
    p = chance_of_yes(ballot.vote.teachers // 2 + np.arange(2), ballot.vote)
    mu = math.sqrt(ballot.count) * (p[1] - p[0]) / math.sqrt((p * (1 - p)).mean())
    estimate = separation(*totals)
    verdict = judged(bound.epsilon, claimed)
    if verdict != REFUTED and estimate + 2 * standard_error(*totals) < LEAST_SHARE * mu:
        verdict = INVALID
    said = {REFUTED: "Refuted", INVALID: "Says nothing"}.get(verdict, "Not refuted")
    return AuditResult(
        kind=KIND,
        method=method,
        part=ALL,
        verdict=verdict,
        sentence=(
            f"{said}: the attack saw {estimate / mu:.0%} of what the law of the answers lets it see, and"
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
            "labels": ballot.count,
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
