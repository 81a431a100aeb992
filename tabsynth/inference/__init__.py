"""Estimates with standard errors and intervals from fitted models and synthetic tables."""

from tabsynth.inference.analyses import crosstab, infer, logit, mean, ols, proportion, quantile
from tabsynth.inference.influence import NOT_SUPPORTED, Reference
from tabsynth.inference.pooling import pool

__all__ = [
    "NOT_SUPPORTED",
    "Reference",
    "crosstab",
    "infer",
    "logit",
    "mean",
    "ols",
    "pool",
    "proportion",
    "quantile",
]
