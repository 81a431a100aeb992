"""Noisy counts, one-way and k-way, and what follows from them for free."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from tabsynth.encoding.rows import PrivateRows, codes_of, weights_of, without_weights
from tabsynth.privacy.ledger.ledger import Account, PrivateTable
from tabsynth.privacy.ledger.ledger import exact as passed
from tabsynth.privacy.noise import samplers as noise
from tabsynth.privacy.noise.samplers import Bits

T = TypeVar("T")
COUNTED_ROWS = 2**20  # rows whose cells are in memory at a time
LOOKED_UP = 2**25  # codes whose groups are held: 256 MiB

Z = 1.959963984540054  # two-sided 95% of a normal distribution
Z_OF_TWO = 2.241402727604947  # two-sided 97.5%: two noises, together 95% (Bonferroni)

# For each column, the number of the group of each of its values: 0, 1, … without a gap.
Groups = Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy counts of one set of columns: all that is ever known of the private rows.

    Attributes
    ----------
    columns : tuple of int
        The columns' positions.
    counts : ndarray, shape (size of each column, …), float64
        Whole numbers, possibly negative.
    std : float
        Standard deviation of the noise on each cell, in counts; 0 where none was asked for.
    """

    columns: tuple[int, ...]
    counts: np.ndarray
    std: float


def by_value(sizes: Sequence[int]) -> Groups:
    """Return groups of one value each."""
    return [np.arange(size) for size in sizes]


def count_rows(
    rows: PrivateRows, columns: Sequence[int], groups: Groups, times: np.ndarray | None = None
) -> np.ndarray:
    """Return exact counts of groups of category codes, shape (groups of each column, …), float64.

    Never by single values first: memory is that of the groups' cells, however many values there are.
    A row counts once, or as many ``times`` as its entry there says, or else as its survey weight.
    """
    index = codes_of(rows)
    times = weights_of(rows) if times is None else times
    shape = [number_of(groups[j]) for j in columns]
    counts = np.zeros(math.prod(shape))
    for start in range(0, len(index), COUNTED_ROWS):
        rows_now = slice(start, start + COUNTED_ROWS)
        cells = np.ravel_multi_index([groups[j][index[rows_now, j]] for j in columns], shape)
        counts += np.bincount(cells, None if times is None else times[rows_now], len(counts))
    return counts.reshape(shape)


def count_sets(
    rows: PrivateRows, sets: Sequence[Sequence[int]], groups: Sequence[Groups]
) -> Iterator[np.ndarray]:
    """Yield what :func:`count_rows` returns, for many sets of columns; the groups of a column's codes are looked up once."""
    index, times = codes_of(rows), weights_of(rows)
    if index.size > LOOKED_UP:
        yield from (count_rows(rows, s, by) for s, by in zip(sets, groups, strict=True))
        return
    # By column and groups, which are held so that no other array has their place.
    found = dict[tuple[int, int], tuple[np.ndarray, int, np.ndarray]]()
    for s, by in zip(sets, groups, strict=True):
        cells, shape = np.zeros(1, dtype=np.intp), list[int]()
        for j in s:
            group = by[j]
            if (j, id(group)) not in found:
                if (len(found) + 1) * len(index) > LOOKED_UP:
                    found.clear()
                found[j, id(group)] = group, number_of(group), group[index[:, j]].astype(np.intp)
            _, size, of_rows = found[j, id(group)]
            cells = of_rows if not shape else cells * size + of_rows
            shape.append(size)
        counts = np.bincount(cells, times, math.prod(shape))
        yield counts.astype(float).reshape(shape)


def number_of(group: np.ndarray) -> int:
    """Return groups of a column's values."""
    return int(group.max()) + 1


def cells_of(columns: Sequence[int], groups: Groups) -> int:
    """Return cells of the counts of a set of columns, in groups of values."""
    return math.prod(number_of(groups[j]) for j in columns)


def in_groups(counts: np.ndarray, groups: Groups) -> np.ndarray:
    """Return counts of groups of values: axis i of ``counts`` summed over ``groups[i]``."""
    for axis, group in enumerate(groups):
        onto = np.zeros((number_of(group), *np.delete(counts.shape, axis)))
        np.add.at(onto, group, np.moveaxis(counts, axis, 0))
        counts = np.moveaxis(onto, 0, axis)
    return counts


