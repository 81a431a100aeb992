"""DP-WGAN: Xie et al. 2018, "Differentially Private Generative Adversarial Network" (DPGAN).

Algorithm 1 as the Maryland census document gives it (Jutras-Dubé), with its errors corrected:

NOTE[DIFF] Batches are Poisson samples, as the accountant assumes, not fixed-size draws.
NOTE[DIFF] Each example's gradient is clipped at C. The paper relies on weight clipping to bound
gradients; that bound is far above any useful C, and weight clipping never stands in for it (R2).
NOTE[DIFF] The generator steps with its own rate α_g; the box prints α_d.
NOTE[DIFF] A real row is set against the mean of a batch of generated rows, not against one of them:
see :meth:`tabsynth.training.dpsgd.DPSGD.gradient`.
NOTE[DIFF] The default preset starts the generator from noisy one-way counts, holds its mean code to them
(``anchor``) and samples from the average of its weights: all of it post-processing of what is already
released, and worth more than the steps that the counts cost. Preset ``source`` does none of it.
NOTE[DIFF] ε is that of all steps composed; the paper's σ_n = 2q√(n_d ln(1/δ))/ε is for one.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth._validate import between, integer, one_of, positive
from tabsynth.encoding.layout import Layout
from tabsynth.networks import ACTIVATIONS, Heads, mlp, set_bias
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.training.dpsgd import DPSGD
from tabsynth.training.loop import Watch, run_steps


@dataclass(frozen=True, kw_only=True)
class WGANConfig:
    """What DP-WGAN is made of. All of it is public.

    Attributes
    ----------
    latent_dim : int
        Length of the noise z ~ N(0, I).
    generator_hidden, critic_hidden : tuple of int
    critic_activation : str
    generator_norm : bool
        BatchNorm in the generator, which sees no private row.
    sampling_rate : float
        q, the chance of a row to be in a critic batch.
    critic_steps : int
        Critic steps in all: what is charged.
    critic_per_generator : int
        n_d, critic steps per generator step.
    max_norm : float
        The bound of one example's gradient, in medians of those of generated rows.
    weight_clip : float
        c_p: critic weights stay in [-c_p, c_p].
    critic_lr, generator_lr : float
        α_d and α_g, of RMSProp.
    temperature : float
        Of the Gumbel-softmax heads while training.
    averaging : float
        Decay of the average of the generator's weights; 0 takes the last weights.
    anchor : float
        Weight, in the generator's loss, of the squared distance between the mean generated code and
        the mean code that the noisy one-way counts say. It holds the columns in place while a noisy
        critic pulls at their relations, and costs nothing: the counts are already released.
    """

    latent_dim: int = 64
    generator_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256)
    critic_activation: str = "leaky-relu"
    generator_norm: bool = True
    sampling_rate: float = 0.05
    critic_steps: int = 2000
    critic_per_generator: int = 2
    max_norm: float = 0.5
    weight_clip: float = 0.03
    critic_lr: float = 1e-3
    generator_lr: float = 5e-4
    temperature: float = 0.5
    averaging: float = 0.99
    anchor: float = 1.0

    def __post_init__(self) -> None:
        integer("latent_dim", self.latent_dim)
        for name in ("generator_hidden", "critic_hidden"):
            for width in getattr(self, name):
                integer(name, width)
        one_of("critic_activation", self.critic_activation, ACTIVATIONS)
        between("sampling_rate", self.sampling_rate, 0, 1, low_open=True)
        integer("critic_steps", self.critic_steps)
        integer("critic_per_generator", self.critic_per_generator)
        for name in ("max_norm", "weight_clip", "critic_lr", "generator_lr", "temperature"):
            positive(name, getattr(self, name))
        between("averaging", self.averaging, 0, 1, high_open=True)
        between("anchor", self.anchor, 0, math.inf, high_open=True)


def source_wgan(rows: int) -> WGANConfig:
    """The document's appendix A: z 100, hidden 128 and 64, RMSProp 1e-5, batch 16, 25 epochs."""
    batch = 16
    return WGANConfig(
        latent_dim=100,
        generator_hidden=(128,),
        critic_hidden=(64,),
        critic_activation="relu",
        generator_norm=False,
        sampling_rate=min(1.0, batch / rows),
        critic_steps=max(1, 25 * rows // batch),
        critic_per_generator=5,
        max_norm=1.0,
        weight_clip=0.01,
        critic_lr=1e-5,
        generator_lr=1e-5,
        temperature=1.0,
        averaging=0.0,
        anchor=0.0,
    )


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
    ) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.heads = Heads(layout)
        outputs = layout.width if decoder is None else decoder_inputs
        last = None if decoder is None else "tanh"
        self.body = mlp([latent_dim, *hidden, outputs], rng, last=last, norm=norm)
        self.decoder = decoder if decoder is not None else nn.Identity()

    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the last bias so that the first rows follow the given one-way distributions."""
        last = self.body if isinstance(self.decoder, nn.Identity) else self.decoder
        set_bias(last, self.heads.layout, marginals)

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
    def sample(self, rows: int, rng: torch.Generator, chunk: int = 8192) -> np.ndarray:
        """Value numbers of ``rows`` generated rows, shape (rows, columns) int64."""
        self.eval()
        parts = []
        for start in range(0, rows, chunk):
            z = self.noise(min(chunk, rows - start), rng)
            codes = self.heads(self.logits(z), 1e-3, rng)
            parts.append(self.heads.layout.decode(codes.cpu().numpy()))
        return np.concatenate(parts)


class WGAN:
    """The critic and the generator, and their training under an account."""

    def __init__(
        self,
        config: WGANConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        marginals: Sequence[np.ndarray] | None = None,
    ) -> None:
        self.config = config
        self.anchor = None
        if marginals is not None and config.anchor:
            layout = generator.heads.layout
            means = [p @ b.codebook for p, b in zip(marginals, layout.blocks, strict=True)]
            self.anchor = torch.as_tensor(np.concatenate(means), dtype=torch.float32)
        self.generator = generator
        width = generator.heads.layout.width
        self.critic = mlp(
            [width, *config.critic_hidden, 1], rng, activation=config.critic_activation
        )
        self.clip_weights()
        self.average = copy.deepcopy(generator)
        self.curves: dict[str, dict[str, list[float]]] = {}

    def clip_weights(self) -> None:
        """Keep the critic's parameters in [-c_p, c_p]: a crude Lipschitz bound, not a privacy one."""
        bound = self.config.weight_clip
        with torch.no_grad():
            for parameter in self.critic.parameters():
                parameter.clamp_(-bound, bound)

    def fit(
        self,
        table: PrivateTable[Tensor],
        account: Account,
        rows: float,
        *,
        private_rng: torch.Generator,
        public_rng: torch.Generator,
        watch: Watch,
    ) -> int:
        """Train until the account is spent or time is up; returns the critic steps done.

        Parameters
        ----------
        table : PrivateTable of Tensor, shape (n, layout.width)
        account : Account
        rows : float
            A public or privatised estimate of n, for the divisor.
        private_rng, public_rng : torch.Generator
            For batches and noise; for z and Gumbel noise.
        """
        config = self.config
        batch = max(2, round(config.sampling_rate * rows))  # the generator's BatchNorm needs two
        step = DPSGD(
            self.critic,
            max_norm=config.max_norm,
            table=table,
            account=account,
            rate=config.sampling_rate,
            expected_batch=batch,
            generator=private_rng,
        )
        critic_optimizer = torch.optim.RMSprop(self.critic.parameters(), lr=config.critic_lr)
        generator_optimizer = torch.optim.RMSprop(
            self.generator.parameters(), lr=config.generator_lr
        )
        every = max(1, account.granted // 100)

        def one(i: int) -> None:
            with torch.no_grad():
                fake = self._codes(batch, public_rng)
            step.gradient(_minus_scores, public=fake)
            critic_optimizer.step()
            self.clip_weights()
            if (i + 1) % config.critic_per_generator == 0:
                score = self._generator_step(batch, generator_optimizer, public_rng)
                if i % every < config.critic_per_generator:
                    self._note("critic's score of generated rows", i + 1, score)

        self.generator.train()
        done = run_steps("critic", account.granted, one, watch)
        if not config.averaging:
            self.average = self.generator
        return done

    def _codes(self, batch: int, rng: torch.Generator) -> Tensor:
        return self.generator(self.generator.noise(batch, rng), self.config.temperature, rng)

    def _generator_step(
        self, batch: int, optimizer: torch.optim.Optimizer, rng: torch.Generator
    ) -> float:
        """One step up the critic's score; reads the critic's parameters and no row (R8)."""
        optimizer.zero_grad(set_to_none=True)
        codes = self._codes(batch, rng)
        score = self.critic(codes).mean()
        loss = -score
        if self.anchor is not None:
            distance = (codes.mean(0) - self.anchor.to(codes.device)).square().sum()
            loss = loss + self.config.anchor * distance
        loss.backward()
        optimizer.step()
        self._update_average()
        return float(score.detach())

    @torch.no_grad()
    def _update_average(self) -> None:
        decay = self.config.averaging
        for mean, now in zip(
            self.average.state_dict().values(), self.generator.state_dict().values(), strict=True
        ):
            if mean.is_floating_point():
                mean.lerp_(now, 1 - decay)
            else:
                mean.copy_(now)

    def _note(self, name: str, step: int, value: float) -> None:
        if not math.isfinite(value):  # diverged; JSON has no such number
            return
        curve = self.curves.setdefault(name, {"step": [], "value": []})
        curve["step"].append(step)
        curve["value"].append(value)


def _minus_scores(critic: nn.Module, rows: Tensor) -> Tensor:
    """−f(x), a real row's loss; the engine takes off the same of generated rows."""
    return -critic(rows).squeeze(1)
