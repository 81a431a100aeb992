"""A process of two that train together, for ``test_processes.py``: ``python rank_runs.py RANK FILE OUT`` with a file to meet at.

Rank 0 writes what it measured to OUT, as JSON. Rank 1 serves, and adds what it saw.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from row_gradients import clip_rows_of, scores
from torch import nn

from tabsynth import DPWGAN, Column, Schema
from tabsynth._random import Randomness
from tabsynth.auditing.replay import replay
from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting.mechanisms import Gaussian, SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers.gan.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.gan.dpwgan import WGANConfig
from tabsynth.training import processes
from tabsynth.training.bounds import Clipping
from tabsynth.training.private_step import PrivateStep, WeightedInputs
from tabsynth.training.units import UnitRows

torch.set_num_threads(1)
CPU = torch.device("cpu")


def led(rank, work):
    """What rank 0 makes of ``work(processes)``; rank 1 serves meanwhile."""
    group = processes.Processes()
    if rank:
        group.serve(CPU)
        return None
    results = []
    with group.leading(lambda: None):
        results.append(work(group))
    return results[0]


def step_over(group, module, rows, mechanism, *, rate=1.0, expected=10.0, steps=10**5, most=1):
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", mechanism, steps)
    table = processes.SharedTable(rows, ledger, group, Randomness())
    bits = Randomness()
    step = PrivateStep(
        module,
        table=table,
        account=account,
        rate=rate,
        expected_batch=expected,
        generator=bits.torch(),
        clipping=Clipping(max_norm=1.0),
        bits=bits.noise(),
        most_rows=most,
    )
    return step, account


def total(step):
    return np.concatenate([p.grad.flatten().numpy() for p in step.clipper.parameters]) * float(
        step.expected_batch
    )


def sums(group):
    """Sums of all rows against a computation row by row, of rows, weighted rows and units."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    rows, quiet = 3 * torch.randn(40, 6, dtype=torch.float64), Gaussian(noise_multiplier=1e-7)
    parts = torch.randint(1, 9, (40,)).double() / 8
    units = np.sort(np.random.default_rng(0).integers(0, 25, 40)).astype(np.uint64)
    alone = [[n] for n in range(40)]
    whole = [np.flatnonzero(units == u).tolist() for u in np.unique(units)]
    cases = {
        "rows": (rows, alone, torch.ones(40), 1),
        "weighted": (WeightedInputs(rows, parts), alone, parts, 1),
        "units": (UnitRows(rows, units, 9), whole, torch.ones(40), 9),
    }
    out = {}
    for name, (table, members, counted, most) in cases.items():
        step, account = step_over(group, module, table, quiet, expected=40.0, most=most)
        step.gradient(scores)
        expected = clip_rows_of(
            module, scores, rows, members, counted, 1.0, weighted=name == "weighted"
        )
        out[name] = float(np.abs(total(step) - expected.numpy()).max())
        out[f"{name} charges"] = account.spent
    return out


def no_loss(module, rows):
    return 0 * scores(module, rows)


def noise(group, rows, steps=200):
    """The variance of what is released over that of the accountant, where no row has a gradient."""
    module = nn.Linear(50, 1, bias=False).double()
    step, account = step_over(group, module, rows, Gaussian(noise_multiplier=2.0))

    drawn = []
    for _ in range(steps):
        step.gradient(no_loss)
        drawn.append(total(step) / 2.0)
    drawn = np.array(drawn)
    return {
        "variance": float(drawn.var()),
        "next": float(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]),
        "charges": account.spent,
        "steps": steps,
    }


def empty_first(group):
    """All rows are on rank 1."""
    before = processes.assigned
    processes.assigned = lambda count, ranks, bits: np.ones(count, dtype=np.uint32)
    try:
        return noise(group, torch.randn(30, 50, dtype=torch.float64), 100)
    finally:
        processes.assigned = before


