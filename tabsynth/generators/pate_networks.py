"""PATE-GAN by networks, as Jordon et al. 2019 describe it: preset ``paper``.

Teachers are perceptrons, all trained at once (:mod:`tabsynth.generators.teachers`), against generated rows;
so is the student, against noisy labels alone, and the generator lowers log(1 − S(G(z))).

PATE-ACGAN has a source head and a class head in teachers and student, as AC-GAN (Odena et al. 2017).

NOTE[DIFF] Of PATE-ACGAN there is no paper, and its source has no algorithm. That teachers vote on the class as
well, mode B, is our reading of "noisily labelled samples"; the source says nothing of its privacy cost. Modes A
and C are ours (:class:`tabsynth.PATEACGAN`).
NOTE[DIFF] Heads go by rows without the label's codes, but for the student's source head: with them, the class
head would read the class off the row.
NOTE[DIFF] PATE-ACGAN draws classes by noisy one-way counts, and the generator starts from them. The source takes
the classes of the real rows, which is a read of private rows that it does not charge (reports/pate has the
generator without that start).
"""

from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, softplus

from tabsynth.generators.anchors import Anchors
from tabsynth.generators.booth import Booth
from tabsynth.generators.pate import PATE, Panel
from tabsynth.generators.pate_config import PATEConfig
from tabsynth.generators.shards import Deal
from tabsynth.generators.table import TableGenerator
from tabsynth.generators.teachers import Classroom, Teachers
from tabsynth.networks import mlp
from tabsynth.privacy.recording import recorder
from tabsynth.training.optimizers import optimizer


class Labelled:
    """Generated rows of the present round and their noisy labels.

    Labels of earlier rounds are not used: their teachers compared real rows with another generator, and
    call real what the generator has produced too often since (reports/pate).
    """

    def __init__(self) -> None:
        self.rows: dict[str, Tensor] = {}
        self.device = torch.device("cpu")

    def replace(self, **rows: Tensor) -> None:
        """The next round's: ``codes``, ``yes``, and ``classes`` with ``classed`` where there are any."""
        self.rows = rows

    def state_dict(self) -> dict[str, Any]:
        """All of it."""
        return dict(self.rows)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.rows = {name: value.to(self.device) for name, value in state.items()}


class PATENetworks(PATE):
    """Teachers and a student that are networks; parameters as of :class:`PATE`."""

    def __init__(
        self,
        config: PATEConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        anchors: Anchors | None,
        panel: Panel,
    ) -> None:
        super().__init__(config, generator, rng, anchors, panel)
        width, label = generator.heads.layout.width, self.label
        self._classes = 0 if label is None or panel.mode == "A" else label.stop - label.start
        self.student = mlp(
            [width, *config.student_hidden, 1 + self._classes], rng, activation="leaky-relu"
        )
        self._moves = optimizer(
            config.network_optimizer, self.student.parameters(), config.network_lr, config.betas
        )
        self.labelled = Labelled()
        # Of the fit alone, and in no state: after a crash they are trained again (R16).
        widths = [width, *config.teacher_hidden, 1 + self._classes]
        self._teachers = Teachers(panel.teachers, widths, rng)
        self._classroom: Classroom | None = None

    def to(self, device: torch.device) -> Self:
        """All networks and targets, moved to ``device``."""
        for network in (self.student, self._teachers):
            network.to(device)
        self.labelled.device = device
        return super().to(device)

    def parts(self) -> dict[str, Any]:
        """The student and its labels."""
        return {"student": self.student, "moves": self._moves, "labelled": self.labelled}

    def ask(self, booth: Booth, questions: int, dealt: Deal, rng: torch.Generator) -> None:
        """As :meth:`PATE.ask`."""
        config = self.config
        codes, _ = self.questions(questions, rng)
        rows, shard = dealt(booth.open(questions))
        if self._classroom is None:
            classes = rows[:, self.label].argmax(1) if self._classes else None
            self._classroom = Classroom(
                self._teachers,
                self._unlabelled(rows),
                classes,
                shard,
                config.network_lr,
                config.network_optimizer,
            )
        for _ in range(config.teacher_steps):
            with torch.no_grad():
                fake = self._unlabelled(self._codes(max(2, config.teacher_batch), rng))
            self._classroom.step(config.teacher_batch, fake, rng)
        if (known := recorder()) is not None:
            known.teachers(list(self._teachers.parameters()))
        self.labelled.replace(codes=codes, **self._answers(booth, codes))
        for _ in range(config.student_steps):
            self._learn(rng)

    def _unlabelled(self, codes: Tensor) -> Tensor:
        """Codes without the label's, where a class head is to tell it."""
        if not self._classes:
            return codes
        changed = codes.clone()
        changed[:, self.label] = 0
        return changed

    def _answers(self, booth: Booth, codes: Tensor) -> dict[str, Tensor]:
        """What the noisy votes say of each row."""
        teachers, label, mode = self.panel.teachers, self.label, self.panel.mode
        own = None if label is None else codes[:, label].argmax(1)
        yes, votes, start = [], [], 0
        for says in self._teachers.outputs(self._unlabelled(codes)):
            real = says[..., 0] > 0
            if self._classes:
                best = says[..., 1:].argmax(2)
                assert own is not None
                if mode == "C":
                    real &= best == own[start : start + best.shape[1]]
                counts = [(best == c).sum(0) for c in range(self._classes)]
                votes.append(torch.stack(counts, dim=1))
            yes.append(real.sum(0))
            start += real.shape[1]
        answers = booth.binary(torch.cat(yes), teachers)
        if own is None or mode == "A":  # there all say it at once, of rows with the class in them
            return {"yes": answers}
        if mode == "B":
            found, classed = booth.classes(torch.cat(votes)), torch.ones_like(answers)
        else:  # mode C: only where all of the row was taken for real
            found, classed = own, answers
        return {"yes": answers, "classes": found, "classed": classed}

    def _student_says(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the source, shape (rows,), of whole rows, and of the class, of rows without it."""
        source = self.student(codes)[:, 0]
        classes = self.student(self._unlabelled(codes))[:, 1:] if self._classes else codes[:, :0]
        return source, classes

    def _learn(self, rng: torch.Generator) -> None:
        """One step of the student, on labelled rows of the round."""
        known = self.labelled.rows
        count, device = len(known["codes"]), known["codes"].device
        drawn = torch.randint(count, (self.config.student_batch,), generator=rng, device=device)
        source, classes = self._student_says(known["codes"][drawn])
        loss = binary_cross_entropy_with_logits(source, known["yes"][drawn].float())
        if self._classes:
            entropy = cross_entropy(classes, known["classes"][drawn], reduction="none")
            loss = loss + (entropy * known["classed"][drawn]).mean()
        grads = torch.autograd.grad(loss, list(self.student.parameters()))
        for parameter, grad in zip(self.student.parameters(), grads, strict=True):
            parameter.grad = grad
        self._moves.step()

    def move(self, moves: torch.optim.Optimizer, rng: torch.Generator) -> None:
        """A step down log(1 − S(G(z))), and the class head's cross-entropy of G(z, c) at c."""
        generator = self.generator
        logits = generator.logits(generator.noise(self.config.student_batch, rng))
        codes = generator.heads(logits, self.config.temperature, rng)
        source, classes = self._student_says(codes)
        loss = -softplus(source).mean()
        if self._classes:
            own = codes[:, self.label].detach().argmax(1)
            loss = loss + cross_entropy(classes, own)
        if self.anchors is not None:
            loss = loss + self.anchors.loss(generator.heads(logits, 1.0, None))
        self._descend(loss, moves)
