"""Edits of a schema, and the differences between two schemas."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import one_of, quote
from tabsynth.errors import InputError, TabsynthError
from tabsynth.schema.cells import base_dtype, with_nulls
from tabsynth.schema.column import (
    COPIED,
    KINDS,
    Column,
    fact_names,
    provenance_in_words,
)
from tabsynth.schema.schema import Schema
from tabsynth.schema.schema_file import column_from

DROPPED = "dropped by hand"


@dataclass(frozen=True, kw_only=True)
class Edit:
    """An edit of a schema: columns to drop, facts to state, and what a person declares to be public.

    Parameters
    ----------
    drop : sequence of str
        Columns to leave out: tables may have them, and no synthesizer reads them.
    facts : mapping from str to mapping
        By column: facts as a schema file has them, which take the place of those that it has. Facts that a new kind does
        not have are dropped. Categories may be texts, which are converted to the dtype. With ``nulls`` a dtype that cannot
        hold missing values becomes the one that can.
    declare : sequence of str
        Columns whose facts a person declares to be public. Facts that no edit has stated stay marked as unchanged from a
        draft of the rows.
    source : str, optional
        The public source of the facts that are declared.
    """

    drop: Sequence[str] = ()
    facts: Mapping[str, JsonMapping] = field(default_factory=dict)
    declare: Sequence[str] = ()
    source: str | None = None

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        if self.declare and not self.source:
            raise InputError(
                "Declared facts need a source: name the public document that they are from, such as"
                " source='codebook 2019'."
            )
        for name, facts in self.facts.items():
            if "kind" in facts:
                one_of(f"kind of column {quote(name)}", facts["kind"], KINDS)

    @property
    def names(self) -> set[str]:
        """The columns that the edit names."""
        return {*self.drop, *self.facts, *self.declare}

    def apply(self, facts: JsonMapping) -> JsonObject:
        """Return the facts of a column, as a schema file has them, with the changes of this column."""
        name, stated = facts["name"], dict(self.facts.get(facts["name"], {}))
        out = dict(facts)
        if "kind" in stated:
            names = fact_names(KINDS[stated["kind"]])
            out = {key: value for key, value in out.items() if key in names}
        out |= stated
        if stated.get("nulls") and "dtype" in out:
            out["dtype"] = with_nulls(str(out["dtype"]))
        if {"low", "high"} & set(stated) and out.get("breaks"):
            out["breaks"] = [b for b in out["breaks"] if out["low"] < b <= out["high"]]
        if "categories" in stated:
            out["categories"] = [_in_dtype(v, out.get("dtype")) for v in stated["categories"]]
            if out.get("other") not in out["categories"]:
                out.pop("other", None)
        if name in self.declare:
            out |= {"provenance": "declared", "source": self.source}
        if COPIED in out:
            out[COPIED] = [fact for fact in out[COPIED] if fact not in stated]
        return out


def edit(schema: Schema, change: Edit) -> Schema:
    """Return a schema with changes.

    Raises
    ------
    InputError
        For names that the schema does not have, and for changes that contradict other facts: all in one line.
    """
    unknown = sorted(change.names - {*schema.names, *schema.names_left_out})
    if unknown:
        raise InputError(f"The schema has no column {', '.join(map(quote, unknown))}; correct it.")
    out_already = sorted((change.names - set(schema.names)) - set(change.drop))
    if out_already:
        raise InputError(
            f"The schema leaves out {', '.join(map(quote, out_already))}; declare it among the columns"
            " of the file by hand."
        )
    schema = schema.select([name for name in schema.names if name not in change.drop])
    dropped = [n for n in dict.fromkeys(change.drop) if n not in schema.names_left_out]
    left_out = [*schema.left_out, *({"name": name, "reason": DROPPED} for name in dropped)]
    return schema.replace(columns=_edited_columns(schema, change), left_out=left_out)


def _edited_columns(schema: Schema, change: Edit) -> list[Column]:
    columns, problems = [], []
    for column in schema.columns:
        try:
            columns.append(column_from(change.apply(column.to_dict()), "schema"))
        except TabsynthError as error:
            problems.append(str(error).rstrip("."))
    if problems:
        raise InputError(
            f"The edited schema has {len(problems)} column{'s' * (len(problems) > 1)} that cannot be made: {'; '.join(problems)}."
        )
    return columns


def parse_bounds(text: str) -> tuple[Any, Any]:
    """Return the bounds in ``0..120``; numbers where both are, else texts such as dates."""
    low, dots, high = text.partition("..")
    if not dots or not low.strip() or not high.strip():
        raise InputError(f"Expected bounds like 0..120, got {text!r}.")
    ends = [number(low.strip()), number(high.strip())]
    if None in ends:
        return low.strip(), high.strip()
    return ends[0], ends[1]


def parse_values(text: str) -> list[str]:
    """Return the values in ``f,m``; one with a comma is in double quotes."""
    values = [value.strip() for value in next(csv.reader([text], skipinitialspace=True), [])]
    if not values:
        raise InputError(f"Expected values like f,m, got {text!r}.")
    return values


def number(text: str) -> int | float | None:
    """Return a text as a whole number or a float; None if it is neither."""
    for kind in (int, float):
        try:
            value = kind(text)
        except (ValueError, OverflowError):
            continue
        return value if "_" not in text and value - value == 0 else None
    return None


def _in_dtype(text: object, dtype: object) -> Any:
    base = base_dtype(str(dtype))
    if not isinstance(text, str):
        return text
    if base == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    value = number(text) if base in ("int", "float") else None
    return text if value is None else value


def differences(first: Schema, second: Schema) -> list[str]:
    """Return what changes from one schema to another, a line each; none where they are equal."""
    before, after = first.to_dict(), second.to_dict()
    out = [f"column {quote(n)}: removed" for n in first.names if n not in second.names]
    out += [
        f"column {quote(n)}: added, {second[n].domain()}"
        for n in second.names
        if n not in first.names
    ]
    shared = [name for name in first.names if name in second.names]
    if shared != [name for name in second.names if name in first.names]:
        out.append(f"order of columns: {', '.join(first.names)} -> {', '.join(second.names)}")
    for name in shared:
        old, new = (
            {**s[name].to_dict(copied=False), "provenance": provenance_in_words(s[name])}
            for s in (first, second)
        )
        for key in dict.fromkeys((*old, *new)):
            if key != COPIED or old["provenance"] == new["provenance"]:  # whose words list it
                out += _changes(f"column {quote(name)}, {key}", old.get(key), new.get(key))
    for key in dict.fromkeys((*before, *after)):
        if key not in ("columns", COPIED):
            out += _changes(key, before.get(key), after.get(key))
    return out


def _changes(what: str, old: object, new: object) -> list[str]:
    if old == new and type(old) is type(new):
        return []
    before, after = ("not stated" if v is None else quote(v, 150) for v in (old, new))
    return [f"{what}: {before} -> {after}"]
