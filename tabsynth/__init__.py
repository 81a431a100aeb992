"""Differentially private synthetic tables that a steward can trust."""

from tabsynth.datasets import fetch_acs, load_census, load_hospital
from tabsynth.errors import BudgetError, FileFormatError, InputError, TabsynthError
from tabsynth.report import Report, evaluate
from tabsynth.schema import Column, Schema
from tabsynth.synthesizers import DPWGAN, load
from tabsynth.tables import read_table, write_table

__version__ = "0.1.0"

__all__ = [
    "DPWGAN",
    "BudgetError",
    "Column",
    "FileFormatError",
    "InputError",
    "Report",
    "Schema",
    "TabsynthError",
    "evaluate",
    "fetch_acs",
    "load",
    "load_census",
    "load_hospital",
    "read_table",
    "write_table",
]
