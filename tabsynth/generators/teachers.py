"""K discriminators as one network: weights stacked, all of them in one product and one optimiser's step."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, leaky_relu, softplus

from tabsynth.training.optimizers import optimizer

SLOPE = 0.2
ANSWERS = 2**24  # numbers of one layer at a time


class Teachers(nn.Module):
    """K multilayer perceptrons of the same shape, with leaky ReLUs, that know nothing of each other.

    Parameters
    ----------
    teachers : int
        K.
    widths : sequence of int
        Of the layers, input and outputs included.
    rng : torch.Generator
        Draws the first weights, of each teacher its own.
    """

    def __init__(self, teachers: int, widths: Sequence[int], rng: torch.Generator) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for inputs, outputs in pairwise(widths):
            bound = 1 / math.sqrt(inputs)
            for held, shape in ((self.weights, (inputs, outputs)), (self.biases, (1, outputs))):
                drawn = torch.empty(teachers, *shape).uniform_(-bound, bound, generator=rng)
                held.append(nn.Parameter(drawn))

    def forward(self, rows: Tensor) -> Tensor:
        """Outputs, shape (K, rows, outputs): of rows of its own for each teacher, or of the same for all.

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

    def losses(self, real: Tensor, held: Tensor, classes: Tensor | None, fake: Tensor) -> Tensor:
        """Each teacher's loss, shape (K,): cross-entropy of real against generated, and of classes.

        Parameters
        ----------
        real : Tensor, shape (K, batch, width)
            Rows of each teacher's own shard.
        held : Tensor, shape (K,)
            1, or 0 for a teacher whose shard is empty: it has no real rows.
        classes : LongTensor, shape (K, batch), optional
            Of the real rows, where there is a class head: outputs past the first.
        fake : Tensor, shape (rows, width)
        """
        batch = real.shape[1]
        # Both in one product: the weights are gone through once, and their slopes made once.
        both = self(torch.cat([real, fake.expand(len(real), -1, -1)], dim=1))
        says, of_fake = both[:, :batch], both[:, batch:, 0]
        found = held * softplus(-says[..., 0]).mean(1) + softplus(of_fake).mean(1)
        if classes is not None:
            entropy = cross_entropy(says[..., 1:].transpose(1, 2), classes, reduction="none")
            found = found + held * entropy.mean(1)
        return found

    @torch.no_grad()
    def outputs(self, rows: Tensor) -> list[Tensor]:
        """Outputs for the same rows for all, in parts of shape (K, some rows, outputs)."""
        widest = max(w.shape[2] for w in self.weights)
        some = max(1, ANSWERS // (len(self.weights[0]) * widest))
        return [self(part) for part in rows.split(some)]


class Classroom:
    """Teachers, their shards and their optimiser.

    Parameters
    ----------
    teachers : Teachers
    rows : Tensor, shape (n, width)
    classes : LongTensor, shape (n,), optional
    shard : LongTensor, shape (n,)
        The teacher of each row.
    lr, name : float, str
        Of the optimiser.

    Formal guarantees
    -----------------
    Each teacher's numbers are a function of its own shard, its own uniform numbers and generated rows, to the bit
    (R15). Proof: all shapes are public. A step draws the same uniform numbers, ``batch`` for each teacher,
    whatever the table holds, even where it is empty. Teacher k picks rows of its own shard by the
    numbers of place k; they fill place k of a tensor of shape (teachers, batch, width). From there on
    all products are of one matrix for each teacher, or of shapes in which teacher k has a fixed place; none adds up
    entries of two teachers. The sum of the losses has the slope 1 for each of them, and optimisers go entry
    by entry.
    """

    def __init__(
        self,
        teachers: Teachers,
        rows: Tensor,
        classes: Tensor | None,
        shard: Tensor,
        lr: float,
        name: str,
    ) -> None:
        count = len(teachers.weights[0])
        self.teachers, self.rows, self.classes = teachers, rows, classes
        self._order = torch.argsort(shard, stable=True).to(rows.device)
        self._sizes = torch.bincount(shard, minlength=count).to(rows.device)
        self._empty = torch.nonzero(self._sizes == 0).squeeze(1)
        self._starts = self._sizes.cumsum(0) - self._sizes
        self._optimizer = optimizer(name, teachers.parameters(), lr, (0.5, 0.9), fused=True)

    def picked(self, batch: int, rng: torch.Generator) -> Tensor:
        """Row numbers, shape (K, batch): of each teacher's own shard; any, where it is empty.

        As many uniform numbers are drawn for every table: what is drawn after them must not tell of its rows.
        """
        coins = torch.rand(len(self._sizes), batch, generator=rng, device=self.rows.device)
        place = (
            (coins * self._sizes[:, None]).long().clamp_max((self._sizes - 1).clamp_min(0)[:, None])
        )
        places = (self._starts[:, None] + place).clamp_max(max(len(self.rows) - 1, 0))
        return self._order[places] if len(self.rows) else torch.zeros_like(places)

    def step(self, batch: int, fake: Tensor, rng: torch.Generator) -> None:
        """One step of all teachers at once."""
        held = (self._sizes > 0).to(self.rows.dtype)
        picked = self.picked(batch, rng)
        if len(self.rows):
            real = self.rows[picked]
            real[self._empty] = 0
            classes = None if self.classes is None else self.classes[picked] * held[:, None].long()
        else:
            real = fake.new_zeros(len(held), batch, fake.shape[1])
            classes = None if self.classes is None else picked
        total = self.teachers.losses(real, held, classes, fake).sum()
        self._optimizer.zero_grad(set_to_none=True)
        total.backward()
        self._optimizer.step()
