"""Spreadsheet formulas in CSV files: refused, or escaped and read back as they were."""

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabsynth import InputError, Schema, read_table, write_table
from tabsynth.drafting.drafts import draft_schema, review
from tabsynth.schema import Column
from tabsynth.tables.formulas import _escape, is_formula

SIGNS = "=+-@\t\r\n＝＋－＠"
BEFORE = (" ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\x00", "\x0b", "\x1f", "\u00ad", "\u202e", "\ufe0f", "\u3164", " \ufeff\u200b ")  # fmt: skip
TEXTS = st.text(st.sampled_from(SIGNS + "'a1.(\",;é \u200b\ufeff\u00a0"), min_size=1, max_size=7)


def runs(cell: str) -> bool:
    """By OWASP's list, on each line, after what is invisible; plain numbers and a sign alone apart."""
    if len(cell) > 1 and cell[0] in "\t\r\n":
        return True
    for line in cell.splitlines():
        rest = line.lstrip(" \t\r\n\u200b\ufeff\u00a0")
        if len(rest) > 1 and rest[0] in SIGNS:
            try:
                float(rest)
            except ValueError:
                return True
            if rest[-1].isspace():  # no plain number
                return True
    return False


def a_table(texts: list[Any], dtype: str) -> tuple[pd.DataFrame, Schema]:
    expected = tuple(dict.fromkeys(text for text in texts if text is not None))
    one: dict[str, Any] = {
        "kind": "categorical",
        "nulls": True,
        "categories": expected,
        "dtype": dtype,
    }
    number = Column(name="-n", kind="numeric", dtype="int64", low=-9, high=9)
    schema = Schema([Column(name="=t", **one), number], [""])
    values = pd.Series(texts, dtype="str")
    if dtype == "category":
        values = values.astype(pd.CategoricalDtype(list(expected)))
    return pd.DataFrame({"=t": values, "-n": [-3] * len(texts)}), schema


@pytest.mark.slow
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    texts=st.lists(st.none() | TEXTS, min_size=1, max_size=6).filter(any),
    dtype=st.sampled_from(["str", "category"]),
)
def test_escaped_tables_run_nothing_and_come_back(
    texts: list[Any], dtype: str, tmp_path: Path
) -> None:
    texts = [None if text is not None and not text.strip("\r") else text for text in texts]
    texts = [text and text.replace("\r", "+") for text in texts]  # CSV readers change a lone CR
    if not any(texts):
        return
    table, schema = a_table(texts, dtype)
    path = tmp_path / "t.csv"
    expected = set(texts) - {None}
    if len({_escape(text) for text in expected}) < len(expected):
        with pytest.raises(InputError, match="would be the same when escaped"):
            write_table(table, path, formulas="escape", overwrite=True)
        return
    before = table.copy()
    write_table(table, path, formulas="escape", overwrite=True)
    pd.testing.assert_frame_equal(table, before)  # the caller's table is left alone
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert not any(runs(cell) for row in rows for cell in row)
    assert rows[0] == ["'=t", "'-n"] and {row[1] for row in rows[1:] if row} == {"-3"}
    pd.testing.assert_frame_equal(read_table(path, schema), table)


@pytest.mark.slow
@pytest.mark.parametrize("sign", "=+-@＝＋－＠﹦﹢﹣﹫")
@pytest.mark.parametrize("before", BEFORE, ids=ascii)
def test_invisible_characters_hide_no_formula(sign: str, before: str, tmp_path: Path) -> None:
    text = f"{before}{sign}1+1"
    for cell in (text, f"a\n{text}", f"a\r\n{text}\nb", f"a\u2028{text}"):
        assert is_formula(cell)
        for table in (pd.DataFrame({"a": [cell, "x"]}), pd.DataFrame({cell: [1]})):
            with pytest.raises(InputError, match="would run as a formula") as error:
                write_table(table, tmp_path / "t.csv")
            assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "-5",
        "+1.5e-3",
        "-.5",
        " -5",
        "a\n-5",
        "-",
        "a\n-\nb",
        "a=1",
        "a -b",
        "",
        "1\n2",
        "a b\n c-d",
        "'=1",
    ],
)
def test_plain_texts_are_no_formulas(text: str, tmp_path: Path) -> None:
    assert not is_formula(text)
    write_table(pd.DataFrame({"a": [text, "x"], "n": [-5, -0.5]}), tmp_path / "t.csv")


@pytest.mark.parametrize(
    "texts",
    [
        (" =1+1", "a\n=1+1", "\t5", "a\r\n\ufeff@x\n=y", "\n=1"),
        ("'=x\n=y", "plain"),
        ("=x\n'=y", "'z"),
    ],
)
def test_escaped_lines_come_back(texts: tuple[str, ...], tmp_path: Path) -> None:
    column = Column(name=" =n", kind="categorical", dtype="str", categories=texts)
    table = pd.DataFrame({" =n": pd.Series(texts, dtype="str")})
    write_table(table, tmp_path / "t.csv", formulas="escape")
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert not any(is_formula(cell) for row in rows for cell in row)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv", Schema([column], [])), table)


def test_texts_that_escape_to_one_are_refused(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": ["=x\n=y", "'=x\n=y"]})
    with pytest.raises(InputError, match="would be the same when escaped"):
        write_table(table, tmp_path / "t.csv", formulas="escape")


@pytest.mark.parametrize("sign", SIGNS)
def test_every_sign_is_refused_unless_asked(sign: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [sign + "cmd|' /C calc'!A0", "x"]})
    with pytest.raises(InputError, match=r"Column 'a': .*formulas='escape'"):
        write_table(table, tmp_path / "t.csv")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="Expected formulas to be one of refuse, escape, keep"):
        write_table(table, tmp_path / "t.csv", formulas="yes")


def test_an_apostrophe_that_was_declared_is_kept(tmp_path: Path) -> None:
    one: dict[str, Any] = {"kind": "categorical", "dtype": "str"}
    schema = Schema([Column(name="a", categories=("'=x", "=x", "'y"), **one)])
    (tmp_path / "t.csv").write_text("a\n'=x\n=x\n'y\n")
    assert read_table(tmp_path / "t.csv", schema)["a"].tolist() == ["'=x", "=x", "'y"]
    other = Schema([Column(name="a", categories=("z", "=x"), other="z", **one)])
    assert read_table(tmp_path / "t.csv", other)["a"].tolist() == ["=x", "=x", "'y"]


def test_a_draft_names_the_columns() -> None:
    frame = pd.DataFrame({"a": ["=1+1", "x"] * 10, "b": ["-1", "2"] * 10})
    lines = [line for line in review(draft_schema(frame)) if "formula" in line]
    assert len(lines) == 1 and "'a'" in lines[0] and "'=1+1'" in lines[0]
