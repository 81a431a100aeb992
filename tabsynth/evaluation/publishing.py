"""Figures of a synthetic table with noise, charged to a ledger, that may be published.

Under a project ledger the figures are charged there, and the budget of that ledger covers all fits and reports
under it. Without one the result states the cost of its own figures and nothing else. The cost of the table and
of other reports of the same rows is not included: no accountant here knows of them, and a report that is made
after its reader has seen others is chosen adaptively, which the sum of their costs at one δ does not cover.
"""

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, positive, quote
from tabsynth.encoding.rows import KEY_BYTES, PrivateRows, key_of, rows_of
from tabsynth.errors import InputError
from tabsynth.evaluation.charged import charged_metrics, uses
from tabsynth.evaluation.claims import is_conditional, is_private
from tabsynth.evaluation.inputs import (
    REAL,
    SYNTHETIC,
    Synthetic,
    certificate_with,
    indexed_synthetic,
    kept_index,
    meaning,
)
from tabsynth.evaluation.metric import Measured
from tabsynth.evaluation.weight_columns import apart, weights_of
from tabsynth.evaluation.weighting import WeightedRows
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.accounting.calibration import calibrate
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.certificate.completeness import find_missing_mechanisms
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.schema.schema import Schema
from tabsynth.tables.frames import to_pandas

