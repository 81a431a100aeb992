"""The data dictionary of the NIST Diverse Communities Data Excerpts: JSON, an object for each column.

``values`` maps codes to labels. ``min`` and ``max`` among them are bounds; codes beside bounds widen these. A
code whose label begins with "N/A" is a null.
"""

import re
from collections.abc import Iterator, Sequence

from tabsynth._typing import JsonObject
from tabsynth.schema.importers.declaration import Declaration, bound, codes, text_of

NULL_LABEL = re.compile(r"(?i)n/a\b")


def matches(data: object) -> bool:
    """Return whether a JSON value is such a dictionary."""
    items = [*data.values()] if isinstance(data, dict) else []
    return bool(items) and all(
        isinstance(item, dict) and isinstance(item.get("description"), str) for item in items
    )


def null_values(data: JsonObject, where: str) -> Sequence[str]:
    """Return the codes that mean null in some column."""
    labelled = (pair for item in data.values() for pair in _values(item).items())
    return [*dict.fromkeys(code for code, label in labelled if _is_null(label))]


def declarations(data: JsonObject, where: str) -> Iterator[Declaration]:
    """Return what the dictionary states of each column."""
    for name, item in data.items():
        values = _values(item)
        listed = {k: v for k, v in values.items() if k not in ("min", "max") and not _is_null(v)}
        facts: JsonObject = {"description": text_of(item.get("description"))}
        facts["nulls"] = any(map(_is_null, values.values()))
        facts["labels"] = {k: v for k, v in listed.items() if isinstance(v, str)}
        ends = [bound(values.get(end)) for end in ("min", "max")]
        if None not in ends:
            ends += [n for n in (bound(code) for code in listed) if n is not None]
            facts |= {"low": min(ends), "high": max(ends)}
        elif listed:
            facts["categories"] = codes([*listed])
        yield Declaration(name=name, facts=facts)


def _values(item: JsonObject) -> JsonObject:
    values = item.get("values")
    return values if isinstance(values, dict) else {}


def _is_null(label: object) -> bool:
    return isinstance(label, str) and NULL_LABEL.match(label) is not None
