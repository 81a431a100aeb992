"""How many critic steps go to one generator step: fixed, or as many as the critic needs."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from tabsynth._validate import integer
from tabsynth.generators.row_losses import pair_draws
from tabsynth.training.losses import gradient_penalty

PerGenerator = int | Literal["adaptive"]

LADDER = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
THRESHOLD, GRACE, DECAY = 0.6, 200, 0.99
LOOK_EVERY = 20  # generator steps between two looks at the accuracy: each waits for the device


def check_pace(name: str, value: Any) -> None:
    """A whole number of at least 1, or ``"adaptive"``."""
    if value != "adaptive":
        integer(f"{name} (or 'adaptive')", value)


class Pace:
    """n_D, the critic steps per generator step (Bie et al. 2023, "Private GANs, Revisited").

    ``adaptive`` goes up the ladder 1, 2, 5, 10, … where an exponential mean (.99) of the critic's
    accuracy on generated rows falls to .6, at most once in 200 generator steps: under noise the
    critic falls behind the generator, and only critic steps are charged.

    NOTE[DIFF] Their discriminator tells real from fake by the sign of its logit. The scores of a
    Wasserstein critic have no such zero, and those of private rows must not be looked at. What is
    known for free: with D(x) = w·h(x) + b, the private gradient ĝ in w is the noisy mean of
    h(generated) − h(real), so −⟨w, ĝ⟩ is a noisy mean D(real) − mean D(generated). Half of that gap
    (its exponential mean) above the mean score of generated rows is the threshold.
    """

    def __init__(self, per_generator: PerGenerator) -> None:
        self.adaptive = per_generator == "adaptive"
        self.steps = LADDER[0] if per_generator == "adaptive" else per_generator
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
        found = (scores < scores.mean() + self.gap / 2).float().mean()
        self.accuracy = _mean(self.accuracy, found)
        self.grace -= 1
        if self.grace > 0 or self.grace % LOOK_EVERY:
            return
        if float(self.accuracy) <= THRESHOLD and self.steps < LADDER[-1]:
            self.steps = LADDER[LADDER.index(self.steps) + 1]
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
    """Noisy mean D(real) − mean D(generated), off the last layer's gradient: see :class:`Pace`.

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
