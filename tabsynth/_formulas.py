"""Texts that a spreadsheet would run as formulas ("CSV injection", OWASP): found, refused or escaped.

A cell that begins with = + - @, a tab or a line break, or one of the wide forms of these signs, and is no
plain number. Escaped, it has an apostrophe in front, which spreadsheets show as text.
"""

import re
from collections.abc import Collection

import pandas as pd

from tabsynth._validate import shown
from tabsynth.errors import InputError

HANDLINGS = ("refuse", "escape", "keep")
APOSTROPHE = "'"
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would run ``text``: a leading sign that starts no plain number."""
    if not _FORMULA.match(text) or len(text) == 1:
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def refuse_formulas(table: pd.DataFrame) -> None:
    """Refuse a table with such a text, a column's name or a cell."""
    for name in table.columns:
        for text in [str(name), *_texts(table[name])]:
            if is_formula(text):
                raise InputError(
                    f"Column {shown(str(name))}: {shown(text)} would run as a formula in a spreadsheet;"
                    " write Parquet, or pass --formulas escape to have an apostrophe before it, or"
                    " --formulas keep to write it as it is."
                )


def escape_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """The table with an apostrophe before such names and texts; numbers stay numbers.

    Raises
    ------
    InputError
        If a column has both a text and what it would become.
    """
    columns = {j: _escaped(table.iloc[:, j]) for j in range(table.shape[1])}
    names = [str(name) for name in table.columns]
    _refuse_clash("The table", names)
    escaped = pd.DataFrame(columns)
    return escaped.set_axis([_escape(name) for name in names], axis=1)


def unescaped(text: str, known: Collection[object]) -> str:
    """The text of ``known`` that was escaped as ``text``; else ``text`` as it is."""
    before = text[1:]
    if text.startswith(APOSTROPHE) and is_formula(before) and text not in known and before in known:
        return before
    return text


def _texts(column: pd.Series) -> list[str]:
    """The distinct texts of a column."""
    held = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return [value for value in pd.Series(held).dropna().unique() if isinstance(value, str)]


def _escape(text: str) -> str:
    return APOSTROPHE + text if is_formula(text) else text


def _escaped(column: pd.Series) -> pd.Series:
    texts = _texts(column)
    changes = {text: APOSTROPHE + text for text in texts if is_formula(text)}
    if not changes:
        return column
    _refuse_clash(f"Column {shown(str(column.name))}", texts)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.rename_categories(changes)
    return column.astype(object).map(lambda value: changes.get(value, value), na_action="ignore")


def _refuse_clash(what: str, texts: Collection[str]) -> None:
    known = set(texts)
    for text in texts:
        if is_formula(text) and APOSTROPHE + text in known:
            raise InputError(
                f"{what} has {shown(text)} and {shown(APOSTROPHE + text)}, which would be the same when"
                " escaped; write Parquet."
            )
