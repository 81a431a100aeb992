"""One synthetic table, measured and shown: ``evaluate`` returns a ``Report``."""

from tabsynth.report.core import Report, evaluate

__all__ = ["Report", "evaluate"]
