"""Metrics of a synthetic table: pure functions of value numbers that return value and interval."""

from tabsynth.evaluation.battery import measure
from tabsynth.evaluation.disclosure import attribute_disclosure
from tabsynth.evaluation.floor import shuffled, verdict
from tabsynth.evaluation.marginals import distances, histogram
from tabsynth.evaluation.prediction import dimension_wise_prediction
from tabsynth.evaluation.results import (
    F1,
    Cell,
    ColumnPrediction,
    Comparison,
    Disclosure,
    Distance,
    Distances,
    Estimate,
    Evaluation,
    Marginal,
    Prediction,
    Verdict,
)

__all__ = [
    "F1",
    "Cell",
    "ColumnPrediction",
    "Comparison",
    "Disclosure",
    "Distance",
    "Distances",
    "Estimate",
    "Evaluation",
    "Marginal",
    "Prediction",
    "Verdict",
    "attribute_disclosure",
    "dimension_wise_prediction",
    "distances",
    "histogram",
    "measure",
    "shuffled",
    "verdict",
]
