"""Record and replay of the evaluation that claims to be private: figures with noise, charged."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tabsynth.auditing.replay import ReplayResult, replay_run
from tabsynth.encoding import TableEncoder
from tabsynth.report.inputs import certificate_with, indexed_synthetic
from tabsynth.report.published import published
from tabsynth.schema.schema import Schema


def replay_published(
    table: Any, neighbour: Any, synthetic: Any, schema: Schema, *, epsilon: float, seed: int = 0
) -> ReplayResult:
    """Replay ``evaluate(table, synthetic, schema=schema, epsilon=epsilon)`` on a neighbour of the table.

    Parameters
    ----------
    table, neighbour : DataFrame
        Real rows, one more or less.
    synthetic : DataFrame
        With its certificate, as a synthesizer samples it.
    seed : int
        Of the noise, which is the system's in a report that anyone sees.
    """
    encoder = TableEncoder(schema)
    made = indexed_synthetic(encoder, synthetic)
    certificate, _ = certificate_with(synthetic, None)

    def run(rows: Any, note: Callable[[str, Any], None]) -> None:
        report = published(
            encoder,
            rows,
            made,
            certificate=certificate,
            epsilon=epsilon,
            delta=None,
            label="replay",
            rng=np.random.default_rng(seed),
        )
        note("report", report.to_dict())
        note("report's frame", report.to_frame())
        note("report's Markdown", report.to_markdown())
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            report.to_html(page)
            note("report's page", page.read_bytes())

    return replay_run(run, table, neighbour)
