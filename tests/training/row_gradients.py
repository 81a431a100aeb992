"""Brute force for the engine's tests: networks, losses, and gradients by autograd one row at a time."""

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.autoencoder import Autoencoder, AutoencoderConfig
from tabsynth.training.networks import ACTIVATIONS, mlp
from tabsynth.training.private_step import critic_scores, gradient_penalty, minus_scores

torch.set_num_threads(1)
Losses = Callable[[nn.Module, Tensor], Tensor]
WIDTH = 5  # of a row; the first three columns may be read as categories
EPS = torch.finfo(torch.float64).eps


def scores(module: nn.Module, rows: Tensor) -> Tensor:
    return -module(rows).sum(1)


def squared(module: nn.Module, rows: Tensor) -> Tensor:
    return (module(rows) - 0.5).square().sum(1)


def penalty(module: nn.Module, rows: Tensor) -> Tensor:
    return gradient_penalty(module, rows, 10.0)


def wgan_gp(module: nn.Module, rows: Tensor) -> Tensor:
    """D(G(z)) − D(x) + λ(‖∇D(x̂)‖ − 1)², each real row with a generated one and a ρ of its own."""
    real, fake, rho = rows[:, :WIDTH], rows[:, WIDTH : 2 * WIDTH], rows[:, 2 * WIDTH :]
    points = rho * real + (1 - rho) * fake
    scores = critic_scores(module, fake) - critic_scores(module, real)
    return scores + gradient_penalty(module, points, 10.0)


LOSSES: dict[str, Losses] = {
    "scores": minus_scores,
    "squares": squared,
    "penalty": penalty,
    "wgan-gp": wgan_gp,
}


class Residual(nn.Module):
    """Two shortcuts round a hidden layer each."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 4), nn.Linear(4, 1)
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.act = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = h + self.act(block(h))
        return self.last(h)


class Shared(nn.Module):
    """One layer used three times, another used twice; one without bias."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 4, bias=False), nn.Linear(4, 1)
        self.shared = nn.Linear(4, 4)
        self.act = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for _ in range(3):
            h = self.act(self.shared(h))
        return self.last(h) * self.last(h + 1)


class Partial(nn.Module):
    """A frozen layer, an unused one, and one used for a constant only."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        self.first, self.frozen, self.last = nn.Linear(WIDTH, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.unused, self.act = nn.Linear(3, 2), ACTIVATIONS[activation]()
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            constant = self.last(self.act(self.first(x + 1)))
        return self.last(self.act(self.frozen(self.act(self.first(x))))) - constant


def network(sizes: list[int], activation: str = "tanh", seed: int = 0) -> nn.Sequential:
    return mlp(sizes, torch.Generator().manual_seed(seed), activation=activation).double()


def plain(activation: str) -> nn.Module:
    rng = torch.Generator().manual_seed(0)
    return mlp([WIDTH, 4, 3, 1], rng, activation=activation)


NETWORKS: dict[str, Callable[[str], nn.Module]] = {
    "plain": plain,
    "residual": Residual,
    "shared": Shared,
    "partial": Partial,
}


def drawn(module: nn.Module, seed: int, size: float = 1.0) -> nn.Module:
    """The module in float64, its weights drawn anew."""
    rng, module = torch.Generator().manual_seed(seed), module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(generator=rng).mul_(size)
    return module


def normal_rows(batch: int, loss: str, seed: int, size: float = 1.0) -> Tensor:
    rng = torch.Generator().manual_seed(seed + 1)
    width = 2 * WIDTH + 1 if loss == "wgan-gp" else WIDTH
    rows = size * torch.randn(batch, width, generator=rng, dtype=torch.float64)
    if loss == "wgan-gp":
        rows[:, -1] = torch.rand(batch, generator=rng, dtype=torch.float64)
    return rows


def autoencoder(seed: int = 0, activation: str = "leaky-relu") -> tuple[Autoencoder, Tensor]:
    """An autoencoder with a softmax and a sigmoid head, and twelve rows of codes."""
    schema = Schema(
        [
            Column(name="a", kind="categorical", dtype="str", categories=tuple("wxyz")),
            Column(name="b", kind="numeric", dtype="int64", low=0, high=9),
        ]
    )
    layout = TableEncoder(schema, {"b": "binary"}).layout
    rng = np.random.default_rng(seed)
    rows = layout.encode(np.stack([rng.integers(0, 4, 12), rng.integers(0, 10, 12)], axis=1))
    config = AutoencoderConfig(hidden=(5,), latent_dim=3, activation=activation)
    model = Autoencoder(config, layout, torch.Generator().manual_seed(seed)).double()
    return model, torch.from_numpy(rows).double()


def trained(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad]


def flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.detach().flatten() for t in tensors])


def row_gradient(module: nn.Module, losses: Losses, row: Tensor) -> Tensor:
    """One row's gradient, shape (all trained parameters,), by ordinary autograd."""
    parameters = trained(module)
    result = torch.autograd.grad(losses(module, row).sum(), parameters, allow_unused=True)
    pairs = zip(result, parameters, strict=True)
    return flat([torch.zeros_like(p) if g is None else g for g, p in pairs])


def row_gradients(module: nn.Module, losses: Losses, rows: Tensor, ascent: float = 0.0) -> Tensor:
    """Gradients one row at a time, shape (batch, parameters); BAM's at each row's own weights."""
    out = []
    for i in range(len(rows)):
        row = rows[i : i + 1]
        g = row_gradient(module, losses, row)
        if ascent and float(g.norm()) > 0:
            moved = copy.deepcopy(module)
            weights = nn.utils.parameters_to_vector(trained(moved)).detach()
            nn.utils.vector_to_parameters(weights + ascent * g / g.norm(), trained(moved))
            g = row_gradient(moved, losses, row)
        out.append(g)
    count = sum(p.numel() for p in trained(module))
    return torch.stack(out) if out else torch.zeros(0, count, dtype=torch.float64)


def group_of_entries(module: nn.Module, groups: Sequence[int]) -> Tensor:
    """The group of each entry of a flat gradient."""
    sizes = [p.numel() for p in trained(module)]
    return torch.repeat_interleave(torch.as_tensor(groups), torch.as_tensor(sizes))


def clip_rows(grads: Tensor, bounds: Tensor | float, entries: Tensor | None = None) -> Tensor:
    """Each row's gradient clipped by group, shape (batch, parameters)."""
    entries = torch.zeros(grads.shape[1], dtype=torch.int64) if entries is None else entries
    limit = torch.as_tensor(bounds, dtype=grads.dtype).expand(int(entries.max()) + 1)
    out = grads.clone()
    for j, bound in enumerate(limit):
        own = grads[:, entries == j]
        out[:, entries == j] = own * (bound / own.norm(dim=1)).clamp_max(1.0)[:, None]
    return out


def clip_rows_of(
    module: nn.Module,
    losses: Losses,
    rows: Tensor,
    members: Sequence[Sequence[int]],
    counted: Tensor,
    bound: float,
    *,
    weighted: bool,
) -> Tensor:
    """Σ clip(Σ gradients of a unit's rows), row by row; clipped rows are multiplied by what they count, if weighted."""
    total = torch.zeros_like(row_gradient(module, losses, rows[:1]))
    for own in members:
        gradient = sum(row_gradient(module, losses, rows[i : i + 1]) for i in own)
        assert isinstance(gradient, Tensor)
        clipped = gradient * min(1.0, bound / float(gradient.norm()))
        total = total + (clipped * counted[own[0]] if weighted else clipped)
    return total
