"""Checks of the parameters that all synthesizers share."""

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from tabsynth._random import Randomness
from tabsynth._validate import between, integer, one_of, positive, shown
from tabsynth.errors import InputError
from tabsynth.identifiers import identifying
from tabsynth.privacy.certificate import MOST_NAMED
from tabsynth.schema import Schema

if TYPE_CHECKING:
    from tabsynth.synthesizers.base import Synthesizer

MAX_ROWS = 10**12
MAX_CELLS = 2 * 10**9  # of one sampled table: past it, memory is what fails
MAX_EPSILON = 10_000.0  # past it "private" is an empty word


def check_parameters(model: "Synthesizer") -> None:
    """Refuse what no method can use, by the name of the parameter."""
    if not isinstance(model.schema, Schema):
        raise InputError(f"Expected schema to be a Schema, got {type(model.schema).__name__}.")
    positive("epsilon", model.epsilon, finite=False)
    if MAX_EPSILON < model.epsilon < math.inf:
        raise InputError(
            f"Expected epsilon of at most {MAX_EPSILON:g}, got epsilon={model.epsilon:g}; for a run"
            " without privacy say so: epsilon=inf."
        )
    between("delta", model.delta, 0, 1, low_open=True, high_open=True)
    if model.rows is not None:
        integer("rows", model.rows)
        between("rows", model.rows, 1, MAX_ROWS)
    if model.time_limit is not None:
        positive("time_limit", model.time_limit)
    if model.random_state is not None:
        integer("random_state", model.random_state, least=0)
    device_of(model.device)


def check_domain(model: "Synthesizer") -> None:
    """Refuse a fit on drafted columns that identify people, and a private fit on others unless confirmed.

    Only the schema is looked at, whoever drafted or edited it (R12, R26).
    """
    check_identifiers(model.schema)
    drafted = model.schema.drafted
    if math.isfinite(model.epsilon) and drafted and not model.accept_drafted_domain:
        raise InputError(
            f"The schema's column {shown(drafted[0])} was drafted from a table, so it"
            " may hold private facts; declare it from a public source, or confirm with"
            " accept_drafted_domain=True (--accept-drafted-domain)."
        )


def check_identifiers(schema: Schema) -> None:
    """Refuse drafted columns that identify people or records, all in one message, whatever was accepted."""
    found = {c.name: identifying(c) for c in schema.columns if c.provenance == "drafted"}
    named = [f"{shown(name)} ({reason})" for name, reason in found.items() if reason]
    if named:
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        raise InputError(
            "The schema has drafted columns that seem to identify people or records:"
            f" {', '.join(named[:MOST_NAMED])}{more}. Draft the schema again, which leaves them out, take"
            " them out of it, or declare them by hand if they may be learned."
        )


def check_size(n: int, columns: int) -> None:
    """Refuse a number of rows to sample that is none, or too many at a time."""
    integer("n", n)
    if n * columns > MAX_CELLS:
        raise InputError(
            f"Expected n of at most {MAX_CELLS // columns:,} rows at a time, got n={n:,}; sample in"
            " parts."
        )


def streams(
    model: "Synthesizer", random_state: int | None
) -> tuple[torch.Generator, np.random.Generator]:
    """Of one draw from a fitted model: for value numbers, on its device, and for numbers in cells."""
    if random_state is not None:
        integer("random_state", random_state, least=0)
    seed = model.random_state if random_state is None else random_state
    # Streams of their own: the draws must not repeat those of the fit.
    randomness = Randomness(None if seed is None else int(seed) + 2**64)
    device = next(iter(model.trained_.weights().values())).device
    return randomness.torch(device), randomness.numpy()


def device_of(name: str) -> torch.device:
    """The device called ``name``; ``auto`` is a GPU where there is one."""
    one_of("device", str(name).split(":")[0], ("auto", "cpu", "cuda"))
    cuda = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "cpu")
    if str(name).startswith("cuda") and not cuda:
        raise InputError("device='cuda' was asked for, but torch finds no CUDA here; use 'auto'.")
    try:
        return torch.device(name)
    except RuntimeError:
        raise InputError(f"torch knows no device={shown(name)}; use 'auto'.") from None
