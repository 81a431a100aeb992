"""A certificate in a DataFrame's attrs belongs to the content that was sampled, and to no other."""

import json
import logging
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabsynth.errors import InputError
from tabsynth.privacy.certificate.attached import attach, content_sha256, find_attached, matching
from tabsynth.tables.files import write_table


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "text": pd.Series(["x", "y", None, "x"], dtype="str"),
            "whole": pd.array([1, 2, None, 1], dtype="Int64"),
            "plain": [1, 2, 3, 1],
            "real": [0.5, np.nan, 2.0, 0.5],
            "flag": [True, False, True, True],
            "maybe": pd.array([True, None, False, True], dtype="boolean"),
            "kind": pd.Categorical(["b", "a", None, "b"], categories=["a", "b"]),
            "mixed": pd.Series([1, True, "1", 1], dtype="object"),
        }
    )


def bound() -> pd.DataFrame:
    table = frame()
    attach(table, {"epsilon": 1.0})
    return table


def cell(table: pd.DataFrame, column: str, value: Any) -> pd.DataFrame:
    table.loc[0, column] = value
    return table


EDITS = {
    **{
        f"a cell of {column}": lambda t, c=column, v=value: cell(t, c, v)
        for column, value in (
            *(("text", "y"), ("text", None), ("whole", 7), ("whole", None), ("plain", 2)),
            *(("real", 0.25), ("real", np.nan), ("flag", False), ("maybe", None)),
            *(("kind", "a"), ("kind", None), ("mixed", True), ("mixed", 1.0), ("mixed", "1")),
        )
    },
    "rows in another order": lambda t: t.iloc[[1, 0, 2, 3]],
    "a row less": lambda t: t.iloc[:3],
    "a row more": lambda t: pd.concat([t, t.iloc[:1]]),
    "columns in another order": lambda t: t[[*t.columns[1:], t.columns[0]]],
    "a column less": lambda t: t.drop(columns="real"),
    "a column renamed": lambda t: t.rename(columns={"real": "REAL"}),
    "two names exchanged": lambda t: t.rename(columns={"flag": "maybe", "maybe": "flag"}),
    "another dtype": lambda t: t.astype({"plain": "Int64"}),
    "a narrower dtype": lambda t: t.astype({"plain": "int32"}),
    "texts as categories": lambda t: t.astype({"text": "category"}),
    "other categories": lambda t: t.assign(kind=t["kind"].cat.add_categories("c")),
    "ordered categories": lambda t: t.assign(kind=t["kind"].cat.as_ordered()),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_takes_the_certificate_away(edit: str, caplog: pytest.LogCaptureFixture) -> None:
    """pandas keeps attrs through all of them."""
    changed = EDITS[edit](bound())
    changed.attrs = bound().attrs
    with caplog.at_level(logging.WARNING):
        assert find_attached(changed) is None
    (record,) = caplog.records
    assert "is not used: the columns, dtypes, cells or order of rows" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_what_is_as_it_was_keeps_it(caplog: pytest.LogCaptureFixture) -> None:
    for same in (bound(), bound().copy(), bound().set_axis([9, 8, 7, 6]), bound().iloc[:]):
        result = find_attached(same)
        assert result is not None and result["epsilon"] == 1.0 and result["table"]["rows"] == 4
    assert find_attached(frame()) is None and find_attached([1]) is None
    assert caplog.records == []
    with pytest.raises(InputError, match="'yes'"):
        table = frame()
        table.attrs["certificate"] = "yes"
        find_attached(table)


def test_a_certificate_without_a_hash_is_none(caplog: pytest.LogCaptureFixture) -> None:
    table = frame()
    for unbound in ({"epsilon": 1.0}, {"table": None}, {"table": {"rows": 4, "sha256": "00"}}):
        table.attrs["certificate"] = unbound
        assert find_attached(table) is None
        assert "it has no hash of the table's content" in caplog.records[-1].getMessage()
        # Given by hand it is the caller's word; one that names other content is not taken all the same.
        assert matching(table, unbound) == unbound
    assert matching(table, bound().attrs["certificate"]) is not None
    assert matching(table.iloc[:2], bound().attrs["certificate"]) is None


def test_values_of_other_types_are_other_content() -> None:
    def one(*values: Any, dtype: Any = None) -> str:
        return content_sha256(pd.DataFrame({"x": pd.Series(list(values), dtype=dtype)}))

    hashes = [
        *(one(1), one(1.0), one(True), one("1"), one(1, dtype="object"), one("1", dtype="object")),
        *(one(1, dtype="uint64"), one(2**63, dtype="uint64"), one(-(2**63), dtype="int64")),
        *(one(2**53), one(2**53 + 1), one(float(2**53)), one(0.1), one(0.1, dtype="float32")),
        *(one(), one(dtype="str"), one("a", "b"), one("ab"), one("b", "a"), one("a", "b", "")),
        *(one(None, "a"), one("a", None), one(pd.Timestamp("2020-01-01"))),
        *(one("texts 1"), one("\x00"), one("\x00\x00"), one("", ""), one("")),
    ]
    assert len(set(hashes)) == len(hashes)
    wide = pd.DataFrame([["a", "b"]], columns=["x", "y"])
    assert content_sha256(wide) != content_sha256(wide.set_axis(["xy", ""], axis=1))
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])  # of such a table there is a hash too
    assert content_sha256(twice) != content_sha256(twice.iloc[:, ::-1])


def test_the_hash_is_the_documented_one() -> None:
    """Written anew from docs/reference/certificate.md."""
    table = pd.DataFrame({"n": pd.array([5, None], dtype="Int64"), "t": ["é", "é"]})
    parts = [b"[2, 2]"]
    parts += [b"str n", b"Int64", bytes([0b01000000]), (5).to_bytes(8, "little")]
    codes = bytes(16)
    parts += [b"str t", str(table["t"].dtype).encode(), bytes([0]), b"texts 1", "é".encode(), codes]
    digest = sha256(b"tabsynth-content/1\n")
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    assert content_sha256(table) == digest.hexdigest()


def test_a_hundred_thousand_rows_take_a_moment() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"c{j}": rng.integers(0, 9, 100_000) for j in range(10)})
    table["t"] = rng.choice(["x", "y", "z"], len(table))
    start = time.process_time()
    content_sha256(table)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_hold_no_attrs(suffix: str, tmp_path: Path) -> None:
    """pandas would write them into a Parquet file, as a certificate that nobody signs."""
    table = bound().drop(columns="mixed")
    write_table(table, tmp_path / f"t.{suffix}")
    assert b"epsilon" not in (tmp_path / f"t.{suffix}").read_bytes()
    assert "certificate" in table.attrs


def test_a_sample_is_written_with_its_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An edited table has none, and where no certificate can be written there is no table."""
    sample, edited = bound().drop(columns="mixed"), bound().drop(columns="mixed")
    attach(sample, {"epsilon": 1.0})
    write_table(sample, tmp_path / "sample.csv")
    written = json.loads((tmp_path / "sample.csv.certificate.json").read_text("utf-8"))
    assert written["epsilon"] == 1.0
    assert written["table"] == {
        "file": "sample.csv",
        "sha256": sha256((tmp_path / "sample.csv").read_bytes()).hexdigest(),
        "rows": 4,
    }
    assert caplog.records == []
    write_table(edited, tmp_path / "edited.csv")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    (tmp_path / "no.csv.certificate.json").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        write_table(sample, tmp_path / "no.csv")
    assert not list(tmp_path.glob("edited.csv.*")) and not (tmp_path / "no.csv").exists()
