"""The mutation gate: the tests must fail on every known mistake. ``make mutants``, or this file.

For each mutant the code is copied, the mistake made, and the tests that should notice it are run on the
copy; where they do not, all tests are. Then the tests that noticed one are run on the code as it is. Each
run is a fork of one process that has torch and its like imported already, and nothing of ours; its copy
comes from one that is compiled already. A survivor is a missing test: the exit code is 1.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "CI": "1"}  # the same examples every time

from patches import PACKAGE, ROOT, DoesNotApply, Mutant, mutants, there
from record import RECORD, write_record
from runs import QUICK, WHOLE, Run, warm_up

KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"
PASSED, FAILED = "passed", "FAILED"
TESTS = ("tests", "reports")  # folders that have tests
OUR_OWN = "tests/test_mutants.py"  # it fails on every mutant by design
UNCHANGED = "(unchanged)"
PLAIN = "--assert=plain"  # nobody reads in what two long lists differ


@dataclass
class Job:
    """A mutant, and how far the gate is with it."""

    mutant: Mutant | None
    tests: Sequence[str]
    result: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    cpu: float = 0.0
    whole: bool = False  # all tests, for those expected have not noticed
    part: str = ""  # of the tests that are run on the unchanged code

    @property
    def name(self) -> str:
        return self.mutant.name if self.mutant else f"{UNCHANGED}{self.part}"


class Gate:
    """Runs jobs, ``workers`` at a time, and keeps their results in a file until all are done."""

    def __init__(self, folder: Path, kept: Path, workers: int, expected_only: bool) -> None:
        self.folder, self.kept, self.workers = folder, kept, workers
        self.expected_only, self.in_parts = expected_only, False
        self.results: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
        self.started = time.monotonic()
        self.unchanged = folder / "unchanged"

    def prepare(self, tests: list[str]) -> set[str]:
        """Copy the code once, and compile it and these tests there, so that no run has to do either.

        Returns the names of all cases of these tests.
        """
        self.unchanged.mkdir()
        _copy(ROOT, self.unchanged, shutil.copy2)
        run = Run(self.unchanged, [*tests, "--collect-only", PLAIN], WHOLE)
        while not run.ended():
            time.sleep(0.02)
        result = run.result()
        if result["broken"]:
            raise SystemExit(f"the tests cannot be collected: {result['broken']}")
        return set(result["collected"])

    def run(self, jobs: list[Job]) -> None:
        """All jobs; a result that is kept from an interrupted gate of the same code stands."""
        stand = {name for name, r in self.results.items() if r["outcome"] == KILLED}
        left = [job for job in jobs if job.name not in stand]
        if len(left) < len(jobs):
            print(f"{len(jobs) - len(left)} results of an earlier, interrupted gate stand")
            self.in_parts = True
        waiting, running, total = list(left), dict[int, tuple[Job, Run]](), len(left)
        done = 0
        try:
            while waiting or running:
                while waiting and len(running) < self.workers:
                    job = waiting.pop(0)
                    run = self._start(job)
                    running[run.pid] = job, run
                for pid, (job, run) in list(running.items()):
                    if not run.ended():
                        continue
                    del running[pid]
                    if self._again(job, run):
                        waiting.insert(0, job)
                        continue
                    done += 1
                    self._tell(job, done, total)
                time.sleep(0.02)
        finally:
            for _, run in running.values():
                run.kill()

    def _start(self, job: Job) -> Run:
        copy = Path(tempfile.mkdtemp(prefix=f"{job.name}-", dir=self.folder))
        _copy(self.unchanged, copy, os.link)  # linked files are replaced and never written to
        for file, text in (job.mutant.applied(ROOT) if job.mutant else {}).items():
            path = copy / file
            for linked in (path, *(path.parent / "__pycache__").glob(f"{path.stem}.*")):
                linked.unlink()
            path.write_text(text, encoding="utf-8")
        arguments = list(job.tests)
        if job.whole:
            arguments = [*TESTS, f"--ignore={OUR_OWN}"]
        if job.mutant:
            arguments += ["-x", "--keep-duplicates", PLAIN]  # a case may be named before its test
        return Run(copy, arguments, QUICK if job.mutant and not job.whole else WHOLE)

    def _again(self, job: Job, run: Run) -> bool:
        """Take a run's result; True if the job is to run once more, on all tests."""
        result = run.result()
        job.seconds += result["seconds"]
        job.cpu += result["cpu"]
        shutil.rmtree(run.copy, ignore_errors=True)
        outcome = KILLED if result["killer"] else SURVIVED
        if result["broken"] or (outcome == SURVIVED and result["code"] != 0):
            outcome = BROKEN
        if not job.mutant:
            outcome = PASSED if outcome == SURVIVED else FAILED
        elif outcome == SURVIVED and not job.whole and not self.expected_only:
            print(f"  {job.name}: not noticed by {', '.join(job.tests)}; all tests now", flush=True)
            job.whole = True
            return True
        job.result = {
            "outcome": outcome,
            "killer": result["killer"],
            "why": result["broken"] or result["why"],
            "expected": not job.whole,
            "seconds": round(job.seconds, 1),
            "cpu_seconds": round(job.cpu, 1),
        }
        self.results[job.name] = job.result
        _write(self.kept, self.results)
        return False

    def _tell(self, job: Job, done: int, total: int) -> None:
        left = (time.monotonic() - self.started) / done * (total - done)
        text, by = job.result, f" by {job.result['killer']}" if job.result["killer"] else ""
        print(
            f"[{done}/{total}] {job.name}: {text['outcome']}{by} ({text['seconds']} s);"
            f" {int(left // 60)}:{int(left % 60):02d} left",
            flush=True,
        )
        if text["outcome"] in (BROKEN, FAILED):
            print(f"    {text['why']}", flush=True)


