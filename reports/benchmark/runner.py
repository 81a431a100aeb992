"""Runs what a benchmark lacks: every fit and every scoring a process of its own, one thread each."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import store
from config import Config, Run, System

from tabsynth.encoding import TableEncoder

HERE = Path(__file__).resolve().parent
PEERS = Path(tempfile.gettempdir()) / "tabsynth-peers"
THREADS = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMBA")} | {
    "POLARS_MAX_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
UNKNOWN_SHARE = 0.3  # of the limit: what a fit is thought to take before any was timed


class Stopped(Exception):
    """A process was ended from outside: its run is not a result."""


class Runner:
    """One command's worth of runs.

    Parameters
    ----------
    only : str, optional
        Only runs whose key contains this.
    again : bool
        Those that ``only`` names are run even where the store has them.
    jobs : int
        Runs at a time.
    """

    def __init__(
        self, config: Config, only: str | None = None, *, again: bool = False, jobs: int = 1
    ) -> None:
        self.config, self.jobs, self.again = config, jobs, again
        self.runs = [run for run in config.runs() if not only or only in run.key]
        self._lock, self._starting = threading.Lock(), threading.Lock()
        self._ended = False
        self._children: set[subprocess.Popen] = set()
        self._without: set[str] = set()  # packages that did not install

    def run(self) -> None:
        """All that is missing. KeyboardInterrupt ends the runs in hand and loses no other."""
        queue = iter(self.runs)
        with (
            tempfile.TemporaryDirectory() as scratch,
            ThreadPoolExecutor(self.jobs) as pool,
        ):
            try:  # around the start as well: a first fit may have begun when the end is asked for
                workers = [pool.submit(self._work, queue, Path(scratch)) for _ in range(self.jobs)]
                for worker in workers:
                    worker.result()
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """End what runs and begin nothing more."""
        with self._starting:
            self._ended = True
            for child in self._children:
                child.terminate()

    def _work(self, queue: Iterator[Run], scratch: Path) -> None:
        while True:
            with self._lock:
                run = next((r for r in queue if self._wanted(r)), None)
                if run is None or self._ended:
                    return
                folder = self.table(run.table, scratch)
            out = folder / f"{run.key}.csv"
            began = time.monotonic()
            result = self._fit(run, folder, out)
            if result is None:
                continue
            if "stopped" not in result:
                with self._lock:
                    self.references(run.table, folder)
                result |= means_of(self.scored(run.table, folder, out)[0])
            out.unlink(missing_ok=True)
            store.add(self.config.store, {run.key: vars(run) | result})
            self._say(run, result, time.monotonic() - began)

    def _wanted(self, run: Run) -> bool:
        results = store.load(self.config.store)
        if self.again:
            results.pop(run.key, None)
        package = self.config.systems[run.system].package
        return store.row_of(results, run) is None and package not in self._without

    def table(self, table: str, scratch: Path) -> Path:
        """A folder with the split of a table."""
        folder = scratch / table
        if not folder.exists():
            folder.mkdir()
            prepare(self.config, table, folder)
        return folder

    def references(self, table: str, folder: Path) -> None:
        """Score the private rows themselves, the test rows and independent columns, if none has yet."""
        reference = store.load(self.config.store)
        if all("k_marginal" in reference.get(f"{table}-{name}", {}) for name in store.REFERENCES):
            return
        independent_columns(folder)
        files = {"real": "train", "fresh": "test", "shuffled": "shuffled"}
        result = self.scored(table, folder, *(folder / f"{files[n]}.csv" for n in store.REFERENCES))
        rows = {
            f"{table}-{name}": {"table": table} | means_of(score)
            for name, score in zip(store.REFERENCES, result, strict=True)
        }
        store.add(self.config.store, rows)

    def _fit(self, run: Run, folder: Path, out: Path) -> dict | None:
        """What the fit cost, or {"stopped": reason}; None where the peer is not to be had."""
        system, limit = self.config.systems[run.system], self.config.limit(run.system)
        if system.peer:
            python = self.peer_python(system)
            if python is None:
                return None
            what = [python, HERE / "peers.py", system.peer, folder]
            what += [run.epsilon, self.config.delta, run.seed, limit, out]
            what += [json.dumps(dict(system.options))]
        else:
            what = [sys.executable, HERE / "fit.py", self.config.path.resolve()]
            what += [run.table, run.system, run.epsilon, run.seed, out]
        return self.process(what, limit)

    def scored(self, table: str, folder: Path, *synthetic: Path) -> list[dict]:
        """The figures of synthetic tables, as score.py has them."""
        what = [sys.executable, HERE / "score.py", self.config.path.resolve(), table, folder]
        result = self.process([*what, *synthetic])
        if "stopped" in result:
            raise RuntimeError(f"score.py: {result['stopped']}")
        return result["scores"]

    def process(self, what: list, limit: int | None = None) -> dict:
        """The JSON of a process's last line, or {"stopped": reason} where it failed."""
        with self._starting:
            if self._ended:
                raise Stopped("The runs were stopped.")
            child = subprocess.Popen(
                [str(part) for part in what],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **THREADS},
            )
            self._children.add(child)
        try:
            output, error = child.communicate()
        except BaseException:
            child.kill()
            raise
        finally:
            with self._starting:
                self._children.discard(child)
        if child.returncode == -signal.SIGXCPU:
            return {"stopped": f"{store.NOT_DONE}{limit:,} CPU s"}
        if child.returncode < 0:
            raise Stopped(f"{what[1]} was ended by {signal.Signals(-child.returncode).name}.")
        if child.returncode:
            return {"stopped": (error.strip().splitlines() or ["failed"])[-1][:200]}
        return json.loads(output.splitlines()[-1])

    def peer_python(self, system: System) -> Path | None:
        """The interpreter of a peer's environment, which is made first where it is not there."""
        package = system.package
        place = PEERS / re.sub(r"[^A-Za-z0-9.]+", "-", package)
        python, mark = place / "bin" / "python", place / "installed"
        with self._lock:
            if package in self._without:
                return None
            if not mark.exists():
                pip = [python, "-m", "pip", "install", "--quiet"]
                steps: list[list] = [[python_of(system.python), "-m", "venv", place]]
                if system.requirements:
                    steps += [[*pip, *system.requirements], [*pip, "--no-deps", package]]
                else:
                    steps += [[*pip, package]]
                if not all(succeeds(step) for step in steps):
                    self._without.add(package)
                    print(f"{package} did not install: its runs are left out.", flush=True)
                    return None
                mark.touch()
        return python

    def _say(self, run: Run, result: dict, seconds: float) -> None:
        results = store.load(self.config.store)
        left = [r for r in self.runs if store.row_of(results, r) is None]
        done = result.get("stopped") or f"{result['cpu_seconds']:.0f} CPU s"
        hours = sum(expected(self.config, results, r) for r in left) / 3600 / self.jobs
        print(
            f"{run.key}: {done}, {seconds:.0f} s in all; {len(left)} left, about {hours:.1f} h",
            flush=True,
        )


