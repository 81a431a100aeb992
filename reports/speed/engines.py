"""The private step of critic scores, and other engines that compute the same clipped, noised sum."""

from typing import Any

import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from settings import Setting, Step
from torch import Tensor, nn

from tabsynth.training.private_step import DPSGD, minus_scores


def engines(s: Setting) -> dict[str, Step]:
    """Return the private step of each engine."""
    return {
        "ours": s.private(minus_scores, DPSGD()),
        "opacus, ghost clipping": _opacus_ghost(s),
        "opacus, hooks": _opacus_hooks(s),
        "torch.func, vmap": _vmap(s),
    }


def check_peers() -> None:
    """Check that all engines do the same work: nearly without noise they must step the same way."""
    s = Setting(8, 32, rows=32, hidden=16)
    s.noise, s.draw = 1e-9, lambda: s.table  # type: ignore[method-assign]
    for step in engines(s).values():
        step()
    first, *gradients = [torch.cat([p.grad.flatten() for p in c.parameters()]) for c in s.critics]
    for other in gradients:  # ours clips below the bound by what rounding may add, 0.3% here
        torch.testing.assert_close(other, first, rtol=5e-3, atol=1e-6)


def _finish(
    s: Setting, critic: nn.Module, grads: list[Tensor], optimizer: torch.optim.Optimizer
) -> None:
    """Clip rows of materialised gradients at 1, add noise, step."""
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
    scale = (1 / norms.clamp_min(1e-12)).clamp_max(1)
    for p, g in zip(critic.parameters(), grads, strict=True):
        noise = s.noise * torch.empty_like(p).normal_(generator=s.rng)
        p.grad = (torch.einsum("b,b...->...", scale, g) + noise) / s.batch
    optimizer.step()


def _vmap(s: Setting) -> Step:
    critic = s.critic()
    optimizer = s.optimizer(critic)

    def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return -torch.func.functional_call(critic, values, (row[None],)).sum()

    rows = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))

    def step() -> None:
        values = {k: v.detach() for k, v in critic.named_parameters()}
        _finish(s, critic, list(rows(values, s.draw()).values()), optimizer)

    return step


def _noise_arguments(s: Setting) -> dict[str, Any]:
    """Return the arguments of both optimisers of opacus for clip and noise."""
    return {
        "noise_multiplier": s.noise,
        "max_grad_norm": 1.0,
        "expected_batch_size": s.batch,
        "loss_reduction": "mean",
    }


def _opacus_hooks(s: Setting) -> Step:
    engine = GradSampleModule(s.critic(), loss_reduction="mean")
    optimizer = DPOptimizer(s.optimizer(engine), **_noise_arguments(s))

    def step() -> None:
        optimizer.zero_grad()
        minus_scores(engine, s.draw()).mean().backward()
        optimizer.step()

    return step


def _opacus_ghost(s: Setting) -> Step:
    engine = GradSampleModuleFastGradientClipping(
        s.critic(), loss_reduction="mean", use_ghost_clipping=True, max_grad_norm=1.0
    )
    optimizer = DPOptimizerFastGradientClipping(s.optimizer(engine), **_noise_arguments(s))

    def criterion(outputs: Tensor, target: Tensor, *_: object, **__: object) -> Tensor:
        return (-outputs).squeeze(1)

    loss = DPLossFastGradientClipping(engine, optimizer, criterion, loss_reduction="mean")
    target = torch.zeros(s.batch)

    def step() -> None:
        optimizer.zero_grad()
        loss(engine(s.draw()), target).backward()
        optimizer.step()

    return step
