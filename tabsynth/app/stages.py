"""The steps of the page: what each shows and asks. What it does is in :class:`tabsynth.app.session.Session`."""

from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nicegui import ui

from tabsynth.app.columns import review_columns
from tabsynth.app.elements import (
    action,
    box,
    button,
    choice,
    field,
    heading,
    items,
    note,
    part,
    table,
    text,
)
from tabsynth.app.page import Page
from tabsynth.app.rules import edit_rules
from tabsynth.app.session import READING, Session
from tabsynth.app.settings import METHODS, Settings
from tabsynth.dossier.answers import LISTS, QUESTIONS
from tabsynth.errors import InputError

N = TypeVar("N", int, float)
OPTIONS = {
    "sep": "Separator (, ; | or tab)",
    "encoding": "Encoding, such as latin-1",
    "decimal": "Decimal mark (. or ,)",
    "sheet": "Sheet of a workbook",
}


def number(what: str, value: object, kind: type[N]) -> N:
    """Return a number of a form; a whole one with or without commas between thousands.

    Raises
    ------
    InputError
    """
    text = str(value).strip()
    try:
        return kind(text.replace(",", "") if kind is int else text)
    except ValueError:
        name = "a whole number" if kind is int else "a number"
        raise InputError(f"Expected {name} for {what}, got {str(value)[:40]!r}.") from None


def choose_table(page: Page) -> None:
    """Step 1."""
    session = page.session
    heading("Choose the table")
    text(
        "The table stays on this computer. It is not read in this step, and nothing of it is shown.",
        "p",
    )
    with part("div", "fields"):
        path = field(
            "Path of the table",
            "" if session.state.table is None else str(session.state.table),
            ".csv, .tsv, .parquet, .xlsx, .sav, .dta and others, by the suffix",
            wide=True,
        )
    with part("details"):
        text("Reading options", "summary")
        with part("div", "fields"):
            fields = {
                name: field(label, session.state.reading.get(name, ""))
                for name, label in OPTIONS.items()
            }

    def use() -> None:
        session.choose(path.value, **{n: fields[n].value for n in READING})

    action("Use this table", lambda: page.do(use, stage=1), main=True)
    if session.state.table is not None:
        box(f"Chosen: {session.state.table}", kind="good")


def confirm(page: Page) -> None:
    """Step 2."""
    session = page.session
    heading("Confirm that this screen is confidential")
    text(f"Chosen: {session.state.table}")
    text(
        "The next steps show facts and figures of the private rows, such as categories, bounds and comparisons. No ε covers"
        " what you see there. Only people who may see the table may see this screen: no screen sharing, no recording, nobody"
        " behind you."
    )
    if session.state.confirmed:
        box("You have confirmed that this screen is confidential.", kind="good")
    agreed = ui.checkbox("Only people who may see the private table can see this screen")
    agreed.set_value(session.state.confirmed)

    def go() -> None:
        if not agreed.value:
            raise InputError("Tick the box if it is so; otherwise go on at another screen.")
        session.confirm()

    action("Confirm", lambda: page.do(go, stage=2), main=True)


def schema(page: Page) -> None:
    """Step 3."""
    session = page.session
    session.state.need_confirmed()
    heading("Make and review the schema")
    text(
        "The schema states public facts of the columns: kinds, bounds and categories. A fit may take from the rows only what"
        " it pays for, so these facts must come from a codebook, a questionnaire or the law, not from the table."
    )
    with part("details") as details:
        details.props["open"] = session.state.schema is None
        text("Where the schema comes from", "summary")
        _sources(page)
    if session.state.schema is None:
        return
    review_columns(page)


def _sources(page: Page) -> None:
    session = page.session
    text("A schema file that you have", "h3")
    note("Such as one that tabsynth schema made from a codebook.")
    with part("div", "fields"):
        there = session.state.schema is None and session.state.schema_path.exists()
        path = field(
            "Path of the schema file", str(session.state.schema_path) if there else "", wide=True
        )
    action("Take this schema file", lambda: page.do(lambda: session.take_schema(path.value)))
    text("A draft to review", "h3")
    note(
        "Values of the table are copied, and marked. You replace them by public facts. Until then a fit makes a conditional"
        " claim only."
    )
    action(
        "Draft a schema to review",
        lambda: page.do(session.draft),
        main=session.state.schema is None,
    )
    note(
        "A private draft, whose kinds, bounds and categories are released with noise, is a schema file that tabsynth schema draft"
        " --epsilon has made."
    )


def _path(value: str) -> Path | None:
    return Path(value.strip()) if value and value.strip() else None


def constraints(page: Page) -> None:
    """Step 4."""
    page.session.state.need_schema()
    heading("Add constraints")
    text(
        "Rules between columns that every synthetic row satisfies, such as that a stay ends after it begins. State rules from"
        " public knowledge; do not look for them in the rows."
    )
    edit_rules(page)
    action("Go on to the plan", lambda: page.go(4), main=True)


