"""The mean of a network's weights as it trains."""

import copy
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from tabsynth.training.states import Stateful

Module = TypeVar("Module", bound=nn.Module)


class WeightAverage(Stateful, Generic[Module]):
    """Exponential mean of a module's weights and buffers over its steps.

    Weighs as Adam's moments do after their correction: the weights of before the first step count for
    nothing, however short the training is. Whole numbers (a BatchNorm's count) are taken as they are.

    Parameters
    ----------
    module : nn.Module
    decay : float
        0 takes the last weights.
    """

    def __init__(self, module: Module, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.module = copy.deepcopy(module)

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take in the weights of ``module`` after one of its steps."""
        self.updates += 1
        taken = (1 - self.decay) / (1 - self.decay**self.updates)
        now = module.state_dict().values()
        for mean, value in zip(self.module.state_dict().values(), now, strict=True):
            if mean.is_floating_point():
                mean.lerp_(value, taken)
            else:
                mean.copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """The mean, and of how many steps."""
        return {"updates": self.updates, "module": self.module.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.updates = int(state["updates"])
        self.module.load_state_dict(state["module"])
