"""One private step: a gradient from a Poisson batch that the ledger has paid for."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from tabsynth._random import keystream
from tabsynth.errors import BudgetError
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.privacy.mechanisms import NoPrivacy, of_sum, steps_of
from tabsynth.privacy.noise import Bits
from tabsynth.privacy.recording import exact, recorder
from tabsynth.training.bounds import Bounds, Clipping
from tabsynth.training.capture import Captured, Slots, full_precision
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.factors import Losses
from tabsynth.training.formed import moved
from tabsynth.training.noising import TensorNoise
from tabsynth.training.rules import BAM, DPSAT, DPSGD, StepRule
from tabsynth.training.sampling import Places, poisson_sample
from tabsynth.training.sums import PARTS, Total

MOST_ROUNDING = 0.25  # of a bound: a reference whose rounding could take more of it is not used


@dataclass
class Terms:
    """What a step is made of besides the private rows: losses, and what is public."""

    losses: Losses
    public_losses: Losses
    public: Tensor | None
    correction: Sequence[Tensor] | None
    restored: bool

    def like(self, other: "Terms") -> bool:
        """Whether the other step is the same but for the values of its tensors."""
        return self._shape() == other._shape()

    def _shape(self) -> tuple[Any, ...]:
        public = None if self.public is None else self.public.shape
        return self.losses, self.public_losses, public, self.correction is None, self.restored

    def held(self) -> "Terms":
        """The same with tensors of its own."""
        held = replace(self)
        held.public = None if self.public is None else self.public.clone()
        held.correction = None if self.correction is None else [t.clone() for t in self.correction]
        return held

    def take(self, other: "Terms") -> None:
        """Take the values of the other's tensors."""
        if self.public is not None and other.public is not None:
            self.public.copy_(other.public)
        if self.correction is not None and other.correction is not None:
            torch._foreach_copy_(list(self.correction), list(other.correction))

    def generators(self) -> list[torch.Generator]:
        """What the losses draw from."""
        found = [getattr(losses, "rng", None) for losses in (self.losses, self.public_losses)]
        return [rng for rng in found if rng is not None]


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
        On the module's device. Draws noise on a GPU.
    rule : DPSGD, DPSAT or BAM
    clipping : Clipping
    physical_batch : int, optional
        Rows to go through the module at a time; a larger batch is accumulated.
    bits : Bits, optional
        Of batches, and of noise on the CPU. By default a keystream whose key ``generator`` draws.

    Formal guarantees
    -----------------
    A step releases Σ clip(gᵢ − r) + noise over a Poisson sample: one Poisson-subsampled Gaussian of
    the account's multiplier, whatever the bounds, groups and r, which follow from public rows and
    earlier releases. It holds for the floating-point sum that is released, at every batch size and scale of
    weights and rows: see :mod:`tabsynth.training.sums`. The account is asked before the rows are read. An
    empty batch is a step.
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
        bits: Bits | None = None,
    ) -> None:
        sigma, accounted, _ = steps_of(of_sum(account.mechanism), 1)
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
        self.noise = TensorNoise(keystream(generator) if bits is None else bits, generator)
        self._previous: list[Tensor] | None = None
        self.places = Places(expected_batch, physical_batch)
        self._slots: Slots | None = None
        self._recorded: tuple[Terms, Captured] | None = None

    def gradient(
        self,
        losses: Losses,
        public: Tensor | None = None,
        *,
        public_losses: Losses | None = None,
        correction: Sequence[Tensor] | None = None,
        restored: bool = False,
    ) -> None:
        """Set ``parameter.grad`` to the private mean gradient of one step.

        Parameters
        ----------
        losses : callable
            ``losses(module, rows)``: one loss a row, a function of that row and of public things. If it
            draws, then from a generator that is its attribute ``rng``.
        public : Tensor, shape (m, width), optional
            Public or generated rows: the other side of a critic's loss. Their mean gradient is taken
            off each private row's *before* clipping, so that the sum is that of the difference, and
            their norms may set the bounds.
        public_losses : callable, optional
            The loss of public rows, where it is another one.
        correction : sequence of Tensor, optional
            A public gradient that is added after the noise.
        restored : bool
            Add the public rows' mean gradient back after the noise, where it was taken off.

        NOTE[DIFF] Xie et al. pair each real row with one generated row. Against the mean of many,
        the differences are shorter: what all rows share (the last bias above all) needs no noise,
        and a batch that happens to be large does not push the critic.
        """
        bounds = self.bounds
        if public is None and (bounds.clipping.bound == "public" or not bounds.clustered):
            raise ValueError("bounds or groups from public rows need public rows")
        rows = self.table.read(self.account)
        layout = self._layout(len(rows))
        terms = Terms(losses, public_losses or losses, public, correction, restored)
        if self._in_place(rows) and len(layout) == self.places.size:
            found = self._replay(terms, rows, layout)
        else:
            found = self._step(terms, *_laid_out(rows, layout))
        for parameter, value in zip(self.clipper.parameters, found, strict=True):
            parameter.grad = value

    def _step(self, terms: Terms, batch: Tensor, keep: Tensor) -> list[Tensor]:
        """All of a step but the draw of its batch; nothing in it waits for the device."""
        with self._moved(), full_precision(batch.device):
            reference = self._reference(terms)
            sums, votes = self._sums(terms.losses, batch, keep, reference)
        sums, votes = self._passed(sums, votes)
        found = self._noised(sums)
        if self.private:
            self.bounds.adapt(votes, self.noise)
        for public in (terms.correction, reference if terms.restored else None):
            if public is not None:
                torch._foreach_add_(found, list(public))
        if isinstance(self.rule, DPSAT):
            if self._previous is None:
                self._previous = [value.clone() for value in found]
            else:
                torch._foreach_copy_(self._previous, found)
        return found

    def _layout(self, rows: int) -> Tensor:
        """The rows of a Poisson batch by place, -1 where it is blank."""
        known = recorder()
        if known is not None and self.private:
            picked = known.batch(rows, self.rate, self.generator)
            return self.places.layout(picked, known.places(self.places.room))
        picked = poisson_sample(rows, self.rate, self.noise.bits)
        return self.places.layout(picked, self.places.draw(len(picked), self.noise.bits))

    def _passed(self, sums: list[Tensor], votes: Tensor) -> tuple[list[Tensor], Tensor]:
        """All that a step releases, past an audit's recorder if there is one."""
        if recorder() is None or not self.private:
            return sums, votes  # the standard deviations would wait for the device
        scales = self.bounds.noise_scales().tolist()
        *units, of_votes = self.bounds.units()
        stds = [scales[j] for j in self.clipper.groups]
        each = [units[j] for j in self.clipper.groups]
        if self.bounds.clipping.bound != "quantile":
            return exact(self.account, sums, stds, units=each), votes
        stds, each = [*stds, self.bounds.votes_noise()], [*each, of_votes]
        *sums, votes = exact(self.account, [*sums, votes], stds, units=each)
        return sums, votes

    def _in_place(self, rows: Tensor) -> bool:
        """Whether steps have one shape, so that they can be recorded: on CUDA, in closed form."""
        recordable = self.clipper.closed_form and not self.physical_batch and len(rows) > 0
        recordable = recordable and recorder() is None  # an audit's recorder looks into each step
        return rows.device.type == "cuda" and recordable

    def _replay(self, terms: Terms, rows: Tensor, layout: Tensor) -> list[Tensor]:
        """The same on tensors that stay in place, recorded for the losses that it is called with."""
        slots = self._slots = self._slots or Slots(self.places.size, rows.device)
        slots.fill(layout)
        if self._recorded is None or not self._recorded[0].like(terms):
            held = terms.held()
            draws = [self.generator, *held.generators()]

            def body() -> list[Tensor]:
                return self._step(held, rows[slots.rows], slots.keep)

            self._recorded = held, Captured(body, draws)
        else:
            self._recorded[0].take(terms)
        return self._recorded[1](rows.device)

    def _reference(self, terms: Terms) -> list[Tensor] | None:
        losses, public = terms.public_losses, terms.public
        if public is None:
            return None
        self.bounds.cluster(losses, public)
        if self.bounds.clipping.centred:
            reference, norms = self.clipper.reference(losses, public)
        else:
            reference, norms = None, self.clipper.norms(losses, public)
        self.bounds.follow(norms)
        if reference is None or not self.private:
            return reference
        # A reference so large that its rounding would take much of the bound is not taken off at all.
        bounds = self.bounds.now.double()
        slack, _ = self.clipper.rounding(bounds, reference, self.places.size)
        small = (slack <= MOST_ROUNDING * bounds).all()
        return [torch.where(small, r, torch.zeros_like(r)) for r in reference]

    def _sums(
        self, losses: Losses, batch: Tensor, keep: Tensor, reference: list[Tensor] | None
    ) -> tuple[list[Tensor], Tensor]:
        """Σ clip(gᵢ − r) in float64, and the votes on the bounds."""
        # Without privacy nothing is clipped: an ordinary mean gradient.
        bounds: Tensor | float = math.inf
        if self.private:
            spare = self.bounds.noise_rounding()
            if len(batch) > self.places.size:
                spare += PARTS * len(batch)
            bounds = self.bounds.now.double() * (1 - spare)
        parts = zip(batch.split(self.places.size), keep.split(self.places.size), strict=True)
        total, votes = None, None
        for part, here in parts:
            sums, whole = self.clipper.clipped_sum(losses, part, bounds, reference, here)
            own = whole - here.sum() / 2
            if total is None or votes is None:
                total, votes = Total(sums), own
            else:
                total.add(sums)
                votes = votes + own
        assert total is not None and votes is not None
        return total.value(), votes

    def _noised(self, sums: list[Tensor]) -> list[Tensor]:
        """(Σ + noise) / expected batch, in the dtype of the parameters."""
        if self.private:
            self.noise.add(sums, self.bounds.noise_scales(), self.clipper.groups)
        torch._foreach_div_(sums, float(self.expected_batch))
        return [s.to(p.dtype) for s, p in zip(sums, self.clipper.parameters, strict=True)]

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
        self._recorded = None  # it wrote to the tensors of before
        self.bounds.now = state["bounds"].to(self.bounds.now, copy=True)
        self.clipper.groups = list(state["groups"])
        self.bounds.clustered = bool(state["clustered"])
        previous = state.get("previous")
        if previous is not None:
            parameters = enumerate(self.clipper.parameters)
            self._previous = [previous[str(i)].to(p.detach(), copy=True) for i, p in parameters]


def _laid_out(rows: Tensor, layout: Tensor) -> tuple[Tensor, Tensor]:
    """The rows at their places, any row where it is blank, and which places are taken."""
    keep = (layout >= 0).to(rows.device, non_blocking=True)
    if len(rows) == 0:
        return rows.new_zeros((len(layout), *rows.shape[1:])), keep
    places = layout.clamp_min(0).to(rows.device, non_blocking=True)
    return rows.index_select(0, places), keep
