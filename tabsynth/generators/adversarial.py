"""What the GANs share: private critic steps, generator steps, and what follows from releases for free.

Only the critic reads private rows, through :class:`tabsynth.training.private_step.PrivateStep`; all
else is post-processing: generator steps, anchors to released counts, the average of the weights, and
training on a table that is public or already released.

Centred steps: a real row's loss is set against *stand-ins* that cost nothing, rows of a table that is
public or already released, or else generated rows. With gᵢ the gradient of a real row's loss, r the
mean gradient of the same loss on stand-ins, and F that of the generated rows' scores, a step takes
(Σ clip(gᵢ − r) + noise) / B + (r + F). Without clipping and noise, on B rows, that is mean gᵢ + F, the
ordinary gradient; and only what tells real rows from the stand-ins is clipped and has to be seen
through the noise.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from tabsynth.generators.adversarial_config import AdversarialConfig
from tabsynth.generators.anchors import Anchors
from tabsynth.generators.generator_training import WARM_START, GeneratorTraining
from tabsynth.generators.pace import Pace, noisy_gap
from tabsynth.generators.row_losses import RowLosses
from tabsynth.generators.table import TableGenerator
from tabsynth.networks import mlp
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.privacy.noise import Bits
from tabsynth.training.capture import tf32
from tabsynth.training.loop import Watch, run_steps
from tabsynth.training.losses import critic_scores
from tabsynth.training.optimizers import State, optimizer
from tabsynth.training.private_step import PrivateStep

SCORES, PACE = "critic's score of generated rows", "critic steps per generator step"


class Adversarial(GeneratorTraining):
    """A critic and a generator, and their training under an account.

    Subclasses say what a real row's loss is (``penalty``), and what follows a critic step.

    Parameters
    ----------
    config : AdversarialConfig
    generator : TableGenerator
    rng : torch.Generator
        For the critic's first weights.
    anchors : Anchors, optional
        What else the generator's loss holds on to.
    """

    penalty: float = 0.0
    config: AdversarialConfig

    def __init__(
        self,
        config: AdversarialConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        anchors: Anchors | None = None,
    ) -> None:
        super().__init__(config, generator, rng, anchors)
        width = generator.heads.layout.width
        activation = config.critic_activation
        self.critic = mlp([width, *config.critic_hidden, 1], rng, activation=activation)
        self.after_critic_step()

    def after_critic_step(self) -> None:
        """What a method does to the critic after each of its steps."""

    def to(self, device: torch.device) -> Self:
        """All networks and targets, moved to ``device``."""
        self.critic.to(device)
        return super().to(device)

    def warm_up(
        self, table: Tensor, rows: float, rng: torch.Generator, watch: Watch, steps: int
    ) -> int:
        """Ordinary training on the codes of a table that costs nothing; returns the critic steps."""
        batch, losses = self._batch(rows), self._row_losses(rng)

        def gradient(fake: Tensor) -> Tensor:
            public = _some(table, batch, rng)
            grads = self._ordinary(losses.against(fake), public, fake)
            for parameter, grad in zip(self.critic.parameters(), grads, strict=True):
                parameter.grad = grad
            return public

        return self._run(WARM_START, steps, batch, gradient, rng, watch, {}, None)

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
        """As :meth:`GeneratorTraining.fit`, of the critic's one account; returns the critic steps."""
        (account,) = accounts
        config, batch = self.config, self._batch(rows)
        step = PrivateStep(
            self.critic,
            table=table,
            account=account,
            rate=config.sampling_rate,
            expected_batch=batch,
            generator=private_rng,
            rule=config.rule(),
            clipping=config.clipping(),
            physical_batch=config.physical_batch,
            bits=bits,
        )

        losses, same = self._row_losses(private_rng), self._row_losses(public_rng)
        # Of generated rows as stand-ins, r + F is that of the penalty alone.
        restored = config.centred and (standins is not None or self.penalty > 0)

        def gradient(fake: Tensor) -> Tensor:
            losses.against(fake)
            if not config.wants_public():
                step.gradient(losses)
                return fake
            public = fake if standins is None else _some(standins, batch, public_rng)
            step.gradient(
                losses,
                public,
                public_losses=same.against(fake),
                correction=self._of_generated(fake) if restored else None,
                restored=restored,
            )
            return public

        return self._run(
            "critic", account.granted, batch, gradient, public_rng, watch, {"step": step}, account
        )

    def _run(
        self,
        stage: str,
        steps: int,
        batch: int,
        gradient: Callable[[Tensor], Tensor],
        rng: torch.Generator,
        watch: Watch,
        parts: dict[str, Any],
        account: Account | None,
    ) -> int:
        """Critic steps by ``gradient``, and a generator step wherever one is due.

        ``gradient(generated rows)`` sets the critic's, and returns the stand-ins that it went by.
        """
        critic_optimizer, generator_optimizer = self._optimizers()
        pace = Pace(self.config.critic_per_generator)
        suffix = "" if account is not None else f" ({stage})"
        every = max(1, steps // 100)

        def one(i: int) -> None:
            with torch.no_grad(), tf32(rng.device):
                fake = self._codes(batch, rng)
            public = gradient(fake)
            gap = noisy_gap(self.critic, self.penalty, public, fake, rng) if pace.adaptive else None
            critic_optimizer.step()
            self.after_critic_step()
            waited = pace.steps
            if pace.critic_step(gap):
                with tf32(rng.device):
                    scores = self._generator_step(batch, generator_optimizer, rng)
                pace.generator_step(scores)
                if i % every < waited:
                    self._curves.note(SCORES + suffix, i + 1, scores.mean())
                    if pace.adaptive:
                        self._curves.note(PACE + suffix, i + 1, pace.steps)

        self.generator.train()
        state = State(
            critic=self.critic,
            generator=self.generator,
            average=self.average,
            critic_optimizer=critic_optimizer,
            generator_optimizer=generator_optimizer,
            pace=pace,
            curves=self._curves,
            **parts,
        )
        # A warm start leaves time to the private steps.
        share = 1.0 if account is not None else 0.5
        return run_steps(stage, steps, one, watch, share, account=account, state=state)

    def _optimizers(self) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
        """Of the critic and of the generator, both new."""
        config, critic = self.config, self.critic
        return (
            optimizer(config.critic_optimizer, critic.parameters(), config.critic_lr, config.betas),
            self._generator_optimizer(),
        )

    def _batch(self, rows: float) -> int:
        return max(2, round(self.config.sampling_rate * rows))  # BatchNorm in G needs two

    def _row_losses(self, rng: torch.Generator) -> RowLosses:
        return RowLosses(rng, penalty=self.penalty, paired=not self.config.centred)

    def _ordinary(self, losses: RowLosses, real: Tensor, fake: Tensor) -> list[Tensor]:
        """The gradient of the critic's whole loss, without privacy."""
        total = losses(self.critic, real).mean()
        if not losses.paired:
            total = total + critic_scores(self.critic, fake).mean()
        return list(torch.autograd.grad(total, list(self.critic.parameters())))

    def _of_generated(self, fake: Tensor) -> list[Tensor]:
        """F, the gradient of the generated rows' mean score."""
        mean = critic_scores(self.critic, fake).mean()
        return list(torch.autograd.grad(mean, list(self.critic.parameters())))

    def _generator_step(
        self, batch: int, optimizer: torch.optim.Optimizer, rng: torch.Generator
    ) -> Tensor:
        """One step up the critic's score; reads the critic's parameters and no row (R8)."""
        generator = self.generator
        logits = generator.logits(generator.noise(batch, rng))
        codes = generator.heads(logits, self.config.temperature, rng)
        scores = critic_scores(self.critic, codes)
        loss = -scores.mean()
        if self.anchors is not None:
            loss = loss + self.anchors.loss(generator.heads(logits, 1.0, None))
        self._descend(loss, optimizer)
        return scores.detach()


def _some(table: Tensor, batch: int, rng: torch.Generator) -> Tensor:
    """Rows drawn with replacement, shape (batch, width)."""
    return table[torch.randint(len(table), (batch,), generator=rng, device=table.device)]
