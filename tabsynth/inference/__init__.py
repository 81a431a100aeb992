"""Estimates with standard errors and intervals from fitted models and synthetic tables."""

from tabsynth._lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
