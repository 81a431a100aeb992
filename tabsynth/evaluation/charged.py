"""Key utility figures with noise, paid for on the ledger, so that they may be published.

Only figures of bounded sensitivity: how many rows there are, and mean distances of counts from those of
the synthetic table, which is public. Everything else in a report reads private rows without noise.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tabsynth.evaluation.baseline import independent_columns
from tabsynth.evaluation.metric import UTILITY, Metric
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.utility.kmarginal import CITATION as NIST
from tabsynth.evaluation.utility.kmarginal import binned, marginal_sets, percentile_bins
from tabsynth.evaluation.utility.marginals import WAYS, cell_numbers, column_sets
from tabsynth.privacy.ledger.ledger import Account, PrivateTable, exact
from tabsynth.privacy.noise import samplers as noise
from tabsynth.privacy.noise.samplers import Bits

CITATION = "Gaussian mechanism, Dwork & Roth 2014; distance as Tao et al. 2021"
Z_HALF = 2.241402727604947  # two-sided 97.5%: two noises, together 95% (Bonferroni)


def uses(columns: int) -> int:
    """Reads that :func:`charged_metrics` makes of a table: the rows, and a mean for each figure."""
    orders = min(3, columns)
    return (
        1 + orders + (orders - 1) + 2
    )  # rows; distances; their baselines; k-marginal and its baseline


def charged_metrics(
    table: PrivateTable[np.ndarray],
    account: Account,
    synthetic: np.ndarray,
    *,
    names: Sequence[str],
    sizes: Sequence[int],
    scores: Sequence[np.ndarray | None],
    rng: np.random.Generator,
    bits: Bits | None = None,
    bound: int = 1,
) -> list[Metric]:
    """Noisy distances of 1-, 2- and 3-way counts, k-marginal score, and the number of rows.

    The baseline is not the training table with its columns shuffled, which is private, but the
    synthetic one: what its histograms alone would score. The interval covers the noise alone, not the
    drawing of rows.

    Parameters
    ----------
    account : Account
        Of `uses(columns)` uses; its noise multiplier σ is in units of the sensitivity, 1 for each use.
    synthetic : ndarray, shape (rows, columns), int64
        Category codes. Must be public: a release under the same ledger.
    rng : numpy Generator
        Shuffles the synthetic table.
    bits : Bits, optional
        Of the noise; by default ``rng``.
    bound : int
        The most rows of the table that are of one unit of privacy. It moves each figure at most so many times as far as a
        row does, and noise is scaled to that.

    Formal guarantees
    -----------------
    Sets of columns, bins and what is expected of counts follow from the schema, the synthetic table and
    noisy releases before, never from private rows. Each use releases one number plus N(0, σ²):

    * the number of rows n: adding or removing one record changes it by 1;
    * f = mean over sets of columns of Σ_cells |c − ñ q|, with counts c of the private rows, ñ the noisy
      n of before and q the shares of a public table. One record changes one cell of each set by 1, so
      by the triangle inequality each set's sum by at most 1, and their mean by at most 1. (Released is
      the sum over m sets with m σ, over m; ñ q is rounded to multiples of 2⁻²⁰, so that sums are exact.)

    So all are Gaussian mechanisms of sensitivity 1, or ``bound`` for a unit, composed adaptively. The distance is f / 2ñ:
    post-processing.
    """
    std = bound * account.whole_table_noise
    columns = len(sizes)

    def noisy(statistic: Callable[[np.ndarray], float], most: int, whole: bool = False) -> float:
        """``most`` is by how much one row may move the statistic."""
        (value,) = exact(account, [statistic(table.read(account))], [most * std])
        return float(noise.noisy(value, most * std, bits or rng, whole=whole))

    rows = max(1.0, noisy(lambda rows: float(len(rows)), 1, whole=True))
    alone = independent_columns(
        synthetic, len(synthetic), rng
    )  # of the public table: costs nothing

    def estimate(
        public: np.ndarray, sets: Sequence[tuple[int, ...]], bins: list | None
    ) -> Estimate:
        """The noisy mean distance. Of ñ the noise moves f by |ñ − n| at most, and the divisor too."""

        def total(private: np.ndarray) -> float:
            one, other = (
                (private, public) if bins is None else (binned(private, bins), binned(public, bins))
            )
            width = sizes if bins is None else [int(group.max()) + 1 for group in bins]
            return total_gap(one, other, sets, width, rows)

        value = min(1.0, max(0.0, noisy(total, len(sets)) / len(sets) / (2 * rows)))
        half = Z_HALF * std * (2 + 2 * value) / (2 * rows)
        return Estimate(value, max(0.0, value - half), min(1.0, value + half), round(rows))

    metrics = []
    for order in range(1, min(3, columns) + 1):
        sets = column_sets(columns, order)
        value = estimate(synthetic, sets, None)
        baseline = estimate(alone, sets, None) if order > 1 else None
        metrics.append(_distance(order, value, baseline))
    bins = percentile_bins(
        synthetic, sizes, scores
    )  # its percentiles: the private ones are not public
    sets = marginal_sets(list(names))
    value, baseline = estimate(synthetic, sets, bins), estimate(alone, sets, bins)
    metrics.append(_score(value, baseline))
    half = 1.959963984540054 * std
    counted = Estimate(rows, max(0.0, rows - half), rows + half, round(rows))
    metrics.append(_count(counted, bound))
    return metrics


def total_gap(
    private: np.ndarray,
    public: np.ndarray,
    sets: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
    rows: float,
) -> float:
    """Sum over sets of columns of Σ_cells |counts of ``private`` − ``rows`` × shares of ``public``|."""
    total = 0.0
    for columns in sets:
        one, other, cells = cell_numbers(private, public, columns, sizes)
        expected = noise.on_grid(rows * np.bincount(other, minlength=cells) / len(public))
        total += float(np.abs(np.bincount(one, minlength=cells) - expected).sum())
    return total


def _distance(order: int, value: Estimate, baseline: Estimate | None) -> Metric:
    return Metric(
        f"tvd{order}",
        f"Total variation distance, {WAYS[order]}",
        UTILITY,
        value,
        None,
        baseline,
        "lower",
        0.0,
        "Share of rows that would have to move to make the counts equal, with noise; the interval is"
        " that of the noise. Baseline: the synthetic table with its columns shuffled.",
        CITATION,
        of_relations=order > 1,
    )


def _score(value: Estimate, baseline: Estimate) -> Metric:
    one, other = (
        Estimate(1000 * (1 - e.value), 1000 * (1 - e.high), 1000 * (1 - e.low), e.n)
        for e in (value, baseline)
    )
    return Metric(
        "k_marginal",
        "k-marginal score",
        UTILITY,
        one,
        None,
        other,
        "higher",
        1000.0,
        "Likeness of the counts of pairs of columns, from 0 (disjoint) to 1000 (equal), with noise; bins"
        " are percentiles of the synthetic table.",
        NIST,
    )


def _count(rows: Estimate, bound: int) -> Metric:
    used = "" if bound == 1 else f" At most {bound} rows of each unit of privacy are counted."
    return Metric(
        "rows",
        "Rows of the training table",
        "shown",
        rows,
        None,
        None,
        "neither",
        None,
        f"Their number with noise.{used}",
        CITATION,
    )
