"""A fit makes one method and one encoder, and the estimator receives what was charged, whatever came of the fit."""

from collections.abc import Callable
from typing import Any

import pytest
from fitted_tables import SCHEMA, frame, small, small_acgan, small_pate

from tabsynth import MargNet
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
