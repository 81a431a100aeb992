"""What the study trains: Adult rows, a classifier and a critic, and one training run of either.

Adult income is public. For the study's sake a fifth of it plays the public rows that a steward may
have, three fifths the private table, and a fifth the test.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from exact import ExactBAM, bias_aware, bias_of
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from tabsynth.privacy.accounting.calibration import calibrate
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy, SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import NoisyCounts
from tabsynth.training.bounds import Clipping
from tabsynth.training.diagnostics import gradient_bias
from tabsynth.training.factors import Losses
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import BAM, DPSAT, DPSGD, PrivateStep, StepRule, minus_scores

NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
LABEL = "income>50K"
DELTA = 1e-5
# The private table has 29,306 rows; its steward declares a round number, and rates follow from that.
DECLARED_ROWS = 29_000
STEPS, BATCH, PROBES, FOLDS = 600, 512, 30, 4
# One-way counts that the critic's opponent is drawn from: noise multiplier over all 14 columns.
COUNT_NOISE = 10.0
WEIGHT_CLIP = 0.03


class Adult:
    """Codes, shape (n, 14), split at random into public, private and test rows."""

    def __init__(self, rows: Path, domain: Path) -> None:
        self.domain: dict[str, int] = json.loads(domain.read_text())
        codes = torch.tensor(pd.read_csv(rows)[list(self.domain)].to_numpy())
        codes = codes[torch.from_numpy(np.random.default_rng(0).permutation(len(codes)))]
        fifth = len(codes) // 5
        self.public, self.test, self.private = codes.split([fifth, fifth, len(codes) - 2 * fifth])

    def fold(self, k: int) -> tuple[Tensor, Tensor]:
        """Public rows without fold k of ``FOLDS``, and fold k."""
        parts = list(self.public.tensor_split(FOLDS))
        valid = parts.pop(k)
        return torch.cat(parts), valid

    def features(self, codes: Tensor) -> Tensor:
        """By the domain file only: a number's code scaled to [-1, 1], else one-hot; the label last."""
        parts = []
        for column, size, values in zip(self.domain, self.domain.values(), codes.T, strict=True):
            if column in NUMERIC:
                parts.append((2 * values / (size - 1) - 1)[:, None])
            elif column != LABEL:
                parts.append(one_hot(values, size))
            else:
                parts.append(values[:, None])
        return torch.cat([part.float() for part in parts], dim=1)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One training run but for its data and its seed."""

    task: str
    rule: StepRule | ExactBAM
    epsilon: float
    lr: float
    max_norm: float
    steps: int = STEPS
    batch: int = BATCH


@cache
def noise_for(plan_epsilon: float, steps: int, batch: int, critic: bool) -> float:
    """The noise multiplier of the steps that spends ε, the critic's one-way counts included."""
    rate = batch / DECLARED_ROWS
    counts = [(Gaussian(noise_multiplier=COUNT_NOISE), int(critic))]

    def spends(noise: float) -> list:
        return [*counts, (SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate), steps)]

    return calibrate(spends, plan_epsilon, DELTA)


def cross_entropies(module: nn.Module, rows: Tensor) -> Tensor:
    """The classifier's losses, shape (batch,)."""
    logits = module(rows[:, :-1]).squeeze(1)
    return binary_cross_entropy_with_logits(logits, rows[:, -1], reduction="none")


def independent_rows(
    adult: Adult, table: PrivateTable, ledger: Ledger, private: bool, seed: int
) -> Tensor:
    """Rows whose columns are drawn independently of each other, from noisy one-way counts."""
    rng = np.random.default_rng(seed)
    mechanism = Gaussian(noise_multiplier=COUNT_NOISE) if private else NoPrivacy()
    sizes = list(adult.domain.values())
    sets, shares = [(j,) for j in range(len(sizes))], [1 / len(sizes)] * len(sizes)
    account = ledger.open("one-way counts", mechanism, 1)
    columns = []
    for result in NoisyCounts(table, sizes).measure(account, sets, shares, rng):
        counts = np.where(result.counts > 2 * result.std, result.counts, 0)
        columns.append(rng.choice(len(counts), size=20_000, p=counts / counts.sum()))
    return adult.features(torch.from_numpy(np.stack(columns, axis=1)))


