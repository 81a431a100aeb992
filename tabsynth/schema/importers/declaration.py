"""The facts that a codebook states of the columns of a table, and the schema that follows from it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import list_first, quote
from tabsynth.errors import InputError, TabsynthError
from tabsynth.schema.column import Column
from tabsynth.schema.editing import DROPPED, Edit, number
from tabsynth.schema.schema import Schema
from tabsynth.schema.schema_file import column_from

NO_VALUES = "no list of values and no bounds (give values= or bounds=, or drop=)"
MOST_NAMED = 20  # columns in one error
# Whole numbers that a CSV reader and a person write in the same way.
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The facts that a format states of one column.

    Attributes
    ----------
    name : str
    facts : mapping
        Facts as a schema file has them. The kind and the dtype may be missing where ``categories`` or
        ``low`` and ``high`` determine them.
    """

    name: str
    facts: JsonMapping = field(default_factory=dict)


def codes(values: Sequence[Any]) -> list[Any]:
    """Return texts as whole numbers where all are whole numbers as written; else as they are."""
    if values and all(isinstance(v, str) and _WHOLE.fullmatch(v) for v in values):
        return [int(value) for value in values]
    return [*values]


def schema_of(
    declarations: Iterable[Declaration],
    source: str,
    change: Edit,
) -> Schema:
    """Return the schema of what a format states, with what a person adds.

    Parameters
    ----------
    declarations : iterable of Declaration
    source : str
        The source of the columns, the name of a file.
    change : Edit
        Facts that the format lacks, and columns to drop.

    Raises
    ------
    InputError
        Naming, in one line, all columns that cannot be made, and what is missing.
    """
    declarations = [*declarations]
    names = {declaration.name for declaration in declarations}
    unknown = sorted(change.names - names)
    if unknown:
        raise InputError(f"{source} has no column {', '.join(map(quote, unknown))}; correct it.")
    columns: list[Column] = []
    left_out: list[dict[str, str]] = []
    problems: list[str] = []
    bare: list[str] = []
    for declaration in declarations:
        name = declaration.name
        if name in change.drop:
            left_out.append({"name": name, "reason": DROPPED})
        else:
            stated = {"name": name, "provenance": "declared", "source": source, **declaration.facts}
            facts = _complete(change.apply(stated))
            if "kind" not in facts or "dtype" not in facts:
                bare.append(quote(name))
                continue
            try:
                columns.append(column_from(facts, source))
            except TabsynthError as error:
                problems.append(str(error).removeprefix(f"{source}: ").rstrip("."))
    if problems or bare:
        clauses = [f"{list_first(bare, MOST_NAMED)}: {NO_VALUES}"] if bare else []
        extra = [f"and {len(problems) - MOST_NAMED} more"] if len(problems) > MOST_NAMED else []
        raise InputError(
            f"{source} does not state enough for {len(problems) + len(bare)} of {len(declarations)}"
            f" columns: {'; '.join([*clauses, *problems[:MOST_NAMED], *extra])}."
        )
    if not columns:
        raise InputError(f"{source} declares no column that can be learned.")
    return Schema(columns, left_out=left_out)


def _complete(facts: JsonObject) -> JsonObject:
    """Return facts with the kind and the dtype that follow from categories or bounds."""
    if facts.get("categories"):
        facts["categories"] = [*facts["categories"]]
        types = {type(value) for value in facts["categories"]}
        needed = facts.get("dtype")
        if needed is None:
            dtypes = {frozenset({bool}): "bool", frozenset({int}): "int64"}
            real = "float64" if types <= {int, float} else "str"
            needed = dtypes.get(frozenset(types), real)
        facts = {"kind": "categorical", **facts, "dtype": needed}
    elif "low" in facts and "high" in facts and facts.get("kind", "numeric") == "numeric":
        is_whole = all(isinstance(facts[end], int) for end in ("low", "high"))
        facts = {"kind": "numeric", "dtype": "int64" if is_whole else "float64", **facts}
    if facts.get("nulls") and facts.get("dtype") in ("int64", "bool"):
        facts["dtype"] = {"int64": "Int64", "bool": "boolean"}[facts["dtype"]]
    if not facts.get("labels", True):
        del facts["labels"]
    return {key: value for key, value in facts.items() if value is not None}


def bound(value: object) -> Any:
    """Return an end of a range as a number; None where there is none."""
    if isinstance(value, str):
        return number(value.strip())
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def text_of(value: object) -> str | None:
    """Return a description: text that is not empty, or None."""
    return value.strip() if isinstance(value, str) and value.strip() else None
