"""R5: batches are Poisson samples at exactly the rate that is accounted."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.training.private_step import poisson_sample

torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.03, 0.4, 0.9])
def test_poisson_batches(rate: float) -> None:
    """R5: 10⁴ batches: binomial sizes, equal inclusion, no pair of rows together more than by chance."""
    n, batches = 120, 10_000
    rng = np.random.default_rng(11)
    included = np.zeros((batches, n), dtype=np.float32)
    for i in range(batches):
        picked = poisson_sample(n, rate, rng)
        included[i, picked.numpy()] = 1
        assert picked.dtype == torch.int64 and bool((picked.diff() > 0).all())
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
    rng = np.random.default_rng(0)
    assert poisson_sample(0, 0.5, rng).shape == (0,)
    assert poisson_sample(1000, 1.0, rng).tolist() == list(range(1000))
    assert sum(len(poisson_sample(4, 0.05, rng)) == 0 for _ in range(1000)) > 750
    rate = 2.0**-26  # where float32 coins would include four times too many
    result = sum(len(poisson_sample(2_000_000, rate, rng)) for _ in range(60))
    assert stats.poisson(1.2e8 * rate).sf(result - 1) > 1e-4


class Counted:
    """How many random numbers of 64 bits are drawn."""

    def __init__(self) -> None:
        self.count, self.bits = 0, Keystream(bytes(32))

    def bytes(self, length: int) -> bytes:
        self.count += length // 8
        return self.bits.bytes(length)


@pytest.mark.parametrize("expected", [0.5, 20, 1000])
def test_the_cost_is_the_batch_and_not_the_table(expected: float) -> None:
    """As many random numbers as rows in the batch, a few standard deviations, and eight: whatever n."""
    for n in (10**4, 10**6, 10**9):
        draws = Counted()
        sizes = [len(poisson_sample(n, expected / n, draws)) for _ in range(40)]
        most = expected + 4 * math.sqrt(expected) + 9
        assert sum(sizes) <= draws.count <= 40 * most * 1.1
        assert abs(sum(sizes) - 40 * expected) < 5 * math.sqrt(40 * expected)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("rate", [1e-3, 0.3, 0.999, math.nextafter(1.0, 0.0)])
def test_small_tables(n: int, rate: float) -> None:
    """Every subset at its own probability: the first and last rows as any other."""
    rng, runs = np.random.default_rng(n), 2000
    counts = np.zeros(2**n)
    for _ in range(runs):
        picked = poisson_sample(n, rate, rng)
        counts[int((2**picked).sum())] += 1
    sizes = np.array([bin(i).count("1") for i in range(2**n)])
    law = rate**sizes * (1 - rate) ** (n - sizes)
    frequent = runs * law > 5
    rest = counts[~frequent].sum()
    assert rest <= stats.poisson.ppf(1 - 1e-6, runs * law[~frequent].sum() + 1e-9)
    if frequent.sum() > 1:
        wanted = law[frequent] / law[frequent].sum() * counts[frequent].sum()
        assert stats.chisquare(counts[frequent], wanted).pvalue > 1e-5


def test_gaps_are_geometric() -> None:
    """P(gap = k) = q (1 − q)^(k−1): also past the numbers that are drawn at once."""
    rng, rate = np.random.default_rng(8), 0.02
    gaps: list[int] = []
    for _ in range(60):
        picked = poisson_sample(20_000, rate, rng)
        gaps += picked.diff(prepend=torch.tensor([-1])).tolist()
    edges = stats.geom.ppf(np.arange(1, 20) / 20, rate)
    cdf = np.concatenate([[0.0], stats.geom.cdf(edges, rate), [1.0]])
    seen = np.histogram(gaps, np.concatenate([[0], edges + 0.5, [10**9]]))[0]
    assert stats.chisquare(seen, np.diff(cdf) * len(gaps)).pvalue > 1e-5


def test_the_generator_given_draws() -> None:
    """The same stream, the same batches; another one, others; the global one is left alone."""
    before = torch.get_rng_state()
    streams = [np.random.default_rng(seed) for seed in (1, 1, 2)]
    one, two, three = ([poisson_sample(500, 0.1, g).tolist() for _ in range(5)] for g in streams)
    assert one == two != three
    assert torch.equal(before, torch.get_rng_state())


def test_every_row_of_a_large_table_may_be_picked() -> None:
    """Single-precision coins would leave all but one row in 64 out for ever."""
    rng = np.random.default_rng(1)
    last_bits = poisson_sample(2**40, 2.0**-30, rng) % 64
    seen = np.bincount(last_bits.numpy(), minlength=64)
    assert stats.chisquare(seen).pvalue > 1e-5
