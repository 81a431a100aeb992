"""One private step: a gradient from a Poisson batch that the ledger has paid for.

All three release one Poisson-subsampled Gaussian a step, of the same sensitivity: what happens before
the clip is a function of one row and of what is public by then.
"""

import gc
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth._random import keystream
from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, integer, one_of, positive
from tabsynth.encoding.table import Layout
from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting.mechanisms import NoPrivacy, of_sum, steps_of
from tabsynth.privacy.ledger.ledger import Account, PrivateTable, exact, recorder
from tabsynth.privacy.noise.samplers import Bits, uniform
from tabsynth.training.checkpoint import StateDict
from tabsynth.training.clipping import Bounds, Clipping, PerExampleClipper, move_parameters
from tabsynth.training.factors import Losses, OneHotRows
from tabsynth.training.row_by_row import RowByRow, RowByRowClipper
from tabsynth.training.sums import PARTS, TensorNoise, Total
from tabsynth.training.units import UnitPlaces, UnitRows


def poisson_sample(n: int, rate: float, bits: Bits) -> Tensor:
    """Return the row numbers of one Poisson batch: each of ``n`` rows is in, independently, at ``rate``.

    Returns
    -------
    LongTensor, shape (batch,), ascending
        May be empty; an empty batch is a step like any other.

    Notes
    -----
    The rows between two that are in are a geometric number, so the cost follows the size of the batch
    and not that of the table. Drawn in float64, so that the probability is ``rate`` to 2⁻⁵².
    """
    if rate >= 1:
        return torch.arange(n)
    last, parts = -1, [np.empty(0, dtype=np.int64)]
    while last < n - 1:
        mean = (n - 1 - last) * rate
        gaps = _geometric(math.ceil(mean + 4 * math.sqrt(mean)) + 8, rate, bits)
        parts.append(last + gaps.cumsum())
        last = int(parts[-1][-1])
    picked = np.concatenate(parts)
    return torch.from_numpy(picked[: np.searchsorted(picked, n)])


# Parts are its multiples, so that 2²² halves of them add up exactly in float64.
PARTS_STEP = 2.0**-30


CHUNK_ROWS = 8192  # rows of which network inputs are made at a time


@dataclass(frozen=True, eq=False)
class CodedInputs:
    """Private rows as category codes, of which network inputs are made when they are read.

    It is read like a Tensor of shape (n, width): by row numbers, and in parts.

    Attributes
    ----------
    codes : integer Tensor, shape (n, columns)
        It may be mapped to a file: a read then touches the pages of its rows alone.
    layout : Layout
    books : list of Tensor, shape (size, width of its block)
        The codebooks of the layout, on the device of the codes.
    blank : slice, optional
        Inputs that are 0 in all rows.
    """

    codes: Tensor
    layout: Layout
    books: Sequence[Tensor]
    blank: slice | None = None

    @classmethod
    def of(cls, codes: np.ndarray, layout: Layout, device: torch.device) -> "CodedInputs":
        """Return inputs of category codes, shape (n, columns); on the CPU they share the memory of the codes."""
        if (
            device.type != "cpu" and codes.dtype != np.uint8
        ):  # CUDA does not index longer unsigned numbers
            codes = codes.astype(np.int32)
        books = [torch.from_numpy(block.codebook).to(device) for block in layout.blocks]
        return cls(torch.from_numpy(codes).to(device), layout, books)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the inputs."""
        return len(self.codes), self.layout.width

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the inputs."""
        return self.books[0].dtype

    @property
    def device(self) -> torch.device:
        """The device of the codes and of the inputs."""
        return self.codes.device

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        """Return the inputs of rows by their numbers, of the shape of the numbers and a last axis of the width."""
        codes = self.codes[rows]
        out = torch.empty(
            *codes.shape[:-1], self.layout.width, dtype=self.dtype, device=self.device
        )
        for j, (block, book) in enumerate(zip(self.layout.blocks, self.books, strict=True)):
            out[..., block.start : block.stop] = book[codes[..., j].long()]
        if self.blank is not None:
            out[..., self.blank] = 0
        return out

    @property
    def one_hot(self) -> bool:
        """True if all codes are one-hot, and :meth:`batch` is faster than dense inputs: on a CPU."""
        heads = {block.head for block in self.layout.blocks}
        return self.device.type == "cpu" and self.blank is None and heads == {"softmax"}

    def batch(self, rows: Tensor) -> OneHotRows:
        """Return the one-hot inputs of rows by their numbers; of a table without rows, those of any codes."""
        starts = torch.tensor([block.start for block in self.layout.blocks])
        codes = self.codes[rows] if len(self) else torch.zeros(len(rows), len(starts))
        ones = codes.long() + starts
        values = torch.zeros(len(ones), self.layout.width, dtype=self.dtype)
        return OneHotRows(values.scatter_(1, ones, 1.0), ones)

    def split(self, size: int) -> Iterator[Tensor]:
        """Yield the inputs of all rows in parts, as :meth:`torch.Tensor.split` has them."""
        for start in range(0, max(1, len(self)), size):
            yield self[start : start + size]


