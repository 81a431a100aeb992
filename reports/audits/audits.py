"""Audits of every method: ``python reports/audits/audits.py [--minutes M]`` writes audits.json beside it.

Audits that are missing or stale (:mod:`evidence`) are measured; those of the current code are kept, unless ``--again`` is
given. The fits of black-box audits are kept as they end (in ``--runs``, one file for each version of the code), so
that an audit can be interrupted at any time and resumed. Names after the options select audits.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import evidence
import torch
from evidence import AUDITS, CURRENT

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "audit"))
import domain_inference
from record_replay.units import as_unit

import tabsynth
from tabsynth._files import write_text
from tabsynth.auditing.blackbox import Setting, audit_black_box
from tabsynth.auditing.canaries import audit_gan
from tabsynth.auditing.canary_counts import audit_counts
from tabsynth.auditing.canary_votes import audit_votes
from tabsynth.auditing.fixtures import find_fixture
from tabsynth.auditing.neighbouring_datasets import census_neighbouring_datasets
from tabsynth.auditing.outcomes import AuditResult
from tabsynth.auditing.request import AuditRequest
from tabsynth.privacy.certificate.certificate import code
from tabsynth.synthesizers.estimator import LINKED, METHODS
from tabsynth.training.loop import Progress

HERE = Path(__file__).parent
DELTA = 1e-5
UNIT_ROWS = 3  # of a unit, whose canary has two more
OF_UNITS = f"unit of {UNIT_ROWS} rows"
TARGET_ROWS, TARGET, OF_TARGET = 200, "EDU", "target"  # of the census table, beside the canary
# Black-box fits take 0.22 CPU seconds (pate-gan), 0.24 (pate-acgan), 0.31 (margnet), 0.66 (dp-gan), 1.9 (dp-wgan). The
# numbers of runs are such that each audit takes about ten minutes at most.
FIXTURES = {method: find_fixture(method) for method in (*METHODS, *LINKED)}
WHITE = {
    **{"margnet": 4000, "linked-margnet": 2000, "dp-wgan": 20_000, "dp-gan": 20_000},
    **{"pate-gan": 10_000, "pate-acgan": 10_000},
}
BLACK = dict.fromkeys(FIXTURES, 1000) | {"dp-wgan": 140, "dp-gan": 400, "linked-margnet": 100}
BLACK_OF_UNITS = 300


# Expected seconds of an audit of which no time is known.
SECONDS = {"white-box": 15.0, "black-box": 700.0, "domain-inference": 150.0}


class TimeIsUp(Exception):
    """Raised between two fits of a black-box audit; the fits so far are kept."""


def jobs(
    runs: Path, black: int | None = None, progress: Progress | None = None
) -> dict[str, Callable[[], list[AuditResult]]]:
    """Return every audit by name, the quick ones first."""
    out: dict[str, Callable[[], list[AuditResult]]] = {}
    for epsilon in (8.0, 1.0):
        for method, fixture in FIXTURES.items():
            if fixture.white_box is not None:
                request = AuditRequest(
                    method=method, epsilon=epsilon, delta=DELTA, runs=WHITE[method]
                )
                out[f"white-box {method} {epsilon:g}"] = partial(fixture.white_box, request)
    out["white-box dp-wgan 8, rate 0.2"] = lambda: audit_gan(
        AuditRequest(method="dp-wgan", epsilon=8.0, delta=DELTA, runs=WHITE["dp-wgan"]), rate=0.2
    )
    of_target = AuditRequest(
        method="margnet",
        epsilon=8.0,
        delta=DELTA,
        runs=WHITE["margnet"],
        datasets=census_neighbouring_datasets(TARGET_ROWS),
    )
    audit = partial(audit_counts, of_target, target=TARGET)
    out[f"white-box margnet 8, {OF_TARGET}"] = partial(_about, OF_TARGET, audit)
    of_units = {"dp-wgan": 4, "dp-gan": 4, "margnet": 2, "pate-gan": 4, "pate-acgan": 4}
    audits = {"margnet": audit_counts, "dp-wgan": audit_gan, "dp-gan": audit_gan}
    for method, part in of_units.items():
        request = AuditRequest(
            method=method,
            epsilon=8.0,
            delta=DELTA,
            runs=WHITE[method] // part,
            datasets=as_unit(UNIT_ROWS),
        )
        of_method = audits.get(method, audit_votes)
        out[f"white-box {method} 8, {OF_UNITS}"] = partial(
            _about, OF_UNITS, partial(of_method, request)
        )

    def black_box(method: str, count: int, unit: bool = False) -> list[AuditResult]:
        about = f"{method}-units" if unit else method
        path = runs / f"black-box-{about}-{code()['sha256'][:12]}.jsonl"
        setting = Setting(method=method, epsilon=1.0, delta=DELTA)
        datasets = as_unit(UNIT_ROWS, setting.datasets()) if unit else None
        return [audit_black_box(setting, path, runs=count, datasets=datasets, progress=progress)]

    for method in FIXTURES:
        out[f"black-box {method} 1"] = partial(black_box, method, black or BLACK[method])
    count = black or BLACK_OF_UNITS
    of_unit = partial(black_box, "margnet", count, unit=True)
    out[f"black-box margnet 1, {OF_UNITS}"] = partial(_about, OF_UNITS, of_unit)
    for alone in (False, True):
        for question in domain_inference.QUESTIONS:
            name = f"domain-inference {question} 1{' alone' * alone}"
            out[name] = lambda q=question, a=alone: [
                domain_inference.audit_draft(q, 1.0, DELTA, alone=a, progress=progress)
            ]
    return out


def missing(record: dict[str, Any]) -> list[str]:
    """Return the audits that the record does not have, or has of fewer fits than are planned."""
    rows = AUDITS.rows(record)
    planned = {f"black-box {method} 1": count // 2 for method, count in BLACK.items()}
    planned[f"black-box margnet 1, {OF_UNITS}"] = BLACK_OF_UNITS // 2
    return [
        name
        for name in jobs(Path())
        if name not in rows or rows[name]["results"][0]["runs"] < planned.get(name, 0)
    ]


def _about(what: str, audit: Callable[[], list[AuditResult]]) -> list[AuditResult]:
    """Return the results of an audit, whose parts say what it is about."""
    return [replace(result, part=f"{result.part}, {what}") for result in audit()]


@contextmanager
def cpu_time(path: Path) -> Iterator[Callable[[], float]]:
    """Yield a function of the CPU seconds of a measurement, those of its interrupted parts included, which ``path`` keeps meanwhile."""
    earlier = float(path.read_text("utf-8")) if path.exists() else 0.0
    started = time.process_time()

    def spent() -> float:
        return earlier + time.process_time() - started

    try:
        yield spent
    except BaseException:
        path.write_text(f"{spent():.1f}", "utf-8")
        raise
    path.unlink(missing_ok=True)


def main() -> None:
    """Measure what is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, help="begin no audit or fit after so many minutes")
    parser.add_argument("--runs", type=Path, default=Path("build/audits"))
    parser.add_argument("--out", type=Path, default=HERE / "audits.json")
    parser.add_argument("--black", type=int, help="fits of each neighbour, of black-box audits")
    parser.add_argument("--again", action="store_true", help="measure current audits too")
    parser.add_argument("names", nargs="*", help="parts of names; all if none")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    module_hashes = evidence.ModuleHashes(Path(tabsynth.__file__).parent)
    clock = evidence.Clock("audits", options.minutes)

    def progress(stage: str, done: int, total: int | None) -> None:
        clock.show(done / total if total else 0.0)
        if clock.over:
            raise TimeIsUp

    measured = jobs(options.runs, options.black, progress)
    record = evidence.read(options.out)
    rows, absent = AUDITS.rows(record), [] if options.black else missing(record)
    remaining = {
        name: rows.get(name, {}).get("cpu_seconds") or SECONDS[name.split()[0]]
        for name in measured
        if not options.names or any(part in name for part in options.names)
        if options.again
        or name in absent
        or evidence.state(record, rows.get(name, {}), module_hashes.before) != CURRENT
    }
    for name in clock.each(remaining):
        place = options.runs / f"{name.replace(' ', '-')}-{code()['sha256'][:12]}.seconds"
        try:
            with cpu_time(place) as spent:
                results = [result.to_dict() for result in measured[name]()]
        except TimeIsUp:
            evidence.clear_line()
            print(f"{name}: the time is up; the same command goes on with the fits that are kept.")
            continue
        row = {"cpu_seconds": round(spent(), 1), "results": results}
        record = evidence.read(options.out)  # another process may have added to it
        evidence.set_modules(record, row, module_hashes.of(evidence.imported_modules()))
        rows = {**AUDITS.rows(record), name: row}
        record["audits"] = {name: rows[name] for name in measured if name in rows}
        write_text(options.out, evidence.text_of(AUDITS, record), overwrite=True)
        evidence.clear_line()
        for result in results:
            print(f"{name}, {result['part']}: {result['sentence']}", flush=True)
    print(evidence.sentence(AUDITS, record, module_hashes.before))


if __name__ == "__main__":
    main()
