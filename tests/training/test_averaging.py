"""The mean of weights against its definition, and across a checkpoint."""

import pytest
import torch
from torch import nn

from tabsynth.synthesizers.adversarial.generator import WeightAverage


def stepped(module: nn.Module, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in module.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.randn(value.shape, generator=rng))
            else:
                value.add_(1)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_weights_of_the_steps_sum_to_one(decay: float) -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = WeightAverage(module, decay)
    seen = []
    for seed in range(7):
        stepped(module, seed)
        seen.append({k: v.double().clone() for k, v in module.state_dict().items()})
        average.update(module)
        if seed == 3:  # a checkpoint in the middle changes nothing
            state = average.state_dict()
            average = WeightAverage(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), decay)
            average.load_state_dict(state)
    weights = torch.tensor([decay ** (6 - i) for i in range(7)], dtype=torch.float64)
    weights /= weights.sum()
    for name, value in average.module.state_dict().items():
        if value.is_floating_point():
            wanted = sum(w * s[name] for w, s in zip(weights, seen, strict=True))
            torch.testing.assert_close(value.double(), wanted, rtol=1e-5, atol=1e-6)
        else:
            assert value == 7
