"""Samples that are written to Parquet in parts, as they are drawn."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fitted_tables import frame, small_acgan

from tabsynth import InputError, MargNet, Schema, load, read_table, verify
from tabsynth.schema import Column
from tabsynth.synthesizers import estimator, sampling
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimator import MargNetModel
from tabsynth.tables.parquet_files import write_parquet_parts

SCHEMA = Schema(
    [
        Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
        Column(name="age", kind="numeric", dtype="int64", low=0, high=99),
        Column(name="wage", kind="numeric", dtype="Int64", low=0, high=500, nulls=True),
        Column(name="share", kind="numeric", dtype="float64", low=0, high=1, nulls=True),
        Column(name="level", kind="ordinal", dtype="category", categories=("low", "mid", "high")),
        Column(name="born", kind="date", dtype="datetime64[ms]", low="2000-01-01", high="2009-12-31"),
        Column(name="works", kind="categorical", dtype="boolean", categories=(False, True), nulls=True),
        Column(name="years", kind="numeric", dtype="int64", low=0, high=99),
    ],
    constraints=[{"order": ["years", "age"]}],
)  # fmt: skip


def people(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, n)
    born = pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 3650, n), "D")
    levels = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    return pd.DataFrame(
        {
            "sex": pd.Series(rng.choice(["f", "m"], n, p=[0.8, 0.2]), dtype="str"),
            "age": age,
            "wage": pd.Series(rng.integers(0, 501, n), dtype="Int64").mask(rng.random(n) < 0.2),
            "share": np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
            "level": pd.Series(rng.choice(["low", "mid", "high"], n)).astype(levels),
            "born": pd.Series(born).astype("datetime64[ms]"),
            "works": pd.Series(rng.random(n) < 0.5, dtype="boolean").mask(rng.random(n) < 0.1),
            "years": (age * rng.random(n)).astype(np.int64),
        }
    )


@pytest.fixture(scope="module")
def model() -> MargNet:
    config = MargNetConfig(components=50, latent_dim=5, hidden=(16,), steps=60)
    return MargNet(SCHEMA, epsilon=20.0, random_state=0, config=config).fit(people(3000))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "MIN_ROWS", 500)
    monkeypatch.setattr(sampling, "STREAMED", 500)
    monkeypatch.setattr(estimator, "STREAMED", 500)


def test_a_part_is_a_group_of_rows(model: MargNet, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    certificate = model.sample_to(path, 1_801, random_state=1)
    file = pq.ParquetFile(path)
    lengths = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert lengths == [451, 450, 450, 450]
    assert verify(path).consistent and certificate.exists()
    model.sample_to(tmp_path / "u.parquet", 1_801, random_state=1)
    assert pq.read_table(tmp_path / "u.parquet").equals(pq.read_table(path))
    model.sample_to(tmp_path / "u.parquet", 1_801, random_state=2, overwrite=True)
    assert not pq.read_table(tmp_path / "u.parquet").equals(pq.read_table(path))


def test_the_rows_are_those_of_the_model(model: MargNet, tmp_path: Path) -> None:
    """Same dtypes as of a table that is drawn at once, rules hold, and shares agree within sampling error."""
    path, n = tmp_path / "t.parquet", 4_000
    model.sample_to(path, n, random_state=1)
    table, whole = pd.read_parquet(path), model.sample(n, random_state=2)
    assert table.dtypes.to_dict() == whole.dtypes.to_dict() and len(table) == n
    assert (table["years"] <= table["age"]).all()
    encoder = model.model_.encoder
    one, other = (encoder.to_index(t) for t in (read_table(path, SCHEMA), whole))
    for j, size in enumerate(SCHEMA.learned.sizes):
        shares = [np.bincount(index[:, j], minlength=size) / n for index in (one, other)]
        spread = np.sqrt(shares[1] * (1 - shares[1]) / n) + 3 / n
        assert (np.abs(shares[0] - shares[1]) < 6 * spread).all(), SCHEMA.learned.names[j]
    first = table.iloc[: n // 8]["sex"].value_counts(normalize=True)["f"]
    assert abs(first - (table["sex"] == "f").mean()) < 0.05  # every part is of the whole model


def test_small_tables_and_conditions_are_as_ever(model: MargNet, tmp_path: Path) -> None:
    for n, options in ((400, {}), (600, {"where": {"sex": "m"}})):
        model.sample_to(tmp_path / "t.parquet", n, random_state=1, overwrite=True, **options)
        whole = model.sample(n, random_state=1, **options)
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), whole)


def test_a_model_file_streams_the_same_rows(model: MargNet, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    for made, name in ((model, "a"), (load(tmp_path / "m"), "b")):
        made.sample_to(tmp_path / f"{name}.parquet", 600, random_state=5)
    tables = [pd.read_parquet(tmp_path / f"{name}.parquet") for name in "ab"]
    pd.testing.assert_frame_equal(*tables)


def test_what_fails_leaves_no_file(
    model: MargNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = []

    def failing(generator: Any, rows: int, rng: Any) -> np.ndarray:
        parts.append(rows)
        if len(parts) == 3:
            raise KeyboardInterrupt
        return model.model_.sampler(None)[0](rows, rng)

    draw = model.model_.sampler(None)[0]
    monkeypatch.setattr(
        MargNetModel, "stream_sampler", lambda self: lambda rows, rng: failing(draw, rows, rng)
    )
    with pytest.raises(KeyboardInterrupt):
        model.sample_to(tmp_path / "t.parquet", 4_000)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="Expected formulas"):
        model.sample_to(tmp_path / "t.parquet", 4_000, formulas="run")
    with pytest.raises(InputError, match="sep="):
        model.sample_to(tmp_path / "t.parquet", 600, sep=";")


def test_types_are_those_of_the_column_though_the_first_part_has_nulls_alone(
    tmp_path: Path,
) -> None:
    def parts() -> Iterator[pd.DataFrame]:
        for value in (None, "a"):
            yield pd.DataFrame({"text": pd.Series([value, None], dtype=object), "n": [1, 2]})

    write_parquet_parts(parts(), tmp_path / "t.parquet")
    assert pd.read_parquet(tmp_path / "t.parquet")["text"].fillna("").tolist() == ["", "", "a", ""]
    mixed = (pd.DataFrame({"x": pd.Series([v], dtype=object)}) for v in (1, "a"))
    with pytest.raises(InputError, match="cannot be written as Parquet") as error:
        write_parquet_parts(mixed, tmp_path / "u.parquet")
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("label", [False, True])
def test_rows_of_a_class_are_of_that_class_whatever_its_value(tmp_path: Path, label: bool) -> None:
    """A label that is False is a condition too; such a file is not written in parts."""
    fitted = small_acgan(class_column="b").fit(frame(60))
    fitted.sample_to(tmp_path / "made.parquet", 600, where={"b": label})
    assert set(pq.read_table(tmp_path / "made.parquet")["b"].to_pylist()) == {label}
