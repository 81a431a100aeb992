"""Tables whose rows come in batches of Arrow, and are counted in this process: many sets of columns in one scan.

A value becomes its category code as in a DataFrame, by :meth:`Column.convert` and :meth:`Column.encode`: of each batch
these see the distinct values of a column. Columns of few codes are counted together, and the counts of single sets follow
by sums: all pairs of 100 columns of ten codes take 1,225 counts of four columns in place of 4,950.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pandas as pd

from tabsynth.errors import InputError
from tabsynth.privacy.noise.counts import Groups
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.tables.counter import GroupedColumn, RowCounter, grouped_columns, refuse_all
from tabsynth.tables.frames import column_from_arrow, table_from_arrow

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_CELLS = 2**24  # values of all columns of a batch
BATCH_ROWS = 2**20  # of a batch, at most
CHANGED = "The table changed while it was counted; fit a copy of it, or a snapshot."
TRIED = 1_024  # values of a batch by which it is seen whether they repeat
TOGETHER = (256, 64, 16, 1)  # cells of columns that are counted together, the first that has room
UNION_CELLS = 2**16  # of columns that are counted together for several sets
MOST_CELLS = 2**27  # of all counts that go beyond the sets: 1 GiB

K = TypeVar("K", bound=Hashable)

KeySet = tuple[GroupedColumn, ...]


class BatchCounter(RowCounter):
    """A table that gives its rows in batches, which this process counts on all cores.

    Subclasses define :meth:`batches`, and :meth:`stamps` where a change of the table shows before it is read.

    Formal guarantees
    -----------------
    Each row is counted once in each answer, and encoded as :meth:`tabsynth.schema.column.Column.encode` does it. In all
    answers a column must have the same counts, and the table the same stamps; otherwise it changed, and the fit ends.
    What was charged before stays charged. Where there are stamps, the scan that compares the values with the schema also
    counts single columns: the fit takes these counts once they are charged.
    """

    def __init__(self) -> None:
        self._compared: object = None  # stamps of the last comparison with the schema
        self._first: dict[str, tuple[Column, np.ndarray]] = {}  # exact counts of columns' codes

    def batches(self, names: Sequence[str], *, ordered: bool = True) -> Iterator["pa.RecordBatch"]:
        """Yield batches of rows, with columns in the order of ``names``; rows in theirs, if ``ordered``."""
        raise NotImplementedError

    def stamps(self) -> object:
        """Return what tells the table from a later state of it; None where nothing does."""
        return None

    def count_all(
        self,
        schema: Schema,
        sets: Sequence[tuple[int, ...]],
        groups: Sequence[Groups] | None = None,
    ) -> list[np.ndarray]:
        """See :meth:`RowCounter.count_all`, in one scan.

        Without ``groups`` the values of every column are compared with the schema again, and a table with stamps may be
        another one than before. With them it must be that of the last comparison.
        """
        stamps = self.stamps()
        if groups is None and stamps is not None:
            self._compared, self._first = stamps, {}
        elif self._compared is not None and stamps != self._compared:
            raise InputError(CHANGED)
        key_sets = grouped_columns(schema, sets, groups)
        counts: dict[KeySet, np.ndarray] = {
            s: self._first[s[0].column.name][1]
            for s in key_sets
            if len(s) == 1 and stamps is not None and self._has(s[0])
        }
        if uncounted := list(dict.fromkeys(s for s in key_sets if s not in counts)):
            counts |= self._count(uncounted)
        self._check_stamps(stamps)
        self._check_unchanged(counts.items())
        return [counts[s].astype(np.float64) for s in key_sets]

    def parts(self, names: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield the rows in their order, as :meth:`RowCounter.parts`."""
        import pyarrow as pa

        stamps = self.stamps()
        for batch in self.batches(names):
            yield table_from_arrow(pa.Table.from_batches([batch]))
        self._check_stamps(stamps)

    def _check_stamps(self, stamps: object) -> None:
        if self.stamps() != stamps:
            raise InputError(CHANGED)

    def _check_unchanged(self, answers: Iterable[tuple[KeySet, np.ndarray]]) -> None:
        """Refuse a table in which a column has other counts than in the first answer."""
        for key_set, counts in answers:
            for axis, key in enumerate(key_set):
                by_group = counts.sum(axis=tuple(i for i in range(counts.ndim) if i != axis))
                column, first = self._first.get(key.column.name, (None, by_group))
                if column != key.column:
                    if key.size == len(key.group):  # each code by itself
                        self._first[key.column.name] = key.column, by_group[key.group]
                elif not np.array_equal(np.bincount(key.group, first, key.size), by_group):
                    raise InputError(CHANGED)

    def _has(self, key: GroupedColumn) -> bool:
        """Return whether the values of a column were counted one by one before."""
        column, _ = self._first.get(key.column.name, (None, None))
        return column == key.column and key.by_value

    def _count(self, key_sets: Sequence[KeySet]) -> dict[KeySet, np.ndarray]:
        """Return the counts of different sets, shape (groups of each column), int64; refuse undeclared values of all columns."""
        names = list(dict.fromkeys(key.column.name for s in key_sets for key in s))
        counts, problems = count_batches(self.batches(names, ordered=False), key_sets)
        refuse_all([problems[place] for place in sorted(problems)])
        return counts


