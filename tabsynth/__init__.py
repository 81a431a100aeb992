"""Differentially private synthetic tables."""

from tabsynth._lazy import exports

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = exports(__name__, __file__)
