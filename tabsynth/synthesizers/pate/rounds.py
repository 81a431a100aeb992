"""PATE for GANs: teachers on disjoint shards answer questions about generated rows, by noisy majority.

After Jordon, Yoon, van der Schaar 2019, "PATE-GAN" (ICLR), and Papernot et al. 2017. A round: generated
rows become questions, each teacher votes by its own shard alone, a student learns from the noisy
answers, and the generator is trained against the student. Teachers, student and the generator's loss are those of
:mod:`tabsynth.synthesizers.pate.pairs` or :mod:`tabsynth.synthesizers.pate.teachers`.

NOTE[DIFF] The number of labels and their noise are fixed before the first is asked; the
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
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth.errors import BudgetError
from tabsynth.methods import CLASS_VOTES, VOTES
from tabsynth.privacy.accounting.mechanisms import NoisyVote, NoPrivacy
from tabsynth.privacy.ledger.ledger import Account, PrivateTable, exact
from tabsynth.privacy.noise import samplers as noise
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.privacy.noise.votes import majority
from tabsynth.synthesizers.adversarial.generator import (
    ConditionalGenerator,
    GeneratorTraining,
    TableGenerator,
    TrainingContext,
)
from tabsynth.synthesizers.pate.config import PATEConfig
from tabsynth.training.loop import run_steps
from tabsynth.training.networks import State
from tabsynth.training.private_step import (
    CHUNK_ROWS,
    PrivateInputs,
    codes_of,
    parts_of,
    reorder,
)
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
    """

    teachers: int
    label: int | None = None
    shares: np.ndarray | None = None


# Of rows: their order, and the teacher of each.
Deal = Callable[[PrivateInputs | UnitRows], tuple[PrivateInputs, Tensor]]


def deal(
    rows: PrivateInputs | UnitRows, teachers: int, key: np.ndarray
) -> tuple[PrivateInputs, Tensor]:
    """Return records in an order independent of their places, and the teacher of each, shape (rows,).

    Parameters
    ----------
    rows : Tensor, shape (n, width), or CodedInputs, or WeightedInputs, or UnitRows
    key : uint32 array, at most 16 words
        Drawn once, independent of all records.

    Formal guarantees
    -----------------
    A record's teacher follows from a keyed hash (BLAKE2b) of its content and of its number among equal records, its
    weight being a part of its content; records are ordered by a hash of what they hold. Neither depends on its place
    in the table, nor on any record that is not its equal. So whatever the key, and whoever knows it, a record more or
    less, anywhere, is one record more or less in one shard, and leaves all others as they were, in order too.

    A unit takes the place of a record, and what it holds are all of its rows: they have one teacher. It is the same
    after a crash, whatever the keyed hash of the unit's name is then, as long as the same rows of the unit are used.
    """
    secret = np.asarray(key, dtype="<u4").tobytes()
    inputs = rows.inputs if isinstance(rows, UnitRows) else rows
    codes, parts = codes_of(inputs), parts_of(inputs)
    content = (row for part in codes.split(CHUNK_ROWS) for row in part.cpu().numpy())
    weights = (
        repeat(b"", len(codes)) if parts is None else (p.tobytes() for p in parts.cpu().numpy())
    )
    digests = [
        blake2b(row.tobytes() + weight, key=secret, digest_size=16).digest()
        for row, weight in zip(content, weights, strict=True)
    ]
    owner, owners = np.arange(len(digests)), digests
    if isinstance(rows, UnitRows):
        owner, owners = _units(digests, rows.units, secret)
    ranked = sorted(range(len(owners)), key=owners.__getitem__)
    seen: Counter[bytes] = Counter()
    shard, rank = (np.empty(len(owners), dtype=np.int64) for _ in range(2))
    for place, i in enumerate(ranked):
        assigned = blake2b(
            owners[i] + seen[owners[i]].to_bytes(8, "little"), key=secret, digest_size=8
        )
        shard[i], rank[i] = int.from_bytes(assigned.digest(), "little") % teachers, place
        seen[owners[i]] += 1
    order = sorted(range(len(digests)), key=lambda row: (rank[owner[row]], digests[row]))
    return reorder(inputs, order), torch.from_numpy(shard[owner[order]])


