"""What privacy costs in time: a private training step over its own ordinary step.

    python reports/speed/run.py            # measures, prints a table and one JSON line, writes README.md
    python reports/speed/run.py --quick    # few repetitions, prints only
    python reports/speed/run.py --write    # only writes README.md, from results.json
    python reports/speed/run.py --teachers # measures PATE's teachers alone, into results.json
    python reports/speed/run.py --evaluation # measures the evaluation alone, into results.json

Every step of a comparison takes its turn in one loop, so that whatever else the machine does falls on
all of them; the figures are medians, and the ratios have the quartiles of ratios within a turn. Both
sides draw a batch, compute, and step the optimiser; the private side adds its noise.
"""

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.networks import mlp
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Ledger
from tabsynth.privacy.mechanisms import SubsampledGaussian
from tabsynth.training.bounds import Clipping
from tabsynth.training.losses import critic_scores, gradient_penalty, minus_scores
from tabsynth.training.private_step import PrivateStep
from tabsynth.training.rules import BAM, DPSAT, DPSGD, StepRule

sys.path.insert(0, str(Path(__file__).resolve().parent))
from evaluation import LONG_AIM, TABLE_AIM, grid, stages
from teachers import AIM, rounds

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results.json"
ROWS = 20_000
LR = 1e-3
Step = Callable[[], None]
MOST = {"scores, DP-SGD": 1.4, "scores, BAM": 2.2, "WGAN-GP, DP-SGD": 1.8}
LEAST = {"opacus, hooks": 40, "torch.func, vmap": 15, "opacus, ghost clipping": 1.3}


