"""Private training over several processes: each holds a shard of the rows, and the first one leads the fit.

The processes are those of a group of ``torch.distributed``. Rank 0 carries out the fit as a single process does: it
alone has the ledger, the checkpoint, the noise, the optimisers and the generator. The others answer requests for sums
of clipped gradients over their shards, and learn nothing but the networks of the moment.

Formal guarantees
-----------------
*One charge.* Requests leave rank 0 after :meth:`SharedTable.read`, which charges the ledger first. So do the shards:
before the first charge no other process has a row.

*One unit, one rank.* Each row, or unit with all of its rows, is assigned to a rank by a random number of its own, which
no other row changes. Two neighbouring tables can hence be drawn with all common rows on the same ranks.

*The accounted rate.* Each rank draws a Poisson sample of its shard at the rate of the account, with random numbers of
its own. The union of Poisson samples of disjoint shards is a Poisson sample of the whole table at that rate.

*The accounted noise.* Rank 0 adds the sums of all ranks, in pairs of float64 numbers, and then adds the noise once, as
for one process, whether or not any rank has a row. Noise of σ/√N on each of N ranks has the same variance, but on a grid
its sum has not exactly the law of the accountant; and sums would leave ranks with less noise than is accounted.

*Sensitivity.* One row changes the sum of one rank, by what :mod:`tabsynth.training.sums` bounds for its places. The sums
of ranks are added up as those of parts of a batch are, for which ``PARTS`` of the bound is set aside for each place.

NOTE[DIFF] Data parallel training reduces gradients to all processes, each of which then takes the step itself. Here the
first process takes the step and sends the weights: sums without noise are then in one process only, and the fit does not
hang on equal rounding on different machines.
"""

import atexit
import copy
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tabsynth._random import Randomness
from tabsynth.errors import InputError, LedProcessError, ProcessError
from tabsynth.privacy.accounting.mechanisms import Mechanism
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.training.bounds import Clipping
from tabsynth.training.factors import Losses
from tabsynth.training.private_step import (
    PrivateInputs,
    PrivateStep,
    ShardedTable,
    StepRule,
    WeightedInputs,
)
from tabsynth.training.units import UnitRows

TIMEOUT = 1800.0  # seconds that a process waits for another, unless TABSYNTH_PROCESS_TIMEOUT says otherwise
AGAIN = "what was charged stays charged. Run all processes again, with the same checkpoint if there is one"
ANSWER, DIVIDE, BEGIN, END, FAILED = "answer", "divide", "begin", "end", "failed"


def start() -> "Processes":
    """Join the processes that torchrun started."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=_timeout())
        atexit.register(_leave)  # threads of Gloo that outlive the interpreter would abort it
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminated)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available() and local < torch.cuda.device_count():
        torch.cuda.set_device(local)
    return Processes()


def _terminated(number: int, frame: Any) -> None:
    """Of the signal with which torchrun ends the processes that are left: an error in one line, once."""
    _ignore_signal()
    raise ProcessError(
        f"torchrun ended this process, because another one of the fit ended; {AGAIN}."
    )


def _ignore_signal() -> None:
    """Ignore torchrun's signal, where it is heeded."""
    heeded = signal.getsignal(signal.SIGTERM) is _terminated
    if heeded and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _leave() -> None:
    _ignore_signal()
    if dist.is_initialized():
        dist.destroy_process_group()


def _timeout() -> timedelta:
    return timedelta(seconds=float(os.environ.get("TABSYNTH_PROCESS_TIMEOUT", TIMEOUT)))


@dataclass
class Shard:
    """What a process has of a fit.

    Attributes
    ----------
    rows : Tensor, WeightedInputs or UnitRows
    bits, generator : Bits, torch.Generator
        Of batches; of pairing.
    steps : dict
        Private steps by their number.
    """

    rows: Any
    bits: Bits
    generator: torch.Generator
    steps: dict[int, PrivateStep] = field(default_factory=dict)


