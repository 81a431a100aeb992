"""Rows that the schema rules out: structural zeros, broken rules, and values outside what is declared."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import Metric, Part, weighted_wilson
from tabsynth.evaluation.results import RuleCheck
from tabsynth.evaluation.weighting import mean_share
from tabsynth.schema.constraints import Rule
from tabsynth.schema.schema import Schema

VIOLATIONS = definition_of("violations")


def violations(
    impossible: np.ndarray,
    fits: np.ndarray,
    names: Sequence[str],
    undeclared: Sequence[Part],
    weights: np.ndarray | None = None,
) -> Metric:
    """Return the share of the synthetic rows that break the schema. The references break none by construction.

    Parameters
    ----------
    impossible : ndarray of bool, shape (rows within the schema, rules)
        Which of the schema's impossible combinations each row has, and which of its constraints it breaks.
    fits : ndarray of bool, shape (rows,)
        Which rows of the synthetic table have only values that the schema declares; the others are in no other figure.
    names : sequence of str
        Of the combinations and constraints.
    undeclared : sequence of Part
        The values that the schema does not declare, with how many rows hold them.
    weights : ndarray, shape (rows,), optional
    """
    broken = np.zeros((len(fits), 1 + len(names)), dtype=bool)
    broken[fits, 1:] = impossible
    broken[:, 0] = ~fits
    parts = [
        Part(name, mean_share(hits, weights), n=int(hits.sum()))
        for name, hits in zip(names, broken.T[1:], strict=True)
    ]
    violated = [p for p in (*undeclared, *parts) if p.n]
    return Metric(
        VIOLATIONS,
        weighted_wilson(np.asarray(broken.any(axis=1)), weights),
        parts=tuple(sorted(violated, key=lambda part: -part.n)),
    )


def rule_checks(
    schema: Schema,
    training: pd.DataFrame,
    synthetic: pd.DataFrame,
    weights: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
) -> tuple[RuleCheck, ...]:
    """Return rows of both tables that break each rule of a schema, in its order.

    Parameters
    ----------
    schema : Schema
    training, synthetic : DataFrame
        Rows whose values the schema declares, in its dtypes.
    weights : tuple of (ndarray or None)
        Of both tables, for shares; numbers are of rows.
    """

    def check(rule: Rule) -> RuleCheck:
        hits = [rule.violations(table) for table in (synthetic, training)]
        shares = [mean_share(hit, each) for hit, each in zip(hits, weights[::-1], strict=True)]
        broken = [int(hit.sum()) for hit in hits]
        return RuleCheck(rule.text, broken[0], broken[1], shares[0], shares[1])

    return tuple(map(check, schema.row_rules))
