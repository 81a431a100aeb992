"""What an attacker who knows everything but the noise sees of private steps.

The audit stands beside :class:`tabsynth.training.private_step.PrivateStep` while a fit runs, unchanged.
Of each step it knows the clean sum and the canary's part in it; and it has the step noised many times
over, each time by the call that the fit itself makes. Each of these *lanes* is a run of its own: its steps
are those of the same mechanism at the same weights, and its noise is its own. That is how thousands of
runs are made in one.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth.training.private_step import PrivateStep
from tabsynth.training.sampling import poisson_sample


class StepLanes:
    """Log-likelihood ratios of "the canary is there", of many runs of a fit's private steps.

    Parameters
    ----------
    canary : Tensor, shape (width,)
        Its codes.
    present : bool
        Whether it is in the table that is fitted.
    lanes : int

    Attributes
    ----------
    found : dict of ndarray, shape (lanes,)
        By purpose of the account that paid: the sum over steps, as the claim of the account has it.

    Notes
    -----
    A step's sum is put in units of its sensitivity, group j over √G·C_j, so that a canary moves it by at
    most 1, along a direction u of length 1, and the noise has the multiplier σ. With z the released sum
    less the part that is not the canary's, along u, the ratio is z/σ² less a constant at rate 1, and
    log(1 − q + q e^((z − ½)/σ²)) at rate q. Its law without canary is the same whatever the weights are.
    """

    def __init__(self, canary: Tensor, present: bool, lanes: int) -> None:
        self.canary, self.present, self.lanes = canary, present, lanes
        self.found: dict[str, np.ndarray] = {}
        self.steps: dict[str, int] = {}
        self._known: tuple[list[Tensor], list[Tensor]] | None = None
        self._coins = Randomness().torch()

    @contextmanager
    def watching(self) -> Iterator["StepLanes"]:
        """Watch all private steps of this process."""
        sums, noised = PrivateStep._sums, PrivateStep._noised

        def see(
            step: PrivateStep, losses: Any, batch: Tensor, keep: Any, reference: Any
        ) -> tuple[list[Tensor], Tensor]:
            found = sums(step, losses, batch, keep, reference)
            own = (batch == self.canary).all(1)
            if own.any():  # at the very coins of this batch
                without, _ = sums(step, losses, batch, ~own, reference)
                part = [a - b for a, b in zip(found[0], without, strict=True)]
            else:
                without = [s.clone() for s in found[0]]
                part, _ = sums(step, losses, self.canary[None], None, reference)
            self._known = without, part
            return found

        def draw(step: PrivateStep, clean: list[Tensor]) -> list[Tensor]:
            self._lanes(step, noised)
            return noised(step, clean)

        PrivateStep._sums, PrivateStep._noised = see, draw  # type: ignore[method-assign]
        try:
            yield self
        finally:
            PrivateStep._sums, PrivateStep._noised = sums, noised  # type: ignore[method-assign]

    def _lanes(self, step: PrivateStep, noised: Any) -> None:
        """The released step of every lane, along the canary's direction."""
        assert self._known is not None
        without, part = self._known
        sigma, rate = step.account.mechanism.noise_multiplier, step.rate  # type: ignore[union-attr]
        scales = math.sqrt(len(step.bounds.now)) * step.bounds.now
        units = [scales[j] for j in step.clipper.groups]
        direction = torch.cat([(p / c).flatten() for p, c in zip(part, units, strict=True)])
        length = direction.norm()
        if length > 0:
            direction = direction / length
        else:  # no gradient at all: any direction has the same noise
            direction = torch.zeros_like(direction)
            direction[0] = 1.0
        sizes = [p.numel() for p in part]
        along = torch.cat(
            [d / c for d, c in zip(direction.split(sizes), units, strict=True)]
        ) * float(step.expected_batch)
        known = sum(
            float((w.flatten() / c) @ d)
            for w, c, d in zip(without, units, direction.split(sizes), strict=True)
        )
        whole = [a + b for a, b in zip(without, part, strict=True)]
        z = np.empty(self.lanes)
        for lane, there in enumerate(self._in_batch(rate)):
            sums = [s.clone() for s in (whole if there else without)]
            released = noised(step, sums)
            z[lane] = float(torch.cat([r.flatten() for r in released]) @ along) - known
        purpose = step.account.purpose
        before = self.found.get(purpose, np.zeros(self.lanes))
        self.found[purpose] = before + ratios(z, sigma, rate)
        self.steps[purpose] = self.steps.get(purpose, 0) + 1

    def _in_batch(self, rate: float) -> Iterator[bool]:
        """Whether the canary is in each lane's batch: one row of one, sampled as a fit samples."""
        for _ in range(self.lanes):
            yield self.present and len(poisson_sample(1, rate, self._coins)) > 0


def ratios(z: np.ndarray, sigma: float, rate: float) -> np.ndarray:
    """Log-likelihood ratios of N(1, σ²), at rate q, against N(0, σ²)."""
    whole = (z - 0.5) / sigma**2
    if rate == 1:
        return whole
    return np.logaddexp(math.log1p(-rate), math.log(rate) + whole)
