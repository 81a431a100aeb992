"""The evaluation of one synthetic table, compared with the real one, a hold-out and independent columns."""

import math
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pandas as pd

from tabsynth._validate import integer, one_of, quote
from tabsynth.errors import InputError
from tabsynth.evaluation.column_summaries import column_summaries, heaping
from tabsynth.evaluation.config import EvaluationConfig
from tabsynth.evaluation.drafted import drafted_for
from tabsynth.evaluation.inputs import (
    HOLDOUT,
    REAL,
    SYNTHETIC,
    TABLES,
    indexed_holdout,
    indexed_synthetic,
    kept_index,
    meaning,
    named_by_text,
    rows_sha256,
)
from tabsynth.evaluation.metric import Columns, Compared, Evaluation, Weights, halves
from tabsynth.evaluation.results import Z95, Sampled, SampledDistance
from tabsynth.evaluation.suite import measure
from tabsynth.evaluation.utility.constraints import rule_checks
from tabsynth.evaluation.utility.marginals import column_sets, distance
from tabsynth.evaluation.weight_columns import apart, weights_of
from tabsynth.schema.conforming import conform
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema, refuse_no_rows
from tabsynth.tables.frames import to_pandas

SAMPLED = ("train", "synthetic", "holdout")


def evaluate_table(
    tables: Compared[object],
    schema: Schema | None,
    weights: str | None,
    config: EvaluationConfig,
    *,
    target: str | None = None,
    by: str | Sequence[str] | None = None,
) -> Evaluation:
    """Compare a synthetic table with a real one, a hold-out and independent columns; see :func:`tabsynth.evaluate`.

    Parameters
    ----------
    tables : Compared
        Tables as users have them; ``baseline`` is the real one.
    weights : str, optional
        The column of survey weights.
    """
    if weights is None and schema is not None:
        weights = schema.weight
    declared = () if schema is None else (*schema.names, *schema.design.names)
    parts = [
        apart(to_pandas(table, what), weights, declared)
        for table, what in zip(
            (tables.baseline, tables.synthetic, tables.holdout), TABLES, strict=True
        )
        if table is not None
    ]
    rows, columns_of_weights = [part[0] for part in parts], [part[1] for part in parts]
    drafted = None
    if schema is None:
        schema, rows, drafted = drafted_for(rows, TABLES[: len(rows)])
    columns = meaning(schema.comparable, target, by, config.known)
    of_real, of_created, of_holdout = _weights(weights, schema.decimal, columns_of_weights)
    created = indexed_synthetic(schema.comparable, rows[1], schema.rules, of_created)
    train, train_rows = kept_index(schema, rows[0], REAL)
    refuse_no_rows(len(train), REAL)
    controls, of_controls = None, None
    if len(rows) > 2:
        controls, control_rows = indexed_holdout(schema, rows[2], train, created.index)
        if of_holdout is not None:
            of_controls = of_holdout[control_rows]
            controls, of_controls = controls[of_controls > 0], of_controls[of_controls > 0]
            _refuse_no_weight(of_controls, HOLDOUT)
    of_rows = of_synthetic = None
    if of_real is not None:
        if of_created is not None:
            of_synthetic = of_created[created.fits]
            _refuse_no_weight(of_synthetic, SYNTHETIC)
        of_rows = Weights(
            train=of_real[train_rows],
            synthetic=of_synthetic,
            holdout=of_controls,
        )
        _refuse_no_weight(of_rows.train, REAL)
    totals = checked_totals(config.sampled_from or {}, [len(table) for table in rows])
    measured = measure(
        train,
        created.index,
        controls,
        columns,
        weights=of_rows,
        config=config,
        extra=[created.violations],
    )
    real_rows = named_by_text(conform(rows[0], schema))
    both = of_real, of_synthetic
    heaped = {
        column.name: heaps
        for column in schema.columns
        if isinstance(column, Numeric)
        and (heaps := heaping(column, real_rows[column.name], created.rows[column.name], both))
    }
    used = measured.weights
    return replace(
        measured,
        columns=column_summaries(
            schema.comparable,
            train,
            created.index,
            columns.scores,
            heaped,
            (None if of_rows is None else of_rows.train, of_synthetic),
        ),
        rules=rule_checks(schema, real_rows, created.rows, both),
        left_out=created.left_out,
        schema_sha256=schema.fingerprint(),
        real_sha256=rows_sha256(train, controls),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        weights=None if used is None or weights is None else replace(used, name=weights),
        sampled=sampled_distances(measured, totals, train, columns, config.random_state)
        if totals
        else None,
        drafted=drafted,
    )


def _weights(
    weights: str | None, decimal: str | None, tables: Sequence[pd.DataFrame]
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Return the weights of all rows of the real table, the synthetic one and the hold-out, None where they have none.

    Raises
    ------
    InputError
        If a value is no weight.
    """
    if weights is None:
        return None, None, None
    return (
        weights_of(tables[0], weights, decimal, REAL),
        weights_of(tables[1], weights, decimal, SYNTHETIC)
        if weights in tables[1].columns
        else None,
        weights_of(tables[2], weights, decimal, HOLDOUT) if len(tables) > 2 else None,
    )


def _refuse_no_weight(weights: np.ndarray, what: str) -> None:
    """Raise InputError if the rows that fit the schema stand for nobody."""
    if weights.sum() <= 0:
        raise InputError(
            f"The rows of the {what} that fit the schema have only weights of 0; give rows that stand for somebody."
        )


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that measure."""
    out = {"python": platform.python_version()}
    for name in ("tabsynth", "numpy", "pandas", "scikit-learn", "matplotlib"):
        with suppress(PackageNotFoundError):
            out[name] = version(name)
    return out


def checked_totals(totals: Mapping[str, int], lengths: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Return sampled rows of each table beside those of the whole table.

    Parameters
    ----------
    totals : dict of int
        Of ``train``, ``synthetic`` or ``holdout``: rows of the whole table.
    lengths : sequence of int
        Rows of the tables that there are, in that order.

    Raises
    ------
    InputError
    """
    rows = dict(zip(SAMPLED, lengths, strict=False))
    for name, total in totals.items():
        one_of("a table of sampled_from", name, SAMPLED)
        if integer(f"sampled_from of {name}", total) < rows.get(name, 0):
            raise InputError(
                f"sampled_from has {quote(total)} rows for {name}, of which {rows[name]:,} were given; correct it."
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
    half, other_half = halves(train, np.random.default_rng([seed, 4]))
    n, m = evaluation.rows["train"], evaluation.rows["synthetic"]
    for item in evaluation.distances:
        estimate = item.synthetic.mean
        error = max(estimate.high - estimate.value, estimate.value - estimate.low) / Z95
        by_chance = math.nan
        if half is not None and other_half is not None:
            sets = column_sets(len(columns.sizes), item.order, seed)
            apart = distance(half, other_half, sets, columns.names, columns.sizes).mean.value
            by_chance = apart * math.sqrt((1 / n + 1 / m) / (1 / len(half) + 1 / len(other_half)))
        parts.append(SampledDistance(item.order, estimate.value, error, by_chance))
    return Sampled(dict(rows), tuple(parts))
