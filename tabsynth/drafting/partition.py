"""A partition of a line into cells that noisy sums refine, to find between which ends the rows lie.

Every round asks only for the cells beyond the ends that are known so far, and for the parts of the two cells at these ends, which are
split as finely as their sums are clear of noise. Rows between the ends answer nothing, and so lose no weight to it.

NOTE[DIFF] PrivTree (Zhang, Xiao, Xie 2016) splits every cell with enough rows, with a bias that keeps the depth from costing budget. Here only the
ends matter: where rows lie between them is counted by the fit. So a handful of rounds, each of which is charged, is enough.
"""

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from tabsynth.privacy.noise.counts import CombinedSums
from tabsynth.schema.numeric import DEFAULT_BINS, off_steps

CLEAR_CELL = 4.0  # standard deviations of its noise: the largest cell above is taken to have rows
# Standard deviations of the noise of a run of cells up to the n-th one beyond an end, above which n cells are taken in: the first and √n
# times the second. The longest of many runs would else be the one with most noise.
RUN, ROOT = 2.5, 0.75
CERTAIN = 6.0  # standard deviations of the noise of cells from an end on, below which they are asked for again
PART = 2.5  # standard deviations of noise that each part of a split cell should have
MOST_PARTS = 10
MOSTLY = 0.5  # of the rows of a cell: those with one value that was released
EACH = 128  # steps between the ends, below which each has a cell of its own: they may be codes
MANTISSAS = (1, 2, 5)
# Of powers of ten, between which the distribution of numbers is asked.
SHAPE = (1, 1.5, 2, 3, 4, 5, 6, 8)
POWERS = range(16)  # of ten, of the first cells of numbers
SMALL = (*(10.0**power for power in range(-6, -1)), 0.1, 0.2, 0.5)  # edges below 1
SINGLE = range(-1, 17)  # small numbers of steps that have a first cell each
Split = Callable[[float, float, int], np.ndarray]


