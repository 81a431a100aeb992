"""A public table as MargNet's prior: its drift, its weights by another solver, and when it is left out."""

import copy
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from public_tables import SCHEMA, SIZES, drawn
from scipy.optimize import minimize

from tabsynth import InputError, MargNet, Schema, load
from tabsynth.encoding import TableEncoder
from tabsynth.privacy.noise.counts import Measured, by_value, count_rows
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers import mixture as mixtures
from tabsynth.synthesizers.margnet.prior import (
    CLASS_STEPS,
    PriorCounts,
    given_back,
    in_order,
    latent_classes,
    posterior,
)
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution
from tabsynth.synthesizers.mixture import Mixture

torch.set_num_threads(1)


def measurements(counts: list[Measured], rows: float = 3000.0) -> Measurements:
    return Measurements(counts, rows, Resolution.by_value(SIZES))


def counted(codes: np.ndarray, std: float, seed: int = 0) -> list[Measured]:
    """Noisy counts of all columns and pairs."""
    rng, out = np.random.default_rng(seed), []
    for columns in [*combinations(range(4), 1), *combinations(range(4), 2)]:
        exact = count_rows(codes, columns, by_value(SIZES))
        out.append(Measured(columns, exact + std * rng.standard_normal(exact.shape), std))
    return out


def prior_of(public: np.ndarray, measured: list[Measured], rows: float) -> PriorCounts:
    return PriorCounts(public, measurements(measured, rows))


def test_neighbours_are_alike() -> None:
    codes = drawn(3000, 0)
    order = in_order(codes)
    assert sorted(order.tolist()) == list(range(3000))
    apart = [(np.diff(rows, axis=0) != 0).mean() for rows in (codes[order], codes)]
    assert apart[0] < 0.4 * apart[1]
    assert in_order(np.zeros((4, 2), dtype=np.int64)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("n", "public"), [(4000, 8000), (4000, 2000)])
def test_drift_of_two_samples_of_one_population(n: int, public: int) -> None:
    """A count differs from the expected one by the draw of both tables: its variance is (1 + n/N) times itself."""
    found = [
        prior_of(drawn(public, 2 * s), counted(drawn(n, 2 * s + 1), 4.0, s), n).drift()
        for s in range(12)
    ]
    assert np.mean(found) == pytest.approx(1 + n / public, rel=0.25)
    shuffled = np.random.default_rng(0).permuted(drawn(public, 0), axis=0)
    assert prior_of(shuffled, counted(drawn(n, 1), 4.0), n).drift() > 20


def test_the_drift_is_a_mean_by_precision() -> None:
    """Against the sums written out, of two pairs of columns with noise and without."""
    public, rows = drawn(300, 1), 150.0
    measured = [m for m in counted(drawn(150, 2), 5.0) if len(m.columns) == 2][:2]
    measured[1] = Measured(measured[1].columns, measured[1].counts, 0.0)
    estimates, precisions = [], []
    for m in measured:
        expected = count_rows(public, m.columns, by_value(SIZES)).ravel() / 2
        of_draw, variance = sum(c * (1 - c / rows) for c in expected), max(m.std, 0.1) ** 2
        squares = sum((a - b) ** 2 for a, b in zip(m.counts.ravel(), expected, strict=True))
        estimates.append((squares - m.counts.size * variance) / of_draw)
        precisions.append(of_draw**2 / (2 * m.counts.size * variance**2 + 4 * variance * of_draw))
    found, error = prior_of(public, measured, rows).estimated_drift()
    assert found == pytest.approx(np.average(estimates, weights=precisions))
    assert error == pytest.approx(sum(precisions) ** -0.5)


def test_a_drift_that_noise_hides_is_that_of_two_samples() -> None:
    """An estimate is less its standard error, so that it is above that of two samples in about one of six fits, not in half of them."""
    found = [
        prior_of(drawn(4000, 2 * s), counted(drawn(2000, 2 * s + 1), 400.0, s), 2000).drift()
        for s in range(20)
    ]
    assert min(found) == 1.5
    assert np.mean(np.array(found) > 1.5) < 0.4


