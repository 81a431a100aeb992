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
    rows = []
    for r in results:
        # Where μ is not claimed the statistic is no Gaussian one: its distance and bound are not those of a μ.
        mu = [None] * 3
        if r["mu_claimed"] is not None:
            mu = [r["mu_claimed"], r["mu_estimate"], r["mu_lower"]]
        figures = [r["epsilon_claimed"], *mu, r["epsilon_lower"]]
        row = [f"`{r['method']}`", r["kind"], r["part"], *map(shown, figures), f"{r['runs']:,}"]
        rows.append([*row, r["verdict"]])
    return rows


def results() -> list[dict[str, Any]]:
    """Of all audits; the part says what is special of an audit, as its name does after the comma."""
    out = []
    for name, entry in record("audits").items():
        special = name.partition(", ")[2]
        for r in entry["results"]:
            out.append({**r, "part": f"{r['part']}, {special}" if special else r["part"]})
    return out


def audits() -> str:
    head = ["method", "attack", "of", "ε claimed", "μ claimed", "μ seen", "μ at least"]
    head += ["ε at least", "runs", "verdict"]
    return table(head, found(results()))


def audited() -> dict[str, Any]:
    verdicts = [r["verdict"] for r in results()]
    counts = {name: verdicts.count(name) for name in ("refuted", "invalid")}
    return {"audits": len(verdicts), **counts}


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


def page() -> str:
    """README.md."""
    text = (HERE / "template.md").read_text("utf-8")
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
        text = text.replace(f"<{name}>", str(value))
    return text


def main() -> None:
    (HERE / "README.md").write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
