"""Private steps over units: several rows are sampled together and clipped as one."""

import math

import numpy as np
import pytest
import torch
from private_steps import RULES, grads
from row_gradients import (
    LOSSES,
    NETWORKS,
    Gated,
    Losses,
    autoencoder,
    clip_rows,
    drawn,
    flat,
    group_of_entries,
    normal_rows,
    plain,
    row_gradients,
    scores,
    trained,
)
from torch import Tensor, nn

from tabsynth.privacy.accounting.mechanisms import Gaussian, Mechanism, SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.synthesizers.gan.autoencoder import reconstruction_losses
from tabsynth.training.bounds import Clipping
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.private_step import PrivateStep, StepRule
from tabsynth.training.units import UnitPlaces, UnitRows

torch.set_num_threads(1)


def laid(counts: list[int], size: int, most: int, seed: int = 0) -> tuple[Tensor, UnitPlaces]:
    """Places of the rows of units, and the units."""
    rng = torch.Generator().manual_seed(seed)
    places = torch.randperm(size, generator=rng)[: sum(counts)]
    return places, UnitPlaces.of(torch.tensor(counts), places, size, most)


def unit_sums(gradients: Tensor, counts: list[int]) -> Tensor:
    """Sums over the rows of each unit, which come one unit after the other."""
    return torch.stack([part.sum(0) for part in gradients.split(counts)])


COUNTS = [1, 3, 2, 3, 1]
CASES = [
    *(("plain", loss) for loss in LOSSES),
    ("residual", "wgan-gp"),
    ("shared", "scores"),
    ("embedded", "scores"),
    ("partial", "scores"),
    ("autoencoder", "heads"),
    ("gated", "scores"),
]


def case(network: str, loss: str, rows: int, seed: int) -> tuple[nn.Module, Losses, Tensor]:
    if network == "autoencoder":
        module, codes = autoencoder(seed)
        return module, reconstruction_losses, codes[:rows]
    if network == "gated":
        return drawn(Gated(), seed), scores, normal_rows(rows, "scores", seed)
    module = drawn(NETWORKS[network]("tanh"), seed)
    return module, LOSSES[loss], normal_rows(rows, loss, seed)


@pytest.mark.parametrize("ascent", [0.0, 0.1])
@pytest.mark.parametrize("referenced", [False, True])
@pytest.mark.parametrize(("network", "loss"), CASES)
def test_the_sum_of_units_is_brute_force(
    network: str, loss: str, referenced: bool, ascent: float
) -> None:
    """R2: a unit adds the clipped sum of its rows' gradients, by autograd one row at a time."""
    module, losses, rows = case(network, loss, sum(COUNTS), 3)
    count = len(trained(module))
    groups = [i % 2 for i in range(count)]
    clipper = PerExampleClipper(module, groups, ascent, rows=3)
    reference, mean = None, torch.zeros(1)
    if referenced:
        public = case(network, loss, 4, 9)[2] if network != "autoencoder" else rows[:4]
        reference, _ = clipper.reference(losses, public)
        mean = flat(reference)
    places, units = laid(COUNTS, 14, 3)
    batch = torch.full((14, *rows.shape[1:]), 7.0, dtype=rows.dtype)
    if network == "autoencoder":
        batch = rows[:1].repeat(14, 1)
    batch[places] = rows
    keep = torch.zeros(14, dtype=torch.bool)
    keep[places] = True
    sums = unit_sums(row_gradients(module, losses, rows, ascent) - mean, COUNTS)
    entries = group_of_entries(module, groups)
    norms = torch.stack([sums[:, entries == j].norm(dim=1) for j in range(2)], dim=1)
    bounds = norms.median(0).values * 1.01  # some units are cut
    result, whole = clipper.clipped_sum(losses, batch, bounds, reference, keep, units)
    slack, _ = clipper.rounding(bounds, reference, 14)
    assert (slack <= 1e-7 * (bounds + mean.norm())).all()
    wanted = clip_rows(sums, bounds - slack, entries).sum(0)
    torch.testing.assert_close(flat(result), wanted, rtol=1e-9, atol=1e-9)
    assert whole.tolist() == (norms <= bounds).sum(0).tolist()
    # A unit that is not kept adds nothing.
    keep[places[1:4]] = False
    result, _ = clipper.clipped_sum(losses, batch, bounds, reference, keep, units)
    without = clip_rows(sums[[0, 2, 3, 4]], bounds - slack, entries).sum(0)
    torch.testing.assert_close(flat(result), without, rtol=1e-9, atol=1e-9)