def test_clarity_is_what_noise_leaves_of_the_drift() -> None:
    """Against loops over rows and sets; with little of it, it counts as none."""
    public = drawn(300, 0)
    measured = counted(drawn(200, 1), 6.0)
    shares = []
    for m in measured[4:]:
        counts = count_rows(public, m.columns, by_value(SIZES)) * 200 / 300
        of_rows = [counts[tuple(row[list(m.columns)])] for row in public]
        shares.append(np.mean([2.5 * c / (2.5 * c + 36) for c in of_rows]))
    assert prior_of(public, measured, 200.0).clarity(2.5) == pytest.approx(np.mean(shares))
    assert prior_of(public, counted(drawn(200, 1), 90.0), 200.0).clarity(2.5) == 0


def test_latent_classes_against_loops() -> None:
    """Expectation and maximisation in double precision, row by row and class by class."""
    codes = drawn(80, 5)
    weights = np.random.default_rng(1).random(80)
    weights /= weights.sum()
    blocks = [np.eye(size)[codes[:, j]] for j, size in enumerate(SIZES)]
    overall = [(80 * weights @ b + 1 / b.shape[1]) / 81 for b in blocks]
    first = np.random.default_rng(0).choice(80, 3, replace=False)
    p = [[0.8 * o + 0.2 * b[i] for o, b in zip(overall, blocks, strict=True)] for i in first]
    shares = np.full(3, 1 / 3)
    for _ in range(CLASS_STEPS):
        chance = np.array(
            [
                [
                    shares[k] * np.prod([q[codes[i, j]] for j, q in enumerate(p[k])])
                    for k in range(3)
                ]
                for i in range(80)
            ]
        )
        chance *= 80 * weights[:, None] / chance.sum(axis=1, keepdims=True)
        mass = chance.sum(axis=0)
        p = [
            [(chance[:, k] @ b + o) / (mass[k] + 1) for o, b in zip(overall, blocks, strict=True)]
            for k in range(3)
        ]
        shares = mass / 80
    found, found_shares = latent_classes(codes, weights, SIZES, 3)
    np.testing.assert_allclose(found.numpy(), [np.concatenate(q) for q in p], atol=2e-3)
    np.testing.assert_allclose(found_shares.numpy(), shares, atol=2e-3)
    assert len(latent_classes(codes[:2], weights[:2], SIZES, 3)[0]) == 2


def test_weights_minimise_the_penalised_distance() -> None:
    """Against a general solver of the primal problem, in the weights themselves."""
    public, private, drift = drawn(60, 3), drawn(200, 4), 2.5
    measured = counted(private, 6.0)
    prior = prior_of(public, measured, 200.0)
    start = 200 / 60
    cells = [prior.cells(m) for m in measured]

    def loss(logs: np.ndarray) -> float:
        w = start * np.exp(logs)
        distance = sum(
            np.square((np.bincount(c, w, m.counts.size) - m.counts.ravel()) / m.std).sum() / 2
            for c, m in zip(cells, measured, strict=True)
        )
        return float(distance + (w * logs - w + start).sum() / drift)

    best = minimize(loss, np.zeros(60), method="L-BFGS-B", options={"maxfun": 10**5})
    wanted = start * np.exp(best.x)
    found = prior.weights(drift, 500)
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=0.02)


def test_counts_are_given_back_where_noise_does_not_explain_them() -> None:
    """James and Stein's estimator: 0 within the noise, nearly all of a distance far beyond it."""
    noisy = Measured((0,), np.array([10.0, 20.0, 30.0]), 5.0)
    assert not given_back(noisy, np.array([12.0, 19.0, 33.0])).any()
    moved = given_back(noisy, np.array([110.0, 20.0, 30.0]))
    np.testing.assert_allclose(moved, [-100 * (1 - 3 * 25 / 10_000), 0, 0])
    exact = Measured((0,), np.array([10.0, 20.0]), 0.0)
    np.testing.assert_allclose(given_back(exact, np.array([1.0, 2.0])), [9, 18])


