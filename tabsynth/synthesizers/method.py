"""The method of a fit, a frozen value of a schema and settings that plans mechanisms and trains; the fitted model and its file.

A new synthesizer derives a class from :class:`TableMethod`, and an estimator that makes it.

Settings are frozen configurations, which may be composed of parts. A model file has the weights as safetensors and the rest
as JSON in its header, no pickle: the schema, the configuration, the certificate's facts and the generator's weights. It holds
no private row, no state of a random number generator, no seed and no critic.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from tabsynth._files import write_bytes
from tabsynth._random import Randomness
from tabsynth._shown import Shown
from tabsynth._tensors import MAX_HEADER_BYTES, pack, read_tensors
from tabsynth._typing import JsonObject
from tabsynth._validate import list_first, native, one_of, quote
from tabsynth.design import Design
from tabsynth.drafting.drafts import identifying
from tabsynth.encoding.holding import CodeRules
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.encoding.rows import PrivateRows
from tabsynth.encoding.table import TableEncoder
from tabsynth.errors import FileFormatError, InputError, TabsynthError
from tabsynth.privacy.accounting.accountants import RENYI
from tabsynth.privacy.accounting.mechanisms import Mechanism, check_listed
from tabsynth.privacy.certificate.certificate import (
    MOST_NAMED,
    epsilon_to_json,
    make_certificate,
    unchanged_facts,
)
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.conforming import conform
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.schema import Schema, refuse_no_rows
from tabsynth.synthesizers.conditions import Condition
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import TableKind, to_pandas
from tabsynth.training.loop import TrainingMonitor

if TYPE_CHECKING:
    import pandas as pd
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")


def with_settings(config: Config, **settings: Any) -> Config:
    """Return a configuration with other settings.

    Parameters
    ----------
    config : dataclass
    **settings
        By name. ``critic__lr`` is the setting ``lr`` of the part ``critic``, as scikit-learn writes it.

    Raises
    ------
    InputError
        For a setting that the configuration does not have, or a value that it refuses.
    """
    changes: dict[str, Any] = {}
    of_parts: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        part, _, inner = name.partition("__")
        if inner:
            of_parts.setdefault(part, {})[inner] = value
        else:
            changes[name] = value
    names = [f.name for f in fields(config)]
    for name in (*changes, *of_parts):
        if name in of_parts and name in names and not is_dataclass(getattr(config, name)):
            inner = next(iter(of_parts[name]))
            raise InputError(
                f"Setting {name} is a single value, which has no setting {quote(inner)}; set {name}."
            )
        if name not in names:
            raise InputError(
                f"{type(config).__name__} has no setting {quote(name)}; choose from {', '.join(names)}."
            )
    for part, inner_settings in of_parts.items():
        changes[part] = with_settings(changes.get(part, getattr(config, part)), **inner_settings)
    return replace(config, **changes)


def check_parts(config: "DataclassInstance") -> None:
    """Refuse a part of a configuration that is of another class than its default."""
    for part in fields(config):
        if part.default_factory is MISSING:
            continue
        value, kind = getattr(config, part.name), type(part.default_factory())
        if type(value) is not kind:
            raise InputError(f"Expected {part.name} to be a {kind.__name__}, got {quote(value)}.")


def read_settings(
    config: Config, values: Mapping[str, Any], former: Collection[str] = ()
) -> Config:
    """Return a configuration with the settings of a model file.

    Parameters
    ----------
    config : dataclass
        With the defaults of the settings that the file lacks.
    values : mapping
        As ``dataclasses.asdict`` and JSON have made them of a configuration.
    former : collection of str
        Settings that a file of an earlier version may have, and that are left out.
    """
    settings: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            settings |= {f"{name}__{inner}": item for inner, item in value.items()}
        elif name not in former:
            settings[name] = value
    return with_settings(
        config, **{n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()}
    )


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
    reached : dict
        Of a fit to noisy counts its ``steps``, and the ``distance``: the root mean squared difference of the model's counts from these, in
        standard deviations of their noise; and ``counted``, the sets of columns that were counted together.
    """

    generator: Any
    curves: dict[str, dict[str, list[float]]]
    notes: JsonObject = field(default_factory=dict)
    rows: float | None = None
    population: Population | None = None
    likely_steps: dict[str, int] = field(default_factory=dict)
    measured: Any = None
    tables: Sequence[Any] = ()
    reached: JsonObject = field(default_factory=dict)

    def weights(self) -> dict[str, Tensor]:
        """Return everything that sampling needs."""
        return dict(self.generator.state_dict())


