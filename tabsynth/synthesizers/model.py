"""The fitted model and its file: weights as safetensors, the rest as JSON in its header. No pickle.

A file holds the schema, the configuration, the certificate's facts and the generator's weights. It holds no private
row, no state of a random number generator, no seed and no critic.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from tabsynth._files import replacing
from tabsynth._tensors import MAX_HEADER_BYTES, pack, read_tensors
from tabsynth._typing import JsonObject
from tabsynth._validate import native
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.encoding.table import TableEncoder
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.accounting.mechanisms import check_listed
from tabsynth.privacy.certificate.certificate import epsilon_to_json, make_certificate
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.conditions import Condition
from tabsynth.tables.frames import TableKind

FORMAT = "tabsynth-model/1"
MAX_FILE_BYTES = 512 * 2**20
MAX_TENSORS = 1_000
DTYPES = ("F32", "F64", "I64")
MAX_ROWS = 10**12  # that a fit declares, or a file states
Sampler = Callable[[int, torch.Generator], np.ndarray]  # from a number to as many rows of codes
Encoder = TypeVar("Encoder", bound=TableEncoder | LinkedEncoder)


@dataclass(frozen=True, kw_only=True)
class Population:
    """The noisy total of the survey weights.

    Attributes
    ----------
    total : float
        At least 1.
    interval : tuple of float or None
        Its 95% interval; None where a model file states none.
    """

    total: float
    interval: tuple[float, float] | None = None

    def to_facts(self) -> JsonObject:
        """Return what a model file says of it."""
        ends = {} if self.interval is None else {"population_interval": list(self.interval)}
        return {"population": self.total, **ends}

    @classmethod
    def from_facts(cls, facts: JsonObject, damaged: FileFormatError) -> Self | None:
        """Return the population that a model file states; None where it states none.

        Raises
        ------
        FileFormatError
            ``damaged``, where the file states no such numbers.
        """
        total, ends = facts.get("population"), facts.get("population_interval")
        if ends is not None and not (isinstance(ends, list) and len(ends) == 2):
            raise damaged
        for value, low in ((total, 1), *((end, 0) for end in ends or ())):
            if value is not None and not (isinstance(value, float) and low <= value < math.inf):
                raise damaged
        if ends is not None and (None in ends or ends[0] > ends[1]):
            raise damaged
        if total is None:
            return None
        return cls(total=total, interval=None if ends is None else (ends[0], ends[1]))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The result of training: a sampler of category codes, its weights, and public diagnostics.

    Attributes
    ----------
    generator : Module
        It samples category codes.
    curves : dict
    notes : dict
        Released numbers that a certificate states.
    rows : float or None
        The number of rows: declared, or released with noise.
    population : Population or None
        The total of the weights, where rows have weights.
    likely_steps : dict
        In a trial, the likely number of steps of stages that may end early.
    measured : Measurements or None
        The noisy counts of a fit to counts, for intervals.
    tables : sequence of TableCounts
        Declared tables with their noisy counts.
    """

    generator: Any
    curves: dict[str, dict[str, list[float]]]
    notes: JsonObject = field(default_factory=dict)
    rows: float | None = None
    population: Population | None = None
    likely_steps: dict[str, int] = field(default_factory=dict)
    measured: Any = None
    tables: Sequence[Any] = ()

    def weights(self) -> dict[str, Tensor]:
        """Return everything that sampling needs."""
        return dict(self.generator.state_dict())