def test_the_posterior_is_nearer_than_public_and_noisy_counts() -> None:
    """In pairs of values, of counts with noise as large as the draw of rows."""
    public, private = drawn(3000, 1), drawn(3000, 2)
    measured = counted(private, 25.0)
    by, pairs = Resolution.by_value(SIZES), list(combinations(range(4), 2))
    found = posterior(public, measurements(measured), pairs, by.values, MargNetConfig())
    assert found is not None and found.share == 0.7 and 0.1 < found.clarity < 1
    of_pairs = {m.columns: m for m in found.counts if len(m.columns) == 2}
    assert sorted(of_pairs) == pairs
    errors = np.zeros(3)
    for m in measured[4:]:
        exact = count_rows(private, m.columns, by.values)
        alone = count_rows(public, m.columns, by.values)
        for i, counts in enumerate((of_pairs[m.columns].counts, alone, m.counts)):
            errors[i] += np.square(counts - exact).sum()
    assert errors[0] < 0.8 * errors[1:].min()


def test_a_prior_too_far_is_left_out() -> None:
    shuffled = np.random.default_rng(0).permuted(drawn(3000, 1), axis=0)
    by, pairs = Resolution.by_value(SIZES), list(combinations(range(4), 2))
    measured = measurements(counted(drawn(3000, 2), 10.0))
    assert posterior(shuffled, measured, pairs, by.values, MargNetConfig()) is None


def test_a_mixture_of_public_rows_and_components() -> None:
    """Its samples have the distribution that the shares say, whole or given a box, and its state goes into a file."""
    layout = TableEncoder(SCHEMA).layout
    codes = np.array([[0, 1, 2, 3], [4, 3, 0, 0], [4, 3, 1, 5]])
    flat = torch.cat([torch.full((2, s), 1 / s) for s in SIZES], dim=1)
    shares = torch.tensor([0.4, 0.2, 0.1, 0.2, 0.1])
    mixture = Mixture(layout, 2, rows=torch.from_numpy(codes)).set(flat, shares)
    assert mixture.sound()
    joint = 0.3 * np.full(SIZES, 1 / np.prod(SIZES))
    for row, share in zip(codes, shares.tolist(), strict=False):
        joint[tuple(row)] += share
    box = {0: np.arange(5) == 4}
    for boxes, wanted in (([{}], joint), ([box], joint * (np.arange(5) == 4)[:, None, None, None])):
        for rounded in (True, False):
            rows = mixture.sample(
                20_000, torch.Generator().manual_seed(1), rounded=rounded, boxes=boxes
            )
            found = np.zeros(SIZES)
            np.add.at(found, tuple(rows.T), 1 / 20_000)
            assert np.abs(found - wanted / wanted.sum()).sum() / 2 < 0.05
    again = Mixture(layout)
    again.load_state_dict(mixture.state_dict())
    np.testing.assert_array_equal(again.matrix(), mixture.matrix())
    broken = copy.deepcopy(mixture)
    broken.rows[0, 0] = 5
    assert not broken.sound()


def test_the_model_is_rows_classes_and_mixture() -> None:
    """By their shares; without clarity the mixture has no part in it."""
    public, private = drawn(3000, 1), drawn(3000, 2)
    by, pairs = Resolution.by_value(SIZES), list(combinations(range(4), 2))
    layout = TableEncoder(SCHEMA).layout
    flat = torch.cat([torch.full((5, s), 1 / s) for s in SIZES], dim=1)
    for std, parts in ((25.0, 5), (2000.0, 0)):
        measured = measurements(counted(private, std))
        found = posterior(public, measured, pairs, by.values, MargNetConfig())
        assert found is not None and bool(found.clarity) == bool(parts)
        model = found.with_rows(Mixture(layout, 5).set(flat))
        assert model.sound() and len(model.probabilities) == 100 + parts
        sums = [float(part.sum()) for part in model.shares.split([3000, 100, parts])]
        wanted = [0.7, 0.3 * (1 - found.clarity), 0.3 * found.clarity]
        np.testing.assert_allclose(sums, wanted, atol=1e-5)