PURPOSE = "report"
ALONE = (
    "The privacy cost of this published report is that of its figures alone: it includes neither the table nor any"
    " other report or fit of the same rows. Give a project's ledger (ledger=) to have all of them counted"
    " together."
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PrivateEvaluation(Measured):
    """Noisy figures of one synthetic table, and their privacy cost.

    Attributes
    ----------
    epsilon, delta : float
        Privacy cost of the figures alone, for adding or removing one record, or all records of one ``unit``.
    mechanisms : tuple of dict
        As a certificate lists them; of the figures alone.
    project : dict or None
        The statement of the project ledger after them, where they were charged to one.
    budget : tuple of float or None
        (epsilon, delta) of that ledger, which covers all fits and reports under it.
    unit : str or None
        The column of the units that the figures protect; None: records.
    weight : str or None
        The column of survey weights that the figures are of; None: all rows count the same.
    max_weight : float or None
        The cap of these weights.
    """

    confidential: ClassVar[bool] = False

    epsilon: float
    delta: float
    mechanisms: tuple[JsonObject, ...]
    certificate: Mapping[str, object]
    project: Mapping[str, object] | None = None
    budget: tuple[float, float] | None = None
    unit: str | None = None
    weight: str | None = None
    max_weight: float | None = None


def release(
    real: object,
    synthetic: object,
    *,
    schema: Schema,
    epsilon: float,
    delta: float | None = None,
    certificate: Mapping[str, object] | Verification | None = None,
    ledger: str | Path | None = None,
    rng: np.random.Generator | None = None,
) -> PrivateEvaluation:
    """Release the figures of :func:`tabsynth.evaluate_private`.

    ``rng`` is for audits alone: figures with seeded noise are not private.
    """
    stated, authenticated = certificate_with(synthetic, certificate)
    positive("epsilon", epsilon)
    declared, schema = schema, schema.comparable
    table, public = _public(declared, synthetic)
    _check_certificate(stated, declared.fingerprint())
    assert stated is not None
    if delta is None:
        delta = float(stated.get("delta", math.nan))
    delta = in_range("delta", delta, 0, 1, low_open=True, high_open=True)
    design = schema.design
    count = uses(len(schema.columns), design.weight is not None)
    sigma = calibrate(lambda s: [(Gaussian(noise_multiplier=s), count)], epsilon, delta)
    spend = (Gaussian(noise_multiplier=sigma), count)
    with _open_ledger(ledger, stated, epsilon, delta, spend, design.unit) as (
        ledger_of_figures,
        project,
    ):
        rows = _rows_of_fit(declared, real, rng)  # refused before it is entered
        if project is not None:
            project.begin(ledger_of_figures.run, PURPOSE)
        account = ledger_of_figures.open(PURPOSE, *spend)
        if project is None:
            logger.warning("%s", ALONE)  # after the last refusal, before the first row is read
        try:
            metrics = charged_metrics(
                PrivateTable(rows, ledger_of_figures),
                account,
                public,
                meaning(schema),
                rng=np.random.default_rng() if rng is None else rng,
                bits=Keystream() if rng is None else rng,
                design=design,
            )
        finally:
            ledger_of_figures.close()
        statement = None if project is None else project.statement(ledger_of_figures.run)
        budget = None if project is None else (project.epsilon, project.delta)
    return PrivateEvaluation(
        metrics=(*metrics, table.violations),
        epsilon=ledger_of_figures.spent,
        delta=delta,
        mechanisms=tuple(ledger_of_figures.to_list()),
        certificate=stated,
        schema_sha256=schema.fingerprint(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        authenticated=authenticated,
        project=statement,
        budget=budget,
        unit=design.unit,
        weight=design.weight,
        max_weight=design.max_weight,
    )


def _rows_of_fit(schema: Schema, real: object, rng: np.random.Generator | None) -> PrivateRows:
    """Return the real rows that a fit uses, with weights clipped at the cap, and of each unit as many as its bound says."""
    design, mark = schema.design, schema.decimal
    index, used_rows = kept_index(schema, real, REAL)
    if not design:
        return index
    frame = to_pandas(real, REAL)
    wrong = design.problems(frame, mark, needed=True)
    if wrong:
        raise InputError(f"In the {REAL}: {' '.join(message for *_, message in wrong)}")
    key = key_of(None) if rng is None else rng.bytes(KEY_BYTES)
    return rows_of(index, frame.iloc[used_rows], design, key, mark)


def _public(schema: Schema, synthetic: object) -> tuple[Synthetic, WeightedRows]:
    """Return the synthetic table, and its rows with the weights that it may carry; public, so these have no cap."""
    frame = to_pandas(synthetic, SYNTHETIC)
    aside = apart(frame, schema.weight, ())[1]
    weights = None
    if schema.weight is not None and schema.weight in aside.columns:
        weights = weights_of(aside, schema.weight, schema.decimal, SYNTHETIC)
    table = indexed_synthetic(schema.comparable, frame, schema.rules, weights)
    if weights is None:
        return table, WeightedRows(table.index)
    if not weights[table.fits].any():
        raise InputError(
            f"The rows of the {SYNTHETIC} that fit the schema have only weights of 0; give rows that stand for somebody."
        )
    return table, WeightedRows(table.index, weights[table.fits])


@contextmanager
def _open_ledger(
    path: str | Path | None,
    certificate: Mapping[str, object],
    epsilon: float,
    delta: float,
    spend: Spend,
    unit: str | None,
) -> Iterator[tuple[Ledger, ProjectLedger | None]]:
    """Return the figures' ledger: of their own, or in a project's file if that affords them."""
    project_section = certificate.get("project")
    project_section = project_section if isinstance(project_section, Mapping) else {}
    if path is None:
        if project_section:
            raise InputError(
                f"The synthetic table was made under the ledger {quote(project_section.get('ledger'))}; give that as"
                " ledger, so that this report is counted there too."
            )
        ledger_of_figures = Ledger(epsilon, delta)
        ledger_of_figures.unit = unit
        yield ledger_of_figures, None
        return
    with ProjectLedger(path) as project:
        project.check_on_it(
            "The synthetic table", project_section.get("project"), project_section.get("run")
        )
        project.check_unit(unit)
        ledger_of_figures = project.ledger(epsilon, delta)
        ledger_of_figures.unit = unit
        project.check(ledger_of_figures.run, [spend])
        yield ledger_of_figures, project


def _check_certificate(certificate: Mapping[str, Any] | None, fingerprint: str) -> None:
    """Refuse a table whose certificate does not make it public."""
    if certificate is None or not (is_private(certificate) or is_conditional(certificate)):
        raise InputError(
            "Only figures of a public table can be published, and this one came without a"
            " certificate that makes it public; sample it again with its certificate beside it, or make a confidential report."
        )
    items, public = certificate.get("mechanisms"), certificate.get("public")
    recorded_fingerprint = public.get("schema_sha256") if isinstance(public, Mapping) else None
    if recorded_fingerprint != fingerprint:
        raise InputError(
            "The certificate is for another schema, so what is public is not known; give the schema"
            " that the table was fitted with."
        )
    if not isinstance(items, list) or not items or not all(isinstance(i, dict) for i in items):
        raise InputError("The certificate lists no mechanisms, so its claim has no basis.")
    problems = find_missing_mechanisms(certificate)
    if problems:
        raise InputError(f"The certificate is refused: {'; '.join(problems)}.")
    delta = in_range("delta", certificate.get("delta"), 0, 1, low_open=True, high_open=True)
    budget = float(certificate.get("epsilon_asked", math.inf))
    recomputed = Ledger.from_list(budget, delta, items).spent
    claimed = float(certificate["epsilon"])
    if recomputed > claimed * 1.01:
        raise InputError(
            f"The certificate claims epsilon={claimed:.4g}, and the mechanisms that it lists give"
            f" {recomputed:.4g}; nothing is published beside such a table."
        )
