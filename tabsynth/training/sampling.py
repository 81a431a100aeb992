"""Poisson sampling: the batches that the accountant is told of (R5)."""

import torch


def poisson_sample(
    n: int, rate: float, generator: torch.Generator, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Row numbers of one Poisson batch: each of ``n`` rows is in, independently, at ``rate``.

    Returns
    -------
    LongTensor, shape (batch,)
        May be empty; an empty batch is a step like any other. Drawn in float64, so that the
        probability is ``rate`` to 2⁻⁵³.
    """
    if rate >= 1:
        return torch.arange(n, device=device)
    coins = torch.rand(n, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.nonzero(coins < rate).squeeze(1).to(device)