def mixed(rows: int, components: int) -> Mixture:
    """A mixture of public rows and of components that are far from them."""
    rng = torch.Generator().manual_seed(0)
    flat = torch.cat(
        [torch.softmax(2 * torch.randn(components, s, generator=rng), dim=1) for s in SIZES], dim=1
    )
    layout = TableEncoder(SCHEMA).layout
    mixture = Mixture(layout, components, rows=torch.from_numpy(drawn(rows, 0)))
    shares = torch.cat(
        [torch.full((rows,), 0.5 / rows), torch.full((components,), 0.5 / components)]
    )
    return mixture.set(flat, shares)


def test_moved_entries_bring_triples_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the expected ones, than where triples do not count; and no more of them are taken than there is room for."""
    mixture = mixed(400, 6)
    p, shares = mixture.matrix(), mixture.shares.double().numpy()
    blocks = np.split(p, np.cumsum(SIZES)[:-1], axis=1)
    distances = [0.0, 0.0]
    for i, room in enumerate((mixtures.MAX_TRIPLE_CELLS, 0)):
        monkeypatch.setattr(mixtures, "MAX_TRIPLE_CELLS", room)
        rows = mixture.sample(2000, torch.Generator().manual_seed(1))
        for a, b, c in combinations(range(4), 3):
            expected = np.einsum("k,ka,kb,kc->abc", shares, blocks[a], blocks[b], blocks[c])
            counts = count_rows(rows, (a, b, c), by_value(SIZES)) / 2000
            distances[i] += np.abs(counts - expected).sum()
    assert distances[0] < 0.7 * distances[1]


def test_cells_of_triples_that_a_move_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the whole rows before and after; where there is room for some triples, they are those of the fewest cells."""
    restricted = mixed(50, 3)._restrict(({},))
    triples = mixtures._Triples.within(restricted, 100, 50)
    assert triples is not None
    index = drawn(30, 3)
    after = index.copy()
    after[:, 2] = (index[:, 2] + 1) % 3
    down, up = triples.moves(2, index, after[:, 2])
    which = [i for i, triple in enumerate(triples.sets.tolist()) if 2 in triple]
    np.testing.assert_array_equal(down, triples.cells(index)[:, which])
    np.testing.assert_array_equal(up, triples.cells(after)[:, which])
    monkeypatch.setattr(mixtures, "MAX_TRIPLE_CELLS", 5 * 4 * 3 + 4 * 3 * 6)
    few = mixtures._Triples.within(restricted, 100, 50)
    assert few is not None and few.sets.tolist() == [[0, 1, 2], [1, 2, 3]]


def frame(n: int, seed: int) -> pd.DataFrame:
    return pd.DataFrame(drawn(n, seed), columns=list("abcd")).astype("int64")


def fit_of(table: pd.DataFrame, **changes: Any) -> MargNet:
    config = MargNetConfig(components=60, latent_dim=8, hidden=(16,), steps=200)
    parameters = {"epsilon": 0.3, "random_state": 0, "config": config, **changes}
    return MargNet(SCHEMA, **parameters).fit(table)


def distance(model: MargNet, table: pd.DataFrame) -> float:
    """Mean total variation distance of triples."""
    rows = model.sample(len(table), random_state=1)
    a, b = (TableEncoder(SCHEMA).to_index(t) for t in (table, rows))
    sets = list(combinations(range(4), 3))
    each = [
        np.abs(count_rows(a, s, by_value(SIZES)) - count_rows(b, s, by_value(SIZES))).sum()
        for s in sets
    ]
    return float(np.mean(each)) / 2 / len(table)


