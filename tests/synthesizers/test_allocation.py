"""The budget of joint counts where a public table is their prior: shares by brute force, and when they follow it at all."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from public_tables import SCHEMA, SIZES, drawn
from scipy.optimize import minimize
from systems import make_tiny_model

from tabsynth import MargNet
from tabsynth.auditing.replay_audit import SCHEMA as REPLAYED
from tabsynth.auditing.replay_audit import make_table
from tabsynth.privacy.noise.counts import (
    Measured,
    NoisyCounts,
    by_value,
    count_rows,
    number_of,
    shares_by_cells,
)
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.margnet.prior import (
    Distance,
    Following,
    PublicCounts,
    drift_by,
    least_errors,
)
from tabsynth.synthesizers.margnet.selection import sign_codes

torch.set_num_threads(1)
PAIRS = list(combinations(range(4), 2))
SETS = [*PAIRS, *combinations(range(4), 3)]


def frame(n: int, seed: int) -> pd.DataFrame:
    return pd.DataFrame(drawn(n, seed), columns=list("abcd")).astype("int64")


def total(
    shares: np.ndarray, variances: list[np.ndarray], noise: float, weight: np.ndarray
) -> float:
    """The sum of posterior errors, cell by cell."""
    error = 0.0
    for share, of_set, w in zip(shares, variances, weight, strict=True):
        for v in of_set:
            error += w * float(np.sqrt(1 / (1 / v + share / noise**2)))
    return error


@pytest.mark.parametrize("seed", range(5))
def test_shares_have_the_least_error_of_all(seed: int) -> None:
    """Against a general solver within the same bounds; what the prior knows best is at its least share."""
    rng = np.random.default_rng(seed)
    variances = [
        10 ** rng.uniform(-1, 4) * rng.random(size) + 1e-3 for size in rng.integers(2, 40, 6)
    ]
    noise, weight = 10 ** rng.uniform(0.5, 2), rng.uniform(0.5, 15, 6)
    least = 0.3 * np.array(shares_by_cells([v.size for v in variances], weight))
    found = np.array(least_errors(variances, noise, weight, least))
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert (found >= least * (1 - 1e-6)).all()
    best = minimize(
        total,
        least / least.sum(),
        (variances, noise, weight),
        method="SLSQP",
        bounds=[(a, 1) for a in least],
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert total(found, variances, noise, weight) <= best.fun * (1 + 1e-3)
    np.testing.assert_allclose(found, best.x, atol=0.02)


def test_shares_follow_the_counts_that_public_rows_expect() -> None:
    """Of pairs in their groups, at a third of the rows."""
    public, groups = drawn(300, 1), [np.minimum(g, 2) for g in by_value(SIZES)]
    default = shares_by_cells([9] * 6)
    by = Following(PublicCounts(public, 100.0), 2.5, 0.2)
    found = by.shares(PAIRS, groups, 7.0, np.ones(6), default)
    variances = [2.5 * count_rows(public, pair, groups).ravel() / 3 for pair in PAIRS]
    wanted = least_errors(variances, 7.0, np.ones(6), 0.2 * np.array(default))
    np.testing.assert_allclose(found, wanted)


def test_the_drift_is_a_mean_by_precision() -> None:
    """Against the sums written out: exact values and noisy ones."""
    rng = np.random.default_rng(0)
    parts = [(rng.normal(0, 30, 20), 5.0, 400.0), (rng.normal(0, 30, 9), 0.0, 900.0)]
    estimates, precisions = [], []
    for values, std, of_draw in parts:
        variance = max(std, 0.1) ** 2
        estimates.append((sum(x * x for x in values) - len(values) * variance) / of_draw)
        precisions.append(of_draw**2 / (2 * len(values) * variance**2 + 4 * variance * of_draw))
    found, error = drift_by([Distance(*part) for part in parts])
    assert found == pytest.approx(np.average(estimates, weights=precisions))
    assert error == pytest.approx(sum(precisions) ** -0.5)


def noisy_sums(codes: np.ndarray, signs: list[np.ndarray], std: float) -> dict[Any, np.ndarray]:
    """Row by row."""
    rng, out = np.random.default_rng(5), {}
    for columns in SETS:
        sums = np.zeros(3)
        for row in codes:
            sums += np.prod([signs[j][:, row[j]] for j in columns], axis=0)
        out[columns] = sums + std * rng.standard_normal(3)
    return out


def test_signs_show_whether_a_table_has_the_associations() -> None:
    """Another sample of the population has them, columns by themselves have not, and noise hides either."""
    private = drawn(2000, 1)
    shares = [np.bincount(c, minlength=s) / 2000 for c, s in zip(private.T, SIZES, strict=True)]
    signs = [sign_codes(share) for share in shares]
    means = [of @ share for of, share in zip(signs, shares, strict=True)]
    alike = drawn(3000, 2)
    shuffled = np.random.default_rng(3).permuted(alike, axis=0)
    for std, table, known in (
        (50.0, alike, True),
        (50.0, shuffled, False),
        (5000.0, alike, False),
        (5000.0, shuffled, False),
        (0.0, alike, True),
    ):
        sums = noisy_sums(private, signs, std)
        public = PublicCounts(table, 2000.0)
        assert public.explains(sums, std, signs, means, 0.3) == known
    assert not PublicCounts(alike, 2000.0).explains(sums, 0.0, signs, means, 0.0)


class Recorded:
    """What the joint counts of a fit are, and in which groups and shares."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[list[Any], list[float], list[Any]]] = []
        real = NoisyCounts.measure

        def measure(
            counts: Any, account: Any, sets: Any, shares: Any, bits: Any, groups: Any
        ) -> Any:
            sizes = [[number_of(by[j]) for j in s] for s, by in zip(sets, groups, strict=True)]
            self.calls.append((list(sets), list(shares), sizes))
            return real(counts, account, sets, shares, bits, groups)

        patch.setattr(NoisyCounts, "measure", measure)

    @property
    def joint(self) -> tuple[list[Any], list[float], list[Any]]:
        return self.calls[-1]


