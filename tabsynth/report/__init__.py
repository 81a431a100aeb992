"""Reports of evaluations as HTML, Markdown and JSON; the package computes no figure."""

from tabsynth.report.report import Report, compare, evaluate, evaluate_private

__all__ = ["Report", "compare", "evaluate", "evaluate_private"]
