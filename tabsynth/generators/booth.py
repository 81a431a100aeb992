"""PATE's voting booth: where clean votes become noisy answers, and from where nothing else comes out (R16)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tabsynth.errors import BudgetError
from tabsynth.privacy import noise
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.privacy.mechanisms import NoisyVote, NoPrivacy
from tabsynth.privacy.noise import Bits
from tabsynth.privacy.recording import exact
from tabsynth.privacy.votes import majority

VOTES, CLASS_VOTES = "votes", "class votes"


class Booth:
    """Reads private rows under the accounts of the votes, and answers from clean counts of votes."""

    def __init__(
        self, table: PrivateTable[Tensor], accounts: Sequence[Account], bits: Bits
    ) -> None:
        self._table, self._accounts, self._bits = table, accounts, bits

    def open(self, questions: int) -> Tensor:
        """The private rows, for so many questions of each account: written off first."""
        rows = [self._table.read(account, questions) for account in self._accounts]
        return rows[0]

    def left(self) -> int:
        """Questions that the accounts still cover."""
        return min(account.granted - account.spent for account in self._accounts)

    def noise(self, account: int = 0) -> float:
        """Of a count of votes, in votes: a standard deviation, or Laplace's scale."""
        mechanism = self._accounts[account].mechanism
        if isinstance(mechanism, NoisyVote):
            return mechanism.noise
        # Of a class histogram: its L2 sensitivity is √2 (a record moves a vote from one to another).
        return self._accounts[account].noise_multiplier * 2**0.5

    def binary(self, yes: Tensor, teachers: int) -> Tensor:
        """The noisy majority's answers, BoolTensor of shape (questions,), of clean counts."""
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
        """The class with the most votes, noise on each, LongTensor of shape (questions,).

        Parameters
        ----------
        votes : Tensor, shape (questions, classes)
        """
        std = self.noise(1)
        (counts,) = exact(self._accounts[1], [votes.cpu().numpy()], [std], uses=len(votes))
        # On a grid so fine that ties, which go to the first class, do not matter.
        noised = noise.noisy(counts, std, self._bits, fineness=20)
        return torch.from_numpy(noised.argmax(1)).to(votes.device)