class NoisyCounts(Generic[T]):
    """Answers "noisy counts of these columns", and nothing else, from any store of rows.

    Parameters
    ----------
    table : PrivateTable
        The rows, in any form that ``count`` takes.
    sizes : sequence of int
        Number of values of each column: public.
    count : callable
        ``count(rows, sets, groups)``: exact counts of each set of columns, one after the other, each in its groups of
        the values of every column. In each set a row must add 1 to one cell and nothing to the others. Default:
        of an array of category codes.
    bound : float
        The most rows that one unit of privacy adds: to all cells of a set together. Public.
    """

    def __init__(
        self,
        table: PrivateTable[T],
        sizes: Sequence[int],
        count: Callable[
            [T, Sequence[tuple[int, ...]], Sequence[Groups]], Iterable[np.ndarray]
        ] = count_sets,  # type: ignore[assignment]
        bound: float = 1.0,
    ) -> None:
        self.bound = bound
        self.table = table
        self.sizes = tuple(sizes)
        self._count = count

    def measure(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        shares: Sequence[float],
        bits: Bits,
        groups: Sequence[Groups] | None = None,
    ) -> list[Measured]:
        """Return counts of each set of columns with Gaussian noise, for one use of ``account``.

        Parameters
        ----------
        account : Account
            Its ``noise_multiplier`` σ is in units of the joint sensitivity, which is the bound.
        sets : sequence of tuple of int
            Sets of columns.
        shares : sequence of float
            Share of the budget (of μ² = 1/σ²) of each set; they sum to 1.
        groups : sequence of Groups, optional
            For each set, the groups of values to count, which must not follow from the rows, save by
            earlier releases. None: each value by itself.

        Formal guarantees
        -----------------
        Adding or removing one unit of privacy changes the cells of a set by at most the bound b in L1, and so
        in L2; rows count once, whatever their survey weights. In the vector of all counts, each set's scaled by √share,
        that is an L2 sensitivity of b√(Σ shares) = b. The noise on it is N(0, b²σ²) an entry, so that on a set's counts
        it has standard deviation bσ/√share.
        """
        if not math.isclose(math.fsum(shares), 1.0, rel_tol=1e-9) or min(shares) <= 0:
            raise ValueError("shares must be positive and sum to 1")
        stds = [self.bound * noise_of(account, share) for share in shares]
        rows = without_weights(self.table.read(account))
        by = [by_value(self.sizes)] * len(sets) if groups is None else groups
        # All at once, so that a table which counts its own rows is scanned once.
        counts = list(self._count(rows, sets, by))
        # The certificate's unit: counts of a set scaled by the root of its share of the budget.
        counts = passed(account, counts, stds, units=[1 / math.sqrt(share) for share in shares])
        for i, std in enumerate(stds):  # each takes the place of the exact ones: half the memory
            counts[i] = noise.noisy(counts[i], std, bits, whole=True)
        return [Measured(tuple(s), c, std) for s, c, std in zip(sets, counts, stds, strict=True)]

    def distances(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        expected: Callable[[tuple[int, ...]], np.ndarray],
        bits: Bits,
        groups: Groups | None = None,
    ) -> np.ndarray:
        """Return noisy L1 distances of the counts from expected ones, shape (sets,), for one use of ``account``.

        Parameters
        ----------
        expected : callable
            From a set of columns to the counts that are expected of it: public, or released before.

        Formal guarantees
        -----------------
        Adding or removing one unit changes the cells of each set by at most the bound b in L1, so that each distance
        changes by at most b and the vector of m of them by b√m in L2. The noise is N(0, m b²σ²) on each. What is
        expected is rounded to multiples of 2⁻²⁰, so that sums below 2³³ have no rounding to add to that. Rows count once.
        """
        unit = math.sqrt(len(sets))
        std = account.whole_table_noise * self.bound * unit
        rows = without_weights(self.table.read(account))
        by = by_value(self.sizes) if groups is None else groups
        counts = self._count(rows, sets, [by] * len(sets))
        exact = [
            np.abs(counted - noise.on_grid(expected(s))).sum()
            for s, counted in zip(sets, counts, strict=True)
        ]
        (distances,) = passed(account, [np.array(exact)], [std], units=[unit])
        return noise.noisy(distances, std, bits)

    def mean_distance(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        expected: Sequence[np.ndarray],
        bits: Bits,
        groups: Sequence[Groups],
    ) -> float:
        """Return the noisy mean of the L1 distances of the counts of sets from expected ones, for one use of ``account``.

        Parameters
        ----------
        expected : sequence of ndarray, shape (groups of each column)
            For each set the counts that are expected of it: public, or released before.
        groups : sequence of Groups
            As of :meth:`measure`.

        Formal guarantees
        -----------------
        Adding or removing one unit changes the cells of each set by at most the bound b in L1, so that each distance, and so
        their mean, changes by at most b. The noise is N(0, b²σ²). What is expected is rounded as in :meth:`distances`.
        """
        std = account.whole_table_noise * self.bound
        rows = without_weights(self.table.read(account))
        counts = self._count(rows, sets, groups)
        exact = [
            np.abs(counted - noise.on_grid(of)).sum()
            for of, counted in zip(expected, counts, strict=True)
        ]
        (mean,) = passed(account, [float(np.mean(exact))], [std])
        return float(noise.noisy(mean, std, bits))

    def contrasts(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        signs: Sequence[np.ndarray],
        bits: Bits,
        wide: Sequence[tuple[int, ...]] = (),
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return noisy sums over the rows of products of signs, shapes (sets, codes) and (wide sets,), for one use of ``account``.

        Parameters
        ----------
        signs : sequence of ndarray, shape (codes, values)
            Of every column: +1 or -1 for each value, which must not follow from the rows, save by earlier releases. The first
            sum of a set is that of the products of its columns' first codes, and so on.
        wide : sequence of tuple of int
            Sets of which there is the sum of the first codes alone. It follows from one table of all their columns.

        Formal guarantees
        -----------------
        Adding or removing one unit changes the cells of each set by at most the bound b in L1, so that each sum changes by at
        most b and the vector of m of them by b√m in L2. The noise is N(0, m b²σ²) on each. Rows count once.
        """
        unit = math.sqrt(len(sets) * len(signs[0]) + len(wide))
        std = account.whole_table_noise * self.bound * unit
        rows = without_weights(self.table.read(account))
        alike = [np.unique(of, axis=1, return_inverse=True) for of in signs]
        groups = [group.ravel() for _, group in alike]
        every = tuple(sorted({j for s in wide for j in s}))
        first = [np.unique(of[0], return_inverse=True) for of in signs]
        halves = [group.ravel() for _, group in first]
        together = [every] if wide else []
        counts = iter(
            self._count(rows, [*sets, *together], [groups] * len(sets) + [halves] * len(together))
        )
        exact = [signed_sums(next(counts), [alike[j][0] for j in s]) for s in sets]
        whole = sums_of_parts(next(counts), [first[j][0] for j in every]) if wide else np.zeros(1)
        exact += [whole[tuple(int(j in s) for j in every)] for s in wide]
        flat = np.concatenate([np.ravel(part) for part in exact])
        (sums,) = passed(account, [flat], [std], units=[unit])
        noisy = noise.noisy(sums, std, bits, whole=True)
        end = len(sets) * len(signs[0])
        return noisy[:end].reshape(len(sets), len(signs[0])), noisy[end:]


def signed_sums(counts: np.ndarray, signs: Sequence[np.ndarray]) -> np.ndarray:
    """Return sums of ``counts`` times the products of signs, shape (codes,); of each axis shape (codes, groups)."""
    sums = counts[None]
    for of in reversed(signs):
        sums = (sums * of.reshape(len(of), *[1] * (sums.ndim - 2), -1)).sum(-1)
    return sums


def sums_of_parts(counts: np.ndarray, signs: Sequence[np.ndarray]) -> np.ndarray:
    """Return sums of ``counts`` times the signs of some axes, shape (2, …): at 1 of an axis its sign is in the product.

    A Walsh-Hadamard transform, where each axis has a +1 and a -1.
    """
    for axis, of in enumerate(signs):
        onto = np.stack([np.ones(len(of)), of])
        counts = np.moveaxis(np.tensordot(onto, counts, (1, axis)), 0, axis)
    return counts


def average(first: Measured, second: Measured) -> Measured:
    """Return two noisy counts of the same cells as one: weighted by the inverse of their variances."""
    if not (first.std and second.std):
        return first if not first.std else second
    weights = np.array([first.std**-2, second.std**-2])
    counts = (weights[0] * first.counts + weights[1] * second.counts) / weights.sum()
    return Measured(first.columns, counts, float(weights.sum() ** -0.5))


class CombinedSums:
    """Noisy sums of some cells over several releases, each weighted by the inverse of its variance.

    Attributes
    ----------
    weighted : ndarray, shape (2, cells)
        The totals of the weighted sums and of the weights.
    """

    def __init__(self, cells: int) -> None:
        self.weighted = np.zeros((2, cells))

    def add(self, sums: np.ndarray, std: float, cells: np.ndarray) -> None:
        """Add sums of those ``cells`` of a mask, with noise of one standard deviation."""
        weight = 1 / max(std, 1e-9) ** 2
        self.weighted[:, cells] += np.stack([sums * weight, np.full(len(sums), weight)])

    @property
    def estimates(self) -> np.ndarray:
        """The means of the sums; 0 of cells without one."""
        sums, weights = self.weighted
        return np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviations of the noise of the means; 0 of cells without one."""
        roots = np.sqrt(self.weighted[1])
        return np.divide(1, roots, out=np.zeros_like(roots), where=roots > 0)


def noise_of(account: Account, share: float) -> float:
    """Return the standard deviation, in counts, of the noise on counts that have a share of the budget."""
    return account.whole_table_noise / math.sqrt(share)


def shares_by_cells(
    cells: Sequence[int], importance: Sequence[float] | np.ndarray | None = None
) -> list[float]:
    """Return shares of the budget ∝ (w · cells)^(2/3), which minimise the expected total of w · L1 errors.

    That error is ∝ Σ wₘ·cellsₘ·σₘ, and the budget holds Σ 1/σₘ² fixed. Lagrange: wₘ·cellsₘ ∝ 1/σₘ³, so
    1/σₘ² ∝ (wₘ·cellsₘ)^(2/3). Without ``importance`` all w are 1.
    """
    weights = np.asarray(cells, dtype=float)
    if importance is not None:
        weights = weights * np.asarray(importance, dtype=float)
    weights = weights ** (2 / 3)
    return list(weights / weights.sum())


def total_rows(measured: Sequence[Measured]) -> float:
    """Return the number of rows, at least 1, from noisy counts (post-processing, free).

    The counts of each set sum to n plus noise of variance cells · std²; inverse-variance weights.
    """
    totals = np.array([m.counts.sum() for m in measured])
    variances = _variances_of_totals(measured)
    if not variances.all():  # without noise each total is n
        return max(1.0, float(totals[variances == 0].mean()))
    return max(1.0, float((totals / variances).sum() / (1 / variances).sum()))


def noise_of_total(measured: Sequence[Measured]) -> float:
    """Return the standard deviation of the noise on :func:`total_rows`."""
    variances = _variances_of_totals(measured)
    return float((1 / variances).sum() ** -0.5) if variances.all() else 0.0


def _variances_of_totals(measured: Sequence[Measured]) -> np.ndarray:
    return np.array([m.counts.size * m.std**2 for m in measured])


def interval(value: float, std: float, *, rounded: bool = False) -> tuple[float, float]:
    """Return the 95% interval of an exact number, 0 or more, from the number with Gaussian noise.

    Parameters
    ----------
    value : float
        With the noise.
    std : float
        Standard deviation of the noise.
    rounded : bool
        Whether noise made a whole number of a whole number: its rounding adds up to a half.
    """
    half = Z * std + (0.5 if rounded and std else 0.0)
    return max(0.0, value - half), max(0.0, value + half)


def share_interval(
    count: float, std: float, total: float, total_std: float = 0.0
) -> tuple[float, float]:
    """Return the 95% interval of a share of two exact numbers, from both with Gaussian noise, dependent or not.

    ``std`` and ``total_std`` are the standard deviations of the noise; ``total_std`` is 0 of an exact total.
    """
    z = Z_OF_TWO if std and total_std else Z
    low = (count - z * std) / (total + z * total_std)
    high = (count + z * std) / max(total - z * total_std, 1.0)
    return min(1.0, max(0.0, low)), min(1.0, max(0.0, high))


def stated_count(value: float, ends: Sequence[float]) -> str:
    """Return a released count with its interval in words: "about 12 (95%: 3 to 21)"; the exact one alone where there is no noise."""
    low, high = ends
    if low == value == high:
        return f"{value:,.0f}"
    return f"about {value:,.0f} (95%: {math.floor(low):,} to {math.ceil(high):,})"


def stated_share(value: float, ends: Sequence[float], digits: int = 1) -> str:
    """Return a released share with its interval in words: "about 8.3% (95%: 6.1% to 10.5%)"."""
    low, high = ends
    if low == value == high:
        return f"{value:.{digits}%}"
    unit = 10.0 ** (digits + 2)
    low, high = math.floor(low * unit) / unit, math.ceil(high * unit) / unit
    return f"about {value:.{digits}%} (95%: {low:.{digits}%} to {high:.{digits}%})"


def noisy_marginals(
    table: PrivateTable[Any],
    account: Account,
    sizes: Sequence[int],
    bits: Bits,
    bound: float = 1.0,
    step: float | None = None,
) -> list[np.ndarray]:
    """Return one-way counts of every column with Gaussian noise.

    Parameters
    ----------
    table : PrivateTable of int array, shape (n, columns), or of Rows
    account : Account
        One use of it is spent; its ``noise_multiplier`` is in units of the joint sensitivity.
    sizes : sequence of int
        Number of values of each column.
    bound, step : float, float or None
        As of :class:`NoisyCounts`.

    Returns
    -------
    list of ndarray, shape (size,)
        Whole numbers, possibly negative; of weighted rows multiples of a power of two.

    Formal guarantees
    -----------------
    Adding or removing one unit of privacy changes the cells of each of the d columns by at most the bound b in L1, and
    so in L2: a record changes one cell by 1. That is an L2 sensitivity of b√d, so the noise has standard deviation
    ``noise_multiplier`` · b√d counts a cell.
    """
    std = marginal_noise(account, len(sizes), bound)
    rows, groups = table.read(account), by_value(sizes)
    counts = [count_rows(rows, (j,), groups) for j in range(len(sizes))]
    counts = passed(account, counts, [std] * len(counts))
    return [noise.noisy(exact, std, bits, whole=step is None) for exact in counts]


def marginal_noise(account: Account, columns: int, bound: float = 1.0) -> float:
    """Return the standard deviation of the noise on one cell, in counts."""
    return account.whole_table_noise * bound * math.sqrt(columns)


def noisy_row_count(
    table: PrivateTable[Any], account: Account, bits: Bits, unit_rows: int = 1
) -> float:
    """Return the number of rows with Gaussian noise, at least 1. Its sensitivity is the ``unit_rows`` of one unit of privacy."""
    std = account.whole_table_noise * unit_rows
    (exact,) = passed(account, [float(len(table.read(account)))], [std])
    return max(1.0, float(noise.noisy(exact, std, bits, whole=True)))


def noisy_total(table: PrivateTable[Any], account: Account, bits: Bits, bound: float) -> float:
    """Return the total of the survey weights with Gaussian noise, at least 1. Its sensitivity is the bound of a unit of privacy."""
    std = account.whole_table_noise * bound
    weights = weights_of(table.read(account))
    exact_total = 0.0 if weights is None else float(weights.sum())
    (exact,) = passed(account, [exact_total], [std])
    return max(1.0, float(noise.noisy(exact, std, bits)))


def estimated_rows(counts: Sequence[np.ndarray]) -> float:
    """Return the number of rows, at least 1, from noisy one-way counts (post-processing, free).

    Each column's counts sum to n plus noise of variance ∝ its size, so they are weighted by
    1 / size.
    """
    sizes = np.array([len(c) for c in counts], dtype=float)
    totals = np.array([c.sum() for c in counts])
    return max(1.0, float((totals / sizes).sum() / (1 / sizes).sum()))


def noise_of_estimated_rows(sizes: Sequence[int], std: float) -> float:
    """Return the standard deviation of the noise on :func:`estimated_rows`, from that on one cell."""
    return std / math.sqrt(sum(1 / size for size in sizes))


def probabilities(counts: np.ndarray, rows: float, std: float) -> np.ndarray:
    """Return a distribution, strictly positive, from noisy counts (post-processing, free).

    Projection of the counts onto {≥ 0, sum = rows} in L2, then a floor of a fraction of the noise,
    so that no value is ruled out by noise alone.
    """
    ordered = np.sort(counts)[::-1]
    shifts = (np.cumsum(ordered) - rows) / np.arange(1, len(counts) + 1)
    shift = shifts[np.nonzero(ordered > shifts)[0][-1]]
    floor = max(0.1 * std, 0.25)
    values = np.maximum(counts - shift, 0) + floor
    return values / values.sum()