class Run:
    """One training run on ``codes``, through the ledger.

    Public rows take the private table's place while hyperparameters are chosen: the same noise, the
    same expected batch, and so the same signal-to-noise ratio of a step; ε is then that of the plan on
    the private table, and nothing of it is spent. ``activation`` is the classifier's.
    """

    def __init__(
        self,
        adult: Adult,
        codes: Tensor,
        plan: Plan,
        seed: int,
        rehearsal: bool,
        activation: str = "relu",
    ) -> None:
        self.adult, self.plan = adult, plan
        self.draw = torch.Generator().manual_seed(1000 + seed)
        self.public_draw = torch.Generator().manual_seed(2000 + seed)
        private, critic = math.isfinite(plan.epsilon), plan.task == "critic"
        self.ledger = Ledger(math.inf if rehearsal else plan.epsilon, DELTA)
        rate = plan.batch / (len(codes) if rehearsal else DECLARED_ROWS)
        mechanism: SubsampledGaussian | NoPrivacy = NoPrivacy()
        if private:
            noise = noise_for(plan.epsilon, plan.steps, plan.batch, critic)
            mechanism = SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate)
        self.fakes: Tensor | None = None
        if critic:
            table = PrivateTable(codes.numpy(), self.ledger)
            self.fakes = independent_rows(adult, table, self.ledger, private, seed)
        features = adult.features(codes)
        self.losses: Losses = minus_scores if critic else cross_entropies
        width = features.shape[1] - (not critic)
        hidden, activation = ([128, 128], "leaky-relu") if critic else ([64, 64], activation)
        self.module = mlp([width, *hidden, 1], self.draw, activation=activation)
        own = plan.rule
        # The exact gradient of the bias-aware objective is that of DP-SGD on another loss.
        exact = isinstance(own, ExactBAM)
        self.trained = bias_aware(self.losses, own.radius) if exact else self.losses
        self.step = PrivateStep(
            self.module,
            table=PrivateTable(features, self.ledger),
            account=self.ledger.open(plan.task, mechanism, plan.steps),
            rate=rate,
            expected_batch=plan.batch,
            generator=self.draw,
            rule=DPSGD() if exact else own,
            clipping=Clipping(max_norm=plan.max_norm, bound="public" if critic else "fixed"),
        )
        optimizer = torch.optim.RMSprop if critic else torch.optim.NAdam
        self.optimizer = optimizer(self.module.parameters(), lr=plan.lr)

    def train(self, probe: Callable[["Run", int], None] | None = None) -> "Run":
        """All steps; ``probe(run, t)`` looks on at ``PROBES`` of them, between gradient and update."""
        every = max(1, self.plan.steps // PROBES)
        for t in range(self.plan.steps):
            self.previous = [p.grad for p in self.module.parameters() if p.grad is not None]
            self.fake_batch = None
            if self.fakes is not None:
                picked = torch.randint(len(self.fakes), (BATCH,), generator=self.public_draw)
                self.fake_batch = self.fakes[picked]
            self.step.gradient(self.trained, self.fake_batch)
            if probe is not None and t % every == every - 1:
                probe(self, t)
            self.optimizer.step()
            if self.fakes is not None:
                with torch.no_grad():
                    for parameter in self.module.parameters():
                        parameter.clamp_(-WEIGHT_CLIP, WEIGHT_CLIP)
        return self

    def score(self, codes: Tensor) -> dict[str, float]:
        """Accuracy and log-loss of the classifier; the critic's AUC of real rows against independent."""
        rows = self.adult.features(codes)
        with torch.no_grad():
            if self.fakes is not None:
                both = torch.cat([rows, self.fakes])
                labels = torch.arange(len(both)) < len(rows)
                return {"auc": float(roc_auc_score(labels, self.module(both).squeeze(1)))}
            right = (self.module(rows[:, :-1]).squeeze(1) > 0) == (rows[:, -1] > 0)
            loss = cross_entropies(self.module, rows).mean()
        return {"accuracy": float(right.float().mean()), "loss": float(loss)}

    def bias(self, rows: Tensor, rule: StepRule | ExactBAM | None = None) -> dict[str, float]:
        """The un-noised diagnostics on PUBLIC rows at the present weights, under the run's own rule."""
        rule = rule or self.plan.rule
        if isinstance(rule, ExactBAM):
            exact = bias_aware(self.losses, rule.radius)
            now = self.step.bounds.now
            own = bias_of(self.module, self.losses, exact, rows, now, self.fake_batch)
            return {name: float(f"{value:.5g}") for name, value in own.items()}
        estimate = gradient_bias(
            self.module,
            self.losses,
            rows,
            bounds=self.step.bounds.now,
            rule=rule,
            previous=self.previous or None,
            public=self.fake_batch,
        )
        names = ("magnitude", "norm", "bias", "clipping_bias", "cosine", "clipped", "ascent")
        return {name: float(f"{getattr(estimate, name):.5g}") for name in names}


class Prober:
    """Looks at batches of the public rows, each drawn on its own as from a table without end.

    ``sizes``: of the batches; 0 is all public rows at once. ``rules``: others than the run's own.
    """

    def __init__(
        self,
        rows: Tensor,
        seed: int,
        sizes: tuple[int, ...] = (BATCH,),
        rules: tuple[StepRule | ExactBAM, ...] = (),
    ) -> None:
        self.rows, self.sizes, self.rules = rows, sizes, rules
        self.draw = torch.Generator().manual_seed(3000 + seed)
        self.found: list[dict] = []

    def __call__(self, run: Run, t: int) -> None:
        for size in self.sizes:
            picked = torch.randint(len(self.rows), (size,), generator=self.draw)
            batch = self.rows[picked] if size else self.rows
            for rule in self.rules or (run.plan.rule,):
                about = {"t": t + 1, "size": size, "rule": rule.name}
                self.found.append(about | run.bias(batch, rule))


def rule_of(name: str, radius: float | None) -> StepRule | ExactBAM:
    """A rule by its name; DP-SGD has no radius."""
    if radius is None:
        return DPSGD()
    return {"dp-sat": DPSAT, "bam": BAM, "bam-exact": ExactBAM}[name](radius=radius)


def shown(plan: Plan) -> dict:
    """A plan, JSON-ready."""
    out = asdict(plan) | {"rule": plan.rule.name, "radius": getattr(plan.rule, "radius", None)}
    return out | {"epsilon": "inf" if math.isinf(plan.epsilon) else plan.epsilon}
