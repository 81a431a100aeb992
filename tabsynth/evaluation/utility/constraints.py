"""Rows that the schema rules out: structural zeros, broken rules, and values outside what is declared."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tabsynth.evaluation.metric import UTILITY, Metric, Part, wilson
from tabsynth.evaluation.results import RuleCheck
from tabsynth.schema.constraints import Rule
from tabsynth.schema.schema import Schema

CITATION = "Structural zeros as in McClure & Reiter 2016; Wilson 1927"


def violations(
    impossible: np.ndarray,
    outside: int,
    rows: int,
    names: Sequence[str],
    undeclared: Sequence[Part],
) -> Metric:
    """Share of the synthetic rows that break the schema. The references break none by construction.

    Parameters
    ----------
    impossible : ndarray of bool, shape (rows within the schema, rules)
        Which of the schema's impossible combinations each row has, and which of its constraints it breaks.
    outside : int
        Rows with a value that the schema does not declare; they are in no other figure.
    rows : int
        All rows of the synthetic table.
    names : sequence of str
        Of the combinations and constraints.
    undeclared : sequence of Part
        The values that the schema does not declare, with how many rows hold them.
    """
    broken = int(impossible.any(axis=1).sum()) + outside
    parts = [
        Part(name, float(impossible[:, i].sum()) / rows, n=int(impossible[:, i].sum()))
        for i, name in enumerate(names)
    ]
    violated = [p for p in (*undeclared, *parts) if p.n]
    return Metric(
        "violations",
        "Rows that break the schema",
        UTILITY,
        wilson(broken, rows),
        None,
        None,
        "lower",
        0.0,
        "Share of the synthetic rows with a combination that the schema declares impossible, or a"
        " value that it does not declare, or that break one of its constraints.",
        CITATION,
        tuple(sorted(violated, key=lambda part: -part.n)),
    )


def rule_checks(
    schema: Schema, training: pd.DataFrame, synthetic: pd.DataFrame
) -> tuple[RuleCheck, ...]:
    """Rows of both tables that break each declared and each suggested rule of a schema, in its order.

    Parameters
    ----------
    schema : Schema
    training, synthetic : DataFrame
        Rows whose values the schema declares, in its dtypes.
    """

    def check(rule: Rule, suggested: bool, released: float | None = None) -> RuleCheck:
        broken = [int(rule.broken(table).sum()) for table in (synthetic, training)]
        shares = [n / len(t) for n, t in zip(broken, (synthetic, training), strict=True)]
        return RuleCheck(rule.text, suggested, broken[0], broken[1], shares[0], shares[1], released)

    return (
        *(check(rule, False) for rule in schema.row_rules),
        *(
            check(rule, True, float(item["share"]))
            for rule, item in zip(schema.suggested_rules, schema.suggested, strict=True)
        ),
    )
