"""What holds a generator to statistics that are already released: free of charge."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth.encoding.layout import Layout
from tabsynth.generators.generator_config import GeneratorConfig


def mean_code(layout: Layout, marginals: Sequence[np.ndarray]) -> Tensor:
    """The mean row of codes under one-way distributions, shape (layout.width,)."""
    means = [p @ b.codebook for p, b in zip(marginals, layout.blocks, strict=True)]
    return torch.as_tensor(np.concatenate(means), dtype=torch.float32)


def second_moments(layout: Layout, codes: Tensor) -> Tensor:
    """Mean outer product of rows of codes between different columns, shape (width, width).

    For one-hot codes: all two-way marginals. Blocks of a column with itself are zero.
    """
    return codes.T @ codes / len(codes) * between(layout).to(codes)


def between(layout: Layout) -> Tensor:
    """1 where two codes are of different columns, else 0, shape (width, width)."""
    widths = torch.tensor([block.stop - block.start for block in layout.blocks])
    column = torch.repeat_interleave(torch.arange(len(widths)), widths)
    return (column[:, None] != column).float()


# Squared deviations are divided by what is expected of a cell, as in Pearson's χ², plus this: between
# absolute errors, which leave the many small cells alone, and relative ones, which see little else.
FLOOR = 1e-3


class _PairDistance(torch.autograd.Function):
    """Σ (AᵀA/h − m)(BᵀB/h − m) w / 2 of the two halves A and B, of h rows each, of some rows of codes.

    Its gradient in closed form: autograd would take twice as many matrix products.
    """

    @staticmethod
    def forward(ctx: Any, codes: Tensor, moments: Tensor, weight: Tensor) -> Tensor:
        """The distance, a scalar; ``moments`` and ``weight`` are symmetric, shape (width, width)."""
        half = len(codes) // 2
        halves = codes[:half], codes[half : 2 * half]
        off = [(rows.T @ rows / half).sub_(moments) for rows in halves]
        gradient = torch.zeros_like(codes)
        for i, rows in enumerate(halves):
            torch.mm(rows, off[1 - i] * weight / half, out=gradient[i * half : (i + 1) * half])
        ctx.save_for_backward(gradient)
        return (off[0] * off[1] * weight).sum() / 2

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None, None]:
        """In the codes."""
        (gradient,) = ctx.saved_tensors
        return outer[0] * gradient, None, None


class Anchors:
    """Squared distances of generated rows to a mean code, and χ² distances to second moments.

    Parameters
    ----------
    layout : Layout
    mean : Tensor, shape (width,), optional
    moments : Tensor, shape (width, width), optional
        Of :func:`second_moments`.
    weight, pair_weight : float
    marginals : sequence of ndarray, optional
        The one-way distributions that the mean code is of.
    """

    def __init__(
        self,
        layout: Layout,
        mean: Tensor | None,
        moments: Tensor | None,
        weight: float,
        pair_weight: float,
        marginals: Sequence[np.ndarray] | None = None,
    ) -> None:
        self.marginals = marginals
        self.layout, self.weight, self.pair_weight = layout, weight, pair_weight
        self.mean = mean if weight else None
        self.moments = moments if pair_weight else None
        self._between = between(layout)

    @classmethod
    def of(
        cls,
        layout: Layout,
        marginals: Sequence[np.ndarray] | None,
        released: Tensor | None,
        config: GeneratorConfig,
    ) -> "Anchors":
        """Anchors to one-way distributions and to the pairs of a released table's codes."""
        mean = None if marginals is None else mean_code(layout, marginals)
        moments = None
        if released is not None and config.pair_anchor:
            moments = second_moments(layout, released)
        return cls(layout, mean, moments, config.anchor, config.pair_anchor, marginals)

    def to(self, device: torch.device) -> "Anchors":
        """Both targets, moved to ``device``."""
        if self.mean is not None:
            self.mean = self.mean.to(device)
        if self.moments is not None:
            self.moments = self.moments.to(device)
        self._between = self._between.to(device)
        return self

    def loss(self, expected: Tensor) -> Tensor:
        """The weighted sum, a scalar.

        Parameters
        ----------
        expected : Tensor, shape (batch, width)
            Expected codes given z: what is sampled in the end, where the Gumbel-softmax of training is
            softer, and without the noise of the draw. Columns are drawn independently given z, so
            that second moments between columns are those of the expectations.
        """
        total = expected.new_zeros(())
        if self.mean is not None:
            total = total + self.weight * (expected.mean(0) - self.mean).square().sum()
        if self.moments is not None:
            # A product of the deviations of two independent halves: unbiased for the squared
            # distance, where the square of one deviation would add the variance of the batch.
            weight = self._between / (self.moments + FLOOR)
            distance = _PairDistance.apply(expected, self.moments, weight)
            total = total + self.pair_weight * distance
        return total
