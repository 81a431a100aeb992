"""R2: networks and losses without a closed form are done another way, exactly, and it is said."""

import copy
from collections.abc import Callable

import pytest
import torch
from row_gradients import (
    LOSSES,
    Gated,
    clip_rows,
    drawn,
    flat,
    network,
    normal_rows,
    row_gradients,
    squared,
)
from torch import Tensor, nn

from tabsynth.training.clipping import PerExampleClipper

torch.set_num_threads(1)


@pytest.mark.parametrize("centred", [False, True])
def test_other_layers_go_through_opacus(centred: bool, caplog: pytest.LogCaptureFixture) -> None:
    """R2: a network without a closed form says so, agrees with brute force and leaves no trace."""
    module, rows = drawn(Gated(), 0), normal_rows(7, "squares", 0, 4.0)
    clipper = PerExampleClipper(module)
    assert not clipper.closed_form and "Slower: opacus' per-sample gradients" in caplog.text
    grads = row_gradients(module, squared, rows)
    reference = clipper.reference(squared, rows[:3])[0] if centred else None
    mean = grads[:3].mean(0) if centred else torch.zeros(1)
    for _ in range(2):
        gradient = flat(clipper.clipped_sum(squared, rows, 0.4, reference)[0])
        wanted = clip_rows(grads - mean, 0.4).sum(0)
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-10)
    assert not clipper.row_by_row
    assert all(p.grad is None and not hasattr(p, "grad_sample") for p in module.parameters())


def half_frozen() -> nn.Module:
    module = network([5, 4, 1])
    module[0].bias.requires_grad_(False)
    return module


def tied() -> nn.Module:
    module = network([5, 5, 5])
    module[2].weight = module[0].weight
    return module


class Scaled(nn.Module):
    """A parameter that hangs on a linear layer, and is not the layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)
        self.layer.register_parameter("scale", nn.Parameter(torch.ones(2)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * self.layer.scale  # type: ignore[operator]


class Doubled(nn.Embedding):
    """An embedding by its type only."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x.abs().long()[:, 0] % 3)


class Frequencies(nn.Embedding):
    """Whose gradients torch divides by how often a category is in the batch."""

    def __init__(self) -> None:
        super().__init__(3, 2, scale_grad_by_freq=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.abs().long()[:, 0] % 3)


class Kept(nn.Module):
    """A parameter of its own beside a buffer: opacus refuses it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(5, 2), nn.Parameter(torch.tensor(1.3))
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * self.scale + self.shift


class Unused(Gated):
    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(2, 2)


class Reused(Gated):
    """Not in closed form, and a layer used twice."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.first(x) + self.first(x * x))))


ODD: dict[str, Callable[[], nn.Module]] = {
    "half frozen": half_frozen,
    "tied": tied,
    "a parameter on a layer": Scaled,
    "subclass": lambda: Doubled(3, 2),
    "frequencies": Frequencies,
    "own parameter and buffer": Kept,
    "unused": Unused,
    "reused": Reused,
    "in place": lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 1)),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(5, 2)),
    "several vectors a row": lambda: nn.Sequential(
        nn.Unflatten(1, (5, 1)), nn.Linear(1, 2), nn.Tanh(), nn.Flatten()
    ),
}


@pytest.mark.filterwarnings("ignore:In CPU autocast")
@pytest.mark.parametrize("ascent", [0.0, 0.1])
@pytest.mark.parametrize("name", ODD)
def test_odd_networks(name: str, ascent: float, caplog: pytest.LogCaptureFixture) -> None:
    """R2: whatever the closed form does not cover is done another way, exactly, and said."""
    module, rows = drawn(ODD[name](), 2), normal_rows(6, "squares", 2, 3.0)
    clipper = PerExampleClipper(module, ascent=ascent)
    for _ in range(2):
        gradient = flat(clipper.clipped_sum(squared, rows, 0.5)[0])
        wanted = clip_rows(row_gradients(module, squared, rows, ascent), 0.5).sum(0)
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-10)
    assert not clipper.closed_form and "No closed form" in caplog.text


