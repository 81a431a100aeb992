"""Key utility figures with noise, paid for on the ledger, so that they may be published.

Only figures of bounded sensitivity: how many rows there are, and mean distances of counts from those of
the synthetic table, which is public. Everything else in a report reads private rows without noise.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tabsynth.design import NO_DESIGN, Design
from tabsynth.encoding.rows import PrivateRows, codes_of, weights_of
from tabsynth.evaluation.baseline import independent_columns
from tabsynth.evaluation.definitions import DEFINITIONS
from tabsynth.evaluation.metric import Columns, Metric
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.utility.marginals import WAYS, cell_numbers, column_sets
from tabsynth.evaluation.weighting import WeightedRows, counts, shares
from tabsynth.privacy.ledger.ledger import Account, PrivateTable, exact
from tabsynth.privacy.noise import samplers as noise
from tabsynth.privacy.noise.counts import Z_OF_TWO, interval
from tabsynth.privacy.noise.samplers import Bits

ROUNDING = 2.0**-20  # of the sensitivity of a distance, set aside for the rounding of its sum
LEAST = 1.0  # of the noisy size of a table, in its largest weights
OF_PEOPLE = "Share of the population, because rows count by their weights."
DISTANCE, SIZE = DEFINITIONS["published"]


def uses(columns: int, weighted: bool = False) -> int:
    """Return the number of reads that :func:`charged_metrics` makes of a table: rows, weights, and a mean for each figure."""
    orders = min(3, columns)
    # rows; total of weights; distances; their baselines
    return 1 + weighted + orders + (orders - 1)


def charged_metrics(
    table: PrivateTable[PrivateRows],
    account: Account,
    synthetic: np.ndarray | WeightedRows,
    columns: Columns,
    *,
    rng: np.random.Generator,
    bits: Bits | None = None,
    design: Design = NO_DESIGN,
) -> list[Metric]:
    """Return noisy distances of 1-, 2- and 3-way counts, the number of rows, and the total of their weights.

    The baseline is not the training table with its columns shuffled, which is private, but the
    synthetic one: what its histograms alone would score. The interval covers the noise alone, not the
    drawing of rows.

    Parameters
    ----------
    table : PrivateTable
        Category codes; with survey weights multiples of the design's step from 0 to its cap.
    account : Account
        Of `uses(columns, weighted)` uses; its noise multiplier σ is in units of the sensitivity, 1 for each use.
    synthetic : ndarray, shape (rows, columns), int64, or WeightedRows
        Category codes. Must be public: a release under the same ledger.
    columns : Columns
    rng : numpy Generator
        Shuffles the synthetic table.
    bits : Bits, optional
        Of the noise; by default ``rng``.
    design : Design
        The weights of the rows and the unit of privacy: public. A unit adds at most ``design.rows`` rows to the table,
        and at most ``design.bound`` to their weights; noise is scaled to that.

    Formal guarantees
    -----------------
    Sets of columns and what is expected of counts follow from the schema, the synthetic table and
    noisy releases before, never from private rows. Each use releases one number plus N(0, σ²) in units of its
    sensitivity. A row counts as its weight w, from 0 to the cap W, or as 1; a unit has at most b rows.

    * The number of rows n: a unit changes it by at most b.
    * With weights, their total T = Σ w: a unit changes it by at most bW.
    * f = mean over sets of columns of Σ_cells |c − ñ q|, with (weighted) counts c of the private rows, ñ the noisy n
      or T of before and q the shares of a public table. A row changes one cell of each set by its w ≤ W, so
      by the triangle inequality each set's sum by at most W, and their mean by at most W; the b rows of a unit change
      it by bW. (Released is the sum over m sets with m times the noise, over m.)

    So all are Gaussian mechanisms of sensitivity 1, composed adaptively. The distance is f / 2ñ: post-processing.

    Rounding: ñ q is rounded to multiples of a step, of which counts are multiples, too. So the sum of a set is exact up
    to 2⁵³ steps, and that of all m sets is rounded once: by m steps at most, or 2m between neighbours. Weights have a
    step of 2⁻²³ W at most, and hold to 2²⁸ rows. Without weights the step is 2⁻²⁰; to 2³¹ rows the sums are half as
    large as that limit. So rounding is below 2⁻²⁰ of m times the sensitivity, and that is set aside (:data:`ROUNDING`).

    NOTE[DIFF] Counts by classes of weights, as MargNet has them, would have the noise of single rows. But a distance of
    sums over classes follows from the counts of all cells of all classes, and its error grows with their number.
    Here one number has noise, whatever the number of cells: W/T·σ of a distance.
    """
    weighted = design.weight is not None
    public_rows = synthetic if isinstance(synthetic, WeightedRows) else WeightedRows(synthetic)
    of_rows = design.rows * account.whole_table_noise
    std = design.bound * account.whole_table_noise
    sizes = columns.sizes

    def noisy(
        statistic: Callable[[PrivateRows], float], scale: float, integral: bool = False
    ) -> float:
        """Return a noisy statistic; ``scale`` is the noise multiplier times as much as one unit of privacy may move it."""
        (value,) = exact(account, [statistic(table.read(account))], [scale])
        return float(noise.noisy(value, scale, bits or rng, whole=integral))

    rows = max(1.0, noisy(lambda rows: float(len(rows)), of_rows, integral=True))
    size = rows
    if weighted:
        lowest_size = LEAST * float(design.max_weight or 0)
        size = max(lowest_size, noisy(_total, std))
    # Of the public table: costs nothing.
    alone = WeightedRows(
        independent_columns(public_rows.codes, len(public_rows), rng, public_rows.weights)
    )
    step = design.step or noise.STEP

    def estimate(public: WeightedRows, sets: Sequence[tuple[int, ...]]) -> Estimate:
        """Return the noisy mean distance. Of ñ the noise moves f by |ñ − n| at most, and the divisor too."""

        def total(private: PrivateRows) -> float:
            private_rows = WeightedRows(
                codes_of(private), weights_of(private) if weighted else None
            )
            return total_gap(private_rows, public, sets, sizes, size, step)

        scale = len(sets) * std * (1 + ROUNDING)
        value = min(1.0, max(0.0, noisy(total, scale) / len(sets) / (2 * size)))
        half = Z_OF_TWO * std * (2 + 2 * value) / (2 * size)
        return Estimate(value, max(0.0, value - half), min(1.0, value + half), round(rows))

    metrics = []
    for order in range(1, min(3, len(sizes)) + 1):
        sets = column_sets(len(sizes), order)
        value = estimate(public_rows, sets)
        baseline = estimate(alone, sets) if order > 1 else None
        metrics.append(
            Metric(
                DISTANCE,
                value,
                baseline=baseline,
                key=f"tvd{order}",
                title=f"Total variation distance, {WAYS[order]}",
                note=OF_PEOPLE if weighted else "",
                of_relations=order > 1,
            )
        )
    bounded = f"At most {design.rows} rows of each unit of privacy are counted."
    metrics.append(
        Metric(
            SIZE,
            Estimate(rows, *interval(rows, of_rows, rounded=True), round(rows)),
            title="Rows of the training table",
            note=bounded if design.unit is not None and design.rows > 1 else "",
        )
    )
    if weighted:
        metrics.append(
            Metric(
                SIZE,
                Estimate(size, *interval(size, std), round(rows)),
                key="population",
                title="Population of the training table",
                note=f"A weight above {design.max_weight:g} counts as that; distances are of weighted counts, too.",
            )
        )
    return metrics


def total_gap(
    private: WeightedRows,
    public: WeightedRows,
    sets: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
    size: float,
    step: float = noise.STEP,
) -> float:
    """Return the sum over sets of columns of Σ_cells |counts of ``private`` − ``size`` × shares of ``public``|.

    What is expected is in multiples of ``step``; the sums of sets are added up with one rounding.
    """
    gaps = []
    for columns in sets:
        private_cells, public_cells, cells = cell_numbers(
            private.codes, public.codes, columns, sizes
        )
        expected = noise.on_grid(size * shares(public_cells, cells, public.weights), step)
        gaps.append(float(np.abs(counts(private_cells, cells, private.weights) - expected).sum()))
    return math.fsum(gaps)


def _total(rows: PrivateRows) -> float:
    """Return the sum of the weights of rows that have some."""
    weights = weights_of(rows)
    return 0.0 if weights is None else float(weights.sum())
