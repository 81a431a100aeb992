"""What a second process buys: private steps and PATE's teachers on one and on two processes of a machine with two cores.

    python reports/speed/processes.py           # measures, writes processes.json and processes.md
    python reports/speed/processes.py --quick   # few turns, prints only
    python reports/speed/processes.py --write   # only writes processes.md, from processes.json

One process, one process with two threads, and two processes with one thread each take their turns in one loop, on the same
rows and networks. Ratios are of the same turn.
"""

import argparse
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from string import Template

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
RESULTS, PAGE = HERE / "processes.json", HERE / "processes.md"
ONE, THREADS, TWO = "one process", "one process, two threads", "two processes"
# Turns go on until one has had so many, or all have taken so many seconds.
TURNS, SECONDS = 40, 60.0
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2"}


def critics() -> dict[str, tuple[int, int, int]]:
    """By name: width of the rows, expected batch, rows of the table."""
    from settings import census_width

    width = census_width()
    return {
        "64 → 256 → 256 → 1, batch 512": (64, 512, 20_000),
        f"census, {width} → 256 → 256 → 1, batch 954": (width, 954, 20_000),
        "64 → 256 → 256 → 1, batch 4,096": (64, 4096, 50_000),
        "64 → 256 → 256 → 1, batch 16,384": (64, 16_384, 200_000),
        "64 → 256 → 256 → 1, batch 65,536": (64, 65_536, 500_000),
    }


def critic_steps(group, width: int, batch: int, rows: int) -> dict[str, Callable[[], None]]:
    """A private WGAN step against generated rows, with its optimiser."""
    import torch
    from settings import Setting

    from tabsynth._random import Randomness
    from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian
    from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
    from tabsynth.training.bounds import Clipping
    from tabsynth.training.private_step import PrivateStep, minus_scores
    from tabsynth.training.processes import SharedTable

    setting, rate = Setting(width, batch, rows=rows), batch / rows

    def made(shared: bool) -> Callable[[], None]:
        ledger, critic = Ledger(math.inf, 1e-5), setting.critic()
        mechanism = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=rate)
        table = (
            SharedTable(setting.table, ledger, group, Randomness())
            if shared
            else PrivateTable(setting.table, ledger)
        )
        private = PrivateStep(
            critic,
            table=table,
            account=ledger.open("critic", mechanism, 10**9),
            rate=rate,
            expected_batch=batch,
            generator=torch.Generator().manual_seed(1),
            clipping=Clipping(max_norm=0.5, bound="public"),
        )
        optimizer = setting.optimizer(critic)

        def step() -> None:
            private.gradient(minus_scores, setting.fake)
            optimizer.step()

        return step

    return {ONE: made(False), THREADS: made(False), TWO: made(True)}


def ensembles() -> dict[str, tuple[int, tuple[int, ...]]]:
    """By name: teachers, and their hidden layers."""
    from tabsynth.synthesizers.pate.config import PATEConfig

    hidden = PATEConfig().teacher_hidden
    return {
        f"200 networks of {hidden[0]} hidden units": (200, hidden),
        f"2,000 networks of {hidden[0]} hidden units": (2000, hidden),
    }


def teacher_rounds(group, teachers: int, hidden: tuple[int, ...]) -> dict[str, Callable[[], None]]:
    """A round of teachers on the census table's width: all their steps, and votes on 1,000 rows."""
    import torch
    from settings import ROWS, census_width

    from tabsynth._random import Randomness
    from tabsynth.privacy.ledger.ledger import Ledger
    from tabsynth.synthesizers.pate.config import PATEConfig
    from tabsynth.synthesizers.pate.ensembles import Ensemble
    from tabsynth.synthesizers.pate.teachers import Teachers, network_votes, train_teachers
    from tabsynth.training.processes import SharedTable

    config, width = PATEConfig(teacher_hidden=hidden), census_width()
    rng = torch.Generator().manual_seed(0)
    rows, shard = (
        torch.rand(ROWS, width, generator=rng),
        torch.randint(teachers, (ROWS,), generator=rng),
    )
    shape = (config.teacher_steps, config.teacher_batch, width)
    fakes, asked = list(torch.rand(shape, generator=rng)), torch.rand(1000, width, generator=rng)

    def made(shared: bool) -> Callable[[], None]:
        networks = Teachers(teachers, [width, *hidden, 1], torch.Generator().manual_seed(0))
        table = SharedTable(rows, Ledger(math.inf, 1e-5), group, Randomness()) if shared else None
        ensemble = Ensemble(rows, shard, teachers, table, networks.part)
        draws = torch.Generator().manual_seed(1)

        def round_() -> None:
            ensemble.each(train_teachers, draws, fakes, config, None)
            ensemble.votes(network_votes, draws, asked, None, "A")

        return round_

    return {ONE: made(False), THREADS: made(False), TWO: made(True)}


