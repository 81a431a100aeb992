"""The review of a schema, column by column."""

from functools import partial
from typing import Any

from markupsafe import Markup, escape
from nicegui import ui

from tabsynth._validate import quote
from tabsynth.app.elements import (
    action,
    box,
    button,
    choice,
    field,
    items,
    note,
    part,
    show_if,
    table,
    text,
)
from tabsynth.app.page import Page
from tabsynth.app.state import ColumnView
from tabsynth.design import UNCHANGED
from tabsynth.drafting.summary import group_reasons
from tabsynth.schema.column import KINDS, fact_names
from tabsynth.schema.editing import Edit

CLICK = "event => event.target.dataset.number && emit(event.target.dataset.number)"
HINT = 60  # characters of what was read from the rows, beside a field
MEANING = (
    "You vouch that every fact of this column is public; no program checks it, and no ε covers it."
)
WHAT_STAYS = (
    "What you type is declared from your source. A field that you leave empty keeps what was read from the rows: the schema, the certificate and its"
    f" statement then call the column {UNCHANGED}."
)
PROVENANCE_MARKS = {"declared": "good", "drafted": "bad", "released": ""}


def review_columns(page: Page) -> None:
    """Return the list of columns, the form of one of them, and what else a person must look at."""
    session = page.session
    views = session.state.columns()
    page.place.chosen = min(page.place.chosen, len(views) - 1)
    drafted = sum(view.provenance == "drafted" for view in views)
    if drafted:
        box(
            f"{drafted} of {len(views)} columns have facts that were read from the rows. Do not take them over: replace"
            " each by what a public source says, name the source, and declare the column.",
            kind="warn",
        )
    unchanged = sum(view.provenance == "declared" and bool(view.copied) for view in views)
    if unchanged:
        box(
            f"{unchanged} of {len(views)} columns are {UNCHANGED}. The certificate and its statement name them: no ε covers"
            " these facts, and whoever declared them vouches that they are public.",
            kind="warn",
        )
    if not drafted and not unchanged:
        box("No column has facts that were read from the rows.", kind="good")
    _list(page, views)
    _form(page, views[page.place.chosen], len(views))
    left_out = session.state.need_schema().left_out
    if left_out:
        text("Columns that are left out", "h3")
        items(group_reasons(left_out))
    lines = session.state.review()
    if lines:
        with part("details"):
            text("What to check", "summary")
            items(lines)
    _design(page)
    action("Go on to constraints", lambda: page.go(3), main=True)


def _design(page: Page) -> None:
    """Return what rows stand for."""
    design = page.session.state.need_schema().design
    stated = [f"Privacy protects {design.neighbour}."]
    if design.unit is not None:
        stated.append(f"At most {design.rows:,} rows of one {design.unit} are used.")
    if design.weight is not None:
        stated.append(
            f"Rows count with the weight {design.weight}, of at most {design.max_weight:g}."
        )
    with part("details"):
        text("People with several rows, and survey weights", "summary")
        items(stated)
        note(
            "If people have several rows, or rows have survey weights, draft the schema with tabsynth schema draft --unit or"
            " --weight, and take that file: these columns are neither learned nor sampled."
        )


def _list(page: Page, views: list[ColumnView]) -> None:
    mark = Markup(' <span class="mark {}">{}</span>')
    rows = []
    for i, view in enumerate(views):
        declared = view.provenance == "declared" and bool(view.copied)
        shown = UNCHANGED if declared else view.provenance
        kind = "bad" if declared else PROVENANCE_MARKS[view.provenance]
        values = escape(view.domain)
        if view.copied:
            values += mark.format("bad", "read from the rows")
        edit = Markup('<button type="button" data-number="{}" aria-label="Edit {}">Edit</button>')
        rows.append(
            (
                *(view.name, f"{view.kind} ({view.dtype})", values, "yes" if view.nulls else "no"),
                *(mark.format(kind, shown), view.source or "none", edit.format(i, view.name)),
            )
        )
    head = ("column", "kind", "values", "missing", "provenance", "source", "edit")
    listed = table(f"All {len(views)} columns", head, rows)
    listed.on("click", lambda event: _open(page, int(event.args)), js_handler=CLICK)


def _open(page: Page, i: int) -> None:
    page.place.chosen = i
    page.show()
    page.focus("column-heading")


def _form(page: Page, view: ColumnView, number: int) -> None:
    session = page.session
    with part("section", "", aria_label=f"Column {view.name}"):
        title = text(
            f"Column {page.place.chosen + 1} of {number}: {view.name}", "h3", "column-heading"
        )
        title.props["tabindex"] = "-1"
        text(f"Provenance: {view.words}.")
        read = dict(view.copied)
        if read:
            text("Read from the rows, to be replaced by what a public source says:")
            items([f"{fact}: {value}" for fact, value in read.items()])
        with part("div", "fields"):
            kind = choice("Kind", list(KINDS), view.kind)
            dtype = _fact_field("Data type", view.dtype, read.get("dtype"))
            low = _fact_field("Smallest value", view.low, read.get("low"))
            high = _fact_field("Largest value", view.high, read.get("high"))
            categories = read.get("categories")
            values = _fact_field(
                "Categories, with commas between", view.values, categories, wide=True
            )
            current = "yes" if view.nulls else "no"
            whose = "read from the rows" if "nulls" in read else "as it stands"
            options = {"": f"{whose}: {current}", "yes": "yes", "no": "no"}
            nulls = choice("Values may be missing", options)
            source = field("Public source, such as: codebook 2019", view.source, wide=True)
        for element, fact in ((low, "low"), (high, "high"), (values, "categories")):
            show_if(element, kind, partial(_has, fact))
        with part():
            declare = ui.checkbox("I declare that these facts are public, as the source has them")
        note(f"{MEANING} {WHAT_STAYS}" if read else MEANING)
        if view.others:
            with part("details"):
                text("Further facts", "summary")
                items([f"{name}: {value}" for name, value in view.others])

        def save() -> Any:
            session.edit_column(
                view.name,
                kind=kind.value,
                dtype=dtype.value,
                low=low.value,
                high=high.value,
                values=values.value,
                nulls={"yes": True, "no": False}.get(nulls.value),
                declare=bool(declare.value),
                source=source.value,
            )

        with part("div", "buttons"):
            button("Save this column", lambda: page.do(save, then="column-heading"), main=True)
            button(
                "Leave this column out",
                lambda: page.do(lambda: session.change(Edit(drop=(view.name,)))),
            )
            next_column = (page.place.chosen + 1) % number
            button("Next column", lambda: _open(page, next_column)).set_enabled(number > 1)


def _has(fact: str, kind: str) -> bool:
    """Return whether columns of a kind have a fact."""
    return fact in fact_names(KINDS[kind])


def _fact_field(label: str, value: str | None, read: str | None, *, wide: bool = False) -> Any:
    """Return a field with a value; a value that was read from the rows is only the hint of an empty field."""
    if read is None:
        return field(label, value or "", wide=wide)
    return field(label, hint=f"read from the rows: {quote(read, HINT)}", wide=wide)
