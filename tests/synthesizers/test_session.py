"""A fit makes one method and one encoder, and the estimator receives what was charged, whatever came of the fit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from fitted_tables import SCHEMA, frame, small, small_acgan, small_pate

from tabsynth import MargNet, load
from tabsynth.drafting import draft_private
from tabsynth.encoding.table import TableEncoder
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.margnet.estimator import MargNetMethod


def margnet(**changes: Any) -> MargNet:
    config = MargNetConfig(components=5, latent_dim=3, hidden=(4,), steps=3)
    return MargNet(SCHEMA, epsilon=3.0, config=config, **changes)


@pytest.mark.parametrize("make", [margnet, small, small_pate, small_acgan])
def test_a_fit_makes_one_encoder(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    created, right = [], TableEncoder.__init__

    def init(self: TableEncoder, *args: Any) -> None:
        created.append(self)
        right(self, *args)

    monkeypatch.setattr(TableEncoder, "__init__", init)
    model = make().fit(frame())
    assert created == [model.model_.encoder]


def test_a_seeded_fit_that_fails_leaves_a_seeded_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its noise can be subtracted, so a later fit without a seed is not private."""
    model, right = margnet(random_state=1), MargNetMethod.train

    def train(*args: Any) -> Any:
        right(*args)
        raise ZeroDivisionError

    monkeypatch.setattr(MargNetMethod, "train", train)
    with pytest.raises(ZeroDivisionError):
        model.fit(frame())
    assert model.ledger_.spends() and not hasattr(model, "model_")
    monkeypatch.undo()
    model.set_params(random_state=None, epsilon=6.0).fit(frame())
    assert model.certificate()["seeded"] and not model.certificate()["private"]


def test_charges_of_a_failed_refit_stay_with_the_model(tmp_path: Path) -> None:
    """R7: the certificate and the file of the model before state them, and so does a model that is read from the file."""
    model = margnet().fit(frame())

    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        model.set_params(epsilon=6.0).fit(frame(), progress=fail)
    spent = model.ledger_.spent
    assert spent == pytest.approx(6.0) and model.certificate()["epsilon"] == spent
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").ledger_.spent == spent


def test_a_released_schema_counts_once_on_top_of_earlier_fits() -> None:
    """R7: a draft is charged in the fit of an object that was fitted before, and not again in its next fit."""
    table = frame(400)
    model, released = margnet().fit(table), draft_private(table, epsilon=20.0)
    charges = [item["purpose"] for item in released.released["mechanisms"]]
    model.set_params(schema=released, epsilon=30.0).fit(table)
    assert [i["purpose"] for i in model.ledger_.to_list()].count(charges[0]) == 1
    model.set_params(epsilon=40.0).fit(table)
    assert [i["purpose"] for i in model.ledger_.to_list()].count(charges[0]) == 1
    # Another draft of the same rows, which was charged alike and had the same outcome, is another release.
    again = released.replace(released=dict(released.released) | {"release": "another"})
    model.set_params(schema=again, epsilon=90.0).fit(table)
    assert [i["purpose"] for i in model.ledger_.to_list()].count(charges[0]) == 2


def test_a_drafted_model_remembers_the_library_alone() -> None:
    """R22: pandas decides by the rows which columns it converts to Arrow-backed ones."""
    table = pd.DataFrame({"a": ["x", "y"] * 200})
    for rows in (table, table.astype(pd.ArrowDtype(pa.string()))):
        with pytest.warns(UserWarning, match="read_table"):
            sample = margnet().set_params(schema=None, epsilon=60.0).fit(rows).sample(3)
        assert not isinstance(sample.dtypes["a"], pd.ArrowDtype)