@dataclass(frozen=True, eq=False)
class WeightedInputs:
    """Network inputs of rows with survey weights.

    Attributes
    ----------
    codes : Tensor, shape (n, width), or CodedInputs
    parts : float64 Tensor, shape (n,)
        Each row's weight over the cap, from 0 to 1, in multiples of ``PARTS_STEP``.
    """

    codes: Tensor | CodedInputs
    parts: Tensor

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)

    @classmethod
    def of(cls, codes: Tensor | CodedInputs, weights: np.ndarray, cap: float) -> "WeightedInputs":
        """Return inputs with the weights of their rows, which the cap bounds."""
        parts = np.floor(np.minimum(weights / cap, 1.0) / PARTS_STEP) * PARTS_STEP
        return cls(codes, torch.from_numpy(parts).to(codes.device))


PrivateInputs = Tensor | CodedInputs | WeightedInputs


def codes_of(rows: PrivateInputs) -> Tensor | CodedInputs:
    """Return the network inputs alone, shape (n, width)."""
    return rows.codes if isinstance(rows, WeightedInputs) else rows


def parts_of(rows: PrivateInputs) -> Tensor | None:
    """Return as how much of a row each row counts, shape (n,); None where each counts as one."""
    return rows.parts if isinstance(rows, WeightedInputs) else None


def reorder(rows: PrivateInputs, order: Sequence[int]) -> PrivateInputs:
    """Return the rows of these numbers, in this order."""
    if isinstance(rows, WeightedInputs):
        codes = reorder(rows.codes, order)
        assert not isinstance(codes, WeightedInputs)
        return WeightedInputs(codes, rows.parts[order])
    if isinstance(rows, CodedInputs):
        return replace(rows, codes=rows.codes[order])
    return rows[order]


class Places:
    """The places of the rows of a batch: of a public number, each drawn at random.

    The rounding of a matrix product depends on its shape and on a row's place in it. Here neither depends on
    how many rows there are: a batch has ``room`` for a public number of rows, and what is not taken is blank.

    Parameters
    ----------
    expected : float
        Expected number of rows, a public number. There are places for eight standard deviations more.
    together : int
        The most rows that come together, of one unit: they take as many places as rows that come alone. Deviations
        are then √m as large, and units of m rows are taken in whole.

    Notes
    -----
    Rows take places by a uniform injection. One restricted to all rows but one is uniform too, so that the
    batches of two neighbouring tables can be drawn together with every common row at the same place, and
    the other row's place blank in one of them. A batch that does not fit (fewer than one in 10¹⁴,
    if the expectation is right) is put in random order and takes further parts; then one common row, the last, has another
    place in the two batches, and what it contributes, still clipped, differs by the rounding of its own
    gradient. That matters where an activation has a kink: a one-hot row often has inputs of a unit that add
    up to 0, of which rounding decides the sign.
    """

    def __init__(self, expected: float, together: int = 1) -> None:
        self.room = int(expected + 8 * (expected * together) ** 0.5) + 8 * together

    def draw(self, count: int, bits: Bits) -> Tensor:
        """Return places of ``count`` rows, LongTensor of shape (count,)."""
        # Keys of 64 bits are different but for one batch of 65,536 rows in some 10¹⁰.
        keys = np.frombuffer(bits.bytes(8 * max(self.room, count)), dtype="<u8")
        return torch.from_numpy(np.argsort(keys)[:count].copy())

    def layout(self, picked: Tensor, places: Tensor) -> Tensor:
        """Return the row numbers by place, −1 where it is blank: LongTensor, a whole number of parts long."""
        parts = max(1, math.ceil(len(picked) / self.room))
        filled = torch.full((parts * self.room,), -1, dtype=torch.int64)
        filled[places] = picked
        return filled