def plan(page: Page) -> None:
    """Step 5."""
    session = page.session
    facts = session.state.need_schema()
    current = session.state.settings

    def text_of(setting: str, first: str = "") -> str:
        """Return a setting of the last plan as text, or with what a first one begins."""
        value = None if current is None else getattr(current, setting)
        if value is None:
            return first
        return f"{value:g}" if isinstance(value, float) else str(value)

    heading("Plan the privacy cost")
    text("The plan follows from the schema and from what you state here. No row is read.")
    if facts.drafted:
        box(
            f"{len(facts.drafted)} column(s) have facts that were read from the rows. ε does not cover them: the claim is"
            " CONDITIONAL on their being public. Replace and declare them in step 3.",
            kind="warn",
        )
    with part("div", "fields"):
        method = choice("Method", METHODS, text_of("method", "margnet"))
        epsilon = field("ε", text_of("epsilon", "1"), "smaller is more private")
        delta = field("δ", text_of("delta", "1e-5"), "well below 1 / rows")
        rows = field("Number of rows for the plan", text_of("rows"), "known from elsewhere")
        holdout = field(
            "Rows kept apart for the report, in %",
            f"{100 * (0.25 if current is None else current.holdout):g}",
            "drawn at random, not fitted",
        )
        name = field("Name of the fit", text_of("name", "fit"), "for its files")
        ledger = field(
            "Project ledger, if there is one",
            text_of("ledger"),
            "of tabsynth ledger create; counts all fits together",
        )
    public = ui.checkbox("The number of rows is exact and public: the fit may use it")
    public.set_value(current is not None and current.rows_are_public)
    accept = None
    if facts.drafted:
        accept = ui.checkbox(
            "I accept a conditional claim for the columns that were read from the rows"
        )
        accept.set_value(current is not None and current.accept_drafted)

    def settings() -> Settings:
        return Settings(
            method=method.value,
            epsilon=number("ε", epsilon.value, float),
            delta=number("δ", delta.value, float),
            rows=number("the number of rows", rows.value, int),
            rows_are_public=bool(public.value),
            holdout=number("the rows kept apart", holdout.value, float) / 100,
            accept_drafted=accept is not None and bool(accept.value),
            ledger=_path(ledger.value),
            name=name.value.strip(),
        )

    action("Show the plan", lambda: page.do(lambda: session.plan(settings())), main=True)
    if session.state.planned is not None and current is not None:
        _show_plan(page, current)


def _show_plan(page: Page, settings: Settings) -> None:
    planned = page.session.state.planned
    assert planned is not None
    text("Planned privacy cost", "h3")
    items(planned.lines)
    text("What it means for an attacker", "h3")
    items(planned.attacker)
    text("Expected error", "h3")
    text(
        f"A single count that had the whole budget would have noise of standard deviation {planned.one_count:,.3g} rows,"
        f" {planned.one_count / settings.fitted_rows:.3%} of {settings.fitted_rows:,} rows. A fit releases many counts, which have more noise."
    )
    if planned.errors:
        table(
            "Counts of single columns, before counts of several columns correct them",
            ("column", "values", "noise of a count, rows", "expected distance, 0 to 1"),
            [
                (x.column, f"{x.codes:,}", f"{x.noise:,.3g}", f"{x.distance:.3f}")
                for x in planned.errors
            ],
            numbers=(1, 2, 3),
        )
        note(
            "Distance: total variation distance between noisy and real shares; 0 is equal, 1 is as different as can be."
            " More rows, fewer values or a larger ε make it smaller."
        )
    else:
        text(
            f"The error of {settings.method} follows from its training; no plan can state it.", "p"
        )
    action("Go on to the fit", lambda: page.go(5), main=True)


def fit(page: Page) -> None:
    """Step 6."""
    session = page.session
    _, settings = session.state.need_plan()
    heading("Fit")
    text(
        f"{settings.method} with ε = {settings.epsilon:g} and δ = {settings.delta:g}. The charge is written to the checkpoint"
        f"{' and the ledger' * (settings.ledger is not None)} before rows are read. If you cancel, what was spent stays spent,"
        " and the fit can be resumed."
    )
    with part("div", "buttons"):
        label = "Fit again" if session.state.model is not None else "Start the fit"
        button(label, lambda: page.do(session.fit), main=session.state.model is None)
    if session.state.model is None:
        return
    text("Draw the synthetic table", "h3")
    text(
        "Drawing costs no privacy. Without a number, as many rows as the fit has released or you declared."
    )
    with part("div", "fields"):
        rows = field("Number of synthetic rows")
        key = field(
            "Private key for the signature",
            "" if session.state.key is None else str(session.state.key),
            "needed for a release",
        )

    def draw() -> Any:
        n = number("the number of rows", rows.value, int) if rows.value.strip() else None
        return session.draw(n, key.value)

    with part("div", "buttons"):
        button("Make a key pair", lambda: page.do(session.make_key))
        button("Draw the table", lambda: page.do(draw), main=True)
    if session.state.key is not None:
        note(f"Keep {session.state.key} secret. {session.state.key}.pub is for those who verify.")
    if session.state.synthetic is not None:
        box(f"Synthetic table: {session.state.synthetic}", kind="good")
        action("Go on to the report", lambda: page.go(6), main=True)


