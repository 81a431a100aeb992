"""Groups of parameters with a bound each, by hand."""

import torch
from row_gradients import Partial
from torch import nn

from tabsynth.training.clipping import weight_bias_groups
from tabsynth.training.networks import mlp


def test_weights_apart_and_biases_together() -> None:
    module = mlp([3, 4, 5, 1], torch.Generator().manual_seed(0))
    assert weight_bias_groups(module) == [0, 3, 1, 3, 2, 3]
    assert weight_bias_groups(nn.Linear(3, 1, bias=False)) == [0]
    # What is not trained is in no group.
    assert weight_bias_groups(Partial("tanh")) == [0, 3, 1, 3, 2, 3]
    biases = nn.Linear(2, 2)
    biases.weight.requires_grad_(False)
    assert weight_bias_groups(biases) == [0]
