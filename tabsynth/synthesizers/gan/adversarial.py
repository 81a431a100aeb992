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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from tabsynth._validate import between, integer, one_of, positive, widths
from tabsynth.privacy.ledger.ledger import Account, PrivateTable, recorder
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.synthesizers.gan.generator import (
    WARM_START,
    GeneratorConfig,
    GeneratorTraining,
    MomentPenalty,
    TableGenerator,
)
from tabsynth.training.bounds import Clipping
from tabsynth.training.loop import TrainingMonitor, run_steps
from tabsynth.training.networks import ACTIVATIONS, OPTIMIZERS, State, mlp, optimizer
from tabsynth.training.private_step import (
    PrivateStep,
    StepRule,
    critic_scores,
    gradient_penalty,
    minus_scores,
    stated,
    step_rule,
    tf32,
)


def pair_draws(rows: int, rng: torch.Generator) -> Tensor:
    """Uniform numbers, shape (rows, 2): which partner each row gets, and ρ."""
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
        """One loss a row, shape (batch,)."""
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
        """Partners and ρ; the same again for the same rows, as step rules with two passes need."""
        assert self.pool is not None
        key = (rows.data_ptr(), len(rows))
        if self._drawn is None or self._drawn[0] != key:
            uniform = pair_draws(len(rows), self.rng)
            picked = (uniform[:, 0] * len(self.pool)).long()
            self._drawn = key, self.pool[picked], uniform[:, 1:]
        return self._drawn[1], self._drawn[2]


PerGenerator = int | Literal["adaptive"]

STEP_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
THRESHOLD, GRACE, DECAY = 0.6, 200, 0.99
LOOK_EVERY = 20  # generator steps between two looks at the accuracy: each waits for the device


def check_critic_steps(name: str, value: Any) -> None:
    """A whole number of at least 1, or ``"adaptive"``."""
    if value != "adaptive":
        integer(f"{name} (or 'adaptive')", value)


