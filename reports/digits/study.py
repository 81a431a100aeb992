"""What is fitted: the systems, their settings, and the runs on printed digits that chose them."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pandas as pd
import torch
from pictures import packed
from tables import (
    ENCODINGS,
    LABEL,
    TRAIN,
    accuracy,
    handwritten,
    inception_score,
    printed,
    random_rows,
    schema,
)

from tabsynth import DPGAN, MargNet
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.gan.dpgan import VARIANTS, DPGANConfig
from tabsynth.synthesizers.gan.dpgan import DPGANTraining as Networks
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.training.diagnostics import as_probability, overestimation
from tabsynth.training.private_step import critic_scores

PROVENANCE = "25 rows of scikit-learn's digits that this study declares public, drawn at random"
MARGNET_SHARE = 0.5  # of ε: what the table that warms the GAN up may cost
# Chosen on printed digits (see `REHEARSALS`); all else is the variant's own.
COMMON = {
    "latent_dim": 32,
    "generator_hidden": (128, 128),
    "critic_hidden": (64,),
    "sampling_rate": 0.3,
    "critic_steps": 800,
    "critic_lr": 1e-3,
    "generator_lr": 1e-3,
}
BASIC = replace(VARIANTS["basic"], **COMMON)
ADVANCED = replace(VARIANTS["advanced"], **COMMON, warm_steps=1000, critic_per_generator=1)
FREE = replace(
    BASIC, critic_hidden=(128,), critic_steps=3000, critic_per_generator=2, averaging=0.99
)
MARGNET = MargNetConfig(components=100, hidden=(64,), steps=400)
TABLES: dict[str, Callable] = {"handwritten": handwritten, "printed": printed}

# What was tried on printed digits, at seed 0: a name, its system, ε, what differs from the choice.
PAIRED = {"centred": False, "bound": "fixed", "max_norm": 1.0}
FEW = {"critic_steps": 600}
REHEARSALS: dict[str, tuple[str, float, dict]] = {
    "advanced, as chosen: 1 critic step per generator step": ("advanced", 10.0, {}),
    "… 4 critic steps": ("advanced", 10.0, {"critic_per_generator": 4}),
    "… adaptive": ("advanced", 10.0, {"critic_per_generator": "adaptive"}),
    "… one group": ("advanced", 10.0, {"grouping": "flat"}),
    "… rows paired, bound 1": ("advanced", 10.0, PAIRED),
    "… 300 steps of warm start": ("advanced", 10.0, {"warm_steps": 300}),
    "the 25 public rows alone, in as many steps": ("slice", math.inf, {}),
    "basic, as chosen: 4 critic steps per generator step": ("basic", 10.0, {}),
    "… 1 critic step": ("basic", 10.0, {"critic_per_generator": 1}),
    "MargNet, as chosen: the digit is its target": ("margnet", 10.0, {}),
    "no privacy, 600 critic steps, ordinal codes": ("free", math.inf, FEW),
    "no privacy, 600 critic steps, one-hot codes": ("free, one-hot", math.inf, FEW),
}


class RememberedNetworks(Networks):
    """DPGAN's networks; ``last`` are the last that were trained, whose critic no model keeps."""

    last: Networks

    def fit(self, *args, **settings) -> int:
        RememberedNetworks.last = self
        return super().fit(*args, **settings)


class RememberingDPGAN(DPGAN):
    """A DPGAN whose critic can be asked after the fit."""

    networks = RememberedNetworks


@lru_cache
def parts(which: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Private, public and test rows of ``handwritten`` or ``printed``."""
    return TABLES[which]()


def dpgan(variant: str, config: DPGANConfig, epsilon: float, seed: int, **free: object) -> DPGAN:
    """An unfitted DPGAN on ordinal codes."""
    return RememberingDPGAN(
        schema(),
        epsilon=epsilon,
        variant=variant,
        encoding=ENCODINGS["ordinal"],
        random_state=seed,
        device="cpu",
        config=config,
        **free,
    )


def fitted(system: str, epsilon: float, seed: int, which: str, changed: dict) -> Synthesizer:
    """A system, fitted; ``changed`` replaces settings of its networks."""
    private, public, _ = parts(which)
    if system == "basic":
        return dpgan("basic", replace(BASIC, **changed), epsilon, seed).fit(private)
    if system == "advanced":
        free = {"public": public, "provenance": PROVENANCE}
        model = dpgan("advanced", replace(ADVANCED, **changed), epsilon, seed, **free)
        return model.fit(private)
    if system == "margnet":
        config = replace(MARGNET, **changed)
        model = MargNet(schema(), epsilon=epsilon, target=LABEL, random_state=seed, config=config)
        return model.fit(private)
    if system == "warm":
        released = fitted("margnet", MARGNET_SHARE * epsilon, seed, which, {})
        config = replace(ADVANCED, **changed)
        return dpgan("advanced", config, epsilon, seed, warm_start=released).fit(private)
    if system == "slice":
        # As many steps as `advanced` takes, warm start included, all on the public rows.
        rows = pd.concat([public] * (len(private) // len(public)), ignore_index=True)
        steps = ADVANCED.warm_steps + ADVANCED.critic_steps
        config = replace(ADVANCED, **{"critic_steps": steps, "warm_steps": 0, **changed})
        return dpgan("advanced", config, math.inf, seed).fit(rows)
    assert system in ("free", "free, one-hot")
    model = dpgan("basic", replace(FREE, **changed), math.inf, seed)
    if system == "free, one-hot":
        model.set_params(encoding="one-hot")
    return model.fit(private)


@torch.no_grad()
def s_plus(
    model: Synthesizer, synthetic: pd.DataFrame, test: pd.DataFrame, seed: int
) -> list[float]:
    """The document's s₊ of test rows, of uniform noise and of generated rows, by the last critic.

    NOTE[DIFF] A Wasserstein critic is no probability. Its scores go through a sigmoid whose midpoint and
    scale are the mean and standard deviation of its scores of generated rows.
    """
    critic, encoder = RememberedNetworks.last.critic, model.encoder_
    fake, real, noise = (
        critic_scores(critic, torch.from_numpy(encoder.layout.encode(encoder.to_index(rows))))
        for rows in (synthetic, test, random_rows(len(test), seed))
    )
    middle, scale = float(fake.mean()), float(fake.std())
    result = overestimation(
        *(as_probability(scores, middle, scale) for scores in (real, noise, fake))
    )
    return [round(value, 4) for value in (result.real, result.noise, result.generated)]


def measured(
    system: str, epsilon: float, seed: int, which: str = "handwritten", changed: dict | None = None
) -> dict:
    """Fit, sample as many rows as a training table has, train a classifier on them."""
    started = time.process_time()
    model = fitted(system, epsilon, seed, which, changed or {})
    seconds = time.process_time() - started
    table = model.sample(TRAIN)
    certificate = model.certificate()
    test = parts(which)[2]
    return {
        "system": system,
        "epsilon": "inf" if math.isinf(epsilon) else epsilon,
        "seed": seed,
        "spent": certificate["epsilon"],
        "statement": certificate["statement"],
        "cpu_seconds": round(seconds, 1),
        "accuracy": round(accuracy(table, test), 4),
        "inception": round(inception_score(table), 3) if which == "handwritten" else None,
        "s_plus": s_plus(model, table, test, seed) if isinstance(model, DPGAN) else None,
        "labels": table[LABEL].nunique(),
        "samples": packed(table) if seed == 0 and which == "handwritten" else None,
    }
