"""Replays of a method as an audit: an artificial table, and all replays in one result."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tabsynth.auditing import linked_datasets
from tabsynth.auditing.fixtures import find_fixture
from tabsynth.auditing.outcomes import INCONCLUSIVE, MIN_MU_RATIO, NOT_REFUTED, REFUTED, AuditResult
from tabsynth.auditing.replay import NeighbourReplay, replay_on_neighbours
from tabsynth.auditing.replay_linked import replay_linked_neighbours
from tabsynth.auditing.request import REPLAY, AuditRequest
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.loading import LINKED, METHODS
from tabsynth.training.loop import Progress

PART = "all outputs of a fit"
ROWS = 60
SCHEMA = Schema(  # every kind of column, with options that accept unusual records
    [
        Column(
            name="k", kind="categorical", dtype="str", categories=("x", "y", "z", "o"), other="o"
        ),
        Column(name="v", kind="numeric", dtype="Int64", low=0, high=20, clip=True, nulls=True),
        Column(name="r", kind="numeric", dtype="float64", low=-1, high=1, bins=8, clip=True),
        Column(name="b", kind="ordinal", dtype="bool", categories=(False, True)),
    ]
)
# The record, by kind of neighbouring dataset (:func:`tabsynth.auditing.replay_neighbours.neighbours`).
RECORD_DESCRIPTIONS = {
    "outlier": "the rarest value of every column, numbers at their bounds",
    "undeclared": "values that the schema does not declare",
    "lowest": "all numbers and ordered values at their minimum",
    "highest": "all numbers and ordered values at their maximum",
    "null": "nulls in every column that allows them",
    "unique": "a category that no other record has",
    "minority": "one more record of the rarest class",
    "copy": "a copy of another record",
    "extreme": "integers that floats cannot represent, and a text of 5,000 characters",
    "root row removed": "a row of the root with its records in the other tables",
    "root row alone": "a row of the root without children",
    "root row full": "a row of the root with as many children at every level as are used",
    "root row beyond": "a row of the root with more children at every level than are used",
}


def make_table(seed: int) -> pd.DataFrame:
    """Draw an artificial table with a minority class in ``k`` and nulls in ``v``."""
    rng = np.random.default_rng([seed, ROWS])
    v = pd.array(rng.integers(0, 21, ROWS), dtype="Int64")
    v[rng.random(ROWS) < 0.1] = pd.NA
    return pd.DataFrame(
        {
            "k": pd.Series(rng.choice(["x", "y"], ROWS, p=[0.9, 0.1]), dtype="str"),
            "v": v,
            "r": rng.uniform(-1, 1, ROWS),
            "b": rng.random(ROWS) < 0.5,
        }
    )


def make_tiny_model(method: str, epsilon: float, delta: float) -> Synthesizer:
    """Return a model of the method's own parameters, unfitted, with networks so small that a fit takes a moment."""
    linked = method in LINKED
    schema = linked_datasets.SCHEMA if linked else SCHEMA
    parameters = find_fixture(method).tiny(schema)
    estimator = LINKED[method] if linked else METHODS[method]
    return estimator(schema, epsilon=epsilon, delta=delta, device="cpu", **parameters)


def audit_by_replay(request: AuditRequest, model: Synthesizer | None = None) -> AuditResult:
    """Replay a small fit of a method on every kind of neighbouring dataset of an artificial table.

    Each seed has its own table, records and noise.

    Parameters
    ----------
    request : AuditRequest
    model : Synthesizer, optional
        The model to fit to tables of ``SCHEMA`` in place of the method's small one; not for linked tables.
    """
    started = time.monotonic()
    method, seeds, lines = request.method, request.seeds, list[NeighbourReplay]()
    if model is None:
        model = make_tiny_model(method, request.epsilon, request.delta)
    for seed in range(seeds):
        report = (
            None if request.progress is None else _continued_progress(request.progress, seed, seeds)
        )
        if method in LINKED:
            lines += replay_linked_neighbours(method, model, seed, progress=report)
        else:
            table = make_table(seed)
            lines += replay_on_neighbours(method, model, table, SCHEMA, [seed], progress=report)
    result = summarize_replays(lines, method, request.epsilon, request.delta)
    return replace(
        result, details={**result.details, "seconds": round(time.monotonic() - started, 1)}
    )


def _continued_progress(progress: Progress, seed: int, seeds: int) -> Progress:
    return lambda what, done, total: progress(what, seed * total + done, seeds * total)


def summarize_replays(
    lines: Sequence[NeighbourReplay], method: str, epsilon: float, delta: float
) -> AuditResult:
    """Summarize all replays in one result, which is refuted if one of them differs.

    ``details`` has ``worst_move`` (the largest change of an input, in sensitivities), ``first_difference`` with its
    neighbouring dataset, and a summary for every kind of neighbouring dataset.
    """
    differ = [line for line in lines if not line.result.passes]
    worst = max(line.result.worst_move for line in lines)
    passed = INCONCLUSIVE if worst < MIN_MU_RATIO else NOT_REFUTED
    verdict = REFUTED if differ else passed
    first = None
    if differ:
        line = differ[0]
        first = f"{line.kind} {line.change}, seed {line.seed}: {line.result.first_difference}"
    return AuditResult(
        kind=REPLAY,
        method=method,
        part=PART,
        verdict=verdict,
        sentence=_sentence(verdict, len(differ), len(lines), worst, first),
        epsilon_claimed=epsilon,
        delta=delta,
        runs=len(lines),
        power=(
            "The audit detects neither leaks that show on none of these neighbouring datasets, nor noise that is drawn"
            " with a smaller standard deviation than stated."
        ),
        details={
            "worst_move": worst,
            "first_difference": first,
            "differ": len(differ),
            "neighbours": _by_neighbour(lines),
        },
    )


def _sentence(verdict: str, differ: int, count: int, worst: float, first: str | None) -> str:
    if verdict == REFUTED:
        return f"Refuted: {differ} of {count} replays differ; {first}."
    if verdict == INCONCLUSIVE:
        return (
            f"Inconclusive: no record changed a sum by more than {worst:.3f} times its sensitivity."
        )
    return (
        f"No evidence against the claim: all outputs were equal in {count} of {count} replays, and no sum changed by"
        f" more than {worst:.3f} times its sensitivity."
    )


def _by_neighbour(lines: Sequence[NeighbourReplay]) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for kind in dict.fromkeys(line.kind for line in lines):
        results = [line.result for line in lines if line.kind == kind]
        out.append(
            {
                "neighbour": kind,
                "about": RECORD_DESCRIPTIONS[kind],
                "replays": len(results),
                "differ": sum(not result.passes for result in results),
                "compared": sum(result.compared for result in results),
                "worst_move": max(result.worst_move for result in results),
                "first_difference": next(
                    (r.first_difference for r in results if not r.passes), None
                ),
            }
        )
    return out
