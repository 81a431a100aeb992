"""The student: what it learns of the mean ψ of private rows, from noisy answers about generated rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tabsynth.generators.pair_features import PairFeatures

STEPS, MORE_STEPS = 8, 4  # Newton's, of the first round and of others
MOST_MOVE = 0.3  # of a mean in one of them
PRIOR, LEAST_PRIOR = 0.05, 1e-6  # variance of a group's means: at first, and at least
CHUNK = 4096
FAR = 4.0  # standard deviations past which an answer says no more


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Answered questions of one round: all that the student knows of private rows.

    Attributes
    ----------
    codes : Tensor, shape (questions, width), uint8 or float32
        The rows that were asked about.
    against : Tensor, shape (questions, width), optional
        Where the question was which of two rows is more like the private ones.
    yes : BoolTensor, shape (questions,)
    centre : Tensor, shape (features,)
        Mean ψ of generated rows as it was then.
    heads : tuple of int
        Which of the student's heads the teachers went by.
    scale : Tensor, shape (questions, heads)
        One over the standard deviation of a teacher's score, by head.
    least : float
        What a scaled score has to pass.
    ratio : float
        Number of teachers that hold a record, over the standard deviation of the noise, in votes.
    """

    codes: Tensor
    yes: Tensor
    centre: Tensor
    scale: Tensor
    ratio: float
    heads: tuple[int, ...] = (0,)
    least: float = 0.0
    against: Tensor | None = None

    def state_dict(self) -> dict[str, Any]:
        """All of it."""
        return {name: value for name, value in vars(self).items() if value is not None}


class Student:
    """θ, the mean ψ of private rows, by maximum a posteriori from the answers of all rounds.

    A teacher of m records has wᵢ ≈ N(θ, Σ/m), Σ the covariance of ψ, about that of generated rows. So
    it says yes to a row x with chance Φ(z), z = √m ⟨θ − c, ψ(x) − c⟩ / √(ψ(x) − c)ᵀ Σ (ψ(x) − c), and
    the vote is answered yes with chance Φ((Φ(z) − ½) K/s): a likelihood of θ, in which the rows of early
    rounds say as much as those of late ones. With several heads the chances of their yes multiply.

    The prior of the means of each group of features, of one pair of columns and about one fineness, is
    N(prior, v), with v by empirical Bayes (MacKay 1992): those of which the answers say nothing stay where
    they were.

    Parameters
    ----------
    features : PairFeatures
    heads : sequence of BoolTensor, shape (features,)
    """

    def __init__(self, features: PairFeatures, heads: Sequence[Tensor]) -> None:
        self.features, self.heads = features, list(heads)
        device = features.group.device
        self.prior = torch.zeros(len(features), device=device)
        self.means = self.prior.clone()
        self.variances = torch.full((features.groups,), PRIOR, device=device)
        self.answers: list[Answers] = []

    @torch.no_grad()
    def learn(self) -> None:
        """θ anew, from all answers so far: Newton's steps, and the variances between them."""
        group = self.features.group
        if not len(group):  # a single column
            return
        sizes = torch.bincount(group).float()
        first = len(self.answers) <= 1
        for step in range(STEPS if first else MORE_STEPS):
            precision = torch.diag(1 / self.variances[group]).double()
            slope = (self.prior - self.means) / self.variances[group]
            for answers in self.answers:
                more, toward = self._information(answers)
                precision += more
                slope = slope + toward
            covariance = torch.linalg.inv(precision).float()
            self.means = self.means + (covariance @ slope).clamp(-MOST_MOVE, MOST_MOVE)
            if step >= 2 or not first:
                squares = (self.means - self.prior).square() + covariance.diagonal()
                sums = torch.zeros_like(sizes).index_add_(0, group, squares)
                self.variances = (sums / sizes).clamp_min(LEAST_PRIOR)

    def _information(self, answers: Answers) -> tuple[Tensor, Tensor]:
        """Fisher information of θ, and the slope of the log-likelihood, in one round's answers."""
        count = len(self.means)
        information = torch.zeros(count, count, dtype=torch.float64, device=self.means.device)
        slope = torch.zeros_like(self.means)
        for start in range(0, len(answers.yes), CHUNK):
            part = slice(start, start + CHUNK)
            rows = self.design(answers, part)
            scaled = [rows * self.heads[h] for h in answers.heads]
            scale, shift = answers.scale[part], self.means - answers.centre
            z = torch.stack([r @ shift for r in scaled], 1) * scale - answers.least
            chance = _normal(z.clamp(-FAR, FAR))
            share = chance.prod(1)
            margin = (share - 0.5) * answers.ratio
            p = _normal(margin).clamp(1e-4, 1 - 1e-4)
            by_head = (_density(margin) * answers.ratio * share)[:, None] / chance
            by_head = by_head * _density(z.clamp(-FAR, FAR)) * scale
            total = sum(r * by_head[:, h, None] for h, r in enumerate(scaled))
            assert isinstance(total, Tensor)
            spread = p * (1 - p)
            information += ((total / spread[:, None]).T @ total).double()
            slope += total.T @ ((answers.yes[part].float() - p) / spread)
        return information, slope

    def design(self, answers: Answers, part: slice = slice(None)) -> Tensor:
        """ψ(x) − c of the rows asked about, or its difference to the rows they were set against."""
        rows = self.features(answers.codes[part].float())
        if answers.against is None:
            return rows - answers.centre
        return rows - self.features(answers.against[part].float())

    def state_dict(self) -> dict[str, Any]:
        """θ, its variances, and all answers."""
        return {
            "means": self.means,
            "prior": self.prior,
            "variances": self.variances,
            "answers": [answers.state_dict() for answers in self.answers],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        device = self.means.device
        self.means, self.prior = state["means"].to(device), state["prior"].to(device)
        self.variances = state["variances"].to(device)
        self.answers = []
        for one in state["answers"]:
            held: dict[str, Any] = {
                k: v.to(device) if isinstance(v, Tensor) else v for k, v in one.items()
            }
            self.answers.append(Answers(**held))


def _normal(z: Tensor) -> Tensor:
    """Φ."""
    return torch.special.ndtr(z)


def _density(z: Tensor) -> Tensor:
    return torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
