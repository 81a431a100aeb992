"""From a model file back to a fitted synthesizer."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabsynth._validate import shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import FileFormatError, TabsynthError
from tabsynth.privacy.accounting.mechanisms import check_listed
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.base import Synthesizer, Trained
from tabsynth.synthesizers.gan.dpgan import DPGAN
from tabsynth.synthesizers.gan.dpwgan import DPWGAN
from tabsynth.synthesizers.margnet.estimator import MargNet
from tabsynth.synthesizers.model_file import read_model
from tabsynth.synthesizers.pate.estimator import PATEGAN
from tabsynth.synthesizers.pate.pateacgan import PATEACGAN

METHODS: dict[str, type[Synthesizer]] = {
    DPGAN.method: DPGAN,
    DPWGAN.method: DPWGAN,
    MargNet.method: MargNet,
    PATEACGAN.method: PATEACGAN,
    PATEGAN.method: PATEGAN,
}


def load(path: str | Path) -> Synthesizer:
    """A fitted synthesizer from a file that :meth:`Synthesizer.save` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, not a model, or of another version of the format.
    """
    facts, weights = read_model(path)
    damaged = FileFormatError(f"{path}: the model's facts are damaged or incomplete.")
    try:
        method = METHODS.get(facts["method"])
        if method is None:
            raise FileFormatError(f"{path} is a model of unknown method {shown(facts['method'])}.")
        schema = Schema.from_dict(facts["schema"], str(path))
        epsilon = math.inf if facts["epsilon"] == "inf" else float(facts["epsilon"])
        shared: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": float(facts["delta"]),
            "encoding": facts["encoding"],
        }
        model = method._from_config(schema, facts["config"], **shared)
        check_listed(facts["ledger"])
        model.ledger_ = Ledger.from_list(epsilon, shared["delta"], facts["ledger"])
        model.seeded_ = bool(facts["seeded"])
        model.config_ = facts["config"]
        model.facts_ = _facts(facts["facts"])
        known = model.facts_.get("project", {})
        model.ledger_.project, model.ledger_.run = known.get("project"), str(known.get("run", ""))
        # A file from a stranger must not make us build more than it holds: neither codebooks …
        held = sum(tensor.numel() for tensor in weights.values())
        if _one_hot(schema, model.encoding) > held:
            raise damaged
        if facts["facts"]["public"]["schema_sha256"] != schema.fingerprint():
            raise FileFormatError(f"{path}: its schema is not the one that it was fitted with.")
        model.encoder_ = TableEncoder(schema, model.encoding)
        if model._size() > held:  # … nor a network
            raise damaged
        generator = model._empty()
        generator.load_state_dict(weights)
        if not generator.sound():
            raise FileFormatError(
                f"{path} holds weights that are not probabilities; it is damaged."
            )
    except TabsynthError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError):
        raise damaged from None
    model.trained_ = Trained(generator=generator.to(model._device()).eval(), curves={})
    return model


def _facts(facts: dict[str, Any]) -> dict[str, Any]:
    """What a certificate needs besides the ledger, and nothing else."""
    # A model file of before does not tell its code's hash.
    known = ("public", "versions", "training")
    more = tuple(
        name for name in ("settings", "code", "noise", "project") if facts.get(name) is not None
    )
    found = {name: dict(facts[name]) for name in (*known, *more)}
    return {name: found[name] for name in facts if name in found}  # in the file's own order


def _one_hot(schema: Schema, encoding: str | Mapping[str, str]) -> int:
    """Width of the one-hot codes, each of which the last layer has a weight for."""
    named = encoding if isinstance(encoding, Mapping) else dict.fromkeys(schema.names, encoding)
    return sum(c.size for c in schema.columns if named.get(c.name, "one-hot") == "one-hot")
