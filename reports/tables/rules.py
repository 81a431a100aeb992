"""The 24 columns of the census excerpts with the rules of their data dictionary."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from tables import census_24, data_file

from tabsynth import Numeric, Ordinal, Schema
from tabsynth.schema import Column

OTHERS = ("census_national_2018", "census_ma_2018", "census_ma_2019")
# In the dictionary's words: "N/A (less than 15 years old)" and the like; a code is null exactly where it says so.
NULL_BELOW = {
    "MSP": 15,
    "PINCP": 15,
    "PINCP_DECILE": 15,
    "DPHY": 5,
    "DREM": 5,
    "EDU": 3,
    "INDP": 16,
}


def pairs(source: str, target: str) -> list[list[Any]]:
    """The values of a column that follow from another one, in the three other public files."""
    tables = [
        pd.read_csv(data_file(f"{name}.csv"), dtype=str, keep_default_na=False) for name in OTHERS
    ]
    both = pd.concat(tables)[[source, target]].drop_duplicates()
    assert both[source].is_unique, (source, target)
    return both.to_numpy().tolist()


def numbers(schema: Schema) -> Schema:
    """NOC and NPF as numbers, so that they have an order."""
    columns: list[Column] = []
    for column in schema.columns:
        if column.name in ("NOC", "NPF"):
            least, most = (0, 19) if column.name == "NOC" else (2, 20)
            columns.append(
                Ordinal(
                    name=column.name,
                    dtype="Int64",
                    nulls=True,
                    categories=tuple(range(least, most + 1)),
                    source=column.source,
                )
            )
        else:
            columns.append(column)
    return Schema(columns, schema.null_values)


def dictionary_rules(schema: Schema) -> list[dict[str, Any]]:
    """The rules, without those of columns that the schema lacks."""
    density = {
        puma: float(value)
        for name in ("census_national_2018", "census_national_2019")
        for puma, value in pd.read_csv(data_file(f"{name}.csv"), dtype=str)[["PUMA", "DENSITY"]]
        .drop_duplicates()
        .to_numpy()
    }
    industries: Mapping[str, str] = dict(pairs("INDP", "INDP_CAT"))
    known = schema["INDP"].categories
    table = [[code, industries[code]] for code in known if code in industries]
    rules: list[dict[str, Any]] = [
        {
            "derive": "DENSITY",
            "from": "PUMA",
            "table": [[p, density[p]] for p in schema["PUMA"].categories],
        },
        {"derive": "INDP_CAT", "from": "INDP", "table": [*table, ["other", None], [None, None]]},
        {"order": ["NOC", "NPF"], "strict": True},
        {"if": {"OWN_RENT": [0]}, "then": {"HOUSING_TYPE": ["2", "3"]}},
        {"if": {"HOUSING_TYPE": ["2", "3"]}, "then": {"OWN_RENT": [0]}},
        {"if": {"HOUSING_TYPE": ["2", "3"]}, "then": {"NPF": [None], "NOC": [None]}},
    ]
    for name, age in NULL_BELOW.items():
        rules.append({"if": {"AGEP": {"low": 0, "high": age - 1}}, "then": {name: [None]}})
    for name in ("MSP", "PINCP", "PINCP_DECILE", "DPHY", "DREM", "EDU"):
        old = {"AGEP": {"low": NULL_BELOW[name], "high": 99}}
        column = schema[name]
        some = (
            {"low": column.low, "high": column.high}  # type: ignore[attr-defined]
            if isinstance(column, Numeric)
            else list(column.categories)
        )
        rules.append({"if": old, "then": {name: some}})
    return rules


def census() -> Schema:
    """All columns, with the rules; real rows that break one are repaired or left out."""
    plain = numbers(census_24())
    return Schema(
        plain.columns, plain.null_values, constraints=dictionary_rules(plain), violations="repair"
    )
