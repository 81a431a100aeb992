"""The systems of PATE-GAN and PATE-ACGAN."""

from collections.abc import Mapping
from typing import Any

from systems import gan
from systems.form import Parameters, Request, Systems
from tabsynth.auditing.fixtures.pate import TEACHERS, TINY, class_column
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.method import with_settings
from tabsynth.synthesizers.pate.config import (
    MarginalsConfig,
    NetworksConfig,
    PATEConfig,
    networks_config,
)

_FULL_BATCHES = with_settings(
    PATEConfig(),
    **gan.FULL_BATCHES_GENERATOR,
    queries=120,
    rounds=6,
    round_steps=2,
    marginals=MarginalsConfig(functions=2, features=10),
    networks=NetworksConfig(
        teacher_hidden=(8,),
        student_hidden=(8,),
        teacher_steps=2,
        student_steps=2,
        teacher_batch=8,
        student_batch=8,
    ),
)
_NETWORKS = {"teachers": "networks"}
_PAPER = {**_NETWORKS, "base": networks_config(), "config": {"accounting": "laplace"}}

# Options: those of ``systems/gan.py``; "shares" declares equal shares of the classes.
PATE_OPTIONS: dict[str, Mapping[str, Any]] = {
    "pate-gan": {},
    "pate-gan, networks": _NETWORKS,
    "pate-gan, paper": _PAPER,
    "pate-gan, paper, Gaussian votes": {**_PAPER, "config": {"accounting": "gaussian"}},
    "pate-gan, no autoencoder": {"autoencoder": None},
    "pate-gan, autoencoder": {"autoencoder": "dp-sgd"},
    "pate-gan, autoencoder of counts, weights": {**gan.OF_COUNTS, "weight": 30.0},
    "pate-gan, binary codes": {"network_encoding": "binary"},
    "pate-gan, ordinal codes": {"network_encoding": "ordinal"},
    "pate-gan, base-3 codes, public autoencoder": {**gan.PUBLIC, "network_encoding": "base-3"},
    "pate-gan, codes by column": gan.BY_COLUMN,
    "pate-gan, rows and labels declared, public table": {
        "rows": 500,
        "queries": 60,
        "public": True,
    },
    "pate-gan, unit, autoencoder": {"unit": 3, "autoencoder": "dp-sgd"},
    "pate-gan, weights": {"weight": 30.0},
    "pate-gan, weights, networks": {"weight": 30.0, **_NETWORKS},
    "pate-gan, unit, networks": {"unit": 2, **_NETWORKS},
}
ACGAN_OPTIONS: dict[str, Mapping[str, Any]] = {
    "pate-acgan": {},
    "pate-acgan, no autoencoder": {"autoencoder": None},
    "pate-acgan, autoencoder of counts": gan.OF_COUNTS,
    "pate-acgan, binary codes, autoencoder": {
        "network_encoding": "binary",
        "autoencoder": "dp-sgd",
    },
    "pate-acgan, ordinal codes, all declared": {
        **{"network_encoding": "ordinal", "rows": 500},
        **{"queries": 60, "shares": True},
    },
    "pate-acgan, base-3 codes, public autoencoder": {
        **gan.PUBLIC,
        "network_encoding": ("base-3", "sum", "base-3"),
    },
    "pate-acgan, codes by column": {"network_encoding": gan.BY_COLUMN["network_encoding"][:3]},
    "pate-acgan, networks": _NETWORKS,
    "pate-acgan, paper": _PAPER,
    "pate-acgan, unit, networks": {"unit": 3, **_NETWORKS},
    "pate-acgan, weights of units": {"weight": 2.0, "unit": 3},
}


def make_tiny(options: Mapping[str, Any], request: Request) -> tuple[Schema, Parameters]:
    """Return the parameters of a system of PATE-GAN."""
    schema, given = gan.make_tiny(options, request, start=lambda _: PATEConfig(), changes=TINY)
    return schema, {**given, "teacher_count": TEACHERS}


def make_tiny_conditional(
    options: Mapping[str, Any], request: Request
) -> tuple[Schema, Parameters]:
    """Return the parameters of a system of PATE-ACGAN: its class column, which is one-hot, and the shares of its classes."""
    given, schema = dict(options), request.schema
    name = given["class_column"] = class_column(schema)
    if "network_encoding" in given:
        others, schemes = [n for n in schema.names if n != name], given["network_encoding"]
        schemes = schemes if isinstance(schemes, tuple) else (schemes,) * len(others)
        given["network_encoding"] = dict(zip(others, schemes, strict=False))
    if given.pop("shares", False):
        values = schema[name].categories
        given["class_shares"] = dict.fromkeys(values, 1 / len(values))
    return make_tiny(given, request)


def make_full_batches(schema: Schema) -> Parameters:
    """Return the parameters of a fit that reads all records in every vote."""
    return {"teacher_count": 11, "config": _FULL_BATCHES}


def make_full_batches_conditional(schema: Schema) -> Parameters:
    """Return the same by networks, which have class votes too."""
    return {**make_full_batches(schema), "class_column": class_column(schema), **_NETWORKS}


SYSTEMS = {
    "pate-gan": Systems(
        options=PATE_OPTIONS, tiny=make_tiny, full_batches=make_full_batches, charges=7
    ),
    "pate-acgan": Systems(
        options=ACGAN_OPTIONS,
        tiny=make_tiny_conditional,
        full_batches=make_full_batches_conditional,
        charges=13,
    ),
}
