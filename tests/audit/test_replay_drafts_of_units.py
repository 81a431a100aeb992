"""Replays of drafts of schemas on neighbours that differ in a whole unit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from record_replay import neighbours, replay
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model
from systems.form import with_unit

from tabsynth.auditing.replay import ReplayResult, replay_run
from tabsynth.design import Design
from tabsynth.drafting import private_schema
from tabsynth.drafting.private_schema import draft_on_ledger
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.ledger.ledger import Ledger

torch.set_num_threads(1)
Patch = pytest.MonkeyPatch
DESIGN = Design(unit="unit", max_rows_per_unit=3)
UNITS = with_unit(SCHEMA, 3)
LISTED = [(pair.kind, pair.change) for pair in neighbours(frame(60), UNITS)]


def draft(kind: str, change: str) -> ReplayResult:
    """A replay of the draft alone, and of its charges, on neighbours of which one has a unit of more rows than the bound."""
    listed = neighbours(frame(150), UNITS, seed=3)
    (pair,) = (n for n in listed if (n.kind, n.change) == (kind, change))

    def run(rows: pd.DataFrame, note: Callable[[str, Any], None]) -> None:
        ledger = Ledger(20.0, 1e-5)
        mu = gaussian_mu(20.0, 0.9e-5)
        schema = draft_on_ledger(rows, mu, ledger, random_state=3, design=DESIGN)
        note("schema", schema.to_dict())
        note("ledger", ledger.to_list())

    return replay_run(run, pair.table, pair.neighbour)


@pytest.mark.parametrize(("kind", "change"), LISTED[::3])
def test_a_unit_more_or_less_changes_releases_alone(kind: str, change: str) -> None:
    result = draft(kind, change)
    assert result.passes, result.first_difference
    assert 0.5 < result.worst_move <= 1 + 1e-9 and len(result.mechanisms) > 2


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "interrupted"), [("unique", None), ("extreme", 2)])
def test_a_fit_that_drafts_under_a_unit(kind: str, interrupted: int | None) -> None:
    """With its checkpoint, and under a project's ledger of that unit; also resumed from there."""
    model = make_tiny_model("margnet, drafts its schema", SCHEMA, epsilon=EPSILON)
    model.set_params(draft_options={"unit": "unit", "max_rows_per_unit": 3})
    pairs = [pair for pair in neighbours(frame(60), UNITS) if pair.kind == kind]
    result = replay(model, pairs[0].table, pairs[0].neighbour, seed=2, interrupted=interrupted)
    assert result.passes, result.first_difference
    purposes = [call.purpose for call in result.mechanisms]
    assert purposes[0] == "schema: formats of columns" and "one-way counts" in purposes


@pytest.mark.slow
def test_a_gan_that_drafts_under_a_unit() -> None:
    """Its batches are of the units whose rows the draft's design leaves."""
    model = make_tiny_model("dp-wgan", SCHEMA, epsilon=EPSILON)
    model.set_params(schema=None, draft_options={"unit": "unit", "max_rows_per_unit": 3})
    pairs = [pair for pair in neighbours(frame(60), UNITS) if pair.kind == "outlier"]
    result = replay(model, pairs[0].table, pairs[0].neighbour, seed=2)
    assert result.passes, result.first_difference
    assert {"critic", "autoencoder"} <= {call.purpose for call in result.mechanisms}


# Mistakes.


def all_rows(patch: Patch) -> None:
    """Every row is used, and counts as a third of one."""
    patch.setattr(
        private_schema, "rows_within_bound", lambda names, most, key: np.ones(len(names), bool)
    )
    right = private_schema._of_units

    def of_units(*given: Any) -> Any:
        rows, shared = right(*given)
        return rows, np.minimum(shared, 3)

    patch.setattr(private_schema, "_of_units", of_units)


def whole_rows(patch: Patch) -> None:
    """A used row counts as a row does without a unit."""
    right = private_schema._of_units

    def of_units(*given: Any) -> Any:
        rows, shared = right(*given)
        return rows, np.ones_like(shared)

    patch.setattr(private_schema, "_of_units", of_units)


@pytest.mark.parametrize("mistake", [all_rows, whole_rows])
def test_mistakes_are_found(mistake: Any, monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    message = draft("outlier", "added").first_difference or ""
    assert message.startswith("mechanism 1 (schema: formats of columns): its input moved by")
