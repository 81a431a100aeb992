"""PATE for GANs: teachers on disjoint shards answer questions about generated rows, by noisy majority.

After Jordon, Yoon, van der Schaar 2019, "PATE-GAN" (ICLR), and Papernot et al. 2017. A round: generated
rows become questions, each teacher votes by its own shard alone, a student learns from the noisy
answers, and the generator is trained against the student. Subclasses define teachers, student and the
generator's loss.

NOTE[DIFF] The number of labels is fixed before the first is asked, and the noise follows from it; the
paper continues until a data-dependent ε is used up, which is itself a private figure.
NOTE[DIFF] Each record is assigned to a teacher independently and permanently, and so is each unit of several records. The
paper splits the table into equal parts, where one record more changes them all.

Formal guarantees
-----------------
Private rows are read under the accounts of the votes alone. All uses of a round are charged first,
then the rows are read, for its teachers and its clean votes, and only their noisy majority is released:
see :class:`tabsynth.privacy.accounting.mechanisms.NoisyVote`. Teachers and clean votes are local to the fit: they
are in no curve, no checkpoint, no model. A fit that is resumed after a crash trains its teachers again,
on the same shards.
"""

import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth._random import keystream
from tabsynth.privacy.ledger.ledger import Account, PrivateTable
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.synthesizers.gan.generator import (
    ConditionalGenerator,
    GeneratorTraining,
    MomentPenalty,
    TableGenerator,
)
from tabsynth.synthesizers.pate.aggregation import VOTES, Deal, NoisyAggregator, deal
from tabsynth.synthesizers.pate.config import PATEConfig
from tabsynth.training.loop import TrainingMonitor, run_steps
from tabsynth.training.networks import State
from tabsynth.training.private_step import PrivateInputs
from tabsynth.training.units import UnitRows

logger = logging.getLogger(__name__)

PARTITION = "partition"
QUESTION_TEMPERATURE = 0.05  # of rows to be asked about: then rounded to rows of the table
QUESTION_ROWS = 1000  # generated at a time: BatchNorm in G sees as many


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings:
    """The teacher ensemble and its label column; all of it is public.

    Attributes
    ----------
    teachers : int
        K.
    label : int, optional
        The label's column, in PATE-ACGAN.
    shares : ndarray, shape (classes,), optional
        Of its classes, where they are public: else those of the noisy counts.
    mode : {"A", "B", "C"}
        In PATE-ACGAN; see :class:`tabsynth.PATEACGAN`.
    """

    teachers: int
    label: int | None = None
    shares: np.ndarray | None = None
    mode: str = "A"


