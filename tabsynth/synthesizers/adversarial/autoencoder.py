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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth._validate import in_range, one_of, positive, widths
from tabsynth.encoding.table import Layout
from tabsynth.methods import AUTOENCODER
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.synthesizers.adversarial.generator import TrainingContext
from tabsynth.synthesizers.method import check_parts
from tabsynth.training.clipping import Clipping
from tabsynth.training.loop import run_steps
from tabsynth.training.networks import ACTIVATIONS, Heads, State, mlp, optimizer, set_bias
from tabsynth.training.private_step import CodedInputs, StepConfig, describe_rule

ADAM = (0.9, 0.999)  # its usual βs
# On rows that are drawn from noisy counts, then on private rows with DP-SGD; with DP-SGD alone; on a table that costs nothing; on
# private rows without noise (ε = ∞).
TRAININGS = ("counts", "dp-sgd", "public", "no-noise")
OF_COUNTS = "autoencoder on rows of noisy counts"  # the first stage of ``counts``


@dataclass(frozen=True, kw_only=True)
class AutoencoderConfig:
    """The networks of an autoencoder and its training. All of it is public.

    Attributes
    ----------
    hidden : tuple of int
        Hidden widths of the encoder; the decoder mirrors them. None by default: under noise a linear
        decoder serves the generator better than a deep one.
    latent_dim : int
        Length of a latent, in (-1, 1) by a final tanh.
    activation : str
    lr : float
        The rate of Adam.
    max_norm : float
        The bound of one example's gradient.
    share : float
        Share of the budget, in squared Gaussian-DP μ, of the private steps, and the same again of noisy counts to learn
        from, where there are such.
    step : StepConfig
        The private steps; as many are on rows that cost nothing, where there are such.
    """

    hidden: tuple[int, ...] = ()
    latent_dim: int = 64
    activation: str = "leaky-relu"
    lr: float = 2e-3
    max_norm: float = 1.0
    share: float = 0.1
    step: StepConfig = field(default_factory=lambda: StepConfig(count=300))

    def __post_init__(self) -> None:
        """Check the settings."""
        check_parts(self)
        widths("autoencoder width", (*self.hidden, self.latent_dim))
        one_of("activation", self.activation, ACTIVATIONS)
        for name in ("lr", "max_norm"):
            positive(name, getattr(self, name))
        in_range("share", self.share, 0, 1, low_open=True, high_open=True)

    def clipping(self) -> Clipping:
        """Return how gradients are clipped: all of them in one group, at a fixed bound."""
        return Clipping(max_norm=self.max_norm)

    def stated_steps(self) -> dict[str, Any]:
        """Return what a certificate says of the private steps."""
        return {**self.clipping().facts(nn.Module()), **describe_rule(self.step.step_rule())}


def source_autoencoder(rows: int) -> AutoencoderConfig:
    """Return the settings of the document's appendix A: 9–16–32–64, tanh code, Adam 1e-3, batch 16, 50 epochs."""
    batch = 16
    return AutoencoderConfig(
        hidden=(9, 16, 32),
        latent_dim=64,
        activation="relu",
        lr=1e-3,
        step=StepConfig(count=max(1, 50 * rows // batch), sampling_rate=min(1.0, batch / rows)),
    )


class Autoencoder(nn.Module):
    """An encoder to latents in (-1, 1), and a decoder to the logits of the heads."""

    def __init__(self, config: AutoencoderConfig, layout: Layout, rng: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.heads = Heads(layout)
        widths = [layout.width, *config.hidden, config.latent_dim]
        self.encoder = mlp(widths, rng, activation=config.activation, last="tanh")
        self.decoder = mlp(widths[::-1], rng, activation=config.activation)

    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the decoder's last bias to one-way distributions."""
        set_bias(self.decoder, self.heads.layout, marginals)

    def forward(self, codes: Tensor) -> Tensor:
        """Return logits of the reconstruction, shape (batch, layout.width)."""
        return self.decoder(self.encoder(codes))

    def fit(
        self, context: TrainingContext, account: Account, rng: torch.Generator, bits: Bits | None
    ) -> int:
        """Train until the account is spent or time is up; return the number of steps.

        ``rng`` and ``bits`` are as in :class:`PrivateStep`.
        """
        config = self.config
        batch = context.batch_size(config.step.sampling_rate)
        step = context.private_step(self, account, config.step, config.clipping(), batch, rng, bits)
        moves = optimizer("adam", self.parameters(), config.lr, ADAM)

        def one(_: int) -> None:
            step.gradient(reconstruction_losses)
            moves.step()

        state = State(autoencoder=self, optimizer=moves, step=step)
        # Half of the time at most: a generator without a critic is worth nothing.
        return run_steps(
            account.purpose,
            account.granted,
            one,
            context.monitor,
            share=0.5,
            account=account,
            state=state,
        )

    def fit_public(
        self, context: TrainingContext, codes: Tensor | CodedInputs, stage: str = AUTOENCODER
    ) -> int:
        """Train on rows that cost nothing; return the number of steps. ``stage`` names it in a checkpoint."""
        # It needs no budget: its ledger has no limit, and is thrown away.
        free = Ledger(math.inf, 0.5)
        steps = context.monitor.limit_steps(self.config.step.count)
        account = free.open(stage, NoPrivacy(), steps)
        public = replace(
            context,
            table=PrivateTable(codes, free),
            rows=float(len(codes)),
            total=None,
            max_rows_per_unit=1,
        )
        return self.fit(public, account, context.streams.public, None)


def reconstruction_losses(autoencoder: nn.Module, codes: Tensor) -> Tensor:
    """Return the cross-entropy of the heads against the row itself, one loss a row."""
    assert isinstance(autoencoder, Autoencoder)
    return -autoencoder.heads.log_likelihood(autoencoder(codes), codes)
