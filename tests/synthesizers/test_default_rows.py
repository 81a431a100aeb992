"""R14: a sample has as many rows as were declared, or as the fit released with noise; never the private number."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, frame, small, small_acgan, small_dpgan, small_pate
from record_replay import replay

from tabsynth import InputError, MargNet, load
from tabsynth.errors import FileFormatError
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.method import read_model, write_model

torch.set_num_threads(1)


def net(**changes: Any) -> MargNet:
    config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=5)
    return MargNet(SCHEMA, **{"epsilon": 0.5, "config": config, **changes})


ALL = pytest.mark.parametrize("make", [net, small, small_dpgan, small_pate, small_acgan])


@ALL
def test_the_declared_number(make: Any) -> None:
    model = make(rows=53, epsilon=math.inf).fit(frame(53))
    assert model.rows_ == len(model.sample()) == 53


@ALL
def test_the_released_number(make: Any, tmp_path: Path) -> None:
    """It has noise, is about the number of rows, is kept by the model file, and costs nothing besides the plan."""
    model: Synthesizer = make(epsilon=0.5, random_state=3)
    plan = model.plan(estimate_time=False)
    model.fit(frame(400))
    assert model.rows_ is not None and model.rows_ != 400 and abs(model.rows_ - 400) < 150
    assert len(model.sample()) == model.rows_ and len(model.sample(7)) == 7
    listed = [item["purpose"] for item in model.certificate()["mechanisms"]]
    assert listed == [spend.purpose for spend in plan.spends]
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.rows_ == model.rows_
    loaded.sample_to(tmp_path / "t.csv")
    assert len(pd.read_csv(tmp_path / "t.csv")) == model.rows_


@pytest.mark.parametrize("make", [net, small])
def test_the_number_is_that_of_the_releases_alone(make: Any) -> None:
    """Replayed on a table of one row less, with the same releases, all is the same, the default size included."""
    table = frame(60)
    result = replay(make(epsilon=1.0), table, table[1:], seed=1)
    assert result.passes, result.first_difference


def test_a_table_of_no_rows_has_a_sample_of_one_at_least() -> None:
    assert net(epsilon=math.inf).fit(frame(0)).rows_ == 1


def test_a_fit_that_counts_no_rows_asks_for_n(tmp_path: Path) -> None:
    """The networks of PATE's paper have no use for the number, and their plan does not pay for it."""
    config = {"start_from_counts": False, "accounting": "laplace"}
    model = small_pate(teachers="networks", config=config).fit(frame())
    assert [item["purpose"] for item in model.certificate()["mechanisms"]] == ["votes"]
    model.save(tmp_path / "m")
    for made in (model, load(tmp_path / "m")):
        assert made.rows_ is None
        with pytest.raises(InputError, match="released no number of rows; give n") as error:
            made.sample()
        assert "\n" not in str(error.value)
        with pytest.raises(InputError, match="released no number of rows"):
            made.sample_to(tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists() and len(model.sample(3)) == 3


@pytest.mark.parametrize("wrong", [0, -3, 1.5, "9", True, 10**13])
def test_a_file_with_a_wrong_number_is_refused(wrong: Any, tmp_path: Path) -> None:
    net().fit(frame()).save(tmp_path / "m")
    facts, weights = read_model(tmp_path / "m")
    write_model(tmp_path / "wrong", {**facts, "rows": wrong}, weights)
    with pytest.raises(FileFormatError, match="damaged"):
        load(tmp_path / "wrong")
    older = {name: value for name, value in facts.items() if name != "rows"}
    write_model(tmp_path / "older", older, weights)
    assert load(tmp_path / "older").rows_ is None
