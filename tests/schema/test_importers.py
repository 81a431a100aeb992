"""Schemas from files of other programs: small files as these programs write them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabsynth import InputError
from tabsynth.errors import FileFormatError
from tabsynth.schema.column import KINDS
from tabsynth.schema.editing import Edit
from tabsynth.schema.importers import import_schema


def write(folder: Path, content: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


DDI = """<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
  <stdyDscr><citation><titlStmt><titl>Survey</titl></titlStmt></citation></stdyDscr>
  <dataDscr>
    <var ID="V1" name="AGE" intrvl="contin" dcml="0">
      <labl>Age in years</labl>
      <valrng><range UNITS="INT" min="15" max="99"/></valrng>
      <sumStat type="max">97</sumStat>
    </var>
    <var ID="V2" name="MARST" intrvl="discrete">
      <labl>Marital status</labl>
      <catgry><catValu>1</catValu><labl>Married</labl><catStat type="freq">412</catStat></catgry>
      <catgry><catValu>2</catValu><labl>Single</labl></catgry>
      <catgry missing="Y"><catValu>9</catValu><labl>Refused</labl></catgry>
    </var>
    <var ID="V3" name="TEXT"><labl>Remarks</labl></var>
  </dataDscr>
</codeBook>
"""


def test_ddi(tmp_path: Path) -> None:
    path = write(tmp_path, DDI, "survey.xml")
    with pytest.raises(InputError, match="1 of 3 columns: 'TEXT': no list of values"):
        import_schema(path)
    schema = import_schema(path, Edit(drop=["TEXT"]))
    assert schema["AGE"].to_dict()["low"] == 15 and schema["AGE"].to_dict()["high"] == 99
    assert schema["MARST"].categories == (1, 2) and schema["MARST"].label(0) == "Married"
    assert schema["MARST"].nulls and schema.names_left_out == ("TEXT",)
    assert "412" not in schema.to_json() and "97" not in schema.to_json()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(encoding: str, tmp_path: Path) -> None:
    bomb = '<!DOCTYPE codeBook [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><codeBook>&b;</codeBook>'
    (tmp_path / "b.xml").write_bytes(bomb.encode(encoding))
    with pytest.raises(FileFormatError):
        import_schema(tmp_path / "b.xml")
    if encoding == "utf-8":
        with pytest.raises(FileFormatError, match="document type declaration"):
            import_schema(tmp_path / "b.xml")


CODEBOOK = """name;kind;dtype;values;low;high;nulls;clip;label
sex;;str;f=female|m=male;;;no;;Sex at birth
age;numeric;int64;;0;120;no;yes;Age in years
edu;ordinal;;1=none|2=school|3=university;;;yes;;
bmi;;;;10.5;70;yes;;
"""


def test_codebook_in_csv(tmp_path: Path) -> None:
    schema = import_schema(write(tmp_path, CODEBOOK, "codebook.csv"))
    assert schema.names == ("sex", "age", "edu", "bmi") and schema.drafted == ()
    assert schema["sex"].label(0) == "female" and schema["sex"].dtype == "str"
    assert schema["age"].to_dict()["clip"] is True and schema["age"].description == "Age in years"
    assert schema["edu"].dtype == "Int64" and schema["edu"].kind == "ordinal"
    assert schema["bmi"].dtype == "float64" and schema["bmi"].nulls
    assert {c.source for c in schema.columns} == {"codebook.csv"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,kind,colour\na,numeric,red\n", "unknown or repeated header 'colour'"),
        ("name,kind\na,nominal\n", "row 2: kind 'nominal' is none of"),
        ("name,values,nulls\na,x|y,perhaps\n", "expected nulls to be yes or no, got 'perhaps'"),
        ("name,values\n,x\n", "row 2: the column has no name"),
        ("name,values,other\na,x|y,z\n", "other 'z' is none of its values"),
        ("name,low\na,1,2\n", "row 2: more cells than headers"),
        ("name,low,high\na,9,1\nb,x,y\n", "2 of 2 columns: column 'a': low=9 is above high=1"),
        ("name,values\na,x|x\n", "'x' is listed twice"),
        ("one line", "is of no format that can be imported"),
        ('{"a": 1}', "is of no format that can be imported"),
        ("[]", "is of no format that can be imported"),
        (
            '{"METADATA_SPEC_VERSION": "V1", "columns": {}}',
            "is of no format that can be imported",
        ),  # SDV
        ("<html/>", "is of no format that can be imported"),
        ("<a", "not valid XML"),
        ('{"fields": []}', "is of no format that can be imported"),  # frictionless
        ('{"@context": "csvw", "tableSchema": {}}', "is of no format that can be imported"),
    ],
)
def test_what_cannot_be_imported(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, FileFormatError)) as caught:
        import_schema(write(tmp_path, text, "file.txt"))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def labelled_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"sex": rng.integers(1, 3, 20) * 1.0, "pain": 1.0, "age": 40.0})


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_labelled_files(suffix: str, tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    labels = {"sex": {1: "male", 2: "female"}, "pain": {0: "none", 1: "mild", 9: "refused"}}
    path = tmp_path / f"survey{suffix}"
    if suffix == ".sav":
        pyreadstat.write_sav(
            labelled_table(),
            str(path),
            variable_value_labels=labels,
            column_labels=["Sex", "", ""],
            missing_ranges={"pain": [9]},
            variable_measure={"pain": "ordinal", "age": "scale"},
        )
    else:
        del labels["pain"][9]
        frame = labelled_table().astype({"sex": "int32", "pain": "int32"})
        pyreadstat.write_dta(frame, str(path), variable_value_labels=labels)
    with pytest.raises(InputError, match="1 of 3 columns: 'age': no list"):
        import_schema(path)
    schema = import_schema(path, Edit(facts={"age": {"low": 0, "high": 99}}))
    assert schema["sex"].categories == (1, 2) and schema["sex"].label(1) == "female"
    assert schema["pain"].categories == (0, 1) and schema["sex"].dtype == "Int64"
    assert schema["pain"].kind == ("ordinal" if suffix == ".sav" else "categorical")
    assert schema["age"].source == path.name


def test_labelled_files_need_pyreadstat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyreadstat", None)
    (tmp_path / "x.sav").write_bytes(b"$FL2@(#)")
    with pytest.raises(InputError, match=r"pip install 'tabsynth\[labelled\]'"):
        import_schema(tmp_path / "x.sav")


def test_a_damaged_spss_file(tmp_path: Path) -> None:
    pytest.importorskip("pyreadstat")
    (tmp_path / "x.sav").write_bytes(b"$FL2@(#) damaged")
    with pytest.raises(FileFormatError, match=r"x\.sav cannot be read"):
        import_schema(tmp_path / "x.sav")


def test_missing_files_and_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="No such file"):
        import_schema(tmp_path / "none.json")
    with pytest.raises(InputError, match="has no column 'height'"):
        import_schema(write(tmp_path, DDI), Edit(drop=["height"]))
    assert "numeric" in KINDS
