"""Rows of units in private steps: units are sampled and clipped whole, each with all of its rows.

Where privacy protects a unit of up to m rows, the example of a private step is the unit: its gradient is the *sum* of
its rows' gradients, so that each row counts the same as long as nothing is clipped. A unit without a row in a batch
has none of its rows there.

Rows of a unit lie at places of their own, drawn at random as those of other rows are
(:class:`tabsynth.training.private_step.Places`). Where a batch goes through the network in parts, a unit has a slot of m
places side by side, which is drawn at random, and so all of its rows are in one part. The sum over a unit goes by a list of its rows' places. Of units as
of rows, all shapes are public, and one unit more or less changes neither a place nor a sum of any other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

MOST_ROWS = 100  # of a unit, in private steps: each batch has room for as many


class UnitRows:
    """Rows with the unit of each.

    Parameters
    ----------
    inputs : Tensor, shape (n, width), or CodedInputs, or WeightedInputs
    units : ndarray, shape (n,), uint64
        The same number in all rows of a unit; units are taken in the order of their numbers.
    most : int
        The most rows of a unit, m. Only the first so many are used, if two units should have the same number.
    """

    def __init__(self, inputs: Any, units: np.ndarray, most: int) -> None:
        self.inputs, self.units, self.most = inputs, units, most
        order = np.argsort(units, kind="stable")
        _, starts, counts = np.unique(units[order], return_index=True, return_counts=True)
        self._order = torch.from_numpy(order)
        self._starts = torch.from_numpy(starts)
        self._counts = torch.from_numpy(np.minimum(counts, most))

    @property
    def count(self) -> int:
        """The number of units."""
        return len(self._counts)

    def of(self, picked: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of some units, unit by unit, and how many each has; of shapes (rows,) and (units,)."""
        counts = self._counts[picked]
        unit = torch.repeat_interleave(torch.arange(len(picked)), counts)
        return self._order[self._starts[picked][unit] + _ranks(counts, unit)], counts


def _ranks(counts: Tensor, unit: Tensor) -> Tensor:
    """Return the number of each row within its unit, shape (rows,)."""
    return torch.arange(len(unit)) - (counts.cumsum(0) - counts)[unit]


@dataclass(frozen=True)
class UnitPlaces:
    """The places of the rows of each unit of a batch.

    Attributes
    ----------
    members : LongTensor, shape (places, m)
        For each place the places of all rows of its unit, in their order, and −1 for rows that the unit lacks.
    later : LongTensor, shape (m − 1, places)
        For each place the place of its unit's row that comes so many rows later: 1, 2, …; −1 where there is none.
    """

    members: Tensor
    later: Tensor

    @classmethod
    def of(cls, counts: Tensor, places: Tensor, size: int, most: int) -> "UnitPlaces":
        """Return the places of rows that come unit by unit, ``counts`` of each, in a batch of ``size`` places."""
        unit = torch.repeat_interleave(torch.arange(len(counts)), counts)
        ranks = _ranks(counts, unit)
        of_units = torch.full((len(counts), most), -1, dtype=torch.int64)
        of_units[unit, ranks] = places
        members = torch.full((size, most), -1, dtype=torch.int64)
        members[places] = of_units[unit]
        later = torch.full((most - 1, size), -1, dtype=torch.int64)
        for ahead in range(1, most):
            present = torch.nonzero(ranks + ahead < counts[unit]).squeeze(1)
            later[ahead - 1, places[present]] = places[present + ahead]
        return cls(members, later)

    def to(self, device: torch.device) -> "UnitPlaces":
        """Return the same on a device."""
        return UnitPlaces(self.members.to(device), self.later.to(device))

    def count(self, parts: Tensor | None = None) -> Tensor:
        """Return how many rows the unit of each place has, or the sum of their parts; float64, shape (places,)."""
        if parts is None:
            return (self.members >= 0).sum(1, dtype=torch.float64)
        return self.total(parts)

    def total(self, values: Tensor, parts: Tensor | None = None) -> Tensor:
        """Return the sum over the rows of each place's unit, in float64 and row by row: the same number at all of its places.

        Parameters
        ----------
        values : Tensor, shape (places, …)
        parts : float64 Tensor, shape (places,), optional
            What the values are multiplied by.
        """
        values = values.double()
        if parts is not None:
            values = values * parts.view(-1, *[1] * (values.dim() - 1))
        total = torch.zeros_like(values)
        for at in self.members.unbind(1):
            total = total + take_rows(values, at)
        return total

    def products(self, of: Callable[[Tensor], Tensor], parts: Tensor | None = None) -> Tensor:
        """Return at each place the sum over its unit's later rows of ``of(places of these)``, by their parts; shape (places,)."""
        total = torch.zeros(len(self.members), dtype=torch.float64, device=self.members.device)
        for at in self.later:
            values = of(at).masked_fill(at < 0, 0)
            total = total + (values if parts is None else values * take_rows(parts, at))
        return total

    def any(self, flags: Tensor) -> Tensor:
        """Return whether a flag holds for a row of the place's unit, bool, shape (places,)."""
        return self.total(flags.double()) > 0


def take_rows(values: Tensor, at: Tensor) -> Tensor:
    """Return values at some places, 0 where the place is −1; shape (places, …)."""
    none = (at < 0).view(-1, *[1] * (values.dim() - 1))
    return values.index_select(0, at.clamp_min(0)).masked_fill(none, 0)
