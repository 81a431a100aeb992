"""The ordinary and the private steps of a comparison, which share one critic, one batch size and one table.

Rows are one-hot codes of random categories. On the CPU the private step reads them as fits do, from category codes.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.table import Block, Layout
from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.training.clipping import Clipping
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import (
    BAM,
    DPSAT,
    DPSGD,
    Batches,
    CodedInputs,
    PrivateStep,
    StepRule,
    critic_scores,
    gradient_penalty,
    minus_scores,
)

ROOT = Path(__file__).resolve().parents[2]
ROWS = 20_000
LR = 1e-3
Step = Callable[[], None]


class Setting:
    """A critic and a batch size, which the steps of a comparison share."""

    def __init__(
        self,
        width: int,
        batch: int,
        rows: int = ROWS,
        hidden: int = 256,
        device: str = "cpu",
        layout: Layout | None = None,
    ) -> None:
        rng = torch.Generator().manual_seed(0)
        layout = layout or layout_of([8] * (width // 8))
        codes = np.stack([np.random.default_rng(0).integers(0, n, rows) for n in layout.sizes], 1)
        self.width, self.batch, self.rows, self.hidden = width, batch, rows, hidden
        self.device = torch.device(device)
        self.table = torch.from_numpy(layout.encode(codes)).to(device)
        self.coded = CodedInputs.of(codes.astype(np.uint8), layout, self.device)
        self.fake = torch.rand(batch, width, generator=rng).to(device)
        self.rng = torch.Generator(device).manual_seed(1)
        self.penalised = Penalised(self)
        self.noise = 1.0
        self.critics: list[nn.Sequential] = []

    def critic(self) -> nn.Sequential:
        """Return a new critic."""
        rng, sizes = torch.Generator().manual_seed(0), [self.width, self.hidden, self.hidden, 1]
        self.critics.append(mlp(sizes, rng, activation="leaky-relu").to(self.device))
        return self.critics[-1]

    def optimizer(self, critic: nn.Module) -> torch.optim.Optimizer:
        """Return the optimiser of a critic."""
        return torch.optim.RMSprop(critic.parameters(), lr=LR)

    def draw(self) -> Tensor:
        """Draw a batch of rows."""
        return self.table[self.numbers(self.rows, self.batch)]

    def numbers(self, high: int, count: int) -> Tensor:
        """Draw integers below ``high``."""
        return torch.randint(0, high, (count,), generator=self.rng, device=self.device)

    # The ordinary steps.

    def ordinary(self, losses: Callable[[nn.Module, Tensor], Tensor], fake: bool = False) -> Step:
        """Return an ordinary step of a new critic."""
        critic = self.critic()
        optimizer = self.optimizer(critic)

        def step() -> None:
            optimizer.zero_grad()
            loss = losses(critic, self.draw()).mean()
            if fake:
                loss = loss + critic_scores(critic, self.fake).mean()
            loss.backward()
            optimizer.step()

        return step

    # Ours.

    def private(
        self, losses: Callable[[nn.Module, Tensor], Tensor], rule: StepRule, fake: bool = False
    ) -> Step:
        """Return a private step of a new critic."""
        critic, ledger, rate = self.critic(), Ledger(math.inf, 1e-5), self.batch / self.rows
        account = ledger.open(
            "critic", SubsampledGaussian(noise_multiplier=self.noise, sampling_rate=rate), 10**9
        )
        private = PrivateStep(
            critic,
            table=PrivateTable(self.coded if self.device.type == "cpu" else self.table, ledger),
            account=account,
            batches=Batches(rate=rate, expected_batch=self.batch),
            generator=torch.Generator(self.device).manual_seed(1),
            rule=rule,
            clipping=Clipping(max_norm=0.5, bound="public") if fake else Clipping(),
        )
        optimizer = self.optimizer(critic)

        def step() -> None:
            private.gradient(losses, self.fake if fake else None)
            optimizer.step()

        return step


class Penalised:
    """WGAN-GP, one loss a row: a generated partner, a point between the two."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.rng = setting, setting.rng

    def __call__(self, critic: nn.Module, rows: Tensor) -> Tensor:
        """Return the loss of each row, with its gradient penalty."""
        partner = self.setting.fake[self.setting.numbers(self.setting.batch, len(rows))]
        rho = torch.rand(len(rows), 1, generator=self.rng, device=rows.device)
        scores = critic_scores(critic, partner) - critic_scores(critic, rows)
        return scores + gradient_penalty(critic, rho * rows + (1 - rho) * partner, 10.0)


def steps_of(s: Setting) -> tuple[dict[str, Step], list[tuple[str, str]]]:
    """Return the steps of a setting, and which private step is compared with which ordinary one."""
    steps = {
        "scores": s.ordinary(minus_scores),
        "scores, DP-SGD": s.private(minus_scores, DPSGD()),
        "scores, DP-SAT": s.private(minus_scores, DPSAT()),
        "scores, BAM": s.private(minus_scores, BAM()),
        "WGAN": s.ordinary(minus_scores, fake=True),
        "WGAN, DP-SGD, centred": s.private(minus_scores, DPSGD(), fake=True),
        "WGAN-GP": s.ordinary(s.penalised),
        "WGAN-GP, DP-SGD": s.private(s.penalised, DPSGD()),
        "WGAN-GP, BAM": s.private(s.penalised, BAM()),
    }
    pairs = [(name, name.split(",")[0]) for name in steps if "," in name]
    return steps, pairs


def layout_of(sizes: Sequence[int]) -> Layout:
    """Return one-hot codes of columns of some numbers of categories."""
    ends = np.cumsum(sizes).tolist()
    return Layout(
        tuple(
            Block(str(j), end - size, end, "softmax", np.eye(size, dtype=np.float32))
            for j, (size, end) in enumerate(zip(sizes, ends, strict=True))
        )
    )


def settings(device: str = "cpu") -> dict[str, Setting]:
    """Return the settings that are compared, by name."""
    census, wide = census_layout(), layout_of([20] * 10 + [14] * 28 + [10] * 8 + [14] * 2)
    return {
        "64 → 256 → 256 → 1, batch 512": Setting(64, 512, device=device),
        "64 → 256 → 256 → 1, batch 4,096": Setting(64, 4096, device=device),
        f"census, {census.width} → 256 → 256 → 1, batch 954": Setting(
            census.width, 954, device=device, layout=census
        ),
        "48 columns, 700 → 256 → 256 → 1, batch 954": Setting(
            wide.width, 954, device=device, layout=wide
        ),
    }


def census_layout() -> Layout:
    """Return the codes of a row of the census table."""
    schema = Schema.load(ROOT / "data" / "census.schema.json")
    return TableEncoder(schema, "one-hot").layout
