"""The loss of one real row in a Wasserstein critic's step."""

import torch
from torch import Tensor, nn

from tabsynth.privacy.recording import recorder
from tabsynth.training.losses import critic_scores, gradient_penalty, minus_scores


def pair_draws(rows: int, rng: torch.Generator) -> Tensor:
    """Uniform numbers, shape (rows, 2): which partner each row gets, and ρ."""
    known = recorder()
    drawn = None if known is None else known.uniform(rows, 2, rng)
    return torch.rand(rows, 2, generator=rng, device=rng.device) if drawn is None else drawn


class RowLosses:
    """−D(x) + λ(‖∇D(x̂)‖ − 1)², and + D(x̃) where ``paired``; x̂ = ρx + (1 − ρ)x̃.

    Each row x draws its own partner x̃ from a pool and its own ρ ~ U[0, 1], so that its loss is a
    function of that row, public things and coins of its own.

    Before each step it is set :meth:`against` a pool of generated rows. The object and its tensors stay
    the same from step to step, so that a step can be recorded.

    Parameters
    ----------
    rng : torch.Generator
        For partners and ρ: the private stream for private rows.
    penalty : float
        λ; 0 for none.
    paired : bool
    """

    def __init__(self, rng: torch.Generator, *, penalty: float, paired: bool) -> None:
        self.rng, self.penalty, self.paired = rng, penalty, paired
        self.pool: Tensor | None = None
        self._drawn: tuple[tuple[int, int], Tensor, Tensor] | None = None

    def against(self, pool: Tensor) -> "RowLosses":
        """Take partners from these rows, and draw anew.

        Parameters
        ----------
        pool : Tensor, shape (m, width)
            Generated rows; m is public. Drawn once for all rows: the public stream does not learn how
            many private rows there are (R1).
        """
        if self.pool is None:
            self.pool = pool.clone()
        else:
            self.pool.copy_(pool)
        self._drawn = None
        return self

    def __call__(self, critic: nn.Module, rows: Tensor) -> Tensor:
        """One loss a row, shape (batch,)."""
        losses = minus_scores(critic, rows)
        if not (self.paired or self.penalty):
            return losses
        partners, share = self._draws(rows)
        if self.paired:
            losses = losses + critic_scores(critic, partners)
        if self.penalty:
            points = share * rows + (1 - share) * partners
            losses = losses + gradient_penalty(critic, points, self.penalty)
        return losses

    def _draws(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Partners and ρ; the same again for the same rows, as step rules with two passes need."""
        assert self.pool is not None
        key = (rows.data_ptr(), len(rows))
        if self._drawn is None or self._drawn[0] != key:
            coins = pair_draws(len(rows), self.rng)
            picked = (coins[:, 0] * len(self.pool)).long()
            self._drawn = key, self.pool[picked], coins[:, 1:]
        return self._drawn[1], self._drawn[2]
