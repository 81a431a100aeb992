"""The material of a dossier: tables with their certificates, the schema, the answers and the published report, all checked."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabsynth._files import read_json
from tabsynth._validate import quote
from tabsynth.dossier.answers import Answers
from tabsynth.errors import FileFormatError, InputError
from tabsynth.evaluation.claims import items_of, section_of
from tabsynth.privacy.accounting.accountants import NAMES, PrivacyFilter
from tabsynth.privacy.accounting.attackers import AttackBounds, attack_bounds, claimed_bounds
from tabsynth.privacy.accounting.mechanisms import check_listed, mechanism_from
from tabsynth.privacy.certificate.certificate import (
    UNCHANGED_FACTS,
    beside,
    condition,
    conditional_of,
    design_of,
    inexact_by,
    neighbour_in,
    rounded_up,
    statement_of,
)
from tabsynth.privacy.certificate.verification import State, Verification, verify
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.report.certificates import relations
from tabsynth.report.published import FORMAT as PUBLISHED
from tabsynth.schema.column import Column
from tabsynth.schema.linked import LinkedSchema, TableKeys, read_schema
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import TEXT, read_any

WHOLE = r"-?\d{1,18}"
LOOSE = 1e-4  # by which another build may exceed the ε of a report
# Fields of a certificate that differ between tables of one sample.
OWN = ("table", "signature", "audit", "expires")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A synthetic table: its file, its certificate, and what the schema says of its columns.

    Attributes
    ----------
    file : Path
    verification : Verification
        Of its certificate.
    header : tuple of str
        The names of its columns.
    whole : frozenset of str
        Columns of whole numbers that the schema does not list, such as keys.
    schema : Schema
    keys : TableKeys or None
        Of one of several linked tables.
    """

    file: Path
    verification: Verification
    header: tuple[str, ...]
    whole: frozenset[str] = frozenset()
    schema: Schema
    keys: TableKeys | None = None

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.file.name

    @property
    def stem(self) -> str:
        """The name of the file without its suffixes: of linked tables the name of the table."""
        return self.name.split(".")[0] or self.name

    @property
    def rows(self) -> int:
        """The number of rows that the certificate says and ``verify`` counts."""
        return int(self.verification.certificate["table"]["rows"])

    @property
    def sha256(self) -> str:
        """The SHA-256 that the certificate says and ``verify`` computes."""
        return str(self.verification.certificate["table"]["sha256"])

    @property
    def is_text(self) -> bool:
        """True for a file of delimited text that is not packed."""
        return self.file.suffix.lower() in TEXT

    def column(self, name: str) -> Column | None:
        """Return what the schema says of a column; None of keys and weights."""
        return self.schema[name] if name in self.schema.names else None

    def role(self, name: str) -> str:
        """Return what a column is that the schema does not list, in words."""
        keys = self.keys
        if keys is not None and name in keys.parent_columns:
            return f"Key of the row of table {keys.parent} that the row belongs to, made up."
        if keys is not None and name in keys.key_columns:
            return "Key of this table, made up."
        if keys is not None and name in (keys.inherited or ()):
            return "Key of the row of a table further up that the row belongs to, made up."
        if keys is not None and name == keys.order:
            return "Number of the row among those of one parent."
        return "Weight: how many members of the population the row stands for."


