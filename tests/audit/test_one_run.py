"""One-run audits: the guesses, and that they find what is there, no less and no more."""

import numpy as np
import pytest
from broken import quieter

from tabsynth.auditing import one_run
from tabsynth.auditing.outcomes import NOT_REFUTED, REFUTED
from tabsynth.datasets import load_census
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.noise.counts import NoisyCounts
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers import MargNet
from tabsynth.synthesizers.margnet.config import MargNetConfig

QUICK = MargNetConfig(components=20, steps=1)


@pytest.fixture(scope="module")
def inserted():
    table, schema = load_census()
    names = ["AGEP", "MSP", "EDU", "INDP_CAT", "PUMA", "NPF"]
    schema = Schema([c for c in schema.columns if c.name in names], null_values=schema.null_values)
    table = table[[c.name for c in schema.columns]][:300]
    return one_run.insert_canaries(schema, table, 300, np.random.default_rng(0))


def test_canaries_are_in_by_a_coin(inserted):
    assert len(inserted.table) == 300 + inserted.included.sum()
    assert 100 < inserted.included.sum() < 200
    from tabsynth.encoding import TableEncoder

    index = TableEncoder(inserted.schema).to_index(inserted.table)
    assert (index[:300] == inserted.other_rows).all()
    assert (index[300:] == inserted.canaries[inserted.included]).all()
    sizes = np.array(inserted.schema.sizes)
    means = inserted.canaries.mean(0) / (sizes - 1)
    assert means == pytest.approx(np.full(len(sizes), 0.5), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_gaussian_canaries_bound_the_epsilon_from_below(epsilon):
    """Every canary with a Gaussian mechanism of its own, just (ε, δ)-DP: the bound is below ε in each of 20
    runs, though it holds at 90% only (the theorem is not tight), and above 0."""
    rng, mu, m = np.random.default_rng(0), gaussian_mu(epsilon, 1e-5), 2000
    results = []
    for _ in range(20):
        included = rng.random(m) < 0.5
        results.append(
            one_run.score_guesses(rng.normal(mu * included, 1), included, 1e-5, 0.9).epsilon
        )
    assert max(results) <= epsilon
    assert np.mean(results) > 0.15 * epsilon


def test_guesses_without_noise_reach_the_ceiling():
    included = np.random.default_rng(0).random(400) < 0.5
    result = one_run.score_guesses(included + 0.0, included, 1e-5)
    assert result.right == result.guesses
    assert result.epsilon == pytest.approx(one_run.largest_one_run_bound(400, 1e-5))
    assert one_run.score_guesses(-included.astype(float), included, 1e-5).epsilon == 0


def test_counts_tell_canaries_apart_and_no_more_than_is_claimed(inserted):
    model = MargNet(inserted.schema, epsilon=8.0, rows=450, config=QUICK)
    result = one_run.audit_one_run(model, inserted)
    assert result.verdict == NOT_REFUTED
    assert result.details["right"] > 0.8 * result.details["guesses"]
    assert 0.5 < result.epsilon_lower < result.epsilon_claimed == pytest.approx(8.0)


def test_counts_without_noise_are_refuted(inserted, monkeypatch):
    """A claim of ε = 0.5, and hardly any noise."""
    right = NoisyCounts.measure

    def measure(self, account, sets, shares, rng, groups=None, *rest):
        return quieter(self, right(self, account, sets, shares, rng, groups, *rest), groups, 1000)

    monkeypatch.setattr(NoisyCounts, "measure", measure)
    model = MargNet(inserted.schema, epsilon=0.5, rows=450, config=QUICK)
    result = one_run.audit_one_run(model, inserted)
    assert result.verdict == REFUTED and result.epsilon_lower > 0.5
