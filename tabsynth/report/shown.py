"""What of each column's marginal a picture can show: at most so many bars, and the rest as one."""

from dataclasses import dataclass

import numpy as np

from tabsynth.evaluation.marginals import histogram
from tabsynth.evaluation.results import Result
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema

TOP_CATEGORIES = 30
MAX_STEPS = 100


@dataclass(frozen=True)
class ShownMarginal(Result):
    """One column's relative frequencies in the training and the synthetic table, as shown.

    Attributes
    ----------
    labels : tuple of str
    real, synthetic : tuple of float
        Shares of rows, one per label; they sum to 1.
    widths : tuple of float
        How many values (steps of the column; cells where it has none, or breaks) a label stands for.
    folded : int
        How many rare categories the last label but null stands for; 0 if none.
    null : bool
        Whether the last label is null.
    distance : float
        Total variation distance of the whole marginal, before anything was folded.
    """

    column: str
    kind: str
    description: str | None
    labels: tuple[str, ...]
    real: tuple[float, ...]
    synthetic: tuple[float, ...]
    widths: tuple[float, ...]
    folded: int
    null: bool
    distance: float


def shown_marginals(
    schema: Schema, train: np.ndarray, synthetic: np.ndarray
) -> tuple[ShownMarginal, ...]:
    """The marginal of every column; tables as value numbers, shape (rows, columns)."""
    return tuple(
        _shown(column, histogram(train[:, j], column.size), histogram(synthetic[:, j], column.size))
        for j, column in enumerate(schema.columns)
    )


def _shown(column: Column, real: np.ndarray, synthetic: np.ndarray) -> ShownMarginal:
    cells = column.cells
    shares = np.stack([real[:cells], synthetic[:cells]])
    folded = 0
    if column.ordered:
        labels, shares, widths = _grouped(column, shares)
    else:
        labels, shares, folded = _top(column, shares)
        widths = [1.0] * len(labels)
    if column.nulls:
        labels.append("null")
        widths.append(1.0)
        shares = np.concatenate([shares, [[real[cells]], [synthetic[cells]]]], axis=1)
    return ShownMarginal(
        column.name,
        column.kind,
        column.description,
        tuple(labels),
        tuple(shares[0].tolist()),
        tuple(shares[1].tolist()),
        tuple(widths),
        folded,
        column.nulls,
        0.5 * float(np.abs(real - synthetic).sum()),
    )


def _top(column: Column, shares: np.ndarray) -> tuple[list[str], np.ndarray, int]:
    """The commonest categories in the schema's order, and the others as one."""
    cells = shares.shape[1]
    if cells <= TOP_CATEGORIES:
        return [column.label(i) for i in range(cells)], shares, 0
    order = np.argsort(-shares.sum(axis=0), kind="stable")
    keep = np.sort(order[:TOP_CATEGORIES])
    rest = shares[:, order[TOP_CATEGORIES:]].sum(axis=1, keepdims=True)
    folded = cells - TOP_CATEGORIES
    labels = [column.label(int(i)) for i in keep] + [f"{folded} others"]
    return labels, np.concatenate([shares[:, keep], rest], axis=1), folded


def _grouped(column: Column, shares: np.ndarray) -> tuple[list[str], np.ndarray, list[float]]:
    """Codes in order, neighbours taken together where there are many; and each group's width."""
    cells = shares.shape[1]
    starts = np.unique(np.linspace(0, cells, min(cells, MAX_STEPS) + 1).astype(int))
    labels = []
    for first, last in zip(starts[:-1].tolist(), (starts[1:] - 1).tolist(), strict=True):
        low, high = column.label(first), column.label(last)
        labels.append(low if first == last else f"{low.split('–')[0]}–{high.split('–')[-1]}")
    widths = np.add.reduceat(column.code_widths(), starts[:-1])
    return labels, np.add.reduceat(shares, starts[:-1], axis=1), widths.tolist()


def shortened(text: str, letters: int) -> str:
    """On one line, of at most so many letters."""
    text = " ".join(text.split())
    return text if len(text) <= letters else text[: letters - 1] + "…"
