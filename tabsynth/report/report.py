"""The functions that evaluate synthetic tables, and the report that they give: text, data frame, JSON and one HTML page."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tabsynth._files import write_text
from tabsynth._shown import Shown, wrapped
from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.evaluation.config import EvaluationConfig
from tabsynth.evaluation.evaluating import evaluate_table
from tabsynth.evaluation.inputs import certificate_with
from tabsynth.evaluation.linked import LinkedEvaluation, evaluate_linked
from tabsynth.evaluation.metric import Compared, Evaluation
from tabsynth.evaluation.publishing import PrivateEvaluation, release
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.report.linked import LinkedView
from tabsynth.report.one_table import TableView
from tabsynth.report.page import Picture, View
from tabsynth.report.published import PublishedView
from tabsynth.report.tabular import metrics_frame
from tabsynth.schema.linked import (
    AnySchemaLike,
    LinkedSchema,
    SchemaLike,
    read_schema,
    read_table_schema,
)

VIEWS: dict[type, Callable[..., View]] = {
    Evaluation: TableView,
    LinkedEvaluation: LinkedView,
    PrivateEvaluation: PublishedView,
}


@dataclass(frozen=True)
class Report(Shown):
    """The report of an evaluation, to be read and written.

    A report of exact figures of real rows is confidential: only the owner may read the files that it writes. The report of
    :func:`tabsynth.evaluate_private` may be published.

    Attributes
    ----------
    evaluation : Evaluation, LinkedEvaluation or PrivateEvaluation
        The figures, with their intervals and references; ``report.evaluation["tvd2"]`` is one metric.
    """

    evaluation: Evaluation | LinkedEvaluation | PrivateEvaluation

    @property
    def label(self) -> str:
        """The name of the synthetic table."""
        return self.evaluation.label

    @property
    def reports(self) -> dict[str, "Report"]:
        """The reports of single tables, by name, of linked tables."""
        return {name: Report(part) for name, part in self.evaluation.parts.items()}

    def _repr_lines(self) -> list[str]:
        """Return the first sentences of the summary, and where to read on."""
        lines = [f"Report of {self.label}", *self._view.opening()]
        return wrapped(lines, "More: report.summary(), to_frame(), to_html(path)")

    def _repr_html_(self) -> str:
        """Return the first sentences and the picture that says most."""
        return self._view.cell()

    @property
    def _view(self) -> View:
        return VIEWS[type(self.evaluation)](self.evaluation)

    def summary(self) -> list[str]:
        """Return the results in plain words, a sentence or a few for each."""
        return self._view.sentences()

    def picture(self) -> Picture | None:
        """Return the picture that says most, of one table the map of its distances; None where there is none."""
        return next(iter(self._view.pictures()), None)

    def to_frame(self) -> pd.DataFrame:
        """Return a row per metric: value, interval, n, hold-out reference, independent columns, citation."""
        return metrics_frame(self.evaluation.metrics)

    def to_dict(self) -> JsonObject:
        """Return everything, ready for JSON: no NaN, no infinity."""
        return self._view.document()

    def to_json(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write :meth:`to_dict` as JSON, whole or not at all; a file is replaced with ``overwrite`` only."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        self._write(path, text + "\n", overwrite)

    def to_html(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write one HTML file that loads nothing else, whole or not at all; a file is replaced with ``overwrite`` only."""
        self._write(path, self._view.page(), overwrite)

    def _write(self, path: str | Path, text: str, overwrite: bool) -> None:
        mode = {"confidential": self.evaluation.confidential, "overwrite": overwrite}
        write_text(path, text, paid=isinstance(self.evaluation, PrivateEvaluation), **mode)


