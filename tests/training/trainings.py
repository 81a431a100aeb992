"""Tiny trainings and their checkpoints, for tests."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.training.checkpoint import Checkpoint

FULL = Gaussian(noise_multiplier=100.0)
FIT = {"method": "m", "config": {"steps": 5, "hidden": [3, 4]}, "encoding": "one-hot"}


def opened(path: Path, *, every: float = 1e-9, **fit: Any) -> Checkpoint:
    return Checkpoint(path, epsilon=5.0, delta=1e-5, fit={**FIT, **fit}, every=every)


class Network:
    """A tiny training: its weights count the steps that led to them."""

    def __init__(self) -> None:
        self.layer = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(self.layer.weight)
        self.moves = torch.optim.Adam(self.layer.parameters(), lr=0.1)
        self.log: list[int] = []

    def step(self, i: int) -> None:
        self.layer.weight.grad = torch.ones_like(self.layer.weight)
        self.moves.step()
        self.log.append(i)

    def state_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer.state_dict(),
            "moves": self.moves.state_dict(),
            "log": self.log,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.layer.load_state_dict(state["layer"])
        self.moves.load_state_dict(state["moves"])
        self.log = state["log"]
