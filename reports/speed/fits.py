"""Whole fits on a GPU, and on one thread of the CPU of the same machine."""

import sys
import time
from pathlib import Path

import torch

from tabsynth import DPWGAN, MargNet

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmark"))
from tables import TABLES

METHODS = {"margnet": MargNet, "dp-wgan": DPWGAN}
CELLS = (
    ("margnet", "census", 1.0, "cuda"),
    ("margnet", "census", 1.0, "cpu"),
    ("margnet", "census", 8.0, "cuda"),
    ("margnet", "census", 8.0, "cpu"),
    ("margnet", "adult", 1.0, "cpu"),
    ("margnet", "census-24", 1.0, "cpu"),
    ("dp-wgan", "census", 1.0, "cuda"),
)


def fits() -> list[dict]:
    """Return the seconds of a fit, and of a sample of as many rows."""
    torch.set_num_threads(1)
    out = []
    for method, table, epsilon, device in CELLS:
        schema, train, _ = TABLES[table].split()
        torch.zeros(1, device="cuda").sum().item()  # the device's own start is not the fit's
        started = time.perf_counter()
        model = METHODS[method](schema, epsilon=epsilon, random_state=0, device=device).fit(train)
        sampling = time.perf_counter()
        model.sample(len(train))
        row = {"method": method, "table": table, "epsilon": epsilon, "device": device}
        row["fit"] = round(sampling - started, 1)
        out.append(row | {"sample": round(time.perf_counter() - sampling, 1)})
    return out
