"""A private step with its ledger and table, for tests."""

import math
from typing import Any

import numpy as np
import torch
from row_gradients import Losses, clip_rows, group_of_entries, plain, row_gradients, trained
from torch import Tensor, nn

from tabsynth.privacy.accounting.mechanisms import Mechanism
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.training.clipping import Bounds, Clipping, PerExampleClipper
from tabsynth.training.private_step import BAM, DPSAT, DPSGD, Batches, PrivateStep, StepRule

RULES: dict[str, StepRule] = {
    "dp-sgd": DPSGD(),
    "dp-sat": DPSAT(radius=0.3),
    "bam": BAM(radius=0.2),
}


def engine(
    module: nn.Module,
    rows: Tensor,
    mechanism: Mechanism,
    *,
    steps: int = 10**6,
    max_norm: float = 1.0,
    rate: float = 1.0,
    expected_batch: float = 10.0,
    seed: int = 0,
    rule: StepRule | None = None,
    **clipping: Any,
) -> tuple[PrivateStep, Account, PrivateTable[Tensor]]:
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", mechanism, steps)
    table = PrivateTable(rows, ledger)
    step = PrivateStep(
        module,
        table=table,
        account=account,
        batches=Batches(rate=rate, expected_batch=expected_batch),
        generator=torch.Generator().manual_seed(seed),
        rule=rule,
        clipping=Clipping(max_norm=max_norm, **clipping),
    )
    return step, account, table


def grads(module: nn.Module) -> np.ndarray:
    """What the step has set, flat."""
    results = [p.grad for p in trained(module)]
    return torch.cat([g.flatten() for g in results if g is not None]).numpy().copy()


def clipped_rows(
    step: PrivateStep, losses: Losses, rows: Tensor, public: Tensor | None = None
) -> Tensor:
    """What each row adds to a step's sum, by brute force, at the step's bounds (less what is set aside for
    rounding) and groups."""
    ascent = step.rule.radius if isinstance(step.rule, BAM) else 0.0
    result = row_gradients(step.clipper.module, losses, rows, ascent)
    reference = None
    if public is not None and step.bounds.clipping.centred:
        mean = row_gradients(step.clipper.module, losses, public, ascent).mean(0)
        result, reference = result - mean, [mean]
    step.clipper.clipped_sum(
        losses, rows[:1], 1.0
    )  # how often its weights are used is seen in a pass
    bounds = step.bounds.now.to(result)
    if reference is not None:
        sizes = [p.numel() for p in step.clipper.parameters]
        parts = zip(reference[0].split(sizes), step.clipper.parameters, strict=True)
        reference = [part.view_as(p) for part, p in parts]
    slack, _ = step.clipper.rounding(bounds, reference, step.places.room)
    large = 0 if reference is None else sum(r.norm() for r in reference)
    assert (slack <= 1e-8 * (bounds + large)).all()
    entries = group_of_entries(step.clipper.module, step.clipper.groups)
    return clip_rows(result, bounds - slack, entries)


def bounds_of(clipping: Clipping, noise: float = 2.0) -> Bounds:
    return Bounds(clipping, PerExampleClipper(plain("tanh")), noise)
