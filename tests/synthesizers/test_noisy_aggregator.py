"""R16: class votes have the noise and the privacy cost of their account."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from tabsynth.privacy.accounting.mechanisms import Gaussian, NoisyVote
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.synthesizers.pate.rounds import NoisyAggregator

DRAWS = 40_000


@pytest.mark.parametrize("multiplier", [0.5, 3.0, 11.0])
def test_the_law_of_class_votes(multiplier: float) -> None:
    """A record moves two counts by one, √2 in all: noise of √2 σ on each, whatever the lead."""
    ledger = Ledger(math.inf, 1e-5)
    accounts = [
        ledger.open("votes", NoisyVote(noise=2.0, teachers=9), DRAWS),
        ledger.open("class votes", Gaussian(noise_multiplier=multiplier), DRAWS),
    ]
    aggregator = NoisyAggregator(
        PrivateTable(torch.zeros(1, 1), ledger), accounts, np.random.default_rng(3)
    )
    assert aggregator.noise(1) == pytest.approx(multiplier * 2**0.5)
    for lead in (0.0, multiplier, 2.5 * multiplier):
        votes = torch.tensor([[0.0, lead]], dtype=torch.float64).repeat(DRAWS, 1)
        result = float(aggregator.classes(votes).double().mean())
        wanted = norm.cdf(lead / (2 * multiplier))  # the difference of two has variance 4σ²
        assert abs(result - wanted) < 4.5 * math.sqrt(wanted * (1 - wanted) / DRAWS)
    aggregator.open(7)
    assert [account.spent for account in accounts] == [7, 7] and aggregator.remaining() == DRAWS - 7
