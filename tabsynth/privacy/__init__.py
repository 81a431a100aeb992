"""Privacy costs: mechanisms and accountants, exact noise, ledgers, and certificates with their verification."""

from tabsynth._lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