@dataclass(frozen=True, kw_only=True)
class FittedModel(Shown, Trained, Generic[Encoder]):
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

    @property
    def distance(self) -> float | None:
        """The distance of the counts of the model from the noisy counts; None where it has none."""
        distance = self.facts["training"].get("distance")
        return distance if isinstance(distance, float) else None

    def convergence(self) -> str:
        """Return a sentence on how near the model is to the noisy counts; empty where it has no such distance."""
        if self.distance is None:
            return ""
        aim = (
            "; a fit that is done comes to about 1, and a checkpoint lets it go on at no further privacy cost"
            if self.distance > 1
            else ""
        )
        return f"The distance of the model from the noisy counts is {self.distance:.2f} times their noise{aim}."

    def stopped_text(self) -> str:
        """Return why the fit ended early and how near it came, in sentences; empty if it is done."""
        stopped = self.facts["training"]["stopped"]
        if stopped is None:
            return ""
        return f"Stopped early: {stopped}. {self.convergence()}".rstrip()

    def implicates(self, count: int, random_state: int | None) -> Iterator[Self]:
        """Yield models that differ as much as the noise of this one leaves open."""
        raise InputError(
            f"Method {self.method} has no noisy counts that implicates could follow from; leave out implicates=,"
            " or fit margnet."
        )

    def counts(self, by: str | Sequence[str] | None) -> "pd.DataFrame":
        """Return the tables that were counted with noise."""
        raise InputError(
            f"There are no counts, as method {self.method} keeps no noisy counts; fit margnet."
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

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to one file; only its owner may read the file of a model that is not private."""
        confidential = not self.certificate()["private"]
        write_model(
            path,
            self.file_facts(),
            self.file_tensors(),
            overwrite=overwrite,
            confidential=confidential,
        )


def write_model(
    path: str | Path,
    facts: JsonObject,
    weights: dict[str, Tensor],
    *,
    overwrite: bool = False,
    confidential: bool = False,
) -> None:
    """Write facts (JSON-ready) and weights, as :func:`tabsynth._files.write_bytes` writes what had a privacy cost."""
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
    content = pack(json.loads(text), tensors)
    write_bytes(path, content, overwrite=overwrite, confidential=confidential, paid=True)


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


NOMINAL_ROWS = 20_000  # what a plan is for where the caller declares no number of rows
# What a damaged file may lead to while its model is built.
DAMAGES = (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError)


@dataclass(frozen=True, kw_only=True)
class PlannedSpend:
    """One mechanism, how often it will be used, and on what."""

    purpose: str
    mechanism: Mechanism
    count: int

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.purpose}: {self.mechanism.in_words(self.count)}"


def device_of(name: str) -> torch.device:
    """Return the device called ``name``; ``auto`` is a GPU where there is one."""
    one_of("device", str(name).split(":")[0], ("auto", "cpu", "cuda"))
    cuda = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "cpu")
    if str(name).startswith("cuda") and not cuda:
        raise InputError("device='cuda' was asked for, but torch finds no CUDA here; use 'auto'.")
    try:
        return torch.device(name)
    except RuntimeError:
        raise InputError(f"torch knows no device={quote(name)}; use 'auto'.") from None


def check_identifiers(schema: Schema) -> None:
    """Refuse drafted columns that identify people or records, all in one message, whatever was accepted."""
    reasons = {c.name: identifying(c) for c in schema.columns if c.provenance == "drafted"}
    named = [f"{quote(name)} ({reason})" for name, reason in reasons.items() if reason]
    if named:
        raise InputError(
            "The schema has drafted columns that seem to identify people or records:"
            f" {list_first(named, MOST_NAMED)}. Draft the schema again, which leaves them out, take"
            " them out of it, or declare them by hand if they may be learned."
        )


def weight_notes(design: Design) -> list[str]:
    """Return what a plan says of survey weights."""
    if design.weight is None:
        return []
    return [
        f"weighted by {quote(design.weight)}, clipped at {design.max_weight:g}; samples are of the population"
    ]


def design_notes(design: Design) -> list[str]:
    """Return what a plan says of survey weights and of the unit."""
    notes = weight_notes(design)
    if design.unit is not None:
        notes.append(
            f"protects units, the values of column {quote(design.unit)}: at most {design.rows} rows of each are used,"
            " noise is scaled to that, and rows beyond are left out without being counted"
        )
    return notes


@dataclass(frozen=True, kw_only=True, eq=False)
class Method(ABC):
    """The method of a synthesizer, as a session needs it: a value that it does not change.

    Attributes
    ----------
    name : str
        The name under which the method is registered.
    schema : Schema or LinkedSchema
    epsilon, delta : float
    rows : int or None
        The declared number of rows.
    device : torch.device
    accept_drafted_domain : bool
    time_budget : float or None
        The seconds from which the number of private steps follows; see :meth:`with_steps`.
    """

    composition: ClassVar[str] = RENYI  # of a draft and the fit that made it
    stops_early: ClassVar[bool] = False  # a fit may be done before its last step
    model_class: ClassVar[type[FittedModel[Any]]] = FittedModel

    name: str
    schema: Schema | LinkedSchema
    epsilon: float
    delta: float
    rows: int | None
    device: torch.device
    accept_drafted_domain: bool
    time_budget: float | None = None

    # Parameters.

    @abstractmethod
    def check(self) -> None:
        """Refuse settings that cannot be used."""

    @abstractmethod
    def check_identifiers(self) -> None:
        """Refuse drafted columns that identify people or records."""

    # The budget.

    @abstractmethod
    def plan(self, earlier: Ledger) -> list[PlannedSpend]:
        """Return the mechanisms of a fit, after what a ledger has charged."""

    def free_steps(self) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row."""
        return {}

    def with_steps(self, steps: int) -> Self:
        """Return the method with other private steps, as a time budget allows; ``steps`` are those of the last stage."""
        return self

    def notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        """Return warnings about a plan, to be read before the fit."""
        return []

    @abstractmethod
    def design_notes(self) -> list[str]:
        """Return what a plan says of survey weights and of the unit."""

    # The fit.

    @property
    @abstractmethod
    def encoder(self) -> Any:
        """The encoder of tables, made once."""

    @abstractmethod
    def encode_rows(self, table: object, key: bytes) -> Any:
        """Return what is trained on; ``key``, a secret, chooses the rows of a unit that are used."""

    def kind_of(self, table: object) -> TableKind:
        """Return the kind in which samples come by default."""
        return TableKind()

    @abstractmethod
    def train(
        self,
        rows: Any,
        spends: Sequence[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        monitor: TrainingMonitor,
    ) -> Trained:
        """Train on encoded rows: the one function that reads them, each time through an account of the ledger."""

    # The certificate and the model file.

    def settings(self) -> JsonObject:
        """Return the public settings that a certificate states besides parameters, JSON-ready."""
        return {}

    @abstractmethod
    def public_facts(self, trained: Trained) -> JsonObject:
        """Return the public facts that a certificate states, JSON-ready."""

    def training_facts(self, trained: Trained) -> JsonObject:
        """Return what a certificate states of the training."""
        return {"curves": trained.curves, **trained.reached}

    @abstractmethod
    def configuration(self) -> JsonObject:
        """Return what rebuilds an untrained generator, JSON-ready."""

    def binding(self) -> JsonObject:
        """Return what a checkpoint of this fit must agree in besides parameters, JSON-ready."""
        return {"schema": self.schema.fingerprint(), "config": self.configuration()}

    # The model file.

    def code_width(self) -> int:
        """Return the width of the codes of all columns, known before the encoder is made."""
        return 0

    @abstractmethod
    def size(self) -> int:
        """Return the number of weights that a generator of the configuration has at least."""

    @abstractmethod
    def make_empty(self) -> Any:
        """Make an untrained generator, for the weights of a file."""

    def restore(
        self, facts: JsonObject, tensors: dict[str, Tensor], path: object
    ) -> FittedModel[Any]:
        """Rebuild the fitted model from the facts and tensors of its file.

        Raises
        ------
        FileFormatError
            If they do not belong together.
        """
        damaged = FileFormatError(f"{path}: the model's facts are damaged or incomplete.")
        try:
            ledger = file_ledger(facts, self.schema, self.epsilon, self.delta)
            statement, seeded = certificate_facts(facts["facts"]), bool(facts["seeded"])
            config = facts["config"]
            kind = facts.get("table")  # older files have none
            table_kind = TableKind() if kind is None else TableKind.from_dict(kind)
            # An untrusted file must not make us build more than it holds: neither codebooks …
            weight_count = sum(tensor.numel() for tensor in tensors.values())
            if self.code_width() > weight_count:
                raise damaged
            if statement["public"]["schema_sha256"] != self.schema.fingerprint():
                raise FileFormatError(f"{path}: its schema is not the one that it was fitted with.")
            encoder = self.encoder
            if self.size() > weight_count:  # … nor a network
                raise damaged
            generator = self.make_empty()
            generator.load_state_dict(tensors)
            if not generator.sound():
                raise FileFormatError(
                    f"{path} holds weights that are not probabilities; it is damaged."
                )
        except TabsynthError:
            raise
        except DAMAGES:
            raise damaged from None
        return self.model_class(
            method=self.name,
            generator=generator.to(self.device).eval(),
            curves={},
            rows=file_rows(facts, damaged),
            population=Population.from_facts(facts, damaged),
            encoder=encoder,
            config=config,
            table_kind=table_kind,
            ledger=ledger,
            facts=statement,
            seeded=seeded,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TableMethod(Method):
    """A method for single tables.

    Attributes
    ----------
    schema : Schema
    network_encoding : str or dict
    public : DataFrame, optional
        A table of the same schema that somebody declares public.
    public_source : str, optional
        Where it comes from and why it is public.
    """

    no_design: ClassVar[tuple[str, ...]] = ("weight", "unit")  # what of a design it does not take

    schema: Schema
    network_encoding: str | Mapping[str, str] = "one-hot"
    public: Any = None
    public_source: str | None = None

    @cached_property
    def encoder(self) -> TableEncoder:
        """The encoder of tables, made once."""
        return TableEncoder(self.schema, self.network_encoding)

    @cached_property
    def public_index(self) -> np.ndarray | None:
        """Category codes of the public table that training uses, shape (rows, columns); None without one."""
        if self.public is None:
            return None
        index = self.encoder.to_index(to_pandas(self.public, "public table"), "public table")
        refuse_no_rows(len(index), "public table")
        return index

    def check(self) -> None:
        """Refuse settings that cannot be used."""
        for what in (name for name in self.no_design if getattr(self.schema, name) is not None):
            raise InputError(
                f"Method {self.name} does not take a schema with a {what}; take {quote(getattr(self.schema, what))} out"
                " of it, or fit margnet."
            )
        self._check_source()
        self.check_settings()
        _ = self.public_index  # refused before any spending
        if self.schema.has_rules:
            _ = CodeRules(self.schema).merged_rules  # refuses what cannot be held

    def _check_source(self) -> None:
        """Refuse a public table whose source nobody states, and a source without a table.

        No private row is read: that the public table is public is the declaration of whoever names its source.
        A comparison with the private rows that is not charged would reveal whether a record is among them.
        """
        source = self.public_source
        if self.public is None and source is not None:
            raise InputError("public_source= goes with a public table: give public=.")
        if self.public is not None and not (isinstance(source, str) and source.strip()):
            raise InputError(
                "A public table needs public_source: say in a line where it comes from and why it is"
                f" public; got public_source={quote(source)}."
            )

    def check_settings(self) -> None:
        """Refuse settings of the method that cannot be used."""

    def check_identifiers(self) -> None:
        """Refuse drafted columns that identify people or records."""
        check_identifiers(self.schema)

    def design_notes(self) -> list[str]:
        """Return what a plan says of survey weights and of the unit."""
        return design_notes(self.schema.design)

    def encode_rows(self, table: object, key: bytes) -> PrivateRows:
        """Return category codes, shape (n, columns), with weights and units where these are declared."""
        if isinstance(table, RowCounter):
            raise InputError(f"Method {self.name} needs rows; only margnet is fitted to counts.")
        drafted = self.schema.released is not None
        frame = conform(table, self.schema) if drafted else to_pandas(table)
        return self.encoder.to_rows(frame, key)

    def kind_of(self, table: object) -> TableKind:
        """Return the kind in which samples come by default."""
        return TableKind.of(table)

    def code_width(self) -> int:
        """Return the width of the one-hot codes, each of which the last layer has a weight for."""
        return one_hot_width(self.schema.learned, self.network_encoding)

    def public_table_facts(self) -> JsonObject | None:
        """Return what a certificate says of the public table: its rows, a hash of its category codes, and its source."""
        index = self.public_index
        if index is None:
            return None
        digest = hashlib.sha256(np.ascontiguousarray(index, dtype="<i8").tobytes()).hexdigest()
        return {
            "rows": len(index),
            "sha256_of_value_numbers": digest,
            "provenance": self.public_source,
            "overlap": "declined: not counted",
        }

    def public_facts(self, trained: Trained) -> JsonObject:
        """Return the public facts that a certificate states, JSON-ready."""
        schema = self.schema
        columns = schema.generated_columns
        released = [c.name for c in schema.columns if c.provenance == "released"]
        drafts = (schema.released or {}).get("mechanisms", ())
        of_schema = sorted({str(item["purpose"]) for item in drafts})
        names = {c.name for c in columns}
        unread = [name for name in schema.names if name not in names]
        return {
            "schema_sha256": schema.fingerprint(),
            "declared": [c.name for c in columns if c.provenance == "declared"],
            "drafted": list(schema.drafted),
            **({"released": released} if released else {}),
            **({"schema_mechanisms": of_schema} if of_schema else {}),
            **unchanged_facts(schema.unchanged_facts),
            "left_out": [*schema.names_left_out, *unread],
            "sources": {
                c.name: c.source for c in columns if c.provenance == "declared" or c.source
            },
            "accepted_drafted_domain": bool(schema.drafted) and self.accept_drafted_domain,
            "rows": None if self.rows is None else int(self.rows),
            **({"design": schema.design.statement()} if schema.design else {}),
            "public_table": self.public_table_facts(),
        }

    def binding(self) -> JsonObject:
        """Return what a checkpoint of this fit must agree in besides parameters, JSON-ready."""
        encoding = self.network_encoding
        return {
            **super().binding(),
            "encoding": encoding if isinstance(encoding, str) else dict(encoding),
            "public_table": self.public_table_facts(),
        }
