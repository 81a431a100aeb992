"""The generator of the GANs: its network, its training, and what holds it to statistics that are already released."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth._validate import between, integer, one_of, positive, widths
from tabsynth.encoding.table import Layout
from tabsynth.errors import InputError
from tabsynth.privacy.ledger.ledger import Account, PrivateTable
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.synthesizers.mixture import NOT_ONE, Mixture
from tabsynth.training.checkpoint import Stateful
from tabsynth.training.loop import TrainingMonitor, run_steps
from tabsynth.training.networks import OPTIMIZERS, Heads, State, mlp, optimizer, set_bias


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig:
    """The configuration of a GAN's generator. All of it is public.

    Attributes
    ----------
    latent_dim : int
        Length of the noise z ~ N(0, I).
    generator_hidden : tuple of int
    generator_norm : bool
        BatchNorm in the generator, which sees no private row.
    generator_lr : float
    generator_optimizer : str
    betas : tuple of float
        Of the Adam family.
    temperature : float
        Of the Gumbel-softmax heads while training.
    averaging : float
        Decay of the average of the generator's weights; 0 takes the last weights.
    anchor : float
        Weight, in the generator's loss, of the squared distance between the mean generated code and
        the mean code that the noisy one-way counts say. It holds the columns in place while a noisy
        critic pulls at their relations, and costs nothing: the counts are already released.
    warm_steps : int
        Critic steps on a table that is public or already released, before the private ones.
    pair_anchor : float
        Weight of the χ² distance between the two-way marginals of generated rows and those of an
        already released table of the same rows, as long as there is one.
    moment_steps, moment_lr : int, float
        Generator steps towards those marginals alone, by Adam at a one-cycle rate, at the start.
    rounded : bool
        Whether a sample of one-hot codes is rounded to the pair counts expected of the generator
        (see :meth:`tabsynth.synthesizers.mixture.Mixture.sample`). False, and wherever some codes are not
        one-hot: rows are drawn independently, each from its own z.
    """

    latent_dim: int = 64
    generator_hidden: tuple[int, ...] = (256, 256)
    generator_norm: bool = True
    generator_lr: float = 5e-4
    generator_optimizer: str = "rmsprop"
    betas: tuple[float, float] = (0.5, 0.9)
    temperature: float = 0.5
    averaging: float = 0.995
    anchor: float = 1.0
    warm_steps: int = 400
    pair_anchor: float = 1.0
    moment_steps: int = 800
    moment_lr: float = 1e-2
    rounded: bool = True

    def __post_init__(self) -> None:
        integer("latent_dim", self.latent_dim)
        widths("generator_hidden", self.generator_hidden)
        for name in ("warm_steps", "moment_steps"):
            integer(name, getattr(self, name), least=0)
        one_of("generator_optimizer", self.generator_optimizer, tuple(OPTIMIZERS))
        for name in ("generator_lr", "moment_lr", "temperature"):
            positive(name, getattr(self, name))
        for beta in self.betas:
            between("betas", beta, 0, 1, high_open=True)
        between("averaging", self.averaging, 0, 1, high_open=True)
        for name in ("anchor", "pair_anchor"):
            between(name, getattr(self, name), 0, math.inf, high_open=True)

    def stated(self) -> dict[str, Any]:
        """The settings that a certificate lists; JSON-ready."""
        return {}


def mean_code(layout: Layout, marginals: Sequence[np.ndarray]) -> Tensor:
    """The mean row of codes under one-way distributions, shape (layout.width,)."""
    means = [p @ b.codebook for p, b in zip(marginals, layout.blocks, strict=True)]
    return torch.as_tensor(np.concatenate(means), dtype=torch.float32)


def second_moments(layout: Layout, codes: Tensor) -> Tensor:
    """Mean outer product of rows of codes between different columns, shape (width, width).

    For one-hot codes: all two-way marginals. Blocks of a column with itself are zero.
    """
    return codes.T @ codes / len(codes) * across_columns(layout).to(codes)


def across_columns(layout: Layout) -> Tensor:
    """1 where two codes are of different columns, else 0, shape (width, width)."""
    widths = torch.tensor([block.stop - block.start for block in layout.blocks])
    column = torch.repeat_interleave(torch.arange(len(widths)), widths)
    return (column[:, None] != column).float()


# Squared deviations are divided by what is expected of a cell, as in Pearson's χ², plus this: between
# absolute errors, which leave the many small cells alone, and relative ones, which see little else.
FLOOR = 1e-3


class _PairDistance(torch.autograd.Function):
    """Σ (AᵀA/h − m)(BᵀB/h − m) w / 2 of the two halves A and B, of h rows each, of some rows of codes.

    Its gradient in closed form: autograd would take twice as many matrix products.
    """

    @staticmethod
    def forward(ctx: Any, codes: Tensor, moments: Tensor, weight: Tensor) -> Tensor:
        """The distance, a scalar; ``moments`` and ``weight`` are symmetric, shape (width, width)."""
        half = len(codes) // 2
        halves = codes[:half], codes[half : 2 * half]
        off = [(rows.T @ rows / half).sub_(moments) for rows in halves]
        gradient = torch.zeros_like(codes)
        for i, rows in enumerate(halves):
            torch.mm(rows, off[1 - i] * weight / half, out=gradient[i * half : (i + 1) * half])
        ctx.save_for_backward(gradient)
        return (off[0] * off[1] * weight).sum() / 2

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None, None]:
        """In the codes."""
        (gradient,) = ctx.saved_tensors
        return outer[0] * gradient, None, None


class MomentPenalty:
    """Squared distances of generated rows to a mean code, and χ² distances to second moments.

    Parameters
    ----------
    layout : Layout
    mean : Tensor, shape (width,), optional
    moments : Tensor, shape (width, width), optional
        Of :func:`second_moments`.
    weight, pair_weight : float
    marginals : sequence of ndarray, optional
        The one-way distributions that the mean code is of.
    """

    def __init__(
        self,
        layout: Layout,
        mean: Tensor | None,
        moments: Tensor | None,
        weight: float,
        pair_weight: float,
        marginals: Sequence[np.ndarray] | None = None,
    ) -> None:
        self.marginals = marginals
        self.layout, self.weight, self.pair_weight = layout, weight, pair_weight
        self.mean = mean if weight else None
        self.moments = moments if pair_weight else None
        self._between = across_columns(layout)

    @classmethod
    def of(
        cls,
        layout: Layout,
        marginals: Sequence[np.ndarray] | None,
        released: Tensor | None,
        config: GeneratorConfig,
    ) -> "MomentPenalty":
        """Penalties towards one-way distributions and the pairs of a released table's codes."""
        mean = None if marginals is None else mean_code(layout, marginals)
        moments = None
        if released is not None and config.pair_anchor:
            moments = second_moments(layout, released)
        return cls(layout, mean, moments, config.anchor, config.pair_anchor, marginals)

    def to(self, device: torch.device) -> "MomentPenalty":
        """Both targets, moved to ``device``."""
        if self.mean is not None:
            self.mean = self.mean.to(device)
        if self.moments is not None:
            self.moments = self.moments.to(device)
        self._between = self._between.to(device)
        return self

    def loss(self, expected: Tensor) -> Tensor:
        """The weighted sum, a scalar.

        Parameters
        ----------
        expected : Tensor, shape (batch, width)
            Expected codes given z: what is sampled in the end, where the Gumbel-softmax of training is
            softer, and without the noise of the draw. Columns are drawn independently given z, so
            that second moments between columns are those of the expectations.
        """
        total = expected.new_zeros(())
        if self.mean is not None:
            total = total + self.weight * (expected.mean(0) - self.mean).square().sum()
        if self.moments is not None:
            # A product of the deviations of two independent halves: unbiased for the squared
            # distance, where the square of one deviation would add the variance of the batch.
            weight = self._between / (self.moments + FLOOR)
            distance = _PairDistance.apply(expected, self.moments, weight)
            total = total + self.pair_weight * distance
        return total


