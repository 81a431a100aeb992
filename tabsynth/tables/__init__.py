"""Tables in and out of files, and tables that count their own rows."""

from tabsynth._lazy import exports

__getattr__, __dir__, __all__ = exports(__name__, __file__)