def _geometric(count: int, rate: float, bits: Bits) -> np.ndarray:
    """Draw steps to the next success: P(k) = rate · (1 − rate)^(k − 1) for k from 1."""
    gaps = np.floor(np.log(uniform(count, bits)) / math.log1p(-rate)) + 1
    return np.minimum(gaps, 2**40).astype(np.int64)  # past any table


def critic_scores(critic: nn.Module, rows: Tensor) -> Tensor:
    """Return f(x), shape (batch,)."""
    return critic(rows).squeeze(1)


def minus_scores(critic: nn.Module, rows: Tensor) -> Tensor:
    """Return −f(x), a real row's loss, shape (batch,)."""
    return -critic_scores(critic, rows)


def gradient_penalty(critic: nn.Module, points: Tensor, weight: float) -> Tensor:
    """Return λ(‖∇ₓf(x̂)‖ − 1)², shape (batch,) (Gulrajani et al. 2017, arXiv:1704.00028).

    Parameters
    ----------
    points : Tensor, shape (batch, width)
        x̂: for privacy, a row of it may depend on one private row only.
    weight : float
        λ.
    """
    points = points.detach().requires_grad_()
    scores = critic_scores(critic, points).sum()
    (slope,) = torch.autograd.grad(scores, points, create_graph=True)
    # The root's derivative at 0 is infinite; a tiny floor keeps a flat critic's gradient finite.
    norm = (slope.square().sum(1) + 1e-20).sqrt()
    return weight * (norm - 1).square()


@dataclass(frozen=True, kw_only=True)
class DPSGD:
    """At the weights themselves (Abadi et al. 2016, arXiv:1607.00133)."""

    name = "dp-sgd"


@dataclass(frozen=True, kw_only=True)
class DPSAT:
    """At θ + ρ ĝ/‖ĝ‖, with ĝ the *previous* private gradient (Park et al. 2023).

    ``radius`` is ρ, in units of the weights. The first step is at θ. ĝ is released already, so the
    ascent is free.
    """

    radius: float = 0.03
    name = "dp-sat"

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        positive("radius", self.radius)


@dataclass(frozen=True, kw_only=True)
class BAM:
    """At θ + λ gᵢ/‖gᵢ‖, each row's weights moved along the row's own gradient (Knolle et al. 2023).

    ``radius`` is λ, in units of the weights. The ascent is inside the per-row map, so it is free; one
    along the batch's mean would not be. A row without gradient is not moved.

    The gradient at the moved weights is computed exactly, up to rounding. It is *not* the exact gradient
    of the bias-aware objective L + λ‖gᵢ‖, which is gᵢ + λ Hᵢ gᵢ/‖gᵢ‖ with Hᵢ the Hessian of the row's loss
    (the paper's equation 13). It approximates it to first order in λ where the loss is smooth, as the
    paper's Algorithm 2 does (equation 14). ``reports/bias`` compares the cost and the results of both.

    NOTE[DIFF] The gradient at the moved weights takes two ordinary passes: a row's own gradient is a sum
    of outer products, and so is the move of its weights. The paper gives no closed form.
    NOTE[DIFF] The gradient at the moved weights is that of L, as in the paper's text; line 5 of its
    Algorithm 2 prints the gradient of the penalised loss. Its per-row factor is clipped as
    max(1, ‖g‖/C), which the paper misprints, and noise is added once, to the sum.
    """

    radius: float = 0.01
    name = "bam"

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        positive("radius", self.radius)


StepRule = DPSGD | DPSAT | BAM
STEP_RULES: dict[str, type[StepRule]] = {rule.name: rule for rule in (DPSGD, DPSAT, BAM)}


def describe_rule(rule: StepRule) -> JsonObject:
    """Return what a certificate says of a rule: its name, and its radius where it has one."""
    radius = {} if isinstance(rule, DPSGD) else {"radius": rule.radius}
    return {"step_rule": rule.name, **radius}


def step_rule(name: str, radius: float | None = None) -> StepRule:
    """Return a step rule by its name: ``dp-sgd``, ``dp-sat`` or ``bam``; ``radius`` is ρ or λ."""
    one_of("step_rule", name, STEP_RULES)
    if name == DPSGD.name:
        return DPSGD()
    rule = DPSAT if name == DPSAT.name else BAM
    return rule() if radius is None else rule(radius=radius)


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """The private steps of a network. All of it is public.

    Attributes
    ----------
    count : int
        The number of steps; each is charged.
    sampling_rate : float
        q, the chance of a row to be in a batch; of a unit of several rows, with all of them.
    rule, radius : str, float or None
        ``dp-sgd``, ``dp-sat`` or ``bam``, with its radius (None: the rule's own).
    """

    count: int
    sampling_rate: float = 0.05
    rule: str = "dp-sgd"
    radius: float | None = None

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        integer("step.count", self.count)
        in_range("step.sampling_rate", self.sampling_rate, 0, 1, low_open=True)
        self.step_rule()

    def step_rule(self) -> StepRule:
        """Return the step rule, as :class:`PrivateStep` takes it."""
        return step_rule(self.rule, self.radius)