def _copy(folder: Path, copy: Path, copy_file: Callable[[str, str], object]) -> None:
    """Fill a new folder with the code and the tests of another one, and with links to all other files."""
    copy_file(str(folder / "conftest.py"), str(copy / "conftest.py"))
    for name in (PACKAGE, *TESTS):
        shutil.copytree(folder / name, copy / name, copy_function=copy_file)
    for path in ROOT.iterdir():
        if not path.name.startswith(".") and not (copy / path.name).exists():
            (copy / path.name).symlink_to(path)


def _write(path: Path, value: Any) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    os.replace(temporary, path)


def _fingerprint(options: Sequence[str]) -> str:
    """Of the code, the tests and the mutants: results of others do not stand."""
    digest = hashlib.sha256(repr((str(ROOT), sorted(options))).encode())
    for folder in (PACKAGE, *TESTS):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".pyi", ".toml", ".css", ".html"):
                digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _applying(chosen: list[Mutant]) -> None:
    """Refuse at once if any mutant does not apply."""
    wrong = []
    for mutant in chosen:
        try:
            mutant.applied(ROOT)
        except DoesNotApply as error:
            wrong.append(str(error))
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        raise SystemExit(2)


def _jobs(chosen: list[Mutant]) -> list[Job]:
    """Return a job for each mutant."""
    jobs = []
    for mutant in chosen:
        tests = [test for test in mutant.tests if there(test)]
        for test in set(mutant.tests) - set(tests):
            print(f"{mutant.name} expects {test}, which is not there", flush=True)
        jobs.append(Job(mutant, tests, whole=not tests))
    return jobs


def _put_last_killers_first(jobs: list[Job], cases: set[str]) -> None:
    """Let a mutant meet the case first that noticed it when the gate ran last, if that is among ``cases``."""
    last = json.loads(RECORD.read_text())["mutants"] if RECORD.exists() else {}
    for job in jobs:
        killer = last.get(job.name, {}).get("killer", "")
        if killer in cases and killer.partition("[")[0] in {t.partition("[")[0] for t in job.tests}:
            job.tests = [killer, *job.tests]


def _unchanged_jobs(results: dict[str, Any], workers: int) -> list[Job]:
    """Return jobs of the tests that noticed a mutant, on the code as it is; those of a file stay together."""
    killers = sorted({r["killer"] for r in results.values() if r["killer"]})
    files = list(dict.fromkeys(killer.partition("::")[0] for killer in killers))
    parts = [
        [killer for killer in killers if killer.partition("::")[0] in files[part::workers]]
        for part in range(workers)
    ]
    return [Job(None, tests, part=f", part {n}") for n, tests in enumerate(parts, 1) if tests]


def main() -> int:
    """The command; see ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="names, or parts of them"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--expected-only", action="store_true", help="never run all tests")
    parser.add_argument(
        "--fresh", action="store_true", help="take nothing from an interrupted gate"
    )
    options = parser.parse_args()
    chosen = mutants(options.only)
    if not chosen:
        parser.error(f"no mutant is named like {options.only}")
    _applying(chosen)
    kept = Path(tempfile.gettempdir()) / f"tabsynth-mutants-{_fingerprint(options.only)}.json"
    if options.fresh:
        kept.unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    warm_up()
    with tempfile.TemporaryDirectory(prefix="tabsynth-mutants-") as folder:
        gate = Gate(Path(folder), kept, options.workers, options.expected_only)
        jobs = _jobs(chosen)
        cases = gate.prepare(sorted({t.partition("::")[0] for job in jobs for t in job.tests}))
        _put_last_killers_first(jobs, cases)
        gate.run(jobs)
        gate.run(_unchanged_jobs(gate.results, options.workers))
    results, wall = gate.results, time.monotonic() - gate.started
    bad = [name for name, r in results.items() if r["outcome"] not in (KILLED, PASSED)]
    if not options.only:
        cost = "in parts" if gate.in_parts else f"{wall:.0f} s"
        write_record(
            chosen, results, f"{cost}, {options.workers} at a time on {os.cpu_count()} cores"
        )
    killed = sum(r["outcome"] == KILLED for r in results.values())
    spared = f"; NOT: {', '.join(bad)}" if bad else ""
    print(f"{killed} of {len(chosen)} killed in {wall:.0f} s{spared}")
    kept.unlink(missing_ok=True)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