@pytest.mark.slow
def test_a_public_table_brings_a_fit_nearer_and_is_named(tmp_path: Any) -> None:
    """At a small epsilon; the certificate says what it is and how it was used, and the file keeps it."""
    table, public = frame(1500, 1), frame(1500, 2)
    with_it = fit_of(table, public=public, public_source="last year's release")
    without = fit_of(table)
    assert distance(with_it, table) < 0.7 * distance(without, table)
    said = with_it.certificate()["public"]["public_table"]
    assert said["rows"] == 1500 and said["provenance"] == "last year's release"
    assert said["overlap"] == "declined: not counted" and said["use"] == "prior of all counts"
    assert said["share_of_rows"] == with_it.config.prior_share
    assert with_it.certificate()["mechanisms"] == without.certificate()["mechanisms"]
    with_it.save(tmp_path / "model.tabsynth")
    again = load(tmp_path / "model.tabsynth")
    pd.testing.assert_frame_equal(
        again.sample(50, random_state=2), with_it.sample(50, random_state=2)
    )
    given = again.sample(30, where={"a": 4}, random_state=0)
    assert (given["a"] == 4).all()


@pytest.mark.slow
def test_public_rows_may_be_the_whole_model() -> None:
    """``prior_share=1``: every synthetic row is a public one, with and without a condition."""
    public = frame(1500, 2)
    config = MargNetConfig(components=60, latent_dim=8, hidden=(16,), steps=50, prior_share=1.0)
    model = fit_of(
        frame(1500, 1), public=public, public_source="last year's release", config=config
    )
    known = set(public.itertuples(index=False, name=None))
    for rows in (model.sample(1500, random_state=0), model.sample(20, where={"a": 4})):
        assert set(rows.itertuples(index=False, name=None)) <= known


@pytest.mark.slow
def test_with_a_wrong_prior_the_fit_is_as_without() -> None:
    """Bit by bit, of the same seed."""
    table = frame(1500, 1)
    wrong = frame(1500, 2).apply(lambda c: np.random.default_rng(len(c.name)).permutation(c))
    wrong = wrong.assign(a=4 - wrong["a"])
    settings = {"epsilon": 4.0}
    one = fit_of(table, public=wrong, public_source="wrong", **settings)
    other = fit_of(table, **settings)
    assert one.certificate()["public"]["public_table"]["use"].startswith("none")
    pd.testing.assert_frame_equal(
        one.sample(100, random_state=1), other.sample(100, random_state=1)
    )


WEIGHTED = Schema(SCHEMA.columns, weight="w", max_weight=9.0)


def test_rows_with_weights_take_no_public_table() -> None:
    model = MargNet(WEIGHTED, epsilon=1.0, public=frame(20, 0).assign(w=1.0), public_source="x")
    with pytest.raises(InputError, match="no public table for rows with survey weights"):
        model.plan(estimate_time=False)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"public": frame(20, 0)}, "needs public_source"),
        ({"public": frame(20, 0), "public_source": " "}, "needs public_source"),
        ({"public_source": "x"}, "public_source= goes with a public table"),
        ({"public": frame(20, 0).drop(columns="b"), "public_source": "x"}, "'b'"),
        ({"public": frame(20, 0).assign(e=1), "public_source": "x"}, "'e'"),
        ({"public": frame(20, 0).assign(a=7), "public_source": "x"}, "'a'"),
        ({"public": frame(0, 0), "public_source": "x"}, "public table"),
    ],
)
def test_a_public_table_that_cannot_be_used_is_refused(changes: Any, says: str) -> None:
    """In one line that names it, before anything is spent."""
    model = MargNet(SCHEMA, epsilon=1.0, **changes)
    with pytest.raises(InputError) as error:
        model.fit(frame(30, 1))
    assert says in str(error.value) and "\n" not in str(error.value)
    assert not hasattr(model, "ledger_")


def test_the_private_table_is_no_public_one() -> None:
    """The same object is refused, which reads no row and spends nothing."""
    table = frame(30, 1)
    model = MargNet(SCHEMA, epsilon=1.0, public=table, public_source="x")
    with pytest.raises(InputError, match="public= is the private table itself"):
        model.fit(table)
    assert not hasattr(model, "ledger_")
