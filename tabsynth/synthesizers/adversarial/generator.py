"""The generator of the GANs: its network, its training, and what holds it to statistics that are already released."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth._validate import in_range, integer, one_of, positive, widths
from tabsynth.encoding.table import Layout
from tabsynth.errors import InputError
from tabsynth.privacy.ledger.ledger import Account, PrivateTable
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.synthesizers.mixture import NOT_ONE, Mixture
from tabsynth.training.checkpoint import StateDict, Stateful
from tabsynth.training.clipping import Clipping
from tabsynth.training.loop import TrainingMonitor
from tabsynth.training.networks import OPTIMIZERS, Heads, State, mlp, optimizer, set_bias
from tabsynth.training.private_step import Batches, CodedInputs, PrivateStep, StepConfig

LATENTS = {"normal": torch.randn, "uniform": torch.rand}


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig:
    """The generator of an adversarial network or of PATE, and its loss. All of it is public.

    Attributes
    ----------
    latent_dim : int
        Length of the noise z.
    latent : {"normal", "uniform"}
        The distribution of z: N(0, I), or uniform on [0, 1].
    xavier : bool
        Whether weights are initialized by Xavier's rule (Glorot and Bengio 2010) in place of torch's; those of PATE's teachers
        and student as well.
    hidden : tuple of int
        Widths of the hidden layers.
    norm : bool
        Whether the network normalises by batch; it sees no private row.
    lr : float
    optimizer : str
    temperature : float
        Of the Gumbel-softmax heads while training.
    averaging : float
        Decay of the average of the generator's weights; 0 takes the last weights.
    anchor : float
        Weight, in the generator's loss, of the squared distance between the mean generated code and
        the mean code that the noisy one-way counts say. It holds the columns in place while a noisy
        critic pulls at their relations, and costs nothing: the counts are already released.
    pair_anchor : float
        Weight of the χ² distance between the two-way marginals of generated rows and those that are already
        released, as long as there are such: of a table of the same rows, or of PATE's student.
    rounded : bool
        Whether a sample of one-hot codes is rounded to the pair counts expected of the generator
        (see :meth:`tabsynth.synthesizers.mixture.Mixture.sample`). False, and wherever some codes are not
        one-hot: rows are drawn independently, each from its own z.
    """

    latent_dim: int = 64
    latent: str = "normal"
    xavier: bool = False
    hidden: tuple[int, ...] = (256, 256)
    norm: bool = True
    lr: float = 5e-4
    optimizer: str = "rmsprop"
    temperature: float = 0.5
    averaging: float = 0.995
    anchor: float = 1.0
    pair_anchor: float = 1.0
    rounded: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        integer("generator.latent_dim", self.latent_dim)
        one_of("generator.latent", self.latent, tuple(LATENTS))
        one_of("generator.xavier", self.xavier, (True, False))
        widths("generator.hidden", self.hidden)
        one_of("generator.optimizer", self.optimizer, tuple(OPTIMIZERS))
        for name in ("lr", "temperature"):
            positive(f"generator.{name}", getattr(self, name))
        in_range("generator.averaging", self.averaging, 0, 1, high_open=True)
        for name in ("anchor", "pair_anchor"):
            in_range(f"generator.{name}", getattr(self, name), 0, math.inf, high_open=True)


def mean_code(layout: Layout, marginals: Sequence[np.ndarray]) -> Tensor:
    """Return the mean row of codes under one-way distributions, shape (layout.width,)."""
    means = [p @ b.codebook for p, b in zip(marginals, layout.blocks, strict=True)]
    return torch.as_tensor(np.concatenate(means), dtype=torch.float32)


def across_columns(layout: Layout) -> Tensor:
    """Return 1 where two codes are of different columns, else 0, shape (width, width)."""
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
        """Return the distance, a scalar; ``moments`` and ``weight`` are symmetric, shape (width, width)."""
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
        """Return the gradient in the codes."""
        (gradient,) = ctx.saved_tensors
        return outer[0] * gradient, None, None


class MomentPenalty:
    """The squared distances of generated rows to a mean code, and χ² distances to second moments.

    Parameters
    ----------
    layout : Layout
    mean : Tensor, shape (width,), optional
    moments : Tensor, shape (width, width), optional
        Mean outer products of codes of different columns.
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
        config: GeneratorConfig,
    ) -> "MomentPenalty":
        """Return a penalty towards one-way distributions; second moments may follow."""
        mean = None if marginals is None else mean_code(layout, marginals)
        return cls(layout, mean, None, config.anchor, config.pair_anchor, marginals)

    def to(self, device: torch.device) -> "MomentPenalty":
        """Move both targets to ``device``."""
        if self.mean is not None:
            self.mean = self.mean.to(device)
        if self.moments is not None:
            self.moments = self.moments.to(device)
        self._between = self._between.to(device)
        return self

    def loss(self, expected: Tensor) -> Tensor:
        """Return the weighted sum, a scalar.

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
    """A generator, z → logits → codes: an MLP, then the autoencoder's decoder if there is one, then the heads."""

    def __init__(
        self,
        layout: Layout,
        config: GeneratorConfig,
        rng: torch.Generator,
        *,
        decoder: nn.Module | None = None,
        decoder_inputs: int = 0,
    ) -> None:
        super().__init__()
        self.latent_dim, self._draw_latent = config.latent_dim, LATENTS[config.latent]
        self.rounded = config.rounded
        self.heads = Heads(layout)
        outputs = layout.width if decoder is None else decoder_inputs
        last = None if decoder is None else "tanh"
        sizes = [config.latent_dim, *config.hidden, outputs]
        self.body = mlp(sizes, rng, last=last, norm=config.norm, xavier=config.xavier)
        self.decoder = decoder if decoder is not None else nn.Identity()

    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the last bias so that the first rows follow one-way distributions."""
        last = self.body if isinstance(self.decoder, nn.Identity) else self.decoder
        set_bias(last, self.heads.layout, marginals)

    def sound(self) -> bool:
        """Return whether the buffers beside the weights are valid; the weights may have any values."""
        return True

    def logits(self, z: Tensor) -> Tensor:
        """Return logits of a batch of noise, shape (batch, layout.width)."""
        return self.decoder(self.body(z))

    def forward(self, z: Tensor, temperature: float, rng: torch.Generator) -> Tensor:
        """Return codes of a batch of noise, shape (batch, layout.width)."""
        return self.heads(self.logits(z), temperature, rng)

    def noise(self, rows: int, rng: torch.Generator) -> Tensor:
        """Draw z, shape (rows, latent_dim)."""
        device = next(self.parameters()).device
        return self._draw_latent(rows, self.latent_dim, generator=rng, device=device)

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
        """Draw category codes of ``rows`` generated rows, shape (rows, columns) int64.

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
    config, rng, decoder, decoder_inputs
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
        config: GeneratorConfig,
        rng: torch.Generator,
        *,
        label: int,
        decoder: nn.Module | None = None,
        decoder_inputs: int = 0,
    ) -> None:
        block = layout.blocks[label]
        inputs = replace(config, latent_dim=config.latent_dim + block.size)
        super().__init__(layout, inputs, rng, decoder=decoder, decoder_inputs=decoder_inputs)
        self.label = label  # the column
        self._free, self._label = config.latent_dim, slice(block.start, block.stop)
        self.shares: Tensor
        self.register_buffer("shares", torch.full((block.size,), 1 / block.size))

    def logits(self, z: Tensor) -> Tensor:
        """Return the logits of :meth:`TableGenerator.logits`, with those of the label as z says."""
        logits = super().logits(z)
        label = (2 * z[:, self._free :] - 1) * self.CERTAIN
        start, stop = self._label.start, self._label.stop
        before, _, after = logits.split([start, stop - start, logits.shape[1] - stop], dim=1)
        return torch.cat([before, label, after], dim=1)

    def sound(self) -> bool:
        """Return whether the shares of the classes are shares."""
        return bool((self.shares >= 0).all()) and abs(float(self.shares.sum()) - 1) < NOT_ONE

    def noise(self, rows: int, rng: torch.Generator) -> Tensor:
        """Draw z and a class by its share, one-hot: shape (rows, latent_dim + classes)."""
        drawn = torch.multinomial(self.shares, rows, replacement=True, generator=rng)
        return self._with_class(drawn, rng)

    def noise_of(self, classes: np.ndarray) -> Callable[[int, torch.Generator], Tensor]:
        """Return what draws noise of some classes, bool, shape (classes,), by their shares; alike if all of these are 0."""
        allowed = torch.as_tensor(classes, dtype=self.shares.dtype, device=self.shares.device)
        shares = self.shares * allowed if (self.shares * allowed).sum() > 0 else allowed

        def noise(rows: int, rng: torch.Generator) -> Tensor:
            drawn = torch.multinomial(shares, rows, replacement=True, generator=rng)
            return self._with_class(drawn, rng)

        return noise

    def _with_class(self, classes: Tensor, rng: torch.Generator) -> Tensor:
        device = self.shares.device
        z = self._draw_latent(len(classes), self._free, generator=rng, device=device)
        return torch.cat([z, torch.eye(len(self.shares), device=device)[classes]], dim=1)


