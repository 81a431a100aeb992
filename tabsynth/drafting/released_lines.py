"""Columns of numbers and times from noisy releases: the ends of their values, values that many rows have, and their multiples."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth._validate import MAX_TEXT
from tabsynth.drafting.budget import ROUNDS
from tabsynth.drafting.formats import WORD, Distinct
from tabsynth.drafting.identifiers import are_record_numbers
from tabsynth.drafting.partition import EACH, Partition, cell_breaks, split_far
from tabsynth.drafting.released_columns import (
    AT_THIS_BUDGET,
    CLEAR,
    OF_VALUES,
    ColumnDraft,
    Question,
)
from tabsynth.privacy.noise.counts import share_interval
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.column import Column
from tabsynth.schema.missing import MOST_REASONS
from tabsynth.schema.numeric import MAX_STEPS

END = 0.02  # of the width between the ends: of the cells at the ends, where there are many steps
FARTHEST = 1e100  # of a number on the line, which none of its multiples overflows
FEW = 64  # values, which are listed where no other row is clearly left
VALUES = 4  # the first round that asks for values: earlier ones have more noise, and each question costs all others
FEW_SHARE = 0.15  # of the rows: different values that are clearly few
MOST_OTHERS = 0.15  # of the rows: those with other values, which become the nearest listed one
LEAST_EQUAL = 3  # equal distances between listed values, for values between them to be listed
OFF = 1e-6  # of a step: what lies farther from the next one is between steps
SHAPES = 3  # the first round that asks how numbers of many steps are distributed, and for multiples
HEAPED = 0.05  # of the rows: multiples that are more than those of evenly spread numbers
ALL = 2.0  # standard deviations of its noise: a sum of all other rows below is taken to be of none
MOST_NOISE = 0.1  # of the rows: noise of such a sum, above which it cannot tell


@dataclass(eq=False, kw_only=True)
class LineDraft(ColumnDraft):
    """The draft of values that lie on a line.

    Attributes
    ----------
    partition : Partition
        Of the line, refined where rows begin and end. Rows with a released value leave it.
    shape_edges : float array
        Of the cells by which the distribution of numbers of many steps is asked.
    step : float, optional
        The least step of values; None for reals.
    limits : tuple of float, optional
        Edges between which all values lie by ``entry`` of the catalogue, if the noisy sums do not say otherwise.
    covers_all : bool
        Whether all values lie in cells of the first partition.
    multiples : tuple of int
        Numbers of steps of which values may be multiples, the coarsest first.
    words : float
        Noisy number of rows with a text that has no place on the line; 0 where it may be noise.
    codes : set of str
        Such texts that were released by partition selection: reasons for missing, where the dtype holds texts.
    values : set of float
        Values that were released by partition selection.
    listed : list of float
        These, and values that complete them, in order: all that the column has if it has few.
    dense : bool
        Whether values lie so close together that cells represent them as well: none is released.
    multiple : int
        Number of steps of which nearly all values are multiples.
    heaping : tuple of int
        Those of ``multiples`` that more rows have than chance would give.
    """

    partition: Partition
    shape_edges: np.ndarray
    step: float | None
    covers_all: bool
    limits: tuple[float, float] | None = None
    entry: str = ""
    multiples: tuple[int, ...] = ()
    words: float = 0.0
    codes: set[str] = field(default_factory=set)
    values: set[float] = field(default_factory=set)
    listed: list[float] = field(default_factory=list)
    multiple: int = 1
    heaping: tuple[int, ...] = ()
    dense: bool = False
    _bounds: tuple[float, float] | None = None
    _different: tuple[float, float] = (math.inf, 0.0)  # values, and the noise of their number
    _asks_shape: bool = False
    _shaped: bool = False
    _shape: tuple[np.ndarray, np.ndarray] | None = None  # edges of cells, and noisy sums

    @abstractmethod
    def positions(self, values: pd.Series) -> np.ndarray:
        """Return where values lie on the line, each by itself; NaN for those that do not."""

    @abstractmethod
    def between(
        self, low: float, high: float, breaks: Sequence[float], far: Sequence[float]
    ) -> Column | str:
        """Return the column of values between two ends, or why it is left out.

        Parameters
        ----------
        breaks : sequence of float
            Where cells begin; none for equal ones.
        far : sequence of float
            Values beyond the ends that many rows have.
        """

    # What is asked.

    def begin(self, number: int) -> None:
        """See :meth:`ColumnDraft.begin`."""
        self.partition.refine()
        self._asks_shape = number >= SHAPES and not self._shaped and self._bounds is not None
        if not self._asks_shape or self._bounds is None:
            return
        self._shaped, (low, high) = True, self._bounds
        edges = np.unique(np.concatenate([[low, high], self.shape_edges]))
        self.multiples = tuple(m for m in self.multiples if self._steps(low, high) >= 2 * m)
        if self._many_steps:
            self._shape = edges[(edges >= low) & (edges <= high)], np.zeros(0)

    def questions(self, column: Distinct, number: int) -> list[Question]:
        """See :meth:`ColumnDraft.questions`."""
        missing, points = self._points(column)
        unread = np.isnan(points) & ~missing
        if self.words:
            unread[:-1] &= ~column.values.isin(self.codes).to_numpy()
        unreleased = np.where(np.isin(points, list(self.values)), np.nan, points)
        is_asked = self.partition.asked
        cells = self.partition.cells_of(unreleased)
        keys = np.where((cells >= 0) & is_asked[cells], np.cumsum(is_asked)[cells] - 1, -1)
        size = int(is_asked.sum())
        if not self.nulls:
            keys[missing | (unread & (number == len(ROUNDS)))] = size
        questions = [Question(self.name, keys, size + 1, about="cells")]
        if self.words:
            unread[:-1] &= column.values.map(len).to_numpy(dtype=int) <= MAX_TEXT
            texts = column.values[unread[:-1]].tolist()
            keys = np.where(unread, np.cumsum(unread) - 1, -1)
            questions.append(Question(self.name, keys, len(texts), texts, "words"))
        if number >= VALUES and self._asks_values:
            new = self._many_steps | (cells < 0) | self._off(points)
            if self._bounds is not None:
                reach = EACH * (self.step or 0.0)
                new |= (points < self._bounds[0] - reach) | (points >= self._bounds[1] + reach)
            new &= ~np.isnan(unreleased)
            keys = np.full(len(points), -1)
            values, keys[new] = np.unique(unreleased[new], return_inverse=True)
            questions.append(Question(self.name, keys, len(values), values.tolist(), "values"))
        if not self._asks_shape or self._bounds is None:
            return questions
        inside = (points >= self._bounds[0]) & (points < self._bounds[1])
        if self._shape is not None:
            edges = self._shape[0]
            keys = np.where(inside, np.searchsorted(edges, points, side="right") - 1, -1)
            questions.append(Question(self.name, keys, len(edges) - 1, about="shape"))
        if self.multiples and self.step is not None:
            steps = np.rint(np.where(inside, points, 0) / self.step)
            keys = np.full(len(points), len(self.multiples))
            for code in reversed(range(len(self.multiples))):
                keys[steps % self.multiples[code] == 0] = code
            keys[~inside | (steps == 0)] = -1
            size = len(self.multiples) + 1
            questions.append(Question(self.name, keys, size, about="multiples"))
        return questions

    def end_rounds(self) -> None:
        """See :meth:`ColumnDraft.end_rounds`: completes the listed values with others at the distance that most listed values have."""
        self.nulls |= len(self.missing) < len(self.codes)
        self.listed = sorted(self.values)
        if self._lists_values and self._bounds is not None:
            completed = _completed(self.listed, self._bounds)
            self.listed = completed if len(completed) <= FEW else self.listed

    def rest(self, column: Distinct) -> Question | None:
        """See :meth:`ColumnDraft.rest`: rows with other values than a few that were released, or else beyond the ends.

        Nulls, and texts with no place on the line, are among them where the column has none.
        """
        _, points = self._points(column)
        if self._lists_values:
            released = np.isin(points, self.listed)
        elif self._bounds is not None:
            released = (points >= self._bounds[0]) & (points < self._bounds[1])
            released |= np.isin(points, list(self.values))
        elif self.limits is not None:
            released = (points >= self.limits[0]) & (points < self.limits[1])
        else:
            return None
        released |= np.isnan(points) & self.nulls
        released[:-1] |= column.values.isin(self.missing).to_numpy()
        return Question(self.name, np.where(released, -1, 0), 1, about="rest")

    @property
    def _asks_values(self) -> bool:
        """True if values may not have a cell of their own: where there are few steps, those between steps."""
        few_steps = self._bounds is not None and self._steps(*self._bounds) > 2
        return not self.dense and (self._many_steps or not self.covers_all or few_steps)

    @property
    def _lists_values(self) -> bool:
        """True if the released values may be all. Those that set aside the cells at the ends count for the number of steps."""
        if not 2 <= len(self.values) <= FEW:
            return False
        ends = [] if self._bounds is None else list(self._bounds)
        points = [*ends, *split_far(self.values, ends)[0]]
        wide = bool(points) and self._steps(min(points), max(points)) >= EACH
        return wide or self._many_steps or not self.covers_all

    def _off(self, points: np.ndarray) -> np.ndarray:
        """Return which points are between steps."""
        if self.step is None:
            return np.zeros(np.shape(points), dtype=bool)
        return np.abs(points - np.rint(points / self.step) * self.step) > OFF * self.step

    def _points(self, column: Distinct) -> tuple[np.ndarray, np.ndarray]:
        """Return which distinct values are null, and the position of each, on a step if it is near one; NaN for nulls; shape (m + 1,)."""
        missing = self._missing(column.values)
        points = np.append(self.positions(column.values), np.nan)
        points[missing | np.isinf(points)] = np.nan
        points = np.clip(points, -FARTHEST, FARTHEST)
        if self.step is not None:
            on_steps = np.round(np.rint(points / self.step) * self.step, 9)
            points = np.where(self._off(points), points, on_steps)
        return missing, points

    def _steps(self, low: float, high: float) -> float:
        """Return the number of steps between two ends."""
        return math.inf if self.step is None else (high - low) / self.step

    @property
    def _many_steps(self) -> bool:
        """True if single values do not have cells of their own."""
        return self.step is None or (
            self._bounds is not None and self._steps(*self._bounds) >= EACH
        )

    # What is learned.

    def learn(
        self, question: Question, sums: np.ndarray, std: float, clear: np.ndarray, purpose: str
    ) -> None:
        """See :meth:`ColumnDraft.learn`."""
        if question.about == "cells":
            self.source("bounds", purpose)
            if not self.nulls:
                self.source("nulls", purpose)
                self.nulls = bool(clear[-1])
            self.partition.learn(sums[:-1], std)
            self._set_bounds()
        elif question.about == "shape":
            assert self._shape is not None
            self.source("cells", purpose)
            self._shape = _clear_cells(self._shape[0], sums, CLEAR * std)
        elif question.about == "words":
            assert question.values is not None
            self.source("missing", purpose)
            self.codes |= {str(question.values[i]) for i in np.flatnonzero(clear).tolist()}
        elif question.about == "values":
            assert question.values is not None
            self.source("values", purpose)
            new = np.array(question.values, dtype=float)[clear]
            self.values |= {*new.tolist()}
            on_steps = ~self._off(new)
            self.partition.set_aside(new[on_steps], sums[clear][on_steps])
            if self.step is not None:
                near = {round(v + self.step, 9) for v in self.values} & self.values
                if len(self.values) > 2 and 2 * len(near) > len(self.values):
                    # Amounts, which cells represent as well, but for codes far from them.
                    beside = near | {round(value - self.step, 9) for value in near}
                    self.values, self.dense = {*split_far(self.values, [])[1]} - beside, True
                    self.partition.take_back()
                    far = np.array(sorted(self.values))
                    self.partition.set_aside(far, np.full(len(far), np.inf))
            self._set_bounds()
        elif question.about == "multiples":
            self.source("multiples", purpose)
            sums = np.maximum(sums, 0)
            self.multiple = _common_multiple(sums, self.multiples, std)
            self.heaping = _heaps(sums, self.multiples, CLEAR * std)
        else:
            self.source("values", purpose)
            self._different = float(sums[0]), std

    def _set_bounds(self) -> None:
        """Set the bounds to what the partition finds, or found before, within the limits of the catalogue."""
        self._bounds = self.partition.bounds() or self._bounds
        self.sources["bounds"] = [name for name in self.sources["bounds"] if name != self.entry]
        if self._bounds is None or self.limits is None or self.partition.clear_beyond(*self.limits):
            return
        low, high = max(self._bounds[0], self.limits[0]), min(self._bounds[1], self.limits[1])
        if low < high and (low, high) != self._bounds:
            self._bounds = low, high
            self.source("bounds", self.entry)

    # What follows.

    @property
    def missing(self) -> dict[str, str]:
        """The texts that are reasons for missing; none where the dtype is not of texts."""
        texts = sorted(self.codes)[: MOST_REASONS // 2] if self.holds_texts else ()
        return dict.fromkeys(texts, WORD)

    @property
    def holds_texts(self) -> bool:
        """True if the column may hold texts beside its values."""
        return base_dtype(self.dtype) == "text"

    def note(self, column: Column) -> JsonObject | None:
        """Extend :meth:`ColumnDraft.note` by texts of which none was released."""
        if not (self.words and self.nulls) or self.missing:
            return super().note(column)
        interval = share_interval(self.words, self.noise, self.rows, self.noise)
        return {
            "note": f"texts in place of values become missing, in so many {OF_VALUES}; declare those that many rows have under"
            " missing of the schema",
            "share": round(self.words / self.rows, 4),
            "interval": [round(end, 4) for end in interval],
        }

    @property
    def hidden(self) -> float:
        """Extend :attr:`ColumnDraft.hidden`: values beside the released ones have cells, unless these are all."""
        return 0.0 if self._lists_values and not self.few else super().hidden

    def _note_of_unreleased(self, column: Column) -> str | None:
        """See :meth:`ColumnDraft._note_of_unreleased`."""
        if self.few:
            return f"rarer values become the nearest listed one, in so many {OF_VALUES}"
        return None if self._lists_values else super()._note_of_unreleased(column)

    def column(self) -> Column | str:
        """See :meth:`ColumnDraft.column`."""
        if self._bounds is None and self.limits is not None and not self.unreleased.clear:
            self._bounds = self.limits
            self.source("bounds", self.entry)
        none_found = self._bounds is None and not self.values
        most_beyond = self.unreleased.clear and self.unreleased.rows > self.rows / 2
        if none_found or (most_beyond and not self._lists_values):
            return f"no range of its values has enough rows {AT_THIS_BUDGET}"
        ends = [] if self._bounds is None else list(self._within(*self._bounds))
        values, far = split_far(self.values, ends)
        if (step := self.resolution) is not None and not self.few:
            values = sorted({round(round(value / step) * step, 9) for value in values})
        low, high = min([*ends, *values]), max([*ends, *values])
        if self.resolution is None and high in values:  # which the last cell has, too
            high = float(np.nextafter(high, math.inf))
        shape, edges = self._shape, self.partition.edges
        if shape is None and self._many_steps:  # for ends that the last round found
            first, after = np.searchsorted(edges, [low, high])
            shape = edges[first : after + 1], np.maximum(self.partition.estimates[first:after], 0)
        breaks = cell_breaks(shape, low, high, values, self.resolution)
        return self.between(low, high, breaks, far)

    def _within(self, low: float, high: float) -> tuple[float, float]:
        """Return the first and the last step between two edges, of which the upper one belongs to the cell after it."""
        step = self.resolution
        if step is None:
            return low, high
        first = math.ceil(low / step - 1e-6)
        last = max(first, math.ceil(high / step - 1e-6) - 1)
        return round(first * step, 9), round(last * step, 9)

    @property
    def resolution(self) -> float | None:
        """The step of the column; None for reals, and where floats cannot tell all steps between the ends apart."""
        bounds = self._bounds
        if self.step is None or (bounds is not None and self._steps(*bounds) > MAX_STEPS):
            return None
        return self.step * self.multiple

    @property
    def heaps(self) -> tuple[float, ...]:
        """The numbers whose multiples many rows have, the coarsest first."""
        if self.resolution is None or self.step is None:
            return ()
        return tuple(round(h * self.step, 9) for h in self.heaping if h > self.multiple)

    @property
    def few(self) -> bool:
        """True if the released values are all, or all but a small part of a clearly small number of values."""
        if not self._lists_values:
            return False
        uncovered, noise = self.unreleased.rows, ALL * self.unreleased.noise
        different, noise_of_different = self._different
        upper = FEW + ALL * noise_of_different
        # Other values are few, too, if clearly several rows share each.
        most = max(FEW + noise_of_different / 2, len(self.values) + uncovered / 2)
        if different <= most and upper <= FEW_SHARE * self.rows:
            return uncovered <= MOST_OTHERS * self.rows
        return uncovered <= noise <= MOST_OTHERS * self.rows

    @property
    def nearly_unique(self) -> bool:
        """True if nearly all rows have different values, as numbers of records have."""
        different, noise = self._different
        if self.values or different == math.inf:
            return False
        return are_record_numbers(different, self.rows, ALL * math.hypot(noise, self.noise))


def _common_multiple(sums: np.ndarray, multiples: Sequence[int], std: float) -> int:
    """Return the coarsest of ``multiples`` of which nearly all values are; 1 if of none.

    ``sums`` are of multiples of each but of no coarser one, and of all other values last.
    """
    for place, multiple in enumerate(multiples):
        noise = ALL * std * math.sqrt(len(multiples) - place)
        if sums[place + 1 :].sum() <= noise <= MOST_NOISE * sums.sum():
            return multiple
    return 1


def _heaps(sums: np.ndarray, multiples: Sequence[int], clear: float) -> tuple[int, ...]:
    """Return those of ``multiples`` of which there are more than of evenly spread multiples of the next finer one.

    ``sums`` are as of :func:`_common_multiple`.
    """
    total, finer, of_finer = float(sums.sum()), 1, float(sums.sum())
    heaps: list[int] = []
    for place in range(len(multiples) - 1, -1, -1):
        here = float(sums[: place + 1].sum())
        expected = of_finer * finer / multiples[place]
        if here - expected > max(HEAPED * total, clear):
            heaps.insert(0, multiples[place])
            finer, of_finer = multiples[place], here
    return tuple(heaps)


def _clear_cells(
    edges: np.ndarray, sums: np.ndarray, clear: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges of runs of cells whose sums are clear of noise, with ``clear`` for one cell, and these sums; the last may not be."""
    starts, totals, first = list[int](), list[float](), 0
    for after in range(1, len(sums) + 1):
        total = float(sums[first:after].sum())
        if total > clear * math.sqrt(after - first) or (after == len(sums) and not totals):
            starts.append(first)
            totals.append(total)
            first = after
    return edges[[*starts, len(sums)]], np.array(totals)


def _completed(values: Sequence[float], bounds: tuple[float, float]) -> list[float]:
    """Return values with those between them and up to the bounds that are at their most common distance, if most have it."""
    distances = np.round(np.diff(values), 9)
    each, counts = np.unique(distances, return_counts=True)
    if not len(each) or counts.max() < max(LEAST_EQUAL, len(distances) / 2):
        return list(values)
    distance = float(each[np.argmax(counts)])
    origin = values[int(np.argmax(distances == distance))]
    ends = min(values[0], bounds[0]), max(values[-1], bounds[1])
    steps = np.arange(
        math.ceil((ends[0] - origin) / distance - 1e-6),
        math.ceil((ends[1] - origin) / distance - 1e-6),
    )
    grid = np.round(origin + steps * distance, 9)
    # Not where a neighbour is at another distance.
    off = np.array([value for value in values if value not in grid])
    beside = np.searchsorted(values, grid)
    neighbours = np.array([-math.inf, *values, math.inf])
    free = ~np.isin(neighbours[beside], off) & ~np.isin(neighbours[beside + 1], off)
    return sorted({*values, *grid[free].tolist()})
