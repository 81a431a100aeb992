"""Heaped numbers: multiples that people prefer stay as common as they are."""

import numpy as np
import pandas as pd
import pytest

from tabsynth import MargNet, Numeric, Schema
from tabsynth.errors import InputError


def column(**facts) -> Numeric:
    return Numeric(**{"name": "sbp", "dtype": "int64", "low": 60, "high": 240, **facts})


def test_codes_are_multiples() -> None:
    codes = column(heaping=(10, 5)).detail_codes(pd.Series([120, 125, 121, None, 60]))
    assert codes.tolist() == [0, 1, 2, 2, 0]


@pytest.mark.parametrize("heaping", [(5, 10), (1,), (2.5,), (10, 10)])
def test_other_multiples_are_refused(heaping) -> None:
    with pytest.raises(InputError, match="heaping must fall"):
        column(heaping=heaping)


def test_reals_without_resolution_have_no_heaping() -> None:
    with pytest.raises(InputError, match="heaping must fall"):
        column(dtype="float64", heaping=(10,))


def test_blood_pressures_stay_heaped() -> None:
    rng = np.random.default_rng(0)
    values = np.where(
        rng.random(4_000) < 0.9,
        np.round(rng.normal(125, 15, 4_000) / 10) * 10,
        np.round(rng.normal(125, 15, 4_000)),
    )
    table = pd.DataFrame({"sbp": values.clip(60, 240).astype(int), "x": rng.integers(0, 9, 4_000)})
    other = Numeric(name="x", dtype="int64", low=0, high=8)
    shares = {}
    for heaping in ((), (10, 5)):
        model = MargNet(Schema([column(heaping=heaping), other]), epsilon=1)
        made = model.fit(table).sample(4_000)
        assert list(made) == ["sbp", "x"] and made["sbp"].dtype == "int64"
        shares[heaping] = ((made.sbp % 10 == 0).mean(), (made.sbp == 120).mean())
    real = ((table.sbp % 10 == 0).mean(), (table.sbp == 120).mean())
    assert np.abs(np.subtract(shares[10, 5], real)).max() < 0.03
    assert shares[()][0] < 0.6  # without heaping they are drawn evenly


def test_decimals() -> None:
    height = column(dtype="float64", resolution=0.1, heaping=(1, 0.5))
    codes = np.repeat(np.arange(height.cells), 50)
    for heap, step in enumerate((1, 0.5)):
        values = height.decode(codes, np.random.default_rng(0), details=np.full(len(codes), heap))
        ratio = values / step
        assert (np.abs(ratio - ratio.round()) < 1e-6).mean() > 0.99
        np.testing.assert_array_equal(height.encode(values), codes)