@dataclass(frozen=True, kw_only=True)
class Material:
    """All of it. The first table's certificate states the claim; the others state the same.

    Attributes
    ----------
    tables : tuple of Table
    schema : Schema or LinkedSchema
    answers : Answers
    report : dict or None
        The published report, as its file has it.
    """

    tables: tuple[Table, ...]
    schema: Schema | LinkedSchema
    answers: Answers
    report: Mapping[str, Any] | None = None

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The claim."""
        return self.tables[0].verification.certificate

    @property
    def public(self) -> Mapping[str, Any]:
        """The facts that the certificate says are public."""
        return section_of(self.certificate, "public")

    @property
    def unit(self) -> str:
        """The privacy unit in a few words: what people call it, and what it is in the table."""
        keys = section_of(self.public, "tables")
        design = design_of(self.public)
        if keys:
            inside = neighbour_in(self.public)
        elif design.unit is not None:
            inside = f"all rows of one {quote(design.unit)}, at most {design.rows} of them"
        else:
            inside = "one row of the table"
        return f"{self.answers.unit} ({inside})"

    @property
    def by_row(self) -> bool:
        """True where single rows are protected, so that units of several rows have a weaker guarantee."""
        return isinstance(self.schema, Schema) and design_of(self.public).unit is None

    @property
    def bounds(self) -> AttackBounds:
        """The bounds on an attacker by everything in the dossier together: under the conditions of :attr:`total`."""
        if self.report is None:
            bounds = self.tables[0].verification.bounds
            assert bounds is not None  # of a finite epsilon
            return bounds
        epsilon, delta = self.total
        items = [*self.certificate["mechanisms"], *self.report["mechanisms"]]
        spends = [(mechanism_from(item), int(item["count"])) for item in items]
        kept_by = None
        if self.one_project:
            name = section_of(section_of(self.certificate, "project"), "composition").get("name")
            kind = next(kind for kind, text in NAMES.items() if text == name)
            threshold = section_of(self.certificate, "project").get("threshold_delta", 0.0)
            kept_by = PrivacyFilter.of(epsilon, delta - float(threshold), kind)
        elif any(item.get("earlier") for item in items):
            return claimed_bounds(epsilon, delta)
        bounds = attack_bounds(
            spends, epsilon, delta, kept_by, inexact_by(self.certificate.get("noise"))
        )
        assert bounds is not None
        return bounds

    @property
    def one_project(self) -> bool:
        """True where one project ledger with a limit kept the fit and the report."""
        fit, report = (
            section_of(part or {}, "project") for part in (self.certificate, self.report)
        )
        return bool(fit) and fit.get("project") == report.get("project") and fit["limit"] != "inf"

    @property
    def project(self) -> str:
        """The budget of the project ledger that counted the fit, in words; empty without one."""
        project = section_of(self.certificate, "project")
        if not project:
            return ""
        composition = section_of(project, "composition").get("name")
        return f"({project['limit']}, {project['delta']:g})-differential privacy, kept by a {composition}"

    @property
    def mechanisms(self) -> list[dict[str, str]]:
        """The mechanisms that read confidential rows: ``purpose``, ``mechanism``, ``count``, ``noise`` and ``sampling``."""
        out = []
        for item in items_of(self.certificate["mechanisms"]):
            noise = section_of(item, "noise_added")
            scale = noise.get("standard_deviation")
            added = f", standard deviation {scale:.6g} {noise.get('unit')}" if scale else ""
            texts = {name: str(item[name]) for name in ("purpose", "mechanism", "sampling")}
            texts |= {"count": f"{item['count']:,}", "noise": f"{noise.get('distribution')}{added}"}
            out.append(texts)
        return out

    @property
    def relations(self) -> list[tuple[str, str]]:
        """The relations between columns that the fit measured, and those that follow from its model; none of linked tables."""
        if isinstance(self.schema, LinkedSchema):
            return []
        return relations(self.certificate, self.schema.learned.names)

    @property
    def exclusions(self) -> list[str]:
        """The facts that the guarantee does not protect, in sentences."""
        public = self.public
        out = [
            "The schema of the table: the names of its columns, their categories and bounds. It is taken as public, and it is in"
            " the codebook."
        ]
        conditional = conditional_of(public)
        if conditional:
            out.append(
                f"The claim is conditional: it holds only if {condition(conditional)}. It was copied from the rows of a table."
            )
        rows, left_out = public.get("rows"), public.get("left_out")
        if rows is not None:
            out.append(
                f"The number of rows of the confidential table, {rows:,}: declared as public."
            )
        if left_out:
            out.append(
                f"Columns that were left out, and are in no file: {', '.join(map(str, left_out))}."
            )
        for name, words in (
            ("public_table", "The rows of a table that was declared public and used in training."),
            ("class_shares", "The shares of classes, declared as public."),
            ("warm_start", "A warm start from an earlier fit, whose mechanisms are counted."),
        ):
            if public.get(name):
                out.append(words)
        return [*out, "What holds for people in general, such as how columns are related."]

    @property
    def costs(self) -> dict[str, tuple[float, float]]:
        """(ε, δ) of the tables alone and of the published report alone, if there is one."""
        parts = {"tables": self.certificate, **({"report": self.report} if self.report else {})}
        return {
            name: (float(part["epsilon"]), float(part["delta"])) for name, part in parts.items()
        }

    @property
    def total(self) -> tuple[float, float]:
        """(ε, δ) of everything in the dossier: that of the project's ledger if it kept all, else the sum.

        Sums of (ε, δ) hold where both budgets were fixed before the first was spent.
        """
        if self.report is not None and self.one_project:
            project = section_of(self.certificate, "project")
            return float(project["limit"]), float(project["delta"])
        epsilons, deltas = zip(*self.costs.values(), strict=True)
        return sum(epsilons), sum(deltas)

    @property
    def total_basis(self) -> str:
        """The basis of :attr:`total`, in words."""
        if self.report is None:
            return "the certificate"
        if self.one_project:
            return "the limit of the project ledger that counted both"
        return "the sum, for budgets that were fixed before the first was spent"

    @property
    def statement(self) -> str:
        """The claim for everything in the dossier: the total comes first, then what each part costs alone."""
        if self.report is None:
            return str(self.certificate["statement"])
        costs = [f"({rounded_up(epsilon)}, {delta:g})" for epsilon, delta in self.costs.values()]
        scope = (
            "The limit of the project ledger covers everything in the dossier."
            if self.one_project
            else "The sum covers everything in the dossier, for budgets that were fixed before the first was spent."
        )
        return (
            f"{statement_of(*self.total, False, self.public)} {scope}"
            f" {'The table' if len(self.tables) == 1 else 'The tables'} alone cost{'s' * (len(self.tables) == 1)} {costs[0]}, the"
            f" published figures {costs[1]}."
        )


def gather(
    table: Path, answers: Answers, key: Path | None, *, folder_of_files: Path | None = None
) -> Material:
    """Read and check everything.

    Parameters
    ----------
    table : Path
        A table with its certificate beside it, or a folder of linked tables.
    answers : Answers
    key : Path or None
        The public key of the signer.
    folder_of_files : Path, optional
        A dossier, in which schema and report lie.

    Raises
    ------
    InputError, FileFormatError
        In one line.
    """
    files = certified_files(table)
    verifications = [verify_claim(file, key) for file in files]
    check_one_claim(table, verifications)
    schema_file = (
        answers.schema_file if folder_of_files is None else folder_of_files / "schema.json"
    )
    schema = read_schema(schema_file)
    claim = verifications[0].certificate
    public = section_of(claim, "public")
    if public.get("schema_sha256") != schema.fingerprint():
        raise InputError(
            f"{schema_file} is not the schema of the fit: the certificate of {files[0]} is for another one."
        )
    if public.get(UNCHANGED_FACTS, {}) != schema.unchanged_facts:
        raise InputError(
            f"The certificate of {files[0]} does not name the declared facts that stand unchanged since a draft, as"
            f" {schema_file} lists them; sample the table again."
        )
    tables = _tables(files, verifications, schema)
    report = None
    path = answers.report_file
    if path is not None:
        inside = path if folder_of_files is None else folder_of_files / "report.json"
        report = read_report(inside, tables)
    return Material(tables=tables, schema=schema, answers=answers, report=report)


def certified_files(table: Path) -> list[Path]:
    """Return the tables with a certificate: one, or those of a folder.

    Raises
    ------
    InputError
        If there is none.
    """
    if not table.exists():
        raise InputError(f"{table} is not there; name a synthetic table.")
    if not table.is_dir():
        if not beside(table).exists():
            raise InputError(
                f"{table} has no certificate beside it ({beside(table).name}), so it makes no claim; tabsynth sample writes both."
            )
        return [table]
    ending = beside("").name
    files = [p.with_name(p.name.removesuffix(ending)) for p in sorted(table.glob(f"*{ending}"))]
    if not files:
        raise InputError(f"{table} has no table with a certificate; tabsynth sample writes both.")
    return files


def verify_claim(file: Path, key: Path | None) -> Verification:
    """Return a verification that a release can stand on.

    Raises
    ------
    InputError
        If the certificate is refused, or claims no privacy.
    """
    verification = verify(file, key)
    if verification.problems:
        raise InputError(
            f"{file} does not agree with its certificate: {'; '.join(verification.problems)}."
        )
    if verification.certificate.get("counts"):
        raise InputError(
            f"{file} holds counts, and a dossier is of a synthetic table; publish its certificate with it."
        )
    if verification.state is State.NOT_PRIVATE:
        raise InputError(
            f"{file} claims no privacy: its fit was seeded or read rows without noise; fit it again without."
        )
    return verification


def check_one_claim(table: Path, verifications: list[Verification]) -> None:
    """Refuse tables whose certificates are not of one sample of one fit.

    Raises
    ------
    InputError
    """
    claims = {
        json.dumps({k: v for k, v in item.certificate.items() if k not in OWN}, sort_keys=True)
        for item in verifications
    }
    if len(claims) > 1:
        raise InputError(
            f"The tables of {table} have certificates of different fits; release them one by one."
        )


def _tables(
    files: list[Path], verifications: list[Verification], schema: Schema | LinkedSchema
) -> tuple[Table, ...]:
    tables = []
    for file, verification in zip(files, verifications, strict=True):
        declared, keys = schema, None
        if isinstance(schema, LinkedSchema):
            name = file.name.split(".")[0]
            if name not in schema.names:
                raise InputError(f"{file} is none of the tables of the schema.")
            declared, keys = schema.tables[name], schema.keys[name]
        assert isinstance(declared, Schema)
        frame = read_any(file)
        tables.append(
            Table(
                file=file,
                verification=verification,
                header=tuple(map(str, frame.columns)),
                whole=frozenset(
                    str(name)
                    for name, values in frame.items()
                    if name not in declared.names and values.astype(str).str.fullmatch(WHOLE).all()
                ),
                schema=declared,
                keys=keys,
            )
        )
    if isinstance(schema, LinkedSchema):
        missing = sorted({*schema.names} - {table.stem for table in tables})
        if missing:
            raise InputError(
                f"Of the linked tables, {', '.join(missing)} has no certified file; sample all of them."
            )
        tables.sort(key=lambda table: schema.names.index(table.stem))
    return tuple(tables)


def read_report(path: Path, tables: tuple[Table, ...]) -> Mapping[str, Any]:
    """Return a published report, whose figures of private rows have noise, of the table that is released.

    Raises
    ------
    InputError
        If it is a confidential report, or one of another table, or claims less than its mechanisms cost.
    """
    data = read_json(path, "published report")
    if not isinstance(data, dict) or data.get("format") != PUBLISHED:
        raise InputError(
            f"{path} is no report that may be published: only those of tabsynth evaluate --epsilon have noise."
        )
    try:
        epsilon, delta, items = float(data["epsilon"]), float(data["delta"]), data["mechanisms"]
        of = section_of(section_of(data, "certificate"), "table").get("sha256")
        texts = [*data["summary"], data["statement"], *data["warnings"]]
        metrics = [(m["title"], m["synthetic"], m["baseline"]) for m in data["metrics"]]
        if not all(isinstance(text, str) for text in [*texts, *(title for title, *_ in metrics)]):
            raise TypeError
        check_listed(items)
        ledger = Ledger.from_list(math.inf, delta, items)
        releases = sum(count for _, count in ledger.spends())
        # The rows that break the schema are counted in the synthetic table alone.
        noisy = [m for m in data["metrics"] if m["key"] != "violations"]
        figures = sum(1 + (m["baseline"] is not None) for m in noisy)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileFormatError(f"{path} is not a complete published report.") from None
    if of not in {table.sha256 for table in tables}:
        raise InputError(
            f"{path} is the report of another table ({quote(of, 80)}); evaluate this one."
        )
    if releases < figures:
        raise InputError(
            f"{path} shows {figures} noisy figures, and its mechanisms release {releases}; it is not published."
        )
    if not math.isfinite(epsilon) or ledger.spent > epsilon * (1 + LOOSE):
        raise InputError(
            f"{path} claims epsilon={epsilon:.4g}, and its mechanisms give {ledger.spent:.4g}; it is not published."
        )
    return data
