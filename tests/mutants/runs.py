"""One run of pytest on a copy of the code, in a fork of a process that has imported what takes long."""

import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

QUICK, WHOLE = 600, 3600  # seconds that a run may take, of the expected tests and of all
# What our code and tests import of others: once, here. Nothing of ours, which each run has its own copy of.
OTHERS = """
torch opacus.accountants opacus.grad_sample numpy pandas pyarrow.parquet scipy.stats scipy.integrate
scipy.optimize scipy.special sklearn.base sklearn.linear_model sklearn.ensemble sklearn.metrics
category_encoders safetensors.torch narwhals rich.console rich.progress jinja2 mpmath dp_accounting
dp_accounting.pld.privacy_loss_distribution dp_accounting.rdp hypothesis.strategies pytest _pytest.runner
typer.testing torch._dynamo matplotlib.pyplot cryptography.hazmat.primitives.serialization polars duckdb
"""
# Code that dies of these outside of the tests is a slip of the mutant's author: nobody noticed a mistake.
SLIPS = (
    "AttributeError",
    "ImportError",
    "IndexError",
    "KeyError",
    "ModuleNotFoundError",
    "NameError",
    "RecursionError",
    "TypeError",
    "UnboundLocalError",
)


def warm_up() -> None:
    """Import what is slow to import; none of it starts threads before it is used."""
    for name in OTHERS.split():
        try:
            importlib.import_module(name)
        except ImportError:  # then the tests that want it will say so
            continue
    assert not any(name.split(".")[0] == "tabsynth" for name in sys.modules)
    from hypothesis import Phase, settings

    # The same examples every time; and a failure is a failure, however large the example.
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", derandomize=True, database=None, phases=phases)
    gc.collect()
    gc.freeze()  # no run visits what is imported here


class Watcher:
    """A plugin of pytest's: it notes the first failure, errors of collection, and the cases of a run that only collects."""

    def __init__(self) -> None:
        self.killer, self.why, self.broken = "", "", ""
        self.collected: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """After each phase of a test."""
        if report.failed and not self.killer:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.killer = report.nodeid
            self.why = str(crash.message if crash else report.longrepr).split("\n")[0][:300]
            if self.why.startswith(SLIPS) and not {"tests", "reports"} & {
                *Path(crash.path if crash else "").parts
            }:
                self.broken = f"{report.nodeid}: {self.why}"

    def pytest_collectreport(self, report: Any) -> None:
        """After each file is read."""
        if report.failed and not self.broken:
            self.broken = f"{report.nodeid}: {str(report.longrepr)[-300:]}"

    def pytest_collection_finish(self, session: Any) -> None:
        """Note the cases after all files are read."""
        if session.config.option.collectonly:
            self.collected = [item.nodeid for item in session.items]


class Run:
    """A started run; ``copy`` holds the code and the tests."""

    def __init__(self, copy: Path, arguments: list[str], limit: float) -> None:
        self.copy, self.limit, self.started = copy, limit, time.monotonic()
        self.code: int | None = None
        self.cpu = 0.0
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _pytest(copy, arguments)

    def ended(self) -> bool:
        """Whether it has; kills it past its limit."""
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            if time.monotonic() - self.started > self.limit:
                self.kill()
            return False
        self.cpu = usage.ru_utime + usage.ru_stime
        self.code = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - self.started
        return True

    def kill(self) -> None:
        """End it, and what it started."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self.pid, signal.SIGKILL)  # it has not made its group yet

    def result(self) -> dict[str, Any]:
        """``code``: pytest's; ``killer`` and ``why``: the first test that failed; ``broken``: else."""
        path, log = self.copy / "result.json", self.copy / "log.txt"
        if path.exists():
            actual = json.loads(path.read_text())
        else:
            said = log.read_text(errors="replace")[-500:] if log.exists() else ""
            broken = f"it was killed or ran too long ({self.code}): {said}"
            actual = {"code": self.code, "killer": "", "why": "", "broken": broken, "collected": []}
        return {**actual, "seconds": self.seconds, "cpu": self.cpu}


def _pytest(copy: Path, arguments: list[str]) -> None:
    """In the fork: never returns."""
    code = 70
    try:
        os.setsid()
        log = os.open(copy / "log.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(copy)
        os.environ["PYTHONPATH"] = str(copy)  # for the commands that tests run
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False  # the copy of the gate is compiled once
        sys.path[:] = [
            str(copy),
            *(p for p in sys.path if p not in ("", str(Path(__file__).parent))),
        ]
        # What tests start by multiprocessing imports our main module anew, and that is the gate.
        sys.modules["__main__"] = ModuleType("__main__")
        import pytest

        watcher = Watcher()
        plugins = ["-p", "no:xdist", "-p", "no:anyio", "--hypothesis-profile=mutants"]
        options = ["--tb=short", *plugins, f"--basetemp={copy}/tmp"]
        code = int(pytest.main([*arguments, *options], [watcher]))
        import tabsynth

        home = Path(str(tabsynth.__file__)).resolve()
        if not home.is_relative_to(copy.resolve()):
            watcher.broken = f"{home} was tested, not the copy"
        if code not in (0, 1) and not watcher.broken:
            watcher.broken = f"pytest ended with {code}: {Path('log.txt').read_text()[-300:]}"
        (copy / "result.json").write_text(json.dumps({"code": code, **vars(watcher)}))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
