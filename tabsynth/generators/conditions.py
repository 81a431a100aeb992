"""A mixture of product distributions conditioned on a union of boxes, exactly.

A box allows, column by column, some values, or of some a share: a cell of five numbers of which two are
asked for counts by two fifths. A condition is one box, and what structural zeros leave is a union of
disjoint ones. A product distribution restricted to a box is a product distribution again, so
the conditional mixture is a mixture as well. Its parts are all pairs of a box and a component; Bayes'
rule gives their shares.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tabsynth.encoding.layout import Layout
from tabsynth.errors import InputError
from tabsynth.structural_zeros import Zero

# By column, what share of each of its values is allowed, bool or float in [0, 1], shape (size,); the other
# columns are free. Disjoint boxes share a condition: where several allow some of a value, it is as much.
Box = Mapping[int, np.ndarray]
EVERYTHING: tuple[Box, ...] = ({},)
MAX_BOXES = 1024
ROWS = 65_536  # that are completed at a time …
CELLS = 4_194_304  # … of whose posterior so many numbers are held at a time: 32 MiB
HELD = 16_777_216  # numbers of a column's cumulative probabilities that are kept: 128 MiB


def disjoint_boxes(zeros: Sequence[Zero], within: Box | None = None) -> list[Box]:
    """Disjoint boxes that hold all rows within a box which are in none of ``zeros``.

    Raises
    ------
    InputError
        If there are more than ``MAX_BOXES``: zeros that share no column multiply them.
    """
    # Columns that many zeros name are split first: zeros then share the pieces.
    named = Counter(j for zero in zeros for j in zero)
    boxes: list[Box] = [within or {}]
    for zero in zeros:
        columns = sorted(zero, key=lambda j: (-named[j], j))
        pieces: list[Box] = []
        for box in boxes:
            pieces += _without(box, zero, columns)
            if len(pieces) > MAX_BOXES:
                raise InputError(
                    "The schema's impossible combinations cut its rows into more than"
                    f" {MAX_BOXES} blocks; declare fewer, or such that share columns."
                )
        boxes = pieces
    return boxes


def _without(box: Box, zero: Zero, columns: Sequence[int]) -> list[Box]:
    """Disjoint pieces of a box outside ``zero``."""
    allowed = {j: box.get(j, np.ones_like(zero[j])) for j in columns}
    if not all((allowed[j] * zero[j]).any() for j in columns):
        return [box]
    pieces: list[Box] = []
    rest = dict(box)
    for j in columns:
        outside = allowed[j] * ~zero[j]
        if outside.any():
            pieces.append({**rest, j: outside})
        rest[j] = allowed[j] * zero[j]
    return pieces


class Restricted:
    """A mixture conditioned on a union of disjoint boxes.

    Parameters
    ----------
    mixture : ndarray, shape (K, layout.width)
        A row a component, float64.
    layout : Layout
    boxes : sequence of Box

    Attributes
    ----------
    shares : ndarray, shape (boxes * K,)
        The probability of each part, given the boxes; part ``b * K + k`` is component k in box b.
    log_probability : float
        Of the boxes; -inf where no part has any, and then ``shares`` are not usable.
    """

    def __init__(self, mixture: np.ndarray, layout: Layout, boxes: Sequence[Box]) -> None:
        self.mixture = mixture
        self.starts = np.array([block.start for block in layout.blocks])
        self.sizes = np.array(layout.sizes)
        self._allowed, self._which, self._log_mass = [], [], []
        self._cumulative: list[np.ndarray | None] = []
        logs = np.zeros((len(boxes), len(mixture)))
        for j, size in enumerate(self.sizes):
            allowed = [box.get(j, np.ones(size, dtype=bool)) for box in boxes]
            distinct, which = np.unique(
                np.reshape(allowed, (len(boxes), size)), axis=0, return_inverse=True
            )
            values = mixture[:, self.starts[j] : self.starts[j] + size]
            self._allowed.append(distinct)
            self._which.append(which.ravel())
            kept = len(distinct) * values.size <= HELD
            self._cumulative.append((values * distinct[:, None]).cumsum(axis=2) if kept else None)
            self._log_mass.append(_log(distinct @ values.T))
            logs += self._log_mass[j][self._which[j]]
        top = logs.max(initial=-np.inf)
        shares = np.exp(logs.ravel() - (top if np.isfinite(top) else 0.0))
        self.shares = shares / max(shares.sum(), 1.0)
        self.log_probability = float(top + _log(shares.sum() / len(mixture)))

    def values(self, j: int, part: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Values of column ``j``, one drawn for each of some parts, shape (n,)."""
        box, component = np.divmod(part, len(self.mixture))
        cumulative, which = self._cumulative[j], self._which[j][box]
        if cumulative is None:
            return self._values_anew(j, which, component, rng)
        size = cumulative.shape[2]
        first = (which * len(self.mixture) + component) * size  # of each row, in a flat view
        flat = cumulative.reshape(-1)
        level = _level(flat[first + size - 1], rng)
        # Binary search, all rows at once.
        low = np.zeros(len(part), dtype=np.int64)
        high = np.full(len(part), size - 1)
        while (low < high).any():
            middle = (low + high) // 2
            right = flat[first + middle] <= level
            low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
        return low

    def _values_anew(
        self, j: int, which: np.ndarray, component: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """The same where there is too much for all their cumulative probabilities."""
        values = self.mixture[:, self.starts[j] : self.starts[j] + self.sizes[j]]
        found = np.empty(len(which), dtype=np.int64)
        pieces = len(which) * self.sizes[j] // CELLS + 1
        for some in np.array_split(np.arange(len(which)), pieces):
            upto = (values[component[some]] * self._allowed[j][which[some]]).cumsum(axis=1)
            level = _level(upto[:, -1], rng)
            found[some] = (upto <= level[:, None]).sum(axis=1)
        return found

    def expected(self, part: np.ndarray) -> np.ndarray:
        """Expected counts of all pairs of codes in rows of the given parts, shape (width, width).

        The diagonal holds single codes.
        """
        width = self.mixture.shape[1]
        pairs, single = np.zeros((width, width)), np.zeros(width)
        found, counts = np.unique(part, return_counts=True)
        boxes, components = np.divmod(found, len(self.mixture))
        for box in np.unique(boxes):
            here = boxes == box
            p, weights = self._distributions(box, components[here]), counts[here]
            pairs += (p * weights[:, None]).T @ p
            single += weights @ p
        np.fill_diagonal(pairs, single)
        return pairs

    def _distributions(self, box: int, components: np.ndarray) -> np.ndarray:
        """Components restricted to a box, shape (components, width); each column sums to 1."""
        allowed = [a[w[box]] for a, w in zip(self._allowed, self._which, strict=True)]
        p = self.mixture[components] * np.concatenate(allowed)
        return p / np.repeat(np.add.reduceat(p, self.starts, axis=1), self.sizes, axis=1)

    def complete(self, index: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Fill in the entries that are -1, shape (n, columns); see :meth:`Mixture.complete`."""
        filled = index.copy()
        logs = _log(self.mixture)
        # Columns that some box cuts; the others, where missing, tell nothing of the part.
        cut = [j for j, allowed in enumerate(self._allowed) if (allowed < 1).any()]
        for start in range(0, len(index), ROWS):
            rows = filled[start : start + ROWS]  # a view: filled in place
            open_to = self._open_to(rows, cut)
            # Rows that miss the same cut columns and may lie in the same boxes go together.
            alike = np.packbits(np.hstack([rows[:, cut] < 0, open_to]), axis=1)
            _, first, group = np.unique(alike, axis=0, return_index=True, return_inverse=True)
            for g, row in enumerate(first):
                boxes = np.flatnonzero(open_to[row])
                if len(boxes):
                    missing = [j for j in cut if rows[row, j] < 0]
                    which = np.flatnonzero(group.ravel() == g)
                    self._fill(rows, which, boxes, missing, logs, rng)
        return filled

    def _open_to(self, rows: np.ndarray, cut: Sequence[int]) -> np.ndarray:
        """Which boxes the known entries of each row lie in, bool (n, boxes)."""
        found = np.ones((len(rows), len(self._which[0])), dtype=bool)
        for j in cut:
            known = rows[:, j] >= 0
            found[known] &= self._allowed[j][self._which[j]][:, rows[known, j]].T > 0
        return found

    def _fill(
        self,
        rows: np.ndarray,
        which: np.ndarray,
        boxes: np.ndarray,
        missing: Sequence[int],
        logs: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        """Fill in some rows that may lie in the given boxes and miss the given cut columns."""
        components = len(self.mixture)
        base = np.zeros((len(boxes), components))  # of what is missing, by box
        for j in missing:
            base += self._log_mass[j][self._which[j][boxes]]
        # Rows share ``base``: first the component, over all boxes, then the box given the component.
        top = base.max(axis=0)
        upto = np.exp(base - np.where(np.isfinite(top), top, 0.0)).cumsum(axis=0)
        over = top + _log(upto[-1])
        for some in np.array_split(which, -(-len(which) * max(base.shape) // CELLS)):
            found = np.zeros((len(some), components))  # of what is known
            for j, start in enumerate(self.starts):
                known = rows[some, j] >= 0
                found[known] += logs[:, start + rows[some[known], j]].T
            chosen, possible = _drawn(found + over, rng)
            component = chosen[possible]
            level = _level(upto[-1, component], rng)
            box = boxes[(upto[:, component] <= level).sum(axis=0)]
            part = box * components + component
            for j in range(len(self.starts)):
                empty = rows[some[possible], j] < 0
                rows[some[possible][empty], j] = self.values(j, part[empty], rng)


def _drawn(logs: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A part for each row, from log weights, shape (n, parts); and whether the row has any."""
    top = logs.max(axis=1)
    possible = np.isfinite(top)
    cumulative = np.exp(logs - np.where(possible, top, 0.0)[:, None]).cumsum(axis=1)
    level = _level(cumulative[:, -1], rng)
    return (cumulative <= level[:, None]).sum(axis=1), possible


def _level(total: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Uniform below each total: a file's rows may not sum to 1, nor do restricted ones."""
    return np.minimum(rng.random(len(total)) * total, np.nextafter(total, 0))


def _log(x: np.ndarray) -> np.ndarray:
    """log, and -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(x)
