"""Every way to a private model that the library has, with networks so small that a fit takes a moment.

A leak that a replay can find is one of control flow: it shows in a tiny network as in a large one.
"""

from collections.abc import Mapping
from typing import Any

from systems import gan, linked, margnet, pate
from systems.form import Request, Systems
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.estimator import LINKED, METHODS, Synthesizer

DRAFTS = "drafts"  # an option of a system of any method: the fit drafts its schema
SYSTEMS: dict[str, Systems] = {**margnet.SYSTEMS, **gan.SYSTEMS, **pate.SYSTEMS, **linked.SYSTEMS}


def list_systems() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the systems of single tables by name: the method, and the options that set the system apart."""
    return {
        name: (method, options)
        for method in METHODS
        if method in SYSTEMS
        for name, options in SYSTEMS[method].options.items()
    }


def system_names(method: str | None = None) -> list[str]:
    """Return the names of the systems of a method, or of all."""
    return [name for name, (of, _) in list_systems().items() if method is None or of == method]


def linked_system_names() -> dict[str, str]:
    """Return the systems of linked tables, with their methods."""
    return {name: method for method in LINKED for name in SYSTEMS[method].options}


def make_tiny_model(
    name: str, schema: Schema, *, epsilon: float, delta: float = 1e-5
) -> Synthesizer:
    """Return the system called ``name``, unfitted."""
    method, chosen = list_systems()[name]
    options = dict(chosen)
    drafts = options.pop(DRAFTS, False)
    request = Request(schema=schema, epsilon=epsilon, delta=delta)
    schema, parameters = SYSTEMS[method].tiny(options, request)
    return METHODS[method](
        None if drafts else schema,
        epsilon=epsilon,
        delta=delta,
        accept_drafted_domain=True,
        device="cpu",
        **parameters,
    )


def make_tiny_linked_model(name: str, schema: Any, *, epsilon: float) -> Synthesizer:
    """Return the system of linked tables called ``name``, unfitted."""
    method = linked_system_names()[name]
    options, request = SYSTEMS[method].options[name], Request(schema=schema, epsilon=epsilon)
    schema, parameters = SYSTEMS[method].tiny(options, request)
    return LINKED[method](schema, epsilon=epsilon, device="cpu", **parameters)
