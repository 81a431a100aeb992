"""The record of the gate, ``reports/audits/mutants.json``: each mutant, its result and the test that noticed it."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from patches import ROOT, Mutant

RECORD = ROOT / "reports" / "audits" / "mutants.json"


def write_record(
    chosen: Sequence[Mutant], results: Mapping[str, Mapping[str, Any]], cost: str
) -> None:
    """Write the record, whole or not at all."""
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    collected = {m.name: dict(results[m.name]) for m in chosen}
    cpu = sum(r.get("cpu_seconds", 0.0) for r in results.values())
    figures = {
        "cost": cost,
        "cpu_seconds": round(cpu, 1),
        "versions": f"Python {platform.python_version()}, torch {version('torch')}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "unchanged": {name: r for name, r in results.items() if name not in collected},
        "mutants": {
            m.name: {"rule": m.rule, "listed": m.listed, "mistake": m.mistake, **collected[m.name]}
            for m in chosen
        },
    }
    temporary = RECORD.with_name(RECORD.name + ".tmp")
    temporary.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, RECORD)