def fit_of(table: pd.DataFrame, epsilon: float, public: Any = None, **settings: Any) -> MargNet:
    config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=12, **settings)
    given = {} if public is None else {"public": public, "public_source": "made up"}
    return MargNet(SCHEMA, epsilon=epsilon, random_state=0, config=config, **given).fit(table)


def budget_of(model: MargNet) -> str:
    return model.certificate()["public"]["public_table"]["budget"]


def test_a_budget_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares are those of least error, of sum 1; each set is counted, and has its part of its share without a public table."""
    recorded, table, public = Recorded(monkeypatch), frame(2000, 1), frame(3000, 2)
    with_it = fit_of(table, 4.0, public)
    sets, shares, sizes = recorded.joint
    without = fit_of(table, 4.0)
    others, by_cells, coarser = recorded.joint
    assert budget_of(with_it) == "follows the public table"
    assert sets == others and shares != by_cells
    assert sum(shares) == pytest.approx(1, abs=1e-9)
    assert all(np.prod(a) >= np.prod(b) for a, b in zip(sizes, coarser, strict=True))
    pairs = [i for i, s in enumerate(sets) if len(s) == 2]
    least = shares_by_cells([int(np.prod(sizes[i])) for i in pairs])
    part = sum(shares[i] for i in pairs)
    for i, default in zip(pairs, least, strict=True):
        assert shares[i] >= 0.2 * part * default * (1 - 1e-6)
    assert with_it.certificate()["mechanisms"] == without.certificate()["mechanisms"]


@pytest.mark.parametrize(
    ("epsilon", "wrong", "unexplained"), [(4.0, True, 0.3), (0.05, False, 0.3), (4.0, False, 0.0)]
)
def test_a_budget_as_without(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, wrong: bool, unexplained: float
) -> None:
    """With a table of other associations, where noise hides them, and with the setting 0: sets, shares and groups are the same."""
    recorded, table, public = Recorded(monkeypatch), frame(2000, 1), frame(3000, 2)
    if wrong:
        public = public.apply(lambda c: np.random.default_rng(ord(c.name)).permutation(c))
    with_it = fit_of(table, epsilon, public, prior_unexplained=unexplained)
    joint = recorded.joint
    fit_of(table, epsilon)
    assert budget_of(with_it) == "as without a public table"
    assert joint == recorded.joint


def test_replays_have_a_budget_that_follows() -> None:
    model = make_tiny_model("margnet, budget by a public table", REPLAYED, epsilon=60.0)
    assert budget_of(model.fit(make_table(0))) == "follows the public table"


def test_measured_counts_are_of_the_groups() -> None:
    """A public row is counted in the cell that a private row like it is in."""
    groups = [np.array([0, 0, 1, 1, 2]), *by_value(SIZES)[1:]]
    public = drawn(100, 4)
    found = PublicCounts(public, 50.0).expect((0, 3), groups)
    np.testing.assert_allclose(found, count_rows(public, (0, 3), groups).ravel() / 2)
    noisy = Measured((0, 3), found.reshape(3, 6) + 2.0, 1.0)
    distance = Distance.of_counts(noisy, found, 50.0)
    np.testing.assert_allclose(distance.values, 2.0)
    assert distance.drawn == pytest.approx(sum(c * (1 - c / 50) for c in found))