class Setting:
    """One critic, one batch size: everything that the steps of a comparison share."""

    def __init__(self, width: int, batch: int, rows: int = ROWS, hidden: int = 256) -> None:
        rng = torch.Generator().manual_seed(0)
        self.width, self.batch, self.rows, self.hidden = width, batch, rows, hidden
        self.table = torch.rand(rows, width, generator=rng)
        self.fake = torch.rand(batch, width, generator=rng)
        self.rng = torch.Generator().manual_seed(1)
        self.noise = 1.0
        self.critics: list[nn.Sequential] = []

    def critic(self) -> nn.Sequential:
        rng, sizes = torch.Generator().manual_seed(0), [self.width, self.hidden, self.hidden, 1]
        self.critics.append(mlp(sizes, rng, activation="leaky-relu"))
        return self.critics[-1]

    def optimizer(self, critic: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(critic.parameters(), lr=LR)

    def draw(self) -> Tensor:
        return self.table[torch.randint(0, self.rows, (self.batch,), generator=self.rng)]

    def penalised(self, critic: nn.Module, rows: Tensor) -> Tensor:
        """WGAN-GP, one loss a row: a generated partner, a point between the two."""
        partner = self.fake[torch.randint(0, self.batch, (len(rows),), generator=self.rng)]
        rho = torch.rand(len(rows), 1, generator=self.rng)
        scores = critic_scores(critic, partner) - critic_scores(critic, rows)
        return scores + gradient_penalty(critic, rho * rows + (1 - rho) * partner, 10.0)

    # The ordinary steps.

    def ordinary(self, losses: Callable[[nn.Module, Tensor], Tensor], fake: bool = False) -> Step:
        critic = self.critic()
        optimizer = self.optimizer(critic)

        def step() -> None:
            optimizer.zero_grad()
            loss = losses(critic, self.draw()).mean()
            if fake:
                loss = loss + critic_scores(critic, self.fake).mean()
            loss.backward()
            optimizer.step()

        return step

    # Ours.

    def private(
        self, losses: Callable[[nn.Module, Tensor], Tensor], rule: StepRule, fake: bool = False
    ) -> Step:
        critic, ledger, rate = self.critic(), Ledger(math.inf, 1e-5), self.batch / self.rows
        account = ledger.open(
            "critic", SubsampledGaussian(noise_multiplier=self.noise, sampling_rate=rate), 10**9
        )
        private = PrivateStep(
            critic,
            table=PrivateTable(self.table, ledger),
            account=account,
            rate=rate,
            expected_batch=self.batch,
            generator=torch.Generator().manual_seed(1),
            rule=rule,
            clipping=Clipping(max_norm=0.5, bound="public") if fake else Clipping(),
        )
        optimizer = self.optimizer(critic)

        def step() -> None:
            private.gradient(losses, self.fake if fake else None)
            optimizer.step()

        return step

    # Other roads to the same clipped, noised sum, for critic scores.

    def _finish(
        self, critic: nn.Module, grads: list[Tensor], optimizer: torch.optim.Optimizer
    ) -> None:
        """Clip rows of materialised gradients at 1, add noise, step."""
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
        scale = (1 / norms.clamp_min(1e-12)).clamp_max(1)
        for p, g in zip(critic.parameters(), grads, strict=True):
            noise = self.noise * torch.empty_like(p).normal_(generator=self.rng)
            p.grad = (torch.einsum("b,b...->...", scale, g) + noise) / self.batch
        optimizer.step()

    def vmap(self) -> Step:
        critic = self.critic()
        optimizer = self.optimizer(critic)

        def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
            return -torch.func.functional_call(critic, values, (row[None],)).sum()

        rows = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))

        def step() -> None:
            values = {k: v.detach() for k, v in critic.named_parameters()}
            self._finish(critic, list(rows(values, self.draw()).values()), optimizer)

        return step

    def opacus_hooks(self) -> Step:
        engine = GradSampleModule(self.critic(), loss_reduction="mean")
        optimizer = DPOptimizer(
            self.optimizer(engine),
            noise_multiplier=self.noise,
            max_grad_norm=1.0,
            expected_batch_size=self.batch,
            loss_reduction="mean",
        )

        def step() -> None:
            optimizer.zero_grad()
            minus_scores(engine, self.draw()).mean().backward()
            optimizer.step()

        return step

    def opacus_ghost(self) -> Step:
        engine = GradSampleModuleFastGradientClipping(
            self.critic(), loss_reduction="mean", use_ghost_clipping=True, max_grad_norm=1.0
        )
        optimizer = DPOptimizerFastGradientClipping(
            self.optimizer(engine),
            noise_multiplier=self.noise,
            max_grad_norm=1.0,
            expected_batch_size=self.batch,
            loss_reduction="mean",
        )

        def criterion(outputs: Tensor, target: Tensor, *_: object, **__: object) -> Tensor:
            return (-outputs).squeeze(1)

        loss = DPLossFastGradientClipping(engine, optimizer, criterion, loss_reduction="mean")
        target = torch.zeros(self.batch)

        def step() -> None:
            optimizer.zero_grad()
            loss(engine(self.draw()), target).backward()
            optimizer.step()

        return step


