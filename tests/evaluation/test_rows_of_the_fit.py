"""Published figures are of the rows that the fit used: those that it leaves out or repairs are treated alike."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabsynth import Categorical, Identifier, MargNet, Numeric, Schema, evaluate_private
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import codes_of
from tabsynth.errors import InputError
from tabsynth.evaluation import publishing
from tabsynth.evaluation.inputs import REAL, kept_index
from tabsynth.schema import Column

A, B, C = (Categorical(name=n, dtype="str", categories=("x", "y")) for n in "abc")
LOW, HIGH = (Numeric(name=n, dtype="int64", low=0, high=9, bins=10) for n in ("low", "high"))
DETAILS: dict[str, list[Column]] = {
    "plain": [],
    "heaping": [
        Numeric(name="h", dtype="int64", low=0, high=99, bins=10, heaping=(10,), resolution=1)
    ],
    "missing reasons": [
        Numeric(name="m", dtype="Int64", low=0, high=9, nulls=True, missing={"-8": "refused"})  # type: ignore[list-item]
    ],
    "identifier": [Identifier(name="key", dtype="str")],
    "heaping and identifier": [
        Numeric(name="h", dtype="int64", low=0, high=99, bins=10, heaping=(10,), resolution=1),
        Identifier(name="key", dtype="str"),
    ],
}
RULES: dict[str, dict[str, Any]] = {
    "impossible": {"impossible": [{"a": ["x"], "b": ["x"]}]},
    "implication": {"constraints": [{"if": {"a": ["x"]}, "then": {"b": ["y"]}}]},
    "order": {"constraints": [{"order": ["low", "high"]}]},
    "derived": {"constraints": [{"derive": "c", "from": "a", "table": [["x", "x"], ["y", "y"]]}]},
    "all": {
        "impossible": [{"a": ["x"], "b": ["x"]}],
        "constraints": [
            {"order": ["low", "high"]},
            {"derive": "c", "from": "a", "table": [["x", "x"], ["y", "y"]]},
        ],
    },
}


def rows(schema: Schema, count: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({n: rng.choice(["x", "y"], count) for n in "abc"})
    table["low"], table["high"] = (rng.integers(0, 10, count) for _ in range(2))
    table["h"], table["m"] = rng.integers(0, 100, count), pd.array([1] * count, dtype="Int64")
    table["key"] = [str(i) for i in range(count)]
    return table[list(schema.names)].sample(frac=1, random_state=1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("violations", ["drop", "repair", "refuse"])
def test_figures_are_of_the_rows_of_the_fit(rule: str, detail: str, violations: str) -> None:
    schema = Schema([*DETAILS[detail], A, B, C, LOW, HIGH], **RULES[rule], violations=violations)
    encoder = TableEncoder(schema)
    if violations == "refuse":
        good = TableEncoder(schema.replace(violations="drop")).keeping_rules(rows(schema), "rows")
        index, numbers = kept_index(schema, good, REAL)
        assert len(index) == len(numbers) == len(good)
        if rule in ("impossible", "all"):
            with pytest.raises(InputError, match=r"declares impossible|breaks the rule"):
                kept_index(schema, rows(schema), REAL)
        return
    table = rows(schema)
    fitted, used = encoder.kept_index(table)
    index, numbers = kept_index(schema, table, REAL)
    assert 0 < len(used) < len(table) or (violations, rule) in (
        ("repair", "order"),
        ("repair", "derived"),
    )
    assert numbers.tolist() == used.tolist()
    shared = [name for name in schema.comparable.names if name in encoder.schema.names]
    for name in shared:
        of = (
            index[:, schema.comparable.names.index(name)],
            fitted[:, encoder.schema.names.index(name)],
        )
        assert (of[0] == of[1]).all(), name
    assert set(shared) >= {"a", "b", "low"}


@pytest.mark.parametrize("identifiers", [0, 1, 2, 3])
@pytest.mark.parametrize("details", [0, 1, 2])
def test_learned_has_all_details_and_no_identifier(details: int, identifiers: int) -> None:
    """Whatever their numbers are: one added and one left out must not cancel each other."""
    heaped = [
        Numeric(name=f"h{i}", dtype="int64", low=0, high=99, bins=10, heaping=(10,), resolution=1)
        for i in range(details)
    ]
    keys = [Identifier(name=f"key{i}", dtype="str") for i in range(identifiers)]
    schema = Schema([*heaped, A, *keys])
    wanted = [name for c in heaped for name in (c.name, f"{c.name} (heaping)")]
    assert schema.learned.names == (*wanted, "a")
    assert (schema.learned is schema) == (not heaped and not keys)
    MargNet(schema, epsilon=1.0).check()


def test_a_row_that_the_fit_leaves_out_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(
        [*DETAILS["heaping"], A, B], impossible=[{"a": ["x"], "b": ["x"]}], violations="drop"
    )
    table = rows(schema)
    seen: list[int] = []
    real = publishing.charged_metrics

    def metrics(private: Any, account: Any, *args: Any, **options: Any) -> Any:
        seen.append(len(codes_of(private._PrivateTable__rows)))
        return real(private, account, *args, **options)

    monkeypatch.setattr(publishing, "charged_metrics", metrics)
    model = MargNet(schema, epsilon=3.0, device="cpu", time_limit=3).fit(table)
    result = evaluate_private(table, model.sample(100), schema=schema, epsilon=1.0)
    assert result.evaluation.epsilon <= 1.0 + 1e-9
    assert seen == [int((~((table.a == "x") & (table.b == "x"))).sum())]