MOST_COMPONENTS = 8192  # draws of z for one sample


class TableGenerator(nn.Module):
    """z → logits → codes: an MLP, then the autoencoder's decoder if there is one, then the heads."""

    def __init__(
        self,
        layout: Layout,
        latent_dim: int,
        hidden: Sequence[int],
        rng: torch.Generator,
        *,
        decoder: nn.Module | None = None,
        decoder_inputs: int = 0,
        norm: bool = False,
        rounded: bool = True,
    ) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.rounded = rounded
        self.heads = Heads(layout)
        outputs = layout.width if decoder is None else decoder_inputs
        last = None if decoder is None else "tanh"
        self.body = mlp([latent_dim, *hidden, outputs], rng, last=last, norm=norm)
        self.decoder = decoder if decoder is not None else nn.Identity()

    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the last bias so that the first rows follow the given one-way distributions."""
        last = self.body if isinstance(self.decoder, nn.Identity) else self.decoder
        set_bias(last, self.heads.layout, marginals)

    def sound(self) -> bool:
        """Whether the buffers beside the weights are valid; the weights may have any values."""
        return True

    def logits(self, z: Tensor) -> Tensor:
        """Logits of a batch of noise, shape (batch, layout.width)."""
        return self.decoder(self.body(z))

    def forward(self, z: Tensor, temperature: float, rng: torch.Generator) -> Tensor:
        """Codes of a batch of noise, shape (batch, layout.width)."""
        return self.heads(self.logits(z), temperature, rng)

    def noise(self, rows: int, rng: torch.Generator) -> Tensor:
        """z ~ N(0, I), shape (rows, latent_dim)."""
        device = next(self.parameters()).device
        return torch.randn(rows, self.latent_dim, generator=rng, device=device)

    @torch.no_grad()
    def sample(
        self,
        rows: int,
        rng: torch.Generator,
        chunk: int = 8192,
        *,
        noise: Callable[[int, torch.Generator], Tensor] | None = None,
        rounded: bool = True,
    ) -> np.ndarray:
        """Category codes of ``rows`` generated rows, shape (rows, columns) int64.

        ``noise(rows, rng)`` draws z, in place of :meth:`noise`.

        Given z, columns are independent: where every column is a softmax over its values and the generator is
        ``rounded``, the rows are drawn as from a mixture whose components are draws of z, and
        rounded to its pair counts unless ``rounded`` is False here. Else each row is drawn independently, from a z of
        its own.
        """
        self.eval()
        layout, noise = self.heads.layout, noise or self.noise
        if self.rounded and all(block.head == "softmax" for block in layout.blocks):
            logits = _finite(self.logits(noise(min(rows, MOST_COMPONENTS), rng)))
            components = self.heads(logits, 1.0, None)
            mixture = Mixture(layout, len(components)).set(components)
            return mixture.sample(rows, rng, rounded=rounded)
        parts = []
        for start in range(0, rows, chunk):
            z = noise(min(chunk, rows - start), rng)
            codes = self.heads(_finite(self.logits(z)), 1e-3, rng)
            parts.append(layout.decode(codes.cpu().numpy()))
        return np.concatenate(parts)


def _finite(logits: Tensor) -> Tensor:
    if not torch.isfinite(logits).all():
        raise InputError(
            "The model's weights are so large that it draws no rows: it is damaged, or its training"
            " diverged; fit again with lower learning rates."
        )
    return logits


class ConditionalGenerator(TableGenerator):
    """G(z, c): a generator of rows of a given class; the class is the value of one column.

    Parameters
    ----------
    layout : Layout
    label : int
        The column, whose code is one-hot.
    latent_dim, hidden, rng, decoder, decoder_inputs, norm, rounded
        As of :class:`TableGenerator`.

    Attributes
    ----------
    shares : Tensor, shape (classes,)
        With which classes are drawn: released or public, kept with the weights.
    """

    CERTAIN = 30.0  # logit of a value that is given

    def __init__(
        self,
        layout: Layout,
        label: int,
        latent_dim: int,
        hidden: Sequence[int],
        rng: torch.Generator,
        *,
        decoder: nn.Module | None = None,
        decoder_inputs: int = 0,
        norm: bool = False,
        rounded: bool = True,
    ) -> None:
        block = layout.blocks[label]
        super().__init__(
            layout,
            latent_dim + block.size,
            hidden,
            rng,
            decoder=decoder,
            decoder_inputs=decoder_inputs,
            norm=norm,
            rounded=rounded,
        )
        self._free, self._label = latent_dim, slice(block.start, block.stop)
        self.shares: Tensor
        self.register_buffer("shares", torch.full((block.size,), 1 / block.size))

    def logits(self, z: Tensor) -> Tensor:
        """As :meth:`TableGenerator.logits`, the label's as z says."""
        logits = super().logits(z)
        given = (2 * z[:, self._free :] - 1) * self.CERTAIN
        start, stop = self._label.start, self._label.stop
        before, _, after = logits.split([start, stop - start, logits.shape[1] - stop], dim=1)
        return torch.cat([before, given, after], dim=1)

    def sound(self) -> bool:
        """Whether the shares of the classes are shares."""
        return bool((self.shares >= 0).all()) and abs(float(self.shares.sum()) - 1) < NOT_ONE

    def noise(self, rows: int, rng: torch.Generator) -> Tensor:
        """z ~ N(0, I) and a class by its share, one-hot: shape (rows, latent_dim + classes)."""
        drawn = torch.multinomial(self.shares, rows, replacement=True, generator=rng)
        return self._with_class(drawn, rng)

    def noise_of(self, classes: np.ndarray) -> Callable[[int, torch.Generator], Tensor]:
        """The same of some classes, bool, shape (classes,), by their shares; alike if all of these are 0."""
        some = torch.as_tensor(classes, dtype=self.shares.dtype, device=self.shares.device)
        shares = self.shares * some if (self.shares * some).sum() > 0 else some

        def noise(rows: int, rng: torch.Generator) -> Tensor:
            drawn = torch.multinomial(shares, rows, replacement=True, generator=rng)
            return self._with_class(drawn, rng)

        return noise

    def _with_class(self, classes: Tensor, rng: torch.Generator) -> Tensor:
        device = self.shares.device
        z = torch.randn(len(classes), self._free, generator=rng, device=device)
        return torch.cat([z, torch.eye(len(self.shares), device=device)[classes]], dim=1)


