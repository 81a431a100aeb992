"""All that is measured on a GPU, within some eight minutes on an H100: steps and whole fits.

    python reports/speed/gpu.py                              # writes gpu.json beside it; exit code 2 without a GPU
    python reports/speed/gpu.py --device cpu --out rows.json # the same program on a few small steps and fits

Steps are compared as they are called, and recorded as CUDA graphs on both sides. A part is stored when it is measured.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from harness import Row, add_rows  # noqa: E402
from settings import ROOT, ROWS, Setting, Step, census_layout  # noqa: E402
from timing import ratio, turns  # noqa: E402

from tabsynth import DPGAN, DPWGAN, PATEGAN, MargNet, Schema  # noqa: E402
from tabsynth.tables import read_table  # noqa: E402
from tabsynth.training.private_step import (  # noqa: E402
    BAM,
    CUDA_GRAPHS,
    DPSGD,
    Captured,
    critic_scores,
    minus_scores,
)

METHODS = {"dp-wgan": DPWGAN, "dp-gan": DPGAN, "pate-gan": PATEGAN, "margnet": MargNet}


class Recorded(Setting):
    """Steps on both sides as they are called, and recorded."""

    def recorded_ordinary(
        self, losses: Callable[[nn.Module, Tensor], Tensor], fake: bool = False
    ) -> Step:
        """Return an ordinary step of a new critic, whose gradient is recorded after a few calls."""
        critic = self.critic()
        parameters, optimizer = list(critic.parameters()), self.optimizer(critic)

        def gradient() -> list[Tensor]:
            loss = losses(critic, self.draw()).mean()
            if fake:
                loss = loss + critic_scores(critic, self.fake).mean()
            return list(torch.autograd.grad(loss, parameters))

        captured = Captured(gradient, [self.rng])

        def step() -> None:
            for parameter, grad in zip(parameters, captured(self.device), strict=True):
                parameter.grad = grad
            optimizer.step()

        return step

    def unrecorded_private(self, *arguments: Any, **options: Any) -> Step:
        """Return a private step that is not recorded."""
        with patch.dict(os.environ, {CUDA_GRAPHS: "0"}):
            return self.private(*arguments, **options)


PAIRS = (
    ("scores, DP-SGD", "scores"),
    ("scores, BAM", "scores"),
    ("WGAN, DP-SGD, centred", "WGAN"),
)


def steps(batch: int, count: int, device: str) -> list[Row]:
    """Return each private step over its ordinary one, both recorded and both not; and over the latter as it is."""
    layout = census_layout()
    rows = max(ROWS, 4 * batch)
    setting = Recorded(layout.width, batch, rows=rows, device=device, layout=layout)
    each: dict[str, Step] = {}
    for way, ordinary, private in (
        ("recorded", setting.recorded_ordinary, setting.private),
        ("as called", setting.ordinary, setting.unrecorded_private),
    ):
        each[f"scores, {way}"] = ordinary(minus_scores)
        each[f"WGAN, {way}"] = ordinary(minus_scores, fake=True)
        each[f"scores, DP-SGD, {way}"] = private(minus_scores, DPSGD())
        each[f"scores, BAM, {way}"] = private(minus_scores, BAM())
        each[f"WGAN, DP-SGD, centred, {way}"] = private(minus_scores, DPSGD(), fake=True)
    times = turns(each, count, device)
    out = []
    for way in ("recorded", "as called"):
        for over, under in PAIRS:
            names = f"{over}, {way}", f"{under}, {way}"
            row = {"batch": batch, "step": over, "both": way, "turns": count}
            row |= {
                f"{side}_ms": round(1e3 * statistics.median(times[name]), 3)
                for side, name in zip(("private", "ordinary"), names, strict=True)
            }
            out.append(row | ratio(times, *names))
    return out


def fit(method: str, epsilon: float, rows: int | None, device: str) -> list[Row]:
    """Return the seconds of a fit of the bundled census table, and of a sample of as many rows."""
    schema = Schema.load(ROOT / "data" / "census.schema.json")
    train = read_table(ROOT / "data" / "census.csv", schema)
    train = train.head(rows or len(train))
    limit = {} if rows is None else {"time_limit": 1.0}
    started = time.perf_counter()
    model = METHODS[method](schema, epsilon=epsilon, random_state=0, device=device, **limit)
    model.fit(train)
    sampling = time.perf_counter()
    model.sample(len(train))
    row = {"method": method, "epsilon": epsilon, "device": device, "rows": len(train)}
    row |= {"fit": round(sampling - started, 1)}
    return [row | {"sample": round(time.perf_counter() - sampling, 1)}]


def parts(device: str) -> Iterator[tuple[str, Callable[[], list[Row]]]]:
    """Yield the name of each part, and what measures it."""
    if device == "cpu":
        yield "steps-64", partial(steps, 64, 4, device)
        yield "fit-margnet", partial(fit, "margnet", math.inf, 200, device)
        return
    for batch, count in ((512, 60), (4096, 60), (65_536, 20)):
        yield f"steps-{batch}", partial(steps, batch, count, device)
    for method in METHODS:
        yield f"fit-{method}", partial(fit, method, 8.0, None, device)


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the rows; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, default=HERE / "gpu.json")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("No GPU is at hand: nothing was measured.", file=sys.stderr)
        return 2
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    machine = f"{machine}, torch {torch.__version__}"
    torch.set_num_threads(1)
    for name, measure in parts(options.device):
        row = {"machine": machine, "rows": measure()}
        add_rows(options.out, {name: row})
        print(name, json.dumps(row, ensure_ascii=False), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
