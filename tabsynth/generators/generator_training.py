"""What all GANs share: a generator, anchors to what is already released, the average of its weights."""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from tabsynth.generators.anchors import Anchors
from tabsynth.generators.curves import Curves
from tabsynth.generators.generator_config import GeneratorConfig
from tabsynth.generators.table import TableGenerator
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.privacy.noise import Bits
from tabsynth.training.averaging import WeightAverage
from tabsynth.training.loop import Watch, run_steps
from tabsynth.training.optimizers import State, optimizer

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
    anchors : Anchors, optional
        What else the generator's loss holds on to.
    """

    def __init__(
        self,
        config: GeneratorConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        anchors: Anchors | None = None,
    ) -> None:
        self.config, self.generator, self.anchors = config, generator, anchors
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
        if self.anchors is not None:
            self.anchors.to(device)
        return self

    def warm_up(
        self, table: Tensor, rows: float, rng: torch.Generator, watch: Watch, steps: int
    ) -> int:
        """Training on the codes of a table that costs nothing; returns the steps done."""
        raise NotImplementedError

    def fit(
        self,
        table: PrivateTable[Tensor],
        accounts: Sequence[Account],
        rows: float,
        *,
        private_rng: torch.Generator,
        public_rng: torch.Generator,
        watch: Watch,
        standins: Tensor | None = None,
        most: int | None = None,
        bits: Bits | None = None,
    ) -> int:
        """Train until the accounts are spent or time is up; returns the steps done.

        Parameters
        ----------
        table : PrivateTable of Tensor, shape (n, layout.width)
        accounts : sequence of Account
            Of what subclasses release, in the order of the plan.
        rows : float
            A public or privatised estimate of n.
        private_rng, public_rng : torch.Generator
            For the coins of private rows, and noise on a GPU; for all that is public.
        standins : Tensor, shape (m, layout.width), optional
            Codes of a table that is public or already released.
        most : int, optional
            A cap on the steps that cost nothing.
        bits : Bits, optional
            Of noise and batches. By default a keystream whose key ``private_rng`` draws.
        """
        raise NotImplementedError

    def fit_moments(self, rng: torch.Generator, watch: Watch, steps: int) -> int:
        """Generator steps towards the anchors alone; returns the steps done."""
        generator = self.generator
        config = self.config
        moves = optimizer("adam", generator.parameters(), config.moment_lr, (0.9, 0.999))
        rate = torch.optim.lr_scheduler.OneCycleLR(moves, config.moment_lr, total_steps=steps + 1)

        def one(_: int) -> None:
            self.moment_step(rng, moves)
            rate.step()

        generator.train()
        state = State(generator=generator, average=self.average, optimizer=moves, rate=rate)
        return run_steps(MOMENTS, steps, one, watch, 0.3, state=state)

    def moment_step(self, rng: torch.Generator, moves: torch.optim.Optimizer) -> None:
        """One generator step towards the anchors alone."""
        anchors, generator = self.anchors, self.generator
        assert anchors is not None
        logits = generator.logits(generator.noise(MOMENT_ROWS, rng))
        self._descend(anchors.loss(generator.heads(logits, 1.0, None)), moves)

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
