"""Fits of GANs and PATE from tables that outgrow memory: the fit of the rows in memory, and files that nobody else reads."""

import os
import tempfile
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from engine_tables import ENGINE_SCHEMA, some_rows
from fitted_tables import SCHEMA, frame, small, small_acgan, small_dpgan, small_pate
from record_replay import units_of

from tabsynth import BudgetError, InputError, Schema
from tabsynth.design import NO_DESIGN, Design
from tabsynth.encoding import TableEncoder
from tabsynth.encoding import rows as rows_module
from tabsynth.encoding.rows import Records, Rows, codes_of, store_records, weights_of
from tabsynth.errors import TabsynthError
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.noise import counts
from tabsynth.synthesizers.pate import rounds
from tabsynth.tables import ParquetCounter, RowCounter, batch_counter, frames
from tabsynth.tables.frames import table_from_arrow
from tabsynth.training.private_step import CodedInputs

torch.set_num_threads(1)
FITS: dict[str, Any] = {
    "dp-wgan": lambda schema: small(schema, rate=0.2, random_state=3),
    "dp-gan": lambda schema: small_dpgan(schema, rate=0.2, random_state=3),
    "pate-gan": lambda schema: small_pate(schema, random_state=3),
    "networks": lambda schema: small_pate(schema, teachers="networks", random_state=3),
}


@pytest.fixture
def few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (frames, "PART_ROWS"),
        (batch_counter, "BATCH_ROWS"),
        (counts, "COUNTED_ROWS"),
        (rounds, "CHUNK_ROWS"),
    ):
        monkeypatch.setattr(module, name, 70)


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
@pytest.mark.usefixtures("few_rows_at_a_time")
def test_the_same_seed_gives_the_same_fit(name: str, tmp_path: Path) -> None:
    """To the bit, in memory, from Parquet, from DuckDB and from Polars."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table = some_rows(300)
    pq.write_table(table, tmp_path / "t.parquet")
    memory = table_from_arrow(table)
    memory = memory.assign(**{c.name: c.convert(memory[c.name]) for c in ENGINE_SCHEMA.columns})
    sources = {
        "Parquet": ParquetCounter(tmp_path / "t.parquet"),
        "DuckDB": duckdb.connect().read_parquet(str(tmp_path / "t.parquet")),
        "Polars": polars.scan_parquet(tmp_path / "t.parquet"),
    }
    first = FITS[name](ENGINE_SCHEMA).fit(memory)
    for source, rows in sources.items():
        other = FITS[name](ENGINE_SCHEMA).fit(rows)
        pd.testing.assert_frame_equal(other.sample(50), first.sample(50), obj=source)
        assert other.certificate()["mechanisms"] == first.certificate()["mechanisms"], source


@pytest.mark.parametrize("name", ["dp-wgan", "pate-gan"])
def test_weights_and_units_come_along(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a unit are in several parts of the file, and in one of the rows in memory."""
    monkeypatch.setattr(batch_counter, "BATCH_ROWS", 70)
    design: dict[str, Any] = {
        "weight": "w",
        "max_weight": 9.0,
        "unit": "id",
        "max_rows_per_unit": 2,
    }
    schema = Schema(SCHEMA.columns, **design)
    rng = np.random.default_rng(1)
    table = frame(200).assign(w=rng.uniform(0.1, 12, 200), id=rng.integers(0, 70, 200))
    table.to_parquet(tmp_path / "t.parquet")
    fits = [FITS[name](schema).fit(t) for t in (table, ParquetCounter(tmp_path / "t.parquet"))]
    pd.testing.assert_frame_equal(*(model.sample(40) for model in fits))
    assert fits[0].population_ == fits[1].population_


def test_a_unit_has_one_type_in_all_files(tmp_path: Path) -> None:
    """R28: 7 and 7.00 are texts of one unit, which would have the rows of two."""
    kinds = {"a": pa.int64(), "b": pa.decimal128(12, 2)}
    rows = pa.Table.from_pandas(frame(6), preserve_index=False)
    for name, kind in kinds.items():
        pq.write_table(
            rows.append_column("id", pa.array([7] * 6, pa.int32()).cast(kind)),
            tmp_path / f"{name}.parquet",
        )
    schema = Schema(SCHEMA.columns, unit="id", max_rows_per_unit=2)
    with pytest.raises(InputError, match="'id', the unit, holds int64 and decimal"):
        FITS["dp-wgan"](schema).fit(ParquetCounter(tmp_path))


@pytest.mark.parametrize(
    "values",
    [
        (7, 7.0, Decimal("7.00"), np.float32(7)),
        (0.5, Decimal("0.50"), Decimal("5E-1")),
        (True, 1, np.True_),
        (date(2020, 1, 2), datetime(2020, 1, 2), pd.Timestamp("2020-01-02")),
    ],
)
def test_equal_values_are_one_unit(values: tuple[Any, ...]) -> None:
    """R28: whatever type each value has."""
    names = rows_module.names_of(pd.Series(list(values), dtype=object))
    assert len(set(names)) == 1


