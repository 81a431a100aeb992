"""What an attacker who knows everything but the noise sees of private steps.

The audit stands beside :class:`tabsynth.training.private_step.PrivateStep` while a fit runs, unchanged.
Of each step it knows the clean sum and the canary's part in it; and it has many copies of the sum noised,
stacked, by the method that noises the fit's own. Each of these *lanes* is a run of its own: its steps are
those of the same mechanism at the same weights, and its noise is its own. That is how thousands of runs
are made in one fit.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth.privacy.accounting.mechanisms import of_sum
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.training.private_step import PrivateStep, poisson_sample

AT_ONCE = 2**22  # numbers of all lanes that are noised in one call


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
        self._known: tuple[list[Tensor], list[Tensor]] | None = None
        self._coins = Keystream()

    @contextmanager
    def watching(self) -> Iterator["StepLanes"]:
        """Watch all private steps of this process."""
        sums, noised = PrivateStep._sums, PrivateStep._noised

        def see(
            step: PrivateStep, losses: Any, batch: Tensor, keep: Tensor, reference: Any
        ) -> tuple[list[Tensor], Tensor]:
            found = sums(step, losses, batch, keep, reference)
            own = (batch == self.canary).all(1) & keep
            if own.any():  # at the very coins of this batch
                without, _ = sums(step, losses, batch, keep & ~own, reference)
                part = [a - b for a, b in zip(found[0], without, strict=True)]
            else:
                without = [s.clone() for s in found[0]]
                alone = torch.ones(1, dtype=torch.bool)
                part, _ = sums(step, losses, self.canary[None], alone, reference)
            self._known = without, part
            return found

        def draw(step: PrivateStep, clean: list[Tensor]) -> list[Tensor]:
            self._lanes(step, noised)
            return noised(step, clean)

        PrivateStep._sums, PrivateStep._noised = see, draw  # type: ignore[method-assign, assignment]
        try:
            yield self
        finally:
            PrivateStep._sums, PrivateStep._noised = sums, noised  # type: ignore[method-assign]

    def _lanes(self, step: PrivateStep, noised: Any) -> None:
        """The released step of every lane, along the canary's direction."""
        assert self._known is not None
        without, part = self._known
        mechanism = of_sum(step.account.mechanism)
        scales = math.sqrt(len(step.bounds.now)) * step.bounds.now
        units = [scales[j] for j in step.clipper.groups]
        along = _direction([p / c for p, c in zip(part, units, strict=True)])
        along = [d / c for d, c in zip(along, units, strict=True)]
        known = _dots([w[None] for w in without], along)[0]
        there = self._in_batch(step.rate)
        room = max(1, AT_ONCE // sum(p.numel() for p in part))
        z = []
        for some in there.split(room):
            sums = [
                w + some.to(w).view(-1, *[1] * w.dim()) * p
                for w, p in zip(without, part, strict=True)
            ]
            z.append(_dots(noised(step, sums), along) * float(step.expected_batch) - known)
        purpose = step.account.purpose
        before = self.found.get(purpose, np.zeros(self.lanes))
        found = ratios(torch.cat(z).numpy(), mechanism.noise_multiplier, step.rate)
        self.found[purpose] = before + found

    def _in_batch(self, rate: float) -> Tensor:
        """Whether the canary is in each lane's batch: one row of one, sampled as a fit samples."""
        if not self.present or rate == 1:
            return torch.full((self.lanes,), self.present)
        # A batch of a table of so many rows is a coin of each row's own.
        there = torch.zeros(self.lanes, dtype=torch.bool)
        there[poisson_sample(self.lanes, rate, self._coins)] = True
        return there


def _direction(part: list[Tensor]) -> list[Tensor]:
    """The same direction, of length 1; without any gradient, any: the noise is the same in all."""
    length = torch.stack([p.norm() for p in part]).norm()
    if length > 0:
        return [p / length for p in part]
    found = [torch.zeros_like(p) for p in part]
    found[0].view(-1)[0] = 1.0
    return found


def _dots(values: list[Tensor], along: list[Tensor]) -> Tensor:
    """Inner products over all parameters, shape (lanes,)."""
    pairs = zip(values, along, strict=True)
    return torch.stack([v.double().flatten(1) @ d.double().flatten() for v, d in pairs]).sum(0)


def ratios(z: np.ndarray, sigma: float, rate: float) -> np.ndarray:
    """Log-likelihood ratios of N(1, σ²), at rate q, against N(0, σ²)."""
    whole = (z - 0.5) / sigma**2
    if rate == 1:
        return whole
    return np.logaddexp(math.log1p(-rate), math.log(rate) + whole)
