"""Metrics of a synthetic table: pure functions of category codes that return value and interval."""

from tabsynth.evaluation.attacks.disclosure import attribute_disclosure
from tabsynth.evaluation.baseline import independent_columns, verdict
from tabsynth.evaluation.config import EvaluationConfig
from tabsynth.evaluation.definitions import Definition
from tabsynth.evaluation.metric import Columns, Evaluation, Metric, Part, Tables
from tabsynth.evaluation.results import (
    F1,
    BaselineComparison,
    Cell,
    ColumnPrediction,
    Disclosure,
    Distance,
    Distances,
    Estimate,
    Marginal,
    Prediction,
    Verdict,
)
from tabsynth.evaluation.suite import measure
from tabsynth.evaluation.utility.marginals import distances
from tabsynth.evaluation.utility.prediction import dimension_wise_prediction

__all__ = [
    "F1",
    "BaselineComparison",
    "Cell",
    "ColumnPrediction",
    "Columns",
    "Definition",
    "Disclosure",
    "Distance",
    "Distances",
    "Estimate",
    "Evaluation",
    "EvaluationConfig",
    "Marginal",
    "Metric",
    "Part",
    "Prediction",
    "Tables",
    "Verdict",
    "attribute_disclosure",
    "dimension_wise_prediction",
    "distances",
    "independent_columns",
    "measure",
    "verdict",
]