def report(page: Page) -> None:
    """Step 7."""
    session = page.session
    session.state.need_synthetic()
    heading("Look at the report")
    box(
        "CONFIDENTIAL: the report is computed from the real rows without noise. ε does not cover it. Do not publish it, and"
        " do not choose among fits by it.",
        kind="warn",
    )
    kept = session.state.holdout
    if kept is not None:
        text(f"Rows that the fit has not read: {kept}. The report compares with them, too.")
    with part("div", "fields"):
        holdout = field("Hold-out table, if there is one", "", "real rows that were not fitted")
        holdout.parent_slot.parent.set_visibility(kept is None)
        names = ["", *session.state.need_schema().learned.names]
        target = choice("Column to predict, if there is one", names)

    def evaluate() -> Any:
        return session.evaluate(holdout.value, target.value or None)

    action("Evaluate", lambda: page.do(evaluate), main=not session.state.summary)
    if session.state.summary:
        text("Summary", "h3")
        picture = session.state.picture
        if picture is not None:
            part("img", "picture", src=picture.source, alt=picture.alt)
            note(picture.alt)
        items(session.state.summary)
        ui.link("Open the whole report in a new tab", "/report", new_tab=True)
    note(
        "A report that may be published has noise, and costs ε of its own: tabsynth evaluate --epsilon makes it."
    )
    action("Go on to the release", lambda: page.go(7), main=bool(session.state.summary))


def release(page: Page) -> None:
    """Step 8."""
    session = page.session
    session.state.need_synthetic()
    heading("Write the release")
    text(
        "The release dossier has the table with its signed certificate, a privacy statement, metadata, a codebook and"
        " checksums. It has neither the report of step 7 nor the model."
    )
    if session.state.public_key is None:
        box("The table is not signed. Draw it with a key in step 6.", kind="warn")
    if session.state.schema is not None and session.state.schema.drafted:
        box(
            "The claim is CONDITIONAL: some columns have facts that were read from the rows.",
            kind="warn",
        )
    names = [name for name in QUESTIONS if name != "schema"]
    for needed, title in ((True, "What every release must say"), (False, "Further answers")):
        with part("div") if needed else part("details"):
            text(title, "h3" if needed else "summary")
            with part("div", "fields answers"):
                for name in (name for name in names if QUESTIONS[name][1] is needed):
                    _answer(page, name)
    with part("div", "fields"):
        folder = field(
            "Folder to write, which is not there yet",
            str(session.state.folder / "release"),
            wide=True,
        )

    def write() -> Any:
        return session.release(folder.value, page.place.answers)

    action("Write the release", lambda: page.do(write), main=True)
    if session.state.released is not None:
        box(
            f"Released: {session.state.released}",
            f"Publish the folder as it is, and {session.state.public_key} by another way.",
            kind="good",
        )
        ui.link("Open the privacy statement in a new tab", "/statement", new_tab=True)


def _answer(page: Page, name: str) -> None:
    """Return a field for an answer of a release, which is kept while the page is open."""
    question = QUESTIONS[name][0]
    hint = " One item in a line." if name in LISTS else ""
    start = page.place.answers.get(name, date.today().isoformat() if name == "published" else "")
    page.place.answers[name] = start

    def keep(event: Any) -> None:
        page.place.answers[name] = event.value or ""

    label = f"{name.capitalize()}: {question}.{hint}"
    element = field(label, start, wide=True, kind=partial(ui.textarea, on_change=keep))
    element.props("autogrow rows=1")


STAGES = [
    ("Table", lambda session: True, choose_table),
    ("Confidential screen", lambda session: session.state.table is not None, confirm),
    ("Schema", lambda session: session.state.confirmed and session.state.table is not None, schema),
    ("Constraints", lambda session: _has(session, "schema"), constraints),
    ("Plan", lambda session: _has(session, "schema"), plan),
    ("Fit", lambda session: _has(session, "planned"), fit),
    ("Report", lambda session: _has(session, "synthetic"), report),
    ("Release", lambda session: _has(session, "synthetic"), release),
]


def _has(session: Session, what: str) -> bool:
    return session.state.confirmed and getattr(session.state, what) is not None
