"""Write the JSON Schema of schema files, which tabsynth ships for editors: python docs/reference/json_schema.py.

It says what ``tabsynth/schema/schema_file.py`` checks, with the descriptions of the facts of each kind of column. A test
fails if the file and the code differ.
"""

import json
import re
from pathlib import Path

import tabsynth.schema
from tabsynth._typing import JsonObject
from tabsynth.schema.column import KINDS, Column
from tabsynth.schema.schema_file import REQUIRED, TOP_LEVEL, column_schema

PUBLISHED = Path(tabsynth.schema.__file__).with_name("schema-file.schema.json")


def json_schema() -> JsonObject:
    """Return the JSON Schema (2020-12) of schema files with columns of the registered kinds."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tabsynth schema file",
        "type": "object",
        "required": ["format", "columns"],
        "additionalProperties": False,
        "properties": {
            # Editors write it into files that name their JSON Schema.
            "$schema": {"type": "string"},
            **TOP_LEVEL,
            "columns": {
                "type": "array",
                "minItems": 1,
                "description": "The columns of the table, in order.",
                "items": {
                    "type": "object",
                    "required": [*REQUIRED],
                    "properties": {"kind": {"enum": [*KINDS]}},
                    "allOf": [
                        {
                            "if": {"properties": {"kind": {"const": kind}}},
                            "then": {"$ref": f"#/$defs/{kind}"},
                        }
                        for kind in KINDS
                    ],
                },
            },
        },
        "$defs": {kind: described(kind) for kind in KINDS},
    }


def described(kind: str) -> JsonObject:
    """Return the JSON Schema of the columns of a kind, with descriptions."""
    form = column_schema((kind,))
    for name, text in descriptions(KINDS[kind]).items():
        if name in form["properties"]:
            form["properties"][name]["description"] = text
    return form


def descriptions(kind: type[Column]) -> dict[str, str]:
    """Return the text of each parameter in the numpydoc sections of a kind and the classes that it extends."""
    out: dict[str, str] = {}
    for of in reversed([base for base in kind.__mro__ if issubclass(base, Column)]):
        section = re.search(r"Parameters\n +-+\n(.*?)(\n *\n|\Z)", of.__doc__ or "", re.DOTALL)
        if section is None:
            continue
        lines = section[1].split("\n")
        margin = min(len(line) - len(line.lstrip()) for line in lines)
        names: list[str] = []
        for line in lines:
            if line[margin : margin + 1] not in ("", " "):
                names = [name.strip() for name in line.partition(":")[0].split(",")]
                out.update(dict.fromkeys(names, "") if names else {})
            else:
                for name in names:
                    out[name] = f"{out[name]} {line.strip()}".strip()
        for name in [name for name, text in out.items() if text.startswith("As of")]:
            del out[name]
    return {name: text.replace("``", "").replace(":class:", "") for name, text in out.items()}


if __name__ == "__main__":
    PUBLISHED.write_text(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", "utf-8")
