"""The summary of a draft: how many columns it keeps, which it leaves out and why, and what would keep more of them."""

import shlex
from collections.abc import Iterable, Mapping

from tabsynth._validate import list_first, quote
from tabsynth.drafting.budget import draft_share
from tabsynth.drafting.catalogue import CATALOGUE
from tabsynth.drafting.identifiers import IDENTIFIERS
from tabsynth.drafting.released_columns import AT_THIS_BUDGET, DECLARED_ROWS, TOO_FEW_VALUES
from tabsynth.privacy.noise.counts import stated_share
from tabsynth.schema.linked import SchemaLike, read_table_schema
from tabsynth.schema.schema import Schema

LISTED = 10  # names of columns with one reason
MOST_RULES = 3  # that are listed
TIMES, LARGEST = 3, 10.0  # the other ε of a summary: times that of the draft, and at most


def summarize(
    schema: SchemaLike, epsilon: float | None = None, delta: float = 1e-5, *, command: bool = False
) -> list[str]:
    """Return what a draft kept and left out, grouped by reason, the rules that it found, and what would keep more columns, a line each.

    Nothing but the schema is read, so it costs no privacy.

    Parameters
    ----------
    schema : Schema, dict or path
        As a private draft released it.
    epsilon, delta : float, optional
        The budget of the fit or of the draft. It gives an estimate of how many columns a larger ε would keep.
    command : bool
        Name the options of the command line, and not the parameters of Python.

    Returns
    -------
    list of str
        One line alone where all columns are kept and represent nearly all rows, no rule was found, and the catalogue gave nothing.
    """
    schema = read_table_schema(schema)
    names = schema.names_left_out
    count = len(schema.columns) + len(names)
    lines = [f"{len(schema.columns)} of {count} columns are kept{':' if names else '.'}"]
    if not names:
        lines = [f"All {count} columns are kept."]
    lines += [f"  {line}" for line in group_reasons(schema.left_out)]
    released = schema.released or {}
    shares = []
    for name, item in released.get("notes", {}).items():
        ends = item.get("interval")  # a share that is an upper bound has none
        stated = f"{item['share']:.0%}" if ends is None else stated_share(item["share"], ends, 0)
        shares.append((f"{quote(name)} {stated}", item["note"]))
    notes = group_names(shares)
    lines += [f"  {columns}: {note}" for note, columns in notes.items()]
    if hidden := released.get("hidden"):
        lines.append(
            f"In no column more than about {hidden:.0%} of the rows have a value that noise hides: an empty cell, or one beyond the"
            " bounds or too rare. It becomes another value."
        )
    entries = group_names(
        (quote(c.name), c.source.removeprefix(CATALOGUE))
        for c in schema.columns
        if c.source is not None and c.source.startswith(CATALOGUE)
    )
    if entries:
        taken = "; ".join(f"{entry} ({columns})" for entry, columns in entries.items())
        lines.append(f"Taken from the catalogue of public facts: {taken}.")
    if schema.rules:
        number = len(schema.rules)
        listed = number if number <= MOST_RULES else f"{MOST_RULES} of {number}; the schema has all"
        lines.append(f"Rules between columns, which hold in all synthetic rows ({listed}):")
        lines += [f"  {rule.text}" for rule in schema.rules[:MOST_RULES]]
    reasons = [item["reason"] for item in schema.left_out]
    rare = any(reason.endswith(AT_THIS_BUDGET) for reason in reasons)
    if rare or notes:
        draft = "tabsynth schema draft TABLE -o draft.json" if command else "draft_schema"
        ways = [f"declare columns ({draft} drafts them for you to review)"]
        if TOO_FEW_VALUES in reasons and DECLARED_ROWS not in released.get("public", ()):
            option = "--rows N" if command else "rows=N"
            ways.insert(0, f"declare the number of rows, if it is public ({option} costs nothing)")
        raised = "raise ε"
        larger = 0.0 if epsilon is None else min(TIMES * epsilon, LARGEST)
        if epsilon is not None and larger > epsilon and rare:
            share = draft_share(epsilon, delta, count) / draft_share(larger, delta, count)
            raised += f": ε = {larger:g} would keep about {expected_columns(schema, share)} columns"
        lines.append(f"To keep more, {', '.join(ways)}, or {raised}.")
    person = next((i["name"] for i in schema.left_out if i["reason"] in IDENTIFIERS), None)
    if person is not None and schema.unit is None:
        unit = f"declare it: unit={quote(person)}, max_rows_per_unit=K (draft_options, or Design)"
        if command:
            unit = f"add --unit {shlex.quote(person)} --max-rows-per-unit K"
        lines.append(f"If several rows may be of one person, {unit}.")
    return lines


def expected_columns(schema: Schema, share: float) -> int:
    """Return how many columns a draft may be expected to keep where its noise is the ``share`` of what it was.

    A value needs rows in proportion to the noise, and to the root of the number of columns that are still open. The largest
    number of rows that share a value of a column that was left out is taken to be any number below what a value needed, with
    the same probability; then the share that stays open is the square of that of the noise. Formats are counted at once for
    all columns.
    """
    reasons = [item["reason"] for item in schema.left_out]
    few = reasons.count(TOO_FEW_VALUES)
    rare = sum(reason.endswith(AT_THIS_BUDGET) for reason in reasons) - few
    return len(schema.columns) + round(few * (1 - share) + rare * (1 - share**2))


def group_reasons(left_out: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a line for each reason why columns are left out, with the first of their names."""
    by_reason = group_names((quote(item["name"]), item["reason"]) for item in left_out)
    return [f"{names}: left out, {reason}" for reason, names in by_reason.items()]


def group_names(columns: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the names of the columns of each text, as one text, from pairs of a name and a text."""
    by_text: dict[str, list[str]] = {}
    for name, text in columns:
        by_text.setdefault(text, []).append(name)
    return {text: list_first(names, LISTED) for text, names in by_text.items()}