# torch refuses to read a precision that was set by the other of its two ways; the second is of 2.9.
LEGACY = not hasattr(torch.backends.cuda.matmul, "fp32_precision")
CUDA_GRAPHS = "TABSYNTH_CUDA_GRAPHS"  # an environment variable; with 0 no step is recorded
ORDINARY_CALLS = 3  # before the recording: libraries set themselves up in them


class Captured:
    """A function of tensors that stay in place, recorded as a CUDA graph after a few ordinary calls.

    Parameters
    ----------
    body : callable
        Reads and writes the same tensors at each call, never waits for the device, and returns its
        output tensors.
    generators : sequence of torch.Generator
        Those that it draws from.

    Notes
    -----
    The ordinary calls are calls like any other, and recording runs nothing: each call runs the body
    once. A replay runs no Python: it writes to the output tensors of the recording, and those are what
    a call returns. Elsewhere than on CUDA the body is just called, and so it is where a recording fails.
    """

    def __init__(
        self, body: Callable[[], list[Tensor]], generators: Sequence[torch.Generator]
    ) -> None:
        self.body, self.generators = body, [g for g in generators if g.device.type == "cuda"]
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.failed = False
        self.outputs: list[Tensor] = []

    def __call__(self, device: torch.device) -> list[Tensor]:
        """Run the body once; returns its outputs."""
        self.calls += 1
        if device.type != "cuda" or self.failed:
            self.outputs = self.body()
        elif self.calls <= ORDINARY_CALLS:
            stream = torch.cuda.Stream(device)
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream):
                self.outputs = self.body()
            torch.cuda.current_stream(device).wait_stream(stream)
        else:
            if self.graph is None:
                self._record()
            if self.graph is None:
                self.outputs = self.body()
            else:
                self.graph.replay()
        return self.outputs

    def _record(self) -> None:
        """Record the body, which runs nothing; where that fails, warn, and leave the generators as they were."""
        before = [generator.clone_state() for generator in self.generators]
        try:
            graph = torch.cuda.CUDAGraph()
            for generator in dict.fromkeys(self.generators):
                graph.register_generator_state(generator)
            # What other threads do on the device does not spoil the recording.
            recording = torch.cuda.graph(graph, capture_error_mode="thread_local")
            with no_collection(), recording:
                self.outputs = self.body()
            self.graph = graph
        except RuntimeError as error:
            self.failed = True
            for generator, state in zip(self.generators, before, strict=True):
                generator.graphsafe_set_state(state)
            warnings.warn(
                f"Steps run without a CUDA graph, and take longer: {str(error).splitlines()[0]}",
                RuntimeWarning,
                stacklevel=2,
            )


class Slots:
    """A batch of fixed size on the device: row numbers, and which of them count.

    Parameters
    ----------
    size : int
    device : torch.device
    """

    def __init__(self, size: int, device: torch.device) -> None:
        self._layout = torch.zeros(size, dtype=torch.int64, device=device)

    @property
    def rows(self) -> Tensor:
        """The row numbers, of any row where there is none."""
        return self._layout.clamp_min(0)

    @property
    def keep(self) -> Tensor:
        """The places that have a row, as bool."""
        return self._layout >= 0

    def fill(self, layout: Tensor) -> None:
        """Take the row numbers of a batch, −1 where there is none, from the host, without waiting for the device."""
        if self._layout.device.type == "cuda":
            layout = layout.pin_memory()
        self._layout.copy_(layout, non_blocking=True)


