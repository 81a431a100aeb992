"""The bias of private gradients on Adult income: DP-SGD, DP-SAT and BAM, a classifier and a critic.

    python reports/bias/run.py            # trains what is missing, then writes README.md and pictures
    python reports/bias/run.py --write    # only writes, from results.json

Needs adult.csv and adult_domain.json, two benchmark files of data/README.md. Runs are seeded, so that they can be
repeated; the epsilon shown is what the same run costs without a seed. All un-noised diagnostics are computed on rows that the study treats as public.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from depth import DEPTHS, REPETITIONS, step_times
from ends import flatness, groups
from exact import direction
from plans import (
    ACTIVATIONS,
    FEW,
    RADII,
    SEEDS,
    SIZES,
    chosen,
    endings,
    families,
    grid,
    name_of,
    radii,
    sized,
)
from study import BATCH, FOLDS, STEPS, Adult, Plan, Prober, Run
from writing import write_readme

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "data"))
from benchmark_data import data_file  # noqa: E402

RESULTS = HERE / "results.json"
Job = tuple[str, Callable[[Adult], dict]]


def load_results() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def store(results: dict) -> None:
    text = json.dumps(results, indent=None, separators=(",", ":"))
    RESULTS.write_text(text.replace('},"', '},\n"') + "\n")


def rehearsal(plan: Plan, seed: int) -> Job:
    """A run on public rows only: seed k leaves fold k out, and is judged on it."""

    def job(adult: Adult) -> dict:
        train, valid = adult.fold(seed % FOLDS)
        prober = Prober(adult.features(valid), seed)
        run = Run(adult, train, plan, seed, rehearsal=True).train(prober)
        means = averaged(prober.found, ("bias", "clipping_bias", "cosine"))
        return run.score(valid) | means

    return name_of("tune", plan, seed), job


def final(
    plan: Plan, seed: int, sizes: tuple[int, ...] = (BATCH,), rules: tuple = (), stage: str = "run"
) -> Job:
    """A run on the private table, judged on test rows; probed on public ones."""

    def job(adult: Adult) -> dict:
        prober = Prober(adult.features(adult.public), seed, sizes, rules)
        run = Run(adult, adult.private, plan, seed, rehearsal=False).train(prober)
        spent = run.ledger.spent
        return run.score(adult.test) | {
            "spent": "inf" if math.isinf(spent) else round(spent, 4),
            "probes": columns(prober.found),
        }

    return name_of(stage, plan, seed), job


def ending(plan: Plan, seed: int) -> Job:
    """A run on the private table, whose last weights are looked at: on public rows, and on test rows."""

    def job(adult: Adult) -> dict:
        public = adult.features(adult.public)
        prober = Prober(public, seed)
        run = Run(adult, adult.private, plan, seed, rehearsal=False).train(prober)
        return run.score(adult.test) | {
            "probes": columns(prober.found),
            "flatness": flatness(run.module, public, seed),
            "groups": groups(run, adult, adult.test),
        }

    return name_of("end", plan, seed), job


def compared(plan: Plan, seed: int, activation: str) -> Job:
    """BAM beside the exact gradient on public rows, at weights that the plan's training passes through."""

    def job(adult: Adult) -> dict:
        rows, result = adult.features(adult.public), []
        draw = torch.Generator().manual_seed(3000 + seed)

        def probe(run: Run, t: int) -> None:
            if (t + 1) % (STEPS // 10) == 0:
                batch = rows[torch.randint(len(rows), (BATCH,), generator=draw)]
                for radius in RADII["bam"]:
                    own = direction(run.module, run.losses, batch, plan.max_norm, radius)
                    own = {name: float(f"{value:.5g}") for name, value in own.items()}
                    result.append({"t": t + 1, "radius": radius} | own)

        Run(adult, adult.private, plan, seed, rehearsal=False, activation=activation).train(probe)
        return {"probes": columns(result)}

    return name_of(f"direction {activation}", plan, seed), job


def timed(depth: int, repetition: int) -> Job:
    return f"depth {depth} {repetition}", lambda _: {"ms": step_times(depth, repetition)}


def columns(rows: list[dict]) -> dict[str, list]:
    """A list of equal dicts as a dict of lists; what is not a number becomes None."""
    return {k: [None if row[k] != row[k] else row[k] for row in rows] for k in rows[0]}


def averaged(rows: list[dict], names: tuple[str, ...]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in names}


def tried(results: dict) -> list[Job]:
    """Each rule's radii on public rows."""
    out = []
    for plain, _, epsilons, folds in families(results).values():
        for epsilon in epsilons:
            own = replace(plain, epsilon=epsilon)
            plans = [own, *(plan for rule in RADII for plan in radii(own, rule))]
            out += [rehearsal(plan, k) for plan in plans for k in folds]
    return out


def stages(results: dict) -> Iterator[list[Job]]:
    """Each stage from the results of those before it."""
    yield [rehearsal(plan, k) for plan in grid() for k in range(FOLDS)]
    yield tried(results)
    plans = chosen(results)
    yield [final(plan, seed) for plan in plans.values() for seed in SEEDS]
    for task in ("classifier", "critic"):
        rules = tuple(plans[task, rule, 2.0].rule for rule in ("dp-sgd", *RADII))
        yield [final(plans[task, "dp-sgd", 2.0], s, rules=rules, stage="same") for s in FEW]
    pair = plans["classifier", "dp-sgd", 2.0]
    yield [final(sized(pair, n), seed, (n,), stage="size") for n in SIZES for seed in FEW]
    yield [final(pair, seed, (*SIZES, 0), stage="sizes") for seed in FEW]
    ends = [ending(plan, seed) for plan in endings(plans).values() for seed in FEW]
    at_two = [job for job in ends if "eps2 " in job[0] or "epsinf" in job[0]]
    yield at_two
    yield [compared(pair, seed, activation) for activation in ACTIVATIONS for seed in FEW]
    yield [timed(depth, k) for depth in DEPTHS for k in range(REPETITIONS)]
    yield ends


def run_all() -> None:
    adult, results = Adult(data_file("adult.csv"), data_file("adult_domain.json")), load_results()
    for jobs in stages(results):
        for name, job in jobs:
            if name in results:
                continue
            started = time.process_time()
            results[name] = job(adult) | {"seconds": round(time.process_time() - started, 2)}
            store(results)
            scores = {k: v for k, v in results[name].items() if isinstance(v, float)}
            print(name, " ".join(f"{k}={v:.4g}" for k, v in scores.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="only write, from results.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.write:
        run_all()
    results = load_results()
    write_readme(results, chosen(results))


if __name__ == "__main__":
    main()
