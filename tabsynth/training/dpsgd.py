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
        C, the bound of one example's gradient.
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
    A step releases Σ clip_C(gᵢ) + N(0, (σC)²) over a Poisson sample: one Poisson-subsampled Gaussian
    of multiplier σ. The account is asked before the rows are read. An empty batch is a step.
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
        self.table, self.account, self.generator = table, account, generator
        self.expected_batch = expected_batch
        sigma, accounted, _ = steps_of(account.mechanism, 1)
        self.private = not isinstance(account.mechanism, NoPrivacy)
        if self.private and rate != accounted:
            raise BudgetError(f"batches at rate {rate} cannot be paid as rate {accounted}")
        # Without privacy nothing is clipped: an ordinary mean gradient.
        self.clipper = PerExampleClipper(module, max_norm if self.private else math.inf)
        self.rate = rate
        self.std = sigma * max_norm

    def gradient(self, losses: Losses, public: Tensor | None = None) -> None:
        """Set ``parameter.grad`` to the private mean gradient of one step.

        Parameters
        ----------
        losses : callable
            ``losses(module, rows)``: one loss a row.
        public : Tensor, shape (m, width), optional
            Public or generated rows whose losses are negated and averaged in: the other side of a
            critic's loss. They are clipped like the private ones, for balance, but need no noise;
            their divisor is ``m``, fixed, never the realised batch (R2).
        """
        rows = self.table.read(self.account)
        picked = poisson_sample(len(rows), self.rate, self.generator, rows.device)
        batch = rows[picked]
        weights = batch.new_full((len(batch),), 1.0)
        if public is None:
            inputs, signs = batch, weights
        else:
            inputs = torch.cat([batch, public])
            share = self.expected_batch / len(public)
            weights = torch.cat([weights, batch.new_full((len(public),), share)])
            signs = torch.ones_like(weights)
            signs[len(batch) :] = -1.0

        def signed(module: nn.Module, x: Tensor) -> Tensor:
            return losses(module, x) * signs

        sums = self.clipper(signed, inputs, weights)
        for parameter, total in zip(self.clipper.parameters, sums, strict=True):
            if self.private:
                noise = torch.empty_like(total).normal_(generator=self.generator)
                total = total + self.std * noise
            parameter.grad = total / self.expected_batch