class PATE(GeneratorTraining):
    """Rounds of questions, and generator steps between them.

    Parameters
    ----------
    config : PATEConfig
    generator : TableGenerator
    rng : torch.Generator
        For the first weights of teachers and student.
    moment_penalty : MomentPenalty, optional
    ensemble : EnsembleSettings
    """

    config: PATEConfig

    def __init__(
        self,
        config: PATEConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        moment_penalty: MomentPenalty | None,
        ensemble: EnsembleSettings,
    ) -> None:
        super().__init__(config, generator, rng, moment_penalty)
        self.ensemble = ensemble
        self.label: slice | None = None  # its codes
        if ensemble.label is not None:
            block = generator.heads.layout.blocks[ensemble.label]
            self.label = slice(block.start, block.stop)
            shares = ensemble.shares
            # Trained on classes as often as the table has them: else what is learned of the label
            # together with other columns could be met by bending the rows of a class alone.
            if moment_penalty is not None and moment_penalty.marginals is not None:
                shares = moment_penalty.marginals[ensemble.label]
            assert shares is not None and isinstance(generator, ConditionalGenerator)
            generator.shares.copy_(torch.as_tensor(shares))
            self._release_shares()

    # What subclasses provide.

    @abstractmethod
    def ask(
        self, aggregator: NoisyAggregator, questions: int, dealt: Deal, rng: torch.Generator
    ) -> None:
        """One round: questions, teachers, noisy answers, and the student that learns from them.

        Parameters
        ----------
        aggregator : NoisyAggregator
        questions : int
        dealt : callable
            From the rows to their order and the teacher of each: the same in all rounds.
        rng : torch.Generator
            For all that is public.
        """

    def begin(self, moves: torch.optim.Optimizer) -> None:
        """After the questions of a round, before the generator's first step of it."""

    @abstractmethod
    def move(self, moves: torch.optim.Optimizer, rng: torch.Generator) -> None:
        """One step of the generator; reads the student and no row."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps besides the generator: the student, and what it was answered."""

    def warm_up(
        self, table: Tensor, rows: float, rng: torch.Generator, monitor: TrainingMonitor, steps: int
    ) -> int:
        """Nothing: of a table that costs nothing, the generator has its marginals already."""
        return 0

    def prepare(self, rows: float) -> None:
        """Before the first round: ``rows`` is a public or privatised estimate of n."""

    def optimizer(self, steps: int) -> tuple[torch.optim.Optimizer, Any]:
        """The generator's, and its rate over ``steps`` steps of a round."""
        moves = self._generator_optimizer()
        return moves, torch.optim.lr_scheduler.LambdaLR(moves, lambda _: 1.0)

    # The training.

    def fit(
        self,
        table: PrivateTable[Any],
        accounts: Sequence[Account],
        rows: float,
        *,
        total: float | None = None,
        most_rows: int = 1,
        private_rng: torch.Generator,
        public_rng: torch.Generator,
        monitor: TrainingMonitor,
        standins: Tensor | None = None,
        most: int | None = None,
        bits: Bits | None = None,
    ) -> int:
        """As :meth:`GeneratorTraining.fit`; returns the generator steps.

        Accounts are those of the votes and, in mode B, of the class votes.
        """
        config = self.config
        bits = keystream(private_rng) if bits is None else bits
        key = np.frombuffer(bits.bytes(64), dtype="<u4")
        aggregator = NoisyAggregator(table, accounts, bits)
        self.prepare(rows)
        if most is None:  # of a trial, rows are made up
            self._warn_of_idle_teachers(rows)
        # Kept, so that a fit that is resumed after a crash has the same shards (R15: assignment is permanent).
        # Keeping it reveals nothing: the guarantee holds for every key.
        key = monitor.once(PARTITION, lambda: {"key": key})["key"]
        teachers = self.ensemble.teachers
        moves, rate = self.optimizer(config.round_steps)

        @lru_cache(maxsize=1)  # the rows are the same in all rounds
        def dealt(rows: PrivateInputs | UnitRows) -> tuple[PrivateInputs, Tensor]:
            return deal(rows, teachers, key)

        def one(i: int) -> None:
            # After a crash, labels that were paid for and lost are not asked for again.
            turn, step = divmod(i, config.round_steps)
            if step == 0:
                questions = -(-aggregator.left() // (config.rounds - turn))
                if questions > 0:
                    self.ask(aggregator, questions, dealt, public_rng)
                self.begin(moves)
            self.move(moves, public_rng)
            rate.step()

        self.generator.train()
        state = State(
            generator=self.generator,
            average=self.average,
            optimizer=moves,
            rate=rate,
            curves=self._curves,
            **self.parts(),
        )
        steps = config.rounds * config.round_steps
        done = run_steps(VOTES, min(steps, most or steps), one, monitor, state=state)
        self._release_shares()
        return done

    def _warn_of_idle_teachers(self, rows: float) -> None:
        if 0 < rows < self.ensemble.teachers:  # 0: they were not asked for
            logger.warning(
                "%s teachers are more than there are rows, declared or by a noisy count: many have no record, and nothing"
                " to say; choose fewer teachers",
                f"{self.ensemble.teachers:,}",
            )

    def _release_shares(self) -> None:
        """Rows are drawn with the declared shares of the classes, where there are any."""
        trained, released, declared = self.generator, self.average.module, self.ensemble.shares
        if isinstance(trained, ConditionalGenerator) and isinstance(released, ConditionalGenerator):
            released.shares.copy_(trained.shares if declared is None else torch.as_tensor(declared))

    @torch.no_grad()
    def questions(self, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Generated rows to ask about.

        Returns
        -------
        tuple of Tensor, shape (count, width)
            Codes of rows of the table; and expected codes given z, of the same draws.
        """
        generator, layout = self.generator, self.generator.heads.layout
        rows, expected = [], []
        for _ in range(-(-count // QUESTION_ROWS)):
            logits = generator.logits(generator.noise(QUESTION_ROWS, rng))
            codes = generator.heads(logits, QUESTION_TEMPERATURE, rng)
            index = layout.decode(codes.cpu().numpy())
            rows.append(torch.from_numpy(layout.encode(index)).to(codes.device))
            expected.append(generator.heads(logits, 1.0, None))
        return torch.cat(rows)[:count], torch.cat(expected)
