"""Fits whose schema is a file, a dict, or drafted privately as a part of the fit."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tabsynth._validate import shown
from tabsynth.drafting.private_schema import OPTIONS, check_design
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.column import Column
from tabsynth.schema.design import NO_DESIGN
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.fitting import Run
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import TableKind, to_pandas
from tabsynth.training.loop import Progress

# Parameters with values of a schema, which a fit that drafts one cannot take.
SPEAKS_OF_SCHEMA = ("public", "warm_start", "class_shares", "tables")
# What a fit leaves, besides the ledger.
FITTED = ("seeded_", "facts_", "config_", "encoder_", "trained_", "table_kind_")


def fit_with_schema(
    model: Any,
    table: Any,
    progress: Progress | None,
    checkpoint: str | Path | None,
    ledger: str | Path | None,
    counted: Sequence[str],
) -> None:
    """Fit ``model``, a synthesizer whose schema is a file or a dict, or is drafted privately as a part of this fit."""
    given = model.schema
    if given is None:
        if counted:
            raise InputError(
                f"count={counted[0]!r} needs a schema that declares what is counted; a fit that drafts one has none."
            )
        _fit_drafting(model, table, progress, checkpoint, ledger)
        return
    if isinstance(given, Mapping):
        schema = Schema.from_dict(given)
    elif isinstance(given, str | Path):
        schema = Schema.load(given)
    else:
        raise InputError(
            f"Expected schema to be a Schema, a dict, a path or None, got {shown(given)}."
        )
    fitted = _with(model, schema)
    if hasattr(model, "ledger_"):
        fitted.ledger_ = model.ledger_
    try:
        fitted.fit(table, progress=progress, checkpoint=checkpoint, ledger=ledger, count=counted)
    finally:
        _take_over(model, fitted)


def _fit_drafting(
    model: Any,
    table: Any,
    progress: Progress | None,
    checkpoint: str | Path | None,
    ledger: str | Path | None,
) -> None:
    """Draft a schema privately, for a part of the budget, and fit with it for the rest."""
    started = time.monotonic()
    if isinstance(table, RowCounter):
        raise InputError("A draft of a schema needs rows; declare a schema to fit counts.")
    for name in SPEAKS_OF_SCHEMA:
        if getattr(model, name, None) is not None:
            raise InputError(f"{name} needs a schema; a fit that drafts one does not take it.")
    options = dict(model.draft_options or {})
    names = (*OPTIONS, *NO_DESIGN.parameters())
    for name in options.keys() - set(names):
        raise InputError(f"draft_options has {shown(name)}; its options are {', '.join(names)}.")
    # Types of a DataFrame of any library may have been inferred: as in its draft, they are not public.
    kind, table = TableKind(TableKind.of(table).library, {}), to_pandas(table)
    check_design(table, model._design, options.get("decimal"))
    _stand_in(model, table)._check_parameters()
    with Run(model, checkpoint, ledger) as run:
        if run.finished:
            run.restore_model()
            return
        schema = run.draft(table, _plan_after_draft(model, table))
        fitted = _with(model, schema)
        fitted._check_parameters()
        run.go_on(fitted)
        try:
            fitted._fit_run(run, table, kind, progress, started)
        finally:
            _take_over(model, fitted)


def _with(model: Any, schema: Schema) -> Any:
    """A synthesizer with the same parameters and another schema, not fitted."""
    return type(model)(**{**model.get_params(deep=False), "schema": schema})


def _take_over(model: Any, fitted: Any) -> None:
    """Make ``model`` as fitted as another synthesizer is."""
    for name in (*FITTED, "ledger_"):
        if hasattr(fitted, name):
            setattr(model, name, getattr(fitted, name))


def _stand_in(model: Any, table: pd.DataFrame) -> Any:
    """With a schema that has the names of a table's columns, which are public, and no fact of its rows.

    It serves for what must be refused before a draft is charged.
    """
    design = model._design
    columns = [
        Column(name=str(name), kind="categorical", dtype="str", categories=("a", "b"))
        for name in table.columns
        if str(name) not in design.names
    ]
    return _with(model, Schema(columns, **design.parameters()))


def _plan_after_draft(model: Any, table: pd.DataFrame) -> Callable[[Ledger], list[Spend]]:
    """From a ledger with a draft on it to what a fit of the table's columns spends."""

    def spends(ledger: Ledger) -> list[Spend]:
        return [(s.mechanism, s.count) for s in _stand_in(model, table)._spends(ledger)]

    return spends
