"""DP-SGD: one private gradient, from a Poisson batch that the ledger has paid for."""

import math

import torch
from torch import Tensor, nn

from tabsynth.errors import BudgetError
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.privacy.mechanisms import NoPrivacy, steps_of
from tabsynth.training.clipping import Losses, PerExampleClipper
from tabsynth.training.sampling import poisson_sample


class DPSGD:
    """Private gradients of a module over a guarded table (Abadi et al. 2016, arXiv:1607.00133).

    Parameters
    ----------
    module : nn.Module
    max_norm : float
        C, the bound of one example's gradient. With public rows to go by, it is in units of the
        median norm of theirs, so that it follows the training: adaptive clipping at no cost (R10).
    table : PrivateTable of Tensor, shape (n, width)
    account : Account
        Pays for one step at a time; gives the noise multiplier.
    rate : float
        q, the chance of a row to be in a batch: what the account's mechanism says.
    expected_batch : float
        The divisor: a public number near rate · n, never the size of the batch drawn (R5).
    generator : torch.Generator
        Draws batches and noise.

    Formal guarantees
    -----------------
    A step releases Σ clip_C(gᵢ − r) + N(0, (σC)²) over a Poisson sample: one Poisson-subsampled
    Gaussian of multiplier σ, whatever C and r, which follow from public rows and earlier releases.
    The account is asked before the rows are read. An empty batch is a step.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        max_norm: float,
        table: PrivateTable[Tensor],
        account: Account,
        rate: float,
        expected_batch: float,
        generator: torch.Generator,
    ) -> None:
        sigma, accounted, _ = steps_of(account.mechanism, 1)
        self.private = not isinstance(account.mechanism, NoPrivacy)
        if self.private and rate != accounted:
            raise BudgetError(f"batches at rate {rate} cannot be paid as rate {accounted}")
        self.clipper = PerExampleClipper(module)
        self.table, self.account, self.generator = table, account, generator
        self.max_norm, self.noise_multiplier, self.rate = max_norm, sigma, rate
        self.expected_batch = expected_batch

    def gradient(self, losses: Losses, public: Tensor | None = None) -> None:
        """Set ``parameter.grad`` to the private mean gradient of one step.

        Parameters
        ----------
        losses : callable
            ``losses(module, rows)``: one loss a row.
        public : Tensor, shape (m, width), optional
            Public or generated rows: the other side of a critic's loss. Their mean gradient is taken
            off each private row's *before* clipping, so that the sum is that of the difference.

        NOTE[DIFF] Xie et al. pair each real row with one generated row. Against the mean of many,
        the differences are shorter: what all rows share (the last bias above all) needs no noise,
        and a batch that happens to be large does not push the critic.
        """
        bound, reference = self.max_norm, None
        if public is not None:
            reference, median = self.clipper.reference(losses, public)
            bound = self.max_norm * max(median, 1e-12)
        rows = self.table.read(self.account)
        batch = rows[poisson_sample(len(rows), self.rate, self.generator, rows.device)]
        # Without privacy nothing is clipped: an ordinary mean gradient.
        clip = bound if self.private else math.inf
        sums = self.clipper.clipped_sum(losses, batch, clip, reference)
        for parameter, total in zip(self.clipper.parameters, sums, strict=True):
            if self.private:
                noise = torch.empty_like(total).normal_(generator=self.generator)
                total = total + self.noise_multiplier * bound * noise
            parameter.grad = total / self.expected_batch
