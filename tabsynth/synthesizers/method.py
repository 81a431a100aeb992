"""The method of a fit: a frozen value of a schema and settings that plans mechanisms, trains, and is read from a file.

A new synthesizer derives a class from :class:`TableMethod`, and an estimator that makes it.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth._typing import JsonObject
from tabsynth._validate import one_of, quote
from tabsynth.design import Design
from tabsynth.drafting.drafts import identifying
from tabsynth.encoding.holding import CodeRules
from tabsynth.encoding.rows import PrivateRows
from tabsynth.encoding.table import TableEncoder
from tabsynth.errors import FileFormatError, InputError, TabsynthError
from tabsynth.privacy.accounting.accountants import RENYI
from tabsynth.privacy.accounting.mechanisms import Mechanism
from tabsynth.privacy.certificate.certificate import MOST_NAMED, unchanged_facts
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.conforming import conform
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.schema import Schema, refuse_no_rows
from tabsynth.synthesizers.model import (
    FittedModel,
    Population,
    Trained,
    certificate_facts,
    file_ledger,
    file_rows,
    one_hot_width,
)
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import TableKind, to_pandas
from tabsynth.training.loop import TrainingMonitor

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


class WarmStart(Protocol):
    """A fitted synthesizer from which another one starts."""

    method: ClassVar[str]
    ledger_: Ledger
    seeded_: bool
    model_: FittedModel[Any]


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
        unnamed = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        raise InputError(
            "The schema has drafted columns that seem to identify people or records:"
            f" {', '.join(named[:MOST_NAMED])}{unnamed}. Draft the schema again, which leaves them out, take"
            " them out of it, or declare them by hand if they may be learned."
        )


def check_public_source(public: object, public_source: object) -> None:
    """Refuse a public table whose source nobody states."""
    if public is not None and not (isinstance(public_source, str) and public_source.strip()):
        raise InputError(
            "A public table needs public_source: say in a line where it comes from and why it is"
            f" public; got public_source={quote(public_source)}."
        )


def check_table_schema(schema: Schema | LinkedSchema) -> Schema:
    """Return the schema of a single table; refuse a linked one."""
    if not isinstance(schema, Schema):
        raise InputError(f"Expected schema to be a Schema, got {type(schema).__name__}.")
    return schema


def public_codes(encoder: TableEncoder, public: object) -> np.ndarray | None:
    """Return the category codes of a public table, shape (rows, columns); None without one."""
    if public is None:
        return None
    index = encoder.to_index(to_pandas(public, "public table"), "public table")
    refuse_no_rows(len(index), "public table")
    return index


def describe_public_table(index: np.ndarray) -> JsonObject:
    """Return the number of rows of a public table, and a hash of its category codes."""
    digest = hashlib.sha256(np.ascontiguousarray(index, dtype="<i8").tobytes()).hexdigest()
    return {"rows": len(index), "sha256_of_value_numbers": digest}


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
            " noise is scaled to that, and rows beyond are left out without being counted (--count bounded)"
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
    warm_start : Synthesizer, optional
        The fitted synthesizer that training starts from.
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
    warm_start: WarmStart | None = None

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

    def with_sources(self, spends: list[JsonObject]) -> list[JsonObject]:
        """Return earlier spends with those of other sources of the fit, such as a warm start."""
        return spends

    def free_steps(self) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row."""
        return {}

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
        return {"curves": trained.curves}

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
    """A method for single tables."""

    no_design: ClassVar[tuple[str, ...]] = ("weight", "unit")  # what of a design it does not take

    schema: Schema
    network_encoding: str | Mapping[str, str] = "one-hot"

    @cached_property
    def encoder(self) -> TableEncoder:
        """The encoder of tables, made once."""
        return TableEncoder(self.schema, self.network_encoding)

    @cached_property
    def public_index(self) -> np.ndarray | None:
        """Category codes of the public table that training uses."""
        return None

    def check(self) -> None:
        """Refuse settings that cannot be used."""
        for what in (name for name in self.no_design if getattr(self.schema, name) is not None):
            raise InputError(
                f"Method {self.name} does not take a schema with a {what}; take {quote(getattr(self.schema, what))} out"
                " of it, or fit margnet."
            )
        self.check_settings()
        if self.schema.has_rules:
            _ = CodeRules(self.schema).merged_rules  # refuses what cannot be held

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
        """Return what a certificate says of the public table: its rows, and a hash of its category codes."""
        public = self.public_index
        return None if public is None else describe_public_table(public)

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
            "sources": {c.name: c.source for c in columns if c.provenance == "declared"},
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
