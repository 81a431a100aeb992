"""Record and replay of the evaluation that claims to be private: figures with noise, charged."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tabsynth.auditing.replay import ReplayResult, replay_run
from tabsynth.evaluation.publishing import release
from tabsynth.report import Report
from tabsynth.schema.schema import Schema


def replay_published(
    table: Any, neighbour: Any, synthetic: Any, schema: Schema, *, epsilon: float, seed: int = 0
) -> ReplayResult:
    """Replay ``evaluate_private(table, synthetic, schema=schema, epsilon=epsilon)`` on a neighbour of the table.

    Parameters
    ----------
    table, neighbour : DataFrame
        Real rows, one more or less.
    synthetic : DataFrame
        With its certificate, as a synthesizer samples it.
    seed : int
        Of the noise, which is the system's in a report that anyone sees.
    """

    def run(rows: Any, note: Callable[[str, Any], None]) -> None:
        rng = np.random.default_rng(seed)
        report = Report(release(rows, synthetic, schema=schema, epsilon=epsilon, rng=rng))
        note("report", report.to_dict())
        note("report's frame", report.to_frame())
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            report.to_html(page)
            note("report's page", page.read_bytes())

    return replay_run(run, table, neighbour)
