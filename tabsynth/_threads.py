"""The threads that torch and BLAS compute with: one, and more where a step computes many numbers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch
from threadpoolctl import ThreadpoolController

SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Numbers that a step computes at once, for each thread after the first. With fewer, a second thread brings at most 1.5 times
# the speed on two idle cores, and on busy ones a tenth of it: threads wait for each other after every operation.
NUMBERS = 2**20
_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def limit_threads(numbers: int = 0) -> Iterator[None]:
    """Limit the threads of torch and BLAS to as many as are worth it for a step of so many numbers; restore them at the end.

    A number of threads that the user has set stays. An inner limit takes the place of an outer one.
    """
    most = _most.get()
    if most is None and are_set():
        yield
        return
    most = most or torch.get_num_threads()
    token = _most.set(most)
    try:
        with _pools().limit(limits=min(most, 1 + numbers // NUMBERS)):
            yield
    finally:
        _most.reset(token)


def are_set() -> bool:
    """Return whether the user has set the number of threads, by the environment or in torch.

    torch's default, all cores or half of them where each has two threads, is not seen as set.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    defaults = (cores, (cores or 1) // 2)
    return any(map(os.environ.get, SETTINGS)) or torch.get_num_threads() not in defaults


@cache
def _pools() -> ThreadpoolController:
    """Return the thread pools of the libraries that torch and numpy have loaded."""
    return ThreadpoolController()
