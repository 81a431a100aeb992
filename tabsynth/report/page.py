"""The parts of every page: its view, tables, pictures, and the templates that render them. No page loads anything else."""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from tabsynth._shown import cut
from tabsynth._typing import JsonObject
from tabsynth.evaluation.definitions import Definition
from tabsynth.evaluation.linked import LinkedEvaluation
from tabsynth.evaluation.metric import Evaluation
from tabsynth.evaluation.publishing import PrivateEvaluation
from tabsynth.evaluation.results import Estimate

NOTICE = "This report is itself computed from real data and is not covered by ε: treat it as confidential."
CELL = 5  # sentences in a notebook


@dataclass(frozen=True)
class Row:
    """A row of a table: its name, which links to the definition, its cells, and whether it is a warning."""

    name: str
    cells: Sequence[str]
    definition: Definition | None = None
    warning: bool = False


@dataclass(frozen=True)
class Table:
    """A table of a page and of a Markdown file; the first name of its header is its title."""

    header: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Picture:
    """An SVG image with its title, what it shows in words, a remark and a caption."""

    title: str
    svg: str
    alt: str
    remark: str = ""
    caption: str = ""

    @property
    def source(self) -> str:
        """The image as a data URI."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg.encode()).decode()


@dataclass(frozen=True)
class View:
    """The content of the report of an evaluation; a subclass for each kind of evaluation states its parts.

    Attributes
    ----------
    format : str
        The name of the form of its JSON.
    kind : str
        What the page is, in words.
    notice : str
        What a reader must know first; empty for a report that may be published.
    """

    evaluation: Evaluation | LinkedEvaluation | PrivateEvaluation
    format: ClassVar[str]
    kind: ClassVar[str]
    notice: ClassVar[str] = NOTICE

    @property
    def label(self) -> str:
        """The name of the synthetic table."""
        return self.evaluation.label

    @property
    def title(self) -> str:
        """The title of the page."""
        return self.label

    def sentences(self) -> list[str]:
        """Return the results in plain words."""
        raise NotImplementedError

    def tables(self) -> list[Table]:
        """Return the figures."""
        raise NotImplementedError

    def facts(self) -> JsonObject:
        """Return everything else, ready for JSON."""
        raise NotImplementedError

    def pictures(self) -> list[Picture]:
        """Return the pictures, that which says most first."""
        return []

    def opening(self) -> list[str]:
        """Return the results in plain words, of a confidential report with that said first."""
        sentences = self.sentences()
        return sentences if "confidential" in sentences[0] else [self.notice, *sentences]

    def cell(self) -> str:
        """Return the first sentences, the first picture and where to read on, for a cell of a notebook."""
        return render("cell.html", view=self, sentences=self.opening()[:CELL])

    def document(self) -> JsonObject:
        """Return everything, ready for JSON."""
        notice = {"notice": self.notice} if self.notice else {}
        named = {"format": self.format, **notice, "label": self.label, "summary": self.sentences()}
        return {**named, **self.facts()}

    def page(self) -> str:
        """Return the text of the HTML page."""
        return render_page(self.title, self.kind, self.sentences(), self.tables(), self.notice)


def packaged_text(name: str) -> str:
    """Return a text file of this package, or of another one of tabsynth, as ``PACKAGE/NAME``."""
    package, _, file = name.rpartition("/")
    return resources.files(f"tabsynth.{package or 'report'}").joinpath(file).read_text("utf-8")


@cache
def environment() -> Environment:
    """Return templates that escape what they are given, and refuse what they are not given."""
    templates = Environment(
        loader=FunctionLoader(packaged_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "number": format_number,
        "figure": lambda value: format_number(value, style="scaled"),
        "interval": interval,
        "share": percentage,
        "with_link": with_link,
    }
    templates.globals["css"] = Markup(packaged_text("style.css"))  # our own file, never data
    return templates


def render(template: str, **context: object) -> str:
    """Return a template, which :func:`packaged_text` names, filled in."""
    return environment().get_template(template).render(context)


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
    notice: str = "",
) -> str:
    """Return the HTML text of a page, with the definitions to which the rows of its tables link."""
    tables = [table for table in tables if table.rows]
    linked = dict.fromkeys(row.definition for table in tables for row in table.rows)
    return render(
        "page.html",
        title=title,
        kind=kind,
        sentences=sentences,
        tables=tables,
        notice=notice,
        definitions=[definition for definition in linked if definition],
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


def interval(estimate: Estimate, digits: int = 3) -> str:
    """Return the ends of an interval; "to" survives a minus sign where a dash would not."""
    return f"{format_number(estimate.low, digits)} to {format_number(estimate.high, digits)}"


def percentage(share: float) -> str:
    """Return a share of rows with one decimal; one that is not 0 never looks like it."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def abbreviate(text: str, letters: int) -> str:
    """Return a text on one line, of at most so many letters."""
    return cut(" ".join(text.split()), letters)
