"""Differentially private synthetic tables that a steward can trust."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tabsynth.errors import BudgetError, FileFormatError, InputError, TabsynthError
from tabsynth.schema import Categorical, Column, Numeric, Ordinal
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import read_table, write_table

if TYPE_CHECKING:
    from tabsynth.datasets import fetch_acs, load_census, load_hospital
    from tabsynth.privacy.ledger.project import ProjectLedger
    from tabsynth.report import PublishedReport, Report, SideBySide, compare, evaluate
    from tabsynth.synthesizers import DPGAN, DPWGAN, PATEACGAN, PATEGAN, MargNet, load

__version__ = "0.1.0"

__all__ = [
    "DPGAN",
    "DPWGAN",
    "PATEACGAN",
    "PATEGAN",
    "BudgetError",
    "Categorical",
    "Column",
    "FileFormatError",
    "InputError",
    "MargNet",
    "Numeric",
    "Ordinal",
    "ParquetCounter",
    "ProjectLedger",
    "PublishedReport",
    "Report",
    "RowCounter",
    "Schema",
    "SideBySide",
    "TabsynthError",
    "compare",
    "evaluate",
    "fetch_acs",
    "load",
    "load_census",
    "load_hospital",
    "read_table",
    "write_table",
]

# Imported when first asked for: whoever only evaluates does not wait for torch.
_LATER = {
    "DPGAN": "synthesizers",
    "DPWGAN": "synthesizers",
    "MargNet": "synthesizers",
    "PATEACGAN": "synthesizers",
    "PATEGAN": "synthesizers",
    "load": "synthesizers",
    "ParquetCounter": "tables.counter",
    "ProjectLedger": "privacy.ledger.project",
    "PublishedReport": "report",
    "Report": "report",
    "RowCounter": "tables.counter",
    "SideBySide": "report",
    "compare": "report",
    "evaluate": "report",
    "fetch_acs": "datasets",
    "load_census": "datasets",
    "load_hospital": "datasets",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tabsynth' has no attribute {name!r}")
    return getattr(import_module(f"tabsynth.{_LATER[name]}"), name)
