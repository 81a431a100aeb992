"""One file a model: weights as safetensors, the rest as JSON in its header. No pickle.

What is in it: the schema, the configuration, the certificate's facts, the generator's weights. What
is not: private rows, RNG states, seeds, the critic.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth._files import replacing
from tabsynth._tensors import MAX_HEADER_BYTES, packed, read_tensors
from tabsynth._validate import native
from tabsynth.encoding import TableEncoder
from tabsynth.errors import FileFormatError, InputError, TabsynthError
from tabsynth.privacy.accounting.mechanisms import check_listed
from tabsynth.privacy.certificate.certificate import epsilon_to_json
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.schema import Schema
from tabsynth.tables.frames import PANDAS, TableKind

FORMAT = "tabsynth-model/1"
MAX_FILE_BYTES = 512 * 2**20
MAX_TENSORS = 1_000
DTYPES = ("F32", "F64", "I64")
MAX_ROWS = 10**12  # that a fit declares, or a file states
DRAFTED = "drafted by the fit"  # in place of a schema's hash
# Parameters that may change when an interrupted fit is resumed.
NOT_BOUND = ("schema", "random_state", "time_limit", "device", "verbose")


def write_model(
    path: str | Path,
    facts: dict[str, Any],
    weights: dict[str, Tensor],
    *,
    confidential: bool = False,
) -> None:
    """Write facts (JSON-ready) and weights, whole or not at all; a ``confidential`` file is for its owner alone."""
    if not all(torch.isfinite(t).all() for t in weights.values()):
        raise InputError(
            f"The model's weights are not finite, so {path} was not written: its training diverged;"
            " fit again with lower learning rates."
        )
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    if sum(t.nbytes for t in tensors.values()) > MAX_FILE_BYTES - MAX_HEADER_BYTES:
        raise InputError(
            f"The model's weights take more than {MAX_FILE_BYTES - MAX_HEADER_BYTES:,} bytes, so {path}"
            " was not written: no reader takes it; fit with fewer or narrower layers."
        )
    text = json.dumps({"format": FORMAT, **facts}, allow_nan=False, default=json_default)
    data = packed(json.loads(text), tensors)
    with replacing(path, confidential=confidential) as temporary:
        temporary.write_bytes(data)


def json_default(value: Any) -> Any:
    """Convert a numpy number of a configuration for ``json.dumps(default=)``; raise TypeError for other types."""
    number = native(value)
    if number is value:
        raise TypeError(f"{type(value).__name__} has no JSON")
    return number


def read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Facts and weights of a model file.

    Raises
    ------
    FileFormatError
        If the file is missing, damaged, not a model, or of another format version.
    """
    facts, weights = read_tensors(
        Path(path),
        "model",
        format=FORMAT,
        max_bytes=MAX_FILE_BYTES,
        max_tensors=MAX_TENSORS,
        dtypes=DTYPES,
    )
    if not all(torch.isfinite(t).all() for t in weights.values()):
        raise FileFormatError(f"{path} holds weights that are not finite; it is damaged.")
    return facts, weights


def file_facts(model: Any) -> dict[str, Any]:
    """Return what a model file says of a fitted synthesizer, besides the weights."""
    encoding = model.encoder_.encoding
    return {
        "method": model.method,
        "schema": model.encoder_.whole.to_dict(),
        "epsilon": epsilon_to_json(model.ledger_.epsilon),
        "delta": model.ledger_.delta,
        "encoding": encoding if isinstance(encoding, str) else dict(encoding),
        "config": model.config_,
        "rows": model.rows_,
        **population_facts(model.trained_),
        "ledger": model.ledger_.to_list(),
        "seeded": model.seeded_,
        "facts": model.facts_,
        "table": model.table_kind_.to_dict(),
    }


def population_facts(trained: Any) -> dict[str, Any]:
    """Return what a model file says of the noisy total of the survey weights."""
    if trained.population is None:
        return {}
    ends = trained.population_interval
    stated = {} if ends is None else {"population_interval": list(ends)}
    return {"population": trained.population, **stated}


