"""Networks with one head per code block, their initial weights, and their optimisers."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, logsigmoid
from torch.optim import Optimizer
from torch.optim.adam import adam

from tabsynth._validate import one_of
from tabsynth.encoding.table import Layout
from tabsynth.training.checkpoint import StateDict, Stateful

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky-relu": lambda: nn.LeakyReLU(0.2),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "selu": nn.SELU,
}


def bounds(inputs: int, outputs: int, xavier: bool) -> tuple[float, float]:
    """Return b of the uniform distributions U[-b, b] of a layer's first weights and biases: torch's, or Xavier's (Glorot and Bengio 2010)."""
    if xavier:
        return math.sqrt(6 / (inputs + outputs)), 0.0
    return 1 / math.sqrt(inputs), 1 / math.sqrt(inputs)


def linear(inputs: int, outputs: int, rng: torch.Generator, xavier: bool = False) -> nn.Linear:
    """Return a linear layer whose first weights are drawn from ``rng`` rather than globally; see :func:`bounds`."""
    with torch.random.fork_rng(devices=[]):  # torch.nn.utils.skip_init imports sympy, half a second
        layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        for part, b in zip(layer.parameters(), bounds(inputs, outputs, xavier), strict=True):
            part.uniform_(-b, b, generator=rng)
    return layer


def mlp(
    sizes: Sequence[int],
    generator: torch.Generator,
    *,
    activation: str = "relu",
    last: str | None = None,
    norm: bool = False,
    xavier: bool = False,
) -> nn.Sequential:
    """Return linear layers of the given sizes with activations between them, and ``last`` at the end.

    ``norm`` puts a BatchNorm before each activation: only for networks that never see a private
    row.
    """
    one_of("activation", activation, ACTIVATIONS)
    layers: list[nn.Module] = []
    for i in range(len(sizes) - 1):
        layers.append(linear(sizes[i], sizes[i + 1], generator, xavier))
        if i < len(sizes) - 2:
            if norm:
                layers.append(nn.BatchNorm1d(sizes[i + 1]))
            layers.append(ACTIVATIONS[activation]())
    if last is not None:
        layers.append(ACTIVATIONS[last]())
    return nn.Sequential(*layers)


def weights(*widths: int) -> int:
    """Return the number of weights of an MLP of these widths, biases left out."""
    return sum(a * b for a, b in pairwise(widths))


class Heads(nn.Module):
    """The step from logits, shape (batch, layout.width), to codes: softmax or sigmoid block by block.

    Softmax blocks are sampled by the Gumbel-softmax trick at temperature ``tau`` (Jang et al. 2017),
    so that generated one-hot codes look like real ones and gradients still pass.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout
        self._runs = _runs(layout)

    def forward(self, logits: Tensor, tau: float, generator: torch.Generator | None) -> Tensor:
        """Return codes in [0, 1]; without a generator no Gumbel noise is added."""
        noisy = logits if generator is None else logits + _gumbel(logits, generator)
        if tau != 1:
            noisy = noisy / tau
        parts = [
            torch.softmax(sampled, dim=1) if softmax else torch.sigmoid(plain)
            for softmax, sampled, plain in self._by_run(noisy, logits)
        ]
        return torch.cat(parts, dim=1)

    def log_likelihood(self, logits: Tensor, codes: Tensor) -> Tensor:
        """Return the log-likelihood of codes under the heads, summed over blocks; shape (batch,).

        Softmax blocks: categorical. Sigmoid blocks: Bernoulli, entry by entry (for a scaled rank in
        [0, 1] this is the cross-entropy with a soft target).
        """
        total = logits.new_zeros(len(logits))
        for softmax, x, z in self._by_run(codes, logits):
            if softmax:
                total = total + (x * log_softmax(z, dim=1)).sum(1)
            else:
                total = total + (x * logsigmoid(z) + (1 - x) * logsigmoid(-z)).sum(1)
        return total

    def _by_run(self, first: Tensor, second: Tensor) -> Iterator[tuple[bool, Tensor, Tensor]]:
        """Return whether a run is a softmax, and its part of two tensors of the layout's width."""
        widths, softmax = zip(*self._runs, strict=True)
        # Split, not sliced: of each slice the way back would write a gradient of the whole width.
        return zip(softmax, first.split(widths, dim=1), second.split(widths, dim=1), strict=True)


