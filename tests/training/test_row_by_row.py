"""Per-example gradients of any module: of one row at a time, clipped as those by factors are (R2, R3, R13)."""

import math

import pytest
import torch
from row_gradients import LOSSES, WIDTH, drawn, flat, normal_rows, plain, row_gradients, trained
from torch import Tensor, nn

from tabsynth.errors import InputError
from tabsynth.training import row_by_row
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.factors import NotClosedForm
from tabsynth.training.row_by_row import RowByRow, RowByRowClipper


class Convolution(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(1, 3, 3, padding=1)
        self.last = nn.Linear(3 * width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(torch.tanh(self.convolution(rows[:, None])).flatten(1))


class Attention(nn.Module):
    """Attention between columns; one score a row, without a second axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(width, 4))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.last = nn.Linear(4, 1)

    def forward(self, rows: Tensor) -> Tensor:
        columns = rows[:, :, None] * self.places
        mixed, _ = self.attention(columns, columns, columns, need_weights=False)
        return self.last(mixed.mean(1)).squeeze(1)


class OfTheBatch(nn.Module):
    """A row's score depends on all rows of the batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.last = nn.Linear(width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(rows - rows.mean(0) + rows.mean(0).square())


def made(kind: type[nn.Module], seed: int = 3) -> RowByRow:
    return RowByRow.of(kind, WIDTH, torch.Generator().manual_seed(seed))


def alone(module: nn.Module, rows: Tensor) -> Tensor:
    """Each row's gradient of minus its score, by autograd, the module given that row alone."""
    parameters, grads = trained(module), []
    for row in rows:
        grads.append(torch.autograd.grad(-module(row[None]).sum(), parameters))
    return torch.stack([torch.cat([g.flatten() for g in each]) for each in grads])


@pytest.mark.parametrize("kind", [Convolution, Attention, OfTheBatch])
@pytest.mark.parametrize("formed", [row_by_row.FORMED, 1])  # in one part, and row by row
def test_the_sum_is_that_of_brute_force(kind: type[nn.Module], formed: int, monkeypatch) -> None:
    """R2: with a reference that is subtracted before the clip, a mask, and parts of rows."""
    monkeypatch.setattr(row_by_row, "FORMED", formed)
    critic = made(kind)
    clipper, rows, losses = RowByRowClipper(critic), normal_rows(7, "scores", 3), LOSSES["scores"]
    rows, public = rows.float(), normal_rows(4, "scores", 9).float()
    reference, norms = clipper.reference(losses, public)
    of_public = alone(critic.module, public).double()
    mean = flat(reference).double()
    torch.testing.assert_close(mean, of_public.mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        norms.squeeze(1), (of_public - mean).norm(dim=1), rtol=1e-5, atol=1e-6
    )
    keep, parts = torch.arange(7) != 2, torch.linspace(0.1, 1, 7).double()
    apart = alone(critic.module, rows).double() - mean
    bound = float(apart.norm(dim=1).median())
    scale = (bound / apart.norm(dim=1)).clamp(max=1) * parts * keep
    result = clipper.clipped_sum(losses, rows, bound, reference, keep, parts)
    torch.testing.assert_close(flat(result), scale @ apart, rtol=1e-5, atol=1e-5)


def test_layers_give_what_factors_give() -> None:
    """An independent engine computes the same sums of a network of linear layers."""
    module, rows = drawn(plain("tanh"), 3), normal_rows(7, "squares", 3, 2.0)
    losses = LOSSES["squares"]
    expected = PerExampleClipper(module).clipped_sum(losses, rows, 0.5)
    result = RowByRowClipper(RowByRow(module)).clipped_sum(losses, rows, 0.5)
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8)
    assert row_gradients(module, losses, rows, 0.0).norm(dim=1).max() > 0.5  # some are clipped


@pytest.mark.parametrize("kind", [Convolution, Attention, OfTheBatch])
def test_sensitivity(kind: type[nn.Module]) -> None:
    """R2: over random weights and scales, one row more moves the sum by at most C, and reaches it."""
    rng, critic, largest = torch.Generator().manual_seed(7), made(kind), 0.0
    clipper, losses = RowByRowClipper(critic), LOSSES["scores"]
    for state in range(20):
        size = 10.0 ** (-2 + 4 * state / 19)
        with torch.no_grad():
            for p in critic.parameters():
                p.normal_(generator=rng).mul_(size)
        rows = size * normal_rows(12, "scores", state).float()
        reference = clipper.reference(losses, rows[9:])[0] if state % 2 else None
        keep = torch.arange(9) < 8
        one = clipper.clipped_sum(losses, rows[:9], 0.8, reference, keep)
        other = clipper.clipped_sum(losses, rows[:9], 0.8, reference)
        moved = float((flat(one) - flat(other)).norm()) / 0.8
        assert moved <= 1 + 1e-9
        largest = max(largest, moved)
    assert largest > 0.99


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e38])
def test_a_row_that_is_not_finite_contributes_nothing(bad: float) -> None:
    """R3: and leaves what the others contribute as it was."""
    clipper, rows = RowByRowClipper(made(Convolution)), normal_rows(6, "scores", 1).float()
    keep = torch.arange(6) != 2
    expected = clipper.clipped_sum(LOSSES["scores"], rows, 0.5, keep=keep)
    rows[2] = bad
    result = clipper.clipped_sum(LOSSES["scores"], rows, 0.5)
    assert all(torch.equal(a, b) for a, b in zip(result, expected, strict=True)) or bad == 1e38
    assert float((flat(result) - flat(expected)).norm()) <= 0.5


