"""Metrics of a synthetic table: pure functions of category codes that return value and interval."""

from tabsynth._lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
