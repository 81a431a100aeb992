"""Schema files of version 0.2.0 are read, with the fingerprints that it computed.

``schemas_of_0_2.json`` has files of every kind of column, with reasons for missing, nulls, rules, design and linked tables.
"""

import json
from pathlib import Path

import pytest

from tabsynth import Schema
from tabsynth.schema import LinkedSchema

STORED = json.loads(Path(__file__).with_name("schemas_of_0_2.json").read_text("utf-8"))
KINDS = (
    *("categorical", "ordinal", "numeric", "date", "datetime", "time", "duration", "period"),
    *("hierarchy", "identifier", "text"),
)


@pytest.mark.parametrize("name", STORED)
def test_a_schema_of_0_2_is_read(name: str, tmp_path: Path) -> None:
    path, kind = tmp_path / "schema.json", LinkedSchema if name == "linked" else Schema
    path.write_text(json.dumps(STORED[name]["file"]), "utf-8")
    schema = kind.load(path)
    assert schema.fingerprint() == STORED[name]["fingerprint"]
    schema.save(path, overwrite=True)
    assert kind.load(path).fingerprint() == STORED[name]["fingerprint"]


def test_every_kind_of_0_2_is_stored() -> None:
    columns = [column for stored in STORED.values() for column in stored["file"].get("columns", ())]
    assert {column["kind"] for column in columns} == {*KINDS}
    assert len([column for column in columns if "missing" in column]) > 8
