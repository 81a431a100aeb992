"""The medGAN autoencoder (Choi et al. 2017, arXiv:1703.06490): discrete codes ⇄ continuous latents.

A GAN that writes into the latent space and decodes can pass gradients through discrete columns. The
decoder goes on learning through the critic, as in medGAN.

NOTE[DIFF] medGAN, and the Maryland census document after it, train the autoencoder on private rows
without noise and call the GAN behind it private. It is not: the decoder is a function of the private
rows that no noise was added to, and post-processing covers only what follows a private release. Here
the autoencoder is trained with DP-SGD on the same ledger, or on a public table, or, where ε is
infinite anyway, without noise.
NOTE[DIFF] One softmax or sigmoid head per column instead of independent sigmoids over all bits; in the
document, after its list of activations, ReLU.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth._validate import between, integer, one_of, positive, widths
from tabsynth.encoding.table import Layout
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.training.bounds import Clipping
from tabsynth.training.loop import TrainingMonitor, run_steps
from tabsynth.training.networks import (
    ACTIVATIONS,
    OPTIMIZERS,
    Heads,
    State,
    mlp,
    optimizer,
    set_bias,
)
from tabsynth.training.private_step import PrivateStep, StepRule, stated, step_rule

ADAM = (0.9, 0.999)  # its usual βs
# On private rows with DP-SGD; on a table that costs nothing; on private rows without noise (ε = ∞).
TRAININGS = ("dp-sgd", "public", "no-noise")


@dataclass(frozen=True, kw_only=True)
class AutoencoderConfig:
    """What the autoencoder is made of and how it learns. All of it is public.

    Attributes
    ----------
    hidden : tuple of int
        Hidden widths of the encoder; the decoder mirrors them. None by default: under noise a linear
        decoder serves the generator better than a deep one.
    latent_dim : int
        Length of a latent, in (-1, 1) by a final tanh.
    activation : str
    sampling_rate, steps, lr, max_norm : float
        Of the private steps.
    share : float
        Share of the budget, in squared Gaussian-DP μ, that they may spend.
    optimizer : str
    step_rule, radius : str, float or None
        ``dp-sgd``, ``dp-sat`` or ``bam``, with its radius (None: the rule's own).
    physical_batch : int, optional
        Rows at a time, where a whole batch does not fit in memory; at least the most rows of a unit.
    """

    hidden: tuple[int, ...] = ()
    latent_dim: int = 64
    activation: str = "leaky-relu"
    sampling_rate: float = 0.05
    steps: int = 300
    lr: float = 2e-3
    max_norm: float = 1.0
    share: float = 0.1
    optimizer: str = "adam"
    step_rule: str = "dp-sgd"
    radius: float | None = None
    physical_batch: int | None = None

    def __post_init__(self) -> None:
        widths("autoencoder width", (*self.hidden, self.latent_dim))
        one_of("activation", self.activation, ACTIVATIONS)
        between("sampling_rate", self.sampling_rate, 0, 1, low_open=True)
        integer("steps", self.steps)
        for name in ("lr", "max_norm"):
            positive(name, getattr(self, name))
        between("share", self.share, 0, 1, low_open=True, high_open=True)
        one_of("optimizer", self.optimizer, tuple(OPTIMIZERS))
        self.rule()
        if self.physical_batch is not None:
            integer("physical_batch", self.physical_batch)

    def rule(self) -> StepRule:
        """The step rule, as the engine takes it."""
        return step_rule(self.step_rule, self.radius)

    def clipping(self) -> Clipping:
        """How gradients are clipped, as the engine takes it: all of them in one group, at a fixed bound."""
        return Clipping(max_norm=self.max_norm)

    def stated_steps(self) -> dict[str, Any]:
        """What a certificate says of its private steps."""
        return {**self.clipping().stated(nn.Module()), **stated(self.rule())}


def source_autoencoder(rows: int) -> AutoencoderConfig:
    """The document's appendix A: 9–16–32–64, tanh code, Adam 1e-3, batch 16, 50 epochs."""
    batch = 16
    return AutoencoderConfig(
        hidden=(9, 16, 32),
        latent_dim=64,
        activation="relu",
        sampling_rate=min(1.0, batch / rows),
        steps=max(1, 50 * rows // batch),
        lr=1e-3,
    )


class Autoencoder(nn.Module):
    """Encoder to latents in (-1, 1) and decoder to the logits of the heads."""

    def __init__(self, config: AutoencoderConfig, layout: Layout, rng: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.heads = Heads(layout)
        widths = [layout.width, *config.hidden, config.latent_dim]
        self.encoder = mlp(widths, rng, activation=config.activation, last="tanh")
        self.decoder = mlp(widths[::-1], rng, activation=config.activation)

    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the decoder's last bias to the given one-way distributions."""
        set_bias(self.decoder, self.heads.layout, marginals)

    def forward(self, codes: Tensor) -> Tensor:
        """Logits of the reconstruction, shape (batch, layout.width)."""
        return self.decoder(self.encoder(codes))

    def fit(
        self,
        table: PrivateTable[Any],
        account: Account,
        rows: float,
        rng: torch.Generator,
        monitor: TrainingMonitor,
        bits: Bits | None = None,
        total: float | None = None,
        most_rows: int = 1,
    ) -> int:
        """Train until the account is spent or time is up; returns the steps done.

        ``table`` guards codes, shape (n, layout.width), WeightedInputs or UnitRows; ``rows`` is a public or privatised
        estimate of n, and ``total`` of the sum of the rows' parts, where they have weights. ``bits`` and ``most_rows``
        are as in :class:`PrivateStep`.
        """
        config = self.config
        batch = max(1, round(config.sampling_rate * rows))
        step = PrivateStep(
            self,
            table=table,
            account=account,
            rate=config.sampling_rate,
            expected_batch=batch if total is None else max(1.0, config.sampling_rate * total),
            expected_rows=batch,
            generator=rng,
            rule=config.rule(),
            clipping=config.clipping(),
            physical_batch=config.physical_batch,
            most_rows=most_rows,
            bits=bits,
        )
        moves = optimizer(config.optimizer, self.parameters(), config.lr, ADAM)

        def one(_: int) -> None:
            step.gradient(reconstruction_losses)
            moves.step()

        state = State(autoencoder=self, optimizer=moves, step=step)
        # Half of the time at most: a generator without a critic is worth nothing.
        return run_steps(
            "autoencoder", account.granted, one, monitor, share=0.5, account=account, state=state
        )

    def fit_free(
        self, codes: Tensor, steps: int, rng: torch.Generator, monitor: TrainingMonitor
    ) -> int:
        """Train on the codes of a table that costs nothing; returns the steps done."""
        # It needs no budget: its ledger has no limit, and is thrown away.
        free = Ledger(math.inf, 0.5)
        account = free.open("autoencoder", NoPrivacy(), steps)
        return self.fit(PrivateTable(codes, free), account, float(len(codes)), rng, monitor)


def reconstruction_losses(autoencoder: nn.Module, codes: Tensor) -> Tensor:
    """Cross-entropy of the heads against the row itself, one loss a row."""
    assert isinstance(autoencoder, Autoencoder)
    return -autoencoder.heads.log_likelihood(autoencoder(codes), codes)
