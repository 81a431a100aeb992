"""The systems of MargNet."""

from collections.abc import Mapping
from typing import Any

from systems.form import Parameters, Request, Systems, draw_rows, with_unit, with_weight
from tabsynth.auditing.fixtures.margnet import TINY
from tabsynth.errors import InputError
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.margnet.config import MargNetConfig

PUBLIC_ROWS = 25  # rows of the public table

# "public" asks for a made-up public table, which is used however far it is from the counts; "config" changes the tiny configuration; "workload", "target", "tables" and "impossible" ask for some that the schema allows;
# "unit" is the most rows of a unit, and "weight" the largest weight.
OPTIONS: dict[str, Mapping[str, Any]] = {
    "margnet": {},
    "margnet, scored pairs": {"config": {"max_unscored": 0}},
    "margnet, triples chosen by signs": {
        "config": {"interactions_share": 0.05, "interaction_noise": 0.0}
    },
    "margnet, rows declared": {"rows": 60},
    "margnet, workload": {"workload": True},
    "margnet, target": {"target": True},
    "margnet, impossible": {"impossible": True},
    "margnet, public table": {"public": True, "config": {"largest_drift": 1e9}},
    "margnet, drafts its schema": {"drafts": True},
    "margnet, unit": {"unit": 3},
    "margnet, unit, scored pairs": {"unit": 1, "config": {"max_unscored": 0}},
    "margnet, weights": {"weight": 30.0},
    "margnet, weights of units, scored pairs": {
        **{"weight": 0.5, "unit": 2},
        **{"config": {"max_unscored": 0}},
    },
    "margnet, declared tables": {"tables": True},
    "margnet, declared tables, unit": {"tables": True, "unit": 2},
}


def make_tiny(options: Mapping[str, Any], request: Request) -> tuple[Schema, Parameters]:
    """Return the parameters of a system of MargNet, with workload and target in names of the schema."""
    given, schema = dict(options), request.schema
    given["config"] = MargNetConfig(**{**TINY, **given.pop("config", {})})
    if given.pop("impossible", False):
        schema = forbid_combination(schema)
    if "unit" in given:
        schema = with_unit(schema, given.pop("unit"))
    if "weight" in given:
        schema = with_weight(schema, given.pop("weight"))
    if "workload" in given:
        given["workload"] = [schema.names[:2], schema.names[-3:]]
    if "tables" in given:
        given["tables"] = [schema.names[:2], schema.names[-2:]]
    if given.pop("public", False):
        given["public"] = draw_rows(schema, PUBLIC_ROWS, 1)
        given["public_source"] = "made up for a replay"
    if "target" in given:
        given["target"] = schema.names[-1]
    return schema, given


def forbid_combination(schema: Schema) -> Schema:
    """Return the schema with a structural zero: the last categories of its first two discrete columns.

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
    return schema.replace(impossible=[*schema.impossible, pair])


def make_full_batches(schema: Schema) -> Parameters:
    """Return the parameters of a fit that scores pairs too."""
    return {"config": MargNetConfig(components=50, hidden=(32,), steps=25, max_unscored=0)}


SYSTEMS = {
    "margnet": Systems(options=OPTIONS, tiny=make_tiny, full_batches=make_full_batches, charges=3)
}