Module = TypeVar("Module", bound=nn.Module)


class WeightAverage(Stateful, Generic[Module]):
    """The exponential mean of a module's weights and buffers over its steps.

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
        weight = (1 - self.decay) / (1 - self.decay**self.updates)
        values = module.state_dict().values()
        for mean, value in zip(self.module.state_dict().values(), values, strict=True):
            if mean.is_floating_point():
                mean.lerp_(value, weight)
            else:
                mean.copy_(value)

    def state_dict(self) -> StateDict:
        """Return the mean, and the number of its steps."""
        return {"updates": self.updates, "module": self.module.state_dict()}

    def load_state_dict(self, state: StateDict) -> None:
        """Invert :meth:`state_dict`."""
        self.updates = int(state["updates"])
        self.module.load_state_dict(state["module"])


class Curves:
    """The values at steps, by name. Tensors are brought from their device when the curves are read."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[int, Tensor | float]]] = {}

    def note(self, name: str, step: int, value: Tensor | float) -> None:
        """Add a point."""
        self._held.setdefault(name, []).append((step, value))

    def to_dict(self) -> dict[str, dict[str, list[float]]]:
        """Return ``{name: {"step": […], "value": […]}}``, JSON-ready: values that diverged are left out."""
        out: dict[str, dict[str, list[float]]] = {}
        for name, points in self._held.items():
            values = [(step, float(value)) for step, value in points]
            finite = [(step, value) for step, value in values if math.isfinite(value)]
            if finite:
                out[name] = {"step": [s for s, _ in finite], "value": [v for _, v in finite]}
        return out

    def state_dict(self) -> StateDict:
        """Return the curves so far."""
        return self.to_dict()

    def load_state_dict(self, state: StateDict) -> None:
        """Invert :meth:`state_dict`."""
        self._held = {
            name: list(zip(curve["step"], curve["value"], strict=True))
            for name, curve in state.items()
        }


