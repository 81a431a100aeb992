"""The review of a schema: column by column, with what was read from the rows beside its field, and no field filled with it."""

import re
from types import SimpleNamespace

import page_server
import pytest

nicegui = pytest.importorskip("nicegui", reason="the page needs the extra app")

from nicegui.page import page as nicegui_page  # noqa: E402

from tabsynth.app.columns import review_columns  # noqa: E402
from tabsynth.app.session import Session  # noqa: E402
from tabsynth.design import UNCHANGED  # noqa: E402
from tabsynth.schema.editing import Edit  # noqa: E402


@pytest.fixture
def session(tmp_path):
    page_server.people().to_csv(tmp_path / "people.csv", index=False)
    session = Session(tmp_path / "work")
    session.choose(tmp_path / "people.csv")
    session.confirm()
    session.draft().wait()
    return session


def shown(session, chosen):
    """The texts of the page, and its fields by their labels: value and hint."""
    client = nicegui.Client(nicegui_page("/review"), request=None)
    with client:
        place = SimpleNamespace(chosen=chosen)
        review_columns(SimpleNamespace(session=session, place=place))
    elements = list(client.elements.values())
    fields = {
        e.props["label"]: (getattr(e, "value", None), str(e.props.get("hint", "")))
        for e in elements
        if "label" in e.props
    }
    cells = [text for e in elements for text in re.findall(">([^<]+)<", getattr(e, "content", ""))]
    return [*cells, *(str(e.text) for e in elements if getattr(e, "text", None))], fields


def test_what_was_read_from_the_rows_stands_beside_an_empty_field(session):
    for number, view in enumerate(session.state.columns()):
        texts, fields = shown(session, number)
        read = dict(view.copied)
        assert {f"{fact}: {value}" for fact, value in read.items()} <= set(texts)
        for label, fact in (
            ("Data type", "dtype"),
            ("Smallest value", "low"),
            ("Largest value", "high"),
            ("Categories, with commas between", "categories"),
        ):
            value, hint = fields[label]
            assert fact not in read or (value == "" and "read from the rows: " in hint)
        assert fields["Values may be missing"][0] == ""
        meaning = next(text for text in texts if text.startswith("You vouch that every fact"))
        assert UNCHANGED in meaning and "no ε covers it" in meaning


def test_no_button_declares_several_columns(session):
    texts, _ = shown(session, 0)
    assert not [text for text in texts if "all columns" in text.lower()]
    assert not hasattr(session, "declare_all")


def test_a_column_that_is_declared_as_it_was_read_is_marked(session):
    session.edit_column("age", kind="numeric", declare=True, source="code book")
    texts, _ = shown(session, 0)
    assert UNCHANGED in texts  # in the list of columns
    assert any(text.startswith(f"1 of 3 columns are {UNCHANGED}") for text in texts)
    assert any(text.startswith(f"Provenance: {UNCHANGED} (low, high") for text in texts)
    assert "No column has facts that were read from the rows." not in texts


def test_facts_that_a_person_states_are_plainly_declared(session):
    """The same value as the draft's, too, if a person typed it; then the field has it."""
    view = next(v for v in session.state.columns() if v.name == "town")
    stated = {"dtype": view.dtype, "values": view.values, "nulls": False}
    session.edit_column("town", kind=view.kind, declare=True, source="list of towns", **stated)
    assert session.state.schema["town"].facts_from_rows == ()
    texts, fields = shown(session, 2)
    assert fields["Categories, with commas between"] == (view.values, "")
    assert "Provenance: declared: a person says that it is public." in texts
    session.change(Edit(declare=session.state.schema.names, source="code book"))
    assert "town" not in session.state.schema.unchanged_facts
