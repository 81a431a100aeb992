"""A schema for tables that have none, such as those that other programs made: drafted from all of them together.

The report of such tables is confidential anyway, as it has exact figures of the real table. So the draft may copy from
all of them, and no fit can take it. Both tables are read for the draft, because a synthetic value that no real row has
must be counted as a difference, and not be left out.
"""

from collections.abc import Sequence

import pandas as pd

from tabsynth._validate import quote
from tabsynth.drafting.drafts import MIN_COUNT, draft_public, draft_schema
from tabsynth.drafting.identifiers import named_for_one
from tabsynth.errors import InputError
from tabsynth.evaluation.inputs import named_by_text
from tabsynth.evaluation.results import Drafted
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.schema import Schema, duplicates, read_values, refuse_no_rows


def drafted_for(
    frames: Sequence[pd.DataFrame], names: Sequence[str]
) -> tuple[Schema, list[pd.DataFrame], Drafted]:
    """Return a schema of the columns that all tables have, the tables in its dtypes, and the remarks for a reader.

    Parameters
    ----------
    frames : sequence of DataFrame
        The real table first.
    names : sequence of str
        What each table is called in an error, and in the account of columns that another one lacks.

    Raises
    ------
    InputError
        For a table without rows or with two columns of one name, and if no column can be compared.
    """
    tables = [named_by_text(frame) for frame in frames]
    for table, name in zip(tables, names, strict=True):
        for column in duplicates(list(table.columns)):
            raise InputError(f"The {name} has column {quote(column)} twice; rename or drop one.")
        refuse_no_rows(len(table), name)
    common = [c for c in tables[0].columns if all(c in table.columns for table in tables[1:])]
    if not common:
        raise InputError(
            f"The {names[0]} and the {names[1]} have no column in common; name the columns of both alike."
        )
    left_out = _only_in_some(tables, names)
    parts = {column: _of_one_type([table[column] for table in tables]) for column in common}
    together = pd.DataFrame({c: pd.concat(p, ignore_index=True) for c, p in parts.items()})
    schema = draft_schema(together)
    schema = _with_amounts(schema, together, parts)
    left_out |= {item["name"]: item["reason"] for item in schema.left_out}
    grouped = tuple(c.name for c in schema.columns if c.other is not None)
    values = [
        {c.name: _read(schema, c.name, parts[c.name][i]) for c in schema.columns}
        for i in range(len(tables))
    ]
    return schema, [pd.DataFrame(of) for of in values], Drafted(left_out, grouped, MIN_COUNT)


def _with_amounts(
    schema: Schema, together: pd.DataFrame, parts: dict[str, list[pd.Series]]
) -> Schema:
    """Return the draft with columns of numbers that it left out for having many values, such as incomes.

    A draft for a fit leaves out what may be a number of a person. Here a column may be compared if it is not a key
    of the real table, where some value is missing or occurs twice, and if its name is not that of an identifier.
    """
    columns = {column.name: column for column in schema.columns}
    for name in {item["name"] for item in schema.left_out}:
        real = parts[name][0]
        is_number = base_dtype(str(together[name].dtype)) in ("int", "float")
        is_key = named_for_one(name) or (real.is_unique and real.notna().all())
        if is_number and not is_key and together[name].notna().any():
            columns[name] = draft_public(together[name])
    if len(columns) == len(schema.columns):
        return schema
    still_left_out = [item for item in schema.left_out if item["name"] not in columns]
    ordered = [columns[name] for name in together.columns if name in columns]
    return schema.replace(columns=ordered, left_out=still_left_out)


def _only_in_some(tables: Sequence[pd.DataFrame], names: Sequence[str]) -> dict[str, str]:
    """Return columns that some table lacks, each with the reason why it is not compared."""
    reasons: dict[str, str] = {}
    for table in tables:
        for column in table.columns:
            without = [n for t, n in zip(tables, names, strict=True) if column not in t.columns]
            if without:
                reasons[column] = f"the {' and the '.join(without)} lacks it"
    return reasons


def _read(schema: Schema, name: str, values: pd.Series) -> pd.Series:
    """Return values of one table in the dtype that the schema declares."""
    column = schema[name]
    is_text = base_dtype(str(values.dtype)) == "text"
    return read_values(column, values.reset_index(drop=True), is_text, schema.decimal)


def _of_one_type(parts: list[pd.Series]) -> list[pd.Series]:
    """Return one column of several tables in one type, though a program may write whole numbers as reals, or texts.

    Numbers of several types are whole if all of their values are; truth values beside numbers are 0 and 1. Everything else
    becomes text, which a draft reads as it reads a text file.
    """
    parts = [_plain(part) for part in parts]
    bases = {base_dtype(str(part.dtype)) for part in parts if part.notna().any()}
    if len(bases) <= 1 and len({str(part.dtype) for part in parts}) == 1:
        return parts
    if bases <= {"int", "float", "bool"} and bases != {"bool"}:
        numbers = [part.astype("Float64") for part in parts]
        integral = all(
            (n.dropna() % 1 == 0).all() and (n.abs().dropna() < 2**53).all() for n in numbers
        )
        return [n.astype("Int64" if integral else "float64") for n in numbers]
    if len(bases) == 1 and bases <= {"bool"}:
        return [part.astype("boolean") for part in parts]
    return [_texts(part) for part in parts]


def _plain(values: pd.Series) -> pd.Series:
    """Return values of a categorical column in the type of its categories; objects in the type that they have."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    return values.infer_objects() if values.dtype == object else values


def _texts(values: pd.Series) -> pd.Series:
    """Return values as a text file has them, null where they are missing."""
    base = base_dtype(str(values.dtype))
    if base == "text":
        return values.astype(object)
    if base == "datetime" and (values.dropna() == values.dropna().dt.normalize()).all():
        return values.dt.strftime("%Y-%m-%d").astype(object)
    return values.astype(object).map(str, na_action="ignore")