def evaluate(
    real: Any,
    synthetic: Any,
    holdout: Any = None,
    *,
    schema: AnySchemaLike | None = None,
    certificate: Mapping[str, Any] | Verification | None = None,
    target: str | None = None,
    by: str | Sequence[str] | None = None,
    weights: str | None = None,
    config: EvaluationConfig | None = None,
    label: str = "synthetic",
) -> Report:
    """Compare a synthetic table with the real one, a hold-out and independent columns.

    The schema of linked tables, or dicts of tables, evaluate linked tables: table by table, and in the relations between
    their rows. The result is computed from real rows without noise: treat it as confidential. For figures that may be
    published, see :func:`tabsynth.evaluate_private`.

    Parameters
    ----------
    real : DataFrame or dict of DataFrame
        The table that the synthesizer was fitted on; of linked tables all, by name, with the key columns.
    synthetic : DataFrame or dict of DataFrame
    holdout : DataFrame or dict of DataFrame, optional
        Real rows that the synthesizer never saw; of linked tables those of other roots. Without them leakage cannot be
        distinguished from learning, and prediction is tested on rows that the synthesizer saw.
    schema : Schema, LinkedSchema, dict or path, optional
        Default: drafted from all tables that are compared, such as those of other programs; linked tables need a schema.
        Numbers that some table has as texts or reals are read alike. Columns that some table lacks, or that seem to
        identify people, are left out, and values of fewer than 10 rows of all tables are taken together. The report says
        so. Such reports are not comparable.
    certificate : dict or Verification, optional
        Default: ``synthetic.attrs["certificate"]`` (of linked tables that of the root), if there is one and the table's
        columns, dtypes, cells and order of rows are still those that were sampled. A certificate that you give is taken on
        your word to be that of ``synthetic``, unless it has a hash of other content. The report shows a claim
        as authenticated only for the result of :func:`tabsynth.privacy.certificate.verification.verify` with a key.
    target : str, optional
        A column to predict (AUROC, AUPRC). Not for linked tables.
    by : str or sequence of str, optional
        Columns whose groups are compared: does a minority fare worse? Not for linked tables.
    weights : str, optional
        The name of a column of survey weights, 0 or more, of the training table and the hold-out. A synthetic table with such
        a column is weighted by it; any other is self-weighting. Default: the weight of the schema. Every metric of utility then compares weighted tables, and
        classifiers are fitted with the weights. The attacks use no weights: they count people, each of whom is one
        row. Weights are not clipped at the cap of the schema. Of linked tables: a column of the root, whose weight counts
        for its other records.
    config : EvaluationConfig, optional
        Settings that few need: numbers of attacked records, the seed, progress
        (:class:`tabsynth.evaluation.EvaluationConfig`).
    label : str
        The name of the synthetic table in the report.

    Synthetic rows that break the schema, or whose keys do, are counted; such real rows are refused.

    Raises
    ------
    InputError
        Naming the table, the column and the value that the schema does not declare, or that is no weight; or a linked table
        that is missing, or has no key column, a repeated key, or a row without a parent.
    """
    config = config or EvaluationConfig()
    if not isinstance(weights, str | None):
        raise InputError(f"Expected weights to be the name of a column, got {quote(weights)}.")
    schema = None if schema is None else read_schema(schema)
    tables: Compared[object] = Compared(synthetic, holdout, real)
    bearer = synthetic
    if isinstance(schema, LinkedSchema) and isinstance(synthetic, Mapping):
        bearer = synthetic.get(schema.root)  # it carries the certificate of all
    stated, authenticated = certificate_with(bearer, certificate)
    evaluation: Evaluation | LinkedEvaluation
    if not isinstance(schema, LinkedSchema) and not any(isinstance(t, Mapping) for t in tables):
        evaluation = evaluate_table(tables, schema, weights, config, target=target, by=by)
    elif target is not None or by is not None:
        name = "by" if target is None else "target"
        raise InputError(f"Linked tables are evaluated without {name}; leave it out.")
    else:
        evaluation = evaluate_linked(tables, schema, weights, config, label)
    return Report(replace(evaluation, label=label, certificate=stated, authenticated=authenticated))


def evaluate_private(
    real: Any,
    synthetic: Any,
    *,
    schema: SchemaLike,
    epsilon: float,
    delta: float | None = None,
    certificate: Mapping[str, Any] | Verification | None = None,
    ledger: str | Path | None = None,
    label: str = "synthetic",
) -> Report:
    """Release figures of bounded sensitivity with Gaussian noise, so that they may be published.

    The figures are the number of rows and the total variation distances of one, two and three columns:
    see :mod:`tabsynth.evaluation.charged`. Under a schema with survey weights they are of the weighted
    table, and the total of the weights is one of them; their noise is scaled to the cap. Their noise comes from the system's
    entropy and is never seeded.

    Parameters
    ----------
    real : DataFrame
        The table that the synthesizer was fitted on.
    synthetic : DataFrame
        It must come with a certificate that makes it public. If it has the column of weights of the schema, it is
        weighted by that; otherwise its rows count the same.
    schema : Schema, dict or path
    epsilon : float
        Privacy cost of the figures, above 0, for adding or removing one record. Under a schema with a unit, for all
        records of one unit: the figures are then of at most so many rows of each as its bound says.
    delta : float, optional
        Default: the certificate's.
    certificate : dict or Verification, optional
        As of :func:`tabsynth.evaluate`.
    ledger : path, optional
        A project ledger (:class:`tabsynth.privacy.ProjectLedger`) to charge the figures to; the table must have been made
        under it. Without one the result states its own cost alone, and a warning is logged.
    label : str
        The name of the synthetic table.

    Raises
    ------
    InputError
        If the synthetic table has no certificate that makes it public, or one of another schema; with a ledger,
        if the table was not made under it; if a row has no weight or no unit that the schema asks for.
    BudgetError
        If no noise keeps the figures within ``epsilon``, or the limit of the ledger does not allow them.
    """
    evaluation = release(
        real,
        synthetic,
        schema=read_table_schema(schema),
        epsilon=epsilon,
        delta=delta,
        certificate=certificate,
        ledger=ledger,
    )
    return Report(replace(evaluation, label=label))