def _gumbel(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draw standard Gumbel noise of a tensor's shape: on a CPU three times as fast as by ``exponential_``."""
    uniform = torch.rand(
        logits.shape, generator=generator, dtype=logits.dtype, device=logits.device
    )
    uniform.clamp_(min=torch.finfo(logits.dtype).tiny)  # a 0 would make -inf, and a block of it NaN
    return uniform.log_().neg_().log_().neg_()


def _runs(layout: Layout) -> list[tuple[int, bool]]:
    """Return (width, is softmax): a softmax block by itself, sigmoid blocks that are neighbours together."""
    runs: list[tuple[int, bool]] = []
    for block in layout.blocks:
        width, softmax = block.stop - block.start, block.head == "softmax"
        if runs and not softmax and not runs[-1][1]:
            runs[-1] = (runs[-1][0] + width, False)
        else:
            runs.append((width, softmax))
    return runs


def set_bias(network: nn.Module, layout: Layout, marginals: Sequence[np.ndarray]) -> None:
    """Set the last bias of a network that ends in logits: log p, or the logit of the mean code.

    ``marginals`` holds a distribution a block, shape (size,), strictly positive.
    """
    last = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
    with torch.no_grad():
        for block, p in zip(layout.blocks, marginals, strict=True):
            if block.head == "softmax":
                values = np.log(p)
            else:
                mean = np.clip(p @ block.codebook, 1e-4, 1 - 1e-4)
                values = np.log(mean / (1 - mean))
            last.bias[block.start : block.stop] = torch.as_tensor(values, dtype=last.bias.dtype)


Betas = tuple[float, float]
PAIRS = 8  # of moves and changes of the gradient, in L-BFGS
SUFFICIENT = 1e-4  # fall of the value, as a share of what the slope promises
FIRST_MOVE = 0.1  # the largest entry
WARM_UP = 0.3  # share of the steps of a one-cycle schedule in which the rate grows

# After the noise, any optimiser is post-processing: it costs nothing.
OPTIMIZERS: dict[str, Callable[[list[Tensor], float, Betas], Optimizer]] = {
    "sgd": lambda p, lr, _: torch.optim.SGD(p, lr=lr),
    "rmsprop": lambda p, lr, _: torch.optim.RMSprop(p, lr=lr),
    "adam": lambda p, lr, betas: torch.optim.Adam(p, lr=lr, betas=betas),
    "nadam": lambda p, lr, betas: torch.optim.NAdam(p, lr=lr, betas=betas),
}


def optimizer(
    name: str, parameters: Iterable[Tensor], lr: float, betas: Betas, *, fused: bool = False
) -> Optimizer:
    """Return the optimiser called ``name``; ``betas`` are those of the Adam family.

    ``fused``: Adam in one pass over the weights, for many of them.
    """
    one_of("optimizer", name, tuple(OPTIMIZERS))
    if fused and name == "adam":
        return torch.optim.Adam(list(parameters), lr=lr, betas=betas, fused=True)
    return OPTIMIZERS[name](list(parameters), lr, betas)


class Adam:
    """Adam (Kingma, Ba 2015, arXiv:1412.6980) with the default settings of ``torch.optim.Adam(fused=True)``, whose steps it takes.

    The first optimiser of torch's classes imports torch's compiler, which takes as long as a small fit.

    Parameters
    ----------
    parameters : iterable of Tensor
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.parameters = list(parameters)
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.counts = [torch.zeros((), device=p.device) for p in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Take a step of a learning rate against the gradients of the parameters."""
        adam(
            self.parameters,
            list(gradients),
            self.means,
            self.squares,
            [],
            self.counts,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def state_dict(self) -> StateDict:
        """Return the moments, and the number of steps."""
        return {"means": self.means, "squares": self.squares, "counts": self.counts}

    @torch.no_grad()
    def load_state_dict(self, state: StateDict) -> None:
        """Invert :meth:`state_dict`."""
        for name, tensors in self.state_dict().items():
            for tensor, value in zip(tensors, state[name], strict=True):
                tensor.copy_(value)


class LBFGS:
    """L-BFGS (Liu, Nocedal 1989, "On the limited memory BFGS method for large scale optimization", Math. Programming 45), with a line search.

    Each step takes one value and gradient of the function. Steps are halved, or shortened more, until the value falls (Armijo 1966).

    Parameters
    ----------
    point : Tensor, shape (n,)
        Moved in place, to points of smaller values alone.
    """

    def __init__(self, point: Tensor) -> None:
        self.point, self.trial = point, point.clone()
        self.direction, self.gradient = torch.zeros_like(point), torch.zeros_like(point)
        self.value: float | None = None  # at the point; None where the function is another now
        self.length = 1.0
        self.moves, self.changes = list[Tensor](), list[Tensor]()

    @torch.no_grad()
    def step(self, value: float, gradient: Tensor) -> None:
        """Take the value and the gradient at ``trial``, and set the next one."""
        if self.value is not None:
            expected = self.length * float(torch.dot(self.direction, self.gradient))
            rise = value - self.value
            if not rise <= SUFFICIENT * expected:
                # To the least value of the parabola through both.
                part = expected / (2 * (expected - rise)) if math.isfinite(rise) else 0.0
                self.length *= min(max(part, 0.1), 0.5)
                torch.add(self.point, self.direction, alpha=self.length, out=self.trial)
                return
            move, change = self.trial - self.point, gradient - self.gradient
            if torch.dot(move, change) > 0:
                self.moves = [*self.moves[-PAIRS + 1 :], move]
                self.changes = [*self.changes[-PAIRS + 1 :], change]
            self.point.copy_(self.trial)
        self.value, self.gradient, self.length = value, gradient, 1.0
        self.direction = self._direction()
        torch.add(self.point, self.direction, out=self.trial)

    def _direction(self) -> Tensor:
        """Return minus the gradient times the inverse Hessian that the last moves show; at first, a small step down."""
        direction = -self.gradient
        if not self.moves:
            return direction.mul_(FIRST_MOVE / float(direction.abs().max().clamp_min(1e-30)))
        products = list[Tensor]()
        pairs = list(zip(self.moves, self.changes, strict=True))
        for move, change in reversed(pairs):
            products.append(torch.dot(move, direction) / torch.dot(move, change))
            direction.addcmul_(change, products[-1], value=-1)
        move, change = pairs[-1]
        direction.mul_(torch.dot(move, change) / torch.dot(change, change))
        for (move, change), product in zip(pairs, reversed(products), strict=True):
            product = product - torch.dot(change, direction) / torch.dot(move, change)
            direction.addcmul_(move, product)
        return direction

    @torch.no_grad()
    def change_function(self) -> None:
        """Go on with another function, much like the one before."""
        self.value = None
        self.trial.copy_(self.point)

    def state_dict(self) -> StateDict:
        """Return what is known of the function at the point, and the last moves; not the point."""
        value = torch.tensor(math.nan if self.value is None else self.value, dtype=torch.float64)
        state = {"value": value, "length": torch.tensor(self.length, dtype=torch.float64)}
        vectors = {name: getattr(self, name) for name in ("trial", "direction", "gradient")}
        return {**state, **vectors, "moves": self.moves, "changes": self.changes}

    def load_state_dict(self, state: StateDict) -> None:
        """Invert :meth:`state_dict`."""
        value = float(state["value"])
        self.value, self.length = None if math.isnan(value) else value, float(state["length"])
        for name in ("trial", "direction", "gradient"):
            getattr(self, name).copy_(state[name])
        self.moves, self.changes = (
            [t.to(self.point) for t in state[n]] for n in ("moves", "changes")
        )


def one_cycle(t: float) -> float:
    """Return the learning rate over its highest, at share ``t`` of the steps (Smith & Topin 2017)."""
    if t < WARM_UP:
        return 0.04 + 0.96 * (1 - math.cos(math.pi * t / WARM_UP)) / 2
    return (1 + math.cos(math.pi * (t - WARM_UP) / (1 - WARM_UP))) / 2


class State:
    """The parts of a stage as one, for a checkpoint."""

    def __init__(self, **parts: Stateful) -> None:
        self.parts = parts

    def state_dict(self) -> StateDict:
        """Return the state of every part, by name."""
        return {name: dict(part.state_dict()) for name, part in self.parts.items()}

    def load_state_dict(self, state: StateDict) -> None:
        """Invert :meth:`state_dict`."""
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