def independent_columns(folder: Path) -> Path:
    """The private rows, each column in an order of its own, as a file."""
    rows, rng = pd.read_csv(folder / "train.csv"), np.random.default_rng(0)
    shuffled = pd.DataFrame({c: rows[c].to_numpy()[rng.permutation(len(rows))] for c in rows})
    path = folder / "shuffled.csv"
    shuffled.to_csv(path, index=False)
    return path


def python_of(version: str) -> str:
    """The command of a Python of that version; "" is the one that runs this."""
    return f"python{version}" if version else sys.executable


def succeeds(command: list) -> bool:
    """Whether a command is there and ends with exit code 0."""
    try:
        return not subprocess.run([str(part) for part in command], capture_output=True).returncode
    except OSError:
        return False


def means_of(score: dict) -> dict:
    """A row's figures: what is kept for each column stays out."""
    return {name: value for name, value in score.items() if not isinstance(value, dict)}


def expected(config: Config, results: dict[str, dict], run: Run) -> float:
    """Seconds that a run is thought to take: as its like took, else a share of its limit."""
    timed = [r for r in results.values() if r.get("system") == run.system and "seconds" in r]
    here = [r["seconds"] for r in timed if r["table"] == run.table]
    seconds = here or [r["seconds"] for r in timed]
    return float(np.mean(seconds)) if seconds else UNKNOWN_SHARE * config.limit(run.system)


def prepare(config: Config, table: str, folder: Path) -> None:
    """The split of a table as value numbers, and its public sizes."""
    schema, *parts = config.tables[table].split()
    encoder = TableEncoder(schema)
    for name, rows in zip(("train", "test"), parts, strict=True):
        codes = pd.DataFrame(encoder.to_index(rows), columns=schema.names)
        codes.to_csv(folder / f"{name}.csv", index=False)
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    (folder / "sizes.json").write_text(json.dumps(sizes))
