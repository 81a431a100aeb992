"""Schemas and budgets that cannot be used: one line, exit code 2, nothing written."""

import json

import numpy as np
import pandas as pd
import pytest
from command_lines import refused

COLUMNS = [
    {"name": "a", "kind": "categorical", "dtype": "str", "categories": ["x", "y", "z"]},
    {"name": "n", "kind": "numeric", "dtype": "int64", "low": 0, "high": 99},
    {"name": "m", "kind": "numeric", "dtype": "int64", "low": 200, "high": 299},
    {"name": "d", "kind": "date", "dtype": "str", "low": "2020-01-01", "high": "2021-12-31"},
]
ALL = ["x", "y", "z"]
TREE = {"name": "a", "kind": "hierarchy", "dtype": "str", "parents": {"x": "y", "y": "z", "z": "x"}}
DERIVED = {"name": "b", "kind": "categorical", "dtype": "str", "categories": ["u", "v"]}
TWICE = [["x", "u"], ["x", "v"], ["y", "u"], ["z", "v"]]
NEVER = {"if": {"a": ALL}, "then": {"n": {"low": 0, "high": 10}}}
ALWAYS = {"if": {"a": ALL}, "then": {"n": {"low": 50, "high": 60}}}


def schema(columns=(), **facts):
    """A declared schema, some of whose columns are replaced."""
    named = {c["name"]: c for c in (*COLUMNS, *columns)}
    listed = [{**column, "provenance": "declared"} for column in named.values()]
    return json.dumps({"format": "tabsynth-schema/1", "columns": listed, **facts})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, rows, path = np.random.default_rng(0), 200, tmp_path_factory.mktemp("contradictions")
    days = pd.date_range("2020-01-01", periods=rows).strftime("%Y-%m-%d")
    numbers = {"n": rng.integers(0, 99, rows), "m": rng.integers(200, 299, rows)}
    table = pd.DataFrame({"a": rng.choice(ALL, rows), **numbers, "d": days})
    table.to_csv(path / "t.csv", index=False)
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (schema(constraints=[NEVER, ALWAYS]), "they contradict each other"),
        (schema(constraints=[{"order": ["m", "n"]}]), "allow no values with m <= n"),
        (schema(constraints=[{"order": ["n", "n"]}]), "two or more different columns"),
        (schema(constraints=[{"if": {"n": {"low": 1}}, "then": {"m": [1]}}]), "expected a range with low and high"),
        (schema([DERIVED], constraints=[{"derive": "b", "from": "a", "table": TWICE}]), "'x' two values, u and v"),
        (schema([TREE]), "'x' is above itself"),
        (schema([{**COLUMNS[3], "low": "2020-02-31"}]), "'2020-02-31' is no date"),
        (schema([{**COLUMNS[3], "low": "2020-12-31", "high": "2020-01-01"}]), "column 'd'"),
    ],
)  # fmt: skip
def test_contradictions_of_a_schema(folder, text, says):
    (folder / "s.json").write_text(text)
    refused("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "-o", "m", cwd=folder, says=says)


def test_dates_out_of_range_are_listed(folder):
    (folder / "s.json").write_text(schema([{**COLUMNS[3], "low": "2020-07-01"}]))
    words = ("schema", "check", "t.csv", "s.json")
    refused(*words, cwd=folder, says="does not fit")


def test_a_budget_too_small_for_a_draft(folder):
    says = "raise epsilon, or declare a schema"
    refused("fit", "t.csv", "--epsilon", 0.001, "-o", "m", cwd=folder, says=says)
    refused("schema", "draft", "t.csv", "--epsilon", 0.001, "-o", "s", cwd=folder, says=says)
