"""A plain page: sentences, tables, pictures. Nothing in it is fetched from anywhere."""

import math
from collections.abc import Sequence
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from tabsynth.report.definitions import Definition

Table = tuple[Sequence[str], Sequence[tuple[str, Sequence[str], bool]]]


def packaged_text(name: str) -> str:
    """Return a text file of this package."""
    return resources.files("tabsynth.report").joinpath(name).read_text("utf-8")


def environment() -> Environment:
    """Return templates that escape what they are given, and refuse what they are not given."""
    return Environment(
        loader=FunctionLoader(packaged_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def with_link(title: str, definition: Definition | None) -> str:
    """Return the title of a figure as a link to its definition on the same page; the title alone where there is none."""
    if definition is None:
        return title
    return Markup('<a class="term" href="#{}">{}</a>').format(definition.anchor, title)


def render_page(
    title: str,
    kind: str,
    sentences: Sequence[str],
    tables: Sequence[Table],
    pictures: Sequence[tuple[str, Markup]] = (),
    notice: str = "",
    definitions: Sequence[Definition] = (),
) -> str:
    """Return the HTML text. A table is a header and rows of (name, cells, whether it is a warning).

    ``definitions`` are those of the figures, to which the names link (:func:`with_link`).
    """
    return (
        environment()
        .from_string(packaged_text("page.html"))
        .render(
            title=title,
            kind=kind,
            sentences=sentences,
            tables=tables,
            pictures=pictures,
            notice=notice,
            definitions=definitions,
            css=Markup(packaged_text("style.css")),  # our own file, never data
        )
    )


def format_number(value: float | None, digits: int = 3, style: str = "fixed") -> str:
    """Return a number as text, with an en dash for None.

    Parameters
    ----------
    value : float or None
        The number.
    digits : int
        Decimals, or significant digits in the style ``"significant"``.
    style : str
        ``"fixed"``: so many decimals. ``"scaled"``: one decimal from 100 on. ``"grouped"``: the same with commas
        between thousands. These three show an en dash for NaN and for infinities. ``"significant"``: so many
        significant digits, also of infinities.
    """
    if value is None:
        return "–"
    if style == "significant":
        return f"{value:.{digits}g}"
    if not math.isfinite(value):
        return "–"
    if style != "fixed" and abs(value) >= 100:
        return f"{value:,.1f}" if style == "grouped" else f"{value:.1f}"
    return f"{value:.{digits}f}"


def shorten(text: str, letters: int) -> str:
    """Return a text on one line, of at most so many letters."""
    text = " ".join(text.split())
    return text if len(text) <= letters else text[: letters - 1] + "…"
