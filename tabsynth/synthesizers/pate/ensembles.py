"""The teachers of a fit over its processes: each teacher is on one of them, with all of its rows; votes are added up.

Formal guarantees
-----------------
A record's teacher follows from :func:`tabsynth.synthesizers.pate.aggregation.deal` alone, whatever the number of
processes is, and the process of a teacher from its number. So a record more or less is one record more or less of one
teacher on one process, and changes one vote. Votes are whole numbers: their sum over processes is exact, and is that of one
process. The first process adds noise to the sum, once; the others have no account, and answer to the first alone.
Rows are sent after the first round was charged, because the first process reads them under the account of the votes.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from tabsynth.training.private_step import PrivateInputs, ShardedTable
from tabsynth.training.processes import moved_to, rows_at
from tabsynth.training.units import UnitRows


@dataclass(eq=False)
class TeacherGroup:
    """The teachers of one process, with their rows.

    Attributes
    ----------
    rows : Tensor or WeightedInputs
        Of these teachers alone.
    shard : LongTensor, shape (rows,)
        The teacher of each row, from 0 within the group.
    first, count : int
        The number of the first teacher among all; how many there are.
    networks : nn.Module, optional
        Where teachers are networks.
    trainer : object, optional
        What trains them, from the first round on.
    """

    rows: PrivateInputs
    shard: Tensor
    first: int
    count: int
    networks: Any = None
    trainer: Any = None

    @property
    def device(self) -> torch.device:
        """Of the rows."""
        return self.rows.device if isinstance(self.rows, Tensor) else self.rows.codes.device

    def to(self, device: torch.device) -> "TeacherGroup":
        """The same on a device."""
        rows = moved_to(self.rows, device)
        assert not isinstance(rows, UnitRows)
        networks = None if self.networks is None else self.networks.to(device)
        return TeacherGroup(rows, self.shard, self.first, self.count, networks)


def grouped(
    rows: PrivateInputs, shard: Tensor, teachers: int, processes: int
) -> list[TeacherGroup]:
    """The teachers of each process, in equal parts by their numbers, and the rows of each, in their order."""
    if processes == 1:
        return [TeacherGroup(rows, shard, 0, teachers)]
    groups = []
    for first, last in pairwise(teachers * part // processes for part in range(processes + 1)):
        own = (shard >= first) & (shard < last)
        numbers = torch.nonzero(own).squeeze(1)
        of_group = rows_at(rows, numbers.numpy())
        groups.append(TeacherGroup(of_group, shard[own] - first, first, last - first))
    return groups


# From a group of teachers, random numbers, and what is public, to whatever it answers, on the CPU.
Task = Callable[..., Any]


class Ensemble:
    """All teachers of a fit, of which this process has a group.

    Parameters
    ----------
    rows : Tensor or WeightedInputs
        Of all teachers.
    shard : LongTensor, shape (rows,)
        The teacher of each.
    teachers : int
        K.
    shared : ShardedTable, optional
        Where several processes fit: what sends the others their groups.
    networks : callable, optional
        From the numbers of a first and a last teacher to the networks from that one to before this one.
    """

    def __init__(
        self,
        rows: PrivateInputs,
        shard: Tensor,
        teachers: int,
        shared: ShardedTable | None = None,
        networks: Callable[[int, int], Any] | None = None,
    ) -> None:
        self._shared = shared
        groups = grouped(rows, shard, teachers, self.processes)
        for group in groups:
            if networks is not None:
                group.networks = networks(group.first, group.first + group.count)
        self.own = groups[0]
        if shared is not None:
            shared.hand_out(groups)

    @property
    def processes(self) -> int:
        """How many have a group."""
        return 1 if self._shared is None else self._shared.shards

    def each(self, task: Task, rng: torch.Generator, *public: Any) -> list[Any]:
        """What each process makes of its teachers by ``task``, in the order of teachers.

        Others have random numbers of their own.
        """
        if self._shared is None:
            return [task(self.own, rng, *public)]
        cpu = torch.device("cpu")
        self._shared.call(task, *(placed(cpu, thing) for thing in public))
        own = task(self.own, rng, *public)
        return [own, *self._shared.collect()]

    def votes(self, task: Task, rng: torch.Generator, *public: Any) -> list[Tensor | None]:
        """The sums of the counts that ``task`` gives of each group, a sequence of Tensors or None."""
        return [
            None if parts[0] is None else torch.stack(parts).sum(0)
            for parts in zip(*self.each(task, rng, *public), strict=True)
        ]


def placed(device: torch.device, thing: Any) -> Any:
    """The same on a device: a Tensor, a sequence of them, or what has a method ``to``; anything else as it is."""
    if isinstance(thing, Tensor):
        return thing.to(device)
    if isinstance(thing, list):
        return [placed(device, item) for item in thing]
    return copy.copy(thing).to(device) if hasattr(thing, "to") else thing


def numbers_of(group: TeacherGroup, _: torch.Generator) -> list[Tensor]:
    """The numbers of each network, for an audit that records."""
    return [parameter.detach().cpu() for parameter in group.networks.parameters()]


def joined(numbers: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The numbers of all teachers, in their order, of those of each group."""
    return [torch.cat(list(parts)) for parts in zip(*numbers, strict=True)]


def in_parts(items: Iterator[Tensor], size: int) -> Iterator[list[Tensor]]:
    """The items in lists of at most so many, each made when it is asked for."""
    part = []
    for item in items:
        part.append(item)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part
