"""Reports of evaluations as HTML, Markdown and JSON; the package computes no figure."""

from tabsynth.report.report import Report, evaluate, evaluate_private

__all__ = ["Report", "evaluate", "evaluate_private"]