def count_batches(
    batches: Iterable["pa.RecordBatch"], key_sets: Sequence[KeySet], threads: int | None = None
) -> tuple[dict[KeySet, np.ndarray], dict[int, str]]:
    """Return the counts of different sets, and the problems of columns by their place.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Their columns are those of the sets, each once, in the order in which they occur there.
    key_sets : sequence of KeySet
    threads : int, optional
        Default: one for each core.

    Returns
    -------
    counts : dict of ndarray, shape (groups of each column), int64
        Of no use where there are problems.
    problems : dict of str
        What :meth:`Column.encode` says of undeclared values.
    """
    import pyarrow as pa

    tallies = Tallies(key_sets, {key: key.size for s in key_sets for key in s})
    by_name = {key.column.name: key.column for s in key_sets for key in s}
    names, columns = list(by_name), list(by_name.values())
    problems: dict[int, str] = {}

    def encode(place: int, values: "pa.Array") -> np.ndarray:
        if place not in problems:
            try:
                return _codes(columns[place], values)
            except InputError as error:
                problems[place] = str(error)
        return np.empty(0)

    with ThreadPoolExecutor(threads or pa.cpu_count()) as pool:
        for batch in batches:
            codes = dict(
                zip(names, pool.map(encode, range(len(names)), batch.columns), strict=True)
            )
            if not problems:  # else the table is refused, once all its columns were compared
                tallies.add(partial(_in_groups, codes), pool)
    return {s: tallies.of(s) for s in key_sets}, problems


def batch_rows(columns: int) -> int:
    """Return how many rows a batch of so many columns has at most."""
    return max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, columns)))


