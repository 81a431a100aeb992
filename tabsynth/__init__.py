"""Differentially private synthetic tables."""

from typing import TYPE_CHECKING

from tabsynth._lazy import exports

if TYPE_CHECKING:
    from tabsynth.auditing.registry import audit
    from tabsynth.datasets import load_census
    from tabsynth.dossier.making import release
    from tabsynth.drafting.private_schema import draft_private
    from tabsynth.errors import BudgetError, InputError, TabsynthError
    from tabsynth.planning import plan
    from tabsynth.privacy.certificate.verification import verify
    from tabsynth.report import compare, evaluate, evaluate_private
    from tabsynth.schema import (
        Categorical,
        Date,
        Datetime,
        Duration,
        Hierarchical,
        Identifier,
        Numeric,
        Ordinal,
        Period,
        Text,
        Time,
    )
    from tabsynth.schema.linked import LinkedSchema
    from tabsynth.schema.schema import Schema
    from tabsynth.synthesizers import DPGAN, DPWGAN, PATEACGAN, PATEGAN, MargNet, load
    from tabsynth.synthesizers.linked.estimator import LinkedMargNet
    from tabsynth.tables.files import read_table, write_table

__version__ = "0.2.0"

__all__ = [
    "DPGAN",
    "DPWGAN",
    "PATEACGAN",
    "PATEGAN",
    "BudgetError",
    "Categorical",
    "Date",
    "Datetime",
    "Duration",
    "Hierarchical",
    "Identifier",
    "InputError",
    "LinkedMargNet",
    "LinkedSchema",
    "MargNet",
    "Numeric",
    "Ordinal",
    "Period",
    "Schema",
    "TabsynthError",
    "Text",
    "Time",
    "audit",
    "compare",
    "draft_private",
    "evaluate",
    "evaluate_private",
    "load",
    "load_census",
    "plan",
    "read_table",
    "release",
    "verify",
    "write_table",
]

__getattr__, __dir__ = exports(
    "tabsynth",
    {
        **dict.fromkeys(
            ("DPGAN", "DPWGAN", "MargNet", "PATEACGAN", "PATEGAN", "load"), "synthesizers"
        ),
        **dict.fromkeys(("BudgetError", "InputError", "TabsynthError"), "errors"),
        **dict.fromkeys(("compare", "evaluate", "evaluate_private"), "report"),
        **dict.fromkeys(("read_table", "write_table"), "tables.files"),
        **dict.fromkeys(
            (
                "Categorical",
                "Date",
                "Datetime",
                "Duration",
                "Hierarchical",
                "Identifier",
                "Numeric",
                "Ordinal",
                "Period",
                "Text",
                "Time",
            ),
            "schema",
        ),
        "LinkedMargNet": "synthesizers.linked.estimator",
        "LinkedSchema": "schema.linked",
        "Schema": "schema.schema",
        "audit": "auditing.registry",
        "draft_private": "drafting.private_schema",
        "load_census": "datasets",
        "plan": "planning",
        "release": "dossier.making",
        "verify": "privacy.certificate.verification",
    },
)
