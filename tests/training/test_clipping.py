"""R2, R3, R13: the sum of clipped gradients, also over neighbouring tables."""

import math

import pytest
import torch
from row_gradients import (
    LOSSES,
    NETWORKS,
    Losses,
    autoencoder,
    clip_rows,
    drawn,
    flat,
    group_of_entries,
    network,
    normal_rows,
    plain,
    row_gradients,
    squared,
    trained,
)
from torch import Tensor, nn

from tabsynth.synthesizers.adversarial.autoencoder import reconstruction_losses
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.private_step import minus_scores

torch.set_num_threads(1)


def test_no_bound_is_the_ordinary_gradient() -> None:
    module, rows = network([4, 6, 1]), torch.randn(9, 4, dtype=torch.float64) * 50
    clipper = PerExampleClipper(module)
    result = clipper.clipped_sum(squared, rows, math.inf)
    wanted = torch.autograd.grad(squared(module, rows).sum(), list(module.parameters()))
    torch.testing.assert_close(flat(result), flat(list(wanted)), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("ascent", [0.0, 0.1])
@pytest.mark.parametrize("loss", LOSSES)
def test_groups_reference_and_mask(loss: str, ascent: float) -> None:
    """R2: the sum is that of brute force, with groups, reference and mask."""
    module, rows = drawn(NETWORKS["residual"]("tanh"), 3), normal_rows(7, loss, 3, 2.0)
    groups = [i % 3 for i in range(len(trained(module)))]
    bounds = torch.tensor([0.9, 0.2, 5.0]).double()
    clipper = PerExampleClipper(module, groups=groups, ascent=ascent)
    public, keep = normal_rows(4, loss, 9), torch.arange(7) != 2
    reference, norms = clipper.reference(LOSSES[loss], public)
    mean = row_gradients(module, LOSSES[loss], public, ascent).mean(0)
    torch.testing.assert_close(flat(reference), mean, rtol=1e-9, atol=1e-11)
    entries = group_of_entries(module, groups)
    apart = row_gradients(module, LOSSES[loss], public, ascent) - mean
    by_hand = torch.stack([apart[:, entries == j].norm(dim=1) for j in range(3)], dim=1)
    torch.testing.assert_close(norms, by_hand, rtol=1e-9, atol=1e-11)
    grads = (row_gradients(module, LOSSES[loss], rows, ascent) - mean)[keep]
    result = clipper.clipped_sum(LOSSES[loss], rows, bounds, reference, keep)
    slack, _ = clipper.rounding(bounds, reference, len(rows))
    assert (slack <= 1e-9 * (bounds + flat(reference).norm())).all()
    wanted = clip_rows(grads, bounds - slack, entries).sum(0)
    torch.testing.assert_close(flat(result), wanted, rtol=1e-9, atol=1e-10)
    assert all(p.grad is None for p in module.parameters())


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(3), nn.SyncBatchNorm(3)])
def test_batch_norm_is_refused(norm: nn.Module) -> None:
    """R13."""
    with pytest.raises(TypeError, match="BatchNorm"):
        PerExampleClipper(nn.Sequential(nn.Linear(3, 3), norm))


