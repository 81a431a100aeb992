"""Implicates: as many tables, which differ as the noise of the counts says."""

import numpy as np
import pandas as pd
import pytest
from command_lines import run
from small_fits import fit

from tabsynth import DPWGAN, InputError
from tabsynth.inference import pool
from tabsynth.synthesizers.base import numbered


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
    assert len(counted) == sum(len(m.columns) > 1 for m in model.trained_.measured.counts)
    assert "counted" not in model.certificate()["training"]
    again = model.sample(implicates=3, random_state=5)
    for one, other in zip(tables, again, strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert not tables[0].equals(tables[1])
    assert len(model.sample(20, implicates=1, where={"sex": "f"})[0]) == 20


@pytest.mark.slow
def test_implicates_differ_as_the_noise_says(model):
    """The share of a sex: between implicates it varies with the noise that is known of its estimate."""
    tables = model.sample(implicates=12, random_state=1)
    shares = [(t["sex"] == "f").mean() for t in tables]
    counts = [m for m in model.trained_.measured.counts if 0 in m.columns]
    over = [m.counts.size // 2 for m in counts]
    precision = sum(1 / (m.std**2 * cells) for m, cells in zip(counts, over, strict=True))
    noise = 1 / np.sqrt(precision) / model.rows_ / np.sqrt(2)  # the total is fixed
    assert noise / 3 < np.std(shares, ddof=1) < 3 * noise
    plain = [(model.sample(random_state=i)["sex"] == "f").mean() for i in range(6)]
    assert np.std(shares) > 2 * np.std(plain)
    pooled = pool(shares, [s * (1 - s) / model.rows_ for s in shares]).iloc[0]
    assert pooled["low"] < 0.6 < pooled["high"]


def test_files_are_numbered(model, tmp_path):
    assert [p.name for p in numbered("x/y.csv.gz", 2)] == ["y-1.csv.gz", "y-2.csv.gz"]
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
    gan.trained_ = model.trained_  # a fit is not needed to be refused
    with pytest.raises(InputError, match="Method dp-wgan has no noisy counts"):
        gan.sample(implicates=2)
