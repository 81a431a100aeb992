"""Handwritten digits: dp-GAN basic and advanced, beside the same without privacy, as pictures.

    python reports/digits/run.py            # fits what is missing, then writes README.md and pictures
    python reports/digits/run.py --write    # only writes, from results.json

The digits are scikit-learn's. Each run is seeded, so that it can be repeated; its certificate
therefore says "not private: seeded", and the epsilon shown is what the same run costs without a seed.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from document import TESTS
from document import measured as reproduced
from pictures import packed
from study import REHEARSALS, measured, parts
from tables import accuracy, inception_score, random_rows, shuffled
from writing import write_readme

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
EPSILONS = (10.0, 4.0)
SEEDS = range(3)


def load_results() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rehearsals": {}, "runs": {}}


def store(results: dict) -> None:
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def reference(which: str) -> dict:
    """What a classifier reaches on real rows, on independent columns, and on the public slice."""
    private, public, test = parts(which)
    return {
        "rows": {"private": len(private), "public": len(public), "test": len(test)},
        "real": accuracy(private, test),
        "shuffled": [accuracy(shuffled(private, seed), test) for seed in SEEDS],
        "public": accuracy(public, test),
        "samples": packed(private) if which == "handwritten" else None,
        "inception": {
            "test": inception_score(test),
            "noise": [inception_score(random_rows(len(test), seed)) for seed in SEEDS],
        }
        if which == "handwritten"
        else None,
    }


def jobs() -> Iterator[tuple[str, str, Callable[[], dict]]]:
    """(section, name, what to do), the most wanted first."""
    for which in ("printed", "handwritten"):
        yield "references", which, lambda which=which: reference(which)
    for seed in SEEDS:
        for system in ("free", "slice"):
            yield "runs", f"{system} seed {seed}", _run(system, math.inf, seed)
        for epsilon in EPSILONS:
            for system in ("advanced", "basic", "margnet"):
                yield "runs", f"{system} eps {epsilon:g} seed {seed}", _run(system, epsilon, seed)
    for name, (system, epsilon, changed) in REHEARSALS.items():
        yield "rehearsals", name, _run(system, epsilon, 0, "printed", changed)
    for seed in SEEDS:
        for epsilon in EPSILONS:
            yield "runs", f"warm eps {epsilon:g} seed {seed}", _run("warm", epsilon, seed)
    for seed in SEEDS:
        for number in TESTS:
            job = lambda number=number, seed=seed: reproduced(number, seed)  # noqa: E731
            yield "document", f"test {number} seed {seed}", job


def _run(
    system: str, epsilon: float, seed: int, which: str = "handwritten", changed: dict | None = None
) -> Callable[[], dict]:
    return lambda: measured(system, epsilon, seed, which, changed)


def run_all(only: str) -> None:
    for section, name, job in jobs():
        if name in load_results().setdefault(section, {}) or only not in f"{section} {name}":
            continue
        result = job()
        # Read again: another process may have added a run meanwhile.
        results = load_results()
        results.setdefault(section, {})[name] = result
        store(results)
        shown = {k: v for k, v in result.items() if "samples" not in k and k != "costs"}
        print(f"{section} {name}: {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="only write, from results.json")
    parser.add_argument("--only", default="", help="only runs whose name contains this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.write:
        run_all(options.only)
    if not options.only:
        write_readme(load_results(), HERE)


if __name__ == "__main__":
    main()
