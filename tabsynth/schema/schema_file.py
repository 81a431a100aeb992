"""The form of schema files: a JSON Schema made from the kinds of columns, and the check of a file against it.

``schema-file.schema.json`` beside this module is the JSON Schema of the kinds that tabsynth has, for editors.
``docs/reference/json_schema.py`` writes it.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from tabsynth._files import position
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import nearest, quote
from tabsynth.errors import FileFormatError
from tabsynth.schema.column import COPIED, KINDS, PROVENANCES, Column, fact_names

FORMAT = "tabsynth-schema/1"
MOST_PROBLEMS, MOST_CHARACTERS = 5, 500  # listed in one error

# Keys of a schema file besides ``columns``; a new key is one line.
TOP_LEVEL: dict[str, JsonObject] = {
    "format": {"const": FORMAT},
    COPIED: {"description": "A notice where values were copied from rows; it is not read."},
    "null_values": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Texts that stand for a missing value.",
    },
    "impossible": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Combinations of values that cannot occur.",
    },
    "constraints": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Rules between columns that every synthetic row satisfies.",
    },
    "violations": {
        "enum": ["refuse", "drop", "repair"],
        "description": "What becomes of rows of a table that break a rule.",
    },
    "suggested": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Rules that release 0.2 suggested; they have no effect until a person moves them to constraints.",
    },
    "released": {
        "type": ["object", "null"],
        "description": "The mechanisms of the private draft that released facts of columns.",
    },
    "decimal": {
        "enum": [".", ",", None],
        "description": "The decimal mark of numbers in text files.",
    },
    "weight": {
        "type": "object",
        "required": ["column", "max"],
        "additionalProperties": False,
        "properties": {"column": {"type": "string"}, "max": {"type": "number"}},
        "description": "The column of survey weights, and the largest weight that counts.",
    },
    "unit": {
        "type": "object",
        "required": ["column", "max_rows"],
        "additionalProperties": False,
        "properties": {"column": {"type": "string"}, "max_rows": {"type": "integer"}},
        "description": "The column that says of which unit a row is, and the most rows of one unit that are used.",
    },
    "left_out": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Columns that tables may have and that are not read: name and reason.",
    },
}
# Keys that columns of all kinds have, where a type alone does not say enough.
SHARED: dict[str, JsonObject] = {
    "name": {"type": "string"},
    "dtype": {"type": "string"},
    "nulls": {"type": "boolean"},
    "provenance": {"enum": [*PROVENANCES]},
    "source": {"type": "string"},
    "description": {"type": "string"},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "missing": {"type": "object", "additionalProperties": {"type": "string"}},
    COPIED: {"type": "array", "items": {"type": "string"}},
}
REQUIRED = ("name", "kind", "dtype")
_JSON_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
}
_EXPECTED = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def column_schema(kinds: Sequence[str]) -> JsonObject:
    """Return the JSON Schema of a column that is of one of some kinds."""
    properties: dict[str, JsonObject] = {"name": {}, "kind": {"enum": [*kinds]}}
    for kind in kinds:
        for name in fact_names(KINDS[kind]):
            if name in KINDS[kind].json_types:
                types = _json_type_names(KINDS[kind].json_types[name])
                before = properties.get(name, {}).get("type", [])
                form: JsonObject = {"type": [*dict.fromkeys((*before, *types, "null"))]}
            else:
                form = dict(SHARED.get(name, properties.get(name, {})))
                if "type" in form and name not in REQUIRED:
                    form["type"] = [form["type"], "null"]
            properties[name] = form
    schema = {"type": "object", "required": [*REQUIRED], "additionalProperties": False}
    return {**schema, "properties": properties}


def _json_type_names(types: type | tuple[type, ...]) -> list[str]:
    classes = types if isinstance(types, tuple) else (types,)
    names = [_JSON_NAMES[cls] for cls in classes]
    return [name for name in names if not (name == "integer" and "number" in names)]


def check_form(data: object, where: str, text: str | None = None) -> None:
    """Refuse what the JSON Schema does not allow, at most :data:`MOST_PROBLEMS` problems in one error.

    Parameters
    ----------
    data : JSON value
    where : str
        What errors begin with, such as the path of the file.
    text : str, optional
        The text that ``data`` was parsed from: errors then give line and column.

    Raises
    ------
    FileFormatError
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        form = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise FileFormatError(f"{where}: expected format {FORMAT!r}, got {quote(form)}.")
    _refuse(_problems(data), where, text)


def column_from(item: JsonMapping, where: str) -> Column:
    """Return the column of a dict from :meth:`Column.to_dict`; refuse what the JSON Schema does not allow."""
    _refuse(_column_problems(item, []), where, None)
    return made_column(item)