def turns(steps: dict[str, Step], count: int) -> dict[str, list[float]]:
    """Seconds of each step, each taking its turn; the first turns warm up and are left out."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(count + 3):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if turn >= 3:
                times[name].append(time.perf_counter() - started)
    return times


def ratio(times: dict[str, list[float]], over: str, under: str) -> dict[str, float]:
    """Ratio of medians, and the quartiles of the ratios within a turn."""
    each = [a / b for a, b in zip(times[over], times[under], strict=True)]
    low, _, high = statistics.quantiles(each, n=4)
    middle = statistics.median(times[over]) / statistics.median(times[under])
    return {"ratio": round(middle, 2), "low": round(low, 2), "high": round(high, 2)}


def steps_of(s: Setting) -> tuple[dict[str, Step], list[tuple[str, str]]]:
    steps = {
        "scores": s.ordinary(minus_scores),
        "scores, DP-SGD": s.private(minus_scores, DPSGD()),
        "scores, DP-SAT": s.private(minus_scores, DPSAT()),
        "scores, BAM": s.private(minus_scores, BAM()),
        "WGAN": s.ordinary(minus_scores, fake=True),
        "WGAN, DP-SGD, centred": s.private(minus_scores, DPSGD(), fake=True),
        "WGAN-GP": s.ordinary(s.penalised),
        "WGAN-GP, DP-SGD": s.private(s.penalised, DPSGD()),
        "WGAN-GP, BAM": s.private(s.penalised, BAM()),
    }
    pairs = [(name, name.split(",")[0]) for name in steps if "," in name]
    return steps, pairs


def settings() -> dict[str, Setting]:
    schema = Schema.load(ROOT / "data" / "census.schema.json")
    width = TableEncoder(schema, "one-hot").layout.width
    return {
        "64 → 256 → 256 → 1, batch 512": Setting(64, 512),
        "64 → 256 → 256 → 1, batch 4,096": Setting(64, 4096),
        f"census, {width} → 256 → 256 → 1, batch 954": Setting(width, 954),
    }


def measure(threads: int, turns_each: int) -> list[dict]:
    torch.set_num_threads(threads)
    out = []
    for name, setting in settings().items():
        steps, pairs = steps_of(setting)
        count = max(8, round(turns_each * min(1.0, 1000 / setting.batch)))
        times = turns(steps, count)
        for over, under in pairs:
            row = {"threads": threads, "critic": name, "step": over, "turns": count}
            row["ordinary_ms"] = round(1e3 * statistics.median(times[under]), 2)
            out.append(row | ratio(times, over, under))
    return out


def engines(s: Setting) -> dict[str, Step]:
    return {
        "ours": s.private(minus_scores, DPSGD()),
        "opacus, ghost clipping": s.opacus_ghost(),
        "opacus, hooks": s.opacus_hooks(),
        "torch.func, vmap": s.vmap(),
    }


def peers(threads: int, count: int) -> list[dict]:
    """Other engines' private step over ours."""
    torch.set_num_threads(threads)
    out = []
    for batch, times_each in ((512, count), (4096, max(5, count // 3))):
        steps = engines(Setting(64, batch))
        times = turns(steps, times_each)
        for name in list(steps)[1:]:
            row = {"threads": threads, "batch": batch, "engine": name, "turns": times_each}
            out.append(row | ratio(times, name, "ours"))
    return out


def growth(count: int) -> list[dict]:
    """Our DP-SGD step as batch, width and table grow; over the first of each."""
    torch.set_num_threads(1)
    families = {
        "batch": {b: Setting(64, b) for b in (512, 1024, 2048, 4096)},
        "width of the table": {w: Setting(w, 512) for w in (64, 128, 256, 512)},
        "rows of the table": {n: Setting(64, 512, rows=n) for n in (20_000, 200_000, 2_000_000)},
    }
    out = []
    for what, family in families.items():
        times = turns({str(v): s.private(minus_scores, DPSGD()) for v, s in family.items()}, count)
        first = str(next(iter(family)))
        out += [{"what": what, "value": v} | ratio(times, str(v), first) for v in family]
    return out


def teachers(count: int) -> list[dict]:
    """A step of all teachers as K modules in a loop, over the one batched step; one thread."""
    torch.set_num_threads(1)
    width = TableEncoder(Schema.load(ROOT / "data" / "census.schema.json"), "one-hot").layout.width
    out = []
    for name, found in rounds(width).items():
        each = max(5, count * 200 // found.count)
        times = turns({"batched": found.batched(), "loop": found.loop()}, min(each, count))
        row = {"teachers": name, "turns": min(each, count)}
        row |= {f"{n}_ms": round(1e3 * statistics.median(t), 1) for n, t in times.items()}
        out.append(row | ratio(times, "loop", "batched"))
    return out


def check_peers() -> None:
    """All engines are given the same work: all but without noise they must step the same way."""
    s = Setting(8, 32, rows=32, hidden=16)
    s.noise, s.draw = 1e-9, lambda: s.table  # type: ignore[method-assign]
    for step in engines(s).values():
        step()
    first, *others = [torch.cat([p.grad.flatten() for p in c.parameters()]) for c in s.critics]
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-3, atol=1e-6)


def table(rows: list[dict], columns: dict[str, str]) -> str:
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [f"{row[k]:,}" if isinstance(row[k], int) else str(row[k]) for k in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def missed(results: dict) -> str:
    """The rows whose ratio is on the wrong side of its aim."""
    rows = [
        f"{r['step']} ({r['critic']}, {r['threads']} threads): {r['ratio']} against {MOST[r['step']]}"
        for r in results["steps"]
        if r["ratio"] > MOST.get(r["step"], math.inf)
    ]
    rows += [
        f"{r['engine']} (batch {r['batch']:,}, {r['threads']} threads): {r['ratio']} against"
        f" {LEAST[r['engine']]}"
        for r in results["peers"]
        if r["ratio"] < LEAST[r["engine"]]
    ]
    return "\n".join(f"- {row}" for row in rows).replace("1 threads", "1 thread") or "- none"


def write(results: dict) -> str:
    from string import Template

    spread = {"ratio": "ratio", "low": "lower quartile", "high": "upper quartile"}
    steps = {"critic": "critic", "step": "private step", "threads": "threads"}
    return Template((HERE / "template.md").read_text("utf-8")).substitute(
        machine=results["machine"],
        missed=missed(results),
        steps=table(results["steps"], steps | {"ordinary_ms": "ordinary, ms"} | spread),
        peers=table(
            results["peers"], {"batch": "batch", "engine": "engine", "threads": "threads"} | spread
        ),
        teachers=table(
            results.get("teachers", []),
            {"teachers": "teachers", "loop_ms": "loop, ms", "batched_ms": "batched, ms"} | spread,
        ),
        aim=AIM,
        stages=table(results.get("stages", []), {"stage": "stage", "seconds": "seconds"}),
        table_aim=TABLE_AIM,
        long=table(
            results.get("grid", []),
            {
                "rows": "rows",
                "columns": "columns",
                "people": "people and controls",
                "seconds": "seconds",
                "ratio": "plain search over ours",
            },
        ),
        long_aim=LONG_AIM,
        growth=table(results["growth"], {"what": "what grows", "value": "to"} | spread),
    )


def machine() -> str:
    cores = "two shared cores" if torch.get_num_interop_threads() <= 2 else "several cores"
    return f"torch {torch.__version__}, CPU ({platform.machine()}, {cores})"


def save(results: dict) -> None:
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    (HERE / "README.md").write_text(write(results), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true", help="only write, from results.json")
    parser.add_argument("--teachers", action="store_true", help="PATE's teachers alone")
    parser.add_argument("--evaluation", action="store_true", help="the evaluation alone")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    count = 10 if options.quick else 100
    if options.threads:
        found = {
            "steps": measure(options.threads, count),
            "peers": peers(options.threads, max(5, count // 5)),
        }
        print(json.dumps(found))
        return
    if options.teachers or options.evaluation:
        found: dict = {}
        if options.teachers:
            found |= {"teachers": teachers(5 if options.quick else 30)}
        if options.evaluation:
            found |= {"stages": stages(), "grid": grid()}
        print(json.dumps(found, indent=1))
        if not options.quick:
            save((json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | found)
        return
    if options.write:
        (HERE / "README.md").write_text(write(json.loads(RESULTS.read_text())), "utf-8")
        return
    check_peers()
    results: dict = {"machine": machine(), "steps": [], "peers": []}
    for threads in (1, 2):  # a process each: torch keeps the threads that it once had
        command = [sys.executable, __file__, "--threads", str(threads)]
        command += ["--quick"] if options.quick else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        part = json.loads(done.stdout.splitlines()[-1])
        results["steps"] += part["steps"]
        results["peers"] += part["peers"]
    results["growth"] = growth(max(5, count // 3))
    results["teachers"] = teachers(max(5, count // 3))
    print(write(results))
    print(json.dumps(results))
    if not options.quick:
        save(results | {"stages": stages(), "grid": grid()})


if __name__ == "__main__":
    main()
