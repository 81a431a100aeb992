"""The page, from the results."""

import math
from pathlib import Path
from string import Template

from evaluation import LONG_AIM, TABLE_AIM
from teachers import AIM

HERE = Path(__file__).resolve().parent
MOST = {"scores, DP-SGD": 1.4, "scores, BAM": 2.2, "WGAN-GP, DP-SGD": 1.8}
LEAST = {"opacus, hooks": 40, "torch.func, vmap": 15, "opacus, ghost clipping": 1.3}


def table(rows: list[dict], columns: dict[str, str]) -> str:
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [f"{row[k]:,}" if isinstance(row[k], int) else str(row[k]) for k in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def missed(results: dict) -> str:
    """The rows whose ratio is on the wrong side of its aim."""
    rows = [
        f"{r['step']} ({r['critic']}, {r['threads']} threads): {r['ratio']} against {MOST[r['step']]}"
        for r in results["steps"]
        if r["ratio"] > MOST.get(r["step"], math.inf)
    ]
    rows += [
        f"{r['engine']} (batch {r['batch']:,}, {r['threads']} threads): {r['ratio']} against"
        f" {LEAST[r['engine']]}"
        for r in results["peers"]
        if r["ratio"] < LEAST[r["engine"]]
    ]
    return "\n".join(f"- {row}" for row in rows).replace("1 threads", "1 thread") or "- none"


def write(results: dict) -> str:
    spread = {"ratio": "ratio", "low": "lower quartile", "high": "upper quartile"}
    steps = {"critic": "critic", "step": "private step", "threads": "threads"}
    return Template((HERE / "template.md").read_text("utf-8")).substitute(
        machine=results["machine"],
        missed=missed(results),
        steps=table(results["steps"], steps | {"ordinary_ms": "ordinary, ms"} | spread),
        peers=table(
            results["peers"], {"batch": "batch", "engine": "engine", "threads": "threads"} | spread
        ),
        teachers=table(
            results.get("teachers", []),
            {"teachers": "teachers", "loop_ms": "loop, ms", "batched_ms": "batched, ms"} | spread,
        ),
        aim=AIM,
        stages=table(results.get("stages", []), {"stage": "stage", "seconds": "seconds"}),
        table_aim=TABLE_AIM,
        long=table(
            results.get("grid", []),
            {
                "rows": "rows",
                "columns": "columns",
                "people": "people and controls",
                "seconds": "seconds",
                "ratio": "plain search over ours",
            },
        ),
        long_aim=LONG_AIM,
        growth=table(results["growth"], {"what": "what grows", "value": "to"} | spread),
    )
