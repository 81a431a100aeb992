"""Every way to a private model that the library has, with networks so small that a fit takes a moment.

A leak that a replay can find is one of control flow: it shows in a tiny network as in a large one.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.gan.autoencoder import AutoencoderConfig, source_autoencoder
from tabsynth.synthesizers.gan.dpgan import VARIANTS
from tabsynth.synthesizers.gan.dpwgan import WGANConfig, source_wgan
from tabsynth.synthesizers.loading import METHODS
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.pate.config import PATEConfig, paper_config

PUBLIC_ROWS = 25  # rows of the public table
RATE = 0.2  # of records in a batch
TEACHERS = 7

_GENERATOR = {"latent_dim": 5, "generator_hidden": (8,), "moment_steps": 3}
_CRITIC = {
    **_GENERATOR,
    "critic_hidden": (8,),
    "critic_steps": 8,
    "critic_per_generator": 2,
    "warm_steps": 4,
    "sampling_rate": RATE,
}
_CODER = {"hidden": (7,), "latent_dim": 4, "sampling_rate": RATE, "steps": 5}
_PATE = {
    **_GENERATOR,
    "labels": 60,
    "rounds": 2,
    "round_steps": 3,
    "functions": 2,
    "features": 40,
    "teacher_hidden": (4,),
    "student_hidden": (6,),
    "teacher_steps": 3,
    "student_steps": 3,
    "teacher_batch": 4,
    "student_batch": 8,
}
_MARGNET = {"components": 20, "latent_dim": 5, "hidden": (8,), "steps": 12}

_PAPER = {"preset": "paper", "base": paper_config()}
_NETWORK = {"config": {"kind": "network"}}
_PUBLIC = {"autoencoder": "public", "public": True}

# By name: a method, and what sets it apart. "config" and "coder" change the tiny configurations, "base" is
# the one to start from, "public" and "warm" ask for a made-up public table and a released model; "workload",
# "target", "impossible" and "shares" for some that the schema allows.
SYSTEMS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "margnet": ("margnet", {}),
    "margnet, scored pairs": ("margnet", {"config": {"max_unscored": 0}}),
    "margnet, rows declared": ("margnet", {"rows": 60}),
    "margnet, workload": ("margnet", {"workload": True}),
    "margnet, target": ("margnet", {"target": True}),
    "margnet, impossible": ("margnet", {"impossible": True}),
    "dp-wgan": ("dp-wgan", {}),
    # Under a bound that rows reach: that of the preset cuts nothing, and a replay would not see whether it holds.
    "dp-wgan, source": (
        "dp-wgan",
        {
            "preset": "source",
            "base": source_wgan(60),
            "base_coder": source_autoencoder(60),
            "config": {"max_norm": 0.05},
        },
    ),
    "dp-wgan, no autoencoder": ("dp-wgan", {"autoencoder": None}),
    "dp-wgan, public autoencoder": ("dp-wgan", _PUBLIC),
    "dp-wgan, rows declared": ("dp-wgan", {"rows": 500}),
    "dp-wgan, binary codes": ("dp-wgan", {"encoding": "binary"}),
    "dp-wgan, ordinal codes": ("dp-wgan", {"encoding": "ordinal"}),
    "dp-wgan, base-3 codes": ("dp-wgan", {"encoding": "base-3"}),
    "dp-wgan, bam and dp-sat": (
        "dp-wgan",
        {"config": {"step_rule": "bam"}, "coder": {"step_rule": "dp-sat"}},
    ),
    "dp-wgan, overlap charged, dp-sat": (
        "dp-wgan",
        {**_PUBLIC, "overlap": "charged", "step_rule": "dp-sat"},
    ),
    "dp-wgan, warm start": ("dp-wgan", {"warm": True, "rows": 60, "autoencoder": "public"}),
    "dp-gan": ("dp-gan", {}),
    "dp-gan, basic": ("dp-gan", {"variant": "basic"}),
    "dp-gan, ganobfuscator": ("dp-gan", {"variant": "ganobfuscator"}),
    "dp-gan, autoencoder": ("dp-gan", {"autoencoder": "dp-sgd"}),
    "dp-gan, clusters": ("dp-gan", {"variant": "advanced-clusters"}),
    # So many declared rows that the noised quantile may be measured at any budget.
    "dp-gan, noised quantile": ("dp-gan", {"config": {"bound": "quantile"}, "rows": 10_000}),
    "dp-gan, adaptive pace": ("dp-gan", {"config": {"critic_per_generator": "adaptive"}}),
    "dp-gan, batches in parts": ("dp-gan", {"config": {"physical_batch": 5}}),
    "dp-gan, bam": ("dp-gan", {"step_rule": "bam"}),
    "dp-gan, basic by bam": ("dp-gan", {"variant": "basic", "step_rule": "bam"}),
    "dp-gan, dp-sat": ("dp-gan", {"step_rule": "dp-sat"}),
    "dp-gan, overlap charged": ("dp-gan", {"public": True, "overlap": "charged"}),
    "dp-gan, warm start": ("dp-gan", {"warm": True}),
    "dp-gan, binary codes": ("dp-gan", {"encoding": "binary"}),
    "dp-gan, ordinal codes": ("dp-gan", {"encoding": "ordinal"}),
    "dp-gan, base-3 codes, public autoencoder": ("dp-gan", {**_PUBLIC, "encoding": "base-3"}),
    "pate-gan": ("pate-gan", {}),
    "pate-gan, networks": ("pate-gan", _NETWORK),
    "pate-gan, paper": ("pate-gan", _PAPER),
    "pate-gan, paper, Gaussian votes": (
        "pate-gan",
        {**_PAPER, "config": {"accounting": "gaussian"}},
    ),
    "pate-gan, autoencoder": ("pate-gan", {"autoencoder": "dp-sgd"}),
    "pate-gan, binary codes": ("pate-gan", {"encoding": "binary"}),
    "pate-gan, ordinal codes": ("pate-gan", {"encoding": "ordinal"}),
    "pate-gan, base-3 codes, public autoencoder": ("pate-gan", {**_PUBLIC, "encoding": "base-3"}),
    "pate-gan, rows and labels declared, overlap charged": (
        "pate-gan",
        {"rows": 500, "labels": 60, "public": True, "overlap": "charged"},
    ),
    "pate-gan, public table": ("pate-gan", {"public": True}),
    "pate-gan, warm start": ("pate-gan", {"warm": True}),
    "pate-acgan": ("pate-acgan", {"mode": "C"}),
    "pate-acgan, mode A": ("pate-acgan", {"mode": "A"}),
    "pate-acgan, mode B": ("pate-acgan", {"mode": "B"}),
    "pate-acgan, binary codes, autoencoder": (
        "pate-acgan",
        {"encoding": "binary", "autoencoder": "dp-sgd"},
    ),
    "pate-acgan, ordinal codes, all declared": (
        "pate-acgan",
        {"encoding": "ordinal", "rows": 500, "labels": 60, "shares": True},
    ),
    "pate-acgan, base-3 codes, public autoencoder": (
        "pate-acgan",
        {**_PUBLIC, "encoding": "base-3", "overlap": "charged"},
    ),
    "pate-acgan, warm start": ("pate-acgan", {"warm": True}),
    "pate-acgan, networks": ("pate-acgan", _NETWORK),
    "pate-acgan, mode A, networks": ("pate-acgan", {"mode": "A", **_NETWORK}),
    "pate-acgan, mode B, networks": ("pate-acgan", {"mode": "B", **_NETWORK}),
    "pate-acgan, paper": ("pate-acgan", _PAPER),
}


def make_tiny_model(
    name: str, schema: Schema, *, epsilon: float, delta: float = 1e-5, label: str | None = None
) -> Synthesizer:
    """The system called ``name``, unfitted.

    Parameters
    ----------
    name : str
        Of ``SYSTEMS``; a method's own name is its default.
    label : str, optional
        The class of PATE-ACGAN; default: the discrete column of the fewest values.

    Raises
    ------
    InputError
        For an unknown name, or a schema that it cannot take.
    """
    if name not in SYSTEMS and name not in METHODS:
        raise InputError(f"No system is called {shown(name)}; there are {', '.join(SYSTEMS)}.")
    method, given = SYSTEMS.get(name, (name, {}))
    options = dict(given)
    shared: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "accept_drafted_domain": True,
        "device": "cpu",
    }
    if name not in SYSTEMS:  # a method without an entry is audited as it is by default
        return METHODS[name](schema, **shared)
    changes, coder = options.pop("config", {}), options.pop("coder", {})
    base, base_coder = options.pop("base", None), options.pop("base_coder", None)
    if method == "margnet":
        config = MargNetConfig(**{**_MARGNET, **changes})
        return _counting(schema, {**shared, **options, "config": config})
    if method == "pate-acgan":
        _conditional(options, schema, label)
    if options.pop("public", False):
        options |= {
            "public": draw_rows(schema, PUBLIC_ROWS, 1),
            "provenance": "made up for a replay",
        }
    if options.pop("warm", False):
        options["warm_start"] = _released(schema, epsilon / 3, delta)
    if method.startswith("pate"):
        options["teachers"] = TEACHERS
        options["config"] = replace(base or PATEConfig(), **{**_PATE, **changes})
    elif method == "dp-wgan":
        options["config"] = replace(base or WGANConfig(), **{**_CRITIC, **changes})
    else:
        variant = VARIANTS[options.get("variant", "advanced")]
        options["config"] = replace(variant, **{**_CRITIC, **changes})
    options["autoencoder_config"] = replace(
        base_coder or AutoencoderConfig(), **{**_CODER, **coder}
    )
    return METHODS[method](schema, **shared, **options)


def system_names(method: str | None = None) -> list[str]:
    """Names of the systems of a method, or of all."""
    listed = {**SYSTEMS, **{name: (name, {}) for name in METHODS if name not in SYSTEMS}}
    return [name for name, (of, _) in listed.items() if method is None or of == method]


def draw_rows(schema: Schema, rows: int, seed: int) -> pd.DataFrame:
    """Rows of uniform value numbers that the schema allows: nobody's."""
    rng, encoder = np.random.default_rng(seed), TableEncoder(schema)
    found: list[pd.DataFrame] = []
    for _ in range(1000 * rows):
        index = np.array([[rng.integers(size) for size in schema.sizes]])
        table = encoder.from_index(index, rng)
        try:
            encoder.to_index(table)
        except InputError:  # an impossible row
            continue
        found.append(table)
        if len(found) == rows:
            return pd.concat(found, ignore_index=True)
    raise InputError("The schema declares almost all rows impossible.")


