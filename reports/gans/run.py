"""The GANs on the census table: from scratch, and warm-started from a table released privately.

    python reports/gans/run.py            # fits what is missing, then writes README.md
    python reports/gans/run.py --write    # only writes, from results.json
    python reports/gans/run.py --only warm
    python reports/gans/run.py --only tried   # only what was tried with a quarter of the batch

Needs benchmark files of data/README.md: the census table and the evaluation protocol. Each run is seeded, so that it can be repeated;
its certificate therefore says "not private: seeded", and the epsilon shown is what the same run costs
without a seed. Of DP-WGAN from scratch the figures are those of reports/census/, of MargNet alone those of
reports/benchmark/, which has the same split and evaluation.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "census"))
import run as census  # noqa: E402  the split, the evaluation and the schema of the census report

from tabsynth import DPGAN, DPWGAN, MargNet, read_table, write_table  # noqa: E402
from tabsynth.synthesizers import Synthesizer  # noqa: E402
from tabsynth.synthesizers.gan.dpgan import VARIANTS  # noqa: E402
from tabsynth.synthesizers.gan.dpwgan import WGANConfig  # noqa: E402

RESULTS = HERE / "results.json"
BENCHMARK = HERE.parent / "benchmark" / "results.json"
SCHEMA = census.SCHEMA
WARM_SHARE = 0.8  # of epsilon, for the table that a warm start releases
BEFORE = {"critic_lr": 1e-3}  # DP-GAN's default until 3e-3 was found to be better
MEAN = {"max_norm": 1.0, "statistic": "mean"}  # the bound of dp-GAN's authors

Build = Callable[[float, int, object], Synthesizer]


def warm(epsilon: float, seed: int, train: object) -> Synthesizer:
    return MargNet(SCHEMA, epsilon=WARM_SHARE * epsilon, random_state=seed).fit(train)


def dpgan(variant: str, epsilon: float, seed: int, **changes: object) -> DPGAN:
    config = replace(VARIANTS[variant], **changes)  # type: ignore[arg-type]
    return DPGAN(SCHEMA, epsilon=epsilon, variant=variant, random_state=seed, config=config)


def dpwgan(epsilon: float, seed: int, **changes: object) -> DPWGAN:
    return DPWGAN(
        SCHEMA,
        epsilon=epsilon,
        random_state=seed,
        config=WGANConfig(**changes),  # type: ignore[arg-type]
    )


SYSTEMS: dict[str, tuple[str, Build]] = {
    "dp-gan-basic": (
        "DP-GAN basic (Algorithm 1)",
        lambda e, s, _: dpgan("basic", e, s),
    ),
    "dp-gan-advanced": ("DP-GAN advanced", lambda e, s, _: dpgan("advanced", e, s)),
    "dp-gan-clusters": (
        "DP-GAN advanced-clusters",
        lambda e, s, _: dpgan("advanced-clusters", e, s),
    ),
    "dp-gan-mean": (
        "DP-GAN advanced, bound at the mean norm",
        lambda e, s, _: dpgan("advanced", e, s, **MEAN),
    ),
    "dp-gan-basic-before": (
        "DP-GAN basic, critic at 1e-3",
        lambda e, s, _: dpgan("basic", e, s, **BEFORE),
    ),
    "dp-gan-advanced-before": (
        "DP-GAN advanced, critic at 1e-3",
        lambda e, s, _: dpgan("advanced", e, s, **BEFORE),
    ),
    "dp-wgan-sat": ("DP-WGAN with DP-SAT", lambda e, s, _: dpwgan(e, s, step_rule="dp-sat")),
    "dp-wgan-bam": ("DP-WGAN with BAM", lambda e, s, _: dpwgan(e, s, step_rule="bam")),
    "dp-wgan-adaptive": (
        "DP-WGAN, adaptive n_D",
        lambda e, s, _: dpwgan(e, s, critic_per_generator="adaptive"),
    ),
    "dp-wgan-15": (
        "DP-WGAN, n_D = 15",
        lambda e, s, _: dpwgan(e, s, critic_per_generator=15, generator_lr=2e-3),
    ),
    "warm-dp-wgan": (
        "DP-WGAN, warm start from MargNet",
        lambda e, s, t: DPWGAN(SCHEMA, epsilon=e, random_state=s, warm_start=warm(e, s, t)),
    ),
    "warm-dp-gan": (
        "DP-GAN advanced, warm start from MargNet",
        lambda e, s, t: DPGAN(SCHEMA, epsilon=e, random_state=s, warm_start=warm(e, s, t)),
    ),
}
# Rows that today's code does not make again: a warm start at nine tenths of ε, composed with the private steps by the accountant
# of one plan. By the filter that composes them now, MargNet's part alone takes ε = 1 whole.
KEPT = {
    "warm-dp-wgan-before": "DP-WGAN, warm start from MargNet, share 0.9",
    "warm-dp-gan-before": "DP-GAN advanced, warm start from MargNet, share 0.9, critic at 1e-3",
}
# What was tried on seed 0 with a quarter of the batch: variant, learning rates of critic and generator,
# whether the bound is the authors', and at which ε.
TRIED: tuple[tuple[str, float, float, bool, tuple[float, ...]], ...] = (
    ("basic", 1e-3, 5e-4, False, (8.0,)),
    ("basic", 3e-3, 5e-4, False, (1.0, 8.0)),
    ("advanced", 1e-3, 5e-4, False, (1.0, 8.0)),
    ("advanced", 1e-3, 2e-3, False, (8.0,)),
    ("advanced", 3e-3, 5e-4, False, (1.0, 8.0)),
    ("advanced", 1e-2, 5e-4, False, (1.0,)),
    ("advanced", 3e-3, 5e-4, True, (1.0,)),
    ("advanced-clusters", 3e-3, 5e-4, False, (1.0,)),
    ("ganobfuscator", 3e-3, 5e-4, False, (1.0,)),  # to be run
)
TRIED_AT = 0.0125  # sampling rate
TRIALS = {
    f"tried-{variant}-{critic:g}-{generator:g}" + "-mean" * mean: (variant, critic, generator, mean)
    for variant, critic, generator, mean, _ in TRIED
}
RUNS = [(n, e, s) for s in (0, 1, 2) for n in SYSTEMS for e in (1.0, 8.0)]
RUNS += [(n, e, 0) for n, at in zip(TRIALS, TRIED, strict=True) for e in at[-1]]


def measure(folder: Path, name: str, epsilon: float, seed: int) -> dict:
    """Fit (the warm start's fit included in the time), sample, score by the evaluation protocol."""
    train = read_table(folder / "train.csv", SCHEMA)
    started, started_cpu = time.perf_counter(), time.process_time()
    model = build(name)(epsilon, seed, train).fit(train)
    fitted, worked = time.perf_counter() - started, time.process_time() - started_cpu
    path = folder / f"{name}-{epsilon:g}-{seed}.csv"
    write_table(model.sample(len(train)), path)
    certificate = model.certificate()
    return {
        "system": name,
        "epsilon": epsilon,
        "seed": seed,
        "spent": certificate["epsilon"],
        "fit_seconds": round(fitted, 1),
        "cpu_seconds": round(worked, 1),
        "code": certificate["code"]["sha256"][:12],
        "yardstick": census.protocol_scores(folder, path),
        "critic_per_generator": last_pace(certificate),
    }


def build(name: str) -> Build:
    if name in SYSTEMS:
        return SYSTEMS[name][1]
    variant, critic, generator, mean = TRIALS[name]
    changes = {"critic_lr": critic, "generator_lr": generator, "sampling_rate": TRIED_AT}
    changes |= MEAN if mean else {}
    return lambda e, s, _: dpgan(variant, e, s, **changes)


def last_pace(certificate: dict) -> float | None:
    """Where an adaptive n_D ended."""
    for name, curve in certificate["training"]["curves"].items():
        if name == "critic steps per generator step":
            return curve["value"][-1]
    return None


def load_results() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def run_all(only: str | None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        census.split(folder)
        for name, epsilon, seed in RUNS:
            key = f"{name}-eps{epsilon:g}-seed{seed}"
            if key in load_results() or (only and only not in key):
                continue
            measured = measure(folder, name, epsilon, seed)
            # Read again: another process may have added a run meanwhile.
            RESULTS.write_text(json.dumps(load_results() | {key: measured}, indent=1) + "\n")
            score = measured["yardstick"]
            print(
                key,
                score["tvd2"],
                score["dwpre_weighted_mean"],
                measured["fit_seconds"],
                flush=True,
            )


MEASURES = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")


def line(what: str, epsilon: float, rows: list[dict]) -> str:
    """One row of the table: mean ± standard deviation over seeds."""
    cells = [census.mean_sd([r["yardstick"][name] for r in rows]) for name in MEASURES]
    spent = max(r["spent"] for r in rows)
    seconds = sum(r["fit_seconds"] for r in rows) / len(rows)
    head = f"| {what} | {epsilon:g} | {spent:.3f} | "
    return head + " | ".join(cells) + f" | {seconds:.0f} | {len(rows)} |"


def of_benchmark(system: str, epsilon: float) -> list[dict]:
    """Rows of the benchmark on this table, in this report's form."""
    rows = json.loads(BENCHMARK.read_text("utf-8")).values()
    wanted = {"table": "census", "system": system, "epsilon": epsilon}
    results = [r for r in rows if wanted.items() <= r.items()]
    return [{"yardstick": r, "spent": r["spent"], "fit_seconds": r["seconds"]} for r in results]


def runs_of(name: str, epsilon: float) -> tuple[list[dict], str]:
    """Runs of a system, and a mark if the code of one of them is not known."""
    results = load_results().values()
    runs = [r for r in results if r["system"] == name and r["epsilon"] == epsilon]
    return runs, "" if all("code" in r for r in runs) else " †"


def table() -> list[str]:
    scratch = census.load_results()
    lines = ["| system | ε | spent | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | fit s | seeds |"]
    lines.append("|" + "---|" * 10)
    for name, what in (("real", "real rows"), ("shuffled", "independent columns")):
        row = scratch["reference"][name]
        cells = " | ".join(f"{row[k]:.3f}" for k in ("tvd1", "tvd2", "tvd3"))
        macro, weighted = row["dwpre_macro_mean"], row["dwpre_weighted_mean"]
        lines.append(f"| {what} | – | – | {cells} | {macro:.3f} | {weighted:.3f} | – | – |")
    for epsilon in (1.0, 8.0):
        runs = census.runs_of(scratch, "default", epsilon)
        lines.append(line("**DP-WGAN**", epsilon, runs))
    for epsilon in (1.0, 8.0):
        lines.append(line("MargNet alone", epsilon, of_benchmark("margnet", epsilon)))
    titles = {name: what for name, (what, _) in SYSTEMS.items()} | KEPT
    for name, what in titles.items():
        for epsilon in (1.0, 8.0):
            runs, mark = runs_of(name, epsilon)
            if runs:
                lines.append(line(what + mark, epsilon, runs))
    return lines


def tried() -> list[str]:
    """What was tried, with which result."""
    results = load_results()
    lines = [
        "| variant | critic | generator | bound | ε | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted |"
    ]
    lines.append("|" + "---|" * 10)
    for name, (variant, critic, generator, mean) in TRIALS.items():
        bound = "1" if variant == "basic" else "mean" if mean else "½ median"
        for epsilon in (1.0, 8.0):
            row = results.get(f"{name}-eps{epsilon:g}-seed0")
            if row:
                cells = " | ".join(f"{row['yardstick'][k]:.3f}" for k in MEASURES)
                head = f"| `{variant}` | {critic:g} | {generator:g} | {bound} | {epsilon:g} | "
                lines.append(f"{head}{cells} |")
    return lines


def missing() -> str:
    """Which runs of the first table are still to be made."""
    results, each = load_results(), []
    for name, (what, _) in SYSTEMS.items():
        by_seeds: dict[str, list[str]] = {}
        for epsilon in (1.0, 8.0):
            runs = [r for r in RUNS if r[:2] == (name, epsilon)]
            seeds = [str(s) for _, _, s in runs if f"{name}-eps{epsilon:g}-seed{s}" not in results]
            if seeds:
                by_seeds.setdefault(", ".join(seeds), []).append(f"{epsilon:g}")
        each += [f"{what}, ε = {' and '.join(e)}, seeds {s}" for s, e in by_seeds.items()]
    return f"Not measured yet: {'; '.join(each)}." if each else "All runs were made."


def paces() -> str:
    """Where an adaptive number of critic steps ended, by ε and seed."""
    adaptive = [r for r in load_results().values() if r["critic_per_generator"]]
    each = []
    for epsilon in sorted({r["epsilon"] for r in adaptive}):
        runs = sorted((r for r in adaptive if r["epsilon"] == epsilon), key=lambda r: r["seed"])
        ends = ", ".join(f"{r['critic_per_generator']:g}" for r in runs)
        each.append(f"{ends} at ε = {epsilon:g}")
    return "; ".join(each) or "not measured"


def write_readme() -> None:
    template = (HERE / "template.md").read_text("utf-8")
    page = template.replace("<!-- TABLE -->", "\n".join(table()))
    page = page.replace("<!-- TRIED -->", "\n".join(tried()))
    page = page.replace("<!-- MISSING -->", missing())
    page = page.replace("<!-- PACE -->", paces())
    (HERE / "README.md").write_text(page, "utf-8")


if __name__ == "__main__":
    census.command(__doc__.splitlines()[0], run_all, write_readme)
