"""On CUDA: a step recorded once and replayed, so that Python and its launches cost nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

ORDINARY_CALLS = 3  # before the recording: libraries set themselves up in them


class Captured:
    """A function of tensors that stay in place, recorded as a CUDA graph after a few ordinary calls.

    Parameters
    ----------
    body : callable
        Reads and writes the same tensors at each call, never waits for the device, and returns the
        tensors that it made.
    generators : sequence of torch.Generator
        Those that it draws from.

    Notes
    -----
    The ordinary calls are calls like any other, and recording runs nothing: each call runs the body
    once. A replay runs no Python: it writes to the tensors that the recording made, and those are what
    a call returns. Elsewhere than on CUDA the body is just called.
    """

    def __init__(
        self, body: Callable[[], list[Tensor]], generators: Sequence[torch.Generator]
    ) -> None:
        self.body, self.generators = body, [g for g in generators if g.device.type == "cuda"]
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.made: list[Tensor] = []

    def __call__(self, device: torch.device) -> list[Tensor]:
        """Run the body once; what it made."""
        self.calls += 1
        if device.type != "cuda":
            self.made = self.body()
        elif self.calls <= ORDINARY_CALLS:
            stream = torch.cuda.Stream(device)
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream):
                self.made = self.body()
            torch.cuda.current_stream(device).wait_stream(stream)
        else:
            if self.graph is None:
                self.graph = torch.cuda.CUDAGraph()
                for generator in dict.fromkeys(self.generators):
                    self.graph.register_generator_state(generator)
                with torch.cuda.graph(self.graph):
                    self.made = self.body()
            self.graph.replay()
        return self.made


class Slots:
    """A batch of fixed size on the device: row numbers, and which of them count.

    Parameters
    ----------
    size : int
    device : torch.device
    """

    def __init__(self, size: int, device: torch.device) -> None:
        self.rows = torch.zeros(size, dtype=torch.int64, device=device)
        self.keep = torch.zeros(size, dtype=torch.bool, device=device)

    def fill(self, layout: Tensor) -> None:
        """Row numbers of a batch, −1 where there is none, from the host, without waiting for the device."""
        rows, keep = layout.clamp_min(0), layout >= 0
        if self.rows.device.type == "cuda":
            rows, keep = rows.pin_memory(), keep.pin_memory()
        self.rows.copy_(rows, non_blocking=True)
        self.keep.copy_(keep, non_blocking=True)


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Matrix products as they are in float32, whatever a caller has switched on: in private sums."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        if device.type in ("cpu", "cuda"):
            with torch.autocast(device.type, enabled=False):
                yield
        else:  # has no autocast
            yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def tf32(device: torch.device) -> Iterator[None]:
    """Matrix products in TF32, where it is harmless: in public computations, on CUDA.

    Not in a private sum: its factors would be rounded to 11 bits after their norms were taken, so
    that a row could pass its bound.
    """
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