def test_a_row_seen_twice_is_clipped_once() -> None:
    """R2: a loss that gives a layer two inputs a row, which opacus would take for two rows."""
    module, rows = drawn(Gated(), 1), normal_rows(4, "squares", 1, 4.0)

    def pairs(m: nn.Module, x: Tensor) -> Tensor:
        return m(torch.cat([x, x + 0.1])).view(2, -1).sum(0)

    clipper = PerExampleClipper(module)
    one = flat(clipper.clipped_sum(pairs, rows[:1], 0.1)[0])
    assert 0.099 < float(one.norm()) <= 0.1 * (1 + 1e-9)
    gradient = flat(clipper.clipped_sum(pairs, rows, 0.1)[0])
    wanted = clip_rows(row_gradients(module, pairs, rows), 0.1).sum(0)
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-10)


class Rare(Gated):
    """Uses a weight outside of its layer, to an effect for few rows only."""

    def forward(self, x: Tensor) -> Tensor:
        extra = (x @ self.first.weight.T).sum(1, keepdim=True)
        return super().forward(x) + torch.where(x[:, :1] > 100, extra, 0.0)


def test_private_rows_do_not_choose_the_computation() -> None:
    """R1: two batches that differ in a row are computed alike, and all other rows' parts are the same."""
    rows = normal_rows(6, "squares", 1)
    rows[5, 0] = 500.0
    keep, result = torch.ones(6, dtype=torch.bool), []
    for with_row in (True, False):
        clipper = PerExampleClipper(drawn(Rare(), 1))
        keep[5], own = with_row, rows.clone()
        if not with_row:
            own[5] = 0
        sums, _ = clipper.clipped_sum(squared, own, 0.5, keep=keep)
        result.append((clipper.row_by_row, flat(sums)))
    assert result[0][0] == result[1][0]
    assert 0.4 < float((result[0][1] - result[1][1]).norm()) <= 0.5


def test_hooks_are_tried_on_rows_that_are_made_up() -> None:
    """R1: what opacus' hooks cannot do shows before a private row is read; such rows go one at a time."""
    rows, seen = normal_rows(6, "squares", 1), []

    def watched(m: nn.Module, x: Tensor) -> Tensor:
        seen.append((len(x), bool((x[:, None] == rows).all(2).any())))
        return squared(m, x)

    clipper = PerExampleClipper(drawn(Scaled(), 1))
    for _ in range(2):
        clipper.clipped_sum(watched, rows, 0.5)
    assert clipper.row_by_row and seen[0] == (6, False)
    assert {length for length, private in seen if private} == {1}
    assert [private for _, private in seen].count(False) == 1

    seen.clear()
    clipper = PerExampleClipper(drawn(Gated(), 1))
    for _ in range(3):
        clipper.clipped_sum(watched, rows, 0.5)
    assert seen == [(6, False), (6, True), (6, True), (6, True)]


def test_a_use_that_depends_on_the_rows_is_refused() -> None:
    """R2: where only private rows are seen twice by a layer, no sum is released that counts them twice."""
    rows = normal_rows(4, "squares", 1, 4.0)

    def pairs(m: nn.Module, x: Tensor) -> Tensor:
        if not bool((x < 0).any()):
            return squared(m, x)
        return m(torch.cat([x, x + 0.1])).view(2, -1).sum(0)

    with pytest.raises(TypeError, match="depends on the rows"):
        PerExampleClipper(drawn(Gated(), 1)).clipped_sum(pairs, rows, 0.1)


def test_penalties_without_closed_form(caplog: pytest.LogCaptureFixture) -> None:
    """A loss that differentiates the module goes row by row where factors do not apply, and says so."""
    module, rows = drawn(Gated(), 1), normal_rows(4, "wgan-gp", 1)
    clipper = PerExampleClipper(module)
    gradient = flat(clipper.clipped_sum(LOSSES["wgan-gp"], rows, 3.0)[0])
    wanted = clip_rows(row_gradients(module, LOSSES["wgan-gp"], rows), 3.0).sum(0)
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-10)
    assert clipper.row_by_row and "Slower: row by row" in caplog.text


def test_an_interrupt_leaves_the_weights_as_they_were() -> None:
    """R2: row by row, BAM moves the weights along a private gradient; never to stay there."""
    module, rows = drawn(Gated(), 1), normal_rows(4, "squares", 1)
    before, calls = copy.deepcopy(module.state_dict()), []

    def interrupted(m: nn.Module, x: Tensor) -> Tensor:
        calls.append(not torch.equal(m.first.weight, before["first.weight"]))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return squared(m, x)

    with pytest.raises(KeyboardInterrupt):
        PerExampleClipper(module, ascent=0.5).clipped_sum(interrupted, rows, 1.0)
    assert calls == [False, True, False, True]  # the weights of the moment were the row's own
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