def compared(steps: dict[str, Callable[[], None]], count: int) -> dict[str, object]:
    """Times by turns, and how many times faster the other two are than one process, turn by turn."""
    import time

    import torch

    times: dict[str, list[float]] = {name: [] for name in steps}
    used: dict[str, list[float]] = {name: [] for name in steps}
    began = time.perf_counter()
    for turn in range(count + 1):
        for name, step in steps.items():
            torch.set_num_threads(2 if name == THREADS else 1)
            started, used_before = time.perf_counter(), time.process_time()
            step()
            if turn:  # the first warms up, and hands out rows
                times[name].append(time.perf_counter() - started)
                used[name].append(time.process_time() - used_before)
        if turn >= 5 and time.perf_counter() - began > SECONDS:
            break
    row: dict[str, object] = {
        "turns": len(times[ONE]),
        "ms": round(1e3 * statistics.median(times[ONE]), 1),
    }
    for name in (THREADS, TWO):
        each = [a / b for a, b in zip(times[ONE], times[name], strict=True)]
        low, middle, high = statistics.quantiles(each, n=4)
        row[name] = {"faster": round(middle, 2), "low": round(low, 2), "high": round(high, 2)}
    each = [a / b for a, b in zip(used[ONE], used[TWO], strict=True)]
    row["load"] = round(os.getloadavg()[0], 1)
    row["processor time"] = round(statistics.median(each), 2)
    return row


def rank(number: int, folder: str, turns: int) -> None:
    """One of the two processes."""
    import torch
    import torch.distributed as dist

    from tabsynth.training.processes import Processes

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=number, world_size=2
    )
    group = Processes()
    if number:
        group.serve(torch.device("cpu"))
        return
    results: dict[str, object] = {
        "machine": f"torch {torch.__version__}, CPU ({platform.machine()}, {os.cpu_count()} shared cores)",
        "rows": [],
    }
    with group.leading(lambda: None):
        kinds = [
            ("critic step", critics(), critic_steps),
            ("teachers' round", ensembles(), teacher_rounds),
        ]
        for kind, cases, made in kinds:
            for name, case in cases.items():
                row = {"kind": kind, "what": name, **compared(made(group, *case), turns)}
                print(json.dumps(row), flush=True)
                results["rows"].append(row)  # type: ignore[attr-defined]
    Path(folder, "results.json").write_text(json.dumps(results))


def measured(turns: int) -> dict[str, object]:
    """What two new processes measure."""
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=rank, args=(number, folder, turns)) for number in range(2)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        if any(process.exitcode for process in ranks):
            raise SystemExit("a process failed")
        results: dict[str, object] = json.loads(Path(folder, "results.json").read_text())
    return results


def page(results: dict) -> str:
    """The page, from the results."""

    def cells(way: dict) -> str:
        return f"{way['faster']:.2f} ({way['low']:.2f} to {way['high']:.2f})"

    lines = [
        f"| {row['kind']} | {row['what']} | {row['turns']} | {row['ms']:,} | {cells(row[THREADS])} | {cells(row[TWO])} | {row['processor time']:.2f} | {row['load']:.1f} |"
        for row in results["rows"]
    ]
    return Template((HERE / "processes.template.md").read_text("utf-8")).substitute(
        machine=results["machine"], rows="\n".join(lines)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true", help="only write, from processes.json")
    options = parser.parse_args()
    if not options.write:
        results = measured(5 if options.quick else TURNS)
        if options.quick:
            print(page(results))
            return
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page(json.loads(RESULTS.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    main()
