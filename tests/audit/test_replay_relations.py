"""R1 of relations that a fit looks for: what is found follows from noisy selections and counts alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabsynth import Categorical, Date, Numeric, Schema
from tabsynth.auditing.replay import ReplayResult, replay_run
from tabsynth.drafting.relation_search import _Search, find_relations
from tabsynth.privacy.ledger.ledger import Ledger

FLAGS = [Categorical(name=f"kind{j}", dtype="int64", categories=(0, 1)) for j in range(3)]
COLUMNS = [
    Date(name="admission", dtype="str", low="2020-01-01", high="2020-12-31"),
    Date(name="discharge", dtype="str", low="2020-01-01", high="2020-12-31"),
    Numeric(name="nodes", dtype="int64", low=0, high=9, bins=10),
    Categorical(name="nodes4", dtype="str", categories=("no", "yes"), nulls=True),
    *FLAGS,
]


def schema(bound: int | None = None) -> Schema:
    if bound is None:
        return Schema(COLUMNS)
    unit = {"unit": "patient", "max_rows_per_unit": bound}
    return Schema(COLUMNS, released={"mechanisms": [], "seeded": True, **unit}, **unit)


def stays(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 300, rows)
    start = np.datetime64("2020-01-01")
    nodes, kind = rng.integers(0, 10, rows), rng.integers(0, 3, rows)
    return pd.DataFrame(
        {
            "admission": (start + days).astype(str),
            "discharge": (start + days + rng.integers(0, 20, rows)).astype(str),
            "nodes": nodes,
            "nodes4": np.where(nodes > 4, "yes", "no"),
            **{f"kind{j}": (kind == j).astype("int64") for j in range(3)},
        }
    )


def odd_rows(number: int) -> pd.DataFrame:
    """Rows that break every relation."""
    row = {"admission": "2020-12-31", "discharge": "2020-01-01", "nodes": 9, "nodes4": "no"}
    return pd.DataFrame([row | dict.fromkeys(("kind0", "kind1", "kind2"), 1)] * number)


def search(table: pd.DataFrame, neighbour: pd.DataFrame, facts: Schema) -> ReplayResult:
    """A replay of the search, with what each stage goes on with, and of its charges; all relations are found."""
    draw, confirm = _Search._draw, _Search._confirm

    def run(rows: pd.DataFrame, note: Callable[[str, Any], None]) -> None:
        def drawn(stages: Any, candidates: Any, scores: np.ndarray, sharpness: float) -> Any:
            note("scores", scores)
            return draw(stages, candidates, scores, sharpness)

        def confirmed(stages: Any, selected: Any) -> Any:
            out = confirm(stages, selected)
            note("numbers of rows", [numbers for _, _, numbers, _ in out])
            return out

        ledger = Ledger(20.0, 1e-5)
        ledger.unit = facts.unit
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_Search, "_draw", drawn)
            patch.setattr(_Search, "_confirm", confirmed)
            found = find_relations(rows, facts, 3.0, ledger, 3)
        note("schema", found.to_dict())
        note("ledger", ledger.to_list())
        assert len(found.rules) >= 3

    return replay_run(run, table, neighbour)


def test_relations_of_neighbours() -> None:
    table, facts = stays(), schema()
    for row in (odd_rows(1), stays(1, seed=1)):
        more = pd.concat([table, row], ignore_index=True)
        for one, other in ((table, more), (more, table)):
            result = search(one, other.sample(frac=1, random_state=1), facts)
            assert result.passes, result.first_difference
            stages = [call.purpose for call in result.mechanisms]
            assert stages == [
                f"schema: {stage}"
                for stage in ("selection of rules", "counts of dependencies", "counts of rules")
            ]
            assert 0.3 < result.worst_move <= 1 + 1e-9


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_a_unit_more_or_less_changes_releases_alone(rows: int) -> None:
    table = stays().assign(patient=lambda t: np.arange(len(t)) // 2)
    more = pd.concat([table, odd_rows(rows).assign(patient=-1)], ignore_index=True)
    for one, other in ((table, more), (more, table)):
        result = search(one, other, schema(3))
        assert result.passes, result.first_difference
        assert result.worst_move <= 1 + 1e-9