@dataclass(frozen=True, kw_only=True)
class FittedModel(Trained, Generic[Encoder]):
    """A fitted model: what sampling, saving and inference need, and nothing else.

    Attributes
    ----------
    method : str
        The name under which the method is registered.
    encoder : TableEncoder or LinkedEncoder
    config : dict
        The configuration that rebuilds an untrained generator, JSON-ready.
    table_kind : TableKind
        The kind of the table of the fit.
    ledger : Ledger
    facts : dict
        What a certificate says besides the ledger.
    seeded : bool
        Whether any part of the fit, or an earlier one, had a known seed.
    """

    method: str
    encoder: Encoder
    config: JsonObject
    table_kind: TableKind = field(default_factory=TableKind)
    ledger: Ledger
    facts: JsonObject
    seeded: bool

    @property
    def row_count(self) -> int | None:
        """The number of rows, at least 1; None where it was neither declared nor released."""
        return None if self.rows is None else max(1, round(self.rows))

    def certificate(self) -> JsonObject:
        """Return the claims about every table that is sampled, JSON-ready."""
        return make_certificate(self.ledger, self.facts, method=self.method, seeded=self.seeded)

    def sampler(self, condition: Condition | None) -> tuple[Sampler, bool]:
        """Return a sampler of codes, and whether its rows satisfy the condition as far as codes decide it."""
        sampler: Sampler = self.generator.sample
        return sampler, False

    def stream_sampler(self) -> Sampler:
        """Return a sampler of codes of a part of a table that is too large to be drawn at once."""
        return self.sampler(None)[0]

    def implicates(self, count: int, random_state: int | None) -> Iterator[Self]:
        """Yield models that differ as much as the noise of this one leaves open."""
        raise InputError(
            f"Method {self.method} has no noisy counts that implicates could follow from; leave implicates (--implicates) out,"
            " or fit margnet."
        )

    def schema_facts(self) -> JsonObject:
        """Return what a model file says of the schema and its encoding."""
        assert isinstance(self.encoder, TableEncoder)
        encoding = self.encoder.network_encoding
        return {
            "schema": self.encoder.whole.to_dict(),
            "encoding": encoding if isinstance(encoding, str) else dict(encoding),
            "table": self.table_kind.to_dict(),
        }

    def file_facts(self) -> JsonObject:
        """Return what a model file says besides the weights."""
        return {
            "method": self.method,
            **self.schema_facts(),
            "epsilon": epsilon_to_json(self.ledger.epsilon),
            "delta": self.ledger.delta,
            "config": self.config,
            "rows": self.row_count,
            **({} if self.population is None else self.population.to_facts()),
            "ledger": self.ledger.to_list(),
            "seeded": self.seeded,
            "facts": self.facts,
        }

    def file_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a model file."""
        return self.weights()

    def save(self, path: str | Path) -> None:
        """Write the model to one file; only its owner may read the file of a model that is not private."""
        confidential = not self.certificate()["private"]
        write_model(path, self.file_facts(), self.file_tensors(), confidential=confidential)


def write_model(
    path: str | Path,
    facts: JsonObject,
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
    data = pack(json.loads(text), tensors)
    with replacing(path, confidential=confidential) as temporary:
        temporary.write_bytes(data)


def json_default(value: object) -> object:
    """Convert a numpy number of a configuration for ``json.dumps(default=)``; raise TypeError for other types."""
    number = native(value)
    if number is value:
        raise TypeError(f"{type(value).__name__} has no JSON")
    return number


def read_model(path: str | Path) -> tuple[JsonObject, dict[str, Tensor]]:
    """Read facts and weights of a model file.

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


def certificate_facts(facts: JsonObject) -> JsonObject:
    """Return what a certificate needs besides the ledger, and nothing else."""
    # Older model files do not state the hash of their code.
    required = ("public", "versions", "training")
    optional = tuple(
        name
        for name in ("settings", "plan", "code", "noise", "project")
        if facts.get(name) is not None
    )
    parts = {name: dict(facts[name]) for name in (*required, *optional)}
    return {name: parts[name] for name in facts if name in parts}  # in the file's own order


def file_ledger(
    facts: JsonObject, schema: Schema | LinkedSchema, epsilon: float, delta: float
) -> Ledger:
    """Return the ledger that a model file states."""
    check_listed(facts["ledger"])
    ledger = Ledger.from_list(epsilon, delta, facts["ledger"])
    project = facts["facts"].get("project") or {}
    ledger.unit, ledger.contributions = schema.unit, schema.contributions
    ledger.project, ledger.run = project.get("project"), str(project.get("run", ""))
    return ledger


def file_rows(facts: JsonObject, damaged: FileFormatError) -> int | None:
    """Return the number of rows that a model file states; older files state none."""
    rows = facts.get("rows")
    if rows is not None and not (type(rows) is int and 1 <= rows <= MAX_ROWS):
        raise damaged
    return rows


def one_hot_width(schema: Schema, encoding: str | Mapping[str, str]) -> int:
    """Return the width of the one-hot codes, each of which the last layer has a weight for."""
    named = encoding if isinstance(encoding, Mapping) else dict.fromkeys(schema.names, encoding)
    return sum(c.size for c in schema.columns if named.get(c.name, "one-hot") == "one-hot")
