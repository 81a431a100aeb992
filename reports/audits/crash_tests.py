"""Kill -9 at random points of a fit: the ledger that is left never shows less spent than was used (R7).

    python reports/audits/crash_tests.py [--minutes M]  # 320 points, some CPU minutes; writes crash_tests.json

The points of one method in one way are a row, which is written when all of them are measured. Rows that are missing
or stale (:mod:`evidence`) are measured, so that an interrupted run can be resumed.

Each point is a fit of a small made-up table in a process of its own, which is killed (SIGKILL): half of them
by its parent after a time drawn uniformly from the length of a whole fit; half by itself, before or after
the ledger's answer to one of its spends, drawn uniformly from all of them. The process notes each spend in
a log of its own, after the ledger has it on the disk and before the row is read; a write to a file
outlives the process. Then: what the ledger on the disk says is held against that log; the fit goes on to
its end, or, without a checkpoint, is made again under the same ledger; and what was spent in all is
held against the plan, use by use.

Methods: all that are registered, as ``full_batches`` of their audit fixtures makes them: margnet (three counts),
dp-wgan (counts, autoencoder, critic), dp-gan (counts, critic), pate-gan (counts, votes), pate-acgan by networks
(counts, and two accounts of votes a round), linked-margnet (nine counts, of three tables). Some are fitted under a unit
of several rows besides. Ways: a checkpoint; a project's ledger; both.
"""

import json
import math
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import evidence
import numpy as np
import pandas as pd
import torch
from evidence import CRASH_TESTS, CURRENT

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from systems import SYSTEMS
from systems.form import with_unit

import tabsynth
from tabsynth import BudgetError, Schema
from tabsynth._files import write_text
from tabsynth.auditing import linked_datasets
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.accounting.accountants import epsilon_of, gaussian_delta
from tabsynth.privacy.ledger import ledger as ledgers
from tabsynth.privacy.ledger.journal import Entry, Journal
from tabsynth.privacy.ledger.ledger import Account, Ledger
from tabsynth.schema import Column
from tabsynth.synthesizers.estimator import LINKED, METHODS, Synthesizer
from tabsynth.training.checkpoint import EARLIER

POINTS, JOBS = 320, 2
SECONDS = 10.0  # expected of a row of which no time is known
BLOCKS = 8  # so that steps of these small fits are reserved several at a time, as those of large ones are
EPSILON, DELTA = 3.0, 1e-5
LIMIT = 6.0  # of the project: the killed fit and one more
CHECKPOINT, LEDGER, BOTH = "checkpoint", "ledger", "checkpoint and ledger"
WAYS = (CHECKPOINT, LEDGER, BOTH)
BY_TIME, BY_SPEND = "time", "spend"
# What became of the fit: it went on; by a new plan, for counts that were paid were lost; it had too little
# left for that, and said so; without a checkpoint it was made again.
RESUMED, PLANNED_AGAIN, REFUSED, AGAIN = "resumed", "planned again", "refused", "made again"
SCHEMA = Schema(
    [
        Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
        Column(name="age", kind="numeric", dtype="int64", low=0, high=99, bins=10),
        Column(name="job", kind="ordinal", dtype="int64", categories=(1, 2, 3)),
        Column(name="ill", kind="ordinal", dtype="bool", categories=(False, True)),
    ]
)


WITH_UNITS, UNIT_ROWS = " with units", 2  # of which the table has three rows each
# What is fitted, and its method: every method, and some of them under a unit of several rows.
SUBJECTS = {method: method for method in (*METHODS, *LINKED)} | {
    f"{method}{WITH_UNITS}": method for method in ("margnet", "pate-gan")
}


def make_model(subject: str) -> Synthesizer:
    """Return the small model that is killed, with every mechanism of the method."""
    method = SUBJECTS[subject]
    schema = linked_datasets.SCHEMA if method in LINKED else SCHEMA
    if subject.endswith(WITH_UNITS):
        schema = with_unit(SCHEMA, UNIT_ROWS)
    parameters = SYSTEMS[method].full_batches(schema)
    estimator = (LINKED if method in LINKED else METHODS)[method]
    return estimator(schema, epsilon=EPSILON, delta=DELTA, **parameters)


