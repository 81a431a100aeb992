"""R1 of drafts of schemas: all that a draft says follows from noisy sums, and no value of one table alone is released."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from record_replay import neighbours, replay
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model

from tabsynth.auditing.replay import ReplayResult, replay_run
from tabsynth.drafting import private_schema
from tabsynth.drafting.budget import DraftBudget
from tabsynth.drafting.private_schema import draft_on_ledger
from tabsynth.drafting.released_columns import TextDraft
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.ledger.ledger import Ledger

torch.set_num_threads(1)
Patch = pytest.MonkeyPatch
ROWS = 200


def texts(table: pd.DataFrame) -> pd.DataFrame:
    """As a CSV file gives it."""
    return table.astype(object).where(table.notna(), "NA").map(str)


def draft(
    table: pd.DataFrame, neighbour: pd.DataFrame, epsilon: float = 20.0, declared: int | None = None
) -> ReplayResult:
    """A replay of the draft alone, and of its charges."""

    def run(rows: pd.DataFrame, note: Callable[[str, Any], None]) -> None:
        ledger = Ledger(epsilon, 1e-5)
        mu = gaussian_mu(epsilon, 0.9e-5)
        schema = draft_on_ledger(rows, mu, ledger, random_state=3, rows=declared)
        note("schema", schema.to_dict())
        note("ledger", ledger.to_list())

    return replay_run(run, table, neighbour)


@pytest.mark.parametrize("form", [texts, lambda table: table], ids=["texts", "dtypes"])
def test_a_draft_of_neighbours(form: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    for pair in neighbours(frame(ROWS), SCHEMA)[:: 2 if form is texts else 5]:
        result = draft(form(pair.table), form(pair.neighbour))
        assert result.passes, (pair.kind, pair.change, result.first_difference)
        assert 0.9 < result.worst_move <= 1 + 1e-9
        assert len(result.mechanisms) > 2 and result.compared > 100


def test_a_declared_number_of_rows_is_that_of_no_table() -> None:
    """Neighbours differ in it, and the draft follows from what is declared."""
    for pair in neighbours(frame(ROWS), SCHEMA)[::9]:
        result = draft(texts(pair.table), texts(pair.neighbour), 3.0, ROWS)
        assert result.passes, (pair.kind, pair.change, result.first_difference)


def test_values_of_one_table_alone_are_aligned() -> None:
    """A record with new values everywhere moves sums by one sensitivity, whatever their places among the others."""
    table = pd.DataFrame(
        {
            "a": ["m"] * 60 + ["p"] * 60,
            "b": np.arange(120) % 7 * 1.5,
            "c": (np.arange(120) * 977 % 90_000).astype("int64"),
        }
    )
    for new in ("a", "n", "z", "x" * 5_000):
        more = pd.concat([table, pd.DataFrame({"a": [new], "b": [4e9], "c": [-5]})])
        for one, other in ((table, more), (more, table)):
            result = draft(one, other.sample(frac=1, random_state=1))
            assert result.passes, result.first_difference
            assert result.worst_move == pytest.approx(1, abs=1e-4)


def assert_replays(table: pd.DataFrame, record: pd.DataFrame) -> None:
    """A draft of a table without a record is replayed with it, and the other way round, and sums move by one sensitivity."""
    more = pd.concat([table, record], ignore_index=True)
    for one, other in ((table, more), (more, table)):
        result = draft(one, other)
        assert result.passes, result.first_difference
        assert result.worst_move == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("new", ["yes", "Yes", "fair", "WY", "unknown", "NA"])
def test_texts_of_the_catalogue_that_one_table_alone_has(new: str) -> None:
    """They are asked for whether a row has them or not, and move the sums of the catalogue by one sensitivity."""
    table = pd.DataFrame({"a": ["no"] * 90, "state": ["CA"] * 60 + ["other text"] * 30})
    assert_replays(table, pd.DataFrame({"a": [new], "state": [new]}))


@pytest.mark.parametrize("new", ["150", "40", "no number"])
def test_limits_of_the_catalogue_that_one_table_alone_exceeds(new: str) -> None:
    """Whether all rows are between them decides nothing: noisy sums say whether clearly some are not."""
    ages = [str(age % 40 + 30) for age in range(120)]
    table = pd.DataFrame({"age": ages, "hour": [str(i % 24) for i in range(120)]})
    assert_replays(table, pd.DataFrame({"age": [new], "hour": [new]}))


@pytest.mark.parametrize("new", ["5%", "€5", "5", "-5 EUR"])
def test_signs_of_one_table_alone_are_asked_for(new: str) -> None:
    """Each sign is asked for whether a row has it or not."""
    table = pd.DataFrame(
        {"a": [f"{i % 90}%" for i in range(120)], "b": [f"${i}" for i in range(120)]}
    )
    assert_replays(table, pd.DataFrame({"a": [new], "b": [new]}))


@pytest.mark.parametrize("new", ["E11", "I10.9", "428", "038", "no code", "NA"])
def test_codes_of_diagnoses_that_one_table_alone_has(new: str) -> None:
    """Forms of codes are counted in every row, and longer codes need a threshold."""
    table = pd.DataFrame({"diagnosis": ["I10"] * 90 + ["E11.9"] * 30, "dx": ["250.83"] * 120})
    assert_replays(table, pd.DataFrame({"diagnosis": [new], "dx": [new]}))


@pytest.mark.parametrize("new", ["n/a", "k. A.", "-999", "V57"])
def test_codes_of_one_table_alone_are_not_released(new: str) -> None:
    """Texts among numbers and dates, of which one has a code of its own that many rows have."""
    table = pd.DataFrame(
        {
            "a": [f"{i % 90 / 10}" for i in range(90)] + ["n/a"] * 30,
            "b": [f"2020-01-{i % 28 + 1:02d}" for i in range(90)] + ["unknown"] * 30,
        }
    )
    assert_replays(table, pd.DataFrame({"a": [new], "b": [new]}))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "interrupted"), [("unique", None), ("extreme", 2)])
def test_a_fit_that_drafts(kind: str, interrupted: int | None) -> None:
    """With its checkpoint, which keeps the schema, and under a project's ledger; also resumed from there."""
    model = make_tiny_model("margnet, drafts its schema", SCHEMA, epsilon=EPSILON)
    pairs = [pair for pair in neighbours(frame(60), SCHEMA) if pair.kind == kind]
    result = replay(model, pairs[0].table, pairs[0].neighbour, seed=2, interrupted=interrupted)
    assert result.passes, result.first_difference
    purposes = [call.purpose for call in result.mechanisms]
    assert purposes[0] == "schema: formats of columns" and "one-way counts" in purposes