class Processes:
    """The processes of one fit, all of which make this object at the same time.

    Messages go by Gloo and through the host's memory, whatever the group of the caller uses: they are the weights of a
    small network, and sums of the same size.

    Raises
    ------
    ProcessError
        From each method, where another process has ended or does not answer.
    """

    def __init__(self) -> None:
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self._waiting = False  # an answer is due: nothing else can be sent
        with _told():
            self._group = dist.new_group(backend="gloo", timeout=_timeout())

    def _send(self, what: str, content: Any) -> None:
        with _told():
            dist.broadcast_object_list([(what, content)], src=0, group=self._group)

    def _receive(self) -> tuple[str, Any]:
        held: list[Any] = [None]
        with _told():
            dist.broadcast_object_list(held, src=0, group=self._group)
        what, content = held[0]
        return what, content

    # Rank 0.

    def divide(self, parts: Sequence[Any], keys: Sequence[int | None]) -> None:
        """Give each other process its shard, and the seed of its random numbers where the fit has one."""
        self._send(DIVIDE, None)
        received: list[Any] = [None]
        with _told():
            whole = list(zip(parts, keys, strict=True))
            dist.scatter_object_list(received, whole, src=0, group=self._group)

    def ask(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Let each other process compute ``function(shard, *arguments)``."""
        self._waiting = True
        self._send(ANSWER, (function, arguments))

    def answers(self) -> list[Any]:
        """What the others computed, in the order of their ranks."""
        held: list[Any] = [None] * self.count
        with _told():
            dist.gather_object(None, held, dst=0, group=self._group)
        self._waiting = False
        for rank, (_, error) in enumerate(held[1:], start=1):
            if error is not None:
                raise ProcessError(f"Process {rank} of the fit failed: {error}")
        return [value for value, _ in held[1:]]

    @contextmanager
    def leading(self, result: Callable[[], Any]) -> Iterator[None]:
        """Lead a fit; at its end the others receive the result, or learn that there is none."""
        token = _LEADING.set(self)
        try:
            with self.telling(result):
                yield
        finally:
            _LEADING.reset(token)

    @contextmanager
    def telling(self, result: Callable[[], Any] = lambda: None) -> Iterator[None]:
        """Let the others know how this block ends."""
        try:
            yield
        except BaseException as error:
            self._end(FAILED, " ".join(str(error).split()) or type(error).__name__)
            raise
        else:
            self._end(END, result())

    def begin(self) -> None:
        """Let the others of a command begin to help: see :meth:`follow`."""
        self._send(BEGIN, None)

    def _end(self, what: str, content: Any) -> None:
        if what == FAILED:
            # It ends by itself, and its error must not give way to torchrun's signal.
            _ignore_signal()
        if self._waiting:  # the others find that this one is gone
            return
        try:
            self._send(what, content)
        except ProcessError:
            if what == END:
                raise

    # The other ranks.

    def follow(self, work: Callable[[], Any]) -> None:
        """Do ``work`` when rank 0 begins with it, and end when its command does.

        Raises
        ------
        LedProcessError
            If rank 0 failed: it has an error of its own to print.
        ProcessError
            If it is gone.
        """
        with _interrupts_left_to_the_first():
            what, content = self._receive()
            if what == BEGIN:
                with suppress(InputError, LedProcessError):  # rank 0 has them, too
                    work()
                what, content = self._receive()
            if what == FAILED:
                raise LedProcessError(f"The first process ended the fit: {content}")

    def serve(self, device: torch.device) -> Any:
        """Answer rank 0 until the fit ends; returns its result.

        Raises
        ------
        ProcessError
            If rank 0 failed, or is gone.
        """
        shard: Shard | None = None
        with _interrupts_left_to_the_first():
            while True:
                what, content = self._receive()
                if what == END:
                    return content
                if what == FAILED:
                    raise LedProcessError(f"The first process ended the fit: {content}")
                if what == DIVIDE:
                    shard = self._shard(device)
                    continue
                function, arguments = content
                self._answer(function, shard, arguments)

    def _shard(self, device: torch.device) -> Shard:
        received: list[Any] = [None]
        with _told():
            dist.scatter_object_list(received, None, src=0, group=self._group)
        rows, key = received[0]
        randomness = Randomness(key)
        return Shard(moved_to(rows, device), randomness.noise(), randomness.torch(device))

    def _answer(self, function: Callable[..., Any], shard: Shard | None, arguments: Any) -> None:
        error: BaseException | None = None
        answer: tuple[Any, str | None]
        try:
            answer = function(shard, *arguments), None
        except Exception as raised:
            error, answer = raised, (None, f"{type(raised).__name__}: {raised}")
        with _told():
            dist.gather_object(answer, None, dst=0, group=self._group)
        if error is not None:
            raise ProcessError(f"Process {self.rank} of the fit failed: {error}") from error


_LEADING: ContextVar[Processes | None] = ContextVar("processes", default=None)


def led() -> Processes | None:
    """The processes of the fit that this process leads; None of an ordinary fit."""
    return _LEADING.get()


@contextmanager
def _told() -> Iterator[None]:
    """Errors of torch.distributed in one line."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessError(
            f"Another process of the fit ended, or did not answer in time; {AGAIN} ({str(error).splitlines()[0][:120]})."
        ) from None