Module = TypeVar("Module", bound=nn.Module)


class WeightAverage(Stateful, Generic[Module]):
    """Exponential mean of a module's weights and buffers over its steps.

    Weighs as Adam's moments do after their correction: the weights of before the first step count for
    nothing, however short the training is. Whole numbers (a BatchNorm's count) are taken as they are.

    Parameters
    ----------
    module : nn.Module
    decay : float
        0 takes the last weights.

    Notes
    -----
    ``torch.optim.swa_utils.AveragedModel`` with this class's update as its ``multi_avg_fn`` gives the same
    weights bit for bit in the same time (0.48 and 0.49 ms for 114,000 weights on one core), so it would save
    no code: its own exponential average has no such correction and starts from the weights of the first
    step. On CUDA it passes the number of steps as a tensor, whose reading waits for the device at each step.
    """

    def __init__(self, module: Module, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.module = copy.deepcopy(module)

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take in the weights of ``module`` after one of its steps."""
        self.updates += 1
        taken = (1 - self.decay) / (1 - self.decay**self.updates)
        now = module.state_dict().values()
        for mean, value in zip(self.module.state_dict().values(), now, strict=True):
            if mean.is_floating_point():
                mean.lerp_(value, taken)
            else:
                mean.copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """The mean, and of how many steps."""
        return {"updates": self.updates, "module": self.module.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.updates = int(state["updates"])
        self.module.load_state_dict(state["module"])


class Curves:
    """Values at steps, by name. Tensors are brought from their device when the curves are read."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[int, Tensor | float]]] = {}

    def note(self, name: str, step: int, value: Tensor | float) -> None:
        """Add a point."""
        self._held.setdefault(name, []).append((step, value))

    def to_dict(self) -> dict[str, dict[str, list[float]]]:
        """``{name: {"step": […], "value": […]}}``, JSON-ready: values that diverged are left out."""
        out: dict[str, dict[str, list[float]]] = {}
        for name, points in self._held.items():
            values = [(step, float(value)) for step, value in points]
            finite = [(step, value) for step, value in values if math.isfinite(value)]
            if finite:
                out[name] = {"step": [s for s, _ in finite], "value": [v for _, v in finite]}
        return out

    def state_dict(self) -> dict[str, Any]:
        """The curves so far."""
        return self.to_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self._held = {
            name: list(zip(curve["step"], curve["value"], strict=True))
            for name, curve in state.items()
        }


WARM_START, MOMENTS = "warm start", "released marginals"
MOMENT_ROWS = 1000  # generated rows of a step towards released marginals


class GeneratorTraining:
    """A generator and its training, all of it post-processing of what subclasses release.

    Parameters
    ----------
    config : GeneratorConfig
    generator : TableGenerator
    rng : torch.Generator
        For the first weights of the networks that subclasses add.
    moment_penalty : MomentPenalty, optional
        What else the generator's loss holds on to.
    """

    def __init__(
        self,
        config: GeneratorConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        moment_penalty: MomentPenalty | None = None,
    ) -> None:
        self.config, self.generator, self.moment_penalty = config, generator, moment_penalty
        self.average = WeightAverage(generator, config.averaging)
        self._curves = Curves()

    @property
    def curves(self) -> dict[str, dict[str, list[float]]]:
        """Public diagnostics, of generated rows alone."""
        return self._curves.to_dict()

    @property
    def released(self) -> TableGenerator:
        """The generator to sample from: of the averaged weights, where they are averaged."""
        return self.average.module if self.config.averaging else self.generator

    def to(self, device: torch.device) -> Self:
        """All networks and targets, moved to ``device``."""
        for network in (self.generator, self.average.module):
            network.to(device)
        if self.moment_penalty is not None:
            self.moment_penalty.to(device)
        return self

    def warm_up(
        self, table: Tensor, rows: float, rng: torch.Generator, monitor: TrainingMonitor, steps: int
    ) -> int:
        """Training on the codes of a table that costs nothing; returns the steps done."""
        raise NotImplementedError

    def fit(
        self,
        table: PrivateTable[Any],
        accounts: Sequence[Account],
        rows: float,
        *,
        total: float | None = None,
        most_rows: int = 1,
        private_rng: torch.Generator,
        public_rng: torch.Generator,
        monitor: TrainingMonitor,
        standins: Tensor | None = None,
        most: int | None = None,
        bits: Bits | None = None,
    ) -> int:
        """Train until the accounts are spent or time is up; returns the steps done.

        Parameters
        ----------
        table : PrivateTable of Tensor, shape (n, layout.width), of WeightedInputs or of UnitRows
        accounts : sequence of Account
            Of what subclasses release, in the order of the plan.
        rows : float
            A public or privatised estimate of n.
        total : float, optional
            The same of the sum of the rows' parts, where rows have weights.
        most_rows : int
            The most rows of a unit, public.
        private_rng, public_rng : torch.Generator
            For the sampling of private rows, and noise on a GPU; for all that is public.
        standins : Tensor, shape (m, layout.width), optional
            Codes of a table that is public or already released.
        most : int, optional
            A cap on the steps that cost nothing.
        bits : Bits, optional
            Of noise and batches. By default a keystream whose key ``private_rng`` draws.
        """
        raise NotImplementedError

    def fit_moments(self, rng: torch.Generator, monitor: TrainingMonitor, steps: int) -> int:
        """Generator steps of the moment penalty alone; returns the steps done."""
        generator = self.generator
        config = self.config
        moves = optimizer("adam", generator.parameters(), config.moment_lr, (0.9, 0.999))
        rate = torch.optim.lr_scheduler.OneCycleLR(moves, config.moment_lr, total_steps=steps + 1)

        def one(_: int) -> None:
            self.moment_step(rng, moves)
            rate.step()

        generator.train()
        state = State(generator=generator, average=self.average, optimizer=moves, rate=rate)
        return run_steps(MOMENTS, steps, one, monitor, 0.3, state=state)

    def moment_step(self, rng: torch.Generator, moves: torch.optim.Optimizer) -> None:
        """One generator step of the moment penalty alone."""
        moment_penalty, generator = self.moment_penalty, self.generator
        assert moment_penalty is not None
        logits = generator.logits(generator.noise(MOMENT_ROWS, rng))
        self._descend(moment_penalty.loss(generator.heads(logits, 1.0, None)), moves)

    def _generator_optimizer(self) -> torch.optim.Optimizer:
        config, parameters = self.config, self.generator.parameters()
        return optimizer(config.generator_optimizer, parameters, config.generator_lr, config.betas)

    def _codes(self, batch: int, rng: torch.Generator) -> Tensor:
        return self.generator(self.generator.noise(batch, rng), self.config.temperature, rng)

    def _descend(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """A step of the generator; no other network gets a gradient, for they do not move."""
        parameters = list(self.generator.parameters())
        grads = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        optimizer.step()
        self.average.update(self.generator)
