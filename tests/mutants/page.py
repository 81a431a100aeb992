"""What the gate found, as a page: ``reports/audits/mutants.md``, and as figures beside it."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from patches import ROOT, Mutant

REPORT = ROOT / "reports" / "audits"
RECORD = REPORT / "mutants.json"

HEAD = """# The mutation gate

A test that never fails shows nothing. Here are {count} privacy mistakes, each made in a copy of our code by \
`make mutants`, which then wants a test to fail. {verdict} The mutants, with the edit that makes each, are in \
`tests/mutants/`; the same tests pass on the code as it is.

{killed} of {count} killed. {cost}; {versions}; {date}.

| mutant | rule | the mistake | killed by | CPU s |
|---|---|---|---|---|
"""


def write_report(
    chosen: Sequence[Mutant], results: Mapping[str, Mapping[str, Any]], cost: str
) -> None:
    """Write both files, each whole or not at all."""
    REPORT.mkdir(parents=True, exist_ok=True)
    collected = {m.name: dict(results[m.name]) for m in chosen}
    cpu = sum(r.get("cpu_seconds", 0.0) for r in results.values())
    figures = {
        "cost": cost,
        "cpu_seconds": round(cpu, 1),
        "unchanged": {name: r for name, r in results.items() if name not in collected},
        "mutants": {
            m.name: {"rule": m.rule, "listed": m.listed, "mistake": m.mistake, **collected[m.name]}
            for m in chosen
        },
    }
    _write(RECORD, json.dumps(figures, indent=1) + "\n")
    cost += f"; {cpu:.0f} s of CPU"
    _write(REPORT / "mutants.md", _page(chosen, collected, cost))


def _page(chosen: Sequence[Mutant], found: Mapping[str, Mapping[str, Any]], cost: str) -> str:
    killed = sum(r["outcome"] == "killed" for r in found.values())
    text = HEAD.format(
        count=len(chosen),
        verdict="All are noticed."
        if killed == len(chosen)
        else f"**{len(chosen) - killed} are not noticed: those are missing tests.**",
        killed=killed,
        cost=cost,
        versions=f"Python {platform.python_version()}, torch {version('torch')}",
        date=f"{datetime.now(UTC):%Y-%m-%d}",
    )
    for mutant in chosen:
        result = found[mutant.name]
        by = f"`{_short(result['killer'])}`" if result.get("killer") else ""
        if result["outcome"] != "killed":
            by = f"**{result['outcome']}** {result.get('why', '')}".strip()
        cells = (mutant.name, mutant.rule, mutant.mistake, by, result.get("cpu_seconds", ""))
        text += "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"
    seen = [f"- {m.name}: {m.seen}" for m in chosen if m.seen]
    text += "\n## Where they were seen, or how they come about\n\n" + "\n".join(seen) + "\n"
    return text


def _short(name: str) -> str:
    """A test's file and name, without folders and parameters."""
    file, _, test = name.partition("::")
    return f"{Path(file).name}::{test.split('[')[0]}"


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