def population_from(
    facts: Mapping[str, Any], damaged: FileFormatError
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the noisy total of the survey weights and its interval, as far as a file states them.

    Raises
    ------
    FileFormatError
        ``damaged``, where they are no such numbers.
    """
    total, ends = facts.get("population"), facts.get("population_interval")
    if ends is not None and not (isinstance(ends, list) and len(ends) == 2):
        raise damaged
    for value, least in ((total, 1), *((end, 0) for end in ends or ())):
        if value is not None and not (isinstance(value, float) and least <= value < math.inf):
            raise damaged
    if ends is None:
        return total, None
    if None in ends or ends[0] > ends[1]:
        raise damaged
    return total, (ends[0], ends[1])


def kept_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """What a certificate needs besides the ledger, and nothing else."""
    # Older model files do not state the hash of their code.
    required = ("public", "versions", "training")
    optional = tuple(
        name
        for name in ("settings", "plan", "code", "noise", "project")
        if facts.get(name) is not None
    )
    kept = {name: dict(facts[name]) for name in (*required, *optional)}
    return {name: kept[name] for name in facts if name in kept}  # in the file's own order


def take_facts(model: Any, facts: Mapping[str, Any]) -> None:
    """Give a synthesizer the ledger, the settings and what a certificate needs from the facts of a model file."""
    check_listed(facts["ledger"])
    model.ledger_ = Ledger.from_list(model.epsilon, model.delta, facts["ledger"])
    model.seeded_ = bool(facts["seeded"])
    model.config_ = facts["config"]
    model.facts_ = kept_facts(facts["facts"])
    project = model.facts_.get("project", {})
    model.ledger_.unit = model.schema.unit
    model.ledger_.contributions = model.schema.contributions
    model.ledger_.project = project.get("project")
    model.ledger_.run = str(project.get("run", ""))


def rebuilt(
    cls: Any, facts: Mapping[str, Any], weights: dict[str, Tensor], path: Any
) -> tuple[Any, Any, int | None, tuple[float | None, tuple[float, float] | None]]:
    """A synthesizer of class ``cls`` from the facts and weights of a model file, and what its fit left besides.

    That is the generator, the number of rows, and the noisy total of their weights with its interval.

    Raises
    ------
    FileFormatError
        If they do not belong together.
    """
    damaged = FileFormatError(f"{path}: the model's facts are damaged or incomplete.")
    try:
        schema = Schema.from_dict(facts["schema"], str(path))
        epsilon = math.inf if facts["epsilon"] == "inf" else float(facts["epsilon"])
        shared: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": float(facts["delta"]),
            "encoding": facts["encoding"],
        }
        model = cls._from_config(schema, facts["config"], **shared)
        take_facts(model, facts)
        kind = facts.get("table")  # older files have none
        model.table_kind_ = TableKind(PANDAS, {}) if kind is None else TableKind.from_dict(kind)
        # An untrusted file must not make us build more than it holds: neither codebooks …
        weight_count = sum(tensor.numel() for tensor in weights.values())
        if _one_hot(schema.learned, model._encoding()) > weight_count:
            raise damaged
        if facts["facts"]["public"]["schema_sha256"] != schema.fingerprint():
            raise FileFormatError(f"{path}: its schema is not the one that it was fitted with.")
        model.encoder_ = TableEncoder(schema, model._encoding())
        if model._size() > weight_count:  # … nor a network
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
    rows = facts.get("rows")  # older files do not say
    if rows is not None and not (type(rows) is int and 1 <= rows <= MAX_ROWS):
        raise damaged
    return model, generator.to(model._device()).eval(), rows, population_from(facts, damaged)


def _one_hot(schema: Schema, encoding: str | Mapping[str, str]) -> int:
    """Width of the one-hot codes, each of which the last layer has a weight for."""
    named = encoding if isinstance(encoding, Mapping) else dict.fromkeys(schema.names, encoding)
    return sum(c.size for c in schema.columns if named.get(c.name, "one-hot") == "one-hot")


def binding(model: Any) -> dict[str, Any]:
    """Which fit a synthesizer would make, JSON-ready: a checkpoint of another one is refused. Of public facts only."""
    options = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in NOT_BOUND
        and (value is None or isinstance(value, bool | int | float | str | np.generic))
    }
    facts: dict[str, Any] = {"method": model.method, **options}
    facts["epsilon"] = epsilon_to_json(model.epsilon)
    if (
        model.schema is None
    ):  # it is drafted: all follows from the parameters, and from what is released
        given = model.get_params(deep=False)
        rest = {name: given[name] for name in given if name not in {*NOT_BOUND, *options}}
        facts |= {"schema": DRAFTED, "parameters": rest}
    else:
        encoding = model._encoding()
        facts |= {
            "schema": model.schema.fingerprint(),
            "encoding": encoding if isinstance(encoding, str) else dict(encoding),
            "public_table": model._public_facts(),
            "config": model._config(),
        }
    return dict(json.loads(json.dumps(facts, default=_bound)))


def _bound(value: Any) -> Any:
    """As :func:`json_default`, and configurations as dicts."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return json_default(value)
