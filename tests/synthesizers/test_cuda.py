"""The same fits on a GPU, where there is one."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tabsynth import DPGAN, DPWGAN, PATEACGAN, PATEGAN, MargNet, Schema
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.critic import DPGANConfig, WGANConfig
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import MargNetFit
from tabsynth.synthesizers.method import with_settings
from tabsynth.synthesizers.pate.config import PATEConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA here")

SCHEMA = Schema(
    [
        Column(name="a", kind="categorical", dtype="str", categories=("x", "y")),
        Column(name="b", kind="numeric", dtype="int64", low=0, high=9),
    ]
)
FEW: dict[str, Any] = {"step__count": 20, "warm_start_steps": 5}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.choice(["x", "y"], 200), "b": rng.integers(0, 10, 200)})


def test_fit_and_sample_on_cuda() -> None:
    config = with_settings(WGANConfig(), **FEW)
    model = DPWGAN(SCHEMA, epsilon=2.0, device="cuda", random_state=1, config=config)
    model.fit(table())
    assert next(iter(model.model_.weights().values())).is_cuda
    first, second = model.sample(50), model.sample(50)
    pd.testing.assert_frame_equal(first, second)
    assert 1.98 <= model.certificate()["epsilon"] <= 2.0


def test_dpgan_with_a_public_table_on_cuda() -> None:
    public = {"public": table(), "public_source": "made up"}
    changes = {"clipping__grouping": "weight-bias", **FEW}
    config = with_settings(DPGANConfig(), **changes)
    model = DPGAN(SCHEMA, epsilon=2.0, device="cuda", config=config, **public)
    assert len(model.fit(table()).sample(9)) == 9
    assert 1.97 <= model.certificate()["epsilon"] <= 2.0


class Convolution(torch.nn.Module):
    """A critic of a user's own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv1d(1, 2, kernel_size=3)
        self.score = torch.nn.Linear(2 * (width - 2), 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.score(torch.relu(self.convolution(rows[:, None])).flatten(1))


def test_critic_of_ones_own_on_cuda() -> None:
    config = with_settings(WGANConfig(), **FEW)
    model = DPWGAN(SCHEMA, epsilon=2.0, device="cuda", critic=Convolution, config=config)
    assert len(model.fit(table()).sample(9)) == 9
    assert 1.97 <= model.certificate()["epsilon"] <= 2.0


@pytest.mark.parametrize("kind", ["marginals", "networks"])
def test_pate_on_cuda(kind: str) -> None:
    changes = {"networks__teacher_steps": 3, "networks__student_steps": 3}
    config = with_settings(PATEConfig(), queries=80, round_steps=5, **changes)
    parameters: dict[str, Any] = {"epsilon": 2.0, "device": "cuda", "config": config}
    parameters |= {"teachers": kind, "teacher_count": 9}
    model = PATEGAN(SCHEMA, **parameters).fit(table())
    assert next(iter(model.model_.weights().values())).is_cuda and len(model.sample(9)) == 9
    classes = PATEACGAN(SCHEMA, class_column="a", **parameters).fit(table())
    assert set(classes.sample(20, where={"a": "x"})["a"]) == {"x"}


def test_margnet_on_cuda_is_that_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs and triples, to float tolerance of the probabilities; conditions on the host."""
    three = Schema(
        [*SCHEMA.columns, Column(name="c", kind="numeric", dtype="int64", low=0, high=4)]
    )
    frame = table().assign(c=np.arange(200) % 5)
    monkeypatch.setattr(MargNetFit, "_at_noise", lambda self, loss: False)  # as many steps on both
    config = MargNetConfig(components=30, hidden=(8,), steps=30)
    created = []
    for device in ("cpu", "cuda"):
        model = MargNet(three, epsilon=200.0, device=device, random_state=1, config=config)
        created.append(model.fit(frame).model_.weights()["probabilities"].cpu())
        assert (model.sample(20, where={"a": "x"})["a"] == "x").all()
    torch.testing.assert_close(created[0], created[1], rtol=1e-3, atol=1e-4)
