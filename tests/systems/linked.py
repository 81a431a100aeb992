"""The systems of MargNet for linked tables."""

from collections.abc import Mapping
from typing import Any

from systems.form import Parameters, Request, Systems
from tabsynth.auditing.fixtures.margnet import TINY_LINKED as TINY
from tabsynth.schema.linked import LinkedSchema
from tabsynth.synthesizers.margnet.config import MargNetConfig

OPTIONS: dict[str, Mapping[str, Any]] = {
    "linked-margnet": {},
    "linked-margnet, scored pairs, rows declared": {"rows": 25, "config": {"max_unscored": 0}},
}


def make_tiny(options: Mapping[str, Any], request: Request) -> tuple[Any, Parameters]:
    """Return the parameters of a system."""
    given = dict(options)
    given["config"] = MargNetConfig(**{**TINY, **given.pop("config", {})})
    return request.schema, given


def make_full_batches(schema: LinkedSchema) -> Parameters:
    """Return the parameters of a fit that scores pairs too."""
    return {"config": MargNetConfig(**TINY, max_unscored=0)}


SYSTEMS = {
    "linked-margnet": Systems(
        options=OPTIONS, tiny=make_tiny, full_batches=make_full_batches, charges=9
    )
}
