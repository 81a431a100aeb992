"""The page, from the results."""

from pathlib import Path
from string import Template

HERE = Path(__file__).resolve().parent


def table(rows: list[dict], columns: dict[str, str]) -> str:
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [f"{row[k]:,}" if isinstance(row[k], int) else str(row[k]) for k in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write(results: dict) -> str:
    spread = {"ratio": "ratio", "low": "lower quartile", "high": "upper quartile"}
    steps = {"critic": "critic", "step": "private step", "threads": "threads"}
    gpu = results["gpu"]
    return Template((HERE / "template.md").read_text("utf-8")).substitute(
        machine=results["machine"],
        steps=table(results["steps"], steps | {"ordinary_ms": "ordinary, ms"} | spread),
        peers=table(
            results["peers"], {"batch": "batch", "engine": "engine", "threads": "threads"} | spread
        ),
        teachers=table(
            results.get("teachers", []),
            {"teachers": "teachers", "loop_ms": "loop, ms", "batched_ms": "batched, ms"} | spread,
        ),
        stages=table(results.get("stages", []), {"stage": "stage", "seconds": "seconds"}),
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
        gpu=gpu["name"],
        gpu_torch=gpu["torch"],
        gpu_code=gpu["code"],
        gpu_steps=table(
            gpu["steps"],
            {"critic": "critic", "step": "private step", "ordinary_ms": "ordinary, ms"} | spread,
        ),
        gpu_fits=table(
            gpu["fits"],
            {
                "method": "method",
                "table": "table",
                "epsilon": "ε",
                "device": "device",
                "fit": "fit, seconds",
                "sample": "sample, seconds",
            },
        ),
        growth=table(results["growth"], {"what": "what grows", "value": "to"} | spread),
    )
