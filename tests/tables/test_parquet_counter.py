"""Parquet files: many sets of columns in one scan, with the counts of the same rows as category codes."""

import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import InputError, MargNet, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.noise.counts import by_value, count_rows
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables import ParquetCounter, batch_counter

FEW = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=20)
SCHEMA = Schema(
    [
        Column(
            name="a", kind="categorical", dtype="str", categories=("x", "y", "z"), nulls=True, other="z"
        ),
        Column(name="b", kind="categorical", dtype="bool", categories=(False, True)),
        Column(name="c", kind="numeric", dtype="Int64", low=0, high=20, nulls=True, clip=True),
        Column(name="d", kind="numeric", dtype="float64", low=0, high=1, bins=300, clip=True),
        Column(name="e", kind="date", dtype="datetime64[s]", low="2020-01-01", high="2020-12-31", bins=12),
        Column(name="f", kind="categorical", dtype="int64", categories=(-8, 0, 7)),
    ]
)  # fmt: skip
SETS = [
    *((j,) for j in range(6)),
    *itertools.combinations(range(6), 2),
    (3, 1, 0),
    (5, 2, 1),
    (4, 3, 2),
]


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, n), "D")
    return pd.DataFrame(
        {
            "a": pd.Series(rng.choice(["x", "y", "z", "w", None], n), dtype="str"),
            "b": rng.random(n) < 0.3,
            "c": pd.Series(rng.integers(-5, 25, n), dtype="Int64").mask(rng.random(n) < 0.1),
            "d": np.round(rng.random(n), rng.integers(1, 9)),
            "e": pd.Series(days).astype("datetime64[s]"),
            "f": rng.choice([-8, 0, 7], n),
        }
    )


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
    together=st.sampled_from([(1,), (16,), (256,), (2**16,)]),
    batch=st.integers(1, 70),
    cells=st.sampled_from([0, 2**27]),
)
def test_counts_are_those_of_the_codes(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    seed: int,
    together: tuple[int, ...],
    batch: int,
    cells: int,
) -> None:
    """Whatever the files, row groups and batches are, and whichever columns are counted together."""
    folder, parts = tmp_path_factory.mktemp("parts"), [rows(n, seed + n) for n in lengths]
    for i, part in enumerate(parts):
        part.to_parquet(folder / f"{i}.parquet", index=False, row_group_size=25)
    index = TableEncoder(SCHEMA).to_index(pd.concat(parts))
    rng = np.random.default_rng(seed)
    coarse = [np.unique(rng.integers(0, 3, s), return_inverse=True)[1] for s in SCHEMA.sizes]
    groups = [coarse if rng.random() < 0.5 else by_value(SCHEMA.sizes) for _ in SETS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_counter, "BATCH_ROWS", batch)
        patch.setattr(batch_counter, "TOGETHER", together)
        patch.setattr(batch_counter, "MOST_CELLS", cells)
        counter = ParquetCounter(folder)
        for by in (None, groups):
            counted = counter.count_all(SCHEMA, SETS, by)
            for s, of, counts in zip(
                SETS, groups if by else [None] * len(SETS), counted, strict=True
            ):
                wanted = count_rows(index, s, of or by_value(SCHEMA.sizes))
                np.testing.assert_array_equal(counts, wanted)
                assert counts.dtype == np.float64


def folder_of(table: pd.DataFrame, folder: Path) -> ParquetCounter:
    folder.mkdir(exist_ok=True)
    for i, part in enumerate(np.array_split(np.arange(len(table)), 2)):
        table.iloc[part].to_parquet(folder / f"{i}.parquet", index=False)
    return ParquetCounter(folder)


@pytest.mark.slow
def test_the_comparison_with_the_schema_is_the_first_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single columns are not read a second time by a fit, and values are compared with another schema again."""
    counter = folder_of(rows(300, 0), tmp_path / "t")
    scans = list[list[str]]()
    batches = ParquetCounter.batches

    def watched(self: ParquetCounter, names: list[str], *, ordered: bool) -> object:
        scans.append(list(names))
        return batches(self, names)

    monkeypatch.setattr(ParquetCounter, "batches", watched)
    MargNet(SCHEMA, epsilon=1.0, random_state=0, config=FEW).fit(counter)
    # One-way counts with the comparison, sign interactions, joint counts.
    assert len(scans) == 3 and sorted(scans[0]) == list(SCHEMA.names)
    narrow = Schema([Column(name="f", kind="numeric", dtype="int64", low=0, high=1)])
    with pytest.raises(InputError, match=r"'f': (-8|7) is outside"):
        MargNet(narrow, epsilon=1.0, config=FEW).fit(counter)
    singles = [(0,)]
    other = Schema([Column(name="f", kind="numeric", dtype="int64", low=0, high=1, clip=True)])
    by = [by_value(other.sizes)]
    assert counter.count_all(other, singles, by)[0].sum() == 300


@pytest.mark.parametrize("change", ["rewritten", "longer", "gone"])
def test_files_that_change_between_scans_end_the_fit(change: str, tmp_path: Path) -> None:
    table, path = rows(300, 0), tmp_path / "project.ledger"
    counter, file = folder_of(table, tmp_path / "t"), tmp_path / "t" / "1.parquet"
    counter.count_all(SCHEMA, [(j,) for j in range(6)])
    before = file.stat()
    if change == "gone":
        file.unlink()
    else:
        part = pd.read_parquet(file)
        if change == "rewritten":  # every column has the values that it had, in other rows
            part["a"] = part["a"].to_numpy()[::-1]
        else:
            part = pd.concat([part, table.iloc[:50]])
        part.to_parquet(file, index=False)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    says = "Cannot read .*1.parquet" if change == "gone" else "table changed"
    with pytest.raises(InputError, match=says) as error:
        counter.count_all(SCHEMA, [(0, 1)], [by_value(SCHEMA.sizes)])
    assert "\n" not in str(error.value)
    if change != "gone":  # a later fit compares the files as they are now
        ProjectLedger.create(path, epsilon=1.0, delta=1e-5)
        MargNet(SCHEMA, epsilon=1.0, config=FEW).fit(counter, ledger=path)


def test_all_columns_with_wrong_values_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though they are in different batches and files; of each column the first value."""
    monkeypatch.setattr(batch_counter, "BATCH_ROWS", 10)
    table = rows(90, 1).astype({"b": object, "f": "int64"})
    table["b"] = table["b"].astype(str)
    table.loc[70, "b"], table.loc[3, "f"], table.loc[50, "f"] = "perhaps", 1, 2
    counter = folder_of(table, tmp_path / "t")
    with pytest.raises(InputError) as error:
        counter.count_all(SCHEMA, SETS)
    text = str(error.value)
    assert "'b'" in text and "perhaps" in text and "'f': 1 " in text and " 2 " not in text
    assert "\n" not in text


def test_memory_does_not_grow_with_a_group_of_rows(tmp_path: Path) -> None:
    """A file may be one group of rows: it is read by pages."""
    n = 2_000_000
    file = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"f": np.zeros(n, np.int64)}), file, row_group_size=n, use_dictionary=False
    )
    schema = Schema([SCHEMA.columns[5]])
    counter = ParquetCounter(file)
    before = pa.total_allocated_bytes()
    held = [
        pa.total_allocated_bytes() - before for batch in counter.batches(["f"]) if batch.num_rows
    ]
    assert len(held) == 2 and max(held) < 14 * 2**20  # of 16 MB of values
    assert counter.count_all(schema, [(0,)])[0].tolist() == [0.0, n, 0.0]
