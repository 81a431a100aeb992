"""`evaluate`: a synthetic table compared with the real one, a hold-out and independent columns."""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tabsynth._validate import integer, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.evaluation.attacks.shadow import shadow_attack
from tabsynth.evaluation.column_summaries import column_summaries
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
    neighbours,
    rows_sha256,
)
from tabsynth.evaluation.metric import Evaluation, Weights
from tabsynth.evaluation.sampling import checked_totals, sampled_distances
from tabsynth.evaluation.suite import measure
from tabsynth.evaluation.survey_columns import (
    DesignColumns,
    SurveyNames,
    SurveyReader,
    apart,
    survey_names,
)
from tabsynth.evaluation.utility.constraints import rule_checks
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.schema.conforming import conformed
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema, refuse_no_rows
from tabsynth.tables.frames import to_pandas


def evaluate(
    real: Any,
    synthetic: Any,
    holdout: Any = None,
    *,
    schema: Schema | None = None,
    certificate: Mapping[str, Any] | Verification | None = None,
    target: str | None = None,
    by: str | Sequence[str] | None = None,
    weights: Any = None,
    replicate_weights: str | Sequence[str] | None = None,
    replicate_factor: float | None = None,
    strata: str | None = None,
    clusters: str | None = None,
    boosting: bool = False,
    shadow: Any = None,
    shadow_fits: int = 40,
    m: int = 1000,
    k: Sequence[int] = (1, 5, 10, 100),
    random_state: int = 0,
    sampled_from: Mapping[str, int] | None = None,
    progress: Callable[[str, float], None] | None = None,
    label: str = "synthetic",
) -> Evaluation:
    """Compare a synthetic table with the real one, a hold-out and independent columns.

    The result is computed from real rows without noise: treat it as confidential. For figures that may be
    published, see :func:`tabsynth.evaluate_private`. ``tabsynth.evaluate`` gives the result as a
    :class:`tabsynth.report.Report`, which writes HTML, Markdown and JSON.

    Parameters
    ----------
    real : DataFrame
        The table that the synthesizer was fitted on.
    synthetic : DataFrame
    holdout : DataFrame, optional
        Real rows that the synthesizer never saw. Without them leakage cannot be distinguished from learning,
        and prediction is tested on rows that the synthesizer saw.
    schema : Schema, optional
        Default: drafted from all given tables, such as those of other programs. Numbers that some table has as texts
        or reals are read alike. Columns that some table lacks, or that seem to identify people, are left out, and values of
        fewer than 10 rows of all tables are taken together. The report says so. Such reports are not comparable.
    certificate : dict or Verification, optional
        Default: ``synthetic.attrs["certificate"]``, if there is one and the table's columns, dtypes, cells and
        order of rows are still those that were sampled. A certificate that you give is taken on your
        word to be that of ``synthetic``, unless it has a hash of other content. The report shows a claim
        as authenticated only for the result of :func:`tabsynth.privacy.certificate.verification.verify` with a key.
    target : str, optional
        A column to predict (AUROC, AUPRC, calibration) and to explain by a regression.
    by : str or sequence of str, optional
        Columns whose groups are compared: does a minority fare worse?
    weights : str or array-like of shape (rows,), optional
        Survey weights, 0 or more: the name of a column of the real table and the hold-out, or the weights of the real
        rows (then without a hold-out). A synthetic table with such a column is weighted by it; any other is
        self-weighting. Default: the weight of the schema. Every metric of utility then compares weighted tables, and
        classifiers are fitted with the weights. The attacks use no weights: they count people, each of whom is one
        row, whomever it stands for. Weights are not clipped at the cap of the schema.
    replicate_weights : str or sequence of str, optional
        Columns of replicate weights of the real table, or the text before their numbers, such as ``"PWGTP"`` for
        ``PWGTP1`` to ``PWGTP80``. The result then has intervals of the real table's weighted estimates by replication;
        otherwise by Taylor linearisation. See :mod:`tabsynth.evaluation.utility.survey`.
    replicate_factor : float, optional
        Factor of the sum of squared differences of the replicates. Default: 4 over their number, for the successive
        difference replication of the American Community Survey. Balanced repeated replication of R replicates has 1/R,
        a jackknife that leaves out one of R clusters (R − 1)/R.
    strata, clusters : str, optional
        Columns of the real table with the stratum and the primary cluster of each row, for Taylor linearisation.
        Clusters are numbered within strata. Default: one stratum; each row is a cluster.
    boosting : bool
        Gradient boosting beside logistic regression in every prediction; slower.
    shadow : callable or Synthesizer, optional
        What made the table: a function from a DataFrame to a synthetic one, or a synthesizer of ours,
        not fitted. The shadow-model attack is then tried on the two most unusual training rows.
    shadow_fits : int
        Fits of at most 1,000 real rows: what they cost together. A multiple of 8, at least 16.
    m : int
        Records attacked in each group of attribute disclosure.
    k : sequence of int
        Numbers of neighbours that vote in attribute disclosure.
    random_state : int
        The evaluation's own draws: the same tables give the same numbers. It has nothing to do with
        the privacy of the synthesizer, whose noise is never seeded.
    sampled_from : dict of int, optional
        Where ``train`` (the real table), ``synthetic`` or ``holdout`` is a uniform sample of a table that is too large to
        be read: rows of the whole table. The result then has the standard error of each distance by the drawing of
        rows. :func:`tabsynth.tables.read_sample` draws rows.
    progress : callable, optional
        Called with the name of a stage and its finished share in [0, 1].
    label : str
        What the synthetic table is called in the report.

    Synthetic rows that break the schema are counted; real ones are refused.

    Raises
    ------
    InputError
        Naming the table, the column and the value that the schema does not declare, or that is no weight.
    """
    if schema is not None and not isinstance(schema, Schema):
        raise InputError(f"Expected schema to be a Schema, got {shown(schema)}.")
    came_with, authenticated = certificate_with(synthetic, certificate)
    survey = survey_names(
        schema.weight if weights is None and schema is not None else weights,
        replicate_weights,
        replicate_factor,
        strata,
        clusters,
    )
    declared = () if schema is None else (*schema.names, *schema.design.names)
    training = _given(real, REAL, survey, declared)
    made = _given(synthetic, SYNTHETIC, survey, declared)
    kept_apart = None if holdout is None else _given(holdout, HOLDOUT, survey, declared)
    drafted = None
    if schema is None:
        given = [training, made, *([] if kept_apart is None else [kept_apart])]
        schema, rows, drafted = drafted_for([item.rows for item in given], TABLES[: len(given)])
        training, made, *rest = [
            item._replace(rows=of) for item, of in zip(given, rows, strict=True)
        ]
        kept_apart = rest[0] if rest else None
    whole, schema = schema, schema.coded
    encoder = TableEncoder(schema)
    columns = meaning(schema, target, by, boosting)
    weighing = _weights(survey, whole.decimal, training, made, kept_apart)
    indexed_table = indexed_synthetic(encoder, made.rows, whole.rules, weighing.synthetic)
    train, train_rows = kept_index(whole, training.rows, REAL)
    refuse_no_rows(len(train), REAL)
    others, of_others = None, None
    if kept_apart is not None:
        others, other_rows = indexed_holdout(whole, kept_apart.rows, train, indexed_table.index)
        if weighing.holdout is not None:
            of_others = weighing.holdout[other_rows]
            others, of_others = others[of_others > 0], of_others[of_others > 0]
            _refuse_no_weight(of_others, HOLDOUT)
    of_tables = design = of_made = None
    if weighing.real is not None and weighing.design is not None:
        if weighing.synthetic is not None:
            of_made = weighing.synthetic[indexed_table.fits]
            _refuse_no_weight(of_made, SYNTHETIC)
        of_tables = Weights(
            train=weighing.real[train_rows],
            synthetic=of_made,
            holdout=of_others,
            column=_place_of_weights(whole, schema, survey),
        )
        _refuse_no_weight(of_tables.train, REAL)
        design = weighing.design.design(survey, weighing.real, train_rows, REAL)
    seed = integer("random_state", random_state, least=0)
    extra = [indexed_table.violations]
    if shadow is not None:
        _refuse_shadow(shadow, whole)
        extra.append(shadow_attack(encoder, train, others, shadow, shadow_fits, seed, progress))
    given_rows = {"train": len(training.rows), "synthetic": len(made.rows)}
    if kept_apart is not None:
        given_rows["holdout"] = len(kept_apart.rows)
    totals = checked_totals(sampled_from or {}, given_rows)
    measured = measure(
        train,
        indexed_table.index,
        others,
        names=schema.names,
        sizes=schema.sizes,
        columns=columns,
        weights=of_tables,
        design=design,
        numbers=[j for j, column in enumerate(schema.columns) if isinstance(column, Numeric)],
        m=integer("m", m),
        k=neighbours(k),
        seed=seed,
        extra=extra,
        progress=progress,
    )
    real_rows = named_by_text(conformed(training.rows, whole))
    both = weighing.real, of_made
    heaped = {
        column.name: found
        for column in whole.columns
        if isinstance(column, Numeric)
        and (
            found := heaping(column, real_rows[column.name], indexed_table.rows[column.name], both)
        )
    }
    of_codes = None if of_tables is None else of_tables.train, of_made
    if measured.weights is not None:
        measured = replace(measured, weights=replace(measured.weights, name=survey.label))
    return replace(
        measured,
        columns=column_summaries(
            schema, train, indexed_table.index, columns.scores, heaped, of_codes
        ),
        rules=rule_checks(whole, real_rows, indexed_table.rows, both),
        label=str(label),
        certificate=came_with,
        authenticated=authenticated,
        left_out=indexed_table.left_out,
        schema_sha256=whole.fingerprint(),
        real_sha256=rows_sha256(train, others),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        sampled=sampled_distances(measured, totals, train, schema.names, schema.sizes, seed)
        if totals
        else None,
        drafted=drafted,
    )


