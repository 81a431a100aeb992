"""PATE-GAN by networks, as Jordon et al. 2019 describe it: ``teachers="networks"``.

Teachers are perceptrons, all trained at once, against generated rows;
so is the student, against noisy labels alone, and the generator lowers log(1 − S(G(z))).

PATE-ACGAN has a source head and a class head in teachers and student, as AC-GAN (Odena et al. 2017).

NOTE[DIFF] Of PATE-ACGAN there is no paper, and its source has no algorithm. That teachers vote on the class as
well is our reading of "noisily labelled samples"; the source says nothing of its privacy cost.
NOTE[DIFF] A teacher says yes to the rows of a round above its own median, not above ½: trained teachers reject
nearly all generated rows, and labels that are all alike teach nothing (reports/pate).
NOTE[DIFF] Teachers learn the class from real rows alone. AC-GAN's loss covers generated rows, too, with which rows were
further from the table (reports/pate).
NOTE[DIFF] Heads go by rows without the label's codes, but for the student's source head: with them, the class
head would read the class off the row.
NOTE[DIFF] PATE-ACGAN draws classes by noisy one-way counts, and the generator starts from them. The source takes
the classes of the real rows, which is a read of private rows that it does not charge (reports/pate has the
generator without that start).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    leaky_relu,
    softplus,
)

from tabsynth.privacy.ledger.ledger import recorder
from tabsynth.synthesizers.adversarial.generator import (
    BETAS,
    GeneratorTraining,
    MomentPenalty,
    TableGenerator,
    TrainingContext,
)
from tabsynth.synthesizers.pate.config import PATEConfig
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
from tabsynth.training.networks import bounds, mlp, optimizer
from tabsynth.training.private_step import (
    CHUNK_ROWS,
    PARTS_STEP,
    CodedInputs,
    codes_of,
    parts_of,
)

SLOPE = 0.2
ANSWERS = 2**24  # numbers of one layer at a time
Rows = TypeVar("Rows", Tensor, Tensor | CodedInputs)


class Teachers(nn.Module):
    """The K multilayer perceptrons of the same shape, with leaky ReLUs, trained independently of each other.

    Parameters
    ----------
    teachers : int
        K.
    widths : sequence of int
        Of the layers, input and outputs included.
    rng : torch.Generator
        Draws the first weights, of each teacher its own.
    xavier : bool
        Whether they are drawn by Xavier's rule; see :func:`tabsynth.training.networks.bounds`.
    """

    def __init__(
        self, teachers: int, widths: Sequence[int], rng: torch.Generator, xavier: bool = False
    ) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in pairwise(widths):
            weight, bias = bounds(inputs, outputs, xavier)
            for parameters, shape, bound in (
                (self.weights, (inputs, outputs), weight),
                (self.biases, (1, outputs), bias),
            ):
                drawn = torch.empty(teachers, *shape).uniform_(-bound, bound, generator=rng)
                parameters.append(nn.Parameter(drawn))

    def forward(self, rows: Tensor) -> Tensor:
        """Return outputs, shape (K, rows, outputs): of rows of its own for each teacher, or of the same for all.

        Parameters
        ----------
        rows : Tensor, shape (K, rows, width) or (rows, width)
        """
        first = self.weights[0]
        if rows.dim() == 2:  # one product of matrices for all teachers
            stacked = first.transpose(0, 1).reshape(rows.shape[1], -1)
            values = (rows @ stacked).view(len(rows), len(first), -1).transpose(0, 1)
            values = values + self.biases[0]
        else:
            values = torch.baddbmm(self.biases[0], rows, first)
        for weight, bias in list(zip(self.weights, self.biases, strict=True))[1:]:
            values = torch.baddbmm(bias, leaky_relu(values, SLOPE), weight)
        return values

    def losses(
        self, real: Tensor, nonempty: Tensor, classes: Tensor | None, fake: Tensor
    ) -> Tensor:
        """Return each teacher's loss, shape (K,): cross-entropy of real against generated, and of classes.

        Parameters
        ----------
        real : Tensor, shape (K, batch, width)
            Rows of each teacher's own shard.
        nonempty : Tensor, shape (K,)
            1, or 0 for a teacher whose shard is empty: it has no real rows.
        classes : LongTensor, shape (K, batch), optional
            Of the real rows, where there is a class head: outputs past the first.
        fake : Tensor, shape (rows, width)
        """
        batch = real.shape[1]
        # Both in one product: the weights are gone through once, and their slopes made once.
        both = self(torch.cat([real, fake.expand(len(real), -1, -1)], dim=1))
        says, of_fake = both[:, :batch], both[:, batch:, 0]
        losses = nonempty * softplus(-says[..., 0]).mean(1) + softplus(of_fake).mean(1)
        if classes is not None:
            entropy = cross_entropy(says[..., 1:].transpose(1, 2), classes, reduction="none")
            losses = losses + nonempty * entropy.mean(1)
        return losses

    @torch.no_grad()
    def outputs(self, rows: Tensor) -> list[Tensor]:
        """Return outputs for the same rows for all, in parts of shape (K, some rows, outputs)."""
        widest = max(w.shape[2] for w in self.weights)
        part_rows = max(1, ANSWERS // (len(self.weights[0]) * widest))
        return [self(part) for part in rows.split(part_rows)]


class TeacherTrainer:
    """The teachers, their shards and their optimiser.

    Parameters
    ----------
    teachers : Teachers
    rows : Tensor, shape (n, width), or CodedInputs
    classes : LongTensor, shape (n,), optional
    shard : LongTensor, shape (n,)
        The teacher of each row.
    lr : float
        The rate of Adam.
    parts : Tensor, shape (n,), optional
        As how much of a row each row counts: rows of a shard are picked in proportion to it.

    Formal guarantees
    -----------------
    Each teacher's numbers are a function of its own shard, its own uniform numbers and generated rows, to the bit.
    Proof: all shapes are public. A step draws the same uniform numbers, ``batch`` for each teacher,
    whatever the table holds, even where it is empty. Teacher k picks rows of its own shard by the
    numbers of place k, by sums of whole numbers if rows have parts; they fill place k of a tensor of shape (teachers, batch, width). From there on
    all products are of one matrix for each teacher, or of shapes in which teacher k has a fixed place; none adds up
    entries of two teachers. The sum of the losses has the slope 1 for each of them, and optimisers go entry
    by entry.
    """

    def __init__(
        self,
        teachers: Teachers,
        rows: Tensor | CodedInputs,
        classes: Tensor | None,
        shard: Tensor,
        lr: float,
        parts: Tensor | None = None,
    ) -> None:
        count = len(teachers.weights[0])
        self.teachers, self.rows, self.classes = teachers, rows, classes
        self._order = torch.argsort(shard, stable=True).to(rows.device)
        self._sizes = torch.bincount(shard, minlength=count).to(rows.device)
        self._starts = self._sizes.cumsum(0) - self._sizes
        self._ends: Tensor | None = None  # of the rows' parts, laid end to end
        if parts is not None:
            steps = (parts / PARTS_STEP).long()
            totals = torch.zeros_like(self._sizes).index_add_(0, shard.to(rows.device), steps)
            self._ends = steps[self._order].cumsum(0)
            self._totals, self._before = totals, totals.cumsum(0) - totals
            self._sizes = torch.where(totals > 0, self._sizes, 0)  # rows of weight 0 are none
        self._empty = torch.nonzero(self._sizes == 0).squeeze(1)
        self._optimizer = optimizer("adam", teachers.parameters(), lr, BETAS, fused=True)

    def pick_rows(self, batch: int, rng: torch.Generator) -> Tensor:
        """Draw row numbers, shape (K, batch): of each teacher's own shard; any, where it is empty.

        As many uniform numbers are drawn for every table: what is drawn after them must not depend on its rows.
        """
        uniform = torch.rand(len(self._sizes), batch, generator=rng, device=self.rows.device)
        if self._ends is not None and len(self.rows):
            spots = (uniform.double() * self._totals[:, None]).long() + self._before[:, None]
            places = torch.searchsorted(self._ends, spots, right=True)
            return self._order[places.clamp_max(len(self.rows) - 1)]
        place = (
            (uniform * self._sizes[:, None])
            .long()
            .clamp_max((self._sizes - 1).clamp_min(0)[:, None])
        )
        places = (self._starts[:, None] + place).clamp_max(max(len(self.rows) - 1, 0))
        return self._order[places] if len(self.rows) else torch.zeros_like(places)

    def step(self, batch: int, fake: Tensor, rng: torch.Generator) -> None:
        """Take one step of all teachers at once."""
        nonempty = (self._sizes > 0).to(self.rows.dtype)
        picked = self.pick_rows(batch, rng)
        if len(self.rows):
            real = self.rows[picked]
            real[self._empty] = 0
            classes = (
                None if self.classes is None else self.classes[picked] * nonempty[:, None].long()
            )
        else:
            real = fake.new_zeros(len(nonempty), batch, fake.shape[1])
            classes = None if self.classes is None else picked
        total = self.teachers.losses(real, nonempty, classes, fake).sum()
        self._optimizer.zero_grad(set_to_none=True)
        total.backward()
        self._optimizer.step()


class PATENetworks(GeneratorTraining):
    """Teachers and a student that are networks, and a generator that is trained against the student.

    Parameters
    ----------
    config : PATEConfig
    generator : TableGenerator
    rng : torch.Generator
        For the first weights of teachers and student.
    moment_penalty : MomentPenalty, optional
    ensemble : EnsembleSettings
    """

    def __init__(
        self,
        config: PATEConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        moment_penalty: MomentPenalty | None,
        ensemble: EnsembleSettings,
    ) -> None:
        super().__init__(config.generator, generator, moment_penalty)
        self.config, self.settings, self.ensemble = config, config.networks, ensemble
        width, label = generator.heads.layout.width, label_codes(generator, ensemble)
        self.label = label
        take_shares(self, ensemble)
        self._classes = 0 if label is None else label.stop - label.start
        sizes = [width, *self.settings.student_hidden, 1 + self._classes]
        xavier = config.generator.xavier
        self.student = mlp(sizes, rng, activation="leaky-relu", xavier=xavier)
        self._moves = optimizer("adam", self.student.parameters(), self.settings.lr, BETAS)
        # Of the fit alone, and in no state: after a crash they are trained again (R16).
        widths = [width, *self.settings.teacher_hidden, 1 + self._classes]
        self._teachers = Teachers(ensemble.teachers, widths, rng, xavier)
        self._trainer: TeacherTrainer | None = None

    def to(self, device: torch.device) -> Self:
        """Move all networks and targets to ``device``."""
        for network in (self.student, self._teachers):
            network.to(device)
        return super().to(device)

    def fit(self, context: TrainingContext) -> int:
        """Train until the accounts of the votes are spent or time is up; return the number of generator steps."""
        rng, moves = context.streams.public, self._generator_optimizer()

        def ask(aggregator: NoisyAggregator, questions: int, dealt: Deal) -> None:
            self.ask(aggregator, questions, dealt, rng)

        self.generator.train()
        state = self.state(optimizer=moves, student=self.student, moves=self._moves)
        done = run_rounds(
            context, self.config, self.ensemble, ask, lambda _: self.move(moves, rng), state
        )
        release_shares(self, self.ensemble)
        return done

    def ask(
        self, aggregator: NoisyAggregator, questions: int, dealt: Deal, rng: torch.Generator
    ) -> None:
        """Ask one round of questions, and let the student learn from the noisy answers of this round alone.

        The teachers of earlier rounds compared real rows with another generator, and call real what it has produced too
        often since (reports/pate).

        Parameters
        ----------
        aggregator : NoisyAggregator
        questions : int
        dealt : callable
            From the rows to their order and the teacher of each.
        rng : torch.Generator
            For all that is public.
        """
        config = self.settings
        codes, _ = draw_questions(self.generator, questions, rng)
        private, shard = dealt(aggregator.open(questions))
        rows = codes_of(private)
        if self._trainer is None:
            classes = None
            if self._classes:
                parts = (part[:, self.label].argmax(1) for part in rows.split(CHUNK_ROWS))
                classes = torch.cat([*parts])
            self._trainer = TeacherTrainer(
                self._teachers,
                self._hide_label(rows),
                classes,
                shard,
                config.lr,
                parts_of(private),
            )
        for _ in range(config.teacher_steps):
            with torch.no_grad():
                fake = self._hide_label(self._codes(max(2, config.teacher_batch), rng))
            self._trainer.step(config.teacher_batch, fake, rng)
        if (trace := recorder()) is not None:
            trace.teachers(list(self._teachers.parameters()))
        answers = self._answers(aggregator, codes)
        for _ in range(config.student_steps):
            self._learn(codes, answers, rng)

    def _hide_label(self, codes: Rows) -> Rows:
        """Return codes without the label's, where a class head is to predict it."""
        if not self._classes:
            return codes
        if isinstance(codes, CodedInputs):
            return replace(codes, blank=self.label)
        changed = codes.clone()
        changed[:, self.label] = 0
        return changed

    def _answers(self, aggregator: NoisyAggregator, codes: Tensor) -> dict[str, Tensor]:
        """Return what the noisy votes say of each row."""
        yes, votes, bar = [], [], None
        for says in self._teachers.outputs(self._hide_label(codes)):
            if bar is None:  # of each teacher: by generated rows of one part, so of a public number
                bar = says[..., 0].median(dim=1, keepdim=True).values
            yes.append((says[..., 0] > bar).sum(0))
            if self._classes:
                best = says[..., 1:].argmax(2)
                votes.append(torch.stack([(best == c).sum(0) for c in range(self._classes)], dim=1))
        answers = {"yes": aggregator.binary(torch.cat(yes), self.ensemble.teachers)}
        if votes:
            answers["classes"] = aggregator.classes(torch.cat(votes))
        return answers

    def _student_says(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of the source, shape (rows,), of whole rows, and of the class, of rows without it."""
        source = self.student(codes)[:, 0]
        classes = self.student(self._hide_label(codes))[:, 1:] if self._classes else codes[:, :0]
        return source, classes

    def _learn(self, codes: Tensor, answers: dict[str, Tensor], rng: torch.Generator) -> None:
        """Take one step of the student, on rows and their noisy labels."""
        batch = (self.settings.student_batch,)
        drawn = torch.randint(len(codes), batch, generator=rng, device=codes.device)
        source, classes = self._student_says(codes[drawn])
        loss = binary_cross_entropy_with_logits(source, answers["yes"][drawn].float())
        if self._classes:
            loss = loss + cross_entropy(classes, answers["classes"][drawn])
        grads = torch.autograd.grad(loss, list(self.student.parameters()))
        for parameter, grad in zip(self.student.parameters(), grads, strict=True):
            parameter.grad = grad
        self._moves.step()

    def move(self, moves: torch.optim.Optimizer, rng: torch.Generator) -> None:
        """Take a step down log(1 − S(G(z))), and down the class head's cross-entropy of G(z, c) at c."""
        generator = self.generator
        logits = generator.logits(generator.noise(self.settings.student_batch, rng))
        codes = generator.heads(logits, self.generator_config.temperature, rng)
        source, classes = self._student_says(codes)
        loss = -softplus(source).mean()
        if self._classes:
            drawn = codes[:, self.label].detach().argmax(1)
            loss = loss + cross_entropy(classes, drawn)
        if self.moment_penalty is not None:
            loss = loss + self.moment_penalty.loss(generator.heads(logits, 1.0, None))
        self._descend(loss, moves)
