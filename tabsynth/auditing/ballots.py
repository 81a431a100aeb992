"""What PATE asks its teachers, as a fit plans it; the law of the answers; and the answers of its booth."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tabsynth.auditing.worlds import small_worlds
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoisyVote
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.privacy.noise.votes import chance_of_yes
from tabsynth.synthesizers import METHODS
from tabsynth.synthesizers.gan.estimator import MARGINALS
from tabsynth.synthesizers.pate.aggregation import CLASS_VOTES, VOTES, Booth
from tabsynth.synthesizers.pate.estimator import Voting

ROWS, LABELS = 2000, 100
TEACHERS_ASKED = (VOTES, CLASS_VOTES)


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """What is asked, and what is claimed of the answers.

    Attributes
    ----------
    purpose : {"votes", "class votes"}
    mechanism : NoisyVote or Gaussian
        What the account is charged for each answer.
    teachers, count : int
    """

    purpose: str
    mechanism: NoisyVote | Gaussian
    teachers: int
    count: int

    @property
    def vote(self) -> NoisyVote:
        """The law of an answer.

        Of a class vote, between two classes that have all votes: noise of √2·z on each of two counts that
        differ by 2n₁ − K, for a multiplier z, is noise of z on n₁ against K/2. More classes would only blur it.
        """
        if isinstance(self.mechanism, NoisyVote):
            return self.mechanism
        return NoisyVote(noise=self.mechanism.noise_multiplier, teachers=self.teachers)

    def chances(self) -> np.ndarray:
        """Of a yes, without the canary and with it."""
        return chance_of_yes(self.teachers // 2 + np.arange(2), self.vote)

    def ratios(self, yes: np.ndarray) -> np.ndarray:
        """Log-likelihood ratios of the canary, of fits with so many a yes: the number says all."""
        p = self.chances()
        return yes * math.log(p[1] / p[0]) + (self.count - yes) * math.log((1 - p[1]) / (1 - p[0]))

    def mu(self) -> float:
        """The distance of both worlds' numbers of yes, in their standard deviation."""
        p = self.chances()
        return math.sqrt(self.count) * (p[1] - p[0]) / math.sqrt((p * (1 - p)).mean())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that a fit releases: its one-way counts, and what it asks its teachers."""

    counts: Spend
    ballots: tuple[Ballot, ...]


def plan_of(method: str, epsilon: float, delta: float, mode: str | None = None) -> Plan:
    """A fit of so many declared rows, with a hundred questions, as the method plans it."""
    given: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rows": ROWS, "labels": LABELS}
    if method == "pate-acgan":
        given |= {"label": "colour"} if mode is None else {"label": "colour", "mode": mode}
    model = METHODS[method](small_worlds().schema, **given)
    assert isinstance(model, Voting)
    spends = {s.purpose: s for s in model._spends(Ledger(epsilon, delta))}
    vote, counts = spends[VOTES].mechanism, spends.pop(MARGINALS)
    assert isinstance(vote, NoisyVote) and isinstance(counts.mechanism, Gaussian)
    ballots = []
    for purpose, spend in spends.items():
        assert purpose in TEACHERS_ASKED and isinstance(spend.mechanism, NoisyVote | Gaussian)
        ballots.append(
            Ballot(
                purpose=purpose,
                mechanism=spend.mechanism,
                teachers=vote.teachers,
                count=spend.count,
            )
        )
    return Plan(counts=(counts.mechanism, counts.count), ballots=tuple(ballots))


def answers(
    plan: Plan, ballot: Ballot, more: int, questions: int, booth: type[Booth]
) -> np.ndarray:
    """Noisy answers, by a booth with all accounts of a fit, to questions at a tie.

    ``more`` teachers than half of them, rounded down, say yes: 0 or, with the canary, 1.
    """
    ledger, count = Ledger(math.inf, 0.5), ballot.teachers // 2 + more
    accounts = [ledger.open(each.purpose, each.mechanism, questions) for each in plan.ballots]
    asked = booth(PrivateTable(torch.zeros(1, 1), ledger), accounts, Keystream())
    asked.open(questions)
    if ballot.purpose == CLASS_VOTES:
        votes = torch.tensor([[ballot.teachers - count, count]]).expand(questions, 2)
        return asked.classes(votes).numpy() == 1
    return asked.binary(torch.full((questions,), count), ballot.teachers).numpy()
