"""What privacy costs in time: a private training step over its own ordinary step.

    python reports/speed/run.py            # measures, prints a table and one JSON line, writes README.md
    python reports/speed/run.py --quick    # few repetitions, prints only
    python reports/speed/run.py --write    # only writes README.md, from results.json
    python reports/speed/run.py --teachers # measures PATE's teachers alone, into results.json
    python reports/speed/run.py --evaluation # measures the evaluation alone, into results.json
    python reports/speed/run.py --gpu      # measures steps and fits on a GPU alone, into results.json

Every step of a comparison takes its turn in one loop, so that whatever else the machine does falls on
all of them; the figures are medians, and the ratios have the quartiles of ratios within a turn. Both
sides draw a batch, compute, and step the optimiser; the private side adds its noise.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

import torch

from tabsynth.privacy.certificate.certificate import code
from tabsynth.training.private_step import DPSGD, minus_scores

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from engines import check_peers, engines  # noqa: E402
from evaluation import grid, stages  # noqa: E402
from fits import fits  # noqa: E402
from settings import Setting, census_width, settings, steps_of  # noqa: E402
from teachers import rounds  # noqa: E402
from timing import ratio, turns  # noqa: E402
from writing import write  # noqa: E402

RESULTS = HERE / "results.json"


def measure(threads: int, turns_each: int, device: str = "cpu") -> list[dict]:
    torch.set_num_threads(threads)
    out = []
    for name, setting in settings(device).items():
        steps, pairs = steps_of(setting)
        count = max(8, round(turns_each * min(1.0, 1000 / setting.batch)))
        times = turns(steps, count, device)
        for over, under in pairs:
            row = {"threads": threads, "critic": name, "step": over, "turns": count}
            row["ordinary_ms"] = round(1e3 * statistics.median(times[under]), 2)
            out.append(row | ratio(times, over, under))
    return out


def peers(threads: int, count: int) -> list[dict]:
    """Other engines' private step over ours."""
    torch.set_num_threads(threads)
    out = []
    for batch, times_each in ((512, count), (4096, max(5, count // 3))):
        steps = engines(Setting(64, batch))
        times = turns(steps, times_each)
        for name in list(steps)[1:]:
            row = {"threads": threads, "batch": batch, "engine": name, "turns": times_each}
            out.append(row | ratio(times, name, "ours"))
    return out


def growth(count: int) -> list[dict]:
    """Our DP-SGD step as batch, width and table grow; over the first of each."""
    torch.set_num_threads(1)
    families = {
        "batch": {b: Setting(64, b) for b in (512, 1024, 2048, 4096)},
        "width of the table": {w: Setting(w, 512) for w in (64, 128, 256, 512)},
        "rows of the table": {n: Setting(64, 512, rows=n) for n in (20_000, 200_000, 2_000_000)},
    }
    out = []
    for what, family in families.items():
        times = turns({str(v): s.private(minus_scores, DPSGD()) for v, s in family.items()}, count)
        first = str(next(iter(family)))
        out += [{"what": what, "value": v} | ratio(times, str(v), first) for v in family]
    return out


def teachers(count: int) -> list[dict]:
    """A step of all teachers as K modules in a loop, over the one batched step; one thread."""
    torch.set_num_threads(1)
    out = []
    for name, result in rounds(census_width()).items():
        each = max(5, count * 200 // result.count)
        times = turns({"batched": result.batched(), "loop": result.loop()}, min(each, count))
        row = {"teachers": name, "turns": min(each, count)}
        row |= {f"{n}_ms": round(1e3 * statistics.median(t), 1) for n, t in times.items()}
        out.append(row | ratio(times, "loop", "batched"))
    return out


def machine() -> str:
    cores = "two shared cores" if torch.get_num_interop_threads() <= 2 else "several cores"
    return f"torch {torch.__version__}, CPU ({platform.machine()}, {cores})"


def save(results: dict) -> None:
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "README.md").write_text(write(results), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true", help="only write, from results.json")
    parser.add_argument("--teachers", action="store_true", help="PATE's teachers alone")
    parser.add_argument("--evaluation", action="store_true", help="the evaluation alone")
    parser.add_argument("--gpu", action="store_true", help="steps and fits on a GPU alone")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    count = 10 if options.quick else 100
    if options.threads:
        collected = {
            "steps": measure(options.threads, count),
            "peers": peers(options.threads, max(5, count // 5)),
        }
        print(json.dumps(collected))
        return
    if options.teachers or options.evaluation or options.gpu:
        collected: dict = {}
        if options.gpu:
            gpu = {"name": torch.cuda.get_device_name(), "torch": torch.__version__}
            gpu["code"] = code()["sha256"][:12]
            steps = measure(1, count, "cuda")
            collected |= {"gpu": gpu | {"steps": steps, "fits": [] if options.quick else fits()}}
        if options.teachers:
            collected |= {"teachers": teachers(5 if options.quick else 30)}
        if options.evaluation:
            collected |= {"stages": stages(), "grid": grid()}
        print(json.dumps(collected, indent=1))
        if not options.quick:
            save((json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | collected)
        return
    if options.write:
        (HERE / "README.md").write_text(write(json.loads(RESULTS.read_text())), "utf-8")
        return
    check_peers()
    results: dict = {"machine": machine(), "steps": [], "peers": []}
    for threads in (1, 2):  # a process each: torch keeps the threads that it once had
        command = [sys.executable, __file__, "--threads", str(threads)]
        command += ["--quick"] if options.quick else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        part = json.loads(done.stdout.splitlines()[-1])
        results["steps"] += part["steps"]
        results["peers"] += part["peers"]
    results["growth"] = growth(max(5, count // 3))
    results["teachers"] = teachers(max(5, count // 3))
    print(write(results))
    print(json.dumps(results))
    if not options.quick:
        gpu = json.loads(RESULTS.read_text())["gpu"]  # of a machine of its own
        save(results | {"stages": stages(), "grid": grid(), "gpu": gpu})


if __name__ == "__main__":
    main()
