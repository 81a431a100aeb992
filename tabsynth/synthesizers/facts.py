"""What a fit says of itself besides its ledger: for the certificate, the model file, a checkpoint."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tabsynth.privacy.certificate import number
from tabsynth.privacy.described import EXACT, ON_GPU, code, versions
from tabsynth.privacy.mechanisms import SubsampledGaussian
from tabsynth.synthesizers.parameters import device_of

if TYPE_CHECKING:
    from tabsynth.synthesizers.base import Synthesizer
    from tabsynth.synthesizers.method import Trained

# Parameters that a certificate states, where a method has them.
STATED = ("preset", "variant", "label")
# What another part of a fit may change: when it stops, where it runs, who watches.
NOT_BOUND = ("schema", "random_state", "time_limit", "device", "verbose")


def public_table(index: np.ndarray) -> dict[str, Any]:
    """Of a public table: its rows, and a hash of its value numbers."""
    found = hashlib.sha256(np.ascontiguousarray(index, dtype="<i8").tobytes()).hexdigest()
    return {"rows": len(index), "sha256_of_value_numbers": found}


def certificate_facts(
    model: "Synthesizer", stopped: str | None, trained: "Trained"
) -> dict[str, Any]:
    """What a certificate says besides the ledger."""
    drafted = model.schema.drafted
    return {
        "settings": settings(model),
        "public": {
            "schema_sha256": model.schema.fingerprint(),
            "declared": [n for n in model.schema.names if n not in drafted],
            "drafted": list(drafted),
            "left_out": list(model.schema.names_left_out),
            "sources": {c.name: c.source for c in model.schema.columns if c.name not in drafted},
            "accepted_drafted_domain": bool(drafted) and model.accept_drafted_domain,
            "rows": None if model.rows is None else int(model.rows),
            "public_table": model._public_facts(),
        },
        "versions": versions(),
        "code": code(),
        "noise": _noise(model),
        "training": {"stopped": stopped, "curves": trained.curves},
    }


def settings(model: "Synthesizer") -> dict[str, Any]:
    """Which of its ways a method went. All of it was set before the fit.

    ``own_configuration`` names the configurations that were given in place of the preset's or the default.
    """
    given = model.get_params(deep=False)
    return {
        **{name: given[name] for name in STATED if name in given},
        **model._stated(),
        "own_configuration": sorted(
            name for name, value in given.items() if name.endswith("config") and value is not None
        ),
    }


def _noise(model: "Synthesizer") -> dict[str, Any] | None:
    """How noise was made in this fit, and in the one that it started from; None if that one does not tell."""
    on_gpu = device_of(model.device).type != "cpu" and any(
        isinstance(mechanism, SubsampledGaussian) for mechanism, _ in model.ledger_.spends()
    )
    start = getattr(model, "warm_start", None)
    before = EXACT if start is None else getattr(start, "facts_", {}).get("noise")
    return dict(ON_GPU) if on_gpu else before and dict(before)


def file_facts(model: "Synthesizer") -> dict[str, Any]:
    """What a model file says besides the weights."""
    encoding = model.encoder_.encoding
    return {
        "method": model.method,
        "schema": model.encoder_.schema.to_dict(),
        "epsilon": number(model.ledger_.epsilon),
        "delta": model.ledger_.delta,
        "encoding": encoding if isinstance(encoding, str) else dict(encoding),
        "config": model.config_,
        "ledger": model.ledger_.to_list(),
        "seeded": model.seeded_,
        "facts": model.facts_,
    }


def binding(model: "Synthesizer") -> dict[str, Any]:
    """Which fit this is, JSON-ready: a checkpoint of another one is refused. Of public facts only."""
    options = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in NOT_BOUND
        and (value is None or isinstance(value, bool | int | float | str | np.generic))
    }
    encoding = model._encoding()
    facts = {
        "method": model.method,
        "schema": model.schema.fingerprint(),
        **options,
        "epsilon": number(model.epsilon),
        "encoding": encoding if isinstance(encoding, str) else dict(encoding),
        "public_table": model._public_facts(),
        "config": model._config(),
    }
    return dict(json.loads(json.dumps(facts, default=_plain)))


def _plain(value: Any) -> Any:
    """A number of numpy's, as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON")
