"""The teachers of PATE: K networks in one batched step, and a loop over K modules."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tabsynth.synthesizers.pate.config import NetworksConfig
from tabsynth.synthesizers.pate.teachers import Teachers, TeacherTrainer
from tabsynth.training.networks import mlp

Step = Callable[[], None]
ROWS = 20_000
LR = 1e-3


class Round:
    """A round of K teachers on the shards of one table; each side draws its batches and steps its optimiser."""

    def __init__(self, teachers: int, width: int, hidden: tuple[int, ...], batch: int) -> None:
        rng = torch.Generator().manual_seed(0)
        self.count, self.widths, self.batch = teachers, [width, *hidden, 1], batch
        self.rows = torch.rand(ROWS, width, generator=rng)
        self.shard = torch.randint(teachers, (ROWS,), generator=rng)
        self.fake = torch.rand(batch, width, generator=rng)
        self.rng = torch.Generator().manual_seed(1)

    def batched_step(self) -> Step:
        """Return the step of all teachers as one batched network."""
        teachers = Teachers(self.count, self.widths, self.rng)
        trainer = TeacherTrainer(teachers, self.rows, None, self.shard, LR)

        def step() -> None:
            trainer.step(self.batch, self.fake, self.rng)

        return step

    def loop_step(self) -> Step:
        """Return the step of all teachers as modules in a loop."""
        modules: list[nn.Module] = []
        optimizers: list[torch.optim.Optimizer] = []
        shards: list[Tensor] = []
        for k in range(self.count):
            modules.append(mlp(self.widths, self.rng, activation="leaky-relu"))
            optimizers.append(torch.optim.Adam(modules[-1].parameters(), LR, betas=(0.5, 0.9)))
            shards.append(self.rows[self.shard == k])

        def step() -> None:
            for module, optimizer, rows_of_teacher in zip(modules, optimizers, shards, strict=True):
                picked = torch.randint(len(rows_of_teacher), (self.batch,), generator=self.rng)
                loss = (
                    softplus(-module(rows_of_teacher[picked])).mean()
                    + softplus(module(self.fake)).mean()
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return step


def rounds(width: int) -> dict[str, Round]:
    """Return the rounds of the default teachers on the census table, and of those of the paper."""
    config = NetworksConfig()
    hidden, batch = config.teacher_hidden, config.teacher_batch
    sizes = {
        f"200 teachers, {width} → {hidden[0]} → 1": (200, hidden),
        f"200 teachers, {width} → 1": (200, ()),
        f"2,000 teachers, {width} → {hidden[0]} → 1": (2000, hidden),
    }
    return {name: Round(k, width, h, batch) for name, (k, h) in sizes.items()}
