"""Differentially private synthetic tables that a steward can trust."""

from tabsynth.errors import BudgetError, FileFormatError, InputError, TabsynthError
from tabsynth.schema import Column, Schema
from tabsynth.tables import read_table, write_table

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "Column",
    "FileFormatError",
    "InputError",
    "Schema",
    "TabsynthError",
    "read_table",
    "write_table",
]