def test_a_score_does_not_depend_on_other_rows() -> None:
    critic, rows = made(OfTheBatch), normal_rows(5, "scores", 1).float()
    torch.testing.assert_close(critic(rows)[:2], critic(rows[:2]))
    assert not torch.allclose(critic.module(rows)[:2], critic.module(rows[:2]))


class WithBatchNorm(OfTheBatch):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.norm = nn.BatchNorm1d(width)


class WithDropout(OfTheBatch):
    def forward(self, rows: Tensor) -> Tensor:
        return self.last(nn.functional.dropout(rows, training=True))


class OfTwoScores(OfTheBatch):
    def forward(self, rows: Tensor) -> Tensor:
        return self.last(rows).expand(-1, 2)


class Untrained(OfTheBatch):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.last.requires_grad_(False)


class Tied(OfTheBatch):
    """Two layers of one weight: a copy on no device has two, one of which nothing trains."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.second.weight = self.first.weight

    def forward(self, rows: Tensor) -> Tensor:
        return self.last(self.second(torch.tanh(self.first(rows))))


class Stateful(OfTheBatch):
    """Its scores change with each call."""

    calls = 0

    def forward(self, rows: Tensor) -> Tensor:
        Stateful.calls += 1
        return self.last(rows * Stateful.calls)


class InPlace(OfTheBatch):
    def forward(self, rows: Tensor) -> Tensor:
        return self.last(rows.mul_(0.5).add_(1))


def test_rows_are_not_changed_in_place() -> None:
    critic, rows = made(InPlace), normal_rows(5, "scores", 1).float()
    before = rows.clone()
    sums = RowByRowClipper(critic).clipped_sum(LOSSES["scores"], rows, 1e9)
    assert torch.equal(rows, before)
    expected = alone(critic.module, rows.clone()).sum(0)
    torch.testing.assert_close(flat(sums).float(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Tied, "two names"),
        (Stateful, "earlier calls"),
        (lambda: None, "one at a time"),
        (lambda width: nn.Sequential(), "no weights that are trained"),
        (WithBatchNorm, "buffers"),
        (WithDropout, "random"),
        (OfTwoScores, "2 scores for a row; return one"),
        (Untrained, "no weights that are trained"),
        (lambda width: width, "no torch.nn.Module, but int"),
        (lambda width: OfTheBatch(width + 1), f"rows of width {WIDTH}"),
    ],
)
def test_what_cannot_be_trained_row_by_row_is_refused(make, message: str) -> None:
    """R13."""
    with pytest.raises(InputError, match=message) as error:
        RowByRow.of(make, WIDTH, torch.Generator())
    assert "\n" not in str(error.value)


def test_a_loss_of_the_slope_is_refused() -> None:
    """A gradient penalty differentiates the critic by its input; its rows' gradients are not formed."""
    with pytest.raises((RuntimeError, NotClosedForm)):
        RowByRowClipper(made(Convolution)).gradients(LOSSES["penalty"], torch.ones(3, WIDTH))


def test_first_weights_follow_from_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = made(Attention, 1), made(Attention, 1), made(Attention, 2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.module.places, again.module.places)
    assert not torch.equal(first.module.places, other.module.places)
