"""Rules between columns: the list of them, and forms of the common ones."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nicegui import ui

from tabsynth._files import parse_json
from tabsynth.app.elements import action, button, choice, field, part, text
from tabsynth.app.page import Page
from tabsynth.errors import InputError
from tabsynth.schema.column import Column
from tabsynth.schema.editing import number, parse_values


def edit_rules(page: Page) -> None:
    """Return the rules, and a form for each kind of rule."""
    session = page.session
    rules = [rule.text for rule in session.state.need_schema().rules]
    if not rules:
        text("There is no rule yet.", "p", "soft")
    with part("ol", "plain"):
        for i, rule in enumerate(rules, 1):
            with part("li"):
                text(rule, "span")
                text(" ", "span")
                declared = [*session.state.need_schema().constraints]
                remaining = [*declared[: i - 1], *declared[i:]]
                button(
                    "Take out",
                    partial(page.do, partial(session.set_rules, remaining)),
                    name=f"Take out rule {i}: {rule}",
                )
    names = list(session.state.need_schema().learned.names)
    _order(page, names)
    _implication(page, names)
    _json(page)


def _add(page: Page, make: Callable[[], Mapping[str, Any]]) -> None:
    session = page.session
    page.do(lambda: session.set_rules([*session.state.need_schema().constraints, make()]))


def _need_name(what: str, name: str) -> str:
    if not name:
        raise InputError(f"Choose {what}.")
    return name


def _order(page: Page, names: list[str]) -> None:
    text("An order of two columns", "h3")
    with part("div", "fields"):
        first = choice("Column with the smaller value", ["", *names])
        second = choice("Column with the larger value", ["", *names])
    strict = ui.checkbox("The values may not be equal")

    def make() -> Mapping[str, Any]:
        order = [
            _need_name("the column with the smaller value", first.value),
            _need_name("the column with the larger value", second.value),
        ]
        return {"order": order, **({"strict": True} if strict.value else {})}

    action("Add this order", lambda: _add(page, make))


def _implication(page: Page, names: list[str]) -> None:
    text("If one column has a value, then another one has", "h3")
    with part("div", "fields"):
        given_column = choice("If column", ["", *names])
        values = field("has a value of (a,b or low..high)")
        follows = choice("then column", ["", *names])
        then = field("has then a value of (a,b or low..high)")

    def make() -> Mapping[str, Any]:
        schema = page.session.state.need_schema()
        sides = {}
        for side, name, texts in (
            ("if", given_column.value, values.value),
            ("then", follows.value, then.value),
        ):
            column = schema[_need_name("both columns", name)]
            sides[side] = {column.name: _side(column, texts)}
        return sides

    action("Add this rule", lambda: _add(page, make))


def _side(column: Column, text: str) -> Any:
    """Return values or a range as a rule has them, in the type of the column."""
    if ".." in text and column.ordered:
        low, _, high = text.partition("..")
        return {"low": _value_of(column, low.strip()), "high": _value_of(column, high.strip())}
    return [_value_of(column, value) for value in parse_values(text)]


def _value_of(column: Column, value: str) -> Any:
    as_number = number(value) if column.value_type in ("int", "float") else None
    if column.value_type == "bool":
        return value.lower() in ("true", "1", "yes")
    return value if as_number is None else as_number


def _json(page: Page) -> None:
    with part("details"):
        text("Another rule, as a schema file has it", "summary")
        text(
            'Sums: {"sum": ["a", "b"], "at_most": "c"}. Derived columns: {"derive": "adult", "expression": "age >= 18"}.',
            "p",
            "soft",
        )
        with part("div", "fields"):
            rule = field("Rule as JSON", wide=True)

        def make() -> Mapping[str, Any]:
            parsed = parse_json(rule.value, "The rule", "rule")
            if not isinstance(parsed, dict):
                raise InputError('Expected a rule such as {"order": ["start", "end"]}.')
            return parsed

        action("Add the rule", lambda: _add(page, make))