def made_column(item: JsonMapping) -> Column:
    """Return the column of a dict that was checked; nulls are facts that it does not state."""
    return Column(**{key: value for key, value in item.items() if value is not None})


def _refuse(found: Iterable[tuple[list[Any], bool, str]], where: str, text: str | None) -> None:
    """Refuse a file with problems: at most :data:`MOST_PROBLEMS` in one error."""
    problems = []
    for path, key, message in found:
        place = ""
        if text is not None:
            line, column = position(text, path, key)
            place = f"line {line}, column {column}: "
        problems.append(place + message)
        if len(problems) > 1 and (
            len(problems) > MOST_PROBLEMS or sum(map(len, problems)) > MOST_CHARACTERS
        ):
            problems[-1] = "and more"
            break
    if problems:
        raise FileFormatError(f"{where}: {'; '.join(problems)}.")


def _problems(data: JsonMapping) -> Iterable[tuple[list[Any], bool, str]]:
    """Yield of each problem the path, whether its key is meant rather than its value, and a clause."""
    columns = data.get("columns")
    top_level = {key: value for key, value in data.items() if key != "columns"}
    for error in _top_validator().iter_errors(top_level):
        yield from _clauses(error, [], None)
    if not isinstance(columns, list):
        missing = "columns" not in data
        yield ([] if missing else ["columns"]), False, "columns must be a list"
        return
    for i, item in enumerate(columns):
        if not isinstance(item, dict):
            yield ["columns", i], False, f"a column must be an object, got {quote(item)}"
            continue
        yield from _column_problems(item, ["columns", i])


def _column_problems(item: JsonMapping, path: list[Any]) -> Iterable[tuple[list[Any], bool, str]]:
    """Yield the problems of a column, as :func:`_problems`."""
    kind = item.get("kind")
    kinds = (kind,) if isinstance(kind, str) and kind in KINDS else tuple(KINDS)
    what = f"column {quote(item['name'])}" if "name" in item else "a column"
    for error in _validator_of(kinds, tuple(KINDS[name] for name in kinds)).iter_errors(item):
        yield from _clauses(error, path, what)


def _validator(schema: JsonObject) -> Any:
    """Return a validator for which a number is of Python's own types, as those of a file are."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: type(value) is int,
            "number": lambda _, value: type(value) in (int, float),
        }
    )
    return extend(Draft202012Validator, type_checker=types)(schema)


def _top_validator() -> Any:
    properties = {"$schema": {"type": "string"}, **TOP_LEVEL}
    return _validator({"type": "object", "properties": properties, "additionalProperties": False})


@lru_cache(maxsize=64)
def _validator_of(kinds: tuple[str, ...], classes: tuple[type[Column], ...]) -> Any:
    """Return the entry of the kind; entries are kept by the classes, too: another class may be registered under a kind's name."""
    return _validator(column_schema(kinds))


def _clauses(
    error: Any, parent: list[Any], column: str | None
) -> Iterable[tuple[list[Any], bool, str]]:
    """Return a problem that jsonschema found, of a column or of the file, as :func:`_problems` gives it."""
    what = "the file" if column is None else column
    path = [*parent, *error.absolute_path]
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path]
    fact = "".join(steps).removeprefix(".")
    if error.validator == "additionalProperties":
        properties = [name for name in error.schema.get("properties", ()) if name != "$schema"]
        for key in error.instance:
            if key not in error.schema.get("properties", ()):
                near = get_close_matches(str(key), properties, 1)
                hint = (
                    f"the nearest known key is {near[0]!r}"
                    if near
                    else f"known are {', '.join(properties[:12])}{', …' * (len(properties) > 12)}"
                )
                yield [*path, key], True, f"{what} has unknown key {quote(key)}; {hint}"
    elif error.validator == "required":
        lacking = [repr(key) for key in error.validator_value if key not in error.instance]
        if error.message.startswith(lacking[0]):  # of several keys, jsonschema has an error each
            yield path, False, f"{what} lacks {' and '.join(lacking)}"
    elif error.validator == "type":
        types = error.validator_value
        names = [types] if isinstance(types, str) else types
        expected = " or ".join(_EXPECTED[name] for name in names if name != "null")
        got = quote(error.instance)
        if column is not None:
            yield path, False, f"{what} has {fact}={got}, of a wrong type: expected {expected}"
        else:
            yield path, False, f"{fact} must be {expected}, got {got}"
    elif error.validator == "enum":
        values = [*map(str, error.validator_value)]
        allowed, got = nearest(str(error.instance), values), quote(error.instance)
        yield path, False, f"expected {fact} of {what} to be one of {allowed}; got {got}"
    else:
        message = " ".join(error.message.split())[:150]
        yield path, False, f"{what} has a wrong {fact}: {message}"
