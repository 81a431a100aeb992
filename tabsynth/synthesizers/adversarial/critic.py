"""Adversarial training: private critic steps, generator steps, and what follows from releases for free.

Only the critic reads private rows, through :class:`tabsynth.training.private_step.PrivateStep`; all
else is post-processing: generator steps, penalties towards released counts, the average of the weights, and
training on a table that is public or already released.

Centred steps: a real row's loss is set against *stand-ins* that cost nothing, rows of a table that is
public or already released, or else generated rows. With gᵢ the gradient of a real row's loss, r the
mean gradient of the same loss on stand-ins, and F that of the generated rows' scores, a step takes
(Σ clip(gᵢ − r) + noise) / B + (r + F). Without clipping and noise, on B rows, that is mean gᵢ + F, the
ordinary gradient; and only the difference of real rows from the stand-ins is clipped and must exceed
the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from tabsynth._validate import integer, one_of, positive, quote, widths
from tabsynth.encoding.table import Layout
from tabsynth.errors import InputError
from tabsynth.methods import CRITIC
from tabsynth.privacy.ledger.ledger import Account, recorder
from tabsynth.synthesizers.adversarial.generator import (
    BETAS,
    WARM_START,
    GeneratorConfig,
    GeneratorTraining,
    MomentPenalty,
    TableGenerator,
    TrainingContext,
)
from tabsynth.synthesizers.adversarial.method import Learning, TrainingMechanism, step_mechanism
from tabsynth.synthesizers.method import Config, check_parts, with_settings
from tabsynth.training.clipping import Clipping
from tabsynth.training.loop import run_steps
from tabsynth.training.networks import ACTIVATIONS, OPTIMIZERS, mlp, optimizer
from tabsynth.training.private_step import (
    BAM,
    STEP_RULES,
    PrivateStep,
    StepConfig,
    critic_scores,
    describe_rule,
    gradient_penalty,
    minus_scores,
    tf32,
)
from tabsynth.training.row_by_row import RowByRow

MakeCritic = Callable[[int], nn.Module]
OWN_CRITIC = "critic= cannot be combined with step rule bam, groups of bounds or units of several rows; leave one of them out."


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """The critic of an adversarial network. All of it is public.

    Attributes
    ----------
    hidden : tuple of int
        Widths of the hidden layers.
    activation : str
    lr : float
    optimizer : str
    per_generator : int
        n_D, the critic steps per generator step.
    """

    hidden: tuple[int, ...] = (256, 256)
    activation: str = "leaky-relu"
    lr: float = 1e-3
    optimizer: str = "rmsprop"
    per_generator: int = 2

    def __post_init__(self) -> None:
        """Check the settings."""
        widths("critic.hidden", self.hidden)
        one_of("critic.activation", self.activation, ACTIVATIONS)
        positive("critic.lr", self.lr)
        one_of("critic.optimizer", self.optimizer, tuple(OPTIMIZERS))
        integer("critic.per_generator", self.per_generator)


@dataclass(frozen=True, kw_only=True)
class WGANConfig:
    """The configuration of DP-WGAN. All of it is public.

    Attributes
    ----------
    generator : GeneratorConfig
    critic : CriticConfig
    step : StepConfig
        The critic's private steps.
    clipping : Clipping
        How gradients are clipped; its public rows are stand-ins, against which real rows are set if it is centred. Else
        each real row is paired with one generated row. The bound ``max_norm`` is that of one example, a row or a whole
        unit.
    warm_start_steps : int
        Critic steps on a public table, where there is one, before the private steps.
    weight_clip : float
        c_p: critic weights stay in [-c_p, c_p].
    """

    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    step: StepConfig = field(default_factory=lambda: StepConfig(count=3000))
    clipping: Clipping = field(default_factory=lambda: Clipping(max_norm=0.5, bound="public"))
    warm_start_steps: int = 400
    weight_clip: float = 0.03

    def __post_init__(self) -> None:
        """Check the settings."""
        check_parts(self)
        positive("weight_clip", self.weight_clip)
        integer("warm_start_steps", self.warm_start_steps, least=0)


@dataclass(frozen=True, kw_only=True)
class DPGANConfig:
    """The configuration of dp-GAN. All of it is public.

    Attributes
    ----------
    generator, critic, step, clipping, warm_start_steps
        The parts, as in :class:`WGANConfig`.
    penalty : float
        λ of the gradient penalty.
    start_from_counts : bool
        Whether noisy one-way counts are measured, and the generator starts from them.
    """

    generator: GeneratorConfig = field(
        default_factory=lambda: GeneratorConfig(averaging=0.99, optimizer="adam", anchor=3.0)
    )
    critic: CriticConfig = field(
        default_factory=lambda: CriticConfig(lr=3e-3, optimizer="adam", per_generator=4)
    )
    step: StepConfig = field(default_factory=lambda: StepConfig(count=1500))
    clipping: Clipping = field(default_factory=lambda: Clipping(max_norm=0.5, bound="public"))
    warm_start_steps: int = 400
    penalty: float = 10.0
    start_from_counts: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        check_parts(self)
        positive("penalty", self.penalty)
        integer("warm_start_steps", self.warm_start_steps, least=0)
        one_of("start_from_counts", self.start_from_counts, (True, False))


def pair_draws(rows: int, rng: torch.Generator) -> Tensor:
    """Draw uniform numbers, shape (rows, 2): for the partner of each row, and ρ."""
    trace = recorder()
    drawn = None if trace is None else trace.uniform(rows, 2, rng)
    return torch.rand(rows, 2, generator=rng, device=rng.device) if drawn is None else drawn


class RowLosses:
    """−D(x) + λ(‖∇D(x̂)‖ − 1)², and + D(x̃) where ``paired``; x̂ = ρx + (1 − ρ)x̃.

    Each row x draws its own partner x̃ from a pool and its own ρ ~ U[0, 1], so that its loss is a
    function of that row, public values and random numbers of its own.

    Before each step it is set :meth:`against` a pool of generated rows. The object and its tensors stay
    the same from step to step, so that a step can be recorded.

    Parameters
    ----------
    rng : torch.Generator
        For partners and ρ: the private stream for private rows.
    penalty : float
        λ; 0 for none.
    paired : bool
    """

    def __init__(self, rng: torch.Generator, *, penalty: float, paired: bool) -> None:
        self.rng, self.penalty, self.paired = rng, penalty, paired
        self.pool: Tensor | None = None
        self._drawn: tuple[tuple[int, int], Tensor, Tensor] | None = None

    def against(self, pool: Tensor) -> "RowLosses":
        """Take partners from these rows, and discard earlier draws.

        Parameters
        ----------
        pool : Tensor, shape (m, width)
            Generated rows; m is public. Drawn once for all rows: the public stream does not learn how
            many private rows there are.
        """
        if self.pool is None:
            self.pool = pool.clone()
        else:
            self.pool.copy_(pool)
        self._drawn = None
        return self

    def __call__(self, critic: nn.Module, rows: Tensor) -> Tensor:
        """Return one loss a row, shape (batch,)."""
        losses = minus_scores(critic, rows)
        if not (self.paired or self.penalty):
            return losses
        partners, share = self._draws(rows)
        if self.paired:
            losses = losses + critic_scores(critic, partners)
        if self.penalty:
            points = share * rows + (1 - share) * partners
            losses = losses + gradient_penalty(critic, points, self.penalty)
        return losses

    def _draws(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Draw partners and ρ; the same again for the same rows, as step rules with two passes need."""
        assert self.pool is not None
        key = (rows.data_ptr(), len(rows))
        if self._drawn is None or self._drawn[0] != key:
            uniform = pair_draws(len(rows), self.rng)
            picked = (uniform[:, 0] * len(self.pool)).long()
            self._drawn = key, self.pool[picked], uniform[:, 1:]
        return self._drawn[1], self._drawn[2]


