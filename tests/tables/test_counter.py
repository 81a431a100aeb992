"""Tables that count themselves: the same counts, the same fit, asked only once they are paid for."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from command_lines import make_people, make_schema
from typer.testing import CliRunner

from tabsynth import PATEGAN, BudgetError, InputError, MargNet, Schema, load
from tabsynth.cli import app
from tabsynth.encoding import TableEncoder
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.noise.counts import by_value, count_rows
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables import ParquetCounter, RowCounter

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
        result = pd.read_sql_query(query, self.database)
        return result.assign(**{"in": result["in"].astype(bool)}) if "in" in result else result


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
            result = counter.count_all(SCHEMA, [columns], [groups])[0]
            np.testing.assert_array_equal(result, count_rows(index, columns, groups))


@pytest.mark.slow
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


class Undeclared(SQLCounter):
    """Refused in the middle of a fit, if values were compared with the schema only as they are counted."""

    def __init__(self, table: pd.DataFrame, path: Path) -> None:
        super().__init__(table)
        self.path = path

    def count(self, columns: tuple[str, ...]) -> pd.DataFrame:
        assert ProjectLedger.read(self.path).share == 0  # nothing was charged yet
        return super().count(columns)


def test_undeclared_values_cost_nothing(tmp_path: Path) -> None:
    """R25: one refusal names all columns, before the first charge, whatever counts the rows."""
    path = tmp_path / "project.ledger"
    ProjectLedger.create(path, epsilon=1.0, delta=1e-5)
    table = people().astype({"age": "Int64"})
    table.loc[[3, 77], "sex"] = "unknown"
    table.loc[200, "age"] = 4000
    table.loc[201, "income"] = -1
    folder = tmp_path / "people"
    for counter in (Undeclared(table, path), parquet(table, folder), ParquetCounter(folder)):
        model = MargNet(SCHEMA, epsilon=1.0, config=FEW)
        with pytest.raises(InputError) as error:
            model.fit(counter, ledger=path, checkpoint=tmp_path / "kept")
        for part in ("'sex'", "'unknown'", "'age'", "4000", "'income'"):
            assert part in str(error.value), part
        assert "\n" not in str(error.value) and "Traceback" not in str(error.value)
        project_ledger = ProjectLedger.read(path)
        assert project_ledger.share == 0 and not project_ledger.runs()
        assert not hasattr(model, "ledger_") and not (tmp_path / "kept").exists()


def test_many_problems_are_one_line() -> None:
    class Wrong(RowCounter):
        def count(self, columns: tuple[str, ...]) -> pd.DataFrame:
            return pd.DataFrame({columns[0]: [columns[0] * 2], "n": [1]})

    columns = [
        Column(name=f"c{i}", kind="categorical", dtype="str", categories=("a",)) for i in range(9)
    ]
    with pytest.raises(InputError) as error:
        MargNet(Schema(columns), epsilon=1.0, config=FEW).fit(Wrong())
    assert all(f"'c{i}c{i}'" in str(error.value) for i in range(5))
    assert str(error.value).endswith("And 4 more columns do not fit.") and "\n" not in str(
        error.value
    )


def test_answers_are_told_apart_by_name(tmp_path: Path) -> None:
    """A query may name the columns in another order; but other names are refused."""

    class Reversed(SQLCounter):
        def count(self, columns: tuple[str, ...]) -> pd.DataFrame:
            result = super().count(columns)
            return result[[*result.columns[-2::-1], result.columns[-1]]]

    table = people()
    for columns in ((2, 1), (4, 3, 2)):
        first, other = (
            c.count_all(SCHEMA, [columns])[0] for c in (SQLCounter(table), Reversed(table))
        )
        np.testing.assert_array_equal(first, other)


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
        (pd.DataFrame({"SEX": ["f"], "n": [3]}), "with columns of these names; got ['SEX']."),
        (7, "must be a DataFrame"),
    ],
)
def test_wrong_answers_are_one_line(answer: Any, part: str) -> None:
    with pytest.raises(InputError) as error:
        MargNet(SCHEMA, epsilon=1.0, config=FEW).fit(Answering(answer))
    assert part in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_a_folder_on_the_command_line(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.json")
    parquet(people(), tmp_path / "people")
    out = tmp_path / "m"
    words = ["fit", tmp_path / "people", "--schema", tmp_path / "s.json", "--epsilon", 2, "-o", out]
    words += ["--time-limit", "1s"]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    assert len(load(out).sample(20)) == 20
    out.unlink()
    done = CliRunner().invoke(app, [*map(str, words), "--method", "dp-gan"])
    assert done.exit_code == 0, done.output
    assert len(load(out).sample(20)) == 20
    (tmp_path / "none").mkdir()
    done = CliRunner().invoke(app, [words[0], str(tmp_path / "none"), *map(str, words[2:])])
    assert done.exit_code == 2 and "none holds no .parquet file" in done.output
    (tmp_path / "people" / "z.parquet").write_text("damaged, and longer than a footer")
    done = CliRunner().invoke(app, [*map(str, words), "--overwrite"])
    assert done.exit_code == 2 and "z.parquet" in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_what_cannot_count_or_be_counted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        ParquetCounter(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty holds no \.parquet file"):
        ParquetCounter(tmp_path / "empty")
    with pytest.raises(InputError, match="Answering gives counts and no rows; fit margnet"):
        PATEGAN(SCHEMA, epsilon=1.0).fit(Answering(None))


def test_a_folder_may_hold_other_files(tmp_path: Path) -> None:
    table, folder = people(), tmp_path / "people"
    parquet(table, folder)
    (folder / "readme.txt").write_text("This is no table.")
    for name in ("_temporary", ".hidden", "more"):
        (folder / name).mkdir()
        table.iloc[:10].to_parquet(folder / name / "a:0.parquet", index=False)
    place = SCHEMA.names.index("sex")
    (result,) = ParquetCounter(folder).count_all(SCHEMA, [(place,)])
    codes = SCHEMA["sex"].encode(pd.concat([table, table.iloc[:10]])["sex"])
    assert result.tolist() == np.bincount(codes, minlength=len(result)).tolist()


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    """Those that pyarrow gives to counts, or to the parts of a nested column, too."""
    names = ("count_all", "0", "count", "count_all_sum", "a.b", "a")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, 2, 40) for name in names})
    counter = parquet(table, tmp_path / "named")
    for columns in (names[:3], names[2:5], names[3:]):
        schema = Schema(
            [Column(name=n, kind="numeric", dtype="int64", low=0, high=1) for n in columns]
        )
        result = counter.count_all(schema, [(0, 1, 2)], [by_value(schema.sizes)])[0]
        index = TableEncoder(schema).to_index(table[list(columns)])
        np.testing.assert_array_equal(result, count_rows(index, (0, 1, 2), by_value(schema.sizes)))


def test_files_may_hold_kinds_of_one_value(tmp_path: Path) -> None:
    """Texts as categories, each file with its own; wider numbers; a column of nulls alone."""
    folder = tmp_path / "kinds"
    folder.mkdir()
    parts = [
        people().iloc[:100].query("sex == 'f'").astype({"sex": "category", "age": "int8"}),
        people().iloc[100:200].query("sex == 'm'").astype({"sex": "category"}),
        people().iloc[200:].assign(job=None),
    ]
    for i, part in enumerate(parts):
        part.to_parquet(folder / f"{i}.parquet", index=False)
    counter = ParquetCounter(folder)
    counter.check(SCHEMA)
    table = pd.concat([part.astype(people().dtypes.to_dict()) for part in parts])
    index = TableEncoder(SCHEMA).to_index(table)
    groups = by_value(SCHEMA.sizes)
    for columns in ((0, 1), (2, 0)):
        result = counter.count_all(SCHEMA, [columns], [groups])[0]
        np.testing.assert_array_equal(result, count_rows(index, columns, groups))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="income"), "1.parquet: column 'income' is missing; add it"),
        (lambda t: t.assign(job=[[1]] * len(t)), "1.parquet: column 'job' holds 'list<"),
        (lambda t: t.assign(age="old"), "1.parquet does not fit the files before it"),
    ],
)
def test_a_file_that_does_not_fit_costs_nothing(change: Any, says: str, tmp_path: Path) -> None:
    """A column that is missing in one file is no column of nulls, whatever the schema allows."""
    counter = parquet(people(), tmp_path / "people")
    change(people().iloc[:9]).to_parquet(tmp_path / "people" / "1.parquet", index=False)
    counter, path = ParquetCounter(tmp_path / "people"), tmp_path / "project.ledger"
    ProjectLedger.create(path, epsilon=1.0, delta=1e-5)
    model = MargNet(SCHEMA, epsilon=1.0, config=FEW)
    for given in ({}, {"ledger": path}):
        with pytest.raises(InputError) as error:
            model.fit(counter, **given)
        assert says in str(error.value) and "\n" not in str(error.value)
    assert not hasattr(model, "ledger_") and ProjectLedger(path).share == 0


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(people(), preserve_index=False)
    pq.write_table(table.append_column("age", table["age"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet: .*duplicate field names"):
        ParquetCounter(tmp_path / "t.parquet")


def test_damage_that_is_met_on_reading_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    people().to_parquet(path, index=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(2000) + whole[2004:])
    with pytest.raises(InputError, match=r"Cannot read .*t\.parquet") as error:
        ParquetCounter(path).count_all(SCHEMA, [(0,)])
    assert "\n" not in str(error.value)