def _codes(column: Column, values: "pa.Array") -> np.ndarray:
    """Return category codes of the values of a batch, shape (n,), in the smallest type that has them."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    places = None
    try:
        tried = values.slice(0, TRIED)
        if 2 * len(tried.dictionary_encode("encode").dictionary) <= len(tried):
            values = values.dictionary_encode("encode")
            places, values = values.indices.to_numpy(), values.dictionary
    except pa.ArrowNotImplementedError:
        pass  # of a type that pyarrow does not compare
    series = column_from_arrow(pa.chunked_array([values]), column.name)
    codes = column.encode(column.convert(series)).astype(np.min_scalar_type(column.size))
    return codes if places is None else np.take(codes, places)


def _in_groups(of_columns: Mapping[str, np.ndarray], key: GroupedColumn) -> np.ndarray:
    codes = of_columns[key.column.name]
    if key.by_value:
        return codes
    return np.take(key.group.astype(np.min_scalar_type(key.size)), codes)


class Tallies(Generic[K]):
    """Counts of sets of columns, which grow by batches of rows.

    Parameters
    ----------
    sets : sequence of tuple
        Columns, by any keys.
    sizes : mapping of int
        The number of codes of each column: they are whole numbers from 0.
    """

    def __init__(self, sets: Sequence[tuple[K, ...]], sizes: Mapping[K, int]) -> None:
        self._sizes = sizes
        for cells in TOGETHER:
            self._union_of = self._unions(sets, cells)
            unions = list(dict.fromkeys(self._union_of.values()))
            if sum(self._cells_of(union) for union in unions) <= MOST_CELLS:
                break
        self._parts = list(dict.fromkeys(part for union in unions for part in union))
        self._counts = {union: np.zeros(self._cells_of(union), dtype=np.int64) for union in unions}

    def add(self, codes: Callable[[K], np.ndarray], threads: ThreadPoolExecutor) -> None:
        """Count a batch of rows; ``codes`` gives those of a column, shape (rows,), in the smallest type for its size."""

        def number(part: tuple[K, ...]) -> np.ndarray:
            return _one_number([codes(key) for key in part], [self._sizes[key] for key in part])

        numbers = dict(zip(self._parts, threads.map(number, self._parts), strict=True))

        def count(union: tuple[tuple[K, ...], ...]) -> None:
            cells = _one_number([numbers[part] for part in union], list(map(self._cells, union)))
            self._counts[union] += np.bincount(cells, minlength=len(self._counts[union]))

        for _ in threads.map(count, self._counts):
            pass

    def of(self, s: tuple[K, ...]) -> np.ndarray:
        """Return counts of a set of columns, shape (codes of each column), int64."""
        union = self._union_of[s]
        keys = [key for part in union for key in part]
        joint = self._counts[union].reshape([self._sizes[key] for key in keys])
        other_axes = tuple(axis for axis, key in enumerate(keys) if key not in s)
        in_set = [key for key in keys if key in s]
        return joint.sum(axis=other_axes).transpose([in_set.index(key) for key in s])

    def _cells(self, keys: Sequence[K]) -> int:
        return math.prod(self._sizes[key] for key in keys)

    def _cells_of(self, union: tuple[tuple[K, ...], ...]) -> int:
        return math.prod(map(self._cells, union))

    def _together_in(self, keys: Sequence[K], limit: int) -> list[tuple[K, ...]]:
        """Return columns in parts of at most ``limit`` cells, but single columns may have more; first fit."""
        parts = list[list[K]]()
        for key in keys:
            room = (p for p in parts if self._cells([*p, key]) <= limit)
            part_with_room = next(room, None)
            if part_with_room is None:
                parts.append([key])
            else:
                part_with_room.append(key)
        return [tuple(part) for part in parts]

    def _unions(
        self, sets: Sequence[tuple[K, ...]], limit: int
    ) -> dict[tuple[K, ...], tuple[tuple[K, ...], ...]]:
        """Return the parts that are counted jointly for each set: whole ones where they have few cells, else its own columns."""
        parts = self._together_in(list(dict.fromkeys(key for s in sets for key in s)), limit)
        part_of = {key: part for part in parts for key in part}
        unions = dict[tuple[K, ...], tuple[tuple[K, ...], ...]]()
        for s in sets:
            joint = tuple(dict.fromkeys(part_of[key] for key in s))
            small = self._cells_of(joint) <= UNION_CELLS
            unions[s] = joint if small else tuple((key,) for key in s)
        return _without_parts_of_others(unions)


def _without_parts_of_others(
    unions: dict[tuple[K, ...], tuple[tuple[K, ...], ...]],
) -> dict[tuple[K, ...], tuple[tuple[K, ...], ...]]:
    """Return the unions, with a larger one in place of one whose columns it has as well."""
    keys = {union: frozenset(k for part in union for k in part) for union in unions.values()}
    having = dict[K, list[tuple[tuple[K, ...], ...]]]()
    for union, of in keys.items():
        for key in of:
            having.setdefault(key, []).append(union)
    largest = dict[tuple[tuple[K, ...], ...], tuple[tuple[K, ...], ...]]()
    for union, of in keys.items():
        candidates = min((having[key] for key in of), key=len)
        largest[union] = max(
            (other for other in candidates if of <= keys[other]), key=lambda other: len(keys[other])
        )
    return {s: largest[union] for s, union in unions.items()}


def _one_number(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """Return one number for each row from several, below the product of ``sizes``."""
    if len(codes) == 1:
        return codes[0]
    small = np.min_scalar_type(math.prod(sizes))
    numbers = codes[0].astype(small)
    for further, size in zip(codes[1:], sizes[1:], strict=True):
        numbers *= small.type(size)
        numbers += further
    return numbers
