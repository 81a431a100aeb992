from tabsynth.evaluation.attacks.disclosure import attribute_disclosure as attribute_disclosure
from tabsynth.evaluation.baseline import independent_columns as independent_columns
from tabsynth.evaluation.baseline import verdict as verdict
from tabsynth.evaluation.config import EvaluationConfig as EvaluationConfig
from tabsynth.evaluation.definitions import Definition as Definition
from tabsynth.evaluation.metric import Columns as Columns
from tabsynth.evaluation.metric import Evaluation as Evaluation
from tabsynth.evaluation.metric import Metric as Metric
from tabsynth.evaluation.metric import Part as Part
from tabsynth.evaluation.metric import Tables as Tables
from tabsynth.evaluation.results import F1 as F1
from tabsynth.evaluation.results import BaselineComparison as BaselineComparison
from tabsynth.evaluation.results import Cell as Cell
from tabsynth.evaluation.results import ColumnPrediction as ColumnPrediction
from tabsynth.evaluation.results import Disclosure as Disclosure
from tabsynth.evaluation.results import Distance as Distance
from tabsynth.evaluation.results import Distances as Distances
from tabsynth.evaluation.results import Estimate as Estimate
from tabsynth.evaluation.results import Marginal as Marginal
from tabsynth.evaluation.results import Prediction as Prediction
from tabsynth.evaluation.results import Verdict as Verdict
from tabsynth.evaluation.suite import measure as measure
from tabsynth.evaluation.utility.marginals import distances as distances
from tabsynth.evaluation.utility.prediction import (
    dimension_wise_prediction as dimension_wise_prediction,
)