def test_a_class_head_sees_the_same_rows(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "t.parquet")
    fits = [
        small_acgan(teachers="networks", random_state=1).fit(table)
        for table in (frame(), ParquetCounter(tmp_path / "t.parquet"))
    ]
    pd.testing.assert_frame_equal(*(model.sample(40) for model in fits))


@pytest.mark.usefixtures("few_rows_at_a_time")
def test_an_undeclared_value_costs_nothing(tmp_path: Path) -> None:
    """It is in the last part, after codes of others were written."""
    ProjectLedger.create(tmp_path / "ledger", epsilon=8.0)
    table = frame(200).assign(b="maybe")
    pd.concat([frame(199).astype({"b": str}), table[-1:]]).to_parquet(tmp_path / "t.parquet")
    model = small()
    with pytest.raises(InputError, match="maybe"):
        model.fit(ParquetCounter(tmp_path / "t.parquet"), ledger=tmp_path / "ledger")
    assert not hasattr(model, "ledger_")
    assert ProjectLedger.read(tmp_path / "ledger").share == 0


class Unread(ParquetCounter):
    def parts(self, names: Any) -> Iterator[pd.DataFrame]:
        raise AssertionError("rows were read before the ledger was asked")


def test_no_row_is_read_before_the_ledger_is_asked(tmp_path: Path) -> None:
    ProjectLedger.create(tmp_path / "ledger", epsilon=1.0)
    frame().to_parquet(tmp_path / "t.parquet")
    with pytest.raises(BudgetError):
        small(epsilon=3.0).fit(Unread(tmp_path / "t.parquet"), ledger=tmp_path / "ledger")


class Counts(RowCounter):
    def count(self, columns: tuple[str, ...]) -> Any:
        raise NotImplementedError


def test_what_gives_no_rows_is_refused() -> None:
    with pytest.raises(InputError, match="Counts gives counts and no rows; fit margnet, or"):
        small().fit(Counts())


@pytest.mark.parametrize(("size", "dtype"), [(256, np.uint8), (257, np.uint16)])
def test_codes_are_in_a_file_that_has_no_name(
    size: int, dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes, parts = (
        [],
        [np.array([[0, 1], [size - 1, 2]]), np.array([[3, 0]]), np.zeros((0, 2), int)],
    )
    real = rows_module.TemporaryFile

    def opened() -> Any:
        file = real()
        modes.append(os.fstat(file.fileno()).st_mode & 0o777)
        return file

    monkeypatch.setattr(rows_module, "TemporaryFile", opened)
    records = store_records((Records(part) for part in parts), [size, 3], NO_DESIGN)
    codes = records.codes
    assert isinstance(codes, np.memmap) and codes.dtype == dtype
    np.testing.assert_array_equal(codes, np.concatenate(parts))
    assert set(modes) == {0o600} and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "design",
    [NO_DESIGN, Design(weight="w", max_weight=2.0), Design(unit="u", max_rows_per_unit=2)],
)
def test_no_rows_at_all(design: Design) -> None:
    """An empty file has no part that says whether there are weights and units: the schema does."""
    rows = store_records([], [3, 2], design).within_bound(design, bytes(16))
    assert isinstance(rows, Rows) == bool(design)
    assert codes_of(rows).shape == (0, 2)
    assert (weights_of(rows) is None) == (design.weight is None)
    assert (units_of(rows) is None) == (design.unit is None)


def test_an_empty_file_is_an_empty_table(tmp_path: Path) -> None:
    """R1: so that the fit of one that loses its last unit does not end with an error."""
    table = frame(2).assign(id=7)[:0]
    table.to_parquet(tmp_path / "t.parquet")
    schema = Schema(SCHEMA.columns, unit="id", max_rows_per_unit=2)
    fits = [small(schema, rows=50, random_state=3) for _ in range(2)]
    samples = [
        model.fit(of).sample(20)
        for model, of in zip(fits, (table, ParquetCounter(tmp_path / "t.parquet")), strict=True)
    ]
    pd.testing.assert_frame_equal(*samples)


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(tempfile.SpooledTemporaryFile):  # type: ignore[type-arg]
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(rows_module, "TemporaryFile", Full)
    with pytest.raises(TabsynthError, match="No space left on device; make room, or set TMPDIR"):
        small().fit(frame())


@pytest.mark.parametrize("encoding", ["one-hot", "binary", "ordinal"])
def test_inputs_are_those_of_the_layout(encoding: str) -> None:
    encoder = TableEncoder(SCHEMA, encoding)
    index = encoder.to_index(frame(50))
    whole = torch.from_numpy(encoder.layout.encode(index))
    cpu = torch.device("cpu")
    coded = CodedInputs.of(index.astype(np.uint16), encoder.layout, cpu)
    picked = torch.tensor([[3, 49], [0, 3]])
    assert torch.equal(coded[picked], whole[picked]) and coded.shape == whole.shape
    assert torch.equal(torch.cat([*coded.split(7)]), whole)
    empty = CodedInputs.of(index[:0].astype(np.uint8), encoder.layout, cpu)
    assert [part.shape for part in empty.split(7)] == [part.shape for part in whole[:0].split(7)]
