"""The runs of a benchmark: every fit and every scoring is a process of its own, with one thread."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
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


class Stopped(Exception):
    """The end of a process from outside, whose run is not a result."""


class Runner:
    """The runs of one command, one after another.

    Parameters
    ----------
    only : str, optional
        Only runs whose key contains this.
    again : bool
        Those that ``only`` names are run even where the store has them.
    """

    def __init__(self, config: Config, only: str | None = None, *, again: bool = False) -> None:
        self.config, self.again = config, again
        self.runs = [run for run in config.runs() if not only or only in run.key]
        self._without: set[str] = set()  # packages that did not install

    def run(self) -> None:
        """Make all runs that are missing. An interruption ends the run in hand and loses no other."""
        with tempfile.TemporaryDirectory() as scratch:
            for run in self.runs:
                if self._is_missing(run):
                    self._measure(run, self.table(run.table, Path(scratch)))

    def _measure(self, run: Run, folder: Path) -> None:
        out = folder / f"{run.key}.csv"
        result = self._fit(run, folder, out)
        if result is None:
            return
        if "stopped" not in result:
            self.references(run.table, folder)
            result |= means_of(self.score_files(run.table, folder, out)[0])
        out.unlink(missing_ok=True)
        harness.add_rows(self.config.store, {run.key: vars(run) | result})
        missing = sum(map(self._is_missing, self.runs))
        done = result.get("stopped") or f"{result['cpu_seconds']:.0f} CPU s"
        print(f"{run.key}: {done}; {missing} left", flush=True)

    def _is_missing(self, run: Run) -> bool:
        results = harness.load_rows(self.config.store)
        if self.again:
            results.pop(run.key, None)
        package = self.config.systems[run.system].package
        return store.row_of(self.config, results, run) is None and package not in self._without

    def table(self, table: str, scratch: Path) -> Path:
        """Return a folder with the split of a table."""
        folder = scratch / table
        if not folder.exists():
            folder.mkdir()
            prepare(self.config, table, folder)
        return folder

    def references(self, table: str, folder: Path) -> None:
        """Score the private rows themselves, the test rows and independent columns, if none has yet."""
        reference = harness.load_rows(self.config.store)
        if all("k_marginal" in reference.get(f"{table}-{name}", {}) for name in store.REFERENCES):
            return
        independent_columns(folder)
        files = {"real": "train", "fresh": "test", "shuffled": "shuffled"}
        result = self.score_files(
            table, folder, *(folder / f"{files[n]}.csv" for n in store.REFERENCES)
        )
        rows = {
            f"{table}-{name}": {"table": table} | means_of(score)
            for name, score in zip(store.REFERENCES, result, strict=True)
        }
        harness.add_rows(self.config.store, rows)

    def _fit(self, run: Run, folder: Path, out: Path) -> dict | None:
        """Return the cost of the fit, or {"stopped": reason}; None where the peer cannot be installed."""
        system, limit = self.config.systems[run.system], self.config.limit
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

    def score_files(self, table: str, folder: Path, *synthetic: Path) -> list[dict]:
        """Return the figures of synthetic tables by score.py."""
        what = [sys.executable, HERE / "score.py", self.config.path.resolve(), table, folder]
        result = self.process([*what, *synthetic])
        if "stopped" in result:
            raise RuntimeError(f"score.py: {result['stopped']}")
        return result["scores"]

    def process(self, what: list, limit: int | None = None) -> dict:
        """Return the JSON of a process's last line, or {"stopped": reason} where it failed."""
        child = subprocess.Popen(
            [str(part) for part in what],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **THREADS},
        )
        try:
            stdout, stderr = child.communicate()
        except BaseException:
            child.kill()
            child.communicate()
            raise
        if child.returncode == -signal.SIGXCPU:
            return {"stopped": f"{store.NOT_DONE}{limit:,} CPU s"}
        if child.returncode < 0:
            raise Stopped(f"{what[1]} was ended by {signal.Signals(-child.returncode).name}.")
        if child.returncode:
            return {"stopped": (stderr.strip().splitlines() or ["failed"])[-1][:200]}
        return json.loads(stdout.splitlines()[-1])

    def peer_python(self, system: System) -> Path | None:
        """Return the interpreter of a peer's environment, which is made first where it is not there."""
        package = system.package
        place = PEERS / re.sub(r"[^A-Za-z0-9.]+", "-", package)
        python, mark = place / "bin" / "python", place / "installed"
        if not mark.exists():
            pip = [python, "-m", "pip", "install", "--quiet"]
            steps: list[list] = [[python_of(system.python), "-m", "venv", place]]
            if system.requirements:
                steps += [[*pip, *system.requirements], [*pip, "--no-deps", package]]
            else:
                steps += [[*pip, package]]
            if not all(run_succeeds(step) for step in steps):
                self._without.add(package)
                print(f"{package} did not install: its runs are left out.", flush=True)
                return None
            mark.touch()
        return python


def independent_columns(folder: Path) -> Path:
    """Write the private rows, with each column in an order of its own, and return the path."""
    rows, rng = pd.read_csv(folder / "train.csv"), np.random.default_rng(0)
    shuffled = pd.DataFrame({c: rows[c].to_numpy()[rng.permutation(len(rows))] for c in rows})
    path = folder / "shuffled.csv"
    shuffled.to_csv(path, index=False)
    return path


def python_of(version: str) -> str:
    """Return the command of a Python of that version; "" is the one that runs this."""
    return f"python{version}" if version else sys.executable


def run_succeeds(command: list) -> bool:
    """Return whether a command is there and ends with exit code 0."""
    try:
        return not subprocess.run([str(part) for part in command], capture_output=True).returncode
    except OSError:
        return False


def means_of(score: dict) -> dict:
    """Return the figures of a row, without those of each column."""
    return {name: value for name, value in score.items() if not isinstance(value, dict)}


def prepare(config: Config, table: str, folder: Path) -> None:
    """Write the split of a table as category codes, and its public sizes."""
    schema, *parts = config.tables[table].split()
    encoder = TableEncoder(schema)
    for name, rows in zip(("train", "test"), parts, strict=True):
        codes = pd.DataFrame(encoder.to_index(rows), columns=schema.names)
        codes.to_csv(folder / f"{name}.csv", index=False)
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    (folder / "sizes.json").write_text(json.dumps(sizes))