WARM_START = "warm start"  # the stage of critic steps on a public table
MOMENT_ROWS = 1000  # generated rows of a step towards released marginals
PAIR_LR, PAIR_BETAS = 1e-2, (0.9, 0.999)  # of Adam, in these steps
BETAS = (0.5, 0.9)  # of the Adam family, in all others


class Streams(NamedTuple):
    """The random streams of a training.

    They are for initial weights; for the sampling and pairing of private rows; for all that is public; for noise and
    batches of the autoencoder, and for those of what comes after it.
    """

    init: torch.Generator
    private: torch.Generator
    public: torch.Generator
    coder_noise: Bits
    noise: Bits


@dataclass(frozen=True, kw_only=True)
class TrainingContext:
    """The rows, accounts and randomness of one training.

    Attributes
    ----------
    table : PrivateTable of CodedInputs, of WeightedInputs or of UnitRows
    accounts : mapping
        From the purpose of each mechanism to its account.
    rows : float
        A public or privatised estimate of n.
    streams : Streams
    monitor : TrainingMonitor
    total : float, optional
        A public or privatised estimate of the sum of the rows' parts, where rows have weights.
    max_rows_per_unit : int
        The bound of the rows of a unit, public.
    marginals : sequence of ndarray, optional
        One-way distributions that are already released.
    public_codes : Tensor, shape (m, layout.width), optional
        Codes of a public table.
    drawn : CodedInputs, optional
        Rows that are drawn from noisy counts, for an autoencoder.
    """

    table: PrivateTable[Any]
    accounts: Mapping[str, Account]
    rows: float
    streams: Streams
    monitor: TrainingMonitor
    total: float | None = None
    max_rows_per_unit: int = 1
    marginals: Sequence[np.ndarray] | None = None
    public_codes: Tensor | None = None
    drawn: CodedInputs | None = None

    def batch_size(self, rate: float, min_rows: int = 1) -> int:
        """Return the expected number of rows of a batch, and at least ``min_rows``."""
        return max(min_rows, round(rate * self.rows))

    def private_step(
        self,
        module: nn.Module,
        account: Account,
        config: StepConfig,
        clipping: Clipping,
        batch: int,
        rng: torch.Generator,
        bits: Bits | None,
    ) -> PrivateStep:
        """Return the private steps of a module over the table; ``bits`` are as :class:`PrivateStep` takes them.

        Parameters
        ----------
        batch : int
            The expected number of rows of a batch.
        """
        rate = config.sampling_rate
        return PrivateStep(
            module,
            table=self.table,
            account=account,
            batches=Batches(
                rate=rate,
                expected_batch=batch if self.total is None else max(1.0, rate * self.total),
                expected_rows=batch,
                max_rows_per_unit=self.max_rows_per_unit,
            ),
            generator=rng,
            rule=config.step_rule(),
            clipping=clipping,
            bits=bits,
        )


