"""Texts that a spreadsheet would run as formulas ("CSV injection", OWASP): found, refused or escaped.

A text counts as one if it begins with a tab or a line break, or if one of its lines, after white space, control
and invisible characters, begins with = + - @ or a wide or small form of these signs and is no plain number.
(A reader that does not heed quotes takes a line within a cell for a row of its own.) Escaped, each such
line has an apostrophe in front, which spreadsheets show as text.
"""

import re
import unicodedata
from collections.abc import Collection

import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError

HANDLINGS = ("refuse", "escape", "keep")
APOSTROPHE = "'"
_SIGNS = frozenset("=+-@＝＋－＠﹦﹢﹣﹫")
_FIRST = frozenset("\t\r\n")  # signs by themselves, as a text's first character
# Shown as nothing, though Unicode counts them as marks, letters or symbols.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet may run ``text``, or a line of it; a sign alone and plain numbers it does not."""
    return bool(_places(text))


def _places(text: str) -> list[int]:
    """Return where in a text an apostrophe is needed: the first places of its lines that would run."""
    if not _suspicious(text):
        return []
    places, place = [], 0
    for line in text.splitlines(keepends=True):
        if (place == 0 and text[0] in _FIRST) or _runs(line):
            places.append(place)
        place += len(line)
    return places


def _suspicious(text: str) -> bool:
    """Return quickly whether a text needs a closer look: most do not."""
    return len(text) > 1 and (text[0] in _FIRST or not _SIGNS.isdisjoint(text))


def _runs(line: str) -> bool:
    start = 0
    while start < len(line) and _invisible(line[start]):
        start += 1
    visible = line[start:].rstrip("\r\n")
    return len(visible) > 1 and visible[0] in _SIGNS and not _NUMBER.fullmatch(visible)


def _invisible(character: str) -> bool:
    """Return white space, control, format and unassigned characters, variation selectors and blank letters."""
    return (
        unicodedata.category(character)[0] in "ZC"
        or character in _BLANK
        or "VARIATION SELECTOR" in unicodedata.name(character, "")
    )


def refuse_formulas(table: pd.DataFrame) -> None:
    """Refuse a table with such a text, a column's name or a cell."""
    for name in table.columns:
        for text in [str(name), *_texts(table[name])]:
            if is_formula(text):
                raise InputError(
                    f"Column {quote(str(name))}: {quote(text)} would run as a formula in a spreadsheet;"
                    " write Parquet, or use formulas='escape' to have an apostrophe before it, or"
                    " formulas='keep' to write it as it is."
                )


def escape_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with an apostrophe before such names and texts; numbers stay numbers.

    Raises
    ------
    InputError
        If a column has both a text and what it would become.
    """
    columns = {j: _escape_column(table.iloc[:, j]) for j in range(table.shape[1])}
    names = [str(name) for name in table.columns]
    _refuse_clash("The table", names)
    escaped = pd.DataFrame(columns)
    return escaped.set_axis([_escape(name) for name in names], axis=1)


def unescape(text: str, declared: Collection[object]) -> str:
    """Return the text of ``declared`` that was escaped as ``text``; else ``text`` as it is."""
    if APOSTROPHE not in text or text in declared:
        return text
    lines = text.splitlines(keepends=True)
    bare_lines = "".join(line.removeprefix(APOSTROPHE) for line in lines)
    bare = [text[1:] if text.startswith(APOSTROPHE) else text, bare_lines]
    if len(lines) > 1:  # some lines may have had an apostrophe of their own
        bare += [value for value in declared if isinstance(value, str)]
    return next((value for value in bare if value in declared and _escape(value) == text), text)


def _texts(column: pd.Series) -> list[str]:
    """Return the distinct texts of a column."""
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return [value for value in pd.Series(values).dropna().unique() if isinstance(value, str)]


def _escape(text: str) -> str:
    for place in reversed(_places(text)):
        text = text[:place] + APOSTROPHE + text[place:]
    return text


def _escape_column(column: pd.Series) -> pd.Series:
    texts = _texts(column)
    changes = {text: _escape(text) for text in texts if is_formula(text)}
    if not changes:
        return column
    _refuse_clash(f"Column {quote(str(column.name))}", texts)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.rename_categories(changes)
    return column.astype(object).map(lambda value: changes.get(value, value), na_action="ignore")


def _refuse_clash(what: str, texts: Collection[str]) -> None:
    seen: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        other = seen.setdefault(_escape(text), text)
        if other != text:
            raise InputError(
                f"{what} has {quote(other)} and {quote(text)}, which would be the same when escaped; write"
                " Parquet."
            )
