"""The page that a data-protection officer reads: what was tried against our own claims, and what came of it.

    python reports/trust/run.py         # writes README.md from the five records beside it

The records are made by `audits.py`, `replays.py`, `kill_points.py`, `fuzz.py` and by `make mutants`; each says
how long it takes, and goes on where it was.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def record(name: str) -> dict[str, Any]:
    """One of the five records."""
    return json.loads((HERE / f"{name}.json").read_text("utf-8"))


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def found(results: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            f"`{r['method']}`",
            r["kind"],
            r["part"],
            shown(r["epsilon_claimed"]),
            shown(r["mu_claimed"]),
            shown(r["mu_estimate"]),
            shown(r["mu_lower"]),
            shown(r["epsilon_lower"]),
            f"{r['runs']:,}",
            r["verdict"],
        ]
        for r in results
    ]


def results() -> list[dict[str, Any]]:
    """Of all audits."""
    return [r for entry in record("audits").values() for r in entry["results"]]


def audits() -> str:
    head = ["method", "attack", "of", "ε claimed", "μ claimed", "μ seen", "μ at least"]
    head += ["ε at least", "runs", "verdict"]
    return table(head, found(results()))


def audited() -> dict[str, Any]:
    every = results()
    return {"audits": len(every), "refuted": sum(r["verdict"] == "refuted" for r in every)}


def replays() -> str:
    rows = []
    for name, system in record("replays")["systems"].items():
        cells = list(system["neighbours"].values())
        rows.append(
            [
                name,
                str(len(cells)),
                str(sum(c["runs"] for c in cells)),
                str(sum(c["passed"] for c in cells)),
                f"{max(c['worst_move'] for c in cells):.4f}",
            ]
        )
    return table(
        ["what was fitted", "kinds of neighbours", "replays", "the same", "worst move"], rows
    )


def replayed() -> dict[str, Any]:
    cells = [c for s in record("replays")["systems"].values() for c in s["neighbours"].values()]
    return {
        "replays": sum(c["runs"] for c in cells),
        "replays_passed": sum(c["passed"] for c in cells),
        "systems": len(record("replays")["systems"]),
    }


def kills() -> str:
    rows = []
    for method, ways in record("kill_points")["by_method"].items():
        for way, cell in ways.items():
            ends = ", ".join(f"{n} {what}" for what, n in sorted(cell["outcomes"].items()))
            counts = [str(cell["points"]), str(cell["sound"]), str(cell["lost_uses_max"])]
            rows.append([f"`{method}`", way, *counts, ends])
    head = ["method", "with", "killed", "sound", "most uses written off and not used", "afterwards"]
    return table(head, rows)


def readers() -> str:
    rows = [
        [name, *(f"{cell[k]:,}" for k in ("inputs", "accepted", "refused", "findings"))]
        for name, cell in record("fuzz")["readers"].items()
    ]
    return table(["reader", "damaged files", "read", "refused in one line", "anything else"], rows)


def mutants() -> dict[str, Any]:
    known = record("mutants")["mutants"]
    states = [m["outcome"] for m in (known.values() if isinstance(known, dict) else known)]
    return {"mutants": len(states), "killed": states.count("killed")}


def main() -> None:
    page = (HERE / "template.md").read_text("utf-8")
    kill, fuzz = record("kill_points"), record("fuzz")
    facts = {
        **audited(),
        **replayed(),
        **mutants(),
        "points": kill["points"],
        "sound": kill["sound"],
        "inputs": f"{fuzz['inputs']:,}",
        "findings": fuzz["findings"],
        "AUDITS": audits(),
        "REPLAYS": replays(),
        "KILLS": kills(),
        "READERS": readers(),
    }
    for name, value in facts.items():
        page = page.replace(f"<{name}>", str(value))
    (HERE / "README.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()
