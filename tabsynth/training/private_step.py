"""One private step: a gradient from a Poisson batch that the ledger has paid for."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tabsynth._random import host_stream
from tabsynth.errors import BudgetError
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.privacy.mechanisms import NoPrivacy, steps_of
from tabsynth.training.bounds import Bounds, Clipping
from tabsynth.training.capture import Captured, Slots
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.factors import Losses
from tabsynth.training.formed import moved
from tabsynth.training.rules import BAM, DPSAT, DPSGD, StepRule
from tabsynth.training.sampling import poisson_sample


class PrivateStep:
    """Private gradients of a module over a guarded table; any torch optimiser may follow.

    Parameters
    ----------
    module : nn.Module
    table : PrivateTable of Tensor, shape (n, width)
        Resident on the module's device.
    account : Account
        Pays for one step at a time; gives the noise multiplier.
    rate : float
        q, the chance of a row to be in a batch: what the account's mechanism says.
    expected_batch : float
        The divisor: a public number near rate · n, never the size of the batch drawn (R5).
    generator : torch.Generator
        Draws batches and noise, on the module's device.
    rule : DPSGD, DPSAT or BAM
    clipping : Clipping
    physical_batch : int, optional
        Rows to go through the module at a time; a larger batch is accumulated, with the same result.

    Formal guarantees
    -----------------
    A step releases Σ clip(gᵢ − r) + noise over a Poisson sample: one Poisson-subsampled Gaussian of
    the account's multiplier, whatever the bounds, groups and r, which follow from public rows and
    earlier releases. The account is asked before the rows are read. An empty batch is a step.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        table: PrivateTable[Tensor],
        account: Account,
        rate: float,
        expected_batch: float,
        generator: torch.Generator,
        rule: StepRule | None = None,
        clipping: Clipping | None = None,
        physical_batch: int | None = None,
    ) -> None:
        sigma, accounted, _ = steps_of(account.mechanism, 1)
        self.private = not isinstance(account.mechanism, NoPrivacy)
        if self.private and rate != accounted:
            raise BudgetError(f"batches at rate {rate} cannot be paid as rate {accounted}")
        self.rule = rule if rule is not None else DPSGD()
        ascent = self.rule.radius if isinstance(self.rule, BAM) else 0.0
        self.clipper = PerExampleClipper(module, ascent=ascent)
        clipping = clipping if clipping is not None else Clipping()
        self.bounds = Bounds(clipping, self.clipper, sigma, expected_batch)
        self.table, self.account, self.generator = table, account, generator
        self.rate, self.expected_batch = rate, expected_batch
        self.physical_batch = physical_batch
        self._batches = host_stream(generator)
        self._previous: list[Tensor] | None = None
        self._found: list[Tensor] = []
        self._room: Slots | None = None
        self._recorded: tuple[Any, list[Tensor], Captured] | None = None

    def gradient(
        self,
        losses: Losses,
        public: Tensor | None = None,
        *,
        public_losses: Losses | None = None,
        correction: Sequence[Tensor] | None = None,
    ) -> None:
        """Set ``parameter.grad`` to the private mean gradient of one step.

        Parameters
        ----------
        losses : callable
            ``losses(module, rows)``: one loss a row, a function of that row and of public things.
        public : Tensor, shape (m, width), optional
            Public or generated rows: the other side of a critic's loss. Their mean gradient is taken
            off each private row's *before* clipping, so that the sum is that of the difference, and
            their norms may set the bounds.
        public_losses : callable, optional
            The loss of public rows, where it is another one.
        correction : sequence of Tensor, optional
            A public gradient that is added after the noise.

        NOTE[DIFF] Xie et al. pair each real row with one generated row. Against the mean of many,
        the differences are shorter: what all rows share (the last bias above all) needs no noise,
        and a batch that happens to be large does not push the critic.
        """
        rows = self.table.read(self.account)
        picked = poisson_sample(len(rows), self.rate, self._batches)
        if self._in_place(rows) and self._slots(rows.device).fits(picked):
            self._replay(losses, public_losses or losses, rows, picked, public, correction)
        else:
            batch = rows[picked.to(rows.device, non_blocking=True)]
            self._step(losses, public_losses or losses, batch, None, public, correction)
        for parameter, value in zip(self.clipper.parameters, self._found, strict=True):
            parameter.grad = value

    def _step(
        self,
        losses: Losses,
        public_losses: Losses,
        batch: Tensor,
        keep: Tensor | None,
        public: Tensor | None,
        correction: Sequence[Tensor] | None,
    ) -> None:
        """All of a step but the draw of its batch; nothing in it waits for the device."""
        with self._moved():
            reference = self._reference(public_losses, public)
            sums, votes = self._sums(losses, batch, keep, reference)
        found = self._noised(sums)
        if self.private:
            self.bounds.adapt(votes, self.generator)
        if correction is not None:
            torch._foreach_add_(found, list(correction))
        self._found = found
        if isinstance(self.rule, DPSAT):
            if self._previous is None:
                self._previous = [value.clone() for value in found]
            else:
                torch._foreach_copy_(self._previous, found)

    def _in_place(self, rows: Tensor) -> bool:
        """Whether steps have one shape, so that they can be recorded: on CUDA, in closed form."""
        return rows.device.type == "cuda" and self.clipper.closed_form and not self.physical_batch

    def _slots(self, device: torch.device) -> Slots:
        if self._room is None:
            self._room = Slots(self.expected_batch, device)
        return self._room

    def _replay(
        self,
        losses: Losses,
        public_losses: Losses,
        rows: Tensor,
        picked: Tensor,
        public: Tensor | None,
        correction: Sequence[Tensor] | None,
    ) -> None:
        """The same on tensors that stay in place, recorded for the losses that it is called with."""
        slots = self._slots(rows.device)
        slots.fill(picked)
        given = [t for t in (public, *(correction or ())) if t is not None]
        key = (losses, public_losses, public is None, correction is None)
        if self._recorded is None or self._recorded[0] != key:
            held = [t.clone() for t in given]

            def body() -> None:
                rest = held if public is None else held[1:]
                self._step(
                    losses,
                    public_losses,
                    rows[slots.rows],
                    slots.keep,
                    None if public is None else held[0],
                    None if correction is None else rest,
                )

            self._recorded = (key, held, Captured(body, [self.generator]))
        _, held, captured = self._recorded
        if held:
            torch._foreach_copy_(held, given)
        captured(rows.device)

    def _reference(self, losses: Losses, public: Tensor | None) -> list[Tensor] | None:
        clipping = self.bounds.clipping
        if public is None:
            if clipping.bound == "public" or not self.bounds.clustered:
                raise ValueError("bounds or groups from public rows need public rows")
            return None
        self.bounds.cluster(losses, public)
        if clipping.centred:
            reference, norms = self.clipper.reference(losses, public)
        else:
            reference, norms = None, self.clipper.norms(losses, public)
        self.bounds.follow(norms)
        return reference

    def _sums(
        self, losses: Losses, batch: Tensor, keep: Tensor | None, reference: list[Tensor] | None
    ) -> tuple[list[Tensor], Tensor]:
        # Without privacy nothing is clipped: an ordinary mean gradient.
        bounds = self.bounds.now if self.private else math.inf
        parts = batch.split(self.physical_batch) if self.physical_batch else [batch]
        sums, whole = self.clipper.clipped_sum(losses, parts[0], bounds, reference, keep)
        for part in parts[1:]:
            more, also = self.clipper.clipped_sum(losses, part, bounds, reference)
            torch._foreach_add_(sums, more)
            whole = whole + also
        count = len(batch) if keep is None else keep.sum()
        return sums, whole - count / 2

    def _noised(self, sums: list[Tensor]) -> list[Tensor]:
        """(Σ + noise) / expected batch: one draw for all parameters."""
        if self.private:
            like = sums[0]
            noise = torch.empty(sum(s.numel() for s in sums), dtype=like.dtype, device=like.device)
            noise.normal_(generator=self.generator)
            scales = self.bounds.noise_scales().to(like).unbind()
            pieces = noise.split([s.numel() for s in sums])
            for total, piece, j in zip(sums, pieces, self.clipper.groups, strict=True):
                total.addcmul_(piece.view_as(total), scales[j])
        torch._foreach_div_(sums, float(self.expected_batch))
        return sums

    @contextmanager
    def _moved(self) -> Iterator[None]:
        """DP-SAT: the weights moved along the previous private gradient, and back."""
        if not isinstance(self.rule, DPSAT) or self._previous is None:
            yield
            return
        norm = torch.stack([g.norm() for g in self._previous]).norm().clamp_min(1e-30)
        step = self.rule.radius / norm
        with moved(self.clipper.parameters, [g * step for g in self._previous]):
            yield

    def state_dict(self) -> dict[str, Any]:
        """What the next step needs besides the module: all of it released already."""
        state: dict[str, Any] = {
            "bounds": self.bounds.now.clone(),
            "groups": list(self.clipper.groups),
        }
        state["clustered"] = int(self.bounds.clustered)
        if self._previous is not None:
            state["previous"] = {str(i): g.clone() for i, g in enumerate(self._previous)}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.bounds.now = state["bounds"].to(self.bounds.now, copy=True)
        self.clipper.groups = list(state["groups"])
        self.bounds.clustered = bool(state["clustered"])
        previous = state.get("previous")
        if previous is not None:
            parameters = enumerate(self.clipper.parameters)
            self._previous = [previous[str(i)].to(p.detach(), copy=True) for i, p in parameters]