class _Given(NamedTuple):
    """A table without the survey's columns that its schema does not have, and the survey's columns."""

    rows: pd.DataFrame
    survey: pd.DataFrame


def _given(table: Any, what: str, survey: SurveyNames, declared: Sequence[str]) -> _Given:
    return _Given(*apart(to_pandas(table, what), survey, declared))


class _Weighing(NamedTuple):
    """Weights of all rows of each table, None where they have none, and the survey's design."""

    real: np.ndarray | None = None
    synthetic: np.ndarray | None = None
    holdout: np.ndarray | None = None
    design: DesignColumns | None = None


def _weights(
    survey: SurveyNames,
    decimal: str | None,
    real: _Given,
    synthetic: _Given,
    holdout: _Given | None,
) -> _Weighing:
    """What the survey's columns hold.

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
    """InputError if the rows that fit the schema stand for nobody."""
    if weights.sum() <= 0:
        raise InputError(
            f"The rows of the {what} that fit the schema have only weights of 0; give rows that stand for somebody."
        )


def _place_of_weights(whole: Schema, schema: Schema, survey: SurveyNames) -> int | None:
    """The column of codes that holds the weights, where it is learned; −1 if it has none of its own."""
    if survey.weights is None or not isinstance(survey.weights, str):
        return None
    if survey.weights not in whole.names:
        return None
    return schema.names.index(survey.weights) if survey.weights in schema.names else -1


def _refuse_shadow(shadow: Any, schema: Schema) -> None:
    """InputError if an estimator's fits would lack the weight or the unit of their schema."""
    if schema.design and not callable(shadow):
        raise InputError(
            f"shadow fits tables without column {shown(schema.design.names[0])}, which the schema needs; give a"
            " function that adds it."
        )


def versions() -> dict[str, str]:
    out = {"python": platform.python_version()}
    for name in ("tabsynth", "numpy", "pandas", "scikit-learn", "matplotlib"):
        with suppress(PackageNotFoundError):
            out[name] = version(name)
    return out
