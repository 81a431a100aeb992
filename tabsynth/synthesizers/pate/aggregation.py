"""Noisy aggregation: records are assigned to teachers independently and permanently, and clean votes become noisy answers."""

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth.errors import BudgetError
from tabsynth.privacy.accounting.mechanisms import NoisyVote, NoPrivacy
from tabsynth.privacy.ledger.ledger import Account, PrivateTable, exact
from tabsynth.privacy.noise import samplers as noise
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.privacy.noise.votes import majority
from tabsynth.training.private_step import (
    CHUNK_ROWS,
    PrivateInputs,
    codes_of,
    parts_of,
    reordered,
)
from tabsynth.training.units import UnitRows

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
    return reordered(inputs, order), torch.from_numpy(shard[owner[order]])


def _units(
    digests: Sequence[bytes], units: np.ndarray, secret: bytes
) -> tuple[np.ndarray, list[bytes]]:
    """Return the number of each row's unit, and a keyed hash of what the rows of each unit hold, in any order."""
    names, owner = np.unique(units, return_inverse=True)
    held: list[list[bytes]] = [[] for _ in names]
    for digest, unit in zip(digests, owner, strict=True):
        held[unit].append(digest)
    return owner, [
        blake2b(b"".join(sorted(part)), key=secret, digest_size=16).digest() for part in held
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