class CriticSchedule:
    """n_D, the critic steps per generator step (Bie et al. 2023, "Private GANs, Revisited").

    ``adaptive`` moves to the next of 1, 2, 5, 10, … when an exponential mean (.99) of the critic's
    accuracy on generated rows falls to .6, at most once in 200 generator steps: under noise the
    critic falls behind the generator, and only critic steps are charged.

    NOTE[DIFF] Their discriminator classifies rows as real or fake by the sign of its logit. The scores of a
    Wasserstein critic have no such zero, and those of private rows must not be looked at. What is
    known for free: with D(x) = w·h(x) + b, the private gradient ĝ in w is the noisy mean of
    h(generated) − h(real), so −⟨w, ĝ⟩ is a noisy mean D(real) − mean D(generated). Half of that gap
    (its exponential mean) above the mean score of generated rows is the threshold.
    """

    def __init__(self, per_generator: PerGenerator) -> None:
        self.adaptive = per_generator == "adaptive"
        self.steps = STEP_COUNTS[0] if per_generator == "adaptive" else per_generator
        self.waited = 0  # critic steps since the last generator step
        self.grace = GRACE
        self.gap = self.accuracy = torch.tensor(torch.nan)

    def critic_step(self, gap: Tensor | None = None) -> bool:
        """Count a critic step, with its noisy gap; True where a generator step is due."""
        if gap is not None:
            self.gap = _mean(self.gap, gap.detach())
        self.waited += 1
        if self.waited < self.steps:
            return False
        self.waited = 0
        return True

    def generator_step(self, scores: Tensor) -> None:
        """The critic's scores of the rows of a generator step, shape (batch,)."""
        if not self.adaptive:
            return
        scores = scores.detach()
        accuracy = (scores < scores.mean() + self.gap / 2).float().mean()
        self.accuracy = _mean(self.accuracy, accuracy)
        self.grace -= 1
        if self.grace > 0 or self.grace % LOOK_EVERY:
            return
        if float(self.accuracy) <= THRESHOLD and self.steps < STEP_COUNTS[-1]:
            self.steps = STEP_COUNTS[STEP_COUNTS.index(self.steps) + 1]
            self.grace = GRACE

    def state_dict(self) -> dict[str, Any]:
        """Counters and means."""
        return {
            "steps": self.steps,
            "waited": self.waited,
            "grace": self.grace,
            "gap": self.gap.clone(),
            "accuracy": self.accuracy.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""
        self.steps, self.waited = int(state["steps"]), int(state["waited"])
        self.grace = int(state["grace"])
        self.gap, self.accuracy = state["gap"], state["accuracy"]


def noisy_gap(
    critic: nn.Sequential, penalty: float, public: Tensor, fake: Tensor, rng: torch.Generator
) -> Tensor:
    """Noisy mean D(real) − mean D(generated), off the last layer's gradient: see :class:`CriticSchedule`.

    The gradient penalty is no function of the scores: what it adds on stand-ins (``public``) is taken
    out, and what it adds on real rows beyond that stays in.
    """
    last = critic[-1].weight
    assert isinstance(last, nn.Parameter) and last.grad is not None
    gap = -(last * last.grad).sum()
    if penalty:
        share = pair_draws(len(fake), rng)[:, 1:]
        points = share * public + (1 - share) * fake.roll(1, 0)
        (slope,) = torch.autograd.grad(gradient_penalty(critic, points, penalty).mean(), last)
        gap = gap + (last * slope).sum()
    return gap.detach()


def _mean(mean: Tensor, value: Tensor) -> Tensor:
    """Exponential mean; the first value starts it."""
    mean = mean.to(value.device)
    return torch.where(torch.isnan(mean), value, DECAY * mean + (1 - DECAY) * value)


GENERATED = "generated rows"


@dataclass(frozen=True, kw_only=True)
class AdversarialConfig(GeneratorConfig):
    """The configuration of a GAN whose critic takes private steps. All of it is public.

    Attributes
    ----------
    critic_hidden : tuple of int
    critic_activation : str
    sampling_rate : float
        q, the chance of a row to be in a critic batch; of a unit of several rows, with all of them.
    critic_steps : int
        Total number of critic steps; each is charged.
    critic_per_generator : int or "adaptive"
        Critic steps per generator step; see :class:`tabsynth.synthesizers.gan.adversarial.CriticSchedule`.
    max_norm : float
        The bound of one example's gradient, a row's or a whole unit's; in units of ``bound``, which are those of a row.
    bound, statistic, grouping, clusters : str, str, str, int
        See :class:`tabsynth.training.bounds.Clipping`; its public rows are stand-ins.
    centred : bool
        Set real rows against stand-ins; else each is paired with one generated row.
    step_rule, radius : str, float or None
        ``dp-sgd``, ``dp-sat`` or ``bam``, with its radius (None: the rule's own).
    physical_batch : int, optional
        Rows at a time, where a whole batch does not fit in memory; at least the most rows of a unit.
    critic_lr : float
    critic_optimizer : str
    others
        See :class:`tabsynth.synthesizers.gan.generator.GeneratorConfig`.
    """

    critic_hidden: tuple[int, ...] = (256, 256)
    critic_activation: str = "leaky-relu"
    sampling_rate: float = 0.05
    critic_steps: int = 3000
    critic_per_generator: PerGenerator = 2
    max_norm: float = 0.5
    bound: str = "public"
    statistic: str = "median"
    grouping: str = "flat"
    clusters: int = 3
    centred: bool = True
    step_rule: str = "dp-sgd"
    radius: float | None = None
    physical_batch: int | None = None
    critic_lr: float = 1e-3
    critic_optimizer: str = "rmsprop"

    def __post_init__(self) -> None:
        super().__post_init__()
        widths("critic_hidden", self.critic_hidden)
        one_of("critic_activation", self.critic_activation, ACTIVATIONS)
        between("sampling_rate", self.sampling_rate, 0, 1, low_open=True)
        integer("critic_steps", self.critic_steps)
        check_critic_steps("critic_per_generator", self.critic_per_generator)
        self.rule()
        self.clipping()
        if self.physical_batch is not None:
            integer("physical_batch", self.physical_batch)
        one_of("critic_optimizer", self.critic_optimizer, tuple(OPTIMIZERS))
        for name in ("max_norm", "critic_lr"):
            positive(name, getattr(self, name))

    def rule(self) -> StepRule:
        """The step rule, as the engine takes it."""
        return step_rule(self.step_rule, self.radius)

    def clipping(self) -> Clipping:
        """How gradients are clipped, as the engine takes it."""
        return Clipping(
            max_norm=self.max_norm,
            bound=self.bound,
            grouping=self.grouping,
            clusters=self.clusters,
            statistic=self.statistic,
            centred=self.centred,
        )

    def stated_steps(self, stand_ins: str = GENERATED) -> dict[str, Any]:
        """The critic's private steps, for the certificate; ``stand_ins`` names the rows they are centred on, if any."""
        layers = [1] * (
            len(self.critic_hidden) + 2
        )  # how wide they are makes no group more or less
        details = self.clipping().stated(mlp(layers, torch.Generator()), stand_ins)
        details |= stated(self.rule())
        return {**details, "stand_ins": stand_ins} if self.wants_public() else details

    def wants_public(self) -> bool:
        """Whether a private step goes by the gradients of stand-ins."""
        return self.centred or self.bound == "public" or self.grouping == "clusters"


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
    moment_penalty : MomentPenalty, optional
        What else the generator's loss holds on to.
    """

    penalty: float = 0.0
    config: AdversarialConfig

    def __init__(
        self,
        config: AdversarialConfig,
        generator: TableGenerator,
        rng: torch.Generator,
        moment_penalty: MomentPenalty | None = None,
    ) -> None:
        super().__init__(config, generator, rng, moment_penalty)
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
        self, table: Tensor, rows: float, rng: torch.Generator, monitor: TrainingMonitor, steps: int
    ) -> int:
        """Ordinary training on the codes of a table that costs nothing; returns the critic steps."""
        batch, losses = self._batch(rows), self._row_losses(rng)

        def gradient(fake: Tensor) -> Tensor:
            public = _some(table, batch, rng)
            grads = self._ordinary(losses.against(fake), public, fake)
            for parameter, grad in zip(self.critic.parameters(), grads, strict=True):
                parameter.grad = grad
            return public

        return self._run(WARM_START, steps, batch, gradient, rng, monitor, {}, None)

    def fit(
        self,
        table: PrivateTable[Any],
        accounts: Sequence[Account],
        rows: float,
        *,
        total: float | None = None,
        most_rows: int = 1,
        private_rng: torch.Generator,
        public_rng: torch.Generator,
        monitor: TrainingMonitor,
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
            expected_batch=batch if total is None else max(1.0, config.sampling_rate * total),
            expected_rows=batch,
            generator=private_rng,
            rule=config.rule(),
            clipping=config.clipping(),
            physical_batch=config.physical_batch,
            most_rows=most_rows,
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
            "critic", account.granted, batch, gradient, public_rng, monitor, {"step": step}, account
        )

    def _run(
        self,
        stage: str,
        steps: int,
        batch: int,
        gradient: Callable[[Tensor], Tensor],
        rng: torch.Generator,
        monitor: TrainingMonitor,
        parts: dict[str, Any],
        account: Account | None,
    ) -> int:
        """Critic steps by ``gradient``, and a generator step wherever one is due.

        ``gradient(generated rows)`` sets the critic's, and returns the stand-ins that it went by.
        """
        critic_optimizer, generator_optimizer = self._optimizers()
        schedule = CriticSchedule(self.config.critic_per_generator)
        suffix = "" if account is not None else f" ({stage})"
        every = max(1, steps // 100)

        def one(i: int) -> None:
            with torch.no_grad(), tf32(rng.device):
                fake = self._codes(batch, rng)
            public = gradient(fake)
            gap = (
                noisy_gap(self.critic, self.penalty, public, fake, rng)
                if schedule.adaptive
                else None
            )
            critic_optimizer.step()
            self.after_critic_step()
            waited = schedule.steps
            if schedule.critic_step(gap):
                with tf32(rng.device):
                    scores = self._generator_step(batch, generator_optimizer, rng)
                schedule.generator_step(scores)
                if i % every < waited:
                    self._curves.note(SCORES + suffix, i + 1, scores.mean())
                    if schedule.adaptive:
                        self._curves.note(PACE + suffix, i + 1, schedule.steps)

        self.generator.train()
        state = State(
            critic=self.critic,
            generator=self.generator,
            average=self.average,
            critic_optimizer=critic_optimizer,
            generator_optimizer=generator_optimizer,
            pace=schedule,
            curves=self._curves,
            **parts,
        )
        # A warm start leaves time to the private steps.
        share = 1.0 if account is not None else 0.5
        return run_steps(stage, steps, one, monitor, share, account=account, state=state)

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
        """One step up the critic's score; reads the critic's parameters and no row."""
        generator = self.generator
        logits = generator.logits(generator.noise(batch, rng))
        codes = generator.heads(logits, self.config.temperature, rng)
        scores = critic_scores(self.critic, codes)
        loss = -scores.mean()
        if self.moment_penalty is not None:
            loss = loss + self.moment_penalty.loss(generator.heads(logits, 1.0, None))
        self._descend(loss, optimizer)
        return scores.detach()


def _some(table: Tensor, batch: int, rng: torch.Generator) -> Tensor:
    """Rows drawn with replacement, shape (batch, width)."""
    return table[torch.randint(len(table), (batch,), generator=rng, device=table.device)]
