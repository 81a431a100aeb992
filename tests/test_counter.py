"""Tables that count themselves: the same counts, the same fit, asked only once they are paid for."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from command_lines import make_people, make_schema
from typer.testing import CliRunner

from tabsynth import (
    PATEGAN,
    BudgetError,
    Column,
    InputError,
    MargNet,
    ParquetCounter,
    ProjectLedger,
    RowCounter,
    load,
)
from tabsynth.cli import app
from tabsynth.counter import count_by
from tabsynth.encoding import TableEncoder
from tabsynth.generators.margnet import MargNetConfig
from tabsynth.privacy.counts import by_value, count_rows

torch.set_num_threads(1)
SCHEMA = make_schema(
    income=Column(name="income", kind="numeric", dtype="float64", low=0, high=9, nulls=True),
    **{"in": Column(name="in", kind="categorical", dtype="bool", categories=(False, True))},
)
FEW = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=20)


def people() -> pd.DataFrame:
    table, rng = make_people(500), np.random.default_rng(0)
    income = np.where(table["age"] < 15, np.nan, np.clip(rng.gamma(2, 1, 500), 0, 9))
    return table.assign(income=income, **{"in": rng.random(500) < 0.3})


class SQLCounter(RowCounter):
    """As a user of a database would write it."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.database = sqlite3.connect(":memory:")
        table.assign(**{"in": table["in"].astype(object)}).to_sql("people", self.database)
        self.asked: list[tuple[str, ...]] = []

    def count(self, columns: tuple[str, ...]) -> pd.DataFrame:
        self.asked.append(columns)
        named = ", ".join(f'"{name}"' for name in columns)
        query = f"SELECT {named}, COUNT(*) FROM people GROUP BY {named}"
        found = pd.read_sql_query(query, self.database)
        return found.assign(**{"in": found["in"].astype(bool)}) if "in" in found else found


def parquet(table: pd.DataFrame, folder: Path) -> ParquetCounter:
    folder.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.iloc[part].to_parquet(folder / f"{i}.parquet", index=False)
    return ParquetCounter(folder)


@pytest.mark.parametrize("columns", [(0,), (3,), (2, 1), (0, 4), (4, 3, 2)])
def test_counts_are_those_of_the_rows(columns: tuple[int, ...], tmp_path: Path) -> None:
    table = people()
    rng = np.random.default_rng(1)
    coarse = [np.unique(rng.integers(0, 3, s), return_inverse=True)[1] for s in SCHEMA.sizes]
    index = TableEncoder(SCHEMA).to_index(table)
    for counter in (SQLCounter(table), parquet(table, tmp_path / "people")):
        for groups in (by_value(SCHEMA.sizes), coarse):
            found = count_by(SCHEMA, counter, columns, groups)
            np.testing.assert_array_equal(found, count_rows(index, columns, groups))


def test_a_fit_to_counts_is_the_fit_to_the_rows(tmp_path: Path) -> None:
    table = people()
    first, *others = (
        MargNet(SCHEMA, epsilon=2.0, random_state=3, config=FEW).fit(rows)
        for rows in (table, parquet(table, tmp_path / "people"), SQLCounter(table))
    )
    for other in others:
        pd.testing.assert_frame_equal(other.sample(50), first.sample(50))
        assert other.certificate()["mechanisms"] == first.certificate()["mechanisms"]


def test_nothing_is_counted_that_is_not_paid_for(tmp_path: Path) -> None:
    counter, path = SQLCounter(people()), tmp_path / "project.ledger"
    ProjectLedger.create(path, epsilon=1.0, delta=1e-5)
    with pytest.raises(BudgetError):
        MargNet(SCHEMA, epsilon=2.0, config=FEW).fit(counter, ledger=path)
    assert counter.asked == []
    MargNet(SCHEMA, epsilon=1.0, config=FEW).fit(counter, ledger=path)
    assert len(counter.asked) >= 10


class Answering(RowCounter):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def count(self, columns: tuple[str, ...]) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (pd.DataFrame({"sex": ["f"]}), "must answer with 2 columns, the last of counts; got 1"),
        (pd.DataFrame({"sex": ["f"], "n": [-1]}), "whole numbers from 0"),
        (pd.DataFrame({"sex": ["f"], "n": [1.5]}), "whole numbers from 0"),
        (pd.DataFrame({"sex": ["f"], "n": ["many"]}), "whole numbers from 0"),
        (pd.DataFrame({"sex": ["x"], "n": [3]}), "'x'"),
        (7, "must be a DataFrame"),
    ],
)
def test_wrong_answers_are_one_line(answer: Any, part: str) -> None:
    with pytest.raises(InputError) as error:
        MargNet(SCHEMA, epsilon=1.0, config=FEW).fit(Answering(answer))
    assert part in str(error.value) and "\n" not in str(error.value)


def test_a_folder_on_the_command_line(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.json")
    parquet(people(), tmp_path / "people")
    out = tmp_path / "m"
    words = ["fit", tmp_path / "people", "--schema", tmp_path / "s.json", "--epsilon", 2, "-o", out]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    assert len(load(out).sample(20)) == 20
    out.unlink()
    done = CliRunner().invoke(app, [*map(str, words), "--method", "dp-gan"])
    assert done.exit_code == 2 and "dp-gan needs rows" in done.output and not out.exists()
    (tmp_path / "none").mkdir()
    done = CliRunner().invoke(app, [words[0], str(tmp_path / "none"), *map(str, words[2:])])
    assert done.exit_code == 2 and "is missing from the counted table" in done.output


def test_what_cannot_count_or_be_counted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        ParquetCounter(tmp_path / "none")
    with pytest.raises(InputError, match="'in' is missing from the counted table"):
        rows = parquet(people().drop(columns="in"), tmp_path / "fewer")
        MargNet(SCHEMA, epsilon=1.0, config=FEW).fit(rows)
    with pytest.raises(InputError, match="pate-gan needs rows; only margnet"):
        PATEGAN(SCHEMA, epsilon=1.0).fit(Answering(None))
