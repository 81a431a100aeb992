"""Renders what the evaluation measured, as HTML, Markdown and JSON; it computes nothing."""

from tabsynth.report.comparison import ComparisonReport, compare
from tabsynth.report.linked import LinkedReport, evaluate_linked
from tabsynth.report.published import PublishedReport, evaluate_private
from tabsynth.report.report import Report, evaluate

__all__ = [
    "ComparisonReport",
    "LinkedReport",
    "PublishedReport",
    "Report",
    "compare",
    "evaluate",
    "evaluate_linked",
    "evaluate_private",
]
