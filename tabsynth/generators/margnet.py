"""MargNet: a network whose K outputs, each a product of distributions, are fitted to noisy counts.

After GEM (Liu, Vietri, Wu 2021, "Iterative Methods for Private Synthetic Data") and MargNet
(arXiv:2511.13893, 2025). All of it is post-processing of the noisy counts.

NOTE[DIFF] All pairs of columns are counted at once, with the budget ∝ cells^(2/3); the papers choose a
few in rounds, by the exponential mechanism, and weigh the last one most.
NOTE[DIFF] The loss of each cell is in units of its noise, and the fit stops where it has come down to
that noise; the papers stop after a fixed number of steps.
NOTE[DIFF] The distribution of an ordered column is a mixture of bumps of several widths and of single
values, not of single values alone.
NOTE[DIFF] Inputs are learned, and the entropy of the rows has a small weight in the loss: counts of pairs
leave the rest open, and sharp rows would fill it in with chance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth._validate import between, integer, positive
from tabsynth.columns import Column
from tabsynth.encoding.layout import Layout
from tabsynth.errors import InputError
from tabsynth.generators.mixture import Mixture, MixtureNetwork
from tabsynth.privacy.counts import Measured, probabilities
from tabsynth.training.loop import Watch, run_steps

STAGE = "generator"
LEAST_STD = 0.1  # in counts: what exact counts are weighed by
TINY = 1e-9  # probability below which entropy is flat
WARM_UP = 0.3  # share of the steps in which the learning rate grows


@dataclass(frozen=True, kw_only=True)
class MargNetConfig:
    """What MargNet is made of. All of it is public.

    Attributes
    ----------
    components : int
        K, the rows of the mixture.
    latent_dim : int
        Length of the input of each row; the inputs are learned.
    hidden : tuple of int
    bumps : tuple of float
        Widths (standard deviations) of the bumps that ordered columns are made of, as shares of the
        number of values.
    steps : int
        At most; the fit stops before where it is done.
    learning_rate : float
        The highest of the one-cycle schedule of Adam.
    stop : float
        The fit is done where its squared error is no more than the noise would make, less this many
        standard deviations: where the mean over cells, in units of the noise's variance, has come
        down to 1 - stop · √(2 / cells).
    entropy : float
        Weight of the rows' entropy, mean over columns: of all mixtures that explain the counts, the
        fit leans to one that says little beyond them. It falls to 0 with the last step.
    max_cells : int
        Pairs of columns with more cells than this are not counted: noise would drown them.
    max_width : int
        The largest columns are counted only by themselves, until the others together have at most
        this many values. Memory grows as its square, 16 bytes a unit.
    """

    components: int = 1000
    latent_dim: int = 64
    hidden: tuple[int, ...] = (256, 256)
    bumps: tuple[float, ...] = (0.01, 0.04)
    steps: int = 2000
    learning_rate: float = 6e-3
    stop: float = 1.75
    entropy: float = 0.3
    max_cells: int = 50_000
    max_width: int = 8_192

    def __post_init__(self) -> None:
        for name in ("components", "latent_dim", "steps", "max_cells", "max_width"):
            integer(name, getattr(self, name))
        for units in self.hidden:
            integer("hidden", units)
        for width in self.bumps:
            between("bumps", width, 0, 1, low_open=True)
        positive("learning_rate", self.learning_rate)
        for name in ("stop", "entropy"):
            between(name, getattr(self, name), 0, math.inf, high_open=True)


def chosen_sets(
    sizes: Sequence[int], max_cells: int = 50_000, max_width: int = 8_192
) -> list[tuple[int, ...]]:
    """The sets of columns to count: each by itself, and all pairs within the limits.

    A function of the public sizes alone.
    """
    paired = set(range(len(sizes)))
    for j in sorted(paired, key=lambda j: (-sizes[j], j)):
        if sum(sizes[i] for i in paired) <= max_width:
            break
        paired.remove(j)
    pairs = combinations(sorted(paired), 2)
    kept = [(a, b) for a, b in pairs if sizes[a] * sizes[b] <= max_cells]
    return [*((j,) for j in range(len(sizes))), *kept]


class CountLoss:
    """Mean squared error of the counts that a mixture expects, cell by cell in units of their noise.

    All pairs of columns are blocks of PᵀP, one GEMM, and the gradient is another, in closed form.

    Parameters
    ----------
    layout : Layout
    measured : sequence of Measured
        One- and two-way counts.
    rows : float
        A public or privatised estimate of n.
    components : int
        Rows of P.
    """

    def __init__(
        self,
        layout: Layout,
        measured: Sequence[Measured],
        rows: float,
        components: int,
        device: torch.device | str = "cpu",
    ) -> None:
        width = layout.width
        # What is expected is slope · PᵀP; slope is 0 where nothing was measured.
        pairs = np.zeros((2, width, width), dtype=np.float32)
        singles = np.zeros((2, width), dtype=np.float32)
        for m in measured:
            std = max(m.std, LEAST_STD)
            scaled = rows / components / std, m.counts / std
            spans = [slice(layout.blocks[j].start, layout.blocks[j].stop) for j in m.columns]
            if len(spans) == 1:
                singles[0, spans[0]], singles[1, spans[0]] = scaled
            elif len(spans) == 2:
                a, b = spans
                pairs[0, a, b], pairs[1, a, b] = scaled
                pairs[:, b, a] = pairs[:, a, b].transpose(0, 2, 1)
            else:
                raise InputError(f"Expected counts of one or two columns, got {len(spans)}.")
        self.cells = sum(m.counts.size for m in measured)
        self.slope, self.target = torch.from_numpy(pairs).to(device)
        self.slope1, self.target1 = torch.from_numpy(singles).to(device)

    @torch.no_grad()
    def __call__(self, p: Tensor) -> tuple[float, Tensor]:
        """The loss of probabilities ``p``, shape (components, layout.width), and its gradient."""
        error = (p.T @ p).mul_(self.slope).sub_(self.target)
        error1 = p.sum(0) * self.slope1 - self.target1
        # Each pair of columns is in the matrix twice.
        loss = (error.square().sum() / 2 + error1.square().sum()) / self.cells
        gradient = torch.addmm(error1 * self.slope1, p, error.mul_(self.slope))
        return float(loss), gradient.mul_(2 / self.cells)


class MargNetFit:
    """The fit of a mixture to noisy counts.

    Parameters
    ----------
    layout : Layout
        One-hot.
    columns : sequence of Column
    config : MargNetConfig
    measured : sequence of Measured
        All one-way counts, and some of two columns.
    rows : float
        A public or privatised estimate of n.
    rng : torch.Generator
        On the CPU; draws the network.
    """

    def __init__(
        self,
        layout: Layout,
        columns: Sequence[Column],
        config: MargNetConfig,
        measured: Sequence[Measured],
        rows: float,
        rng: torch.Generator,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.layout = config, layout
        self.network = MixtureNetwork(
            layout,
            columns,
            config.components,
            config.latent_dim,
            config.hidden,
            config.bumps,
            rng,
        )
        single = {m.columns[0]: m for m in measured if len(m.columns) == 1}
        self.network.start_from(
            [
                probabilities(m.counts.ravel(), rows, m.std)
                for m in (single[j] for j in range(len(columns)))
            ]
        )
        self.network.to(device)
        self.loss = CountLoss(layout, measured, rows, config.components, device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self.found: list[float] = []

    def fit(self, watch: Watch, most: int | None = None) -> int:
        """Fit until the noise level, the last step or the deadline; returns the steps done.

        Steps after the noise level is reached do nothing.
        """
        steps = self.config.steps if most is None else min(most, self.config.steps)
        return run_steps(STAGE, steps, lambda i: self.step(i, steps), watch, state=self)

    def step(self, i: int, steps: int) -> None:
        """Step ``i`` of ``steps``."""
        config = self.config
        if self.done:
            return
        p = self.network()
        loss, gradient = self.loss(p)
        self.found.append(loss)
        if self.done:
            return
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate * one_cycle(i / steps)
        if config.entropy:
            logs = p.detach().clamp_min(TINY).log_()
            weight = config.entropy * (1 - i / steps) / len(self.layout.blocks)
            gradient.add_(logs, alpha=weight / config.components)
        self.optimizer.zero_grad(set_to_none=True)
        p.backward(gradient)
        self.optimizer.step()

    @property
    def done(self) -> bool:
        """Whether the loss has come down to the noise."""
        level = 1 - self.config.stop * math.sqrt(2 / self.loss.cells)
        return bool(self.found) and self.found[-1] <= level

    @torch.no_grad()
    def mixture(self) -> Mixture:
        """The mixture as it is now."""
        return (
            Mixture(self.layout, self.config.components)
            .to(self.network.inputs.device)
            .set(self.network())
        )

    @property
    def curves(self) -> dict[str, dict[str, list[float]]]:
        """The loss over the steps: a function of the noisy counts, so public."""
        every = max(1, self.config.steps // 100)
        kept = [i for i in range(0, len(self.found), every) if math.isfinite(self.found[i])]
        curve = {"step": [float(i) for i in kept], "value": [self.found[i] for i in kept]}
        return {"squared error of a count over its noise's variance": curve}

    def state_dict(self) -> dict[str, Any]:
        """Weights, the optimiser's moments and the losses so far."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "found": torch.tensor(self.found, dtype=torch.float64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.found = state["found"].tolist()


def one_cycle(t: float) -> float:
    """Learning rate over its highest, at share ``t`` of the steps (Smith & Topin 2017)."""
    if t < WARM_UP:
        return 0.04 + 0.96 * (1 - math.cos(math.pi * t / WARM_UP)) / 2
    return (1 + math.cos(math.pi * (t - WARM_UP) / (1 - WARM_UP))) / 2
