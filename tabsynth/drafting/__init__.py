"""Schemas and rules from rows: released with noise, or copied from the rows for a person to review."""

from tabsynth._lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
