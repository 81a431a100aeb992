"""MargNet: a network whose K outputs, each a product of distributions, are fitted to noisy counts.

After GEM (Liu, Vietri, Wu 2021, "Iterative Methods for Private Synthetic Data") and MargNet
(arXiv:2511.13893, 2025). All of it is post-processing of the noisy counts.

NOTE[DIFF] Pairs of columns are counted at once, with the budget ∝ cells^(2/3); the papers choose a few in
rounds, by the exponential mechanism, and weigh the last one most. Rare values are counted in groups. See
:mod:`tabsynth.generators.marginals`.
NOTE[DIFF] The loss of each cell is in units of its noise. Where it has come down to that noise, the fit goes
on for some times as long, as its rate falls to 0 and entropy weighs more; the papers take a fixed number of steps.
NOTE[DIFF] The fit goes half way from the noisy counts of pairs to counts of fewer directions; see
:mod:`tabsynth.generators.denoising`.
NOTE[DIFF] The distribution of an ordered column is a mixture of bumps of several widths and of single
values, not of single values alone.
NOTE[DIFF] Inputs are learned, and the entropy of the rows has a small weight in the loss: counts of pairs
leave the rest open, and sharp rows would fill it in with chance.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tabsynth.columns import Column
from tabsynth.encoding.layout import Layout
from tabsynth.generators.count_loss import CountLoss
from tabsynth.generators.denoising import smoothed
from tabsynth.generators.margnet_config import MargNetConfig
from tabsynth.generators.mixture import Mixture, MixtureNetwork
from tabsynth.generators.resolution import Resolution
from tabsynth.privacy.counts import Measured, probabilities
from tabsynth.structural_zeros import Zero
from tabsynth.training.loop import Watch, run_steps
from tabsynth.training.optimizers import WARM_UP, one_cycle

STAGE = "generator"
ZEROS = "structural zeros"
ZERO_STEPS, ZERO_RATE = 300, 0.3  # and the share of the highest learning rate
COUNTS_TIME = 0.7  # of a time limit, where structural zeros need the rest
TINY = 1e-9  # probability below which entropy is flat
# What the counts show beyond independence, in the noise's variances and a column, from which entropy has all
# of its weight, and the least part of it: on a table of few rows it would else outweigh all there is to learn.
CLEAR, LEAST_ENTROPY = 2000.0, 0.1
# The same, up to which the fit plans few of its steps, and entropy weighs twice past the noise: what is left
# to fit there is mostly chance.
NOISY, FEW_STEPS = 50_000.0, 2 / 3


class MargNetFit:
    """The fit of a mixture to noisy counts.

    Parameters
    ----------
    layout : Layout
        One-hot.
    columns : sequence of Column
    config : MargNetConfig
    measured : sequence of Measured
        All one-way counts, and some of two and three columns, group by group.
    rows : float
        A public or privatised estimate of n.
    rng : torch.Generator
        On the CPU; draws the network.
    resolution : Resolution, optional
        None: each value by itself in all counts.
    zeros : sequence of Zero
        Combinations of values that the schema declares impossible.
    """

    def __init__(
        self,
        layout: Layout,
        columns: Sequence[Column],
        config: MargNetConfig,
        measured: Sequence[Measured],
        rows: float,
        rng: torch.Generator,
        resolution: Resolution | None = None,
        device: torch.device | str = "cpu",
        zeros: Sequence[Zero] = (),
    ) -> None:
        self.config, self.layout = config, layout
        resolution = resolution or Resolution.by_value(layout.sizes)
        self.components = config.rows_of_mixture(len(columns))
        self.network = MixtureNetwork(
            layout,
            columns,
            self.components,
            config.latent_dim,
            config.hidden,
            config.bumps,
            rng,
        )
        single = {m.columns[0]: m for m in measured if len(m.columns) == 1}
        shares = [
            probabilities(m.counts.ravel(), rows, m.std)
            for m in (single[j] for j in range(len(columns)))
        ]
        self.network.start_from(shares)
        self.network.to(device)
        self.loss = CountLoss(
            layout,
            measured,
            rows,
            self.components,
            resolution,
            device,
            zeros=zeros,
            aims=smoothed(measured, shares, rows, resolution, config.smoothing),
            memory=config.memory * 2**20,
        )
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self.found: list[float] = []
        self.turned: int | None = None  # the step that found it done
        self.trial = False

    def fit(self, watch: Watch, most: int | None = None) -> int:
        """Fit to the noise level and onward, to the last step or the deadline; returns the steps done.

        Steps after that do nothing, but in a trial of ``most`` steps, which are to take their time. Then come
        those that make impossible rows rare: before the components differ, the shortest way would be to make
        one side of each combination rare in all of them.
        """
        self.trial = most is not None
        steps = self.config.steps if most is None else min(most, self.config.steps)
        share = COUNTS_TIME if self.loss.zeros else 1.0
        done = run_steps(STAGE, steps, lambda i: self.step(i, steps), watch, share, state=self)
        if self.loss.zeros:
            few = ZERO_STEPS if most is None else min(most, ZERO_STEPS)
            run_steps(ZEROS, few, lambda i: self.step_from_zeros(i, few), watch, state=self)
        return done

    def step(self, i: int, steps: int) -> None:
        """Step ``i`` of ``steps`` towards the counts."""
        if i >= self._last(steps):
            return
        p = self.network()
        loss, gradient = self.loss(p)
        self.found.append(loss)
        if not (self.done or self.trial) and self._settled():
            self.turned = i
        planned, last = min(steps, self.planned), self._last(steps)
        if i < last:
            rate, entropy = one_cycle(i / planned), 1 - i / planned
            if self.turned is not None:
                left = (last - i) / (last - self.turned)
                rate = one_cycle(self.turned / planned) * (1 - math.cos(math.pi * left)) / 2
                entropy = self.leaning * (1 - self.turned / planned) * left
            self._descend(p, gradient, rate * self.config.learning_rate, entropy)

    def _last(self, steps: int) -> int:
        """The first of ``steps`` that does nothing."""
        planned = min(steps, self.planned)
        if self.turned is None:
            return planned
        return min(planned, self.turned + int(self.config.onward * self.clarity * self.turned))

    def step_from_zeros(self, i: int, steps: int) -> None:
        """Step ``i`` of ``steps`` away from impossible rows, whose weight grows to that of counts."""
        p, past = self.network(), (i + 1) / steps
        _, gradient = self.loss(p, past)
        rate = ZERO_RATE * self.config.learning_rate * min(1.0, 3 * (1 - i / steps))
        entropy = 1 - min(1.0, len(self.found) / self.planned)
        self._descend(p, gradient, rate, 0.0 if self.done and self.config.onward else entropy)

    def _descend(self, p: Tensor, gradient: Tensor, rate: float, entropy: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.config.entropy:
            logs = p.detach().clamp_min(TINY).log_()
            weight = self.config.entropy * self.clarity * entropy / len(self.layout.blocks)
            gradient.add_(logs, alpha=weight / self.components)
        self.optimizer.zero_grad(set_to_none=True)
        p.backward(gradient)
        self.optimizer.step()

    @property
    def clarity(self) -> float:
        """Part of its weight that entropy has: by what the counts show."""
        return min(1.0, max(LEAST_ENTROPY, self.shown / CLEAR)) if self.found else 1.0

    @property
    def leaning(self) -> float:
        """How many times that part it has past the noise: twice, and less where the counts show much."""
        return 1 + self._noisy

    @property
    def planned(self) -> int:
        """The steps of the schedule: two thirds of those it may take, and more where the counts show much."""
        return round(self.config.steps * (1 - (1 - FEW_STEPS) * self._noisy))

    @property
    def _noisy(self) -> float:
        """From 1, where the counts show little, to 0."""
        return NOISY / max(self.shown, NOISY) if self.found else 0.0

    @property
    def shown(self) -> float:
        """What independent columns, the start, leave unexplained, in the noise's variances and a column."""
        return self.loss.cells * (self.found[0] - 1) / len(self.layout.blocks)

    @property
    def done(self) -> bool:
        """Whether the loss had come down to the noise, or came down no more, in some step."""
        return self.turned is not None

    def _settled(self) -> bool:
        level = 1 - self.config.stop * math.sqrt(2 / self.loss.cells)
        if self.found[-1] <= level:
            return True
        past = len(self.found) - self.config.patience
        # Not while the learning rate grows.
        if past <= WARM_UP * self.planned:
            return False
        return min(self.found[past:]) > 0.99 * min(self.found[:past])

    @torch.no_grad()
    def mixture(self) -> Mixture:
        """The mixture as it is now."""
        return (
            Mixture(self.layout, self.components).to(self.network.inputs.device).set(self.network())
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
            "turned": torch.tensor(-1 if self.turned is None else self.turned),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.found = state["found"].tolist()
        turned = int(state["turned"])
        self.turned = None if turned < 0 else turned
