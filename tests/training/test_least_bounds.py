"""What a private step does at the edges of floating point, and under a caller's global settings."""

import pytest
import torch
from private_steps import bounds_of

from tabsynth import InputError
from tabsynth._random import keystream
from tabsynth.training.clipping import LEAST_BOUND, Clipping
from tabsynth.training.private_step import full_precision
from tabsynth.training.sums import TensorNoise


def test_a_bound_stays_where_squares_are_not_zero() -> None:
    """A norm of 1e-24 squares to 0 in float32: under a bound as small a row would pass whole."""
    with pytest.raises(InputError, match="max_norm"):
        Clipping(max_norm=1e-30)
    bounds = bounds_of(Clipping(bound="public"))
    bounds.follow(torch.full((3, 1), 1e-24))
    assert float(bounds.now) == pytest.approx(LEAST_BOUND)


def test_a_generator_that_nobody_seeded_gives_no_noise() -> None:
    with pytest.raises(ValueError, match="never seeded"):
        keystream(torch.Generator())


def test_no_size_of_noise_is_no_leave_to_pass() -> None:
    noise = TensorNoise(keystream(torch.Generator().manual_seed(0)), torch.Generator())
    for size in (0.0, float("nan"), float("inf")):
        assert noise.noisy(torch.ones(3), torch.tensor(size)).isnan().all()


def test_private_sums_are_in_full_precision() -> None:
    """Whatever a caller has switched on; and it is on again afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with full_precision(torch.device("cpu")):
                assert torch.get_float32_matmul_precision() == "highest"
                assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
