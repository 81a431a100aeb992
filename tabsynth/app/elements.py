"""Parts of the page: texts by their HTML element, boxes, tables and code to copy, all of which screen readers name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from nicegui import ui


def text(content: str, tag: str = "p", classes: str = "") -> Any:
    """Return a text in an HTML element; it is never read as HTML."""
    element = ui.label(content).classes(classes)
    element.tag = tag
    return element


def part(tag: str = "div", classes: str = "", **attributes: str) -> Any:
    """Return an HTML element; elements that are made in a ``with`` block of it become its content."""
    element = ui.element(tag).classes(classes)
    for name, value in attributes.items():
        element.props[name.replace("_", "-")] = value
    return element


def field(
    label: str, value: str = "", hint: str = "", *, wide: bool = False, kind: Any = ui.input
) -> Any:
    """Return a field for a text, below its label; ``kind`` is the class of the element."""
    with _labelled(label, wide):
        element = kind(label, value=value).props("outlined dense stack-label")
    if hint:
        element.props["hint"] = hint
    return element


def choice(label: str, options: Sequence[str] | Mapping[str, str], value: str = "") -> Any:
    """Return a field to choose one of several options; a mapping has the text that is shown for each."""
    shown = dict(options) if isinstance(options, Mapping) else list(options)
    with _labelled(label):
        return ui.select(shown, label=label, value=value).props("outlined dense")


def _labelled(label: str, wide: bool = False) -> Any:
    """Return the place of a field, with its label, which wraps; that of Quasar, which does not, is for screen readers."""
    place = part("div", "field" + " wide" * wide)
    with place:
        text(label, "div", "label").props["aria-hidden"] = "true"
    return place


def show_if(element: Any, by: Any, allows: Callable[[str], bool]) -> None:
    """Show a field with its label only where the value of another one allows it."""
    element.parent_slot.parent.bind_visibility_from(by, "value", backward=allows)


def heading(content: str) -> None:
    """Return the heading of a step, which gets the focus when the step opens."""
    title = text(content, "h2", "step-heading")
    title.props["tabindex"] = "-1"


def note(content: str) -> None:
    """Return a text in a soft colour, which explains what stands above it."""
    text(content, "p", "soft")


def box(*lines: str, kind: str) -> None:
    """Return a box of some lines; ``kind``: warn, bad or good."""
    with part("div", f"box {kind}"):
        for line in lines:
            text(line)


def items(lines: Sequence[str]) -> None:
    """Return a list."""
    with part("ul", "plain"):
        for line in lines:
            text(line, "li")


def button(label: str, act: Callable[[], Any], *, main: bool = False, name: str = "") -> Any:
    """Return a button; ``name`` is what screen readers say where the label alone is not enough."""
    element = ui.button(label, on_click=act, color="primary" if main else None)
    element.props("no-caps unelevated" if main else "no-caps outline")
    if name:
        element.props["aria-label"] = name
    return element


def action(label: str, act: Callable[[], Any], *, main: bool = False, name: str = "") -> Any:
    """Return a button in a row of its own."""
    with part("div", "buttons"):
        return button(label, act, main=main, name=name)


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()
) -> Any:
    """Return a table, one element however long; ``numbers`` are the columns that are aligned at the right.

    Cells are escaped, unless they are :class:`markupsafe.Markup`.
    """
    kinds = ["number" * (j in numbers) for j in range(len(head))]
    marks = ["th", *["td"] * (len(head) - 1)]
    cell = Markup('<{0} class="{1}" data-name="{2}">{3}</{0}>')
    title = Markup('<th scope="col" class="{}">{}</th>')
    titles = Markup("").join(map(title.format, kinds, head))
    lines = (Markup("").join(map(cell.format, marks, kinds, head, row)) for row in rows)
    body = Markup("").join(map(Markup("<tr>{}</tr>").format, lines))
    with part("div", "scroll", role="region", aria_label=caption, tabindex="0"):
        return ui.html(
            Markup(
                '<table class="plain"><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>'
            ).format(caption, titles, body),
            sanitize=False,  # every text is escaped above
        )