@contextmanager
def _interrupts_left_to_the_first() -> Iterator[None]:
    """Ignore Ctrl-C, which all processes get: rank 0 ends the fit and tells the others."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# Rows over ranks.


def assigned(count: int, ranks: int, bits: Bits) -> np.ndarray:
    """The rank of each of ``count`` rows or units, shape (count,): independent of each other, and about uniform.

    The number of a row is drawn for its place, in secret. So the ranks of all other rows have the same law whether or not
    a row is in the table, wherever it is: both tables can be drawn with them on the same ranks.
    """
    return np.frombuffer(bits.bytes(4 * count), dtype="<u4") % np.uint32(ranks)


def divided(
    rows: PrivateInputs | UnitRows, ranks: int, bits: Bits
) -> list[PrivateInputs | UnitRows]:
    """Disjoint shards of all rows, one a rank; a unit is in one of them, with all of its rows."""
    if not isinstance(rows, UnitRows):
        rank = assigned(len(rows), ranks, bits)
        return [rows_at(rows, np.flatnonzero(rank == r)) for r in range(ranks)]
    names, unit = np.unique(rows.units, return_inverse=True)
    rank = assigned(len(names), ranks, bits)[unit]
    numbers = [np.flatnonzero(rank == r) for r in range(ranks)]
    return [UnitRows(rows_at(rows.inputs, own), rows.units[own], rows.most) for own in numbers]


def rows_at(rows: PrivateInputs, numbers: np.ndarray) -> PrivateInputs:
    """The rows of these numbers."""
    if isinstance(rows, WeightedInputs):
        at = torch.from_numpy(numbers).to(rows.codes.device)
        return WeightedInputs(rows.codes[at], rows.parts[at])
    return rows[torch.from_numpy(numbers).to(rows.device)]


def moved_to(rows: PrivateInputs | UnitRows, device: torch.device) -> PrivateInputs | UnitRows:
    """The same rows on a device."""
    if isinstance(rows, UnitRows):
        return UnitRows(moved_to(rows.inputs, device), rows.units, rows.most)
    if isinstance(rows, WeightedInputs):
        return WeightedInputs(rows.codes.to(device), rows.parts.to(device))
    return rows.to(device)  # a Tensor, or what a task has handed out


class SharedTable(ShardedTable):
    """Private rows that several processes hold, each a shard; this one is of rank 0.

    Parameters
    ----------
    rows : Tensor, WeightedInputs or UnitRows
        All of them.
    ledger : Ledger
    processes : Processes
    randomness : Randomness
        Of the assignment, and of the other ranks' batches where the fit is seeded.
    """

    def __init__(
        self, rows: Any, ledger: Ledger, processes: Processes, randomness: Randomness
    ) -> None:
        super().__init__(rows, ledger)
        self.processes, self.shards = processes, processes.count
        self.whole = PrivateTable(rows, ledger)
        self._coins = randomness.noise()
        self._own: PrivateInputs | UnitRows | None = None
        self._streams = [randomness.noise() for _ in range(self.shards)] * randomness.seeded
        self._numbers: dict[int, int] = {}

    def read(self, account: Account, uses: int = 1) -> Any:
        """The rows of this rank, for so many uses of ``account``: charged first; then the others have theirs."""
        rows = super().read(account, uses)
        if self._own is None:
            parts = divided(rows, self.shards, self._coins)
            self._own = parts[0]
            self.hand_out(parts)
        return self._own

    def hand_out(self, parts: Sequence[Any]) -> None:
        """As :meth:`ShardedTable.hand_out`; each other process has new random numbers from then on."""
        keys: list[int | None] = [None] * self.shards
        if self._streams:
            keys = [int.from_bytes(stream.bytes(16), "little") for stream in self._streams]
        on_host = [moved_to(part, torch.device("cpu")) for part in parts[1:]]
        self.processes.divide([None, *on_host], keys)

    def call(self, task: Callable[..., Any], *public: Any) -> None:
        """As :meth:`ShardedTable.call`."""
        self.processes.ask(of_part, task, *public)

    def ask(self, step: PrivateStep, losses: Losses, reference: Sequence[Tensor] | None) -> None:
        """Let the others draw their batches and add up their clipped gradients."""
        known = id(step) in self._numbers
        number = self._numbers.setdefault(id(step), len(self._numbers))
        told = None if reference is None else [r.cpu() for r in reference]
        weights = [p.detach().cpu() for p in step.clipper.parameters]
        state = {**step.state_dict(), "bounds": step.bounds.now.cpu()}
        state.pop("previous", None)
        plan = None if known else StepPlan.of(step)
        self.processes.ask(shard_sums, number, plan, weights, state, losses, told)

    def collect(self) -> list[Any]:
        """What the others answer, in the order of their ranks."""
        return self.processes.answers()


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """What a private step of another rank is made of; all of it is public."""

    module: nn.Module
    mechanism: Mechanism
    rate: float
    expected_batch: float
    in_batch: float
    rule: StepRule
    clipping: Clipping
    physical_batch: int | None
    most_rows: int
    shards: int

    @classmethod
    def of(cls, step: PrivateStep) -> "StepPlan":
        """That of rank 0's."""
        return cls(
            module=copy.deepcopy(step.module).cpu(),
            mechanism=step.account.mechanism,
            rate=step.rate,
            expected_batch=step.expected_batch,
            in_batch=step.in_batch,
            rule=step.rule,
            clipping=step.bounds.clipping,
            physical_batch=step.physical_batch,
            most_rows=step.most_rows,
            shards=step.shards,
        )

    def made(self, shard: Shard) -> PrivateStep:
        """The step of a shard. It is charged by rank 0: its own ledger has no limit, and is thrown away."""
        ledger = Ledger(math.inf, 0.5)
        step = PrivateStep(
            self.module.to(shard.generator.device),
            table=PrivateTable(shard.rows, ledger),
            account=ledger.open("shard", self.mechanism, 1),
            rate=self.rate,
            expected_batch=self.expected_batch,
            expected_rows=self.in_batch,
            generator=shard.generator,
            rule=self.rule,
            clipping=self.clipping,
            physical_batch=self.physical_batch,
            most_rows=self.most_rows,
            bits=shard.bits,
        )
        step.shards = self.shards
        return step