# Mistakes, and what the message must say.


def no_threshold(patch: Patch) -> None:
    patch.setattr(DraftBudget, "threshold", lambda self, *given: -1e9)


def not_normalised(patch: Patch) -> None:
    """A row counts whole for each of its values."""

    def sums(values: Any) -> Any:
        return np.ones_like(values)

    fake = type("np", (), {**vars(np), "maximum": lambda a, b: sums(a)})
    patch.setattr(private_schema, "np", fake)


def bypassed(patch: Patch) -> None:
    def exact_of(account: Any, labels: Any, values: Any, stds: Any, units: Any) -> Any:
        return list(labels), list(values)

    patch.setattr(private_schema, "exact_of", exact_of)


def listed(patch: Patch) -> None:
    """The largest text of the rows is a category, too."""
    real = TextDraft.questions

    def questions(self: TextDraft, column: Any, number: int) -> Any:
        self.texts[max(column.values)] = 1.0
        return real(self, column, number)

    patch.setattr(TextDraft, "questions", questions)


MISTAKES: dict[str, tuple[Callable[[Patch], None], str]] = {
    "no threshold": (no_threshold, "schema: values of columns, round 1: a label that only one"),
    "not normalised": (not_normalised, "mechanism 1 (schema: formats of columns): its input moved"),
    "bypassed": (bypassed, "schema: formats of columns: rows were read, and no mechanism"),
    "listed": (listed, "mechanism 2 (schema: values of columns, round 1): its input moved by"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str, monkeypatch: Patch) -> None:
    wrong, message = MISTAKES[mistake]
    pair = next(p for p in neighbours(frame(ROWS), SCHEMA) if p.kind == "unique")
    more = pd.concat([pair.table, pair.table.iloc[[0]].assign(k="zz")], ignore_index=True)
    wrong(monkeypatch)
    # The recorded table has the new value: that it passes a threshold shows in this direction.
    result = draft(texts(more), texts(pair.table))
    assert not result.passes
    assert (result.first_difference or "").startswith(message), result.first_difference
