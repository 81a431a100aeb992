"""`evaluate`: a synthetic table against the real one, and against shuffled columns."""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, overload

from tabsynth._validate import integer, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.evaluation import measure
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.report.inputs import (
    REAL,
    certificate_with,
    indexed,
    indexed_holdout,
    indexed_synthetic,
    meaning,
    neighbours,
    rows_sha256,
)
from tabsynth.report.published import PublishedReport, published
from tabsynth.report.report import Report
from tabsynth.report.shadowing import shadow_attack
from tabsynth.report.shown import shown_marginals
from tabsynth.schema.schema import Schema, refuse_no_rows


@overload
def evaluate(
    real: Any,
    synthetic: Any,
    holdout: Any = None,
    *,
    schema: Schema,
    epsilon: None = None,
    **options: Any,
) -> Report: ...


@overload
def evaluate(
    real: Any,
    synthetic: Any,
    holdout: None = None,
    *,
    schema: Schema,
    epsilon: float,
    **options: Any,
) -> PublishedReport: ...


def evaluate(  # type: ignore[misc]  # the overloads list what decides the type, not every option
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
    epsilon: float | None = None,
    delta: float | None = None,
    ledger: str | Path | None = None,
    m: int = 1000,
    k: Sequence[int] = (1, 5, 10, 100),
    random_state: int = 0,
    progress: Callable[[str, float], None] | None = None,
    label: str = "synthetic",
) -> Report | PublishedReport:
    """Measure a synthetic table against the real one, and against shuffled columns.

    Parameters
    ----------
    real : DataFrame
        The table that the synthesizer was fitted on.
    synthetic : DataFrame
    holdout : DataFrame, optional
        Real rows that the synthesizer never saw. Without them leakage cannot be told from learning,
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
    epsilon, delta : float, optional
        With ``epsilon``, only figures of bounded sensitivity are released, with noise, at that privacy
        cost: a :class:`PublishedReport`, which may be published. The table must come with its
        certificate; ``delta`` is the certificate's unless given. Their noise has the system's entropy
        whatever ``random_state``, and no hold-out is read.
    ledger : path, optional
        With ``epsilon``: a project's ledger (:class:`tabsynth.ProjectLedger`) to charge the figures to; the
        table must have been made under it. Without one the report states its own cost alone, and
        warns that no other release of the same rows is included.
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
    encoder = TableEncoder(schema)
    asked = meaning(schema, target, by, weights, boosting)
    made = indexed_synthetic(encoder, synthetic)
    confidential = boosting or any(x is not None for x in (holdout, target, by, weights, shadow))
    _check_price(epsilon, delta, ledger, confidential)
    came_with, authenticated = certificate_with(synthetic, certificate)
    if epsilon is not None:
        return published(
            encoder,
            real,
            made,
            certificate=came_with,
            authenticated=authenticated,
            epsilon=epsilon,
            delta=delta,
            label=str(label),
            ledger=ledger,
        )
    train = indexed(encoder, real, REAL)
    refuse_no_rows(len(train), REAL)
    kept = None if holdout is None else indexed_holdout(encoder, holdout, train, made.index)
    seed = integer("random_state", random_state, least=0)
    extra = [made.violations]
    if shadow is not None:
        extra.append(shadow_attack(encoder, train, kept, shadow, shadow_fits, seed, progress))
    evaluation = measure(
        train,
        made.index,
        kept,
        names=schema.names,
        sizes=schema.sizes,
        columns=asked,
        m=integer("m", m),
        k=neighbours(k),
        seed=seed,
        extra=extra,
        progress=progress,
    )
    return Report(
        label=str(label),
        evaluation=evaluation,
        marginals=shown_marginals(schema, train, made.index),
        certificate=came_with,
        authenticated=authenticated,
        schema_sha256=schema.fingerprint(),
        real_sha256=rows_sha256(train, kept),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(),
        left_out=made.left_out,
    )


def _check_price(
    epsilon: float | None, delta: float | None, ledger: str | Path | None, confidential: bool
) -> None:
    """Refuse what only goes into the other kind of report: with noise for a price, or confidential."""
    if epsilon is not None and confidential:
        raise InputError(
            "epsilon releases distances of counts only; leave out holdout, target, by, weights,"
            " boosting and shadow, which are for a confidential report."
        )
    if epsilon is None and delta is not None:
        raise InputError("delta goes with epsilon; give both, or neither.")
    if epsilon is None and ledger is not None:
        raise InputError(
            "ledger goes with epsilon: a report without noise is confidential, and on no ledger."
        )


def _versions() -> dict[str, str]:
    out = {"python": platform.python_version()}
    for name in ("tabsynth", "numpy", "pandas", "scikit-learn", "matplotlib"):
        with suppress(PackageNotFoundError):
            out[name] = version(name)
    return out
