"""A report that may be published with its table: every figure has noise that is charged to a ledger.

Under a project's ledger the figures are charged there, and the statement is that of the ledger: its budget covers
all fits and reports under it. Without one the report states the cost of its own figures and nothing else. What the
table cost, and other reports of the same rows, are not included: no accountant here knows of them, and a report
that is made after its reader has seen others is chosen adaptively, which the sum of their costs at one δ does not
cover.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._files import write_text
from tabsynth._validate import between, positive, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.evaluation import Metric
from tabsynth.evaluation.charged import charged_metrics, uses
from tabsynth.evaluation.results import plain
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.accounting.calibration import calibrate
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.certificate.certificate import (
    conditional_of,
    find_missing_mechanisms,
    number,
    rounded_up,
)
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.report.certificates import (
    condition_sentence,
    is_conditional,
    is_private,
    unauthenticated,
)
from tabsynth.report.inputs import REAL, Synthetic, indexed
from tabsynth.report.page import render_page
from tabsynth.report.tabular import escaped, metrics_frame, metrics_markdown, with_interval

FORMAT = "tabsynth-published-report/2"
PURPOSE = "report"
ALONE = (
    "The privacy cost of this published report is that of its figures alone: it includes neither the table nor any"
    " other report or fit of the same rows. Give a project's ledger (ledger=, --ledger) to have all of them counted"
    " together."
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PublishedReport:
    """Noisy figures of one synthetic table, and what they cost.

    Attributes
    ----------
    metrics : tuple of Metric
    epsilon, delta : float
        Privacy cost of the figures alone.
    mechanisms : tuple of dict
        As a certificate lists them; of the figures alone.
    certificate : dict
        Of the table.
    authenticated : bool
        Whether the certificate's signature was checked against a key that the reader gave.
    project : dict or None
        What the project's ledger states after them, where they were charged to one.
    budget : tuple of float or None
        (epsilon, delta) of that ledger, which covers all fits and reports under it.
    """

    label: str
    metrics: tuple[Metric, ...]
    epsilon: float
    delta: float
    mechanisms: tuple[dict[str, Any], ...]
    certificate: Mapping[str, Any]
    schema_sha256: str
    created: str = field(default="")
    authenticated: bool = False
    project: Mapping[str, Any] | None = None
    budget: tuple[float, float] | None = None

    @property
    def conditional(self) -> list[str]:
        """The columns on which the claim depends, as the table's certificate has them."""
        return conditional_of(self.certificate.get("public"))

    @property
    def statement(self) -> str:
        """The cost of the figures; under a project's ledger, also the budget that covers all of them.

        A condition comes before it.
        """
        condition = condition_sentence(self.certificate)
        own = (
            f"{condition}{' ' if condition else ''}The figures alone cost ({rounded_up(self.epsilon)},"
            f" {self.delta:g})-differential privacy for adding or removing one record."
        )
        if self.project is None or self.budget is None:
            return own
        name, (epsilon, delta) = self.project["ledger"], self.budget
        if math.isinf(epsilon):
            return f"{own} Ledger {name} counts them, but has no limit: it bounds no total."
        return (
            f"{own} They are charged to ledger {name}: all fits and reports under it are together within its"
            f" budget, ({rounded_up(epsilon)}, {delta:g})-differential privacy."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must not overlook, a text each."""
        alone = (ALONE,) if self.project is None else ()
        return alone if self.authenticated else (*alone, unauthenticated(self.certificate))

    def summary(self) -> list[str]:
        """The findings in plain words; a conditional statement comes first, any other last."""
        out: list[str] = []
        for metric in self.metrics:
            floor = (
                ""
                if metric.floor is None
                else f"; its own histograms {with_interval(metric.floor)}"
            )
            out.append(f"{metric.title}: {with_interval(metric.synthetic)}{floor}.")
        worse = [metric.title for metric in self.metrics if metric.below_floor]
        if worse:
            out.append(f"WORSE than the table's own shuffled columns by {'; '.join(worse)}.")
        warned = [f"Warning: {text}" for text in self.warnings]
        if self.conditional:
            return [self.statement, *out, *warned]
        return [*out, self.statement, *warned]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "format": FORMAT,
            "label": self.label,
            "statement": self.statement,
            "conditional": self.conditional,
            "summary": self.summary(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "warnings": list(self.warnings),
            "mechanisms": plain(list(self.mechanisms)),
            "metrics": [metric.to_dict() for metric in self.metrics],
            "certificate": plain(dict(self.certificate)),
            "authenticated": self.authenticated,
            "schema_sha256": self.schema_sha256,
            "created": self.created,
            **({} if self.project is None else {"project": plain(dict(self.project))}),
            **({} if self.budget is None else {"budget": [number(x) for x in self.budget]}),
        }

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(path, text + "\n")

    def to_frame(self) -> pd.DataFrame:
        """A row per metric, as :meth:`tabsynth.Report.to_frame`."""
        return metrics_frame(self.metrics)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The summary and every figure as Markdown; written to ``path`` if there is one."""
        parts = [f"# {escaped(self.label)}", "", *(f"- {escaped(line)}" for line in self.summary())]
        text = "\n".join(parts) + "\n\n" + metrics_markdown(self.metrics) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: str | Path) -> None:
        """Write a page of its own that loads nothing else."""
        frame = [
            (m.title, [with_interval(m.synthetic), with_interval(m.floor)], m.below_floor)
            for m in self.metrics
        ]
        header = ("Figure, with noise", "Synthetic", "Its columns shuffled")
        write_text(
            path, render_page(self.label, "published report", self.summary(), [(header, frame)], [])
        )


