"""A draft does not freeze accidents of one table: next year's table fits it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmark_data import data_file
from command_lines import refused, run

from tabsynth import Schema
from tabsynth.drafting import draft_schema
from tabsynth.drafting.private_schema import draft_private
from tabsynth.encoding import TableEncoder
from tabsynth.schema.conforming import conform
from tabsynth.tables.files import read_any

EXCERPTS = ("census_ma_2018.csv", "census_ma_2019.csv")
MISTYPED = (16020, 14020, 11500, 1420, 1205, 906, -150, 1, 7, 11, 12, 13, 14, 15, 16, 20)


def pressures(rows: int, seed: int = 0) -> pd.DataFrame:
    """Systolic blood pressures as a clinic enters them, heaped, with one typing error in 1,750 rows."""
    rng = np.random.default_rng(seed)
    usual = rng.normal(128, 17, rows).clip(70, 240).round()
    heaped = rng.choice([100, 110, 120, 130, 140, 160, 180], rows)
    values = np.where(rng.random(rows) < 0.7, heaped, usual).astype("int64")
    wrong = rng.permutation(rows)[: rows // 1_750]
    values[wrong] = rng.choice(MISTYPED, len(wrong))
    children = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 11], rows, p=[0.5, 0.2, 0.15, *[0.025] * 6])
    return pd.DataFrame({"ap_hi": values, "NOC": children})


@pytest.mark.slow
def test_neither_a_typing_error_nor_a_gap_is_drafted() -> None:
    table = pressures(35_000)
    assert table["ap_hi"].nunique() > 110 and 16020 in set(table["ap_hi"])
    for schema in (draft_schema(table), draft_private(table, 1.0)):
        for column in schema.columns:
            assert column.kind == "numeric" and column.clip  # type: ignore[attr-defined]
        assert 180 <= schema["ap_hi"].high < 1_000  # type: ignore[attr-defined]
        assert schema["NOC"].low == 0 and 7 <= schema["NOC"].high <= 14  # type: ignore[attr-defined]
        other = pressures(500, seed=1)
        other.loc[0] = [25_000, 8]
        other.loc[1] = [119, 15]
        assert schema.validate(other) == []
        index = TableEncoder(schema).to_index(other)
        assert (index >= 0).all() and index[0, 0] == index[:, 0].max()


def test_a_draft_of_numbers_far_from_others_keeps_them_where_they_are_many() -> None:
    """One row in fifty is no typing error but a code of its own, and the tail of incomes is neither."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "gain": np.where(rng.random(5_000) < 0.02, 9_999, rng.integers(0, 300, 5_000)),
            "income": np.round(rng.lognormal(10, 1.2, 5_000), -2),
        }
    )
    schema = draft_schema(table)
    assert schema["gain"].high == 299  # type: ignore[attr-defined]
    assert [*schema["gain"].missing] == ["9999"]
    assert schema["income"].high >= table["income"].nlargest(10).iloc[-1]  # type: ignore[attr-defined]
    assert not schema["income"].missing


@pytest.mark.slow
@pytest.mark.data(*EXCERPTS)
def test_a_draft_of_2018_takes_the_census_of_2019(tmp_path: Path) -> None:
    """The number of own children in Massachusetts was at most 4 in 2018, but for a few rows, and 5 in 2019."""
    first, second = map(data_file, EXCERPTS)
    run("schema", "draft", first, "--null", "N", "-o", "s.json", cwd=tmp_path)
    assert "fits s.json" in run("schema", "check", second, "s.json", cwd=tmp_path).stdout
    schema = Schema.load(tmp_path / "s.json")
    assert schema["NOC"].kind == "numeric" and schema["INDP"].kind == "ordinal"
    refused("fit", second, "--schema", "s.json", "--epsilon", 1, "-o", "m", cwd=tmp_path,
            says="--accept-drafted-domain")  # fmt: skip
    released = draft_private(read_any(first, ("N",)), 1.0, null_values=("N",))
    table = conform(read_any(second, ("N",)), released)
    assert (TableEncoder(released).to_index(table) >= 0).all()
