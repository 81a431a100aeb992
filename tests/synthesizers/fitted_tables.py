"""Tiny schemas, tables and fits for the tests of the estimators."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from tabsynth import DPGAN, DPWGAN, PATEACGAN, PATEGAN, Schema
from tabsynth.encoding.table import Layout
from tabsynth.privacy.noise.counts import Measured, number_of
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.adversarial.critic import DPGANConfig, WGANConfig
from tabsynth.synthesizers.adversarial.dpgan import VARIANTS
from tabsynth.synthesizers.adversarial.generator import across_columns
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.method import with_settings
from tabsynth.synthesizers.pate.config import PATEConfig

SCHEMA = Schema(
    [
        Column(
            name="k",
            kind="categorical",
            dtype="str",
            categories=("x", "y", "z", "rest"),
            other="rest",
        ),
        Column(name="v", kind="numeric", dtype="Int64", low=0, high=20, clip=True, nulls=True),
        Column(name="r", kind="numeric", dtype="float64", low=-1.0, high=1.0, bins=8, clip=True),
        Column(name="b", kind="ordinal", dtype="bool", categories=(False, True)),
    ]
)


def frame(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    v = pd.array(rng.integers(0, 21, rows), dtype="Int64")
    v[rng.random(rows) < 0.1] = pd.NA
    return pd.DataFrame(
        {
            "k": pd.Series(rng.choice(["x", "y"], rows), dtype="str"),
            "v": v,
            "r": rng.uniform(-1, 1, rows),
            "b": rng.random(rows) < 0.5,
        }
    )


def row(k: str = "x", v: Any = 3, r: float = 0.0, b: bool = True) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "k": pd.Series([k], dtype="str"),
            "v": pd.array([v], dtype="Int64"),
            "r": [r],
            "b": [b],
        }
    )


TINY: dict[str, Any] = {
    "generator__latent_dim": 5,
    "generator__hidden": (8,),
    "critic__hidden": (8,),
    "step__count": 8,
    "critic__per_generator": 2,
    "warm_start_steps": 4,
}


def wgan(rate: float = 1.0, **changes: Any) -> WGANConfig:
    parameters = {**TINY, "step__sampling_rate": rate, "generator__averaging": 0.5, **changes}
    return with_settings(WGANConfig(), **parameters)


def dpgan(variant: str = "advanced", rate: float = 1.0, **changes: Any) -> DPGANConfig:
    return with_settings(VARIANTS[variant], **{**TINY, "step__sampling_rate": rate, **changes})


def coder(rate: float = 1.0, **changes: Any) -> AutoencoderConfig:
    parameters = {"hidden": (7,), "latent_dim": 4, "step__sampling_rate": rate, "step__count": 5}
    return with_settings(AutoencoderConfig(), **{**parameters, **changes})


def small(schema: Schema = SCHEMA, *, rate: float = 1.0, **changes: Any) -> DPWGAN:
    """Full batches by default: all is Gaussian, so the accountant answers at once. The autoencoder learns by DP-SGD alone."""
    parameters = {"epsilon": 3.0, "config": wgan(rate), "autoencoder_config": coder(rate)}
    by_rows = changes.get("epsilon") != math.inf and changes.get("public") is None
    parameters["autoencoder"] = "dp-sgd" if by_rows else "preset"
    return DPWGAN(schema, **{**parameters, **changes})


def small_dpgan(
    schema: Schema = SCHEMA,
    *,
    variant: str = "advanced",
    rate: float = 1.0,
    config: dict[str, Any] | None = None,
    **changes: Any,
) -> DPGAN:
    parameters = {
        "epsilon": 3.0,
        "variant": variant,
        "config": dpgan(variant, rate, **(config or {})),
        "autoencoder_config": coder(rate),
    }
    return DPGAN(schema, **{**parameters, **changes})


def pate(**changes: Any) -> PATEConfig:
    parameters: dict[str, Any] = {
        "generator__latent_dim": 5,
        "generator__hidden": (8,),
        "queries": 60,
        "rounds": 2,
        "round_steps": 3,
        "marginals__functions": 2,
        "marginals__features": 40,
        "networks__teacher_hidden": (4,),
        "networks__student_hidden": (6,),
        "networks__teacher_steps": 3,
        "networks__student_steps": 3,
        "networks__teacher_batch": 4,
        "networks__student_batch": 8,
    }
    return with_settings(PATEConfig(), **{**parameters, **changes})


def small_pate(schema: Schema = SCHEMA, *, config: Any = None, **changes: Any) -> PATEGAN:
    """``config``: changes of the small configuration, or what stands in its place."""
    config = pate(**(config or {})) if isinstance(config, dict | None) else config
    parameters = {"epsilon": 3.0, "teacher_count": 7, "config": config}
    return PATEGAN(schema, **{**parameters, "autoencoder_config": coder(), **changes})


def small_acgan(schema: Schema = SCHEMA, *, config: Any = None, **changes: Any) -> PATEACGAN:
    """``config``: changes of the small configuration, or what stands in its place."""
    config = pate(**(config or {})) if isinstance(config, dict | None) else config
    parameters = {"epsilon": 3.0, "class_column": "k", "teacher_count": 7, "config": config}
    return PATEACGAN(schema, **{**parameters, "autoencoder_config": coder(), **changes})


def stop_at(stage: str, step: int, error: type[BaseException] = RuntimeError) -> Any:
    """Return a progress that ends a fit with an error after a step of a stage."""

    def progress(now: str, done: int, total: int) -> None:
        if (now, done) == (stage, step):
            raise error("stopped")

    return progress


def second_moments(layout: Layout, codes: Tensor) -> Tensor:
    """Return the mean outer product of rows of codes between different columns, shape (width, width)."""
    return codes.T @ codes / len(codes) * across_columns(layout).to(codes)


def facts(model: Synthesizer) -> dict[str, Any]:
    """The certificate but for its date."""
    certificate = model.certificate()
    del certificate["created"]
    return certificate


def fixed_counts(
    asked: list[Any], cells: Callable[[list[int]], np.ndarray], std: float
) -> Callable[..., list[Measured]]:
    """Return what takes the place of :meth:`NoisyCounts.measure`: it notes what it is asked, and returns counts that no row changes."""

    def measure(
        self: Any, account: Any, sets: Any, shares: Any, bits: Any, groups: Any, *_: Any
    ) -> list[Measured]:
        self.table.read(account)
        asked.append((sets, list(shares), [[g.tolist() for g in by] for by in groups]))
        sizes = [[number_of(by[j]) for j in s] for s, by in zip(sets, groups, strict=True)]
        return [Measured(tuple(s), cells(of), std) for s, of in zip(sets, sizes, strict=True)]

    return measure
