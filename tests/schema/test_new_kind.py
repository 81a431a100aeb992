"""A kind of column that is defined here alone works everywhere: no other module asks for kinds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from record_replay import neighbours
from record_replay.edge_cases import of_kind

from tabsynth import InputError, MargNet, Schema, evaluate, load, read_table, write_table
from tabsynth.drafting.drafts import DRAFTS, draft_schema, review
from tabsynth.drafting.source import DraftSource
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column
from tabsynth.schema.categorical import Ordinal
from tabsynth.schema.column import KINDS, register
from tabsynth.synthesizers.margnet.config import MargNetConfig


def number(month: str) -> int:
    return 12 * int(month[:4]) + int(month[5:]) - 1


def month(code: int) -> str:
    return f"{code // 12}-{code % 12 + 1:02}"


@dataclass(frozen=True, kw_only=True)
class Month(Column):
    """Months as text, such as 2024-03, between two of them; a code for each quarter of a year."""

    kind: str = "month"
    first: str = ""
    last: str = ""

    dtypes: ClassVar[tuple[str, ...]] = ("text",)
    json_types: ClassVar[dict[str, Any]] = {"first": str, "last": str}
    copied_facts: ClassVar[tuple[str, ...]] = ("first", "last")
    ordered: ClassVar[bool] = True

    def _check(self, where: str) -> None:
        if not self.first or number(self.first) > number(self.last):
            raise InputError(f"{where}: declare first and last, in this order.")

    @property
    def cells(self) -> int:
        return (number(self.last) - number(self.first)) // 3 + 1

    def label(self, code: int) -> str:
        return month(number(self.first) + 3 * code) if code < self.cells else super().label(code)

    def domain(self, limit: int = 8) -> str:
        return f"months from {self.first} to {self.last}"

    def _encode(self, values: pd.Series) -> np.ndarray:
        codes = np.empty(len(values), dtype=np.int64)
        for row, text in enumerate(values):
            valid = isinstance(text, str) and re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text)
            if not valid or not self.first <= text <= self.last:
                raise InputError(
                    f"Column {self.name!r}: {text!r} is none of its {self.domain()}; correct it."
                )
            codes[row] = (number(text) - number(self.first)) // 3
        return codes

    def _decode(
        self, codes: np.ndarray, rng: np.random.Generator, within: Any, details: np.ndarray | None
    ) -> pd.Series:
        nulls = codes == self.cells
        drawn = number(self.first) + 3 * codes + np.floor(3 * rng.random(len(codes))).astype(int)
        values = np.array([month(n) for n in np.minimum(drawn, number(self.last))], dtype=object)
        return self.to_series(values, nulls)


@of_kind.register
def _(column: Month, counts: np.ndarray, above: bool) -> dict[str, Any]:
    ends = {"lowest": column.first, "highest": column.last}
    return {"outlier": column.last if above else column.first, **ends}


def draft_month(source: DraftSource) -> Column | None:
    texts = source.values
    if not all(isinstance(v, str) and re.fullmatch(r"\d{4}-\d\d", v) for v in texts):
        return None
    return Month(first=min(texts), last=max(texts), **source.facts)


@pytest.fixture
def registered() -> Iterator[None]:
    register(Month)
    DRAFTS["month"] = draft_month
    yield
    del KINDS["month"], DRAFTS["month"]


def frame(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    quarter = rng.integers(0, 8, rows)
    months = [month(number("2023-01") + 3 * q + rng.integers(3)) for q in quarter]
    colour = np.where(quarter < 4, "red", "blue")
    values = pd.Series(months, dtype="str").where(rng.random(rows) > 0.1)
    return pd.DataFrame({"since": values, "colour": pd.Series(colour, dtype="str")})


COLOUR: dict[str, Any] = {"name": "colour", "kind": "categorical", "dtype": "str"}


@pytest.fixture
def schema(registered: None) -> Schema:
    since = Column(
        name="since", kind="month", dtype="str", nulls=True, first="2023-01", last="2024-12"
    )
    assert isinstance(since, Month) and since.size == 9
    return Schema([since, Column(**COLOUR, categories=("red", "blue"))])


def test_files_and_codes(schema: Schema, tmp_path) -> None:
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    for name in ("table.csv", "table.parquet"):
        write_table(frame(), tmp_path / name, overwrite=True)
        table = read_table(tmp_path / name, schema)
        pd.testing.assert_frame_equal(table, frame())
    encoder = TableEncoder(schema)
    index = encoder.to_index(table)
    assert set(np.unique(index[:, 0])) == set(range(9))
    back = encoder.from_index(index, np.random.default_rng(1))
    np.testing.assert_array_equal(encoder.to_index(back), index)
    with pytest.raises(InputError, match="'2025-01' is none of its months from 2023-01"):
        encoder.to_index(table.assign(since="2025-01"))
    with pytest.raises(InputError, match="column 'm': declare first and last"):
        Column(name="m", kind="month", dtype="str", first="2024-01", last="2023-01")
    with pytest.raises(InputError, match="a column of kind month has no low"):
        Column(name="m", kind="month", dtype="str", first="2024-01", last="2024-01", low=0)


def test_drafts(registered: None) -> None:
    draft = draft_schema(frame())
    assert [column.kind for column in draft.columns] == ["month", "categorical"]
    assert draft["since"].to_dict()["first"] == "2023-01"
    assert draft["since"].facts_from_rows == ("first", "last", "dtype", "nulls")
    assert review(draft)[0].startswith("'since': months from 2023-01 to 2024-12 in this table")


def test_structural_zeros(schema: Schema) -> None:
    since = {"low": "2024-01", "high": "2024-12"}
    zeros = [{"since": since, "colour": ["red"]}, {"since": [None], "colour": ["blue"]}]
    schema = Schema(schema.columns, impossible=zeros)
    table = frame().assign(colour=np.where(frame()["since"] < "2024-01", "red", "blue"))
    with pytest.raises(InputError, match="declares impossible"):
        TableEncoder(schema).to_index(table)
    TableEncoder(schema).to_index(table.dropna())


def test_a_fit_samples_and_reports(schema: Schema, tmp_path) -> None:
    table = frame()
    config = MargNetConfig(steps=60)
    model = MargNet(schema, epsilon=20.0, config=config, random_state=0).fit(table)
    model.save(tmp_path / "model.tsyn")
    sample = load(tmp_path / "model.tsyn").sample(500, random_state=1)
    expected = sample.dropna()
    early = expected["since"] < "2024-01"
    # The relation of the table, which independent columns would lack.
    assert ((expected["colour"] == "red") == early).mean() > 0.8
    late = model.sample(50, random_state=1, where={"since": {"low": "2024-01", "high": "2024-12"}})
    assert late["since"].between("2024-01", "2024-12").all()
    report = evaluate(table[:200], sample, table[200:], schema=schema)
    (marginal,) = (m for m in report.evaluation.columns if m.column == "since")
    assert marginal.kind == "month" and marginal.labels[:2] == ("2023-01", "2023-04")
    assert marginal.distance < 0.15
    report.to_html(tmp_path / "report.html")
    assert "since" in (tmp_path / "report.html").read_text("utf-8")


def test_neighbours_of_an_audit(schema: Schema) -> None:
    ends = {pair.kind: pair for pair in neighbours(frame(40), schema) if pair.change == "added"}
    added = ends["highest"].neighbour["since"].value_counts()["2024-12"]
    assert added == ends["highest"].table["since"].value_counts().get("2024-12", 0) + 1
    assert {"outlier", "lowest", "highest", "null", "copy"} <= set(ends)


def test_what_registration_refuses() -> None:
    class Unfinished(Column):
        kind = "unfinished"

    with pytest.raises(TypeError, match="Unfinished must define _check, cells, label"):
        register(Unfinished)

    class Again(Ordinal):
        kind = "ordinal"

    with pytest.raises(InputError, match="column kind 'ordinal' exists"):
        register(Again)
    assert KINDS["ordinal"] is Ordinal and "unfinished" not in KINDS
