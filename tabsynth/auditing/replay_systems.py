"""Every way to a private model that the library has, with networks so small that a fit takes a moment.

A leak that a replay can find is one of control flow: it shows in a tiny network as in a large one. The systems are
those of the audit fixtures (:mod:`tabsynth.auditing.fixtures`).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.auditing.fixtures import ReplayRequest, find_fixture
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.loading import METHODS

DRAFTS = "drafts"  # an option of a system of any method: the fit drafts its schema


def list_systems() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """By name: a method, and the options that set the system apart. A method without systems has its default."""
    return {
        name: (method, options)
        for method in METHODS
        for name, options in (find_fixture(method).systems or {method: {}}).items()
    }


def system_names(method: str | None = None) -> list[str]:
    """Names of the systems of a method, or of all."""
    return [name for name, (of, _) in list_systems().items() if method is None or of == method]


def make_tiny_model(
    name: str, schema: Schema, *, epsilon: float, delta: float = 1e-5, label: str | None = None
) -> Synthesizer:
    """The system called ``name``, unfitted.

    Parameters
    ----------
    name : str
        Of :func:`list_systems`; a method's own name is its default.
    label : str, optional
        The class of PATE-ACGAN; default: the discrete column of the fewest values.

    Raises
    ------
    InputError
        For an unknown name, or a schema that it cannot take.
    """
    systems = list_systems()
    if name not in systems:
        raise InputError(f"No system is called {shown(name)}; there are {', '.join(systems)}.")
    method, chosen = systems[name]
    options = dict(chosen)
    drafts = options.pop(DRAFTS, False)
    request = ReplayRequest(schema=schema, epsilon=epsilon, delta=delta, label=label)
    schema, parameters = find_fixture(method).tiny(options, request)
    return METHODS[method](
        None if drafts else schema,
        epsilon=epsilon,
        delta=delta,
        accept_drafted_domain=True,
        device="cpu",
        **parameters,
    )


def draw_rows(schema: Schema, rows: int, seed: int) -> pd.DataFrame:
    """Draw uniform category codes that the schema allows; the rows describe no person."""
    rng, encoder = np.random.default_rng(seed), TableEncoder(schema)
    tables: list[pd.DataFrame] = []
    for _ in range(1000 * rows):
        index = np.array([[rng.integers(size) for size in schema.sizes]])
        table = encoder.from_index(index, rng)
        try:
            encoder.to_index(table)
        except InputError:  # an impossible row
            continue
        tables.append(table)
        if len(tables) == rows:
            return pd.concat(tables, ignore_index=True)
    raise InputError("The schema declares almost all rows impossible.")
