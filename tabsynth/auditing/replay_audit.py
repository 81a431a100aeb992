"""Replays of a method as an audit: the made-up table that they are of, and what they found in one result."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tabsynth.auditing.outcomes import INVALID, LEAST_SHARE, NOT_REFUTED, REFUTED, AuditResult
from tabsynth.auditing.replay import Replayed, audit_replay
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.training.loop import Progress

KIND, PART = "replay", "all that a fit shows"
ROWS = 60
SCHEMA = Schema(  # every kind of column, with all that makes room for an odd record
    [
        Column(
            name="k", kind="categorical", dtype="str", categories=("x", "y", "z", "o"), other="o"
        ),
        Column(name="v", kind="numeric", dtype="Int64", low=0, high=20, clip=True, nulls=True),
        Column(name="r", kind="numeric", dtype="float64", low=-1, high=1, bins=8, clip=True),
        Column(name="b", kind="ordinal", dtype="bool", categories=(False, True)),
    ]
)
# What the one record is, by kind of neighbour (:func:`tabsynth.auditing.replay_neighbours.neighbours`).
WORDS = {
    "outlier": "the rarest value of every column, numbers at their bounds",
    "undeclared": "values that the schema does not declare",
    "lowest": "all numbers and ordered values at their least",
    "highest": "all numbers and ordered values at their most",
    "null": "nulls wherever they may be",
    "unique": "a category that nobody else has",
    "minority": "one more of the rarest class",
    "twin": "one more of a record that is there",
    "extreme": "whole numbers that floats cannot hold, and a text of 5,000 characters",
}


def made_up_table(seed: int) -> pd.DataFrame:
    """Rows of nobody, with a minority in ``k`` and nulls in ``v``."""
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


def audit_by_replay(
    method: str,
    epsilon: float,
    delta: float = 1e-5,
    *,
    seeds: int = 1,
    model: Synthesizer | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Replay a tiny fit of a method on every kind of neighbour of a made-up table, once a seed.

    Parameters
    ----------
    seeds : int
        Each with a table, a record and noise of its own.
    model : Synthesizer, optional
        What to fit to tables of ``SCHEMA``, where it is not a tiny network of that method.
    """
    started = time.monotonic()
    lines: list[Replayed] = []
    for seed in range(seeds):
        told = None if progress is None else _further(progress, seed, seeds)
        lines += audit_replay(
            method,
            made_up_table(seed),
            SCHEMA,
            epsilon,
            [seed],
            delta=delta,
            model=model,
            progress=told,
        )
    found = result_of(lines, method, epsilon, delta)
    return replace(
        found, details={**found.details, "seconds": round(time.monotonic() - started, 1)}
    )


def _further(progress: Progress, seed: int, seeds: int) -> Progress:
    return lambda what, done, total: progress(what, seed * total + done, seeds * total)


def result_of(lines: Sequence[Replayed], method: str, epsilon: float, delta: float) -> AuditResult:
    """One result of all replays: refuted if one of them differs.

    In ``details``: ``worst_move`` in sensitivities, ``first_difference`` with the neighbour that showed it,
    and the replays of every kind of neighbour by themselves.
    """
    differ = [line for line in lines if not line.result.passed]
    worst = max(line.result.worst_move for line in lines)
    unseen = INVALID if worst < LEAST_SHARE else NOT_REFUTED
    verdict = REFUTED if differ else unseen
    first = None
    if differ:
        where = differ[0]
        first = f"{where.kind} {where.change}, seed {where.seed}: {where.result.first_difference}"
    return AuditResult(
        kind=KIND,
        method=method,
        part=PART,
        verdict=verdict,
        sentence=_sentence(verdict, len(differ), len(lines), worst, first),
        epsilon_claimed=epsilon,
        delta=delta,
        runs=len(lines),
        power="A leak that none of these neighbours shows is not found, nor noise drawn smaller than it is said to be.",
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
    if verdict == INVALID:
        return f"Says nothing: the neighbours moved no sum by more than {worst:.3f} times its sensitivity."
    return (
        f"Not refuted: in all of {count} replays everything came out the same, and no sum moved by more"
        f" than {worst:.3f} times its sensitivity."
    )


def _by_neighbour(lines: Sequence[Replayed]) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for kind in dict.fromkeys(line.kind for line in lines):
        some = [line.result for line in lines if line.kind == kind]
        out.append(
            {
                "neighbour": kind,
                "about": WORDS[kind],
                "replays": len(some),
                "differ": sum(not found.passed for found in some),
                "compared": sum(found.compared for found in some),
                "worst_move": max(found.worst_move for found in some),
                "first_difference": next((f.first_difference for f in some if not f.passed), None),
            }
        )
    return out
