"""The preset ``paper`` without noise, beside a GAN that is not private, and with one setting changed at a time.

Rows: 8,000 of the bundled census table. The GAN has the preset's generator and student; its student is
trained on real rows, which no student of PATE-GAN sees.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import census_rows
import run as census
import settings
import store
import torch
from torch.nn.functional import softplus

from tabsynth import PATEGAN
from tabsynth.encoding import TableEncoder
from tabsynth.synthesizers.gan.generator import TableGenerator
from tabsynth.synthesizers.pate.config import PATEConfig, paper_config
from tabsynth.training.networks import mlp, optimizer

GAN, SEEDS = "gan", (0, 1, 2)
# Title, budget, changes to the preset, changes to its configuration.
VARIANTS: dict[str, tuple[str, float, dict[str, Any], dict[str, Any]]] = {
    "preset": ("`paper`", math.inf, {}, {}),
    "fast-generator": ("generator's rate 5e-4", math.inf, {}, {"generator_lr": 5e-4}),
    "slow-teachers": ("teachers' and student's rate 1e-3", math.inf, {}, {"network_lr": 1e-3}),
    "few-labels": ("64 labels a round, not 320", math.inf, {}, {"labels": 12_800}),
    "batch-norm": ("BatchNorm in the generator", math.inf, {}, {"generator_norm": True}),
    "hidden-teachers": ("teachers with 16 hidden units", math.inf, {}, {"teacher_hidden": (16,)}),
    "ordinal": ("one number a column", math.inf, {"encoding": "ordinal"}, {}),
    "eps10000": ("`paper`", 10_000.0, {}, {}),
}


def key_of(name: str, seed: int) -> str:
    return f"paper-{name}-seed{seed}"


def missing(results: dict[str, Any], only: str | None = None) -> Iterator[tuple[str, int]]:
    """Runs that are not among the results."""
    for seed in SEEDS:
        for name in (GAN, *VARIANTS):
            key = key_of(name, seed)
            if key not in results and (only is None or only in key):
                yield name, seed


def run_missing(path: Path, only: str | None) -> None:
    for name, seed in missing(store.load(path), only):
        result = non_private_gan(seed) if name == GAN else preset(name, seed)
        store.add(path, {key_of(name, seed): result})
        print(key_of(name, seed), result, flush=True)


def preset(name: str, seed: int) -> dict[str, Any]:
    """Distances of one run of the preset, and its noise."""
    _, epsilon, options, changes = VARIANTS[name]
    frame, schema = census_rows.frame()
    model = PATEGAN(
        schema,
        epsilon=epsilon,
        preset="paper",
        rows=len(frame),
        random_state=seed,
        config=replace(paper_config(), **changes),
        **options,
    ).fit(frame)
    (votes,) = model.certificate()["mechanisms"]
    index = TableEncoder(schema).to_index(model.sample(len(frame)))
    return {
        **census_rows.distances(index),
        "noise": votes.get("noise"),
        "labels": votes["count"],
        "teachers": model._teachers(),
    }


def non_private_gan(seed: int, config: PATEConfig | None = None) -> dict[str, Any]:
    """The generator and student of the preset, as many steps, real rows against generated ones.

    Its best distance during training is kept as well: a GAN can move away again. So are the classifiers' scores
    of :func:`settings.settings_b_and_c`, of its last rows. The student's rate is
    that of the preset or 1e-3, whichever is better on tvd2 at the end.
    """
    config = config or paper_config()
    both = [_gan(seed, replace(config, network_lr=rate)) for rate in (config.network_lr, 1e-3)]
    return min(both, key=lambda result: result["tvd2"])


def _gan(seed: int, config: PATEConfig) -> dict[str, Any]:
    frame, schema = census_rows.frame()
    encoder = TableEncoder(schema)
    rows = torch.from_numpy(encoder.layout.encode(encoder.to_index(frame)))
    rng = torch.Generator().manual_seed(seed)
    generator = TableGenerator(
        encoder.layout,
        config.latent_dim,
        config.generator_hidden,
        rng,
        norm=config.generator_norm,
    )
    widths = [encoder.layout.width, *config.student_hidden, 1]
    critic = mlp(widths, rng, activation="leaky-relu")
    learns = optimizer("adam", critic.parameters(), config.network_lr, config.betas)
    moves = optimizer(
        config.generator_optimizer, generator.parameters(), config.generator_lr, config.betas
    )
    best = math.inf

    def generated() -> torch.Tensor:
        noise = generator.noise(config.student_batch, rng)
        return generator(noise, config.temperature, rng)

    for step in range(config.rounds * config.round_steps):
        for _ in range(config.student_steps):
            real = rows[torch.randint(len(rows), (config.student_batch,), generator=rng)]
            loss = softplus(-critic(real)).mean() + softplus(critic(generated().detach())).mean()
            learns.zero_grad()
            loss.backward()
            learns.step()
        loss = -softplus(critic(generated())).mean()
        moves.zero_grad()
        loss.backward()
        moves.step()
        if (step + 1) % 50 == 0:
            index = generator.sample(len(rows), torch.Generator().manual_seed(seed))
            generator.train()
            result = census_rows.distances(index)
            best = min(best, result["tvd2"])
    return {**result, "best_tvd2": best, "settings": settings.settings_b_and_c(index)}


def gans(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the GAN, one for each seed that was run."""
    return [results[key_of(GAN, s)] for s in SEEDS if key_of(GAN, s) in results]


def lines(results: dict[str, Any]) -> list[str]:
    """The table of the page."""
    head = "| 8,000 census rows | ε | noise, votes | tvd1 | tvd2 | seeds |"
    shuffled = census_rows.shuffled()
    table = [head, "|" + "---|" * 6]
    table.append(
        f"| independent columns | – | – | {shuffled['tvd1']:.3f} | {shuffled['tvd2']:.3f} | – |"
    )
    for name in (GAN, *VARIANTS):
        runs = [results[key_of(name, s)] for s in SEEDS if key_of(name, s) in results]
        if not runs:
            continue
        title, epsilon = ("a GAN of the same size, not private", math.inf)
        if name != GAN:
            title, epsilon, *_ = VARIANTS[name]
        noise = runs[0].get("noise")
        cells = [census.mean_sd([run[figure] for run in runs]) for figure in ("tvd1", "tvd2")]
        budget = "∞" if math.isinf(epsilon) else f"{epsilon:,g}"
        said = "–" if noise is None else f"{noise:,.1f}"
        table.append(f"| {title} | {budget} | {said} | {' | '.join(cells)} | {len(runs)} |")
    left = ", ".join(f"{name} (seed {seed})" for name, seed in missing(results))
    return [*table, "", f"Not run: {left}." if left else "All runs of this table were made."]