def published(
    encoder: TableEncoder,
    real: Any,
    made: Synthetic,
    *,
    certificate: Mapping[str, Any] | None,
    authenticated: bool = False,
    epsilon: float,
    delta: float | None,
    label: str,
    ledger: str | Path | None = None,
    rng: np.random.Generator | None = None,
) -> PublishedReport:
    """Release the figures of bounded sensitivity for ``epsilon``; see :mod:`tabsynth.evaluation.charged`.

    ``rng`` is for audits alone: a report of seeded noise is not private.

    Raises
    ------
    InputError
        If the synthetic table has no certificate that makes it public, or one of another schema; under a
        project's ledger, if the table was not made under it.
    BudgetError
        If no noise keeps the figures within ``epsilon``, or the project's limit does not allow them.
    """
    schema = encoder.schema
    positive("epsilon", epsilon)
    _check_certificate(certificate, schema.fingerprint())
    assert certificate is not None
    if delta is None:
        delta = float(certificate.get("delta", math.nan))
    delta = between("delta", delta, 0, 1, low_open=True, high_open=True)
    count = uses(len(schema.columns))
    sigma = calibrate(lambda s: [(Gaussian(noise_multiplier=s), count)], epsilon, delta)
    spend = (Gaussian(noise_multiplier=sigma), count)
    with _charged(ledger, certificate, epsilon, delta, spend) as (own, project):
        rows = indexed(encoder, real, REAL)  # refused before it is entered
        if project is not None:
            project.begin(own.run, PURPOSE)
        account = own.open(PURPOSE, *spend)
        if project is None:
            logger.warning("%s", ALONE)  # after the last refusal, before the first row is read
        try:
            metrics = charged_metrics(
                PrivateTable(rows, own),
                account,
                made.index,
                names=schema.names,
                sizes=schema.sizes,
                scores=[column.scores() for column in schema.columns],
                rng=np.random.default_rng() if rng is None else rng,
                bits=Keystream() if rng is None else rng,
            )
        finally:
            own.close()
        stated = None if project is None else project.statement(own.run)
        budget = None if project is None else (project.epsilon, project.delta)
    return PublishedReport(
        label=label,
        metrics=(*metrics, made.violations),
        epsilon=own.spent,
        delta=delta,
        mechanisms=tuple(own.to_list()),
        certificate=certificate,
        schema_sha256=schema.fingerprint(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        authenticated=authenticated,
        project=stated,
        budget=budget,
    )


@contextmanager
def _charged(
    path: str | Path | None,
    certificate: Mapping[str, Any],
    epsilon: float,
    delta: float,
    spend: Spend,
) -> Iterator[tuple[Ledger, ProjectLedger | None]]:
    """The figures' ledger: of their own, or in a project's file if that affords them."""
    known = certificate.get("project")
    known = known if isinstance(known, Mapping) else {}
    if path is None:
        if known:
            raise InputError(
                f"The synthetic table was made under the ledger {shown(known.get('ledger'))}; give that as"
                " ledger, so that this report is counted there too."
            )
        yield Ledger(epsilon, delta), None
        return
    with ProjectLedger(path) as project:
        project.check_on_it("The synthetic table", known.get("project"), known.get("run"))
        own = project.ledger(epsilon, delta)
        project.check(own.run, [spend])
        yield own, project


def _check_certificate(certificate: Mapping[str, Any] | None, fingerprint: str) -> None:
    """Refuse a table whose certificate does not make it public."""
    if certificate is None or not (is_private(certificate) or is_conditional(certificate)):
        raise InputError(
            "epsilon publishes figures of a table that is public, and this one came without a"
            " certificate that makes it private; give certificate=, or leave epsilon out."
        )
    items, public = certificate.get("mechanisms"), certificate.get("public")
    known = public.get("schema_sha256") if isinstance(public, Mapping) else None
    if known != fingerprint:
        raise InputError(
            "The certificate is for another schema, so what is public is not known; give the schema"
            " that the table was fitted with."
        )
    if not isinstance(items, list) or not items or not all(isinstance(i, dict) for i in items):
        raise InputError("The certificate lists no mechanisms, so its claim has no basis.")
    problems = find_missing_mechanisms(certificate)
    if problems:
        raise InputError(f"The certificate is refused: {'; '.join(problems)}.")
    delta = between("delta", certificate.get("delta"), 0, 1, low_open=True, high_open=True)
    budget = float(certificate.get("epsilon_asked", math.inf))
    found, claimed = Ledger.from_list(budget, delta, items).spent, float(certificate["epsilon"])
    if found > claimed * 1.01:
        raise InputError(
            f"The certificate claims epsilon={claimed:.4g}, and the mechanisms that it lists give"
            f" {found:.4g}; nothing is published beside such a table."
        )
