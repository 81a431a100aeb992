"""Implicates: as many tables, which differ as the noise of the counts says."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import torch
from command_lines import run
from small_fits import fit

from tabsynth import DPWGAN, Categorical, InputError, MargNet, Numeric, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.inference import pool
from tabsynth.privacy.noise.counts import Measured
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.margnet.implicates import (
    SUMS_WEIGHT,
    ScoreSums,
    associations_shown,
    implicate,
)
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution
from tabsynth.synthesizers.method import FittedModel
from tabsynth.synthesizers.mixture import Mixture
from tabsynth.synthesizers.sampling import numbered_paths


@pytest.fixture(scope="module")
def model():
    return fit(epsilon=1.0)


def test_implicates_are_tables_of_the_model(model):
    tables = model.sample(implicates=3, random_state=5)
    assert [len(t) for t in tables] == [model.rows_] * 3
    assert all(
        t.attrs["certificate"]["epsilon"] == tables[0].attrs["certificate"]["epsilon"]
        for t in tables
    )
    counted = tables[0].attrs["certificate"]["training"]["counted"]
    assert ["sex", "region"] in counted and all(len(names) in (2, 3) for names in counted)
    assert len(counted) == sum(len(m.columns) > 1 for m in model.model_.measured.counts)
    assert model.certificate()["training"]["counted"] == counted
    again = model.sample(implicates=3, random_state=5)
    for one, other in zip(tables, again, strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert not tables[0].equals(tables[1])
    assert len(model.sample(20, implicates=1, where={"sex": "f"})[0]) == 20


@pytest.mark.slow(cases=0)
def test_implicates_differ_as_the_noise_says(model):
    """The share of a sex: between implicates it varies with the noise that is known of its estimate."""
    tables = model.sample(implicates=12, random_state=1)
    shares = [(t["sex"] == "f").mean() for t in tables]
    counts = [m for m in model.model_.measured.counts if 0 in m.columns]
    over = [m.counts.size // 2 for m in counts]
    precision = sum(1 / (m.std**2 * cells) for m, cells in zip(counts, over, strict=True))
    noise = 1 / np.sqrt(precision) / model.rows_ / np.sqrt(2)  # the total is fixed
    assert noise / 3 < np.std(shares, ddof=1) < 3 * noise
    plain = [(model.sample(random_state=i)["sex"] == "f").mean() for i in range(6)]
    assert np.std(shares) > 2 * np.std(plain)
    pooled = pool(shares, [s * (1 - s) / model.rows_ for s in shares]).iloc[0]
    assert pooled["low"] < 0.6 < pooled["high"]


def test_without_noise_implicates_have_the_same_means():
    tables = fit().sample(implicates=2, random_state=1)
    ages = [table.groupby("sex")["age"].mean() for table in tables]
    pd.testing.assert_series_equal(*ages, rtol=0.02)


def test_files_are_numbered(model, tmp_path):
    assert [p.name for p in numbered_paths("x/y.csv.gz", 2)] == ["y-1.csv.gz", "y-2.csv.gz"]
    certificates = model.sample_to(tmp_path / "out.csv", 30, implicates=2, random_state=1)
    assert [c.name for c in certificates] == [
        "out-1.csv.certificate.json",
        "out-2.csv.certificate.json",
    ]
    tables = [pd.read_csv(tmp_path / f"out-{i}.csv") for i in (1, 2)]
    assert [len(t) for t in tables] == [30, 30] and not tables[0].equals(tables[1])
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.slow
def test_the_command_line(model, tmp_path):
    model.save(tmp_path / "model")
    words = ("sample", "model", "-o")
    done = run(*words, "out.csv", "-n", 40, "--implicates", 2, cwd=tmp_path)
    assert "out-1.csv (40 rows)" in done.stdout and "out-2.csv (40 rows)" in done.stdout
    assert len(pd.read_csv(tmp_path / "out-2.csv")) == 40
    bad = run(*words, "no.csv", "--implicates", 0, cwd=tmp_path, code=2)
    assert "implicates" in bad.stderr and bad.stderr.count("\n") == 1
    assert not list(tmp_path.glob("no*"))


def test_bad_input_is_one_line(model, tmp_path):
    for call in (
        lambda: model.sample(implicates=0),
        lambda: model.sample(implicates=1_001),
        lambda: model.sample_to(tmp_path / "o.csv", implicates=10**9),
        lambda: model.sample_to(tmp_path / "o.csv", implicates=0),
    ):
        with pytest.raises(InputError, match="implicates"):
            call()
    assert not list(tmp_path.iterdir())
    gan = DPWGAN(model.schema, epsilon=1.0)
    # A fit is not needed to be refused.
    facts = {field.name: getattr(model.model_, field.name) for field in fields(FittedModel)}
    gan.model_ = FittedModel(**facts | {"method": "dp-wgan"})
    with pytest.raises(InputError, match="Method dp-wgan has no noisy counts"):
        gan.sample(implicates=2)


def one_pair(std, seed=0):
    """Layout, noisy counts of ten groups by thirty values, most of them empty, scores of the values, and rows."""
    layout = TableEncoder(
        Schema(
            [
                Categorical(name="group", dtype="int64", categories=tuple(range(10))),
                Numeric(name="x", dtype="int64", low=0, high=29),
            ]
        )
    ).layout
    rng = np.random.default_rng(seed)
    exact = np.zeros((10, 30))
    for g in range(10):
        exact[g, 2 * g : 2 * g + 9] = rng.integers(20, 60, 9)
    whole = exact.sum()
    counts = [
        Measured((0, 1), exact + std * rng.standard_normal(exact.shape), std),
        Measured((0,), exact.sum(axis=1) + std * rng.standard_normal(10), std),
        Measured((1,), exact.sum(axis=0) + std * rng.standard_normal(30), std),
    ]
    return layout, counts, [None, np.arange(30.0)], whole


def test_sums_of_scores_are_brute_force():
    layout, counts, scores, rows = one_pair(5.0)
    scores[1][7] = np.nan
    shares = np.concatenate([np.full(10, 0.1), np.full(30, 1 / 30)])
    groups = np.arange(30) // 3  # thirty values in ten groups
    values = [np.arange(10), np.arange(30)]
    resolution = Resolution(values, [values[0], groups], values)
    pair = counts[0].counts.reshape(10, 10, 3).sum(axis=2)
    measured = Measurements([Measured((0, 1), pair, 5.0)], rows, resolution)
    sums = ScoreSums(layout, measured, rows / 4, scores, shares)
    p = torch.rand(4, 40, dtype=torch.float32, requires_grad=True)
    loss, half = sums(p.detach())

    known = np.where(np.arange(30) == 7, np.nan, np.arange(30.0))
    centred = np.nan_to_num(known - np.nanmean(known)).reshape(10, 3).mean(axis=1)
    centred = torch.from_numpy(centred / np.linalg.norm(centred)).float()
    expected = p[:, :10].T @ p[:, 10:].reshape(4, 10, 3).sum(dim=2) * (rows / 4)
    error = (expected - torch.from_numpy(pair).float()) @ centred / 5.0
    error.square().sum().backward()
    assert float(loss) == pytest.approx(error.square().sum().item(), rel=1e-4)
    torch.testing.assert_close(half, p.grad / 2, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_sums_of_scores_are_those_of_the_counts_though_cells_are_not():
    """Where most cells are empty, noise makes many counts negative; sums by group stay near those of the counts."""
    layout, counts, scores, rows = one_pair(5.0)
    noisy, centred = counts[0].counts, scores[1] - scores[1].mean()
    fitted = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum(axis=1, keepdims=True)
    p = np.concatenate([np.eye(10) * 0.99 + 0.001, fitted], axis=1).repeat(3, axis=0)
    start = Mixture(layout, 30).set(torch.from_numpy(p).float())
    # Counts of single columns, which weigh more than cells too, are left out.
    measured = Measurements(counts[:1], rows, Resolution.by_value(layout.sizes))

    def distance(weight):
        far = []
        for seed in range(4):
            drawn = noisy + 5.0 * np.random.default_rng(seed).standard_normal(noisy.shape)
            rng = np.random.default_rng(seed)
            mixture = implicate(start, measured, MargNetConfig(), (), rng, scores, weight=weight)
            q = mixture.probabilities.double().numpy()
            far.append(np.abs((drawn - q[:, :10].T @ q[:, 10:] * rows / 30) @ centred).mean())
        return np.mean(far)

    assert distance(SUMS_WEIGHT) < 0.4 * distance(0.0)


@pytest.mark.parametrize(("columns", "warned"), [(8, True), (2, False)])
def test_a_warning_where_the_counts_are_noise(columns, warned, caplog):
    """Independent columns have associations of noise alone; two columns that are alike do not."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (2_000, columns)), columns=list("abcdefgh")[:columns])
    if not warned:
        table["b"] = table["a"]
    schema = Schema([Categorical(name=c, dtype="int64", categories=(0, 1)) for c in table])
    model = MargNet(schema, epsilon=1.0, random_state=0, config=MargNetConfig(steps=20)).fit(table)
    shown = associations_shown(model.model_.measured.counts)
    assert (shown < 0.5) == warned
    model.sample(20, implicates=2)
    warnings = [r for r in caplog.records if "prefer the functions of tabsynth.inference" in r.msg]
    assert len(warnings) == warned


def test_the_share_of_associations_is_that_of_the_exact_counts():
    rng = np.random.default_rng(0)
    exact = 500.0 + 40 * np.outer(rng.standard_normal(30), rng.standard_normal(40))
    independent = np.outer(exact.sum(axis=1), exact.sum(axis=0)) / exact.sum()
    signal, std = np.square(exact - independent).sum(), 40.0
    share = signal / (signal + 29 * 39 * std**2)
    noisy = [
        Measured((0, 1), exact + std * rng.standard_normal(exact.shape), std) for _ in range(9)
    ]
    one_way = Measured((0,), exact.sum(axis=1), std)
    assert associations_shown([*noisy, one_way]) == pytest.approx(share, abs=0.05)
    assert associations_shown([one_way]) == 1.0
    assert associations_shown([Measured((0, 1), exact, 0.0)]) == 1.0
