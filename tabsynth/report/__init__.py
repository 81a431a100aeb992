"""One synthetic table, measured and shown: ``evaluate`` returns a ``Report``."""

from tabsynth.report.compare import SideBySide, compare
from tabsynth.report.evaluating import evaluate
from tabsynth.report.published import PublishedReport
from tabsynth.report.report import Report

__all__ = ["PublishedReport", "Report", "SideBySide", "compare", "evaluate"]
