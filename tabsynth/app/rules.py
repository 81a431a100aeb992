"""Rules between columns: the list of them, a form of the common one, and one of all others."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nicegui import ui

from tabsynth._files import parse_json
from tabsynth.app.elements import action, button, choice, field, note, part, text
from tabsynth.app.page import Page
from tabsynth.errors import InputError


def edit_rules(page: Page) -> None:
    """Return the rules, and the forms that add one."""
    session = page.session
    rules = [rule.text for rule in session.state.need_schema().rules]
    if not rules:
        note("There is no rule yet.")
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


def _json(page: Page) -> None:
    with part("details"):
        text("Another rule, as a schema file has it", "summary")
        note(
            'If one column has a value, then another one has: {"if": {"sex": ["m"]}, "then": {"births": {"low": 0, "high": 0}}}.'
            ' Sums: {"sum": ["a", "b"], "at_most": "c"}. Derived columns: {"derive": "adult", "expression": "age >= 18"}.'
        )
        with part("div", "fields"):
            rule = field("Rule as JSON", wide=True)

        def make() -> Mapping[str, Any]:
            parsed = parse_json(rule.value, "The rule", "rule")
            if not isinstance(parsed, dict):
                raise InputError('Expected a rule such as {"order": ["start", "end"]}.')
            return parsed

        action("Add the rule", lambda: _add(page, make))
