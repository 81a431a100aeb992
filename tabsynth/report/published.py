"""A report that may be published with its table: every figure has noise that the ledger paid for."""

import json
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
from tabsynth.privacy.accounting import Spend, epsilon_of
from tabsynth.privacy.calibration import calibrate
from tabsynth.privacy.certificate import rounded_up
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Ledger
from tabsynth.privacy.mechanisms import Gaussian
from tabsynth.privacy.noise import Keystream
from tabsynth.privacy.project import ProjectLedger
from tabsynth.report.inputs import REAL, Synthetic, indexed, numbers
from tabsynth.report.page import render_page
from tabsynth.report.privacy import is_private
from tabsynth.report.tabular import escaped, metrics_frame, metrics_markdown, with_interval

FORMAT = "tabsynth-published-report/1"
PURPOSE = "report"


@dataclass(frozen=True, kw_only=True)
class PublishedReport:
    """Noisy figures of one synthetic table, and what they cost.

    Attributes
    ----------
    metrics : tuple of Metric
    epsilon, delta : float
        What the figures spent.
    total_epsilon : float
        What the table and the figures spent together, at the same delta, of the same private rows; under a
        project's ledger its limit, which covers all fits and reports.
    mechanisms : tuple of dict
        As a certificate lists them; of the figures alone.
    project : dict or None
        What the project's ledger states after them, where they were charged to one.
    """

    label: str
    metrics: tuple[Metric, ...]
    epsilon: float
    delta: float
    total_epsilon: float
    mechanisms: tuple[dict[str, Any], ...]
    certificate: Mapping[str, Any]
    schema_sha256: str
    created: str = field(default="")
    project: Mapping[str, Any] | None = None

    @property
    def statement(self) -> str:
        """The claim, in a sentence, or two under a project's ledger."""
        more = ""
        if self.project is not None:
            found = self.project
            more = (
                f" All that is made under ledger {found['ledger']} is"
                f" ({rounded_up(float(found['limit']))}, {found['delta']:g})-differentially private together."
            )
        return (
            f"The figures cost epsilon={rounded_up(self.epsilon)}, the table and the figures together"
            f" ({rounded_up(self.total_epsilon)}, {self.delta:g})-differential privacy for adding or"
            f" removing one record.{more}"
        )

    def summary(self) -> list[str]:
        """The findings in plain words."""
        out = []
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
        return [*out, self.statement]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "format": FORMAT,
            "label": self.label,
            "statement": self.statement,
            "summary": self.summary(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "total_epsilon": self.total_epsilon,
            "mechanisms": plain(list(self.mechanisms)),
            "metrics": [metric.to_dict() for metric in self.metrics],
            "certificate": plain(dict(self.certificate)),
            "schema_sha256": self.schema_sha256,
            "created": self.created,
            **({} if self.project is None else {"project": plain(dict(self.project))}),
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
    items = _mechanisms(certificate, schema.fingerprint())
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
        try:
            metrics = charged_metrics(
                PrivateTable(rows, own),
                account,
                made.index,
                names=schema.names,
                sizes=schema.sizes,
                scores=[numbers(column) for column in schema.columns],
                rng=np.random.default_rng() if rng is None else rng,
                bits=Keystream() if rng is None else rng,
            )
        finally:
            own.close()
        stated = None if project is None else project.statement(own.run)
    together = [*Ledger.from_list(math.inf, delta, items).spends(), *own.spends()]
    total = epsilon_of(together, delta) if stated is None else float(stated["limit"])
    return PublishedReport(
        label=label,
        metrics=(*metrics, made.violations),
        epsilon=own.spent,
        delta=delta,
        total_epsilon=total,
        mechanisms=tuple(own.to_list()),
        certificate=certificate,
        schema_sha256=schema.fingerprint(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        project=stated,
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


def _mechanisms(certificate: Mapping[str, Any] | None, fingerprint: str) -> list[dict[str, Any]]:
    """What the synthetic table has cost; refuses a table that is not public."""
    if certificate is None or not is_private(certificate):
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
        raise InputError("The certificate lists no mechanisms, so its epsilon cannot be added up.")
    delta = between("delta", certificate.get("delta"), 0, 1, low_open=True, high_open=True)
    budget = float(certificate.get("epsilon_asked", math.inf))
    found, claimed = Ledger.from_list(budget, delta, items).spent, float(certificate["epsilon"])
    if found > claimed * 1.01:
        raise InputError(
            f"The certificate claims epsilon={claimed:.4g}, and the mechanisms that it lists give"
            f" {found:.4g}; nothing is published beside such a table."
        )
    return items
