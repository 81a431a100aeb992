"""PATE-GAN by pairs of columns: the teachers' majority votes on two-way marginals, and a student learns from the noisy votes.

Teachers are :class:`tabsynth.synthesizers.pate.features.MarginalTeachers`: with shards of ten records, as small
budgets need, a network has nothing to learn but their noise. The student knows how their votes come about,
:class:`tabsynth.synthesizers.pate.pairs.Student`, and so finds the means that the votes are about. Its
score of a row is ⟨θ − c, ψ(x) − c⟩, with c the mean ψ of generated rows, and it separates real from
generated rows by at most ‖θ − c‖: the generator lowers that distance, taken cell by cell over the two-way marginals
that θ stands for, as Pearson's χ².

NOTE[DIFF] Teachers and student of the paper are networks, and its generator lowers log(1 − student): those
are :mod:`tabsynth.synthesizers.pate.teachers`, ``teachers="networks"``. At the budgets that matter they learn next
to nothing (reports/pate).
NOTE[DIFF] The generator starts from noisy one-way counts and is held to them, as our DP-WGAN.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tabsynth.privacy.ledger.ledger import recorder
from tabsynth.schema.column import Column
from tabsynth.synthesizers.adversarial.generator import (
    PAIR_BETAS,
    PAIR_LR,
    GeneratorTraining,
    MomentPenalty,
    TableGenerator,
    TrainingContext,
)
from tabsynth.synthesizers.pate.config import PATEConfig
from tabsynth.synthesizers.pate.features import MarginalTeachers, PairFeatures
from tabsynth.synthesizers.pate.rounds import (
    Deal,
    EnsembleSettings,
    NoisyAggregator,
    draw_questions,
    label_codes,
    release_shares,
    run_rounds,
    take_shares,
)
from tabsynth.training.checkpoint import StateDict
from tabsynth.training.networks import one_cycle, optimizer
from tabsynth.training.private_step import codes_of, parts_of

STEPS, MORE_STEPS = 8, 4  # Newton's, of the first round and of others
MOST_MOVE = 0.3  # of a mean in one of them
PRIOR, LEAST_PRIOR = 0.05, 1e-6  # variance of a group's means: at first, and at least
CHUNK = 4096
FAR = 4.0  # standard deviations past which an answer says no more


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answered questions of one round: the student learns of private rows from these alone.

    Attributes
    ----------
    codes : Tensor, shape (questions, width), uint8 or float32
        The generated rows in the questions.
    yes : BoolTensor, shape (questions,)
    centre : Tensor, shape (features,)
        Mean ψ of generated rows as it was then.
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
    least: float = 0.0

    def state_dict(self) -> StateDict:
        """Return all of it."""
        return dict(vars(self))


class Student:
    """The student's θ, the mean ψ of private rows, by maximum a posteriori from the answers of all rounds.

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
        """Estimate θ again from all answers so far, by Newton's steps with the variances between them."""
        group = self.features.group
        if not len(group):  # a single column
            return
        sizes = torch.bincount(group).float()
        first = len(self.answers) <= 1
        for step in range(STEPS if first else MORE_STEPS):
            precision = torch.diag(1 / self.variances[group]).double()
            slope = (self.prior - self.means) / self.variances[group]
            for answers in self.answers:
                information, toward = self._information(answers)
                precision += information
                slope = slope + toward
            covariance = torch.linalg.inv(precision).float()
            self.means = self.means + (covariance @ slope).clamp(-MOST_MOVE, MOST_MOVE)
            if step >= 2 or not first:
                squares = (self.means - self.prior).square() + covariance.diagonal()
                sums = torch.zeros_like(sizes).index_add_(0, group, squares)
                self.variances = (sums / sizes).clamp_min(LEAST_PRIOR)

    def _information(self, answers: Answers) -> tuple[Tensor, Tensor]:
        """Return the Fisher information of θ, and the slope of the log-likelihood, in one round's answers."""
        count = len(self.means)
        information = torch.zeros(count, count, dtype=torch.float64, device=self.means.device)
        slope = torch.zeros_like(self.means)
        for start in range(0, len(answers.yes), CHUNK):
            part = slice(start, start + CHUNK)
            rows = self.features(answers.codes[part].float()) - answers.centre
            scaled = [rows * head for head in self.heads]
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

    def state_dict(self) -> StateDict:
        """Return θ, its variances, and all answers."""
        return {
            "means": self.means,
            "prior": self.prior,
            "variances": self.variances,
            "answers": [answers.state_dict() for answers in self.answers],
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Invert :meth:`state_dict`."""
        device = self.means.device
        self.means, self.prior = state["means"].to(device), state["prior"].to(device)
        self.variances = state["variances"].to(device)
        self.answers = []
        for answers in state["answers"]:
            fields: dict[str, Any] = {
                k: v.to(device) if isinstance(v, Tensor) else v for k, v in answers.items()
            }
            self.answers.append(Answers(**fields))


def _normal(z: Tensor) -> Tensor:
    """Return Φ."""
    return torch.special.ndtr(z)


def _density(z: Tensor) -> Tensor:
    return torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)


LEAST_SPREAD = 1e-6
DISTANCE = "student's distance of generated rows, by labels"


class PATEMarginals(GeneratorTraining):
    """Teachers that vote on two-way marginals, a student that estimates them, a generator that matches them.

    Parameters
    ----------
    config : PATEConfig
    generator : TableGenerator
    moment_penalty : MomentPenalty
        Its marginals are needed.
    ensemble : EnsembleSettings
    columns : sequence of Column
    """

    def __init__(
        self,
        config: PATEConfig,
        generator: TableGenerator,
        moment_penalty: MomentPenalty,
        ensemble: EnsembleSettings,
        columns: Sequence[Column],
    ) -> None:
        super().__init__(config.generator, generator, moment_penalty)
        assert moment_penalty.marginals is not None
        self.config, self.ensemble = config, ensemble
        self.label = label_codes(generator, ensemble)
        take_shares(self, ensemble)
        layout = generator.heads.layout
        self.features = PairFeatures(
            layout,
            columns,
            moment_penalty.marginals,
            config.marginals.functions,
            config.marginals.features,
            ensemble.label,
        )
        all_features = torch.ones(len(self.features), dtype=torch.bool)
        self.heads = [all_features]
        if ensemble.label is not None:
            self.heads = [~self.features.with_label, self.features.with_label]
        self.student = Student(self.features, self.heads)
        self._nonempty_share, self._rows_of_shard = 1.0, 1.0
        self._target: MomentPenalty | None = None

    def to(self, device: torch.device) -> "PATEMarginals":
        """Move all networks and targets to ``device``."""
        self.features.to(device)
        self.heads = [head.to(device) for head in self.heads]
        self.student = Student(self.features, self.heads)
        super().to(device)
        return self

    def warm_up(self, context: TrainingContext) -> int:
        """Take the means of the public codes for the student's prior."""
        codes = context.public_codes
        assert codes is not None
        prior = torch.cat([self.features(part).double() for part in codes.split(8192)]).mean(0)
        self.student.prior = prior.float()
        self.student.means = self.student.prior.clone()
        return 0

    def fit(self, context: TrainingContext) -> int:
        """Train until the accounts of the votes are spent or time is up; return the number of generator steps."""
        config, rng = self.config, context.streams.public
        # The share of the shards that is expected to have a record: their sizes are about Poisson's.
        each = max(1.0, context.rows) / self.ensemble.teachers
        self._nonempty_share = -math.expm1(-each)
        self._rows_of_shard = each / self._nonempty_share
        moves = optimizer("adam", self.generator.parameters(), PAIR_LR, PAIR_BETAS)
        rate = torch.optim.lr_scheduler.LambdaLR(
            moves, lambda i: one_cycle(i % config.round_steps / config.round_steps)
        )

        def ask(aggregator: NoisyAggregator, questions: int, dealt: Deal) -> None:
            self.ask(aggregator, questions, dealt, rng)

        def move(step: int) -> None:
            if step == 0:
                # Near the last round's target slopes were small, and Adam, which divides by them, would throw the
                # generator far off as its rate grows again.
                moves.state.clear()
            self.move(moves, rng)
            rate.step()

        self.generator.train()
        state = self.state(optimizer=moves, rate=rate, student=self.student)
        done = run_rounds(context, config, self.ensemble, ask, move, state)
        release_shares(self, self.ensemble)
        return done

    @torch.no_grad()
    def ask(
        self, aggregator: NoisyAggregator, questions: int, dealt: Deal, rng: torch.Generator
    ) -> None:
        """Ask one round of questions, and let the student learn from the noisy answers.

        Parameters
        ----------
        aggregator : NoisyAggregator
        questions : int
        dealt : callable
            From the rows to their order and the teacher of each.
        rng : torch.Generator
            For all that is public.
        """
        codes, expected = draw_questions(self.generator, questions, rng)
        centre = self.features(expected).mean(0)
        question_features = self.features(codes) - centre
        spread = question_features.T @ question_features / len(question_features)
        rows, shard = dealt(aggregator.open(questions))
        codes_of_rows, parts = codes_of(rows), parts_of(rows)
        count = self.ensemble.teachers
        teachers = MarginalTeachers.of(codes_of_rows, shard, count, self.features, parts)
        if (trace := recorder()) is not None:
            trace.teachers([teachers.means])
        scale = self._scale(question_features, spread)
        # Each head says yes to a share of rows of which all heads together say yes to half.
        threshold = float(-torch.special.ndtri(torch.tensor(0.5 ** (1 / len(self.heads)))))
        yes = teachers.yes(question_features, centre, self.heads, scale, threshold)
        self.student.answers.append(
            Answers(
                codes=codes,
                yes=aggregator.binary(yes, self.ensemble.teachers),
                centre=centre,
                scale=scale,
                ratio=self._ratio(aggregator.noise()),
                least=threshold,
            )
        )
        del rows, codes_of_rows, parts, teachers, yes
        self.student.learn()
        self._target = None
        asked_so_far = sum(len(answers.yes) for answers in self.student.answers)
        self._curves.note(DISTANCE, asked_so_far, (self.student.means - centre).norm())

    def _scale(self, question_features: Tensor, spread: Tensor) -> Tensor:
        """Return one over the standard deviation of a teacher's score of each row, shape (rows, heads)."""
        scales = []
        for head in self.heads:
            part = question_features * head
            variance = ((part @ spread) * part).sum(1).clamp_min(LEAST_SPREAD)
            scales.append((self._rows_of_shard / variance).sqrt())
        return torch.stack(scales, dim=1)

    def _ratio(self, noise: float) -> float:
        """Return the teachers with records over the noise; all votes are random too, of variance K/4 at most."""
        teachers = self.ensemble.teachers
        return self._nonempty_share * teachers / math.sqrt(noise**2 + teachers / 4)

    def move(self, moves: torch.optim.Optimizer, rng: torch.Generator) -> None:
        """Take a step towards the student's two-way marginals."""
        if self._target is None:
            self._aim()
        self.moment_step(rng, moves)

    def _aim(self) -> None:
        assert self.moment_penalty is not None
        self.moment_penalty.moments = self.features.second_moments(self.student.means)
        self._target = self.moment_penalty
