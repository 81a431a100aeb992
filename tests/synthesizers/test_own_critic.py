"""A critic of the user's own, ``critic=``: a torch module that opacus forms per-example gradients of."""

import pytest
import torch
from fitted_tables import SCHEMA, frame, small, wgan
from systems.gan import CriticOfTheBatch
from torch import nn

from tabsynth import DPWGAN, load
from tabsynth.errors import InputError
from tabsynth.privacy.certificate.verification import verify
from tabsynth.schema.schema import Schema

LONGER = wgan(step__count=30, generator__lr=0.05)


def own(**changes) -> DPWGAN:
    return small(**{"critic": CriticOfTheBatch, "random_state": 1, **changes})


def test_a_fit_costs_what_one_without_it_costs_and_states_it(tmp_path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    model = own(config=LONGER).fit(frame(200))
    assert torch.equal(torch.get_rng_state(), before)
    other = small(random_state=1, config=LONGER).fit(frame(200))
    assert model.ledger_.spent == pytest.approx(other.ledger_.spent, rel=1e-12)
    model.save(tmp_path / "model.tabsynth")
    assert model.certificate()["settings"]["critic"] == "CriticOfTheBatch"
    model.sample_to(tmp_path / "table.csv", 20)
    assert verify(tmp_path / "table.csv").consistent
    again = load(tmp_path / "model.tabsynth").sample(20, random_state=2)
    assert again.equals(model.sample(20, random_state=2))
    assert not again.equals(other.sample(20, random_state=2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_rule": "bam"}, "step rule bam"),
        ({"config": wgan(clipping__grouping="weight-bias")}, "groups of bounds"),
        ({"critic": lambda width: nn.BatchNorm1d(width)}, "buffers"),
        ({"critic": lambda width: nn.Linear(width, 3)}, "3 scores for a row"),
        ({"critic": "mlp"}, "a callable"),
    ],
)
def test_what_it_cannot_do_is_refused_before_a_charge(changes, message: str) -> None:
    model = own(**changes)
    with pytest.raises(InputError, match=message) as error:
        model.fit(frame(200))
    assert "\n" not in str(error.value) and not hasattr(model, "ledger_")


def test_units_of_several_rows_are_refused_before_a_charge() -> None:
    schema = Schema(SCHEMA.columns, unit="person", max_rows_per_unit=2)
    table = frame(20).assign(person=[i // 2 for i in range(20)])
    model = small(schema, critic=CriticOfTheBatch)
    with pytest.raises(InputError, match="units of several rows"):
        model.fit(table)
    assert not hasattr(model, "ledger_")


def test_an_interrupted_fit_goes_on_with_the_same_critic(tmp_path) -> None:
    """A checkpoint of another critic is refused."""
    limit = {"time_limit": 1e-9}
    own(**limit).fit(frame(200), checkpoint=tmp_path / "c")
    with pytest.raises(InputError, match="critic"):
        small(random_state=1, **limit).fit(frame(200), checkpoint=tmp_path / "c")


class Frozen(CriticOfTheBatch):
    """A part that is not trained, and a layer that is not used."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.convolution.requires_grad_(False)
        self.unused = nn.Linear(2, 2)


def test_a_part_that_is_not_trained_stays_as_it_is_with_a_public_table_too() -> None:
    made = []

    def critic(width: int) -> nn.Module:
        made.append(Frozen(width))
        made[-1].convolution.weight.data.fill_(1.0)
        return made[-1]

    public = frame(100, seed=3)
    own(critic=critic, autoencoder=None, public=public, public_source="made up").fit(frame(200))
    assert torch.equal(made[-1].convolution.weight, torch.ones_like(made[-1].convolution.weight))


def test_a_checkpoint_of_another_class_is_refused(tmp_path) -> None:
    own(time_limit=1e-9).fit(frame(200), checkpoint=tmp_path / "c")
    with pytest.raises(InputError, match="critic is 'CriticOfTheBatch' there and 'Frozen' here"):
        own(critic=Frozen, time_limit=1e-9).fit(frame(200), checkpoint=tmp_path / "c")


def test_a_fit_that_drafts_its_schema_has_a_checkpoint_too(tmp_path) -> None:
    parameters = {"epsilon": 3.0, "time_limit": 1e-9}
    model = DPWGAN(critic=CriticOfTheBatch, **parameters)
    model.fit(frame(500), checkpoint=tmp_path / "c")
    assert model.certificate()["settings"]["critic"] == "CriticOfTheBatch"
    with pytest.raises(InputError, match="CriticOfTheBatch"):
        DPWGAN(critic=Frozen, **parameters).fit(frame(500), checkpoint=tmp_path / "c")
