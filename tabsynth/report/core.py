"""The `Report` of one synthetic table: a summary first, then files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tabsynth._files import write_text
from tabsynth.evaluation import Evaluation
from tabsynth.evaluation.results import plain
from tabsynth.report.html import render
from tabsynth.report.shown import ShownMarginal
from tabsynth.report.summary import NOTICE, summarise
from tabsynth.report.tabular import escaped, flat, metrics_frame, metrics_markdown

FORMAT = "tabsynth-report/2"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was measured of one synthetic table. Computed from real data: confidential (R18).

    Attributes
    ----------
    label : str
        What the synthetic table is called.
    evaluation : Evaluation
    marginals : tuple of ShownMarginal
    certificate : dict or None
        What came with the table; nothing is claimed without one.
    authenticated : bool
        Whether its signature was checked against a key that the reader gave. What is not authenticated is
        shown as a claim that nobody vouches for.
    schema_sha256 : str
    real_sha256 : str, of the training table's and the hold-out's rows
    created : str, UTC, ISO 8601
    versions : dict
    left_out : int
        Synthetic rows with a value that the schema does not declare: in no figure but violations.
    """

    label: str
    evaluation: Evaluation
    marginals: tuple[ShownMarginal, ...]
    certificate: Mapping[str, Any] | None
    schema_sha256: str
    real_sha256: str
    created: str
    versions: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0
    authenticated: bool = False

    @property
    def verdict(self) -> str:
        """``better than``, ``partly better than``, ``no better than`` or ``not to be told from``
        ``shuffled columns``."""
        return self.evaluation.verdict.text

    def summary(self) -> list[str]:
        """The findings in plain words, a sentence or a few for each."""
        return summarise(
            self.evaluation, self.certificate, self.left_out, authenticated=self.authenticated
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: no NaN, no infinity."""
        return {
            "format": FORMAT,
            "notice": NOTICE,
            "label": self.label,
            "created": self.created,
            "verdict": self.verdict,
            "summary": self.summary(),
            "evaluation": self.evaluation.to_dict(),
            "marginals": [marginal.to_dict() for marginal in self.marginals],
            "left_out": self.left_out,
            "schema_sha256": self.schema_sha256,
            "real_sha256": self.real_sha256,
            "certificate": None if self.certificate is None else plain(dict(self.certificate)),
            "authenticated": self.authenticated,
            "versions": plain(dict(self.versions)),
        }

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(path, text + "\n")

    def to_html(self, path: str | Path) -> None:
        """Write the report as one HTML file that loads nothing else, whole or not at all."""
        write_text(path, render(self))

    def to_frame(self) -> pd.DataFrame:
        """A row per metric: value, interval, n, a fresh real sample, shuffled columns, citation."""
        return metrics_frame(self.evaluation.metrics)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The summary and every metric as Markdown; written to ``path`` if there is one."""
        parts = [f"# {escaped(self.label)}", "", *(f"- {escaped(line)}" for line in self.summary())]
        text = "\n".join(parts) + "\n\n" + metrics_markdown(self.evaluation.metrics) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    def prediction_frame(self) -> pd.DataFrame:
        """Table 1: a row per column, F1 by table, ratio and gain, each with its interval.

        Columns are ``{train,synthetic,floor,ratio,gain}_{weighted,macro}`` and the same with
        ``_low`` and ``_high``; the last row is the mean.
        """
        rows: dict[int, dict[str, float]] = {}
        prediction = self.evaluation.prediction
        # A column of the table may itself be called "mean": rows are told apart by position.
        for item in (*prediction.columns, prediction.mean):
            row: dict[str, float] = {}
            for name in ("train", "synthetic", "floor", "ratio", "gain"):
                row |= flat(name, getattr(item, name))
            rows[len(rows)] = row
        frame = pd.DataFrame.from_dict(rows, orient="index")
        names = [item.column for item in prediction.columns]
        return frame.set_axis(pd.Index([*names, "mean"], name="column"), axis=0)