def people(subject: str, rows: int = 200) -> Any:
    """Return the table, or the linked tables, that are fitted."""
    if SUBJECTS[subject] in LINKED:
        return linked_datasets.make_tables(0, rows)
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            **({"unit": np.arange(rows) // 3} if subject.endswith(WITH_UNITS) else {}),
            "sex": rng.choice(["f", "m"], rows),
            "age": rng.integers(0, 100, rows),
            "job": rng.integers(1, 4, rows),
            "ill": rng.random(rows) < 0.3,
        }
    )


# The fit that is killed.


def fit(folder: str, method: str, way: str, at: float, pipe: Any) -> None:
    """Fit in this process; at spend number ``at`` (half: after the ledger's answer) it kills itself."""
    torch.set_num_threads(1)
    place, spends = Path(folder), 0
    log = os.open(place / "used", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    real = Ledger.spend

    def spend(ledger: Ledger, account: Account, uses: int = 1) -> None:
        nonlocal spends
        if account.number is None:  # not of private rows
            return real(ledger, account, uses)
        spends += 1
        if spends == at:
            os.kill(os.getpid(), signal.SIGKILL)
        real(ledger, account, uses)
        os.write(log, (json.dumps([ledger.run, account.purpose, uses]) + "\n").encode())
        if spends == at - 0.5:
            os.kill(os.getpid(), signal.SIGKILL)

    Ledger.spend, ledgers.BLOCKS = spend, BLOCKS  # type: ignore[method-assign]
    model, table = make_model(method), people(method)
    where: dict[str, Any] = {}
    if way != LEDGER:
        where["checkpoint"] = place / "checkpoint"
    if way != CHECKPOINT:
        where["ledger"] = place / "project.ledger"
    started = time.monotonic()
    pipe.send("started")
    try:
        model.fit(table, **where)
    except BudgetError as error:
        pipe.send({"refused": str(error), "modules": evidence.imported_modules()})
        return
    seconds = time.monotonic() - started
    assert model.certificate()["training"]["stopped"] is None
    facts = {"seconds": seconds, "spends": spends, "run": model.ledger_.run}
    pipe.send({**facts, "modules": evidence.imported_modules()})


def start(folder: Path, method: str, way: str, at: float = 0) -> tuple[Any, Any]:
    """Start a fit in a process of its own, and return the process and its pipe."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=fit, args=(str(folder), method, way, at, theirs))
    with STARTING:  # the fork server takes one at a time
        process.start()
    theirs.close()
    if ours.recv() != "started":
        raise AssertionError("the process sent something else first")
    return process, ours


STARTING = threading.Lock()
CONTEXT = multiprocessing.get_context("forkserver")


def whole(folder: Path, method: str, way: str) -> dict[str, Any]:
    """Run a fit, or resume one, to its end and return what its process sent."""
    process, pipe = start(folder, method, way)
    last = dict(pipe.recv())
    process.join()
    assert process.exitcode == 0, f"{method}, {way}: the fit ended with {process.exitcode}"
    return last


def prepare_folder(folder: Path, subject: str, way: str) -> Path:
    """Make the folder of a fit, with a project ledger where the way has one."""
    folder.mkdir()
    if way != CHECKPOINT:
        unit = make_model(subject).schema.unit
        ProjectLedger.create(folder / "project.ledger", epsilon=LIMIT, delta=DELTA, unit=unit)
    return folder


# What the ledger and the log say.


def on_disk(folder: Path, way: str) -> list[Entry]:
    """Return the accounts that the file has."""
    if way != CHECKPOINT:
        return list(ProjectLedger.read(folder / "project.ledger").entries.values())
    path = folder / "checkpoint" / "ledger.jsonl"
    if not path.exists():
        return []
    journal = Journal(path, EPSILON, DELTA)
    journal.release()
    return list(journal.entries.values())


def logged_uses(folder: Path) -> Counter[tuple[str, str]]:
    """Return the uses of private rows by run and purpose, in all processes so far."""
    result: Counter[tuple[str, str]] = Counter()
    lines = (folder / "used").read_text().splitlines() if (folder / "used").exists() else []
    for line in lines:
        run, purpose, uses = json.loads(line)
        result[run, purpose] += uses
    return result


def spent(entries: list[Entry]) -> Counter[tuple[str, str]]:
    """Return the charged uses by run and purpose."""
    result: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        result[entry.run, entry.purpose] += entry.spent
    return result


def within(entries: list[Entry], limit: float) -> None:
    """Check that the charges keep the limit, by the accountant and, where all is Gaussian, by the closed form."""
    spends = [(e.mechanism, e.spent) for e in entries if e.spent]
    assert epsilon_of(spends, DELTA) <= limit * (1 + 1e-6)
    if spends and all(m.name == "gaussian" for m, _ in spends):
        squared = sum(count / m.noise_multiplier**2 for m, count in spends)  # type: ignore[union-attr]
        assert gaussian_delta(math.sqrt(squared), limit) <= DELTA * (1 + 1e-6)


def halves(folder: Path, entry: Entry) -> int:
    """Return what one kill may leave of an account: uses of a round whose other account was charged already.

    A round of networks asks its votes, then its class votes. After a kill between them the fit goes on with
    the next round: less is spent than was planned, and nothing twice.
    """
    if entry.purpose != "class votes":
        return 0
    rounds = map(json.loads, (folder / "used").read_text().splitlines())
    return max(uses for run, purpose, uses in rounds if (run, purpose) == (entry.run, "votes"))


@dataclass(frozen=True)
class Point:
    """A kill: what it lost, and whether the fit had to be planned again after it."""

    method: str
    way: str
    by: str
    killed_after: int  # uses
    lost: int  # uses that the ledger counts, and that did not take place
    outcome: str


def judge(folder: Path, method: str, way: str, by: str) -> Point:
    """Hold what the kill left against the log; go on to the end; hold the sum against the plan."""
    entries, before = on_disk(folder, way), logged_uses(folder)
    reserved = spent(entries)
    for key, count in before.items():
        assert reserved[key] >= count, (
            f"{method}, {way}, {key}: {count} used, {reserved[key]} spent"
        )
    within(entries, EPSILON)
    lost = reserved - before

    last = whole(folder, method, way)
    entries, after, run = on_disk(folder, way), logged_uses(folder), last.get("run")
    final = spent(entries)
    within(entries, LIMIT if way == LEDGER else EPSILON)
    name = f"{method}, {way}"
    if (
        run is None
    ):  # the kill lost counts that were nearly all of the budget: refused, and no more is spent
        assert way != LEDGER and "A crash lost" in last["refused"], f"{name}: {last['refused']}"
        assert final == reserved and after == before, f"{name}: refused, and yet more is spent"
        return Point(method, way, by, sum(before.values()), sum(lost.values()), REFUSED)
    ended_runs = {e.run for e in entries} - {run, EARLIER}  # runs that the kill ended
    for entry in entries:
        assert entry.spent <= entry.granted
        if entry.run == run:  # the plan, whole: neither more nor less
            remaining = entry.granted - entry.spent
            assert entry.closed and remaining in (0, halves(folder, entry)), (
                f"{name}: {entry} is left"
            )
    for key in final | after:
        # All that was spent was used, or was lost in the kill; and nothing of a run that it ended since.
        assert final[key] == after[key] + lost[key], f"{name}, {key}: spent twice, or forgotten"
        assert key[0] == run or final[key] == reserved[key]
    plan = Counter({e.purpose: e.granted for e in entries if e.run == run})
    planned = Counter(
        {s.purpose: s.count for s in make_model(method).plan(estimate_time=False).spends}
    )
    assert plan == planned, f"{name}: {plan} was granted, {planned} planned"
    within([e for e in entries if way != LEDGER or e.run == run], EPSILON)
    outcome = AGAIN if way == LEDGER else PLANNED_AGAIN if ended_runs else RESUMED
    return Point(method, way, by, sum(before.values()), sum(lost.values()), outcome)


def point(folder: Path, method: str, way: str, by: str, scale: dict[str, Any]) -> Point:
    """Kill one fit, and judge what it leaves; one that ends before its time is made again."""
    for attempt in range(100):
        place = prepare_folder(folder / str(attempt), method, way)
        at = random.randint(1, scale["spends"]) + random.choice([0, 0.5]) if by == BY_SPEND else 0
        process, pipe = start(place, method, way, at)
        if by == BY_TIME:
            time.sleep(random.uniform(0, scale["seconds"]))
            process.kill()
        process.join()
        pipe.close()
        if process.exitcode == -signal.SIGKILL:
            return judge(place, method, way, by)
        # It came to its end before its time; 255: and then the fork server lost its status.
        assert process.exitcode in (0, 255), f"{method}, {way}: it ended with {process.exitcode}"
    raise AssertionError(f"{method}, {way}: no fit of 100 was killed in time")


# All of it.


def dealt() -> dict[tuple[str, str], list[str]]:
    """Return the kinds of the points of every method and way; the points are dealt out evenly."""
    kinds = [(m, w, by) for by in (BY_SPEND, BY_TIME) for m in SUBJECTS for w in WAYS]
    results: dict[tuple[str, str], list[str]] = {}
    for i in range(POINTS):
        method, way, by = kinds[i % len(kinds)]
        results.setdefault((method, way), []).append(by)
    return results


def run(method: str, way: str, kinds: list[str]) -> dict[str, Any]:
    """Measure the points of one row; AssertionError at the first that is not sound.

    Returns
    -------
    dict
        The row, and under ``"imported"`` the names of the modules that it depends on: those that this process
        has imported and those that an uninterrupted fit imports.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(JOBS) as pool:
        place = Path(folder)
        scale = whole(prepare_folder(place / "whole", method, way), method, way)

        def one(job: tuple[int, str]) -> Point:
            number, by = job
            (place / str(number)).mkdir()
            return point(place / str(number), method, way, by, scale)

        result = list(pool.map(one, enumerate(kinds)))
    return {
        "points": len(result),
        "sound": len(result),
        "killed_by": dict(Counter(p.by for p in result)),
        "lost_uses_max": max(p.lost for p in result),
        "lost_uses_mean": round(float(np.mean([p.lost for p in result])), 2),
        "uses_before_the_kill_max": max(p.killed_after for p in result),
        "outcomes": dict(Counter(p.outcome for p in result)),
        "seconds": round(time.monotonic() - started, 1),
        "imported": sorted({*evidence.imported_modules(), *scale["modules"]}),
    }


def together(record: dict[str, Any], rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the record with these rows, in the order of methods and ways, and with the sums over all rows."""
    table = {
        method: {way: rows[f"{method}, {way}"] for way in WAYS if f"{method}, {way}" in rows}
        for method in SUBJECTS
    }
    every = [cell for ways in table.values() for cell in ways.values()]
    return {
        "points": sum(cell["points"] for cell in every),
        "sound": sum(cell["sound"] for cell in every),
        "epsilon": EPSILON,
        "delta": DELTA,
        "limit_of_the_project": LIMIT,
        "modules": record.get("modules", {}),
        "by_method": table,
    }


def missing(record: dict[str, Any]) -> list[str]:
    """Return the rows that the record does not have, or has with another number of points."""
    rows = CRASH_TESTS.rows(record)
    return [
        f"{method}, {way}"
        for (method, way), kinds in dealt().items()
        if rows.get(f"{method}, {way}", {}).get("points") != len(kinds)
    ]


def main() -> None:
    """Measure what is missing or stale."""
    parser = evidence.parser_of(CRASH_TESTS, __doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose names begin so")
    options = parser.parse_args()
    CONTEXT.set_forkserver_preload(["tabsynth.synthesizers", "opacus.accountants", "torch._dynamo"])
    module_hashes = evidence.ModuleHashes(Path(tabsynth.__file__).parent)
    record = evidence.read(options.out)
    rows, absent = CRASH_TESTS.rows(record), missing(record)
    remaining = {
        (method, way): rows.get(name, {}).get("seconds", SECONDS)
        for method, way in dealt()
        if (name := f"{method}, {way}").startswith(options.only)
        if options.again
        or name in absent
        or evidence.state(record, rows[name], module_hashes.before) != CURRENT
    }
    for method, way in evidence.Clock("crash tests", options.minutes).each(remaining):
        row = run(method, way, dealt()[method, way])
        modules = module_hashes.of(row.pop("imported"))
        evidence.clear_line()
        print(f"{method}, {way}: {json.dumps(row)}", flush=True)
        record = evidence.read(options.out)  # another process may have added to it
        evidence.set_modules(record, row, modules)
        record = together(record, {**CRASH_TESTS.rows(record), f"{method}, {way}": row})
        write_text(options.out, evidence.text_of(CRASH_TESTS, record), overwrite=True)
    print(evidence.sentence(CRASH_TESTS, record, module_hashes.before))


if __name__ == "__main__":
    main()