@contextmanager
def no_collection() -> Iterator[None]:
    """Suspend garbage collection: a recording that it finds would be freed on the device, which spoils the one in progress."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _products_in(precision: str, *devices: str) -> Iterator[None]:
    """Compute float32 matrix products of ``cuda`` or ``mkldnn`` (the CPU) in a precision, and restore what a caller has set."""
    backends = [getattr(torch.backends, name).matmul for name in devices if not LEGACY]
    before = [backend.fp32_precision for backend in backends]
    legacy = torch.get_float32_matmul_precision() if LEGACY else None
    try:
        if legacy is not None:
            torch.set_float32_matmul_precision("highest" if precision == "ieee" else "high")
        for backend in backends:
            backend.fp32_precision = precision
        if any(backend.fp32_precision != precision for backend in backends):
            raise InputError(
                "torch does not compute float32 matrix products in full precision, which private steps need;"
                " set torch.backends.fp32_precision = 'ieee', or leave it as it was."
            )
        yield
    finally:
        if legacy is not None:
            torch.set_float32_matmul_precision(legacy)
        for backend, value in zip(backends, before, strict=True):
            backend.fp32_precision = "none"  # as of torch.backends.fp32_precision
            if backend.fp32_precision != value:
                backend.fp32_precision = value


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Keep matrix products as they are in float32, whatever a caller has switched on: in private sums."""
    with _products_in("ieee", "cuda", "mkldnn"):
        if device.type in ("cpu", "cuda"):
            with torch.autocast(device.type, enabled=False):
                yield
        else:  # has no autocast
            yield


@contextmanager
def tf32(device: torch.device) -> Iterator[None]:
    """Allow matrix products in TF32, where it is harmless: in public computations, on CUDA.

    Not in a private sum: its factors would be rounded to 11 bits after their norms were taken, so
    that a row could pass its bound.
    """
    if device.type != "cuda":
        yield
        return
    with _products_in("tf32", "cuda"):
        yield


MOST_ROUNDING = 0.25  # of a bound: a reference whose rounding could take more of it is not used


