"""Curves of a training: what a report shows of it. Of generated rows only (R18)."""

import math
from typing import Any

from torch import Tensor


class Curves:
    """Values at steps, by name. Tensors are brought from their device when the curves are read."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[int, Tensor | float]]] = {}

    def note(self, name: str, step: int, value: Tensor | float) -> None:
        """Add a point."""
        self._held.setdefault(name, []).append((step, value))

    def to_dict(self) -> dict[str, dict[str, list[float]]]:
        """``{name: {"step": […], "value": […]}}``, JSON-ready: values that diverged are left out."""
        out: dict[str, dict[str, list[float]]] = {}
        for name, points in self._held.items():
            found = [(step, float(value)) for step, value in points]
            finite = [(step, value) for step, value in found if math.isfinite(value)]
            if finite:
                out[name] = {"step": [s for s, _ in finite], "value": [v for _, v in finite]}
        return out

    def state_dict(self) -> dict[str, Any]:
        """The curves so far."""
        return self.to_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self._held = {
            name: list(zip(curve["step"], curve["value"], strict=True))
            for name, curve in state.items()
        }
