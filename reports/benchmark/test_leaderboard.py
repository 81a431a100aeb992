"""The leaderboard: its schema and rules, its figures, and the page."""

import json
import subprocess
import sys
from unittest.mock import MagicMock

import harness
import leaderboard
import numpy as np
import pandas as pd
import pytest
from benchmark_data import VARIABLE, data_file
from leaderboard import FILES, SCHEMA
from tables import census_rows

from tabsynth import InputError, MargNet
from tabsynth.encoding import TableEncoder
from tabsynth.synthesizers.margnet.config import MargNetConfig

STORED = harness.load_rows(leaderboard.HERE / "leaderboard.json")
ADULT = {"MSP": 15, "PINCP": 15, "PINCP_DECILE": 15, "EDU": 3, "DREM": 5, "DPHY": 5}


def draw_people(count: int) -> pd.DataFrame:
    """Return invented persons that obey the dictionary."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"AGEP": rng.integers(0, 100, count)})
    for column in SCHEMA.columns:
        if column.name not in ("AGEP", "PINCP", "POVPIP"):
            values = [value for value in column.categories if value is not None]
            rows[column.name] = rng.choice(values, count)
    rows["PINCP"], rows["POVPIP"] = rng.integers(-9000, 99_000, (2, count)).clip(0)
    rows["POVPIP"] = rows["POVPIP"].clip(100, 501)
    rows["DENSITY"] = rows["PUMA"].map(densities())
    rows["EDU"] = (
        rows["EDU"].clip(upper=rows["AGEP"] // 5 + 1).clip(upper=4 + 2 * (rows["AGEP"] // 15))
    )
    rows["NOC"], rows["NPF"] = rows["NOC"] % 4, rows["NPF"].clip(6, 12)
    rows["OWN_RENT"] = np.where(rows["HOUSING_TYPE"] == 1, rows["OWN_RENT"].clip(1), 0)
    rows = rows[list(SCHEMA.names)].astype(
        dict.fromkeys((*ADULT, "INDP_CAT", "DVET", "NOC", "NPF", "POVPIP"), "Int64")
    )
    for name, age in (ADULT | {"INDP_CAT": 16, "DVET": 17}).items():
        rows.loc[rows["AGEP"] < age, name] = pd.NA
    rows.loc[rows["HOUSING_TYPE"] > 1, ["NOC", "NPF", "POVPIP"]] = pd.NA
    return rows


def densities() -> dict[str, float]:
    (rule,) = json.loads((leaderboard.HERE / "leaderboard.schema.json").read_text("utf-8"))[
        "constraints"
    ]
    assert (rule["derive"], rule["from"]) == ("DENSITY", "PUMA")
    return rule["table"]


def inconsistent(rows: pd.DataFrame) -> int:
    """Count the rows that have what SDNist calls inconsistencies, as its documentation words them."""
    age, group = rows["AGEP"], rows["HOUSING_TYPE"] > 1
    wrong = [(age < limit) != rows[name].isna() for name, limit in ADULT.items()]
    wrong += [(age < 15) & rows[name].notna() for name in ("DVET", "INDP_CAT")]
    wrong += [(age < 15) & (rows["EDU"] == 12), (age < 5) & (rows["EDU"] > 4)]
    wrong += [group & rows[name].notna() for name in ("NOC", "NPF")]
    wrong += [
        group != (rows["OWN_RENT"] == 0),
        ~group & rows["NOC"].isna(),
        rows["NOC"] >= rows["NPF"],
    ]
    rich = rows["PINCP"] > 300_000
    wrong += [rich & (rows["PINCP_DECILE"] < 2), rich & (rows["POVPIP"] < 100)]
    return int(np.any([each.fillna(False) for each in wrong], axis=0).sum())


def test_no_row_of_a_fit_is_inconsistent():
    people = draw_people(1500)
    assert inconsistent(people) == 0
    config = MargNetConfig(steps=30)
    model = MargNet(SCHEMA, epsilon=0.1, target="PUMA", config=config, random_state=0)
    rows = model.fit(people).sample(3000)
    assert inconsistent(rows) == 0
    assert (rows["DENSITY"] == rows["PUMA"].map(densities())).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"AGEP": 14, "MSP": 1},
        {"AGEP": 40, "MSP": pd.NA},
        {"AGEP": 40, "PINCP": pd.NA},
        {"AGEP": 40, "PINCP_DECILE": pd.NA},
        {"AGEP": 40, "EDU": pd.NA},
        {"AGEP": 40, "DPHY": pd.NA},
        {"AGEP": 40, "EDU": 1, "HOUSING_TYPE": 2},
        {"HOUSING_TYPE": 1, "OWN_RENT": 0},
        {"HOUSING_TYPE": 1, "NOC": pd.NA},
        {"NOC": 4, "NPF": 4},
        {"NOC": 1, "NPF": pd.NA},
        {"PINCP": 400_000, "PINCP_DECILE": 1},
        {"PINCP": 400_000, "POVPIP": 99},
        {"DENSITY": 16.3},
    ],
    ids=str,
)
def test_a_row_that_contradicts_the_dictionary_is_refused(changes):
    people = draw_people(300)
    housed = (people["AGEP"] > 16) & (people["HOUSING_TYPE"] == 1) & (people["DENSITY"] != 16.3)
    row = people[housed].iloc[:1].copy()
    TableEncoder(SCHEMA).to_index(row)
    for name, value in changes.items():
        row[name] = pd.Series([value], index=row.index, dtype=row[name].dtype)
    with pytest.raises(InputError):
        TableEncoder(SCHEMA).to_index(row)


@pytest.mark.data(*FILES)
def test_the_values_are_those_of_the_dictionary_and_the_rules_hold_in_both_years():
    dictionary = json.loads(data_file(FILES[2]).read_text("utf-8"))
    assert {c.name for c in SCHEMA.columns} == set(dictionary) - {"INDP", "PWGTP", "WGTP"}
    for column in SCHEMA.columns:
        values = dictionary[column.name]["values"]
        assert column.nulls == ("N" in values), column.name
        if column.categories and "min" not in values and column.name != "PUMA":
            assert {str(value) for value in column.categories} == set(values) - {"N"}, column.name
    for name in FILES[:2]:
        rows = census_rows(SCHEMA, name)
        TableEncoder(SCHEMA).to_index(rows)
        assert inconsistent(rows) == 0 and len(rows) > 27_000


def test_the_own_score_is_1000_for_the_rows_themselves_and_low_for_other_areas():
    people = draw_people(400)
    assert leaderboard.own_score(people, people.sample(frac=1, random_state=0)) == 1000
    first = sorted(people["PUMA"].unique())[:10]
    parts = [people[people["PUMA"].isin(first) == inside] for inside in (True, False)]
    assert leaderboard.own_score(*parts) == pytest.approx(0, abs=1e-9)


def test_the_excerpt_is_laid_out_as_sdnist_reads_it(tmp_path, monkeypatch):
    for name in (
        "",
        ".report",
        ".load",
        ".metrics",
        ".metrics.inconsistency",
        ".metrics.kmarginal",
        ".utils",
    ):
        monkeypatch.setitem(sys.modules, f"sdnist{name}", MagicMock())
    import sdnist_score

    values = {
        "PUMA": {"01-1": "Here"},
        "DENSITY": {"min": 16.3, "max": 90.7},
        "NOC": {"N": "none", "0": "no children", "min": 1, "max": 19},
        "PINCP": {"N": "a child", "min": -9000, "max": 9},
        "SEX": {"1": "Male", "2": "Female"},
    }
    dictionary = {name: {"values": of} for name, of in values.items()} | {"INDP": {}}
    (tmp_path / "census_data_dictionary.json").write_text(json.dumps(dictionary))
    (tmp_path / "census_national_2019.csv").write_text("PUMA,DENSITY,NOC,PINCP,SEX,INDP\n")
    sdnist_score.lay_out(tmp_path, tmp_path / "root")
    facts = json.loads((tmp_path / "root/national/national2019.json").read_text())["schema"]
    null = {"dtype": "object", "has_null": True, "null_value": "N"}
    assert facts == {
        "PUMA": {"dtype": "object", "values": ["01-1"]},
        "DENSITY": {"dtype": "float64", "min": 16.3},
        "NOC": null | {"values": ["N", "0", "min", "max"]},
        "PINCP": null | {"min": -9000},
        "SEX": {"dtype": "int64", "values": ["1", "2"]},
        "INDP": null | {"values": ["N"]},
    }


def test_the_leaderboard_is_left_out_without_its_files(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    command = [sys.executable, leaderboard.__file__, "--one", "eps1-seed0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (
        done.stdout.strip() == "null" and "The leaderboard is left out. This needs" in done.stderr
    )


def test_the_page_has_means_of_seeds_and_all_inconsistent_rows():
    costs = {"cpu_seconds": 4.2, "sample_seconds": 1.6}
    rows = {
        f"eps1-seed{seed}": {
            "k_marginal": 900.0 + seed,
            "ours": 910.0,
            "inconsistent": seed,
            **costs,
        }
        for seed in range(3)
    }
    rows["fresh"] = {"k_marginal": 920.6, "ours": 921.0, "inconsistent": 0}
    page = leaderboard.page(rows)
    assert "| MargNet, ε = 1 (3 seeds) | 901.0 ± 1.0 | 910.0 ± 0.0 | 3 | 4, 2 | 900 |" in page
    assert "| MargNet, ε = 10 | not measured yet | – | – | – | 950 |" in page
    assert "| other persons: the excerpt of 2018 | 920.6 | 921.0 | 0 | – | – |" in page


def test_the_stored_rows_are_of_21_columns():
    assert set(STORED) <= set(leaderboard.SETTINGS)
    for row in STORED.values():
        assert row["columns"] == 21 and 0 < row["k_marginal"] < 1000