def _units(
    digests: Sequence[bytes], units: np.ndarray, secret: bytes
) -> tuple[np.ndarray, list[bytes]]:
    """Return the number of each row's unit, and a keyed hash of what the rows of each unit hold, in any order."""
    names, owner = np.unique(units, return_inverse=True)
    contents: list[list[bytes]] = [[] for _ in names]
    for digest, unit in zip(digests, owner, strict=True):
        contents[unit].append(digest)
    return owner, [
        blake2b(b"".join(sorted(part)), key=secret, digest_size=16).digest() for part in contents
    ]


class NoisyAggregator:
    """An aggregator that reads private rows under the accounts of the votes, and adds noise to exact counts of votes."""

    def __init__(self, table: PrivateTable[Any], accounts: Sequence[Account], bits: Bits) -> None:
        self._table, self._accounts, self._bits = table, accounts, bits

    def open(self, questions: int) -> PrivateInputs | UnitRows:
        """Charge each account for so many questions, then return the private rows."""
        rows: list[PrivateInputs | UnitRows] = [
            self._table.read(account, questions) for account in self._accounts
        ]
        return rows[0]

    def remaining(self) -> int:
        """Return the number of questions that the accounts still cover."""
        return min(account.granted - account.spent for account in self._accounts)

    def noise(self, account: int = 0) -> float:
        """Return the noise of a count, in votes: a standard deviation, or the scale of Laplace noise."""
        mechanism = self._accounts[account].mechanism
        if isinstance(mechanism, NoisyVote):
            return mechanism.noise
        # Of a class histogram: its L2 sensitivity is √2 (a record moves a vote from one to another).
        return self._accounts[account].noise_multiplier * 2**0.5

    def binary(self, yes: Tensor, teachers: int) -> Tensor:
        """Return the noisy majority's answers, BoolTensor of shape (questions,), of clean counts."""
        account, mechanism = self._accounts[0], self._accounts[0].mechanism
        (counts,) = exact(account, [yes.cpu().numpy()], [self.noise()], uses=len(yes))
        if isinstance(mechanism, NoisyVote):
            answers = majority(counts, mechanism, self._bits)
        elif isinstance(mechanism, NoPrivacy):
            answers = counts > teachers / 2
        else:
            raise BudgetError(f"{account.purpose}: pays for noised sums, not for votes.")
        return torch.from_numpy(answers).to(yes.device)

    def classes(self, votes: Tensor) -> Tensor:
        """Return the class with the most votes, noise on each, LongTensor of shape (questions,).

        Parameters
        ----------
        votes : Tensor, shape (questions, classes)
        """
        std = self.noise(1)
        (counts,) = exact(self._accounts[1], [votes.cpu().numpy()], [std], uses=len(votes))
        # On a grid so fine that ties, which go to the first class, do not matter.
        noised = noise.noisy(counts, std, self._bits, fineness=20)
        return torch.from_numpy(noised.argmax(1)).to(votes.device)


def label_codes(generator: TableGenerator, ensemble: EnsembleSettings) -> slice | None:
    """Return the codes of the label's column, in PATE-ACGAN."""
    if ensemble.label is None:
        return None
    block = generator.heads.layout.blocks[ensemble.label]
    return slice(block.start, block.stop)


def take_shares(training: GeneratorTraining, ensemble: EnsembleSettings) -> None:
    """Train a conditional generator on classes as often as the table has them, where counts say how often.

    Else what is learned of the label together with other columns could be met by bending the rows of a class alone.
    """
    if ensemble.label is None:
        return
    shares, penalty = ensemble.shares, training.moment_penalty
    if penalty is not None and penalty.marginals is not None:
        shares = penalty.marginals[ensemble.label]
    assert shares is not None and isinstance(training.generator, ConditionalGenerator)
    training.generator.shares.copy_(torch.as_tensor(shares))
    release_shares(training, ensemble)


