"""The price of a method before there is a table: from a declared number of rows and a budget."""

from tabsynth.planning.labels import LabelPlan, Labels, plan_labels
from tabsynth.planning.noise import NoisePlan, StepNoise, plan_noise

__all__ = ["LabelPlan", "Labels", "NoisePlan", "StepNoise", "plan_labels", "plan_noise"]