@dataclass
class Terms:
    """The terms of a step besides the private rows: losses, and what is public."""

    losses: Losses
    public_losses: Losses
    public: Tensor | None
    correction: Sequence[Tensor] | None
    restored: bool

    def like(self, other: "Terms") -> bool:
        """Return whether the other step is the same but for the values of its tensors."""
        return self._shape() == other._shape()

    def _shape(self) -> tuple[Any, ...]:
        public = None if self.public is None else self.public.shape
        return self.losses, self.public_losses, public, self.correction is None, self.restored

    def copy(self) -> "Terms":
        """Return the same with tensors of its own."""
        copied = replace(self)
        copied.public = None if self.public is None else self.public.clone()
        copied.correction = (
            None if self.correction is None else [t.clone() for t in self.correction]
        )
        return copied

    def take(self, other: "Terms") -> None:
        """Take the values of the other's tensors."""
        if self.public is not None and other.public is not None:
            self.public.copy_(other.public)
        if self.correction is not None and other.correction is not None:
            torch._foreach_copy_(list(self.correction), list(other.correction))

    def generators(self) -> list[torch.Generator]:
        """Return what the losses draw from."""
        generators = [getattr(losses, "rng", None) for losses in (self.losses, self.public_losses)]
        return [rng for rng in generators if rng is not None]


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The Poisson batches of a private step; all of it is public.

    Attributes
    ----------
    rate : float
        q, the chance of a row, or of a unit, to be in a batch: what the account's mechanism says.
    expected_batch : float
        The divisor: a public number near rate · n, with n the number of rows; never the size of the batch drawn. Of
        weighted rows, near rate · Σ aᵢ.
    expected_rows : float, optional
        The expected number of rows in a batch; by default the divisor.
    max_rows_per_unit : int
        1 where each row is a unit.
    """

    rate: float
    expected_batch: float
    expected_rows: float | None = None
    max_rows_per_unit: int = 1

    def places(self) -> Places:
        """Return the places of the rows of a batch."""
        rows = self.expected_batch if self.expected_rows is None else self.expected_rows
        return Places(rows, self.max_rows_per_unit)


class PrivateStep:
    """Private gradients of a module over a guarded table; any torch optimiser may follow.

    Parameters
    ----------
    module : nn.Module
    table : PrivateTable of Tensor, shape (n, width), of CodedInputs, of WeightedInputs, or of UnitRows
        On the module's device.
    account : Account
        Pays for one step at a time; gives the noise multiplier.
    batches : Batches
    generator : torch.Generator
        On the module's device. Draws noise on a GPU.
    rule : DPSGD, DPSAT or BAM
    clipping : Clipping
    bits : Bits, optional
        Of batches, and of noise on the CPU. By default a keystream whose key ``generator`` draws.

    Formal guarantees
    -----------------
    A step releases Σ aᵢ clip(gᵢ − r) + noise over a Poisson sample: one Poisson-subsampled Gaussian of
    the account's multiplier, whatever the bounds, groups and r, which follow from public rows and
    earlier releases. aᵢ is 1, or of weighted rows the weight over its cap, wᵢ / W: a row adds at most aᵢ C ≤ C. It holds for the floating-point sum that is released, at every batch size and scale of
    weights and rows: see :mod:`tabsynth.training.sums`. The account is asked before the rows are read. An
    empty batch is a step.

    Of a table of units, the sample is one of units, each with all of its rows, and a unit's term is the clipped sum of
    its rows' aᵢ(gᵢ − r). A unit more or less is then one term more or less, of norm C at most, and is in a batch with
    chance q, however many rows it has: the guarantee is that of units. Their number need not be known.

    Notes
    -----
    Weights could also lower the rates: row i is in a batch at rate q wᵢ / W, and counts fully. That is as private, for
    with q′ ≤ q the pair N(0, σ²), (1 − q′) N(0, σ²) + q′ N(C, σ²) is a mixture of the pair at q with identical
    distributions, and hockey-stick divergences are jointly convex (the argument for heterogeneous rates is that of
    Balle, Barthe and Gaboardi 2018, arXiv:1807.01647, for one row). But it has more variance. Both estimate
    Σ aᵢ gᵢ / A, A = Σ aᵢ, by a sum over qA: at one q the Gaussian noise is the same, σ²C² / (qA)² for each weight of
    the network, and of sampling the sum has (1 − q)/q · Σ aᵢ² gᵢ² / A², and the lower rates Σ (aᵢ/q − aᵢ²) gᵢ² / A².
    The second is the larger, by Σ aᵢ(1 − aᵢ) gᵢ² / (q A²), and it does not vanish at q = 1. So sums are weighted.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        table: PrivateTable[Any],
        account: Account,
        batches: Batches,
        generator: torch.Generator,
        rule: StepRule | None = None,
        clipping: Clipping | None = None,
        bits: Bits | None = None,
    ) -> None:
        rate, most_rows = batches.rate, batches.max_rows_per_unit
        sigma, accounted, _ = steps_of(of_sum(account.mechanism), 1)
        self.private = not isinstance(account.mechanism, NoPrivacy)
        if self.private and rate != accounted:
            raise BudgetError(f"batches at rate {rate} cannot be paid as rate {accounted}")
        self.rule = rule if rule is not None else DPSGD()
        ascent = self.rule.radius if isinstance(self.rule, BAM) else 0.0
        row_by_row = isinstance(module, RowByRow)
        make = RowByRowClipper if row_by_row else PerExampleClipper
        self.clipper = make(module, ascent=ascent, rows=most_rows)
        clipping = clipping if clipping is not None else Clipping()
        self.bounds = Bounds(clipping, self.clipper, sigma)
        self.table, self.account, self.generator = table, account, generator
        self.rate, self.expected_batch = rate, batches.expected_batch
        self.noise = TensorNoise(keystream(generator) if bits is None else bits, generator)
        self._previous: list[Tensor] | None = None
        self.places = batches.places()
        self._slots: Slots | None = None
        self._recorded: tuple[Terms, Captured] | None = None
        self.recorded = os.environ.get(CUDA_GRAPHS) != "0" and not row_by_row

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
            Public or generated rows: the other side of a critic's loss. Their mean gradient is
            subtracted from each private row's *before* clipping, so that the sum is that of the difference, and
            their norms may set the bounds.
        public_losses : callable, optional
            The loss of public rows, where it is another one.
        correction : sequence of Tensor, optional
            A public gradient that is added after the noise.
        restored : bool
            Add the public rows' mean gradient back after the noise, where it was subtracted.

        NOTE[DIFF] Xie et al. pair each real row with one generated row. Against the mean of many,
        the differences are shorter: what all rows share (the last bias above all) needs no noise,
        and a batch that happens to be large does not push the critic.
        """
        bounds = self.bounds
        if public is None and bounds.clipping.bound == "public":
            raise ValueError("bounds from public rows need public rows")
        private = self.table.read(self.account)
        terms = Terms(losses, public_losses or losses, public, correction, restored)
        if isinstance(private, UnitRows):
            self._set(self._step_of_units(terms, private))
            return
        rows, parts = codes_of(private), parts_of(private)
        layout = self._layout(len(rows))
        if self._in_place(rows) and len(layout) == self.places.room:
            gradient = self._replay(terms, rows, parts, layout)
        else:
            of_batch = None if parts is None else _at_places(parts, layout)
            gradient = self._step(terms, *_laid_out(rows, layout), of_batch)
        self._set(gradient)

    def _set(self, gradient: list[Tensor]) -> None:
        for parameter, value in zip(self.clipper.parameters, gradient, strict=True):
            parameter.grad = value

    def _step(
        self,
        terms: Terms,
        batch: Tensor | OneHotRows,
        keep: Tensor,
        parts: Tensor | None = None,
        units: UnitPlaces | None = None,
    ) -> list[Tensor]:
        """Make all of a step but the draw of its batch; nothing in it waits for the device."""
        with self._at_moved_weights(), full_precision(batch.device):
            reference = self._reference(terms)
            sums = self.clipped_sums(terms.losses, batch, keep, reference, parts, units)
        sums = self._pass_recorder(sums)
        gradient = self.noisy_mean(sums)
        for public in (terms.correction, reference if terms.restored else None):
            if public is not None:
                torch._foreach_add_(gradient, list(public))
        if isinstance(self.rule, DPSAT):
            if self._previous is None:
                self._previous = [value.clone() for value in gradient]
            else:
                torch._foreach_copy_(self._previous, gradient)
        return gradient

    def _layout(self, rows: int) -> Tensor:
        """Draw the rows of a Poisson batch by place, -1 where it is blank."""
        trace = recorder()
        if trace is not None and self.private:
            picked = trace.batch(rows, self.rate, self.generator)
            return self.places.layout(picked, trace.places(self.places.room))
        picked = poisson_sample(rows, self.rate, self.noise.bits)
        return self.places.layout(picked, self.places.draw(len(picked), self.noise.bits))

    def _step_of_units(self, terms: Terms, rows: UnitRows) -> list[Tensor]:
        """Take a step over units."""
        layout, units = self._layout_of_units(rows)
        batch, keep = _laid_out(codes_of(rows.inputs), layout)
        parts = parts_of(rows.inputs)
        if parts is not None:
            parts = _at_places(parts, layout)
        return self._step(terms, batch, keep, parts, units.to(batch.device))

    def _layout_of_units(self, rows: UnitRows) -> tuple[Tensor, UnitPlaces]:
        """Draw the rows of a Poisson batch of units by place, -1 where it is blank, and where each unit's rows are.

        A batch that does not fit goes through the network at once.
        """
        trace = recorder()
        if trace is not None and self.private:
            picked, counts = rows.of(trace.batch(rows.count, self.rate, self.generator))
            places = trace.places(self.places.room, counts)
        else:
            picked, counts = rows.of(poisson_sample(rows.count, self.rate, self.noise.bits))
            places = self.places.draw(len(picked), self.noise.bits)
        layout = self.places.layout(picked, places)
        return layout, UnitPlaces.of(counts, places, len(layout), rows.most)

    def _pass_recorder(self, sums: list[Tensor]) -> list[Tensor]:
        """Return all that a step releases, past an audit's recorder if there is one."""
        if recorder() is None or not self.private:
            return sums  # the standard deviations would wait for the device
        scales, units = self.bounds.noise_scales().tolist(), self.bounds.units()
        groups = self.clipper.groups
        stds, each = [scales[j] for j in groups], [units[j] for j in groups]
        return exact(self.account, sums, stds, units=each)

    def _in_place(self, rows: Tensor | CodedInputs) -> bool:
        """Return whether steps have one shape, so that they can be recorded: on CUDA."""
        # An audit's recorder looks into each step.
        return self.recorded and rows.device.type == "cuda" and len(rows) > 0 and recorder() is None

    def _replay(
        self, terms: Terms, rows: Tensor | CodedInputs, parts: Tensor | None, layout: Tensor
    ) -> list[Tensor]:
        """Take a step on tensors that stay in place, recorded for the losses that it is called with."""
        slots = self._slots = self._slots or Slots(self.places.room, rows.device)
        slots.fill(layout)
        if self._recorded is None or not self._recorded[0].like(terms):
            copied = terms.copy()
            draws = [self.generator, *copied.generators()]

            def body() -> list[Tensor]:
                of_batch = None if parts is None else parts[slots.rows]
                return self._step(copied, rows[slots.rows], slots.keep, of_batch)

            self._recorded = copied, Captured(body, draws)
        else:
            self._recorded[0].take(terms)
        return self._recorded[1](rows.device)

    def _reference(self, terms: Terms) -> list[Tensor] | None:
        losses, public = terms.public_losses, terms.public
        if public is None:
            return None
        if self.bounds.clipping.centred:
            reference, norms = self.clipper.reference(losses, public)
        else:
            reference, norms = None, self.clipper.norms(losses, public)
        self.bounds.follow(norms)
        if reference is None or not self.private:
            return reference
        # A reference so large that its rounding would take much of the bound is not subtracted at all.
        bounds = self.bounds.now.double()
        slack, _ = self.clipper.rounding(bounds, reference, self.places.room)
        small = (slack <= MOST_ROUNDING * bounds).all()
        if small.device.type == "cpu" and bool(small):
            return reference
        return [torch.where(small, r, torch.zeros_like(r)) for r in reference]

    def clipped_sums(
        self,
        losses: Losses,
        batch: Tensor | OneHotRows,
        keep: Tensor,
        reference: list[Tensor] | None,
        parts: Tensor | None = None,
        units: UnitPlaces | None = None,
    ) -> list[Tensor]:
        """Return Σ aᵢ clip(gᵢ − r) in float64."""
        # Without privacy nothing is clipped: an ordinary mean gradient.
        bounds: Tensor | float = math.inf
        if self.private:
            spare = self.bounds.noise_rounding()
            if len(batch) > self.places.room:
                spare += PARTS * len(batch)
            bounds = self.bounds.now.double() * (1 - spare)
        if units is not None:
            return self.clipper.clipped_sum(losses, batch, bounds, reference, keep, parts, units)
        size = self.places.room
        shares = [None] * len(keep.split(size)) if parts is None else parts.split(size)
        total: Total | None = None
        for part, here, share in zip(batch.split(size), keep.split(size), shares, strict=True):
            sums = self.clipper.clipped_sum(losses, part, bounds, reference, here, share)
            if total is None:
                total = Total(sums)
            else:
                total.add(sums)
        assert total is not None
        return total.value()

    def noisy_mean(self, sums: list[Tensor]) -> list[Tensor]:
        """Return (Σ + noise) / expected batch, in the dtype of the parameters."""
        if self.private:
            sums = self.noise.add(sums, self.bounds.noise_scales(), self.clipper.groups)
        torch._foreach_div_(sums, float(self.expected_batch))
        return [s.to(p.dtype) for s, p in zip(sums, self.clipper.parameters, strict=True)]

    @contextmanager
    def _at_moved_weights(self) -> Iterator[None]:
        """Move the weights along the previous private gradient, and back."""
        if not isinstance(self.rule, DPSAT) or self._previous is None:
            yield
            return
        norm = torch.stack([g.norm() for g in self._previous]).norm().clamp_min(1e-30)
        step = self.rule.radius / norm
        with move_parameters(self.clipper.parameters, [g * step for g in self._previous]):
            yield

    def state_dict(self) -> StateDict:
        """Return what the next step needs besides the module: all of it released already."""
        state: StateDict = {"bounds": self.bounds.now.clone()}
        if self._previous is not None:
            state["previous"] = {str(i): g.clone() for i, g in enumerate(self._previous)}
        return state

    def load_state_dict(self, state: StateDict) -> None:
        """Invert :meth:`state_dict`."""
        self._recorded = None  # it wrote to the tensors of before
        self.bounds.now = state["bounds"].to(self.bounds.now, copy=True)
        previous = state.get("previous")
        if previous is not None:
            parameters = enumerate(self.clipper.parameters)
            self._previous = [previous[str(i)].to(p.detach(), copy=True) for i, p in parameters]


def _laid_out(rows: Tensor | CodedInputs, layout: Tensor) -> tuple[Tensor | OneHotRows, Tensor]:
    """Return the rows at their places, any row where it is blank, and which places are taken."""
    keep = (layout >= 0).to(rows.device, non_blocking=True)
    if isinstance(rows, CodedInputs) and rows.one_hot:
        return rows.batch(layout.clamp_min(0).to(rows.device, non_blocking=True)), keep
    return _at_places(rows, layout), keep


def _at_places(rows: Tensor | CodedInputs, layout: Tensor) -> Tensor:
    """Return the rows at their places, any row where it is blank."""
    if len(rows) == 0:
        shape = len(layout), *rows.shape[1:]
        return torch.zeros(shape, dtype=rows.dtype, device=rows.device)
    return rows[layout.clamp_min(0).to(rows.device, non_blocking=True)]
