"""The text of public objects at the end of a cell: at most ten lines, without facts that were read from the rows of a table."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import MISSING, fields, is_dataclass
from html import escape
from pathlib import PurePath
from textwrap import wrap
from typing import Any

from tabsynth._validate import quote

LINES, WIDTH, LONGEST = 10, 98, 1000
ITEMS, NESTED = 3, 200  # of a list within an object, and letters of an object within another one
PLAIN = (str, bytes, int, float, complex, type(None), Set, PurePath)


class Shown:
    """The base of public objects, whose ``repr`` is short: a line of what is no default, or the lines of a subclass."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep the ``repr`` of this class where a dataclass would write one of all fields."""
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            type.__setattr__(cls, "__repr__", cls.__repr__)

    def _repr_lines(self) -> list[str]:
        """Return the lines of ``repr``; those after the tenth are not shown."""
        return [describe(self)]

    def __repr__(self, N_CHAR_MAX: int = LONGEST) -> str:
        """Return at most ten lines and ``N_CHAR_MAX`` characters, which scikit-learn calls so."""
        return cut("\n".join(self._repr_lines()[:LINES]), N_CHAR_MAX)


def describe(thing: Any) -> str:
    """Return an object in one line: its fields, but those that have their default.

    Of a column that has facts from the rows of a table these are only named: other facts may follow from them.
    """
    read = getattr(thing, "facts_from_rows", ())
    shown, parts = ("name", "provenance"), [f"read from rows: {', '.join(read)}"] * bool(read)
    for f in fields(thing) if is_dataclass(thing) else ():
        default = f.default if f.default_factory is MISSING else f.default_factory()
        value = getattr(thing, f.name, default)
        if (
            f.repr
            and (not read or f.name in shown)
            and not (type(value) is type(default) and value == default)
        ):
            parts.append(f"{f.name}={_text_of(value)}")
    return f"{type(thing).__name__}({', '.join(parts)})"


def _text_of(value: Any) -> str:
    if type(value).__name__ == "DataFrame":
        return f"<table of {len(value)} rows>"
    if isinstance(value, Shown):
        first, *others = repr(value).split("\n")
        return cut(f"<{first}>" if others else first, NESTED)
    if is_dataclass(value) and not isinstance(value, type):
        return cut(describe(value), NESTED)
    if isinstance(value, list | tuple):
        more = [f"… {len(value)} in all"] * (len(value) > ITEMS)
        return f"({', '.join([*map(_text_of, value[:ITEMS]), *more])})"
    return quote(value, 80) if isinstance(value, PLAIN) else f"<{type(value).__name__}>"


def cut(text: str, length: int) -> str:
    """Return a text of at most so many letters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def wrapped(lines: Iterable[str], last: str = "") -> list[str]:
    """Return lines that are no wider than a cell, as many as are shown, and always the ``last`` one."""
    out: list[str] = []
    for line in lines:
        out += wrap(line, WIDTH, initial_indent="  " * bool(out), subsequent_indent="    ")
    if len(out) > (most := LINES - bool(last)):
        out = [*out[: most - 1], "  …"]
    return [*out, last] if last else out


def text_table(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return rows of texts below each other, each cut to the width of its column."""
    cells = [[cut(text, most) for text, most in zip(row, widths, strict=True)] for row in rows]
    used = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, used)).rstrip() for row in cells]


def html_table(caption: str, rows: Sequence[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """Return an HTML table, whose first row is its head, with notes below; all texts are escaped."""
    import pandas as pd

    table = pd.DataFrame(rows[1:], columns=rows[0]).to_html(index=False, border=0, justify="left")
    return f"<p>{escape(caption)}</p>{table}" + "".join(f"<p>{escape(note)}</p>" for note in notes)
