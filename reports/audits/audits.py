"""Audits of every method: ``python reports/audits/audits.py [--minutes M]`` writes audits.json beside it.

Audits that are missing or stale (:mod:`evidence`) are measured; those of the current code are kept, unless ``--again`` is
given, and so are the black-box audits of release 0.2, whose sources have their program. Names after the options select audits.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import evidence
import torch
from evidence import AUDITS, CURRENT, FORMER

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "audit"))
import domain_inference
from record_replay.units import as_unit, census_neighbouring_datasets

import tabsynth
from tabsynth._files import write_text
from tabsynth.auditing.canaries import audit_gan
from tabsynth.auditing.canary_counts import audit_counts
from tabsynth.auditing.canary_votes import audit_votes
from tabsynth.auditing.fixtures import find_fixture
from tabsynth.auditing.outcomes import AuditResult
from tabsynth.auditing.request import AuditRequest
from tabsynth.synthesizers.estimator import LINKED, METHODS
from tabsynth.training.loop import Progress

DELTA = 1e-5
UNIT_ROWS = 3  # of a unit, whose canary has two more
OF_UNITS = f"unit of {UNIT_ROWS} rows"
TARGET_ROWS, TARGET, OF_TARGET = 200, "EDU", "target"  # of the census table, beside the canary
FIXTURES = {method: find_fixture(method) for method in (*METHODS, *LINKED)}
WHITE = {
    **{"margnet": 4000, "linked-margnet": 2000, "dp-wgan": 20_000, "dp-gan": 20_000},
    **{"pate-gan": 10_000, "pate-acgan": 10_000},
}
# Expected seconds of an audit of which no time is known.
SECONDS = {"white-box": 15.0, "domain-inference": 150.0}


def jobs(progress: Progress | None = None) -> dict[str, Callable[[], list[AuditResult]]]:
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
    for alone in (False, True):
        for question in domain_inference.QUESTIONS:
            name = f"domain-inference {question} 1{' alone' * alone}"
            out[name] = lambda q=question, a=alone: [
                domain_inference.audit_draft(q, 1.0, DELTA, alone=a, progress=progress)
            ]
    return out


def missing(record: dict[str, Any]) -> list[str]:
    """Return the audits that the record does not have."""
    return [name for name in jobs() if name not in AUDITS.rows(record)]


def _about(what: str, audit: Callable[[], list[AuditResult]]) -> list[AuditResult]:
    """Return the results of an audit, whose parts say what it is about."""
    return [replace(result, part=f"{result.part}, {what}") for result in audit()]


def main() -> None:
    """Measure what is missing or stale."""
    parser = evidence.parser_of(AUDITS, __doc__)
    parser.add_argument("names", nargs="*", help="parts of names; all if none")
    options = parser.parse_args()
    torch.set_num_threads(1)
    module_hashes = evidence.ModuleHashes(Path(tabsynth.__file__).parent)
    clock = evidence.Clock("audits", options.minutes)

    def progress(stage: str, done: int, total: int | None) -> None:
        clock.show(done / total if total else 0.0)

    measured = jobs(progress)
    record = evidence.read(options.out)
    rows, absent = AUDITS.rows(record), missing(record)
    remaining = {
        name: rows.get(name, {}).get("cpu_seconds") or SECONDS[name.split()[0]]
        for name in measured
        if not options.names or any(part in name for part in options.names)
        if options.again
        or name in absent
        or evidence.state(record, rows.get(name, {}), module_hashes.before) != CURRENT
    }
    for name in clock.each(remaining):
        started = time.process_time()
        results = [result.to_dict() for result in measured[name]()]
        row = {"cpu_seconds": round(time.process_time() - started, 1), "results": results}
        record = evidence.read(options.out)  # another process may have added to it
        evidence.set_modules(record, row, module_hashes.of(evidence.imported_modules()))
        rows = {**AUDITS.rows(record), name: row}
        former = [name for name in rows if name.startswith(FORMER)]
        record["audits"] = {name: rows[name] for name in (*measured, *former) if name in rows}
        write_text(options.out, evidence.text_of(AUDITS, record), overwrite=True)
        evidence.clear_line()
        for result in results:
            print(f"{name}, {result['part']}: {result['sentence']}", flush=True)
    print(evidence.sentence(AUDITS, record, module_hashes.before))


if __name__ == "__main__":
    main()
