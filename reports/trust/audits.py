"""Audits of every method, measured: ``python reports/trust/audits.py`` writes audits.json beside it.

What is in audits.json already is not run again, unless ``--again`` is given; black-box runs are kept as they end (in ``--runs``), so
that the script can be stopped and goes on. Names after the options run those audits alone.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tabsynth._files import write_text
from tabsynth.audit import one_run
from tabsynth.audit.blackbox import Setting, audit_black_box
from tabsynth.audit.canaries import audit_gan
from tabsynth.audit.counting import audit_counts
from tabsynth.audit.results import AuditResult
from tabsynth.audit.voting import audit_modes
from tabsynth.datasets import load_census
from tabsynth.generators.dpgan import VARIANTS
from tabsynth.generators.margnet_config import MargNetConfig
from tabsynth.generators.wgan import WGANConfig
from tabsynth.synthesizers import METHODS

HERE = Path(__file__).parent
DELTA, KNOWN = 1e-5, 8000
WHITE_RUNS, COUNT_RUNS, VOTES = 20_000, 4_000, 1_000_000
CANARIES = 1000
# Fits a world of black-box audits. A fit takes 0.22 CPU seconds (pate-gan), 0.24 (pate-acgan), 0.31 (margnet),
# 0.66 (dp-gan), 1.9 (dp-wgan): of the three that came later, so many that each audit takes at most ten minutes.
BLACK = {"pate-gan": 2000, "margnet": 2000, "pate-acgan": 1000, "dp-gan": 400, "dp-wgan": 140}
# One fit with canaries. Of margnet all that is released are the counts: the fit to them adds nothing.
ONE_RUN: dict[str, dict[str, Any]] = {
    "margnet": {"config": MargNetConfig(steps=1)},
    "dp-wgan": {"wgan_config": WGANConfig(critic_steps=300)},
    "dp-gan": {"dpgan_config": replace(VARIANTS["advanced"], critic_steps=300)},
}


def jobs(runs: Path, black: int | None) -> dict[str, Callable[[], list[AuditResult]]]:
    """Every audit by name, the quick ones first."""
    out: dict[str, Callable[[], list[AuditResult]]] = {}
    for epsilon in (8.0, 1.0):
        for method in ("pate-gan", "pate-acgan"):
            out[f"white-box {method} {epsilon:g}"] = lambda m=method, e=epsilon: audit_modes(
                m, e, DELTA, samples=VOTES, runs=10_000
            )
        for method in ("dp-wgan", "dp-gan"):
            out[f"white-box {method} {epsilon:g}"] = lambda m=method, e=epsilon: audit_gan(
                m, e, DELTA, runs=WHITE_RUNS
            )
        out[f"white-box margnet {epsilon:g}"] = lambda e=epsilon: audit_counts(
            e, DELTA, runs=COUNT_RUNS
        )
    out["white-box dp-wgan 8, rate 0.2"] = lambda: audit_gan(
        "dp-wgan", 8.0, DELTA, runs=WHITE_RUNS, rate=0.2
    )
    for method, epsilon in (*((m, 8.0) for m in ONE_RUN), ("margnet", 1.0)):
        out[f"one-run {method} {epsilon:g}"] = lambda m=method, e=epsilon: _one_run(m, e)
    for method in METHODS:
        out[f"black-box {method} 1"] = lambda m=method, c=black or BLACK[method]: [
            audit_black_box(
                Setting(method=m, epsilon=1.0, delta=DELTA), runs / f"black-box-{m}.jsonl", runs=c
            )
        ]
    return out


def _one_run(method: str, epsilon: float) -> list[AuditResult]:
    table, schema = load_census()
    inserted = one_run.insert(schema, table[:KNOWN], CANARIES, np.random.default_rng())
    rows = KNOWN + CANARIES // 2  # public: how many are in depends on the coins
    model = METHODS[method](
        schema, epsilon=epsilon, delta=DELTA, rows=rows, device="cpu", **ONE_RUN[method]
    )
    return [one_run.audit_one_run(model, inserted)]


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("build/audits"))
    parser.add_argument("--out", type=Path, default=HERE / "audits.json")
    parser.add_argument("--black", type=int, help="fits a world, of black-box audits")
    parser.add_argument("--again", action="store_true", help="run what is there already, too")
    parser.add_argument("names", nargs="*", help="parts of names; all if none")
    asked = parser.parse_args()
    asked.runs.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name, job in jobs(asked.runs, asked.black).items():
        if asked.names and not any(part in name for part in asked.names):
            continue
        if name in _kept(asked.out) and not asked.again:
            continue
        started = time.process_time()
        found = [result.to_dict() for result in job()]
        kept = _kept(asked.out)  # another process may have added to it
        kept[name] = {"cpu_seconds": round(time.process_time() - started, 1), "results": found}
        write_text(asked.out, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        for result in found:
            print(f"{name}, {result['part']}: {result['sentence']}", flush=True)


def _kept(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


if __name__ == "__main__":
    main()
