"""A process of two that train together, for ``test_processes.py``.

Both write what they measured to a folder, as JSON. Rank 1 serves in most of it.
"""

import json
import math
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from quick_accounting import quick_accounting
from row_gradients import clip_rows_of, scores
from systems import make_tiny_model
from torch import nn

from tabsynth import DPWGAN, Schema, load
from tabsynth._random import Randomness
from tabsynth.auditing.canaries import audit_gan, make_small_gan
from tabsynth.auditing.neighbouring_datasets import small_neighbouring_datasets
from tabsynth.auditing.replay import replay
from tabsynth.errors import BudgetError, InputError, ProcessError
from tabsynth.privacy.accounting.mechanisms import Gaussian, SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema import Column
from tabsynth.synthesizers.gan.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.gan.dpwgan import WGANConfig
from tabsynth.synthesizers.pate.aggregation import NoisyAggregator
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


def rate(group, steps=30, kinds=20):
    """Sizes of batches: each of 100 rows of a kind adds 1 to one number of the sum."""
    module = nn.Linear(kinds, 1, bias=False).double()
    rows = -torch.eye(kinds, dtype=torch.float64).repeat(100, 1)
    mechanism = SubsampledGaussian(noise_multiplier=1e-3, sampling_rate=0.3)
    step, account = step_over(group, module, rows, mechanism, rate=0.3, expected=30.0 * kinds)
    sizes = []
    for _ in range(steps):
        step.gradient(scores)
        sizes.extend(total(step))
    return {
        "mean": float(np.mean(sizes)),
        "variance": float(np.var(sizes)),
        "charges": account.spent,
    }


def canary(group, steps=20, canaries=40):
    """Statistics of canaries of the largest norm, out and in, each along a direction of its own; on both ranks."""
    module, out = nn.Linear(canaries, 1, bias=False).double(), {}
    for name, rows in {
        "without": torch.zeros(4, canaries).double(),
        "with": -100.0 * torch.eye(canaries).double(),
    }.items():
        step, _ = step_over(group, module, rows, Gaussian(noise_multiplier=0.7))
        out[name] = []
        for _ in range(steps):
            step.gradient(scores)
            out[name].extend(total(step).tolist())
    return out


def audited(rank):
    """The white-box audit of DP-GAN, fitted by both ranks."""
    if rank == 0:
        results = audit_gan("dp-gan", 8.0, runs=800, fits=1)
        return {result.part: result.to_dict() for result in results}
    model = make_small_gan("dp-gan", small_neighbouring_datasets(), 8.0, 1e-5, 1.0)
    for _ in range(2):
        model.fit(None)
    return None


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


VOTERS = Schema(
    [*SCHEMA.columns, Column(name="c", kind="ordinal", dtype="int64", categories=(1, 2, 3))]
)
VOTES = {"witness": "pate-acgan, mode B", "network": "pate-acgan, mode B, networks"}


def voting(kind, seed=None):
    name = VOTES.get(kind, "pate-gan, autoencoder")  # whose private steps have other shards
    model = make_tiny_model(name, VOTERS, epsilon=4.0, label="a")
    return model.set_params(random_state=seed)


def voters(count):
    table = people(count)
    return table.assign(c=1 + (table["b"] + np.arange(count)) % 3)


def votes(kind, table):
    """Clean counts of votes of a seeded fit, what it charged, and its sample."""
    counts = []
    before = NoisyAggregator.binary, NoisyAggregator.classes

    def binary(aggregator, yes, teachers):
        counts.append(yes.tolist())
        return before[0](aggregator, yes, teachers)

    def classes(aggregator, each):
        counts.append(each.tolist())
        return before[1](aggregator, each)

    NoisyAggregator.binary, NoisyAggregator.classes = binary, classes
    try:
        model = voting(kind, seed=3).fit(table)
    finally:
        NoisyAggregator.binary, NoisyAggregator.classes = before
    return {
        "counts": counts,
        "charges": {item["purpose"]: item["count"] for item in model.ledger_.to_list()},
        "sample": model.sample(30, random_state=1).to_csv(index=False),
        "public": model.certificate()["public"],
    }


def ensembles(rank):
    """Fits of teachers over both ranks, and their replays on a neighbour."""
    out, table = {}, voters(60) if rank == 0 else None
    outlier = voters(60)
    outlier.loc[60] = ["z", 9, 1]
    for kind in [*VOTES, "autoencoder"]:
        if kind in VOTES:
            out[kind] = votes(kind, table)
        if rank == 0:
            out[f"{kind} replay"] = replay(voting(kind), table, outlier, seed=5).to_dict()
        else:
            for _ in range(2):
                voting(kind).fit(None)
    return out


def gone(rank):
    """Rank 0 is killed in the middle of a fit; what rank 1 says of it."""
    if rank == 0:
        DPWGAN._train = lambda *_: os._exit(9)
    try:
        small().fit(people(60))
    except ProcessError as error:
        return str(error)
    return None


def fits(rank, place):
    """A whole fit: both ranks have the same model; and its replay on a neighbour."""
    table = people(60) if rank == 0 else None
    model = small().fit(table, checkpoint=place / "checkpoint" if rank == 0 else None)
    sample = model.sample(50, random_state=3).to_csv(index=False)
    (place / f"sample{rank}").write_text(sample)
    model.save(place / f"model{rank}.tabsynth")
    saved = load(place / f"model{rank}.tabsynth").certificate()["epsilon"]
    out = {"spent": model.ledger_.spent, "saved": saved}
    out["charges"] = {item["purpose"]: item["count"] for item in model.ledger_.to_list()}
    if rank:
        for _ in range(2):
            small(rate=1.0).fit(None)
    else:
        outlier = people(60)
        outlier.loc[60] = ["z", 9]
        out["replay"] = replay(small(rate=1.0), people(60), outlier, seed=5).to_dict()
    try:
        small(rows=1, rate=1.0).fit(people(1))
    except InputError as error:
        out["too many"] = str(error)
    return out


def main(rank, folder):
    """All of it, in one of two processes that meet at a file of the folder."""
    with quick_accounting():
        _main(rank, Path(folder))


def _main(rank, place):
    torch.set_num_threads(1)
    out = {"one process": votes("witness", voters(60)) if rank == 0 else None}
    meeting = f"file://{place / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    out["sums"] = led(rank, sums)
    rows = torch.randn(30, 50, dtype=torch.float64)
    out["noise"] = led(rank, lambda group: noise(group, rows, 100))
    out["empty first"] = led(rank, empty_first)
    out["no rows"] = led(rank, lambda group: noise(group, rows[:0], 60))
    out["rate"] = led(rank, rate)
    out["canary"] = led(rank, canary)
    out["refused"] = led(rank, refused)
    out["fits"] = fits(rank, place)
    out["audit"] = audited(rank)
    out["teachers"] = ensembles(rank)
    (place / f"out{rank}.json").write_text(json.dumps(out))
    out["gone"] = gone(rank)
    (place / f"out{rank}.json").write_text(json.dumps(out))
