"""Where each column's block lies in a row of codes: the hinge between encoders and networks."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Head = Literal["softmax", "sigmoid"]


@dataclass(frozen=True, eq=False)
class Block:
    """The codes of one column.

    Attributes
    ----------
    column : str
    start, stop : int
        The block is ``codes[:, start:stop]``.
    head : {"softmax", "sigmoid"}
        What a network ends with to make such a block: a softmax where the code is one-hot, else a
        sigmoid per entry.
    codebook : ndarray, shape (size, stop - start), float32 in [0, 1]
        Row ``i`` is the code of the column's value number ``i``.
    """

    column: str
    start: int
    stop: int
    head: Head
    codebook: np.ndarray

    @property
    def size(self) -> int:
        """Number of values of the column."""
        return len(self.codebook)


@dataclass(frozen=True, eq=False)
class Layout:
    """The blocks of a table, side by side. A function of the schema and the scheme alone (R12)."""

    blocks: tuple[Block, ...]

    @property
    def width(self) -> int:
        """Length of a row of codes."""
        return self.blocks[-1].stop

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each column."""
        return tuple(block.size for block in self.blocks)

    def encode(self, index: np.ndarray) -> np.ndarray:
        """Codes, shape (n, width) float32, of value numbers, shape (n, columns)."""
        parts = [block.codebook[index[:, j]] for j, block in enumerate(self.blocks)]
        return np.concatenate(parts, axis=1)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Value numbers, shape (n, columns) int64, of the nearest codes; inverse of `encode`."""
        return np.stack([_nearest(b, codes[:, b.start : b.stop]) for b in self.blocks], axis=1)


def _nearest(block: Block, codes: np.ndarray, cells: int = 4_194_304) -> np.ndarray:
    """The value whose code is nearest in Euclidean distance (for one-hot codes: the largest)."""
    if block.head == "softmax":
        return codes.argmax(axis=1)
    book = block.codebook.astype(np.float64)
    norms = (book**2).sum(axis=1)
    chunk = max(1, cells // len(book))  # rows at a time: distances take at most 8 * cells bytes
    parts = [
        (norms - 2 * codes[i : i + chunk].astype(np.float64) @ book.T).argmin(axis=1)
        for i in range(0, len(codes), chunk)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
