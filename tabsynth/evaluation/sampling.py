"""Tables that are uniform samples of larger ones: what the drawing of their rows adds to the distances."""

import math
from collections.abc import Mapping

import numpy as np

from tabsynth._validate import integer, one_of, shown
from tabsynth.errors import InputError
from tabsynth.evaluation.metric import Evaluation, halves
from tabsynth.evaluation.results import Z95, Sampled, SampledDistance
from tabsynth.evaluation.suite import Columns
from tabsynth.evaluation.utility.marginals import column_sets, distance

TABLES = ("train", "synthetic", "holdout")


def checked_totals(
    totals: Mapping[str, int], rows: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Return sampled rows of each table beside those of the whole table.

    Parameters
    ----------
    totals : dict of int
        Of ``train``, ``synthetic`` or ``holdout``: rows of the whole table.
    rows : dict of int
        Rows of each table that was given.

    Raises
    ------
    InputError
    """
    for name, total in totals.items():
        one_of("a table of sampled_from", name, TABLES)
        if integer(f"sampled_from of {name}", total) < rows.get(name, 0):
            raise InputError(
                f"sampled_from has {shown(total)} rows for {name}, of which {rows[name]:,} were given; correct it."
            )
    return {name: (rows[name], int(total)) for name, total in totals.items() if name in rows}


def sampled_distances(
    evaluation: Evaluation,
    rows: Mapping[str, tuple[int, int]],
    train: np.ndarray,
    columns: Columns,
    seed: int,
) -> Sampled:
    """Return the distances of an evaluation with their standard errors.

    The standard error follows from the interval of :func:`tabsynth.evaluation.utility.marginals.distance`, whose
    influence function covers the drawing of the rows of both tables, as if these were infinite. It is somewhat too large
    where most rows were drawn, and where columns are equal in both tables. A distance of samples is also too large on
    average. That of two halves of the sampled training rows is what chance makes of equal tables; it is in proportion to
    √(1/n + 1/m).
    """
    parts = []
    one, other = halves(train, np.random.default_rng([seed, 4]))
    n, m = evaluation.rows["train"], evaluation.rows["synthetic"]
    for item in evaluation.distances:
        estimate = item.synthetic.mean
        error = max(estimate.high - estimate.value, estimate.value - estimate.low) / Z95
        by_chance = math.nan
        if one is not None and other is not None:
            sets = column_sets(len(columns.sizes), item.order, seed)
            apart = distance(one, other, sets, columns.names, columns.sizes).mean.value
            by_chance = apart * math.sqrt((1 / n + 1 / m) / (1 / len(one) + 1 / len(other)))
        parts.append(SampledDistance(item.order, estimate.value, error, by_chance))
    return Sampled(dict(rows), tuple(parts))
