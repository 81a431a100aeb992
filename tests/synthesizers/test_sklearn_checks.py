"""scikit-learn's own checks of estimators, and what programs that use estimators expect of them."""

import inspect
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, frame, small, small_acgan, small_dpgan, small_pate
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from tabsynth import DPWGAN, Categorical, MargNet, Numeric, Schema
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.estimator import Synthesizer

torch.set_num_threads(1)


def net(**changes: Any) -> MargNet:
    config = MargNetConfig(components=5, latent_dim=3, hidden=(4,), steps=3)
    return MargNet(**{"epsilon": 1.0, "config": config, **changes})


def table_of(x: Any) -> pd.DataFrame:
    x = np.asarray(x)
    return pd.DataFrame({f"x{j}": x[:, j].astype(float) for j in range(x.shape[1])})


class OfArrays:
    """Makes a table and its schema of the arrays that the checks pass; all else is the synthesizer's own."""

    def fit(self, X: Any, y: None = None) -> Any:
        table = table_of(X)
        facts: dict[str, Any] = {"dtype": "float64", "low": -1e3, "high": 1e3, "bins": 5}
        columns = [Numeric(name=name, clip=True, nulls=True, **facts) for name in table]
        given = self.schema
        self.schema = Schema(columns)
        try:
            return super().fit(table)  # type: ignore[misc]
        finally:
            self.schema = given


class MargNetOfArrays(OfArrays, MargNet):
    """MargNet."""


class GANOfArrays(OfArrays, DPWGAN):
    """A GAN."""


EXPECTED_FAILURES = {
    "check_complex_data": "the tests' arrays are made real numbers",
    "check_dtype_object": "as is a y, which no synthesizer reads",
    "check_estimators_empty_data_messages": "whether a table has rows is private, so a fit of none succeeds",
    "check_estimator_sparse_tag": "sparse matrices are no tables",
    "check_estimator_sparse_array": "sparse matrices are no tables",
    "check_estimator_sparse_matrix": "sparse matrices are no tables",
    "check_fit_idempotent": "a second fit adds to the privacy cost of the first, so it needs a budget for both",
    "check_pipeline_consistency": "it fits one object twice",
    "check_fit1d": "an array of one dimension is no table",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize(
    ("method", "reasons"),
    [(MargNetOfArrays, EXPECTED_FAILURES), (GANOfArrays, EXPECTED_FAILURES)],
)
def test_checks_of_sklearn(method: Any, reasons: dict[str, str]) -> None:
    """All checks pass but those whose reason is listed."""
    like = net() if method is MargNetOfArrays else small(autoencoder=None)
    given = {**like.get_params(deep=False), "schema": None, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(method(**given), on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert set(failed) == set(reasons), failed
    assert sum(r["status"] == "passed" for r in results) > 20


ALL = [net, small, small_dpgan, small_pate, small_acgan]


@pytest.mark.parametrize("make", ALL)
def test_features_pickles_and_tags(make: Any) -> None:
    model: Synthesizer = make(schema=SCHEMA)
    for name in ("feature_names_in_", "n_features_in_"):
        assert not hasattr(model, name)
        with pytest.raises(NotFittedError):
            getattr(model, name)
    tags = get_tags(model)
    assert tags.non_deterministic and not get_tags(make(random_state=1)).non_deterministic
    assert tags.input_tags.string and not tags.target_tags.required
    model.fit(frame())
    assert list(model.feature_names_in_) == list(SCHEMA.names) and model.n_features_in_ == 4
    again = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(
        again.sample(20, random_state=1), model.sample(20, random_state=1)
    )
    assert again.certificate()["epsilon"] == model.certificate()["epsilon"]
    unfitted, ours = clone(model), model.get_params(deep=False)
    assert not hasattr(unfitted, "ledger_")
    assert unfitted.get_params(deep=False).keys() == ours.keys()
    assert ours.keys() == inspect.signature(type(model)).parameters.keys()
    for argument in ours:  # the constructor only stores
        assert getattr(type(model)(**{**ours, argument: "?"}), argument) == "?"


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("make", ALL)
def test_degenerate_tables(make: Any, rows: int) -> None:
    """Columns of one value, of which null may be one; a single column; a table of a single row."""
    k = SCHEMA["k"]
    columns = [
        Categorical(name="one", dtype="str", categories=("only",)),
        Numeric(name="same", dtype="int64", low=4, high=4),
        Numeric(name="half", dtype="float64", low=0, high=1, nulls=True),
        Numeric(name="none", dtype="float64", low=0, high=1, nulls=True),
        Categorical(name="empty", dtype="str", categories=("u", "v"), nulls=True),
    ]
    cells = {"k": "x", "one": "only", "same": 4, "half": 0.5, "none": math.nan, "empty": None}
    table = pd.DataFrame(cells, index=range(rows)).astype({"empty": "str"})
    for schema, epsilon in ((Schema([k, *columns]), 0.05), (Schema([k]), math.inf)):
        made = make(schema=schema, epsilon=epsilon).fit(table[list(schema.names)]).sample(20)
        schema.check_columns(made)
        assert len(made) == 20


def test_a_repr_is_a_line_of_what_was_given() -> None:
    """No parameter at its default, no list of columns, and no row."""
    assert repr(MargNet(epsilon=1)) == "MargNet(epsilon=1)"
    config = MargNetConfig(steps=3)
    assert repr(MargNet(SCHEMA, epsilon=0.5, config=config, rows=7)) == (
        "MargNet(schema=<Schema of 4 columns>, epsilon=0.5, rows=7, config=MargNetConfig(steps=3))"
    )
    public = repr(DPWGAN(SCHEMA, epsilon=2, public=frame(30), public_source="a census"))
    assert "public=<table of 30 rows>" in public and "\n" not in public
    assert repr(small_acgan()).startswith("PATEACGAN(") and "class_column='k'" in repr(
        small_acgan()
    )