GENERATED = "generated rows"


def wants_public(clipping: Clipping) -> bool:
    """Return whether a private step goes by the gradients of stand-ins."""
    return clipping.centred or clipping.bound == "public"


def stated_steps(config: WGANConfig | DPGANConfig, stand_ins: str = GENERATED) -> dict[str, Any]:
    """Return what a certificate says of the critic's private steps; ``stand_ins`` names the rows they are centred on."""
    layers = [1] * (len(config.critic.hidden) + 2)  # their widths make no group more or less
    details = config.clipping.facts(mlp(layers, torch.Generator()), stand_ins)
    details |= describe_rule(config.step.step_rule())
    return {**details, "stand_ins": stand_ins} if wants_public(config.clipping) else details


SCORES = "critic's score of generated rows"
# Generated rows of a critic step, at most, where real rows have no partner among them: more take longer, and change no
# table beyond the spread of seeds. A generator step takes as many as real rows are expected: with fewer, F1 falls.
GENERATED_ROWS = 512


class Stage(NamedTuple):
    """A stage of adversarial training: its critic steps, and the account and private step where these are charged."""

    name: str
    steps: int
    account: Account | None = None
    step: PrivateStep | None = None


class Adversarial(GeneratorTraining):
    """A critic and a generator, and their training under an account.

    Parameters
    ----------
    config : WGANConfig or DPGANConfig
    generator : TableGenerator
    rng : torch.Generator
        For the critic's first weights.
    moment_penalty : MomentPenalty, optional
        A further term of the generator's loss.
    make_critic : callable, optional
        From the width of a row's codes to a critic, in place of the configured layers.
    """

    def __init__(
        self,
        config: WGANConfig | DPGANConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        moment_penalty: MomentPenalty | None = None,
        make_critic: MakeCritic | None = None,
    ) -> None:
        super().__init__(config.generator, generator, moment_penalty)
        self.config = config
        self.penalty = config.penalty if isinstance(config, DPGANConfig) else 0.0
        width = generator.heads.layout.width
        sizes, activation = [width, *config.critic.hidden, 1], config.critic.activation
        self.critic: nn.Module
        if make_critic is None:
            self.critic = mlp(sizes, rng, activation=activation)
        else:
            self.critic = RowByRow.of(make_critic, width, rng)
        self.clip_weights()

    def _trained(self) -> list[nn.Parameter]:
        return [p for p in self.critic.parameters() if p.requires_grad]

    def _gradient(self, loss: Tensor) -> list[Tensor]:
        """Return the gradient by the critic's weights, 0 of those that are not used."""
        trained = self._trained()
        return list(torch.autograd.grad(loss, trained, materialize_grads=True))

    @torch.no_grad()
    def clip_weights(self) -> None:
        """Keep the critic's parameters in their bound, where there is one."""
        if isinstance(self.config, WGANConfig):
            bound = self.config.weight_clip
            for parameter in self._trained():
                parameter.clamp_(-bound, bound)

    def to(self, device: torch.device) -> Self:
        """Return all networks and targets, moved to ``device``."""
        self.critic.to(device)
        return super().to(device)

    def warm_up(self, context: TrainingContext) -> int:
        """Train on the context's public codes without noise; return the number of critic steps."""
        if not self.config.warm_start_steps:
            return 0
        batch, rng = self._batch(context), context.streams.public
        losses, table = self._row_losses(rng), context.public_codes
        assert table is not None

        def gradient(fake: Tensor) -> None:
            public = _draw_rows(table, batch, rng)
            grads = self._ordinary(losses.against(fake), public, fake)
            for parameter, grad in zip(self._trained(), grads, strict=True):
                parameter.grad = grad

        steps = context.monitor.limit_steps(self.config.warm_start_steps)
        return self._run(Stage(WARM_START, steps), context, batch, gradient)

    def fit(self, context: TrainingContext) -> int:
        """Train until the critic's account is spent or time is up; return the number of critic steps."""
        account, streams = context.accounts[CRITIC], context.streams
        config, batch = self.config, self._batch(context)
        step = context.private_step(
            self.critic,
            account,
            config.step,
            config.clipping,
            batch,
            streams.private,
            streams.noise,
        )
        standins = context.public_codes if config.warm_start_steps else None
        losses, same = self._row_losses(streams.private), self._row_losses(streams.public)
        # Of generated rows as stand-ins, r + F is that of the penalty alone.
        restored = config.clipping.centred and (standins is not None or self.penalty > 0)

        def gradient(fake: Tensor) -> None:
            losses.against(fake)
            if not wants_public(config.clipping):
                step.gradient(losses)
                return
            public = fake if standins is None else _draw_rows(standins, batch, streams.public)
            step.gradient(
                losses,
                public,
                public_losses=same.against(fake),
                correction=self._of_generated(fake) if restored else None,
                restored=restored,
            )

        stage = Stage(CRITIC, account.granted, account, step)
        return self._run(stage, context, batch, gradient)

    def _run(
        self,
        stage: Stage,
        context: TrainingContext,
        batch: int,
        gradient: Callable[[Tensor], None],
    ) -> int:
        """Take critic steps by ``gradient``, and a generator step wherever one is due; return the number of critic steps.

        ``gradient(generated rows)`` sets the gradients of the critic.
        """
        critic_optimizer, generator_optimizer = self._optimizers()
        per_generator = self.config.critic.per_generator
        rng, steps = context.streams.public, stage.steps
        alone = self.config.clipping.centred and not self.penalty  # no row has a partner
        generated = min(batch, GENERATED_ROWS) if alone else batch
        suffix = "" if stage.account is not None else f" ({stage.name})"
        every = max(1, steps // 100)

        def one(i: int) -> None:
            with torch.no_grad(), tf32(rng.device):
                fake = self._codes(generated, rng)
            gradient(fake)
            critic_optimizer.step()
            self.clip_weights()
            if (i + 1) % per_generator == 0:
                with tf32(rng.device):
                    scores = self._generator_step(batch, generator_optimizer, rng)
                if i % every < per_generator:
                    self._curves.note(SCORES + suffix, i + 1, scores.mean())

        self.generator.train()
        state = self.state(
            critic=self.critic,
            critic_optimizer=critic_optimizer,
            generator_optimizer=generator_optimizer,
            **({} if stage.step is None else {"step": stage.step}),
        )
        # Steps on public rows leave time to the private ones.
        share = 1.0 if stage.account is not None else 0.5
        width = self.generator.heads.layout.width
        numbers = batch * (width + sum(self.config.critic.hidden))
        return run_steps(
            stage.name,
            steps,
            one,
            context.monitor,
            share,
            account=stage.account,
            state=state,
            numbers=numbers,
        )

    def _optimizers(self) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
        """Return new optimisers of the critic and of the generator."""
        config, parameters = self.config.critic, self.critic.parameters()
        of_critic = optimizer(config.optimizer, parameters, config.lr, BETAS)
        return of_critic, self._generator_optimizer()

    def _batch(self, context: TrainingContext) -> int:
        return context.batch_size(self.config.step.sampling_rate, 2)  # BatchNorm in G needs two

    def _row_losses(self, rng: torch.Generator) -> RowLosses:
        return RowLosses(rng, penalty=self.penalty, paired=not self.config.clipping.centred)

    def _ordinary(self, losses: RowLosses, real: Tensor, fake: Tensor) -> list[Tensor]:
        """Return the gradient of the critic's whole loss, without privacy."""
        total = losses(self.critic, real).mean()
        if not losses.paired:
            total = total + critic_scores(self.critic, fake).mean()
        return self._gradient(total)

    def _of_generated(self, fake: Tensor) -> list[Tensor]:
        """Return F, the gradient of the generated rows' mean score."""
        mean = critic_scores(self.critic, fake).mean()
        return self._gradient(mean)

    def _generator_step(
        self, batch: int, optimizer: torch.optim.Optimizer, rng: torch.Generator
    ) -> Tensor:
        """Take one step up the critic's score, which reads the critic's parameters and no row; return the scores."""
        generator = self.generator
        logits = generator.logits(generator.noise(batch, rng))
        codes = generator.heads(logits, self.config.generator.temperature, rng)
        scores = critic_scores(self.critic, codes)
        loss = -scores.mean()
        if self.moment_penalty is not None:
            loss = loss + self.moment_penalty.loss(generator.heads(logits, 1.0, None))
        self._descend(loss, optimizer)
        return scores.detach()


def _draw_rows(table: Tensor, batch: int, rng: torch.Generator) -> Tensor:
    """Return rows drawn with replacement, shape (batch, width)."""
    return table[torch.randint(len(table), (batch,), generator=rng, device=table.device)]


def with_rule(config: Config, step_rule: str | None) -> Config:
    """Return a configuration with the step rule that an estimator names, at its own radius."""
    one_of("step_rule", step_rule, (*STEP_RULES, None))
    if step_rule is None:
        return config
    return with_settings(config, step__rule=step_rule, step__radius=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class CriticLearning(Learning):
    """Learning from a critic that takes private steps."""

    config: WGANConfig | DPGANConfig
    make_critic: MakeCritic | None = None

    def check(self, layout: Layout, max_rows: int) -> None:
        """Refuse a critic of the user's own that cannot be trained, or not with these settings."""
        if self.make_critic is None:
            return
        if not callable(self.make_critic):
            raise InputError(
                f"Expected critic to be a callable from a width to a torch.nn.Module, got {quote(self.make_critic)}."
            )
        grouped = self.config.clipping.grouping != "flat"
        if self.config.step.rule == BAM.name or grouped or max_rows > 1:
            raise InputError(OWN_CRITIC)
        RowByRow.of(self.make_critic, layout.width, torch.Generator())

    def mechanisms(self, public_rows: str | None) -> tuple[TrainingMechanism, ...]:
        """Return the mechanism of the critic's steps."""
        config = self.config
        # As of Adversarial.fit: a free table stands in for private rows if the critic was warmed up on it.
        free = public_rows if config.warm_start_steps else None
        critic = TrainingMechanism(
            purpose=CRITIC,
            mechanism=lambda noise: step_mechanism(noise, config.step.sampling_rate),
            count=config.step.count,
            details=stated_steps(config, free or GENERATED),
        )
        return (critic,)

    def training(
        self, generator: TableGenerator, rng: torch.Generator, penalty: MomentPenalty
    ) -> GeneratorTraining:
        """Return the training of a critic and a generator."""
        return Adversarial(self.config, generator, rng, penalty, self.make_critic)

    def private_steps(self) -> list[StepConfig]:
        """Return the private steps of the critic."""
        return [self.config.step]

    def free_steps(self, *, public: bool) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row."""
        return {WARM_START: self.config.warm_start_steps} if public else {}
