"""The estimators as a user meets them: conventions, refusals, shapes of what comes out."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from fitted_tables import SCHEMA, frame, small, wgan
from sklearn.exceptions import NotFittedError

from tabsynth import DPWGAN, InputError, TabsynthError, load
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.adversarial.critic import WGANConfig
from tabsynth.synthesizers.method import with_settings

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model() -> DPWGAN:
    return small().fit(frame())


def test_not_fitted_yet(tmp_path: Path) -> None:
    estimator = small()
    for use in (
        lambda: estimator.sample(3),
        estimator.certificate,
        lambda: estimator.save(tmp_path / "m"),
        lambda: estimator.sample_to(tmp_path / "t.csv", 3),
        lambda: estimator.sample(implicates=2),
        lambda: estimator.sample_to(tmp_path / "t.csv", implicates=2),
    ):
        with pytest.raises(NotFittedError, match="call fit first"):
            use()
    assert list(tmp_path.iterdir()) == []


BAD: list[dict[str, Any]] = [
    *({"epsilon": v} for v in (0, -1, math.nan, "1", None, True, 10**400, [1])),
    *({"delta": v} for v in (0, 1, -1, math.nan, "1e-5", None)),
    *({"rows": v} for v in (0, -5, 1.5, "9", True)),
    *({"preset": v} for v in ("sauce", None, ["default"])),
    *({"autoencoder": v} for v in ("dpsgd", 5, ["dp-sgd"])),
    *({"step_rule": v} for v in ("sam", 5, ["bam"])),
    *({"device": v} for v in ("tpu", None, "cpu:x", "cuda:99", "")),
    *({"time_limit": v} for v in (0, -1, math.nan, math.inf, "1")),
    *({"random_state": v} for v in (-1, 1.5, "1", True)),
    *(
        {"network_encoding": v}
        for v in ("binry", 5, {"nobody": "binary"}, {"k": "binry"}, ["binary"])
    ),
    {"schema": 3},
    {"schema": {"columns": []}},
    {"config": {"weight_clip": 5}},
    {"autoencoder_config": 3},
    {"autoencoder": "public"},
    {"public": frame(4)},
    {"public": frame(4), "public_source": " "},
    {"public": frame(4), "public_source": 5},
    {"public_source": "a census"},
    {"autoencoder": "no-noise"},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: repr(change)[:50].split("   ")[0])
@pytest.mark.parametrize("use", ["plan", "fit"])
def test_wrong_parameters_are_one_line(change: dict[str, Any], use: str) -> None:
    if "cuda" in str(change) and torch.cuda.is_available():
        pytest.skip("a CUDA device is here")
    estimator = small(**{"schema": SCHEMA, **change})
    with pytest.raises(TabsynthError) as error:
        estimator.plan(estimate_time=False) if use == "plan" else estimator.fit(frame(10))
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
    assert not hasattr(estimator, "ledger_")


@pytest.mark.parametrize(
    ("config", "change"),
    [
        *(
            (WGANConfig, {k: 0})
            for k in ("generator__latent_dim", "step__count", "critic__per_generator")
        ),
        *(
            (WGANConfig, {k: 0.0})
            for k in ("clipping__max_norm", "weight_clip", "critic__lr", "generator__lr")
        ),
        *((WGANConfig, {"step__sampling_rate": v}) for v in (0, 1.01, math.nan, "1")),
        *((WGANConfig, {"generator__averaging": v}) for v in (-0.1, 1)),
        *((WGANConfig, {"generator__anchor": v}) for v in (-1, math.inf, math.nan)),
        (WGANConfig, {"critic__hidden": (8, 0)}),
        (WGANConfig, {"generator__hidden": (8, "8")}),
        (WGANConfig, {"critic__activation": "gelu"}),
        (WGANConfig, {"generator__temperature": 0}),
        (AutoencoderConfig, {"step__count": 1.5}),
    ],
)
def test_wrong_configurations_are_one_line(config: Any, change: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        with_settings(config(), **change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", [-1, 1.5, "3", True])
def test_wrong_numbers_and_seeds_of_a_sample(model: DPWGAN, wrong: Any) -> None:
    for arguments, says in (
        ({"n": wrong}, "n to be a whole number"),
        ({"n": 2, "random_state": wrong}, "random_state"),
    ):
        with pytest.raises(InputError, match=says):
            model.sample(**arguments)


def test_samples_are_the_schemas(model: DPWGAN) -> None:
    """Columns, order, dtypes, bounds, categories, and the certificate in attrs."""
    table = model.sample(500)
    assert list(table.columns) == list(SCHEMA.names) and len(table) == 500
    assert [str(t) for t in table.dtypes] == [c.dtype for c in SCHEMA.columns]
    assert set(table["k"]) <= {"x", "y", "z", "rest"} and table["b"].isin([True, False]).all()
    assert table["v"].dropna().between(0, 20).all() and table["r"].between(-1, 1).all()
    assert table["v"].isna().any() and not table.drop(columns="v").isna().any(axis=None)
    assert table.attrs["certificate"]["epsilon"] == model.certificate()["epsilon"]
    assert len(model.sample(np.int64(3), random_state=np.int64(2))) == 3
    SCHEMA.check_columns(table)


def test_columns_in_any_order_and_other_frames() -> None:
    """pyarrow and reversed pandas: the same rows, hence the same seeded model."""
    tables = [frame(), frame()[list(SCHEMA.names)[::-1]], pa.Table.from_pandas(frame())]
    results = [
        small(random_state=0).fit(t).sample(20, random_state=1, dataframe="pandas") for t in tables
    ]
    for other in results[1:]:
        pd.testing.assert_frame_equal(results[0], other)
    for wrong in (5, [[1]], {"k": [1]}, None):
        with pytest.raises(InputError, match="must be a DataFrame"):
            small().fit(wrong)


@pytest.mark.parametrize(
    ("given", "width"),
    [
        ({}, 4 + 22 + 8 + 2),
        ({"preset": "source"}, 4),
        ({"preset": "source", "network_encoding": "one-hot"}, 4 + 22 + 8 + 2),
        ({"network_encoding": "ordinal"}, 4),
    ],
)
def test_a_preset_has_its_codes(given: dict[str, Any], width: int, tmp_path: Path) -> None:
    """One-hot by default, one number a column of ``source``, and what is asked for of either; a file keeps it."""
    estimator = small(autoencoder=None, **given).fit(frame())
    assert estimator.model_.encoder.layout.width == width
    estimator.save(tmp_path / "m")
    assert load(tmp_path / "m").model_.encoder.layout.width == width


def test_numpy_numbers_are_numbers(tmp_path: Path) -> None:
    """Parameters off an array do not break what is written after the fit."""
    estimator = small(
        epsilon=np.float32(3),
        delta=np.float32(1e-5),
        rows=np.int64(40),
        random_state=np.int64(5),
        config=wgan(step__count=np.int64(4), critic__lr=np.float32(1e-3)),
    ).fit(frame(40))
    estimator.save(tmp_path / "m")
    estimator.sample_to(tmp_path / "t.csv", 5)


def test_diverged_training_is_said(tmp_path: Path) -> None:
    config = wgan(generator__lr=1e30, generator__norm=False, step__count=12)
    estimator = small(config=config).fit(frame(30))
    with pytest.raises(InputError, match="diverged"):
        estimator.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    estimator.certificate()


def test_plan_with_times() -> None:
    """Times are of made-up rows; the private table is not there yet."""
    plan = small(rows=50).plan()
    assert plan.seconds is not None and 0 < plan.seconds < 30
    assert plan.rows == 50 and plan.rows_declared
    assert small().plan(estimate_time=False).seconds is None
    assert [s.purpose for s in plan.spends] == ["one-way counts", "autoencoder", "critic"]
    assert plan.epsilon == pytest.approx(3.0, rel=0.006) and plan.epsilon <= 3.0