def rate(group, steps=600):
    """Sizes of batches: each row adds 1 to the sum."""
    module = nn.Linear(1, 1, bias=False).double()
    rows = -torch.ones(100, 1, dtype=torch.float64)
    mechanism = SubsampledGaussian(noise_multiplier=1e-3, sampling_rate=0.3)
    step, account = step_over(group, module, rows, mechanism, rate=0.3, expected=30.0)
    sizes = []
    for _ in range(steps):
        step.gradient(scores)
        sizes.append(total(step)[0])
    return {
        "mean": float(np.mean(sizes)),
        "variance": float(np.var(sizes)),
        "charges": account.spent,
    }


def canary(group, steps=600):
    """Statistics of a canary of the largest norm, out and in, on a step that would also hide it from rank 0."""
    module, direction = nn.Linear(6, 1, bias=False).double(), torch.zeros(1, 6).double()
    direction[0, 2] = -100.0
    out = {}
    for name, rows in {
        "without": torch.zeros(4, 6).double(),
        "with": torch.cat([torch.zeros(4, 6).double(), direction]),
    }.items():
        step, _ = step_over(group, module, rows, Gaussian(noise_multiplier=0.7))
        out[name] = []
        for _ in range(steps):
            step.gradient(scores)
            out[name].append(float(total(step)[2]))
    return out


def refused(group):
    """After the last use: nothing is sent, and no other rank has a row."""
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", Gaussian(noise_multiplier=1.0), 0)
    table = processes.SharedTable(torch.ones(5, 2), ledger, group, Randomness())
    sent = []
    group.divide = lambda *_: sent.append("rows")
    try:
        table.read(account)
    except BudgetError:
        return {"sent": sent, "refused": True}
    return {"sent": sent, "refused": False}


SCHEMA = Schema(
    [
        Column(name="a", kind="categorical", dtype="str", categories=("x", "y", "z")),
        Column(name="b", kind="numeric", dtype="int64", low=0, high=9),
    ]
)


def small(rate=0.2, **changed):
    config = {"critic_steps": 6, "critic_hidden": (8,), "generator_hidden": (8,), "latent_dim": 4}
    return DPWGAN(
        SCHEMA,
        **{"epsilon": 4.0, "rows": 60, **changed},
        config=WGANConfig(sampling_rate=rate, **config),
        autoencoder_config=AutoencoderConfig(steps=4, latent_dim=3, sampling_rate=rate),
    )


def people(count):
    import pandas as pd

    rng = np.random.default_rng(1)
    return pd.DataFrame({"a": rng.choice(["x", "y", "z"], count), "b": rng.integers(0, 10, count)})


def fits(rank, place):
    """A whole fit: both ranks have the same model; and its replay on a neighbour."""
    table = people(60) if rank == 0 else None
    model = small().fit(table, checkpoint=place / "checkpoint" if rank == 0 else None)
    sample = model.sample(50, random_state=3).to_csv(index=False)
    (place / f"sample{rank}").write_text(sample)
    model.save(place / f"model{rank}.tabsynth")
    out = {"spent": model.ledger_.spent}
    out["charges"] = {item["purpose"]: item["count"] for item in model.ledger_.to_list()}
    if rank:
        for _ in range(2):
            small(rate=1.0).fit(None)
    else:
        outlier = people(60)
        outlier.loc[60] = ["z", 9]
        result = replay(small(rate=1.0), people(60), outlier, seed=5)
        out["replay"] = result.to_dict()
        out["batches"] = sum("critic" in str(m) for m in result.mechanisms)
    try:
        small(rows=1, rate=1.0).fit(people(1))
    except InputError as error:
        out["too many"] = str(error)
    return out


def main():
    rank, meeting, place = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    out = {"sums": led(rank, sums)}
    rows = torch.randn(30, 50, dtype=torch.float64)
    out["noise"] = led(rank, lambda group: noise(group, rows))
    out["empty first"] = led(rank, empty_first)
    out["no rows"] = led(rank, lambda group: noise(group, rows[:0], 60))
    out["rate"] = led(rank, rate)
    out["canary"] = led(rank, canary)
    out["refused"] = led(rank, refused)
    out["fits"] = fits(rank, place)
    (place / f"out{rank}.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main()
