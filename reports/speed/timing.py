"""Times of steps that take turns, and their ratios."""

import statistics
import time

import torch
from settings import Step


def turns(steps: dict[str, Step], count: int, device: str = "cpu") -> dict[str, list[float]]:
    """Return the seconds of each step, each taking its turn; the first turns warm up and do not count.

    On one thread of the CPU they are CPU seconds: what other processes do meanwhile does not count.
    """
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    clock = time.perf_counter
    if device == "cpu" and torch.get_num_threads() == 1:
        clock = time.thread_time
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(count + 3):
        for name, step in steps.items():
            wait()
            started = clock()
            step()
            wait()
            if turn >= 3:
                times[name].append(clock() - started)
    return times


def ratio(times: dict[str, list[float]], over: str, under: str) -> dict[str, float]:
    """Return the ratio of medians, and the quartiles of the ratios within a turn."""
    each = [a / b for a, b in zip(times[over], times[under], strict=True)]
    low, _, high = statistics.quantiles(each, n=4)
    middle = statistics.median(times[over]) / statistics.median(times[under])
    return {"ratio": round(middle, 2), "low": round(low, 2), "high": round(high, 2)}
