"""The shipped tables, their public schemas, and how their sources are recoded."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_data import data_file
from sources import icd9_group, prepare_census, prepare_hospital

from tabsynth import InputError, Schema, write_table
from tabsynth.datasets import load_census, load_hospital
from tabsynth.datasets.shipped import DATA
from tabsynth.encoding import TableEncoder

LOADERS = {"census": load_census, "hospital": load_hospital}


def schema_of(name: str) -> Schema:
    return Schema.load(DATA / f"{name}.schema.json")


@pytest.mark.parametrize(("name", "columns"), [("census", 10), ("hospital", 48)])
def test_schemas_are_public_and_say_whose(name: str, columns: int) -> None:
    schema = schema_of(name)
    assert len(schema.names) == columns and not schema.drafted
    for column in schema.columns:
        assert column.source and column.description, column.name
        assert set(column.labels) <= {str(value) for value in column.categories}
        assert all(column.label(code) for code in range(column.size))
    assert (DATA / f"{name}.schema.json").read_text("utf-8") == schema.to_json()


def test_domains_of_the_census() -> None:
    schema = schema_of("census")
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    assert sizes == {
        "PUMA": 20,
        "AGEP": 100,
        "SEX": 2,
        "MSP": 7,
        "RAC1P": 9,
        "NPF": 20,
        "EDU": 13,
        "INDP_CAT": 20,
        "OWN_RENT": 3,
        "PINCP_DECILE": 11,
    }
    assert [schema["AGEP"].label(code) for code in (0, 57, 99)] == ["0", "57", "99"]
    assert not any(str(area).startswith(("25-", "48-")) for area in schema["PUMA"].categories)
    nullable = {c.name for c in schema.columns if c.nulls}
    assert nullable == {"MSP", "NPF", "EDU", "INDP_CAT", "PINCP_DECILE"}


@pytest.mark.parametrize(
    "changes",
    [
        {"AGEP": 14, "MSP": 1, "PINCP_DECILE": None, "INDP_CAT": None},
        {"MSP": None},
        {"PINCP_DECILE": None},
        {"EDU": None},
        {"AGEP": 15, "INDP_CAT": 3},
        {"AGEP": 4, "MSP": None, "PINCP_DECILE": None, "INDP_CAT": None, "EDU": 5},
        {"OWN_RENT": 0, "NPF": 2},
    ],
)
def test_the_census_refuses_what_its_dictionary_excludes(changes: dict[str, Any]) -> None:
    schema = schema_of("census")
    row = {"PUMA": "24-01004", "AGEP": 40, "SEX": 1, "MSP": 1, "RAC1P": 1, "NPF": 2}
    row |= {"EDU": 5, "INDP_CAT": 3, "OWN_RENT": 1, "PINCP_DECILE": 4}

    def encoded(values: dict[str, Any]) -> np.ndarray:
        table = pd.DataFrame([values]).astype({c.name: c.dtype for c in schema.columns})
        return TableEncoder(schema).to_index(table)

    assert encoded(row).shape == (1, 10)
    with pytest.raises(InputError, match="impossible"):
        encoded(row | changes)


def test_domains_of_the_hospitals() -> None:
    schema = schema_of("hospital")
    assert not {"encounter_id", "patient_nbr"} & set(schema.names)
    assert "None" in schema["A1Cresult"].categories and not schema["A1Cresult"].nulls
    for name, cells in (("num_lab_procedures", 22), ("num_medications", 27)):
        edges = schema[name].edges()
        assert len(edges) - 1 == cells and len(set(np.diff(edges))) == 1
    assert schema["number_emergency"].label(0) == "0" and schema["number_emergency"].size == 77


@pytest.mark.parametrize("name", LOADERS)
def test_shipped_tables_hold_to_their_schema(name: str) -> None:
    if not (DATA / f"{name}.csv").exists():
        pytest.skip(f"data/{name}.csv is not made yet: run data/make.py")
    table, schema = LOADERS[name]()
    assert schema == schema_of(name) and list(table.columns) == list(schema.names)
    assert len(table) == {"census": 10_000, "hospital": 5_000}[name]
    TableEncoder(schema).to_index(table)
    certificate = json.loads((DATA / f"{name}.csv.certificate.json").read_text("utf-8"))
    assert isinstance(certificate, dict)


def test_tables_that_are_not_there_say_where_they_are(tmp_path: Path) -> None:
    for load in LOADERS.values():
        with pytest.raises(InputError, match="is not there; give the folder that holds"):
            load(tmp_path)


def test_tables_load_from_a_folder(tmp_path: Path) -> None:
    schema = schema_of("census")
    rng = np.random.default_rng(0)
    encoder = TableEncoder(schema)
    index = np.stack([rng.integers(size, size=50) for size in schema.sizes], axis=1)
    table = encoder.from_index(index, rng)
    write_table(table, tmp_path / "census.csv")
    schema.save(tmp_path / "census.schema.json")
    result, same = load_census(tmp_path)
    pd.testing.assert_frame_equal(result, table)
    assert same == schema
    write_table(table.rename(columns={"SEX": "GENDER"}), tmp_path / "census.csv", overwrite=True)
    with pytest.raises(InputError, match="lacks column 'SEX'"):
        load_census(tmp_path)


@pytest.mark.parametrize(
    ("codes", "group"),
    [
        ("390 410.71 459 785", "Circulatory"),
        ("460 486 519 786.5", "Respiratory"),
        ("520 577.0 579 787", "Digestive"),
        ("250 250.01 250.83", "Diabetes"),
        ("800 996 999", "Injury"),
        ("710 715 739", "Musculoskeletal"),
        ("580 599 629 788", "Genitourinary"),
        ("140 197 239", "Neoplasms"),
        ("V27 E909 8 1 276 249 251 389 630 784 789 799 240 139 V4561 250x", "Other"),
    ],
)
def test_icd9_groups_of_strack_et_al(codes: str, group: str) -> None:
    assert {icd9_group(code) for code in codes.split()} == {group}
    assert group in schema_of("hospital")["diag_1"].categories


def a_row(schema: Schema) -> dict[str, str]:
    row = {}
    for c in schema.columns:
        row[c.name] = str(c.high if c.kind == "numeric" else c.categories[0])
    return row


def test_hospital_source_is_recoded(tmp_path: Path) -> None:
    schema = schema_of("hospital")
    row = {**a_row(schema), "encounter_id": "1", "patient_nbr": "2", "weight": "?"}
    rows = [
        {**row, "diag_1": "250.83", "diag_2": "?", "diag_3": "V27", "payer_code": "ZZ"},
        {**row, "diag_1": "8", "diag_2": "428", "diag_3": "140", "number_emergency": "200"},
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "source.csv", index=False)
    table = prepare_hospital(tmp_path / "source.csv", schema)
    assert list(table.columns) == list(schema.names)
    assert table["diag_1"].tolist() == ["Diabetes", "Other"]
    assert table["diag_2"].isna().tolist() == [True, False] and table["weight"].isna().all()
    index = TableEncoder(schema).to_index(table)
    column = schema.names.index("payer_code")
    assert schema["payer_code"].categories[index[0, column]] == "OT"
    assert index[1, schema.names.index("number_emergency")] == 76


def test_census_source_is_cut_to_the_schema(tmp_path: Path) -> None:
    schema = schema_of("census")
    row = {**a_row(schema), "WGTP": "3"}
    pd.DataFrame([row, {**row, "EDU": "N"}]).to_csv(tmp_path / "source.csv", index=False)
    table = prepare_census(tmp_path / "source.csv", schema)
    assert list(table.columns) == list(schema.names)
    assert table["EDU"].isna().tolist() == [False, True]
    pd.DataFrame([row]).drop(columns="EDU").to_csv(tmp_path / "source.csv", index=False)
    with pytest.raises(InputError, match="lacks column 'EDU'"):
        prepare_census(tmp_path / "source.csv", schema)


@pytest.mark.parametrize(
    ("name", "file", "prepare"),
    [
        pytest.param(*case, marks=pytest.mark.data(case[1]))
        for case in (
            ("census", "census_national_2019.csv", prepare_census),
            ("census", "census_national_2018.csv", prepare_census),
            ("hospital", "diabetes_hospital_5000.csv", prepare_hospital),
        )
    ],
)
def test_source_tables_encode(name: str, file: str, prepare: Any) -> None:
    schema = schema_of(name)
    index = TableEncoder(schema).to_index(prepare(data_file(file), schema))
    assert (index < np.array(schema.sizes)).all()


def test_make_reads_nothing_of_the_source_into_its_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """data/make.py with a stand-in synthesizer: the sizes written are public, whatever n is."""
    tabsynth = pytest.importorskip("tabsynth")
    calls: list[tuple[Any, ...]] = []

    class StandIn:
        def __init__(self, schema: Schema, *, epsilon: float, delta: float) -> None:
            calls.append((schema.names[0], epsilon, delta))

        def fit(self, table: pd.DataFrame) -> None:
            calls.append(("fit", len(table)))

        def sample_to(self, path: Path, n: int) -> None:
            calls.append((Path(path).name, n))

    monkeypatch.setattr(tabsynth, "MargNet", StandIn, raising=False)
    spec = importlib.util.spec_from_file_location("make", DATA / "make.py")
    assert spec is not None and spec.loader is not None
    make = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "make", make)
    spec.loader.exec_module(make)
    row = a_row(schema_of("census"))
    for n in (3, 7):
        pd.DataFrame([row] * n).to_csv(tmp_path / "census_national_2019.csv", index=False)
        calls.clear()
        status = make.main(["--source", str(tmp_path), "--out", str(tmp_path), "--only", "census"])
        assert status == 0
        assert calls == [("PUMA", 8.0, 1e-5), ("fit", n), ("census.csv", 10_000)]
    assert make.main(["--source", str(tmp_path), "--only", "hospital"]) == 2
