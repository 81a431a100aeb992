"""The evaluation of one synthetic table, compared with the real one, a hold-out and independent columns."""

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.errors import InputError
from tabsynth.evaluation.attacks.shadow import shadow_attack
from tabsynth.evaluation.column_summaries import column_summaries
from tabsynth.evaluation.config import EvaluationConfig
from tabsynth.evaluation.drafted import drafted_for
from tabsynth.evaluation.heaping import heaping
from tabsynth.evaluation.inputs import (
    HOLDOUT,
    REAL,
    SYNTHETIC,
    TABLES,
    certificate_with,
    indexed_holdout,
    indexed_synthetic,
    kept_index,
    meaning,
    named_by_text,
    rows_sha256,
)
from tabsynth.evaluation.metric import Evaluation, Weights
from tabsynth.evaluation.sampling import TABLES as SAMPLED
from tabsynth.evaluation.sampling import checked_totals, sampled_distances
from tabsynth.evaluation.suite import measure
from tabsynth.evaluation.survey_columns import DesignColumns, Survey, SurveyReader, apart
from tabsynth.evaluation.utility.constraints import rule_checks
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.schema.conforming import conformed
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema, refuse_no_rows
from tabsynth.tables.frames import to_pandas


def evaluate_table(
    real: Any,
    synthetic: Any,
    holdout: Any,
    *,
    schema: Schema | None,
    certificate: Mapping[str, Any] | Verification | None,
    target: str | None,
    by: str | Sequence[str] | None,
    survey: Survey,
    config: EvaluationConfig,
    label: str,
) -> Evaluation:
    """Compare a synthetic table with the real one, a hold-out and independent columns; see :func:`tabsynth.evaluate`."""
    if schema is not None and not isinstance(schema, Schema):
        raise InputError(f"Expected schema to be a Schema, got {shown(schema)}.")
    stated_certificate, authenticated = certificate_with(synthetic, certificate)
    survey = survey.weighted_by(None if schema is None else schema.weight)
    declared = () if schema is None else (*schema.names, *schema.design.names)
    tables = [
        _Table(*apart(to_pandas(table, what), survey, declared))
        for table, what in zip((real, synthetic, holdout), TABLES, strict=True)
        if table is not None
    ]
    drafted = None
    if schema is None:
        schema, rows, drafted = drafted_for([t.rows for t in tables], TABLES[: len(tables)])
        tables = [t._replace(rows=read) for t, read in zip(tables, rows, strict=True)]
    training, drawn, *unseen = tables
    coded = schema.coded
    columns = meaning(coded, target, by)
    weighing = _weights(survey, schema.decimal, *tables)
    indexed_table = indexed_synthetic(coded, drawn.rows, schema.rules, weighing.synthetic)
    train, train_rows = kept_index(schema, training.rows, REAL)
    refuse_no_rows(len(train), REAL)
    controls, control_weights = None, None
    if unseen:
        controls, control_rows = indexed_holdout(schema, unseen[0].rows, train, indexed_table.index)
        if weighing.holdout is not None:
            control_weights = weighing.holdout[control_rows]
            controls, control_weights = (
                controls[control_weights > 0],
                control_weights[control_weights > 0],
            )
            _refuse_no_weight(control_weights, HOLDOUT)
    weights = design = synthetic_weights = None
    if weighing.real is not None and weighing.design is not None:
        if weighing.synthetic is not None:
            synthetic_weights = weighing.synthetic[indexed_table.fits]
            _refuse_no_weight(synthetic_weights, SYNTHETIC)
        weights = Weights(
            train=weighing.real[train_rows],
            synthetic=synthetic_weights,
            holdout=control_weights,
            column=_place_of_weights(schema, survey),
        )
        _refuse_no_weight(weights.train, REAL)
        design = weighing.design.design(survey, weighing.real, train_rows, REAL)
    extra = [indexed_table.violations]
    if config.shadow is not None:
        _refuse_shadow(config.shadow, schema)
        extra.append(shadow_attack(coded, train, controls, config))
    counts = {name: len(t.rows) for name, t in zip(SAMPLED, tables, strict=False)}
    totals = checked_totals(config.sampled_from or {}, counts)
    measured = measure(
        train,
        indexed_table.index,
        controls,
        columns,
        weights=weights,
        design=design,
        config=config,
        extra=extra,
    )
    real_rows = named_by_text(conformed(training.rows, schema))
    both = weighing.real, synthetic_weights
    heaped = {
        column.name: heaps
        for column in schema.columns
        if isinstance(column, Numeric)
        and (
            heaps := heaping(column, real_rows[column.name], indexed_table.rows[column.name], both)
        )
    }
    of_codes = None if weights is None else weights.train, synthetic_weights
    if measured.weights is not None:
        measured = replace(measured, weights=replace(measured.weights, name=survey.label))
    return replace(
        measured,
        columns=column_summaries(
            coded, train, indexed_table.index, columns.scores, heaped, of_codes
        ),
        rules=rule_checks(schema, real_rows, indexed_table.rows, both),
        label=str(label),
        certificate=stated_certificate,
        authenticated=authenticated,
        left_out=indexed_table.left_out,
        schema_sha256=schema.fingerprint(),
        real_sha256=rows_sha256(train, controls),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        sampled=sampled_distances(measured, totals, train, columns, config.random_state)
        if totals
        else None,
        drafted=drafted,
    )