def of_part(shard: Shard, task: Callable[..., Any], *public: Any) -> Any:
    """What a task makes of what this process was handed out."""
    return task(shard.rows, shard.generator, *public)


def shard_sums(
    shard: Shard,
    number: int,
    plan: StepPlan | None,
    weights: Sequence[Tensor],
    state: dict[str, Any],
    losses: Losses,
    reference: Sequence[Tensor] | None,
) -> tuple[list[Tensor], Tensor]:
    """The clipped sums of a Poisson batch of one shard, and the votes on the bounds, without noise."""
    if plan is not None:
        shard.steps[number] = plan.made(shard)
    step = shard.steps[number]
    with torch.no_grad():
        for parameter, value in zip(step.clipper.parameters, weights, strict=True):
            parameter.copy_(value)
    step.load_state_dict(state)
    device = shard.generator.device
    for name, value in list(getattr(losses, "__dict__", {}).items()):
        if isinstance(value, Tensor):
            setattr(losses, name, value.to(device))
    if hasattr(losses, "rng"):
        losses.rng = shard.generator  # its own: other ranks draw other numbers
    taken = None if reference is None else [r.to(device) for r in reference]
    sums, votes = step.sums(shard.rows, losses, taken)
    return [s.cpu() for s in sums], votes.cpu()
