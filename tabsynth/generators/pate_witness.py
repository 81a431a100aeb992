"""PATE-GAN by witness functions: what the teachers' majority says of two-way marginals, pair by pair.

Teachers are :class:`tabsynth.generators.witnesses.Witnesses`: with shards of ten records, as small
budgets need, a network has nothing to learn but their noise. The student knows how their votes come about,
:class:`tabsynth.generators.pate_student.Student`, and so finds the means that the votes are about. Its
score of a row is ⟨θ − c, ψ(x) − c⟩, with c the mean ψ of generated rows, and the most that it tells real
from generated is ‖θ − c‖: the generator lowers that distance, taken cell by cell over the two-way marginals
that θ stands for, as Pearson's χ².

NOTE[DIFF] Teachers and student of the paper are networks, and its generator lowers log(1 − student): those
are :mod:`tabsynth.generators.pate_networks`, preset ``paper``. At the budgets that matter they learn next
to nothing (reports/pate).
NOTE[DIFF] The generator starts from noisy one-way counts and is held to them, as our DP-WGAN.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tabsynth.columns import Column
from tabsynth.generators.anchors import Anchors
from tabsynth.generators.booth import Booth
from tabsynth.generators.pair_features import PairFeatures
from tabsynth.generators.pate import PATE, Panel
from tabsynth.generators.pate_config import PATEConfig
from tabsynth.generators.pate_student import Answers, Student
from tabsynth.generators.shards import Deal
from tabsynth.generators.table import TableGenerator
from tabsynth.generators.witnesses import Witnesses
from tabsynth.privacy.recording import recorder
from tabsynth.training.loop import Watch
from tabsynth.training.optimizers import one_cycle, optimizer

LEAST_SPREAD = 1e-6
DISTANCE = "student's distance of generated rows, by labels"


class PATEWitness(PATE):
    """Witness teachers, a student of means, a generator that matches them.

    Parameters
    ----------
    config, generator, rng, anchors, panel
        See :class:`tabsynth.generators.pate.PATE`; the anchors' marginals are needed.
    columns : sequence of Column
    """

    def __init__(
        self,
        config: PATEConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        anchors: Anchors | None,
        panel: Panel,
        columns: Sequence[Column],
    ) -> None:
        super().__init__(config, generator, rng, anchors, panel)
        assert anchors is not None and anchors.marginals is not None
        layout = generator.heads.layout
        self.features = PairFeatures(
            layout, columns, anchors.marginals, config.functions, config.features, panel.label
        )
        whole = torch.ones(len(self.features), dtype=torch.bool)
        self.heads = [whole]
        if panel.label is not None and panel.mode != "A":
            self.heads = [~self.features.with_label, self.features.with_label]
        self.student = Student(self.features, self.heads)
        self._held, self._rows_of_shard = 1.0, 1.0
        self._target: Anchors | None = None

    def to(self, device: torch.device) -> "PATEWitness":
        """All networks and targets, moved to ``device``."""
        self.features.to(device)
        self.heads = [head.to(device) for head in self.heads]
        self.student = Student(self.features, self.heads)
        super().to(device)
        return self

    def warm_up(
        self, table: Tensor, rows: float, rng: torch.Generator, watch: Watch, steps: int
    ) -> int:
        """Take the means of a table that costs nothing for the student's prior."""
        prior = torch.cat([self.features(part).double() for part in table.split(8192)]).mean(0)
        self.student.prior = prior.float()
        self.student.means = self.student.prior.clone()
        return 0

    def prepare(self, rows: float) -> None:
        """Set what share of the shards is expected to hold a record, and how many one that does."""
        each = max(1.0, rows) / self.panel.teachers
        self._held = -math.expm1(-each)  # their sizes are about Poisson's
        self._rows_of_shard = each / self._held

    def parts(self) -> dict[str, Any]:
        """The student."""
        return {"student": self.student}

    def optimizer(self, steps: int) -> tuple[torch.optim.Optimizer, Any]:
        """Adam, at a one-cycle rate a round, and new in each: see :meth:`begin`."""
        config = self.config
        moves = optimizer("adam", self.generator.parameters(), config.moment_lr, (0.9, 0.999))
        return moves, torch.optim.lr_scheduler.LambdaLR(
            moves, lambda i: one_cycle(i % steps / steps)
        )

    @torch.no_grad()
    def ask(self, booth: Booth, questions: int, dealt: Deal, rng: torch.Generator) -> None:
        """As :meth:`PATE.ask`."""
        codes, expected = self.questions(questions, rng)
        centre = self.features(expected).mean(0)
        asked = self.features(codes) - centre
        spread = asked.T @ asked / len(asked)
        rows, shard = dealt(booth.open(questions))
        teachers = Witnesses.of(rows, shard, self.panel.teachers, self.features)
        if (known := recorder()) is not None:
            known.teachers([teachers.means])
        heads = (0, 1) if self._joint else (0,)
        scale = self._scale(asked, spread, heads)
        # Each head says yes to a share of rows of which all heads together say yes to half.
        least = float(-torch.special.ndtri(torch.tensor(0.5 ** (1 / len(heads)))))
        yes = teachers.yes(asked, centre, [self.heads[h] for h in heads], scale, least)
        self.student.answers.append(
            Answers(
                codes=codes,
                yes=booth.binary(yes, self.panel.teachers),
                centre=centre,
                scale=scale,
                ratio=self._ratio(booth.noise()),
                heads=heads,
                least=least,
            )
        )
        if self.panel.label is not None and self.panel.mode == "B":
            self._ask_classes(booth, teachers, codes, centre, spread, rng)
        del rows, teachers, yes
        self.student.learn()
        self._target = None
        asked_so_far = sum(len(answers.yes) for answers in self.student.answers)
        self._curves.note(DISTANCE, asked_so_far, (self.student.means - centre).norm())

    @property
    def _joint(self) -> bool:
        return len(self.heads) > 1 and self.panel.mode == "C"

    def _ask_classes(
        self,
        booth: Booth,
        teachers: Witnesses,
        codes: Tensor,
        centre: Tensor,
        spread: Tensor,
        rng: torch.Generator,
    ) -> None:
        """Which class each row is most like: its answer is set against one other class, by chance."""
        label = self.label
        assert label is not None
        classes = torch.eye(label.stop - label.start, device=codes.device)

        def labelled(which: Tensor) -> Tensor:
            changed = codes.clone()
            changed[:, label] = which
            return changed

        votes = teachers.votes([labelled(c) for c in classes], self.features, centre, self.heads[1])
        best = booth.classes(votes)
        draw = torch.randint(1, len(classes), best.shape, generator=rng, device=best.device)
        other = (best + draw) % len(classes)
        answers = Answers(
            codes=labelled(classes[best]),
            against=labelled(classes[other]),
            yes=torch.ones_like(best, dtype=torch.bool),
            centre=centre,
            scale=torch.ones(len(best), 1, device=codes.device),
            # n_y − n_r = K(2Φ(z) − 1), and the noise on it has variance 2σ².
            ratio=self._ratio(booth.noise(1) / 2**0.5),
            heads=(1,),
        )
        scale = self._scale(self.student.design(answers), spread, (1,))
        self.student.answers.append(Answers(**{**vars(answers), "scale": scale}))

    def _scale(self, asked: Tensor, spread: Tensor, heads: Sequence[int]) -> Tensor:
        """One over the standard deviation of a teacher's score of each row, shape (rows, heads)."""
        found = []
        for h in heads:
            part = asked * self.heads[h]
            variance = ((part @ spread) * part).sum(1).clamp_min(LEAST_SPREAD)
            found.append((self._rows_of_shard / variance).sqrt())
        return torch.stack(found, dim=1)

    def _ratio(self, noise: float) -> float:
        """Teachers with records, over the noise; what all say is chance too, of variance K/4 at most."""
        teachers = self.panel.teachers
        return self._held * teachers / math.sqrt(noise**2 + teachers / 4)

    def begin(self, moves: torch.optim.Optimizer) -> None:
        """Forget the last round's steps: near its target slopes were small, and Adam, which divides by
        them, would throw the generator far off as its rate grows again."""
        moves.state.clear()

    def move(self, moves: torch.optim.Optimizer, rng: torch.Generator) -> None:
        """A step towards the student's two-way marginals."""
        if self._target is None:
            self._aim()
        self.moment_step(rng, moves)

    def _aim(self) -> None:
        assert self.anchors is not None
        self.anchors.moments = self.features.second_moments(self.student.means)
        self._target = self.anchors
