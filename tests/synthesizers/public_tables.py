"""Tables of one population, for tests of public tables."""

import numpy as np

from tabsynth import Schema
from tabsynth.schema import Column

SIZES = (5, 4, 3, 6)
SCHEMA = Schema(
    [
        Column(name=name, kind="ordinal", dtype="int64", categories=tuple(range(size)))
        for name, size in zip("abcd", SIZES, strict=True)
    ]
)


def drawn(n: int, seed: int, sharp: float = 0.8) -> np.ndarray:
    """Codes of rows, shape (n, 4): columns that follow the first one, each with the chance ``sharp``."""
    rng = np.random.default_rng(seed)
    first = rng.choice(5, n, p=[0.35, 0.25, 0.2, 0.15, 0.05])
    follows = rng.random((n, 3)) < sharp
    others = np.stack([first % s for s in SIZES[1:]], axis=1)
    free = np.stack([rng.integers(0, s, n) for s in SIZES[1:]], axis=1)
    return np.column_stack([first, np.where(follows, others, free)])
