"""Printed plans of ``tabsynth plan``: the privacy cost of a method, without a table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tabsynth._validate import integer, quote
from tabsynth.cli.commands import app
from tabsynth.cli.console import as_typed, cli_command, say, say_table
from tabsynth.cli.fit import arguments_of, check_method, seconds
from tabsynth.cli.options import (
    PlanRequest,
    Settings,
    column_names,
    load_schema,
    refuse,
    typed_options,
)
from tabsynth.errors import InputError

if TYPE_CHECKING:
    from tabsynth.planning import ColumnError
    from tabsynth.schema.schema import Schema
    from tabsynth.synthesizers.plan import Plan


CONSENSUSES = (0.55, 0.6, 0.75, 0.9)  # at which the share of right labels is stated


@app.command()
@cli_command
def plan(request: PlanRequest, settings: Settings) -> None:
    """Show the noise and the number of uses of each mechanism that a privacy budget allows, without a table.

    With --table, show the error of the cells of a table. With --max-advantage in place of --epsilon, show the ε that keeps
    the advantage of every attacker below a bound.
    """
    parameters, typed = settings.read(), {**asdict(settings), "time_budget": request.time_budget}
    if request.max_advantage is not None:
        refused: dict[str, Any] = {"epsilon": request.epsilon, "schema": request.schema}
        refused |= {"table": request.table, **typed}
        refused |= {"method": None if request.method == "margnet" else request.method}
        return print_advantage(request, refused)
    if request.epsilon is None:
        raise InputError("A plan needs --epsilon, or --max-advantage; give it.")
    facts = load_schema(request.schema)
    if request.table:
        return print_tables(request, facts, typed)
    return print_plan(request, facts, parameters)


def print_plan(request: PlanRequest, schema: "Schema | None", settings: Mapping[str, Any]) -> None:
    """Plan the method with its settings, and print the plan.

    Raises
    ------
    InputError
        If there is no such method, or it does not take a setting.
    """
    from tabsynth.planning import bounds_of, column_errors, plan

    method, budget = request.method, _budget(request)
    check_method(method)
    own = typed_options({"time_budget": seconds(request.time_budget, "--time-budget")})
    parameters = arguments_of(method, own, settings, complete=False)
    fit_plan = plan(method, **budget, schema=schema, **parameters)
    errors = () if schema is None else column_errors(fit_plan, schema, request.rows)
    _print_noise(fit_plan, errors, request.rows)
    bounds = bounds_of(fit_plan)
    for line in [] if bounds is None else bounds.lines():
        say(line)


def _budget(request: PlanRequest) -> dict[str, Any]:
    integer("rows", request.rows)
    return {"rows": request.rows, "epsilon": request.epsilon, "delta": request.delta}


def print_advantage(request: PlanRequest, refused: Mapping[str, Any]) -> None:
    """Print the ε that keeps the advantage of every attacker below a bound.

    Raises
    ------
    InputError
        If an option of ``refused`` was typed, and as :func:`tabsynth.planning.plan_advantage`.
    """
    from tabsynth.planning import plan_advantage

    bound, rows, delta = float(request.max_advantage or 0), request.rows, request.delta
    refuse(refused, "A plan of --max-advantage", ("rows", "delta"))
    planned = plan_advantage(bound, rows, delta)
    margnet = _rounded_down(planned.margnet)
    say(f"margnet: ε = {margnet}, by the privacy curve of its mechanisms")
    say(f"any method: ε = {_rounded_down(planned.epsilon)}, from ε and δ alone")
    say(
        f"At δ = {delta:g}, these keep the true positive rate of every attacker at most {bound:g} above the false positive rate."
        " The attacker decides whether one record is in the table. No table was read."
    )
    if delta * rows >= 1:
        return say(f"Choose δ below 1/rows = {1 / rows:.2g}, and plan again.")
    return None


def _rounded_down(epsilon: float) -> str:
    """Round down to four digits, so that the bound still holds."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    return f"{math.floor(epsilon / unit + 1e-9) * unit:.4g}"


def print_tables(request: PlanRequest, schema: "Schema | None", refused: Mapping[str, Any]) -> None:
    """Plan the errors of declared tables, and print them.

    Raises
    ------
    InputError
        For a method without counts, an option that does not go with tables, and a table that cannot be planned.
    """
    method, budget = request.method, _budget(request)
    check_method(method)
    if method != "margnet":
        raise InputError(f"--table is for counts of margnet; {method} has none. Leave it out.")
    refuse(refused, "A plan of --table", ("rows", "epsilon", "delta", "method", "schema"))
    if schema is None:
        raise InputError(
            "--table needs the values of its columns; give the table's schema (--schema)."
        )
    from tabsynth.table_errors import plan_tables

    plans = plan_tables([*map(column_names, request.table or ())], schema, **budget)
    say(
        f"Errors of tables for ε = {budget['epsilon']:g}, δ = {budget['delta']:g}; {budget['rows']:,} declared rows. No table"
        " was read."
    )
    say_table(
        (
            "table",
            "cells",
            "counted",
            "standard error",
            "of a mean cell",
            "of the margins",
            "if declared",
        ),
        [
            (
                ",".join(item.columns),
                f"{item.cells:,}",
                f"{item.counted:,}",
                "-" if item.standard_error is None else f"{item.standard_error:,.3g} rows",
                "-" if item.relative is None else f"{item.relative:.1%}",
                ", ".join(f"{name} {error:.2%}" for name, error in item.margins.items()) or "-",
                f"{item.declared:,.3g} rows",
            )
            for item in plans
        ],
    )
    say(
        "standard error: of one cell of the groups of values that are counted, from the noise alone, as estimated by"
        " tabsynth.inference.crosstab; of the margins: of one value's count, relative to the mean count of a value;"
        " if declared: of one cell of all declared values, where the fit declares these tables (fit --table)"
    )
    say(
        "Counts of synthetic rows have other errors, which no plan states: the fit smooths this noise, and has errors of its own."
    )
    if any(item.standard_error is None for item in plans):
        say(
            "-: this budget does not count the table; declare it for the fit (fit --table), name it in the workload, or raise ε"
        )


def _print_noise(fit_plan: "Plan", errors: "Sequence[ColumnError]", rows: int) -> None:
    from tabsynth.privacy.accounting.labels import share_right
    from tabsynth.privacy.accounting.mechanisms import NoisyVote

    say(as_typed(str(fit_plan)))
    for vote in (s.mechanism for s in fit_plan.spends if isinstance(s.mechanism, NoisyVote)):
        right = [f"{share_right(c, vote):.3g} if {c:g} agree" for c in CONSENSUSES]
        say(f"  share of correct labels, by the share of teachers that agree: {', '.join(right)}")
    if errors:
        say(f"Expected error of the counts of single columns, for {rows:,} declared rows:")
        say_table(
            ("column", "values", "noise, rows", "distance"),
            [
                (quote(x.column), f"{x.codes:,}", f"{x.noise:,.4g}", f"{x.distance:.3f}")
                for x in errors
            ],
        )
        say(
            "noise: standard deviation of one count; distance: expected total variation distance of the column's shares,"
            " from 0 (equal) to 1, before counts of several columns correct it"
        )
