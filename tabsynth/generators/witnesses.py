"""K teachers as one matrix: each knows the mean ψ of its shard, and says whether a row is more like it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tabsynth.generators.pair_features import PairFeatures

CHUNK = 2048  # rows at a time
# Features are rounded to multiples of 1 / SCALE before they are added up; those beyond LIMIT are cut to it.
SCALE, LIMIT = 2.0**20, 2.0**23
ANSWERS = 2**24  # votes of all teachers at a time


class Witnesses:
    """Discriminators of mean differences: wᵢ = mean ψ of shard i; a row x scores ⟨wᵢ − c, ψ(x) − c⟩.

    c is the mean ψ of generated rows. That is the witness function of the distance between the means
    (Gretton et al. 2012), and what one step of gradient descent on the cross-entropy makes of a linear
    discriminator that starts from 0: with a score or so of rows, a second step only fits their noise.

    Parameters
    ----------
    means : Tensor, shape (K, features)
    empty : BoolTensor, shape (K,)
        Teachers without a record: they say yes to every other row, and prefer the choices by turns, so
        that their votes are for nothing.

    Formal guarantees
    -----------------
    A record changes the numbers of its own teacher alone; those of all others stay as they are, to the bit
    (R15). Proof: ψ of a record is a function of that record (:meth:`PairFeatures.of_rows`). It is rounded to a
    whole number of steps, by itself, and a teacher's sum is one of 64-bit integers: exact, or modulo 2**64, and
    so the same in every order and whatever rows of other teachers lie between. A mean is one division of that sum
    by the number of the teacher's own records. Scores are products of matrices whose shapes are public (the
    numbers of teachers, features and questions): teacher k has row k, whose entries are sums over its own
    mean, in an order that the shapes fix.
    """

    def __init__(self, means: Tensor, empty: Tensor) -> None:
        self.means, self.empty = means, empty

    @classmethod
    def of(cls, rows: Tensor, shard: Tensor, teachers: int, features: PairFeatures) -> "Witnesses":
        """The teachers of rows of codes, shape (n, width), each in its shard."""
        sums = torch.zeros(teachers, len(features), dtype=torch.int64)
        counts = torch.bincount(shard, minlength=teachers)
        for part, where in zip(rows.split(CHUNK), shard.split(CHUNK), strict=True):
            sums.index_add_(0, where, _steps(features.of_rows(part)).cpu())
        means = (sums.double() / SCALE / counts.clamp_min(1)[:, None]).float()
        return cls(means.to(rows.device), (counts == 0).to(rows.device))

    def yes(
        self, asked: Tensor, centre: Tensor, heads: Sequence[Tensor], scale: Tensor, least: float
    ) -> Tensor:
        """How many teachers say yes to each row: all heads' scaled scores are above ``least``.

        Parameters
        ----------
        asked : Tensor, shape (rows, features)
            ψ of each row, c taken off.
        centre : Tensor, shape (features,)
        heads : sequence of BoolTensor, shape (features,)
            Which features each head goes by.
        scale : Tensor, shape (rows, heads)

        Returns
        -------
        LongTensor, shape (rows,)
        """
        weights = self.means - centre
        found = []
        for part, size in zip(self._parts(asked), self._parts(scale), strict=True):
            says = torch.ones(len(weights), len(part), dtype=torch.bool, device=part.device)
            for h, head in enumerate(heads):
                scores = weights[:, head] @ part[:, head].T
                says &= scores * size[:, h] > least
            found.append(torch.where(self.empty[:, None], self._turns(says, 2) == 1, says).sum(0))
        return torch.cat(found)

    def votes(
        self, choices: Sequence[Tensor], features: PairFeatures, centre: Tensor, head: Tensor
    ) -> Tensor:
        """How many teachers score each of a few rows highest, shape (rows, choices).

        Parameters
        ----------
        choices : sequence of Tensor, shape (rows, width)
            Codes, a choice each.
        """
        weights = (self.means - centre)[:, head]
        at_once = max(1, ANSWERS // (len(choices) * max(len(weights), len(features))))
        found = []
        for parts in zip(*(choice.split(at_once) for choice in choices), strict=True):
            scores = torch.stack([weights @ features(part)[:, head].T for part in parts])
            best = scores.argmax(0)
            best = torch.where(self.empty[:, None], self._turns(best, len(parts)), best)
            found.append(torch.stack([(best == c).sum(0) for c in range(len(parts))], dim=1))
        return torch.cat(found)

    @staticmethod
    def _turns(votes: Tensor, choices: int) -> Tensor:
        """Votes of whoever knows nothing, shape (K, rows): each choice as often as any other."""
        teachers, rows = (torch.arange(size, device=votes.device) for size in votes.shape)
        return (teachers[:, None] + rows) % choices

    def _parts(self, rows: Tensor) -> Sequence[Tensor]:
        return rows.split(max(1, ANSWERS // len(self.means)))


def _steps(values: Tensor) -> Tensor:
    """Numbers as whole numbers of steps of 1 / ``SCALE``, int64."""
    return values.double().clamp_(-LIMIT, LIMIT).mul_(SCALE).round_().long()
