"""The same fit on a GPU, where there is one."""

import numpy as np
import pandas as pd
import pytest
import torch

from tabsynth import DPWGAN, Column, Schema
from tabsynth.generators.wgan import WGANConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA here")


def test_fit_and_sample_on_cuda():
    schema = Schema(
        [
            Column(name="a", kind="categorical", dtype="str", categories=("x", "y")),
            Column(name="b", kind="numeric", dtype="int64", low=0, high=9),
        ]
    )
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.choice(["x", "y"], 200), "b": rng.integers(0, 10, 200)})
    config = WGANConfig(critic_steps=20)
    model = DPWGAN(schema, epsilon=2.0, device="cuda", random_state=1, wgan_config=config)
    model.fit(table)
    assert next(iter(model.trained_.weights().values())).is_cuda
    first, again = model.sample(50), model.sample(50)
    pd.testing.assert_frame_equal(first, again)
    assert 1.98 <= model.certificate()["epsilon"] <= 2.0