def test_an_empty_batch() -> None:
    """A sum of zeros; and a reference that is not finite shows in it as in any other."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(3, "squares", 1)
    clipper = PerExampleClipper(module, groups=[0, 1, 2, 0, 1, 2])
    for reference in (None, [torch.ones_like(p) for p in trained(module)]):
        sums = clipper.clipped_sum(squared, rows[:0], 1.0, reference)
        assert float(flat(sums).norm()) == 0
    reference = [torch.ones_like(p) for p in trained(module)]
    reference[1][0] = math.nan
    reference[2][0] = math.inf
    results = [flat(clipper.clipped_sum(squared, rows[:k], 1.0, reference)) for k in (0, 1, 3)]
    for other in results[1:]:
        torch.testing.assert_close(results[0], other, equal_nan=True)


def test_rows_outside_the_mask_do_not_count() -> None:
    module, rows = drawn(plain("relu"), 1), normal_rows(5, "squares", 1)
    clipper, keep = PerExampleClipper(module), torch.tensor([True, False, True, True, False])
    wanted = clipper.clipped_sum(squared, rows[keep], 0.7)
    rows[1], rows[4] = math.nan, 1e300
    result = clipper.clipped_sum(squared, rows, 0.7, keep=keep)
    torch.testing.assert_close(flat(result), flat(wanted), rtol=1e-12, atol=1e-12)
    none = clipper.clipped_sum(squared, rows, 0.7, keep=torch.zeros(5, dtype=torch.bool))
    assert float(flat(none).norm()) == 0


CASES = [
    ("plain", "scores"),
    ("plain", "wgan-gp"),
    ("residual", "penalty"),
    *((network, "scores") for network in ("shared", "partial")),
    ("autoencoder", "heads"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("network", "loss"), CASES)
def test_sensitivity(network: str, loss: str) -> None:
    """R2, R9, R10: over random states and gradient scales, one more row moves the sum by at most C;
    over G groups, in units of their bounds, by at most √G. DP-SGD and BAM, centred or not.

    The reference (generated or public rows) is the same for both tables.
    """
    rng = torch.Generator().manual_seed(7)
    if network == "autoencoder":
        module, codes = autoencoder()
        losses: Losses = reconstruction_losses
    else:
        module, losses = NETWORKS[network]("leaky-relu").double(), LOSSES[loss]
        codes = normal_rows(12, loss, 1)
    grouped = [i % 3 for i in range(len(trained(module)))]
    kinds = [([0] * len(grouped), 0.0), (grouped, 0.0), ([0] * len(grouped), 0.3), (grouped, 0.3)]
    clippers = [PerExampleClipper(module, groups=groups, ascent=ascent) for groups, ascent in kinds]
    largest = [0.0] * len(kinds)
    states = 120 if loss == "scores" else 60  # two derivatives, and the autoencoder, take longer
    for state in range(states):
        size = 10.0 ** (-2 + 5 * (state % 30) / 29)
        with torch.no_grad():
            for p in module.parameters():
                p.normal_(generator=rng).mul_(size ** (1 / 3))
        rows = codes[torch.randperm(len(codes), generator=rng)]
        if state % 3 == 0:  # rows far outside [0, 1] as well
            rows = rows * size
        which = int(torch.randint(4, (), generator=rng))
        clipper = clippers[which]
        bounds = torch.tensor([0.8, 3.0, 0.05][: clipper.group_count]).double()
        reference = clipper.reference(losses, rows[9:])[0] if state % 4 == 0 else None
        one = clipper.clipped_sum(losses, rows[:8], bounds, reference)
        other = clipper.clipped_sum(losses, rows[:9], bounds, reference)
        apart, entries = flat(one) - flat(other), group_of_entries(module, clipper.groups)
        moved = torch.stack([apart[entries == j].norm() for j in range(len(bounds))]) / bounds
        assert (moved <= 1 + 1e-9).all(), (state, size, moved)
        assert float(moved.norm()) <= math.sqrt(len(bounds)) * (1 + 1e-9)
        largest[which] = max(largest[which], float(moved.norm()) / math.sqrt(len(bounds)))
    assert min(largest) > 0.99  # the bound was reached: the test can fail


@pytest.mark.slow
@pytest.mark.parametrize("ascent", [0.0, 0.1])
@pytest.mark.parametrize("loss", ["scores", "wgan-gp"])
def test_a_row_like_the_public_ones_is_not_taken_for_shorter(loss: str, ascent: float) -> None:
    """R2: ‖g − r‖² is a difference of squares, and where g is nearly r most of it is rounding: the engine
    errs to the safe side, so that what is left of such a row is never longer than its bound."""
    module, largest = drawn(plain("tanh"), 1), 0.0
    for seed in range(32):
        public = normal_rows(1, loss, seed)
        row = public + 10.0 ** -(2 + seed % 4) * normal_rows(1, loss, seed + 1000)
        apart = torch.diff(
            row_gradients(module, LOSSES[loss], torch.cat([public, row]), ascent), dim=0
        )
        bound = 0.5 * float(apart.norm())
        clipper = PerExampleClipper(module, ascent=ascent)
        reference, _ = clipper.reference(LOSSES[loss], public)
        gradient = flat(clipper.clipped_sum(LOSSES[loss], row, bound, reference))
        assert float(gradient.norm()) <= bound * (1 + 1e-9)
        largest = max(largest, float(gradient.norm()) / bound)
    assert largest > 0.999


@pytest.mark.slow
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e38])
@pytest.mark.parametrize("loss", [*LOSSES, "heads"])
def test_a_pathological_row_contributes_nothing(loss: str, bad: float) -> None:
    """R3: and leaves what the others contribute as it was (float32, as in training), with groups, with
    a reference, and under BAM. Where its gradient is finite all the same, it is clipped as any other."""
    if loss == "heads":
        model, codes = autoencoder()
        module, losses, rows = model.float(), reconstruction_losses, codes[:6].float()
    else:
        module, losses = drawn(plain("relu"), 4).float(), LOSSES[loss]
        rows = normal_rows(6, loss, 4).float()
    groups, spoilt = [i % 2 for i in range(len(trained(module)))], rows.clone()
    spoilt[2] = bad
    # A penalty on ReLU layers does not see how far out a row is; a tanh saturates.
    finite = loss == "penalty" or (loss == "heads" and bad == 1e38)
    for ascent in (0.0, 0.1):
        for centred in (False, True):
            clipper = PerExampleClipper(module, groups=groups, ascent=ascent)
            reference = clipper.reference(losses, rows[:3])[0] if centred else None
            without = clipper.clipped_sum(losses, rows[[0, 1, 3, 4, 5]], 0.5, reference)
            result = clipper.clipped_sum(losses, spoilt, 0.5, reference)
            assert torch.isfinite(flat(result)).all()
            moved = float((flat(result) - flat(without)).norm())
            assert moved <= (0.5 * math.sqrt(2) * (1 + 1e-4) if finite else 5e-6)


def test_a_row_without_gradient_is_not_moved() -> None:
    """BAM guards ‖gᵢ‖ = 0: that row adds nothing, and no row becomes NaN."""
    module, rows = drawn(plain("relu"), 1), normal_rows(4, "scores", 1)
    rows[1, 0], rows[3, 0] = 99.0, 99.0

    def losses(m: nn.Module, x: Tensor) -> Tensor:
        return minus_scores(m, x) * (x[:, 0] != 99.0)

    wanted = clip_rows(row_gradients(module, minus_scores, rows[[0, 2]], 0.3), 0.5).sum(0)
    gradient = flat(PerExampleClipper(module, ascent=0.3).clipped_sum(losses, rows, 0.5))
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-12)


def test_outputs_do_not_depend_on_the_batch() -> None:
    """R13: no coupling of rows in the critic, the encoder or the decoder."""
    model, rows = autoencoder()
    critic = network([rows.shape[1], 6, 6, 1], "leaky-relu")
    for module in (critic, model.encoder, model):
        module.train()
        alone = torch.cat([module(rows[i : i + 1]) for i in range(len(rows))])
        torch.testing.assert_close(module(rows), alone, rtol=1e-12, atol=1e-12)
        assert not any("BatchNorm" in type(part).__name__ for part in module.modules())
