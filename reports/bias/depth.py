"""What a step of each rule takes as the network gets deeper: the source's Figure 3."""

import math
import time
from collections.abc import Callable

import torch
from exact import FormedClipper, bias_aware, hessian_rows, moved_rows, plain_rows
from study import BATCH, DELTA, cross_entropies
from torch import nn

from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.training.bounds import Clipping
from tabsynth.training.factors import Losses
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import BAM, DPSAT, DPSGD, PrivateStep, StepRule

DEPTHS = (1, 2, 3, 4, 6, 8)
REPETITIONS, TURNS = 3, 12
INPUTS, WIDTH, ROWS = 91, 64, 8192
ORDINARY = "ordinary step"
CLOSED = ("DP-SGD", "DP-SAT", "BAM", "exact gradient")
FORMED = ("DP-SGD, torch.func", "BAM, torch.func", "exact gradient, torch.func")
RADIUS = 0.01
Step = Callable[[], None]


def steps(depth: int, seed: int) -> dict[str, Step]:
    """An ordinary step and private ones of networks that are equal at the start."""
    draw = torch.Generator().manual_seed(seed)
    table = torch.rand(ROWS, INPUTS + 1, generator=draw)
    table[:, -1] = (table[:, -1] > 0.5).float()
    rate = BATCH / ROWS

    def network() -> nn.Sequential:
        sizes = [INPUTS, *[WIDTH] * depth, 1]
        return mlp(sizes, torch.Generator().manual_seed(seed), activation="relu")

    def ordinary() -> Step:
        module = network()
        optimizer = torch.optim.NAdam(module.parameters(), lr=1e-2)

        def step() -> None:
            rows = table[torch.randint(ROWS, (BATCH,), generator=draw)]
            optimizer.zero_grad()
            cross_entropies(module, rows).mean().backward()
            optimizer.step()

        return step

    def private(
        rule: StepRule, losses: Losses = cross_entropies, gradients: Callable | None = None
    ) -> Step:
        module, ledger = network(), Ledger(math.inf, DELTA)
        optimizer = torch.optim.NAdam(module.parameters(), lr=1e-2)
        mechanism = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=rate)
        engine = PrivateStep(
            module,
            table=PrivateTable(table, ledger),
            account=ledger.open("timing", mechanism, TURNS + 1),
            rate=rate,
            expected_batch=BATCH,
            generator=torch.Generator().manual_seed(seed),
            rule=rule,
            clipping=Clipping(max_norm=1.0),
        )
        if gradients is not None:
            engine.clipper = FormedClipper(module, gradients, RADIUS)

        def step() -> None:
            engine.gradient(losses)
            optimizer.step()

        return step

    return {
        ORDINARY: ordinary(),
        "DP-SGD": private(DPSGD()),
        "DP-SAT": private(DPSAT(radius=RADIUS)),
        "BAM": private(BAM(radius=RADIUS)),
        "exact gradient": private(DPSGD(), bias_aware(cross_entropies, RADIUS)),
        "DP-SGD, torch.func": private(DPSGD(), gradients=plain_rows),
        "BAM, torch.func": private(DPSGD(), gradients=moved_rows),
        "exact gradient, torch.func": private(DPSGD(), gradients=hessian_rows),
    }


def step_times(depth: int, seed: int) -> dict[str, float]:
    """Milliseconds of processor time of each step: the least of ``TURNS`` turns, after one that warms up.

    Other work on the machine slows a step down and never speeds it up, even in its own processor time.
    """
    created = steps(depth, seed)
    times: dict[str, list[float]] = {name: [] for name in created}
    for turn in range(TURNS + 1):
        for name, step in created.items():
            started = time.thread_time()
            step()
            if turn:
                times[name].append(time.thread_time() - started)
    return {name: round(1e3 * min(own), 3) for name, own in times.items()}