class Partition:
    """Cells of a line with weighted means of their noisy sums.

    Parameters
    ----------
    edges : float array, shape (cells + 1,)
        In rising order; a cell includes its lower edge.
    split : function
        Takes the edges of a cell and a number of parts, and returns where these begin but for the first; none where the cell stays whole.
    width : function
        Takes the lower and the upper end, and returns how wide the cells at the ends may be.
    coarse : pair of float arrays, optional
        Edges of the cells beyond the ends after the first round, so that less noise is added up there, and of all cells while no
        end is known; by default all.

    Attributes
    ----------
    asked : bool array, shape (cells,)
        Which cells the present round asks for.
    """

    def __init__(
        self,
        edges: np.ndarray,
        split: Split,
        width: Callable[[float, float], float],
        coarse: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.edges, self._split, self._width = edges, split, width
        self._coarse = coarse or (edges, edges)
        self._known, self._aside = (CombinedSums(len(edges) - 1) for _ in range(2))
        self.asked = np.ones(len(edges) - 1, dtype=bool)

    @property
    def estimates(self) -> np.ndarray:
        """Noisy sums of the cells, shape (cells,); 0 of those that no round has asked for."""
        return self._known.estimates

    def cells_of(self, points: np.ndarray) -> np.ndarray:
        """Return the cell of each point, shape (n,); -1 outside of the line, and for NaN."""
        cells = np.searchsorted(self.edges, points, side="right") - 1
        return np.where((cells < len(self.edges) - 1) & ~np.isnan(points), cells, -1)

    def ends(self) -> tuple[int, int] | None:
        """Return the first and the last cell of the rows, or None where no cell is clear of noise.

        From the largest cell on, each end moves to where a further run of cells clearly has rows.
        """
        estimates, deviations = self.estimates, self._known.deviations
        core = int(np.argmax(estimates))
        if estimates[core] <= CLEAR_CELL * deviations[core]:
            return None
        below = _reach(estimates[:core][::-1], deviations[:core][::-1])
        return core - below, core + _reach(estimates[core + 1 :], deviations[core + 1 :])

    def bounds(self) -> tuple[float, float] | None:
        """Return the edges of the line between which the rows lie."""
        ends = self.ends()
        return None if ends is None else (self.edges[ends[0]], self.edges[ends[1] + 1])

    def clear_beyond(self, low: float, high: float) -> bool:
        """Return whether cells between the ends, outside of two edges, clearly have rows, all together."""
        first, last = self.bounds() or (low, high)
        outside = (self.edges[1:] <= low) | (self.edges[:-1] >= high)
        outside &= (self.edges[:-1] >= first) & (self.edges[1:] <= last)
        noise = math.sqrt(np.square(self._known.deviations[outside]).sum())
        return bool(self.estimates[outside].sum() > CLEAR_CELL * noise)

    def refine(self) -> None:
        """Split the cells at the ends where they are too wide, merge those beyond, and decide which cells are asked for."""
        self._merge_beyond()
        ends = self.ends()
        self.asked = np.ones(len(self.edges) - 1, dtype=bool)
        if ends is None:
            return
        within = slice(ends[0], ends[1] + 1)
        estimates, variances = self.estimates[within], np.square(self._known.deviations[within])
        self.asked[within] = _uncertain(estimates, variances)
        self.asked[within] |= _uncertain(estimates[::-1], variances[::-1])[::-1]
        width = self._width(self.edges[ends[0]], self.edges[ends[1] + 1])
        for cell in sorted(set(ends), reverse=True):
            low, high = self.edges[cell], self.edges[cell + 1]
            deviation = self._known.deviations[cell]
            parts = float(MOST_PARTS)
            if deviation:
                parts = min(parts, self.estimates[cell] / deviation // PART)
            if high - low <= width * (1 + 1e-7) or parts < 2:
                continue
            starts = self._split(low, high, int(parts))
            if not len(starts):
                continue
            self.edges = np.insert(self.edges, cell + 1, starts)
            number = len(starts) + 1
            self.asked = _with_parts(self.asked, cell, np.ones(number, dtype=bool))
            for sums in (self._known, self._aside):
                sums.weighted = _with_parts(sums.weighted, cell, np.zeros((2, number)))

    def _merge_beyond(self) -> None:
        """Merge the cells beyond the coarse ones that hold the ends, unless some are set aside."""
        if not self._known.weighted.any() or self._aside.weighted.any():
            return
        bounds = self.bounds()
        if bounds is None:
            kept = np.isin(self.edges, self._coarse[1])
        else:
            coarse = self._coarse[0]
            first, last = np.searchsorted(coarse, bounds).tolist()
            low, high = coarse[max(0, first - (coarse[first] > bounds[0]))], coarse[last]
            kept = np.isin(self.edges, coarse) | ((self.edges >= low) & (self.edges <= high))
        kept[[0, -1]] = True
        starts = np.flatnonzero(kept[:-1])
        estimates = np.add.reduceat(self.estimates, starts)
        weights = 1 / np.add.reduceat(np.square(self._known.deviations), starts)
        self.edges = self.edges[kept]
        self._known.weighted = np.stack([estimates * weights, weights])
        self._aside = CombinedSums(len(starts))

    def learn(self, sums: np.ndarray, std: float) -> None:
        """Take noisy sums of the cells that were asked for, with noise of one standard deviation."""
        self._known.add(sums, std, self.asked)

    def set_aside(self, points: np.ndarray, sums: np.ndarray) -> None:
        """Set aside what is known of cells with some points, whose rows answer no more.

        These are narrow cells, and others far from the rest that ``sums`` of the points mostly fill.
        """
        bounds = self.bounds()
        if bounds is None:
            return
        cells = self.cells_of(points)
        filled = np.bincount(cells[cells >= 0], sums[cells >= 0], minlength=len(self.asked))
        narrow = np.diff(self.edges) <= self._width(*bounds) * (1 + 1e-7)
        wide = ~narrow & (filled > MOSTLY * self.estimates) & (filled > 0)
        _move(self._known, self._aside, (narrow & (filled > 0)) | wide)
        low, high = self.bounds() or bounds
        near = (self.edges[1:] > 2 * low - high) & (self.edges[:-1] < 2 * high - low)
        _move(self._aside, self._known, wide & near)

    def take_back(self) -> None:
        """Take back what was set aside."""
        _move(self._aside, self._known, np.ones(len(self.asked), dtype=bool))


def _move(source: CombinedSums, target: CombinedSums, cells: np.ndarray) -> None:
    """Move what is known of some cells."""
    target.weighted[:, cells] += source.weighted[:, cells]
    source.weighted[:, cells] = 0.0


def _with_parts(of_cells: np.ndarray, cell: int, parts: np.ndarray) -> np.ndarray:
    """Return an array whose last axis is of cells, with several in place of one."""
    return np.concatenate([of_cells[..., :cell], parts, of_cells[..., cell + 1 :]], axis=-1)


def _uncertain(estimates: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return the first cells, as long as it is not certain that they have rows, all together."""
    return np.cumsum(estimates) < CERTAIN * np.sqrt(np.cumsum(variances))


def _reach(estimates: np.ndarray, deviations: np.ndarray) -> int:
    """Return how many cells, from the first on, have rows up to the last of them."""
    reached = 0
    sums = np.concatenate([[0.0], np.cumsum(estimates)])
    variances = np.concatenate([[0.0], np.cumsum(deviations**2)])
    while reached < len(estimates):
        # Of the cells up to each one, the runs that end there and are as clear as any.
        ends, starts = slice(reached + 1, None), slice(reached, -1)
        run_sums = sums[ends, None] - sums[None, starts]
        noise = np.sqrt(np.maximum(variances[ends, None] - variances[None, starts], 0.0))
        roots = np.sqrt(np.arange(1, len(run_sums) + 1))
        clear = np.tril(run_sums > (RUN + ROOT * roots[:, None]) * noise).any(axis=1)
        if not clear.any():
            break
        reached += int(np.argmax(clear)) + 1
    return reached


def round_numbers(step: float | None) -> Split:
    """Return a split of cells at multiples of 1, 2 or 5 times a power of ten, and at no less than ``step``."""

    def split(low: float, high: float, parts: int) -> np.ndarray:
        if low < 0 < high:
            return np.array([0.0])
        size = (high - low) / parts
        power = 10.0 ** math.floor(math.log10(size) + 1e-9)
        size = next(m * power for m in (1, 2, 5, 10) if m * power >= size * (1 - 1e-9))
        size = max(size, step or 0)
        first = math.floor(low / size + 1e-9) + 1
        starts = np.round(np.arange(first, math.ceil(high / size - 1e-9)) * size, 9)
        return starts[(starts > low) & (starts < high)]

    return split


def edges_of_numbers(
    step: float | None, mantissas: Sequence[float] = MANTISSAS, *, single: bool = True
) -> np.ndarray:
    """Return edges of cells of numbers: multiples of powers of ten from 1 on; with ``single``, small numbers of steps have one each."""
    powers = (mantissa * 10.0**power for power in POWERS for mantissa in mantissas)
    sizes = np.array([*SMALL, *powers])
    if step is None:
        return np.concatenate([-sizes[::-1], [0.0, 1e-9], sizes])
    edges = np.concatenate([-sizes, sizes, np.array(SINGLE if single else [0]) * step])
    return np.unique(np.round(np.ceil(np.round(edges / step, 6)) * step, 9))


def cell_breaks(
    shape: tuple[np.ndarray, np.ndarray] | None,
    low: float,
    high: float,
    values: Sequence[float],
    step: float | None,
) -> tuple[float, ...]:
    """Return where cells begin: where sums divide the rows more evenly than equal cells, and at values that have cells of their own.

    ``shape`` is the edges of cells and the sums of their rows. None begins where so few steps have a cell each.
    """
    if step is not None and (high - low) / step < EACH:
        return ()
    breaks = [] if shape is None else _even_breaks(*shape, low, high)
    if len(values) and not breaks:
        breaks = np.linspace(low, high, DEFAULT_BINS + 1)[1:-1].tolist()
    after = np.nextafter(values, math.inf) if step is None else np.array(values) + step
    edges = np.concatenate([breaks, values, after])
    if step is not None:
        edges = np.round(np.ceil(edges / step - 1e-6) * step, 9)
        edges = edges[~off_steps(edges, low, step)]  # of floats of many digits
    edges = np.unique(edges)
    inside = (edges > low) & ((edges < high) if step is None else (edges <= high))
    return tuple(edges[inside].tolist())


def _even_breaks(edges: np.ndarray, sums: np.ndarray, low: float, high: float) -> list[float]:
    """Return edges between the bounds where they divide the rows more evenly than equal cells do; else none."""
    if len(sums) < 2 or sums.sum() <= 0:
        return []
    shares = np.concatenate([[0.0], np.cumsum(sums) / sums.sum()])

    def chance_to_share(cells: np.ndarray) -> float:
        """Return how likely two rows are to share a cell, with rows spread evenly within each run of cells."""
        return float(np.square(np.diff(np.interp(cells, edges, shares))).sum())

    even = np.linspace(low, high, DEFAULT_BINS + 1)
    # Half of the cells are even: values that many rows have are in the sums, and have cells of their own.
    ends = np.unique(np.concatenate([edges, even]))
    mixed = np.interp(ends, edges, shares) + np.interp(ends, [low, high], [0.0, 1.0])
    cells = max(DEFAULT_BINS // 4, DEFAULT_BINS - len(edges))
    inner = np.interp(2 * np.arange(1, cells) / cells, mixed, ends)
    starts = np.unique(np.concatenate([inner, edges]))
    starts = starts[(starts > low) & (starts < high)]
    return (
        starts.tolist()
        if chance_to_share(np.array([low, *starts, high])) <= 0.75 * chance_to_share(even)
        else []
    )


def coarse_edges(step: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Return edges of fewer cells of numbers, and of fewer still: those of powers of ten."""
    return (
        edges_of_numbers(step, single=False),
        edges_of_numbers(step, MANTISSAS[:1], single=False),
    )


def split_far(values: Collection[float], ends: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return values that lie with the others and between some ends, and those far away from all, which stand for something else.

    These are farther from the others than the others from each other, or negative whole numbers where the others are not
    negative, as codes of missing values are.
    """
    near, far = sorted(values), list[float]()
    for end in (-1, 0):
        while near and len(near) + len(ends) > 2:
            value = near[end]
            neighbours = [*ends, *(v for v in near if v != value)]
            low, high = min(neighbours), max(neighbours)
            distance = max(value - high, low - value)
            negative_code = end == 0 and value < 0 <= low and value == int(value)
            if distance <= high - low and not negative_code:
                break
            near.remove(value)
            far.append(value)
    return near, sorted(far)
