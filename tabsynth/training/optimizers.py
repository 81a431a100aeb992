"""Optimisers by name, a schedule of their rate, and what a stage of training has to keep to go on from where it was."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tabsynth._validate import one_of
from tabsynth.training.states import Stateful

Betas = tuple[float, float]
WARM_UP = 0.3  # share of the steps of a one-cycle schedule in which the rate grows

# After the noise, any optimiser is post-processing: it costs nothing.
OPTIMIZERS: dict[str, Callable[[list[Tensor], float, Betas], Optimizer]] = {
    "sgd": lambda p, lr, _: torch.optim.SGD(p, lr=lr),
    "rmsprop": lambda p, lr, _: torch.optim.RMSprop(p, lr=lr),
    "adam": lambda p, lr, betas: torch.optim.Adam(p, lr=lr, betas=betas),
    "nadam": lambda p, lr, betas: torch.optim.NAdam(p, lr=lr, betas=betas),
}


def optimizer(
    name: str, parameters: Iterable[Tensor], lr: float, betas: Betas, *, fused: bool = False
) -> Optimizer:
    """The optimiser called ``name``; ``betas`` are those of the Adam family.

    ``fused``: Adam in one pass over the weights, for many of them.
    """
    one_of("optimizer", name, tuple(OPTIMIZERS))
    if fused and name == "adam":
        return torch.optim.Adam(list(parameters), lr=lr, betas=betas, fused=True)
    return OPTIMIZERS[name](list(parameters), lr, betas)


def one_cycle(t: float) -> float:
    """Learning rate over its highest, at share ``t`` of the steps (Smith & Topin 2017)."""
    if t < WARM_UP:
        return 0.04 + 0.96 * (1 - math.cos(math.pi * t / WARM_UP)) / 2
    return (1 + math.cos(math.pi * (t - WARM_UP) / (1 - WARM_UP))) / 2


class State:
    """The parts of a stage as one, for a checkpoint."""

    def __init__(self, **parts: Stateful) -> None:
        self.parts = parts

    def state_dict(self) -> dict[str, Any]:
        """The state of every part, by name."""
        return {name: dict(part.state_dict()) for name, part in self.parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
