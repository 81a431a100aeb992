"""Estimates, standard errors and bias of a statistic of a fitted model, from the noisy counts of its fit.

A statistic of the rows changes, to first order, by the mean of its influence function over the rows. If that function is a sum
of functions of the measured sets of columns, the noisy counts say how far the fitted model is off, without bias, and with
noise of known variance. The statistic of a synthetic table, plus that correction, is a one-step estimator (Bickel 1975): an
error of the fit, such as that of its smoothing, enters with its square alone. The part of the influence function that is no such
sum is not in the counts. Where it is large, the model cannot support the statistic.

All of this is post-processing of the noisy counts: it reads no private row.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg
from scipy.stats import norm

from tabsynth._random import Randomness
from tabsynth._validate import in_range, quote
from tabsynth.errors import InputError
from tabsynth.privacy.noise.counts import number_of
from tabsynth.schema.column import Column
from tabsynth.synthesizers.margnet.estimator import MargNet
from tabsynth.synthesizers.margnet.measurement import Measurements
from tabsynth.synthesizers.sampling import sample_unrounded

NOT_SUPPORTED = "not supported by the measured marginals"
NO_ROWS = "no synthetic rows"
SUPPORT = 0.95  # the share of the variance of an influence function that measured sets must show
LEAST_ROWS, MOST_ROWS = 40_000, 60_000  # of the synthetic table that statistics are computed on
MISFIT = 10.0  # weight of what the counts leave of an influence function, against their noise
CARRIED = (
    0.05  # how far, relative to its probability, the fit may be off where nothing was measured
)
DENSE = 3_000  # cells up to which equations are solved directly
ITERATIONS = 200  # of their solution beyond
AT_ONCE = 64  # statistics whose influence is held together


@dataclass(frozen=True, eq=False)
class Influence:
    """Statistics of the reference rows, and how each of their distinct rows moves them.

    Attributes
    ----------
    names : Index or sequence
        Of the statistics.
    values : ndarray, shape (statistics,)
        Of the synthetic rows; NaN where they do not define one.
    of : callable
        From a slice of statistics to their influence at the distinct rows, shape (rows, statistics of the slice). Its
        mean over the synthetic ones is 0.
    """

    names: Sequence[Hashable] | pd.Index
    values: np.ndarray
    of: Callable[[slice], np.ndarray]


@dataclass(frozen=True, eq=False)
class Rows:
    """The distinct rows among the reference rows, as far as an analysis distinguishes them.

    Attributes
    ----------
    table : DataFrame
        The columns of the analysis.
    codes : ndarray, shape (rows, columns)
        Category codes of all modelled columns.
    synthetic : ndarray, shape (rows,)
        The share of the synthetic rows that are like it.
    both : ndarray, shape (rows,)
        The mean of that share and that of the independent rows.
    """

    table: pd.DataFrame
    codes: np.ndarray
    synthetic: np.ndarray
    both: np.ndarray


def variance(values: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return variances of columns of values under the shares of their rows, shape (columns,)."""
    out: np.ndarray = shares @ values**2 - (shares @ values) ** 2
    return np.maximum(out, 0.0)


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Noisy counts of the cells of some columns: of one measured set, or of several with the same columns.

    Attributes
    ----------
    columns : tuple of int
    groups : list of ndarray
        Of the values of each of these columns.
    counts : ndarray, shape (cells,)
    variance : float
        Of the noise on each cell.
    """

    columns: tuple[int, ...]
    groups: list[np.ndarray]
    counts: np.ndarray
    variance: float

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """Return the cell of each row of category codes, shape (rows,)."""
        shape = [number_of(group) for group in self.groups]
        each = [group[codes[:, j]] for j, group in zip(self.columns, self.groups, strict=True)]
        return np.ravel_multi_index(each, shape)


class Reference:
    """A synthetic table of a fitted model, rows of all combinations of values, and the noisy counts of some columns.

    Parameters
    ----------
    model : MargNet
        Fitted, or loaded from a file.
    random_state : int, optional
        Of the rows.
    table : DataFrame, optional
        Public rows in place of the synthetic ones, such as those of a simulation.

    Attributes
    ----------
    table : DataFrame
        ``rows`` synthetic rows, and then as many whose columns are independent and whose rare values are frequent.
    codes : ndarray, shape (2 * rows, columns)
        Their category codes.
    rows : int
    """

    def __init__(
        self, model: MargNet, random_state: int | None = None, table: pd.DataFrame | None = None
    ) -> None:
        self.measured = check_counts(model)
        seed = model.random_state if random_state is None else random_state
        if table is None:
            rows = int(min(max(self.measured.rows, LEAST_ROWS), MOST_ROWS))
            # Without rounding, which the noisy counts correct in any case, at a tenth of the time.
            table = sample_unrounded(model.model_, rows, seed)
        self.encoder, self.rows, self.n = model.model_.encoder, len(table), self.measured.rows
        rng = Randomness(None if seed is None else int(seed) + 2**65).numpy()
        codes = self.encoder.codes_of(table)
        mixed = np.stack(
            [_level_codes(codes[:, j], c.size, rng) for j, c in enumerate(self.columns)], axis=1
        )
        other = self.encoder.from_index(mixed, rng)
        self.table = pd.concat([table.set_axis(range(len(table))), other], ignore_index=True)
        self.table.attrs.clear()
        self.codes = np.concatenate([codes, self.encoder.codes_of(other)])
        self._numbered = dict[str, np.ndarray]()  # by column: the number of each row's value

    def distinct(self, names: Sequence[str]) -> Rows:
        """Return the distinct rows by the values of some columns, and by their category codes."""
        half, key = self.rows, np.zeros(len(self.codes), dtype=np.int64)
        parts = [self.codes[:, j] for j in self.positions(names)]
        for name in names:
            if name not in self._numbered:
                values = self.table[name]
                self._numbered[name] = pd.factorize(values, use_na_sentinel=False)[0]
        parts += [self._numbered[name] for name in names]
        for part in parts:
            key = pd.factorize(key * (int(part.max()) + 1) + part)[0]
        index = np.unique(key, return_index=True)[1]
        synthetic = np.bincount(key[:half], minlength=len(index)) / half
        other = np.bincount(key[half:], minlength=len(index)) / (len(key) - half)
        table = self.table[list(names)].iloc[index]
        return Rows(table, self.codes[index], synthetic, (synthetic + other) / 2)

    @property
    def columns(self) -> Sequence[Column]:
        """The modelled columns."""
        return self.encoder.schema.columns

    def positions(self, names: Sequence[str], what: str = "The analysis") -> list[int]:
        """Return positions of the modelled columns that columns of the table follow from.

        Raises
        ------
        InputError
            For a column that the table does not have, or that follows from no modelled column.
        """
        learned, declared = self.encoder.schema.names, self.encoder.whole
        out = set[int]()
        for name in names:
            if name not in self.table.columns:
                raise InputError(
                    f"{what} names column {quote(name)}, which the table does not have; its columns are"
                    f" {', '.join(map(str, self.table.columns[:8]))}{', …' if self.table.shape[1] > 8 else ''}."
                )
            sources = {name}
            while derived := [source for source in sources if source in declared.makers]:
                for source in derived:  # of a rule all columns take part
                    rule = declared.makers[source]
                    sources.remove(source)
                    sources |= set(rule.names) - {source}
                    difference = getattr(rule, "difference", None)
                    out |= {learned.index(difference.name)} if difference is not None else set()
            details = [c.detail for c in declared.columns if c.name in sources]
            sources |= {detail.name for detail in details if detail is not None}
            if not sources <= set(learned):
                raise InputError(
                    f"{what} names column {quote(name)}, which is not modelled; leave it out."
                )
            out |= {learned.index(source) for source in sources}
        return sorted(out)

    def aggregates(self, columns: Sequence[int]) -> list[Aggregate]:
        """Return all that the noisy counts say of some columns: each measured set, summed over the columns that are not among them."""
        parts = dict[object, list[Aggregate]]()
        for m in self.measured.counts:
            inner = tuple(j for j in m.columns if j in columns)
            if not inner:
                continue
            outer = tuple(i for i, j in enumerate(m.columns) if j not in inner)
            by = self.measured.resolution.of(m.columns)
            groups = [by[j] for j in inner]
            counts = m.counts.sum(axis=outer).ravel()
            spread = max(m.std, 1e-6) ** 2 * (m.counts.size // counts.size)
            key = inner, tuple(group.tobytes() for group in groups)
            parts.setdefault(key, []).append(Aggregate(inner, groups, counts, spread))
        out = []
        for same in parts.values():  # weighted by the inverse of their variances
            precision = np.array([1 / part.variance for part in same])
            mean = precision @ np.stack([part.counts for part in same]) / precision.sum()
            out.append(replace(same[0], counts=mean, variance=1 / precision.sum()))
        return out


class Design:
    """The cells of noisy counts as indicators of distinct rows.

    Parameters
    ----------
    reference : Reference
    aggregates : sequence of Aggregate
    rows : Rows
    """

    def __init__(self, reference: Reference, aggregates: Sequence[Aggregate], rows: Rows) -> None:
        blocks, count = [], len(rows.codes)
        ones = np.ones(count)
        for a in aggregates:
            place = np.arange(count), a.cells(rows.codes)
            blocks.append(sp.csr_matrix((ones, place), shape=(count, len(a.counts))))
        z = sp.hstack(blocks, format="csc")
        seen = np.diff(z.indptr) > 0  # a cell without a row has no part in a sum
        z, n = z[:, seen].tocsr(), reference.n
        noise = np.concatenate([np.full(len(a.counts), a.variance / n**2) for a in aggregates])
        counted = np.concatenate([a.counts for a in aggregates])[seen] / n
        self.noise = noise[seen]
        self.gap = counted - z.T @ rows.synthetic  # noisy counts less those of the synthetic rows
        self.z = z
        self.ridge = self.noise / MISFIT**2 + 1e-12
        self.weighted = z.multiply(rows.both[:, None]).T.tocsr()
        self.small = z.shape[1] <= DENSE
        if self.small:
            gram = (self.weighted @ self.z).toarray()
            gram[np.diag_indices_from(gram)] += self.ridge
            self.factor = cho_factor(gram, overwrite_a=True)

    def weights(self, influence: np.ndarray) -> np.ndarray:
        """Return values of the cells whose sums come close to influences at little noise, shape (cells, statistics)."""
        moments = np.asarray(self.weighted @ influence)
        if self.small:
            return np.asarray(cho_solve(self.factor, moments))
        scale = 1 / np.sqrt(np.asarray(self.weighted.sum(axis=1)).ravel() + self.ridge)

        def times(x: np.ndarray) -> np.ndarray:
            y = scale * np.ravel(x)
            return scale * (self.weighted @ (self.z @ y) + self.ridge * y)

        shape = (len(scale), len(scale))
        equations = LinearOperator(shape, matvec=times, dtype=np.float64)
        return np.stack(
            [scale * cg(equations, scale * m, rtol=1e-4, maxiter=ITERATIONS)[0] for m in moments.T],
            axis=1,
        )


def estimates(
    reference: Reference, rows: Rows, influence: Influence, confidence: float
) -> pd.DataFrame:
    """Return estimates of statistics with standard errors and intervals.

    Parameters
    ----------
    reference : Reference
    rows : Rows
        The distinct rows by the columns that the statistics follow from.
    influence : Influence
    confidence : float
        Of the intervals.

    Returns
    -------
    DataFrame
        A row for each statistic: ``estimate``, ``standard_error``, ``low``, ``high``, and a ``note`` in place of numbers.
    """
    in_range("confidence", confidence, 0, 1, low_open=True, high_open=True)
    columns = reference.positions(list(rows.table.columns))
    design = Design(reference, reference.aggregates(columns), rows)
    count = len(influence.values)
    shift, sampling, noise, carried, share = np.zeros((5, count))
    for start in range(0, count, AT_ONCE):
        part = slice(start, min(start + AT_ONCE, count))
        phi = np.nan_to_num(influence.of(part))
        gamma = design.weights(phi)
        residual = phi - design.z @ gamma
        shift[part] = gamma.T @ design.gap
        sampling[part] = variance(phi, rows.synthetic) / reference.n
        noise[part] = design.noise @ gamma**2
        carried[part] = CARRIED**2 * variance(residual, rows.synthetic)
        spread = variance(phi, rows.both)
        share[part] = 1 - variance(residual, rows.both) / np.where(spread > 0, spread, 1)
    error = np.sqrt(sampling + noise + carried)
    values, width = influence.values + shift, norm.ppf((1 + confidence) / 2) * error
    note = np.where(share < SUPPORT, NOT_SUPPORTED, "")
    note[np.isnan(influence.values)] = NO_ROWS
    numbers = {
        "estimate": values,
        "standard_error": error,
        "low": values - width,
        "high": values + width,
    }
    out = pd.DataFrame(numbers, index=influence.names)
    out[note != ""] = np.nan
    return out.assign(note=note)


def check_counts(model: object) -> Measurements:
    """Return the noisy counts of a fitted model.

    Raises
    ------
    InputError
        For a model that has none.
    """
    if not isinstance(model, MargNet):
        raise InputError(
            f"Intervals follow from noisy counts, which {type(model).__name__} has none of; fit MargNet."
        )
    if model.schema_.design:
        raise InputError(
            "Intervals assume independent rows that count once; this fit has survey weights or a unit of several rows."
        )
    measured = model.model_.measured
    if measured is None:
        raise InputError(
            "This model holds no noisy counts: its file is of an earlier version, or there are more than 4,000,000; fit it"
            " again, with fewer triples."
        )
    return measured


def _level_codes(codes: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return as many codes, each by itself, of probability ∝ the root of one more than its number in ``codes``."""
    shares = np.sqrt(np.bincount(codes, minlength=size) + 1)
    return rng.choice(size, len(codes), p=shares / shares.sum())
