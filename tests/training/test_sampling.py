"""R5: batches are Poisson samples at exactly the rate that is accounted."""

import numpy as np
import pytest
import torch
from scipy import stats

from tabsynth.training.sampling import poisson_sample

torch.set_num_threads(1)


@pytest.mark.parametrize("rate", [0.03, 0.4])
def test_poisson_batches(rate: float) -> None:
    """R5: 10⁴ batches: binomial sizes, equal inclusion, no pair of rows together more than by chance."""
    n, batches = 120, 10_000
    rng = torch.Generator().manual_seed(11)
    included = np.zeros((batches, n), dtype=np.float32)
    for i in range(batches):
        picked = poisson_sample(n, rate, rng)
        included[i, picked.numpy()] = 1
        assert len(picked.unique()) == len(picked)
    sizes = included.sum(1).astype(int)
    law = stats.binom(n, rate)
    low, high = int(law.ppf(0.002)), int(law.ppf(0.998))
    seen = np.bincount(np.clip(sizes, low, high), minlength=high + 1)[low:]
    wanted = batches * law.pmf(np.arange(low, high + 1))
    wanted[0], wanted[-1] = batches * law.cdf(low), batches * law.sf(high - 1)
    assert stats.chisquare(seen, wanted).pvalue > 1e-4
    # Each row: binomial over the batches, at q and no other rate.
    counts = included.sum(0)
    spread = ((counts - batches * rate) ** 2).sum() / (batches * rate * (1 - rate))
    assert 1e-4 < stats.chi2(n).cdf(spread) < 1 - 1e-4
    assert abs(counts.sum() / (n * batches) - rate) < 4 * np.sqrt(rate * (1 - rate) / (n * batches))
    # Pairs of rows, and successive batches.
    pairs = np.corrcoef(included.T)[np.triu_indices(n, 1)] * np.sqrt(batches)
    assert abs(pairs.mean()) < 4 / np.sqrt(len(pairs)) and abs(pairs.var() - 1) < 0.08
    assert np.abs(pairs).max() < 6
    ahead = included[:-1] - rate, included[1:] - rate
    lag = (ahead[0] * ahead[1]).sum() / np.sqrt((ahead[0] ** 2).sum() * (ahead[1] ** 2).sum())
    assert abs(lag) < 4 / np.sqrt(n * batches)


def test_ends_of_the_range() -> None:
    """R5: empty batches happen; rate 1 is everyone; tiny rates are not rounded up."""
    rng = torch.Generator().manual_seed(0)
    assert poisson_sample(0, 0.5, rng).shape == (0,)
    assert poisson_sample(1000, 1.0, rng).tolist() == list(range(1000))
    assert sum(len(poisson_sample(4, 0.05, rng)) == 0 for _ in range(1000)) > 750
    rate = 2.0**-26  # where float32 coins would include four times too many
    found = sum(len(poisson_sample(2_000_000, rate, rng)) for _ in range(60))
    assert stats.poisson(1.2e8 * rate).sf(found - 1) > 1e-4
