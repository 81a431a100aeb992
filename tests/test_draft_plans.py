"""What a fit without a schema can be expected to keep: the plan, against drafts of made-up tables of that size."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth.drafting.budget import draft_share
from tabsynth.drafting.private_schema import draft_on_ledger
from tabsynth.errors import InputError
from tabsynth.planning import plan_draft
from tabsynth.privacy.ledger.ledger import Ledger


def columns_kept(rows: int, columns: int, epsilon: float, seed: int) -> int:
    """Draft a table of columns whose values have any share of what more common ones leave of the rows."""
    rng = np.random.default_rng(seed)
    values: dict[str, np.ndarray] = {}
    for i in range(columns):
        parts = np.append(rng.random(8), 1.0)
        shares = parts * np.cumprod(np.append(1.0, 1 - parts[:-1]))
        values[f"c{i}"] = np.char.add("v", rng.choice(9, rows, p=shares).astype(str))
    mu = draft_share(epsilon, 1e-5, columns)
    try:
        drafted = draft_on_ledger(
            pd.DataFrame(values), mu, Ledger(epsilon, 1e-5), random_state=seed
        )
    except InputError:
        return 0
    return len(drafted.columns)


@pytest.mark.parametrize(
    ("rows", "columns", "epsilon"),
    [(300, 16, 1.0), (700, 16, 1.0), (1_500, 40, 1.0), (700, 16, 3.0), (3_000, 12, 0.5)],
)
def test_the_plan_expects_what_drafts_keep(rows: int, columns: int, epsilon: float) -> None:
    kept = [columns_kept(rows, columns, epsilon, seed) for seed in range(10)]
    assert plan_draft(rows, columns, epsilon).kept == pytest.approx(
        float(np.mean(kept)), abs=0.1 * columns + 0.5
    )


def test_what_suffices_does() -> None:
    planned = plan_draft(686, 16, 1.0)
    assert not planned.suffices and planned.sufficient_epsilon is not None
    assert 1 < planned.sufficient_epsilon < 5 and 686 < planned.sufficient_rows < 5_000
    assert plan_draft(686, 16, planned.sufficient_epsilon).suffices
    assert plan_draft(planned.sufficient_rows, 16, 1.0).suffices
    assert columns_kept(planned.sufficient_rows, 16, 1.0, 0) >= 12
    assert columns_kept(686, 16, planned.sufficient_epsilon, 0) >= 12


@pytest.mark.parametrize(("factor", "released"), [(0.5, False), (2.0, True)])
def test_a_value_needs_about_the_planned_number_of_rows(factor: float, released: bool) -> None:
    """Of a column in which every value has the same number of rows, beside nine that are soon clear."""
    rows = 3_000
    values = math.floor(rows / (factor * plan_draft(rows, 10, 1.0).rows_of_value))
    rng = np.random.default_rng(0)
    table = {f"c{i}": rng.choice(["yes", "no"], rows) for i in range(9)}
    table["spread"] = np.char.add("v", (rng.permutation(rows) % values).astype(str))
    ledger = Ledger(1.0, 1e-5)
    drafted = draft_on_ledger(
        pd.DataFrame(table), draft_share(1.0, 1e-5, 10), ledger, random_state=0
    )
    texts = {"spread"} & set(drafted.names)
    found = len(drafted["spread"].categories) - 1 if texts else 0
    assert (found > 0.5 * values) == released


def test_a_plan_without_a_schema_at_the_command_line(tmp_path) -> None:
    plan = ("plan", "--rows", 686, "--epsilon", 1)
    said = run(*plan, "--columns", 16, cwd=tmp_path).stdout
    planned = plan_draft(686, 16, 1.0)
    assert f"About {planned.kept:.0f} of 16 columns can be expected to be kept" in said
    assert f"ε = {planned.sufficient_epsilon:g} would keep nearly all" in said
    assert "tabsynth schema draft TABLE" in said and "No table was read" in said
    facts = json.loads(run(*plan, "--columns", 16, "--json", cwd=tmp_path).stdout)
    assert facts["kept"] == planned.kept and facts["sufficient_rows"] == planned.sufficient_rows
    enough = run("plan", "--rows", 50_000, "--columns", 16, "--epsilon", 1, cwd=tmp_path).stdout
    assert "would keep" not in enough and "a schema is not needed" in enough
    refused(*plan, cwd=tmp_path, says="number of columns (--columns)")
    refused(*plan, "--columns", 0, cwd=tmp_path, says="--columns")
    refused(*plan, "--columns", 9, "--table", "A", cwd=tmp_path, says="takes no --table")
    advantage = ("plan", "--rows", 686, "--max-advantage", 0.1, "--columns", 4)
    refused(*advantage, cwd=tmp_path, says="takes no --columns")
