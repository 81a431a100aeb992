"""`evaluate`: a synthetic table compared with the real one, a hold-out and independent columns."""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tabsynth._validate import integer, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.evaluation.attacks.shadow import shadow_attack
from tabsynth.evaluation.column_summaries import column_summaries
from tabsynth.evaluation.heaping import heaping
from tabsynth.evaluation.inputs import (
    REAL,
    certificate_with,
    indexed,
    indexed_holdout,
    indexed_synthetic,
    meaning,
    named_by_text,
    neighbours,
    rows_sha256,
)
from tabsynth.evaluation.metric import Evaluation
from tabsynth.evaluation.suite import measure
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
    schema: Schema,
    certificate: Mapping[str, Any] | Verification | None = None,
    target: str | None = None,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    boosting: bool = False,
    shadow: Any = None,
    shadow_fits: int = 40,
    m: int = 1000,
    k: Sequence[int] = (1, 5, 10, 100),
    random_state: int = 0,
    progress: Callable[[str, float], None] | None = None,
    label: str = "synthetic",
) -> Evaluation:
    """Compare a synthetic table with the real one, a hold-out and independent columns.

    The result is computed from real rows without noise: treat it as confidential. For figures that may be
    published, see :func:`tabsynth.evaluate_private`. ``tabsynth.evaluate`` gives the result as a
    :class:`tabsynth.Report`, which writes HTML, Markdown and JSON.

    Parameters
    ----------
    real : DataFrame
        The table that the synthesizer was fitted on.
    synthetic : DataFrame
    holdout : DataFrame, optional
        Real rows that the synthesizer never saw. Without them leakage cannot be distinguished from learning,
        and prediction is tested on rows that the synthesizer saw.
    schema : Schema
    certificate : dict or Verification, optional
        Default: ``synthetic.attrs["certificate"]``, if there is one and the table's columns, dtypes, cells and
        order of rows are still those that were sampled. A certificate that you give is taken on your
        word to be that of ``synthetic``, unless it has a hash of other content. The report shows a claim
        as authenticated only for the result of :func:`tabsynth.privacy.certificate.verification.verify` with a key.
    target : str, optional
        A column to predict (AUROC, AUPRC, calibration) and to explain by a regression.
    by : str or sequence of str, optional
        Columns whose groups are compared: does a minority fare worse?
    weights : str, optional
        The numeric column of survey weights, for population totals.
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
    progress : callable, optional
        Called with the name of a stage and its finished share in [0, 1].
    label : str
        What the synthetic table is called in the report.

    Synthetic rows that break the schema are counted; real ones are refused.

    Raises
    ------
    InputError
        Naming the table, the column and the value that the schema does not declare.
    """
    if not isinstance(schema, Schema):
        raise InputError(f"Expected schema to be a Schema, got {shown(schema)}.")
    whole, schema = schema, schema.coded
    encoder = TableEncoder(schema)
    columns = meaning(schema, target, by, weights, boosting)
    indexed_table = indexed_synthetic(encoder, synthetic, whole.rules)
    came_with, authenticated = certificate_with(synthetic, certificate)
    training = to_pandas(real, REAL)
    train = indexed(encoder, training, REAL)
    refuse_no_rows(len(train), REAL)
    others = None
    if holdout is not None:
        others = indexed_holdout(encoder, holdout, train, indexed_table.index)
    seed = integer("random_state", random_state, least=0)
    extra = [indexed_table.violations]
    if shadow is not None:
        extra.append(shadow_attack(encoder, train, others, shadow, shadow_fits, seed, progress))
    measured = measure(
        train,
        indexed_table.index,
        others,
        names=schema.names,
        sizes=schema.sizes,
        columns=columns,
        m=integer("m", m),
        k=neighbours(k),
        seed=seed,
        extra=extra,
        progress=progress,
    )
    training = named_by_text(conformed(training, whole))
    heaped = {
        column.name: found
        for column in whole.columns
        if isinstance(column, Numeric)
        and (found := heaping(column, training[column.name], indexed_table.rows[column.name]))
    }
    return replace(
        measured,
        columns=column_summaries(schema, train, indexed_table.index, columns.scores, heaped),
        rules=rule_checks(whole, training, indexed_table.rows),
        label=str(label),
        certificate=came_with,
        authenticated=authenticated,
        left_out=indexed_table.left_out,
        schema_sha256=whole.fingerprint(),
        real_sha256=rows_sha256(train, others),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
    )


def versions() -> dict[str, str]:
    out = {"python": platform.python_version()}
    for name in ("tabsynth", "numpy", "pandas", "scikit-learn", "matplotlib"):
        with suppress(PackageNotFoundError):
            out[name] = version(name)
    return out