class _Table(NamedTuple):
    """A table without the survey's columns that its schema does not have, and the survey's columns."""

    rows: pd.DataFrame
    survey: pd.DataFrame


class _Weighing(NamedTuple):
    """Weights of all rows of each table, None where they have none, and the survey's design."""

    real: np.ndarray | None = None
    synthetic: np.ndarray | None = None
    holdout: np.ndarray | None = None
    design: DesignColumns | None = None


def _weights(
    survey: Survey,
    decimal: str | None,
    real: _Table,
    synthetic: _Table,
    holdout: _Table | None = None,
) -> _Weighing:
    """Read the survey's columns.

    Raises
    ------
    InputError
        With all of their problems.
    """
    if survey.weights is None:
        return _Weighing()
    named = isinstance(survey.weights, str)
    if holdout is not None and not named:
        raise InputError(
            "weights is a number for each training row, and the hold-out has none; name a column of both tables."
        )
    reader = SurveyReader(survey, decimal)
    design = reader.design_columns(real.survey, REAL)
    carried = named and survey.weights in synthetic.survey.columns
    weighing = _Weighing(
        reader.weights(real.survey, len(real.rows), REAL),
        reader.weights(synthetic.survey, len(synthetic.rows), SYNTHETIC) if carried else None,
        None if holdout is None else reader.weights(holdout.survey, len(holdout.rows), HOLDOUT),
        design,
    )
    reader.refuse()
    return weighing


def _refuse_no_weight(weights: np.ndarray, what: str) -> None:
    """Raise InputError if the rows that fit the schema stand for nobody."""
    if weights.sum() <= 0:
        raise InputError(
            f"The rows of the {what} that fit the schema have only weights of 0; give rows that stand for somebody."
        )


def _place_of_weights(schema: Schema, survey: Survey) -> int | None:
    """Return the column of codes that holds the weights, where it is learned; −1 if it has no codes."""
    if not isinstance(survey.weights, str) or survey.weights not in schema.names:
        return None
    names = schema.coded.names
    return names.index(survey.weights) if survey.weights in names else -1


def _refuse_shadow(shadow: Any, schema: Schema) -> None:
    """Raise InputError if an estimator's fits would lack the weight or the unit of their schema."""
    if schema.design and not callable(shadow):
        raise InputError(
            f"shadow fits tables without column {shown(schema.design.names[0])}, which the schema needs; give a"
            " function that adds it."
        )


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that measure."""
    out = {"python": platform.python_version()}
    for name in ("tabsynth", "numpy", "pandas", "scikit-learn", "matplotlib"):
        with suppress(PackageNotFoundError):
            out[name] = version(name)
    return out
