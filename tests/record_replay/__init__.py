"""Record and replay of any fit: under units and weights, with a draft, of counted tables, and interrupted in between."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from tabsynth.auditing import replay as core
from tabsynth.auditing.replay import (
    NeighbourReplay,
    Note,
    ReplayResult,
    fit_with_files,
    make_files,
    note_files,
)
from tabsynth.auditing.run_trace import RecordRandomness
from tabsynth.design import Design
from tabsynth.encoding.rows import PrivateRows, Rows, codes_of, key_of, rows_of, weights_of
from tabsynth.errors import InputError
from tabsynth.synthesizers.estimator import Synthesizer, as_counter
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import to_pandas

from .neighbours import KINDS, neighbours

__all__ = ["KINDS", "neighbours", "record_contents", "replay", "replay_on_neighbours"]


def replay(
    model: Synthesizer,
    table: object,
    neighbour: object,
    *,
    seed: int = 0,
    interrupted: int | None = None,
) -> ReplayResult:
    """Fit a clone of ``model`` to a table, and replay the fit on its neighbour.

    Parameters
    ----------
    model : Synthesizer
        With finite epsilon and no time limit. One without a schema drafts it, which is replayed, too.
    table, neighbour : DataFrame, RowCounter, lazy table or dict of DataFrame
        Neighbouring datasets, in any order of rows. Under a schema with a unit they differ in a whole unit.
    seed : int
        Replaces the model's ``random_state`` and seeds the random numbers of the records.
    interrupted : int, optional
        Interrupt the fit after so many reports of progress and resume it from its checkpoint.

    Raises
    ------
    InputError
        If the fit has no finite epsilon or has a time limit, or cannot use ``table``.
    """
    if math.isinf(model.epsilon) or model.time_limit or getattr(model, "time_budget", None):
        raise InputError(
            "A replay needs a finite epsilon, no time_limit and no time_budget; change the model."
        )
    randomness = None  # a counter has no records, and the method that takes it draws no batches
    if not isinstance(table, dict):
        table, neighbour = as_counter(table), as_counter(neighbour)
        if not isinstance(table, RowCounter):
            randomness = draw_randomness(model, (to_pandas(table), to_pandas(neighbour)), seed)
    fit = fit_with_files
    if interrupted is not None:
        fit = partial(fit_interrupted, interrupted=interrupted)
    return core.replay(model, table, neighbour, randomness, seed=seed, fit=fit)


def fit_interrupted(
    fresh: Callable[[], Synthesizer], table: object, place: Path, note: Note, *, interrupted: int
) -> Iterator[Synthesizer]:
    """Interrupt a fit after so many reports of progress, and let another object resume it; yield both models."""
    reports = 0

    def progress(*report: object) -> None:
        nonlocal reports
        note("progress", report)
        reports += 1
        if reports == interrupted:
            raise KeyboardInterrupt

    model = fresh()
    files = make_files(model, place)
    try:
        model.fit(table, progress=progress, **files)
    except KeyboardInterrupt:
        if reports < interrupted:  # an interrupt of the user
            raise
        note_files(place, note)
        yield model
        model = fresh().fit(table, progress=progress, **files)
    note_files(place, note)
    yield model


def draw_randomness(
    model: Synthesizer, both: tuple[pd.DataFrame, pd.DataFrame], seed: int
) -> RecordRandomness:
    """Return the random numbers of the records, or units, that a fit of the model reads of two tables."""
    design, key = model.design, key_of(seed)
    if model.schema is None:
        codes, mark = _value_codes(*both), dict(model.draft_options or {}).get("decimal")
        contents = [(part, frame, mark) for part, frame in zip(codes, both, strict=True)]
    else:
        encoder = model.make_method(model.schema).encoder
        mark = encoder.whole.decimal
        contents = [(*encoder.codes_and_rows(frame, "table", bool(design)), mark) for frame in both]
    recorded, neighbour = (
        record_contents(rows_of(part, frame, design, key, mark) if design else part)
        for part, frame, mark in contents
    )
    randomness = RecordRandomness(recorded, neighbour, seed)
    if design.unit is not None:
        randomness.most = _units_changed(design, contents)
    return randomness


def units_of(rows: PrivateRows) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the units in the order of their hashes, shape (units,), and the number of the unit of each row, shape (n,).

    None where each row is a unit.
    """
    if not isinstance(rows, Rows) or rows.units is None:
        return None
    names, unit_of_row = np.unique(rows.units, return_inverse=True)
    return names, unit_of_row


def record_contents(rows: PrivateRows) -> list[bytes]:
    """Return what each record consists of: codes and weight of a row, or the name and all used rows of a unit."""
    cells, weights = np.ascontiguousarray(codes_of(rows)), weights_of(rows)
    contents = [row.tobytes() for row in cells]
    if weights is not None:
        contents = [row + w.tobytes() for row, w in zip(contents, weights, strict=True)]
    grouped = units_of(rows)
    if grouped is None:
        return contents
    names, unit_of_row = grouped
    parts = [[name.tobytes()] for name in names]
    for unit, content in zip(unit_of_row, contents, strict=True):
        parts[unit].append(content)
    return [b"".join(part) for part in parts]


def _units_changed(
    design: Design, tables: Sequence[tuple[np.ndarray, pd.DataFrame, str | None]]
) -> int:
    """Return the number of units that only one of two tables has, by their names as they are and all their rows.

    Which rows are used, and what a unit is called, is tested, and does not tell it.
    """
    both = []
    for codes, frame, mark in tables:
        contents = np.ascontiguousarray(codes)
        if design.weight is not None:
            weights = design.weights(frame, mark)
            contents = np.column_stack([contents, weights.view(np.int64)])
        units: dict[object, list[bytes]] = {}
        for name, row in zip(frame[design.unit].astype(object), contents, strict=True):
            units.setdefault(name, []).append(row.tobytes())
        both.append({(name, tuple(rows)) for name, rows in units.items()})
    return len(both[0] ^ both[1])


def _value_codes(table: pd.DataFrame, neighbour: pd.DataFrame) -> list[np.ndarray]:
    """Return codes of the cells of both tables, by their values alone."""
    both = pd.concat([table, neighbour], ignore_index=True)
    columns = [pd.factorize(both[name].astype(object), use_na_sentinel=False)[0] for name in both]
    codes = np.stack(columns, axis=1)
    return [codes[: len(table)], codes[len(table) :]]


def replay_on_neighbours(
    name: str,
    model: Synthesizer,
    pairs: Sequence[core.Neighbour],
    seed: int = 0,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[NeighbourReplay]:
    """Replay a model on neighbours, and list the results under a name."""
    replays: list[NeighbourReplay] = []
    for pair in pairs:
        result = replay(model, pair.table, pair.neighbour, seed=seed)
        replays.append(
            NeighbourReplay(
                method=name, kind=pair.kind, change=pair.change, seed=seed, result=result
            )
        )
        if progress is not None:
            progress("replay", len(replays), len(pairs))
    return replays
