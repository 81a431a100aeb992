"""Metrics of a synthetic table: pure functions of value numbers that return value and interval."""

from tabsynth.evaluation.attacks.shadow import shadow_membership
from tabsynth.evaluation.battery import Columns, measure
from tabsynth.evaluation.disclosure import attribute_disclosure
from tabsynth.evaluation.floor import shuffled, verdict
from tabsynth.evaluation.marginals import distances, histogram
from tabsynth.evaluation.metric import Evaluation, Metric, Part, Tables
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
    Marginal,
    Prediction,
    Verdict,
)

__all__ = [
    "F1",
    "Cell",
    "ColumnPrediction",
    "Columns",
    "Comparison",
    "Disclosure",
    "Distance",
    "Distances",
    "Estimate",
    "Evaluation",
    "Marginal",
    "Metric",
    "Part",
    "Prediction",
    "Tables",
    "Verdict",
    "attribute_disclosure",
    "dimension_wise_prediction",
    "distances",
    "histogram",
    "measure",
    "shadow_membership",
    "shuffled",
    "verdict",
]