def forbid_combination(schema: Schema) -> Schema:
    """The schema with a structural zero: the last categories of its first two discrete columns.

    A table that has both in a row is refused.
    """
    named = [
        (c.name, [value for value in c.categories if value != c.other])
        for c in schema.columns
        if c.categories
    ]
    pair = {name: values[-1:] for name, values in [p for p in named if len(p[1]) > 1][:2]}
    if len(pair) < 2:
        raise InputError("Impossible combinations need two columns of two categories or more.")
    return Schema(schema.columns, schema.null_values, [*schema.impossible, pair], schema.left_out)


def _counting(schema: Schema, options: dict[str, Any]) -> Synthesizer:
    """MargNet, its wishes in names of the schema."""
    if options.pop("impossible", False):
        schema = forbid_combination(schema)
    if "workload" in options:
        options["workload"] = [schema.names[:2], schema.names[-3:]]
    if "target" in options:
        options["target"] = schema.names[-1]
    return METHODS["margnet"](schema, **options)


def _conditional(options: dict[str, Any], schema: Schema, label: str | None) -> None:
    """Complete the options of PATE-ACGAN: its label, which is one-hot, and the shares of its classes."""
    name = options["label"] = label if label is not None else _label(schema)
    if "encoding" in options:
        options["encoding"] = {n: options["encoding"] for n in schema.names if n != name}
    if options.pop("shares", False):
        values = schema[name].categories
        options["class_shares"] = dict.fromkeys(values, 1 / len(values))


def _label(schema: Schema) -> str:
    fit = [c for c in schema.columns if c.categories and c.size > 1]
    if not fit:
        raise InputError("pate-acgan needs a categorical or ordinal column of two values or more.")
    return min(fit, key=lambda column: column.size).name


@lru_cache(maxsize=8)
def _fitted(text: str, epsilon: float, delta: float) -> Synthesizer:
    schema = Schema.from_dict(json.loads(text))
    model = make_tiny_model("dp-wgan, no autoencoder", schema, epsilon=epsilon, delta=delta)
    return model.set_params(random_state=0).fit(draw_rows(schema, 60, 2))


def _released(schema: Schema, epsilon: float, delta: float) -> Synthesizer:
    """A released model of another table, to start from."""
    return _fitted(schema.to_json(), epsilon, delta)