def release_shares(training: GeneratorTraining, ensemble: EnsembleSettings) -> None:
    """Let rows be drawn with the declared shares of the classes, where there are any."""
    trained, released = training.generator, training.average.module
    if isinstance(trained, ConditionalGenerator) and isinstance(released, ConditionalGenerator):
        declared = ensemble.shares
        released.shares.copy_(trained.shares if declared is None else torch.as_tensor(declared))


def run_rounds(
    context: TrainingContext,
    config: PATEConfig,
    ensemble: EnsembleSettings,
    ask: Callable[[NoisyAggregator, int, Deal], None],
    move: Callable[[int], None],
    state: State,
) -> int:
    """Ask the questions of each round, and move the generator; return the number of generator steps.

    Parameters
    ----------
    ask : callable
        ``ask(aggregator, questions, dealt)``: one round of questions, teachers, noisy answers, and the student that learns
        from them. ``dealt`` takes the rows to their order and the teacher of each: the same in all rounds.
    move : callable
        ``move(step)``: one step of the generator, by its number in the round; it reads the student and no row.
    state : State
    """
    monitor, bits = context.monitor, context.streams.noise
    accounts = [context.accounts[name] for name in (VOTES, CLASS_VOTES) if name in context.accounts]
    key = np.frombuffer(bits.bytes(64), dtype="<u4")
    aggregator = NoisyAggregator(context.table, accounts, bits)
    if monitor.trial_steps is None:  # of a trial, rows are made up
        _warn_of_idle_teachers(context.rows, ensemble.teachers)
    # Kept, so that a fit that is resumed after a crash has the same shards (R15: assignment is permanent).
    # Keeping it reveals nothing: the guarantee holds for every key.
    key = monitor.once(PARTITION, lambda: {"key": key})["key"]

    @lru_cache(maxsize=1)  # the rows are the same in all rounds
    def dealt(rows: PrivateInputs | UnitRows) -> tuple[PrivateInputs, Tensor]:
        return deal(rows, ensemble.teachers, key)

    def one(i: int) -> None:
        # After a crash, labels that were paid for and lost are not asked for again.
        turn, step = divmod(i, config.round_steps)
        if step == 0:
            questions = -(-aggregator.remaining() // (config.rounds - turn))
            if questions > 0:
                ask(aggregator, questions, dealt)
        move(step)

    steps = monitor.limit_steps(config.rounds * config.round_steps)
    return run_steps(VOTES, steps, one, monitor, state=state)


def _warn_of_idle_teachers(rows: float, teachers: int) -> None:
    if 0 < rows < teachers:  # 0: they were not asked for
        logger.warning(
            "%s teachers are more than there are rows, declared or by a noisy count: many have no record, and nothing"
            " to say; choose fewer teachers",
            f"{teachers:,}",
        )


@torch.no_grad()
def draw_questions(
    generator: TableGenerator, count: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw generated rows to ask about.

    Returns
    -------
    tuple of Tensor, shape (count, width)
        Codes of rows of the table; and expected codes given z, of the same draws.
    """
    layout = generator.heads.layout
    rows, expected = [], []
    for _ in range(-(-count // QUESTION_ROWS)):
        logits = generator.logits(generator.noise(QUESTION_ROWS, rng))
        codes = generator.heads(logits, QUESTION_TEMPERATURE, rng)
        index = layout.decode(codes.cpu().numpy())
        rows.append(torch.from_numpy(layout.encode(index)).to(codes.device))
        expected.append(generator.heads(logits, 1.0, None))
    return torch.cat(rows)[:count], torch.cat(expected)