class GeneratorTraining:
    """A generator and its training, all of it post-processing of what subclasses release.

    Parameters
    ----------
    generator_config : GeneratorConfig
    generator : TableGenerator
    moment_penalty : MomentPenalty, optional
        A further term of the generator's loss.
    """

    def __init__(
        self,
        generator_config: GeneratorConfig,
        generator: TableGenerator,
        moment_penalty: MomentPenalty | None = None,
    ) -> None:
        self.generator_config, self.generator = generator_config, generator
        self.moment_penalty = moment_penalty
        self.average = WeightAverage(generator, generator_config.averaging)
        self._curves = Curves()

    @property
    def curves(self) -> dict[str, dict[str, list[float]]]:
        """Public diagnostics, of generated rows alone."""
        return self._curves.to_dict()

    @property
    def final_generator(self) -> TableGenerator:
        """The generator to sample from: of the averaged weights, where they are averaged."""
        return self.average.module if self.generator_config.averaging else self.generator

    def to(self, device: torch.device) -> Self:
        """Move all networks and targets to ``device``."""
        for network in (self.generator, self.average.module):
            network.to(device)
        if self.moment_penalty is not None:
            self.moment_penalty.to(device)
        return self

    def state(self, **parts: Stateful) -> State:
        """Return the state of the training for a checkpoint, with further parts."""
        return State(generator=self.generator, average=self.average, curves=self._curves, **parts)

    def warm_up(self, context: TrainingContext) -> int:
        """Train on the context's public codes, where the training has a use for them; return the number of steps."""
        return 0

    def fit(self, context: TrainingContext) -> int:
        """Train until the accounts are spent or time is up; return the number of steps."""
        raise NotImplementedError

    def moment_step(self, rng: torch.Generator, moves: torch.optim.Optimizer) -> None:
        """Take one generator step of the moment penalty alone."""
        moment_penalty, generator = self.moment_penalty, self.generator
        assert moment_penalty is not None
        logits = generator.logits(generator.noise(MOMENT_ROWS, rng))
        self._descend(moment_penalty.loss(generator.heads(logits, 1.0, None)), moves)

    def _generator_optimizer(self) -> torch.optim.Optimizer:
        config = self.generator_config
        return optimizer(config.optimizer, self.generator.parameters(), config.lr, BETAS)

    def _codes(self, batch: int, rng: torch.Generator) -> Tensor:
        return self.generator(
            self.generator.noise(batch, rng), self.generator_config.temperature, rng
        )

    def _descend(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Take a step of the generator; no other network gets a gradient, for they do not move."""
        parameters = list(self.generator.parameters())
        grads = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        optimizer.step()
        self.average.update(self.generator)
