"""Replays of a method as an audit: an artificial table, and all replays in one result."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tabsynth.auditing import linked_datasets
from tabsynth.auditing.fixtures import find_fixture
from tabsynth.auditing.linked_datasets import make_canary, make_tables
from tabsynth.auditing.outcomes import INCONCLUSIVE, MIN_MU_RATIO, NOT_REFUTED, REFUTED, AuditResult
from tabsynth.auditing.replay import Neighbour, NeighbourReplay, replay
from tabsynth.auditing.request import REPLAY, AuditRequest
from tabsynth.auditing.run_trace import RecordRandomness
from tabsynth.encoding import TableEncoder
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.estimator import LINKED, METHODS, Synthesizer

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
RARE = "y"  # of ``k`` in an artificial table
NO_FLOAT = 2**53 + 1  # the first whole number that is no float
# Kinds of neighbours: the cells in which their record differs from a random row.
RECORDS: dict[str, dict[str, object]] = {
    # The rarest value of every column, numbers at their bounds.
    "outlier": {"k": "z", "v": 0, "r": 1.0, "b": True},
    "undeclared": {"k": "unheard of", "v": -21, "r": 4.0},
    "lowest": {"v": 0, "r": -1.0, "b": False},
    "highest": {"v": 20, "r": 1.0, "b": True},
    "null": {"v": None},
    "unique": {"k": RARE},  # which no other record has
    "minority": {"k": RARE},  # the rarest class
    "copy": {},
    "extreme": {"k": "long " * 1000, "v": NO_FLOAT, "r": float(NO_FLOAT)},
}
# Kinds of neighbours of linked tables: how many stays the patient has, and how many events each of them. A "full" one has
# as many children as are used at every level, and one "beyond" more.
LINKED_RECORDS = {"removed": (3, 2), "alone": (0, 0), "full": (3, 2), "beyond": (6, 5)}


def make_table(seed: int) -> pd.DataFrame:
    """Draw an artificial table with a minority class in ``k`` and nulls in ``v``."""
    rng = np.random.default_rng([seed, ROWS])
    v = pd.array(rng.integers(0, 21, ROWS), dtype="Int64")
    v[rng.random(ROWS) < 0.1] = pd.NA
    return pd.DataFrame(
        {
            "k": pd.Series(rng.choice(["x", RARE], ROWS, p=[0.9, 0.1]), dtype="str"),
            "v": v,
            "r": rng.uniform(-1, 1, ROWS),
            "b": rng.random(ROWS) < 0.5,
        }
    )


def neighbours(table: pd.DataFrame, seed: int) -> list[Neighbour]:
    """Return neighbours of an artificial table with a record of each of ``RECORDS``, added and removed."""
    rng, pairs = np.random.default_rng(seed), []
    for kind, cells in RECORDS.items():
        base = table[table["k"] != RARE] if kind == "unique" else table
        row = table.iloc[[int(rng.integers(len(table)))]]
        record = row.assign(
            **{n: pd.Series([v], row.index, row.dtypes[n]) for n, v in cells.items()}
        )
        with_record = _insert(base, record, rng)
        pairs.append(Neighbour(kind=kind, change="added", table=base, neighbour=with_record))
        pairs.append(Neighbour(kind=kind, change="removed", table=with_record, neighbour=base))
    return pairs


def linked_neighbours(seed: int) -> list[Neighbour]:
    """Return neighbours of artificial linked tables with a patient of each of ``LINKED_RECORDS``."""
    rng, pairs = np.random.default_rng(seed), []
    for kind, (stays, events) in LINKED_RECORDS.items():
        base, canary = make_tables(seed), make_canary(stays, events)
        with_canary = {name: _insert(base[name], canary[name], rng) for name in base}
        change = "removed" if kind == "removed" else "added"
        both = (with_canary, base) if kind == "removed" else (base, with_canary)
        pair = Neighbour(kind=f"root row {kind}", change=change, table=both[0], neighbour=both[1])
        pairs.append(pair)
    return pairs


def _insert(table: pd.DataFrame, rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return the table with more rows at a random place."""
    at = int(rng.integers(len(table) + 1))
    return pd.concat([table[:at], rows, table[at:]], ignore_index=True)


def make_tiny_model(method: str, epsilon: float, delta: float) -> Synthesizer:
    """Return a model of the method's own parameters, unfitted, with networks so small that a fit takes a moment."""
    linked = method in LINKED
    schema = linked_datasets.SCHEMA if linked else SCHEMA
    parameters = find_fixture(method).tiny(schema)
    estimator = LINKED[method] if linked else METHODS[method]
    return estimator(schema, epsilon=epsilon, delta=delta, device="cpu", **parameters)


def audit_by_replay(request: AuditRequest) -> AuditResult:
    """Replay a small fit of a method on every kind of neighbouring dataset of an artificial table.

    Each seed has its own table, records and noise.
    """
    started, lines = time.monotonic(), list[NeighbourReplay]()
    model = make_tiny_model(request.method, request.epsilon, request.delta)
    for seed in range(request.seeds):
        linked = request.method in LINKED
        pairs = linked_neighbours(seed) if linked else neighbours(make_table(seed), seed)
        for done, pair in enumerate(pairs, start=1):
            result = replay(model, pair.table, pair.neighbour, _randomness(pair, seed), seed=seed)
            line = NeighbourReplay(
                method=request.method, kind=pair.kind, change=pair.change, seed=seed, result=result
            )
            lines.append(line)
            if request.progress is not None:
                total = len(pairs)
                request.progress("replay", seed * total + done, request.seeds * total)
    summary = summarize_replays(lines, request.method, request.epsilon, request.delta)
    seconds = round(time.monotonic() - started, 1)
    return replace(summary, details={**summary.details, "seconds": seconds})


def _randomness(pair: Neighbour, seed: int) -> RecordRandomness | None:
    """Return the random numbers of the records; None of linked tables, of which no method draws batches."""
    if isinstance(pair.table, dict):
        return None
    codes = [TableEncoder(SCHEMA).to_index(table) for table in (pair.table, pair.neighbour)]
    contents = [[row.tobytes() for row in np.ascontiguousarray(table)] for table in codes]
    return RecordRandomness(contents[0], contents[1], seed)


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
