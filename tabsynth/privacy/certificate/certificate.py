"""Certificates: what a table's maker claims about it, in a form that a machine can check.

What every fit of a method must charge is part of its registration (:mod:`tabsynth.methods`), by the purpose of an account. Settings and
public facts that a certificate states (a private autoencoder, released columns, declared tables) require theirs. The
stated plan requires all that was spent before it was made, and all that it grants: each mechanism with its noise and
its number of uses. In certificates without a plan, options that nothing states (scores of pairs, an earlier fit) may have
added mechanisms; those are not required, because their absence cannot be distinguished from an option that was not used.

A complete list is consistent with the method. It does not prove that the listed mechanisms ran as listed.
"""

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tabsynth._files import read_json, sha256, write_text
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import list_first, quote
from tabsynth.design import UNCHANGED, Design, design_from
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.accounting.mechanisms import (
    LAPLACE,
    NoisyVote,
    NoPrivacy,
    finite,
    mechanism_from,
)
from tabsynth.privacy.certificate.completeness import check_complete, section
from tabsynth.privacy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


# What the cost of a mechanism follows from.
PACKAGES = ("tabsynth", "torch", "opacus", "numpy", "scipy", "pandas")
# How mechanisms are composed, by the name of the accountant.
COMPOSITIONS = {
    "PRV": "adaptive, by privacy loss random variables (Gopi, Lee, Wutschitz 2021)",
    "PLD": "adaptive, by privacy loss distributions (Doroshenko et al. 2022)",
    "RDP": "adaptive, by Rényi differential privacy (Mironov 2017; Balle et al. 2020)",
    "exact Gaussian": "adaptive, of Gaussian mechanisms, exact (Dong, Roth, Su 2022)",
    "Rényi filter": "fully adaptive, by a privacy filter of one Rényi order that follows from the epsilon asked for"
    " (Feldman, Zrnic 2021; Lécuyer 2021); it holds if that epsilon was chosen before the first of these"
    " mechanisms ran",
    "Gaussian filter": "fully adaptive, by a privacy filter of Gaussian mechanisms (Smith, Thakurta 2022); it holds if the"
    " epsilon asked for was chosen before the first of these mechanisms ran",
    "none": "none",
}


# How noise is made: keys, law. Where gradients are summed on a GPU it is made there (tabsynth.training.sums).
EXACT = {
    "generator": "AES-256 in counter mode; its key is the operating system's, or comes from the seed",
    "law": "exactly as accounted for, rounded to a public grid",
    "exact": True,
}
GPU_DISTANCE = 2.0**-13  # in total variation, over a whole fit
ON_GPU = {
    "generator": "of gradients: Philox of torch, on CUDA, no cryptographic generator; of all else: "
    + str(EXACT["generator"]),
    "law": "of gradients: float64 normals rounded to a public grid, which over a whole fit may differ from what"
    " is accounted for by 2^-13 in total variation, and delta does not cover it; of all else: "
    + str(EXACT["law"]),
    "exact": False,
}


def describe_mechanism(item: JsonMapping) -> JsonObject:
    """Return a ledger's line with what follows from it: sampling, sensitivity and noise, each in its unit.

    A ledger counts noise in units of the sensitivity; the sensitivity itself is among the details, where
    the fit wrote it down.
    """
    mechanism = mechanism_from(dict(item))
    details = item.get("details") or {}
    unit = str(details.get("unit", "not stated"))
    if isinstance(mechanism, NoisyVote):
        laplace = mechanism.accounting == LAPLACE
        sampling = "none: a record is in the shard of one teacher"
        sensitivity: float | None = 2.0 if laplace else 1.0
        norm, unit = ("L1" if laplace else "L2"), "votes"
        kind = "Laplace, on each of the two counts" if laplace else "Gaussian"
        deviation: float | None = mechanism.noise * (math.sqrt(2) if laplace else 1.0)
    else:
        rate = mechanism.sampling_rate
        sampling = f"Poisson, rate {rate!r}" if rate < 1 else "none: the whole table"
        norm, sensitivity = "L2", finite(details.get("l2_sensitivity"))
        noiseless = isinstance(mechanism, NoPrivacy)
        kind = "none" if noiseless else "Gaussian"
        deviation = None if sensitivity is None else sensitivity * mechanism.noise_multiplier
    return {
        **item,
        "sampling": sampling,
        "sensitivity": {"norm": norm, "value": sensitivity, "unit": unit},
        "noise_added": {"distribution": kind, "standard_deviation": deviation, "unit": unit},
    }


@lru_cache(maxsize=1)
def code() -> JsonObject:
    """Return the SHA-256 over the package's sources: for each, in order of its path, path, NUL, length, NUL, bytes."""
    root, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    sources = (path for path in root.rglob("*") if path.suffix in (".py", ".pyi"))
    names = sorted(path.relative_to(root).as_posix() for path in sources)
    for name in names:
        data = (root / name).read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return {"sha256": digest.hexdigest(), "files": len(names)}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a fit's figures depend on."""
    return {"python": platform.python_version(), **_package_versions()}


@lru_cache(maxsize=1)
def _package_versions() -> dict[str, str]:
    """Read once in a process: each is a file of the installation."""
    return {name: version(name) for name in PACKAGES}


FORMAT = "tabsynth-certificate/2"
UNCHANGED_FACTS = "unchanged_from_draft"  # of ``public``
USED_RECORDS = "its records in the other tables; at most these were used"
USED_RECORDS_OF_0_2 = "all rows of other tables that hang on it, of which were used"
NAMES_AND_TYPES = "the names and types of the columns"
NAMES_ONLY = "the names of the columns"  # in statements of version 0.2
MOST_NAMED = 20  # columns in a statement; the certificate lists all of them
LEAST = 1e-300  # below it a power of ten has no four digits
# What every table of this library has in common; a reader of other tables' certificates must be told.
ALIKE = {"variant": "(epsilon, delta)-differential privacy", "trust_model": "central"}


def make_certificate(
    ledger: Ledger, facts: JsonMapping, *, method: str, seeded: bool
) -> JsonObject:
    """Return the certificate of everything that ``ledger`` has spent; JSON-ready.

    Parameters
    ----------
    ledger : Ledger
        Its budget is the epsilon that was asked for.
    facts : mapping
        The fields ``public``, ``versions`` and ``training``, and optionally ``settings``, ``plan``, ``code``, ``noise`` and
        ``project``. ``certificate.schema.json`` describes them. ``training`` follows from privatised state alone.
    method : str
    seeded : bool
    """
    public, noise = facts["public"], facts.get("noise")
    epsilon = ledger.spent
    accountant = ledger.accountant()
    bounds = ledger.attack_bounds(inexact_by(noise))
    if seeded or (bounds is not None and math.isinf(bounds.odds)):  # of an ε above some 700
        bounds = None
    conditional = conditional_of(public)
    return {
        "format": FORMAT,
        "statement": statement_of(epsilon, ledger.delta, seeded, public),
        "private": math.isfinite(epsilon) and not seeded and not conditional,
        "conditional": conditional,
        "method": method,
        **_optional(facts, "settings"),
        "epsilon": epsilon_to_json(epsilon),
        "epsilon_asked": epsilon_to_json(ledger.epsilon),
        "delta": ledger.delta,
        **({} if bounds is None else {"attacker": bounds.to_dict()}),
        **ALIKE,
        **protected_by(public),
        "accountant": accountant,
        "composition": COMPOSITIONS[accountant["name"]],
        "mechanisms": [describe_mechanism(item) for item in ledger.to_list()],
        **_optional(facts, "plan"),
        "public": public,
        "seeded": seeded,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": facts["versions"],
        "code": facts.get("code"),
        "noise": noise,
        "training": facts["training"],
        **_optional(facts, "project"),
        "audit": [],
    }


def _optional(facts: JsonMapping, name: str) -> JsonObject:
    return {name: facts[name]} if facts.get(name) is not None else {}


def inexact_by(noise: object) -> float:
    """Return the total variation distance of a fit's noise from the noise that is accounted for; ``noise`` is that part."""
    return GPU_DISTANCE if isinstance(noise, Mapping) and noise.get("exact") is False else 0.0


def design_of(public: object) -> Design:
    """Return the weight and the unit that ``public``, that part of a certificate, declares.

    Raises
    ------
    InputError
        If they are none.
    """
    declared = public.get("design") if isinstance(public, Mapping) else None
    return Design(**design_from(declared if isinstance(declared, Mapping) else {}))


def protected_by(public: object, *, records: str = USED_RECORDS) -> dict[str, str]:
    """Return which tables are neighbours, and the unit of privacy, in words: a row, or a unit with a bounded number of rows.

    ``records``: the words for what belongs to a row of the root of linked tables.
    """
    design = design_of(public)
    unit = "one row of the fitted table"
    if design.unit is not None:
        unit = (
            f"all rows of the fitted table with one value of column {quote(design.unit)}; at most {design.rows} of them"
            " were used, and rows beyond were left out"
        )
    tables = public.get("tables") if isinstance(public, Mapping) else None
    if isinstance(tables, Mapping) and tables:
        unit = _unit_of_tables(tables, records)
    return {"adjacency": design.adjacency, "privacy_unit": unit}


def neighbour_in(public: object) -> str:
    """Return what only one of two neighbouring tables has, in words, by that part of a certificate."""
    tables = public.get("tables") if isinstance(public, Mapping) else None
    if isinstance(tables, Mapping) and tables:
        return f"one row of table {quote(_root_of(tables))} with its records in the other tables"
    return design_of(public).neighbour


def _root_of(tables: JsonMapping) -> str:
    """Return the table without a parent."""
    roots = (t for t in tables if section(tables, t).get("parent") is None)
    return str(next(roots, next(iter(tables))))


def _unit_of_tables(tables: JsonMapping, records: str) -> str:
    """Return the unit of linked tables in words."""
    root = _root_of(tables)
    bounds = [
        f"of table {name} the first {section(tables, name).get('max_children')} rows of each row of"
        f" {section(tables, name).get('parent')}"
        for name in tables
        if name != root
    ]
    return f"one row of table {root} with {records}: {'; '.join(bounds)}"


def conditional_of(public: object) -> list[str]:
    """Return the columns on which a claim depends: those whose facts were copied from the rows of a table.

    ``public`` is that part of a certificate. Bounds of a numeric column are such facts as categories are.
    """
    drafted = public.get("drafted") if isinstance(public, Mapping) else None
    return list(map(str, drafted)) if isinstance(drafted, list | tuple) else []


def condition(names: Sequence[str]) -> str:
    """Return what a conditional claim depends on, in a clause: "what the schema says of … is public"."""
    return f"what the schema says of {_named_columns(names)} is public"


def _named_columns(names: Sequence[str]) -> str:
    """Return columns in words, at most :data:`MOST_NAMED` by name."""
    return f"column{'s' * (len(names) > 1)} {list_first(map(quote, names), MOST_NAMED)}"


def unchanged_facts(facts: Mapping[str, Sequence[str]]) -> JsonObject:
    """Return the entry of ``public`` on declared facts that stand as a draft read them off rows; nothing without."""
    return {UNCHANGED_FACTS: dict(facts)} if facts else {}


def unchanged_of(public: object) -> str:
    """Return the sentence on declared facts that stand as a draft read them off rows; empty where there are none."""
    facts = public.get(UNCHANGED_FACTS) if isinstance(public, Mapping) else None
    if not isinstance(facts, Mapping) or not facts:
        return ""
    return (
        f"Facts of {_named_columns([*map(str, facts)])} are {UNCHANGED}: no epsilon covers them, and whoever declared them vouches"
        " that they are public."
    )


def statement_of(
    epsilon: float, delta: float, seeded: bool, public: object, *, names: str = NAMES_AND_TYPES
) -> str:
    """Return the claim in a sentence. One that depends on drafted columns begins with ``CONDITIONAL``.

    ``names``: what is public of columns that a private draft released.
    """
    if math.isinf(epsilon):
        return "Not private: private rows were read without noise, so epsilon is infinite."
    what = design_of(public).neighbour
    claim = f"({rounded_up(epsilon)}, {delta:g})-differential privacy for adding or removing {what}"
    if seeded:
        return (
            f"Not private: seeded. Without the seed this would be {claim}; whoever knows the seed"
            " can reproduce the noise and subtract it."
        )
    unchanged = f" {text}" if (text := unchanged_of(public)) else ""
    drafted = conditional_of(public)
    if drafted:
        return (
            f"CONDITIONAL: {claim} holds only if {condition(drafted)}. It was copied from the rows of a"
            f" table, and these real values appear as they are.{unchanged}"
        )
    listed: JsonMapping = public if isinstance(public, Mapping) else {}
    schema = names if listed.get("released") and not listed.get("declared") else "the schema"
    return (
        f"Private: {claim}, if {schema} and all else listed under 'public' are public.{unchanged}"
    )


def rounded_up(epsilon: float, digits: int = 4) -> str:
    """Return ε to four digits, never rounded down: a claim may not shrink in print."""
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    epsilon = max(epsilon, LEAST)
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - digits + 1)
    return f"{math.ceil(epsilon / unit - 1e-9) * unit:.{digits}g}"


def interrupted_claim(epsilon: float, project: JsonMapping | None) -> str:
    """Return a clause on what an interrupted fit claims, and on what its project's ledger counts.

    ``project``: what a certificate states of the ledger. It has a privacy filter, which covers what was charged whenever
    the fit ended; the accountant of a single fit covers the whole plan only.
    """
    claim = (
        f"it claims epsilon={rounded_up(epsilon)}, that of its whole plan, because the moment of an interruption may depend on"
        " what a person saw"
    )
    if project is None:
        return claim
    return (
        f"{claim}; ledger {project['ledger']} counts the uses that were charged, and {project['share']:.1%} of its"
        " budget is used"
    )


def epsilon_to_json(value: float) -> float | str:
    """Return an epsilon for JSON, which has no infinity: it is written ``"inf"``."""
    return "inf" if math.isinf(value) else value


def beside(table: str | Path) -> Path:
    """Return the path of a table's certificate, which lies beside the table."""
    return Path(f"{table}.certificate.json")


def write_beside(
    certificate: JsonMapping,
    table: str | Path,
    rows: int,
    key: "Ed25519PrivateKey | None" = None,
) -> Path:
    """Write the certificate of a table that was just written, with the table's SHA-256; signed by ``key``."""
    entry = {"file": Path(table).name, "sha256": sha256(table), "rows": rows}
    return _write({**certificate, "table": entry}, beside(table), key)


def certify(
    table: str | Path,
    audits: Sequence[JsonMapping] = (),
    key: "Ed25519PrivateKey | None" = None,
    expires: date | None = None,
) -> Path:
    """Add results of audits to the certificate beside a table, and sign it.

    ``expires``: the last day on which the signature holds; by default that of the certificate, if it has one.

    Raises
    ------
    InputError
        If nothing is to be done, the certificate is signed and there is no key to sign it again, or a
        certificate is to be signed whose list of mechanisms is empty or incomplete.
    FileFormatError
        If an audit lacks a field, or has one that is none; see ``certificate.schema.json``.
    """
    path = beside(table)
    data = read_certificate(path)
    if not audits and key is None:
        raise InputError(
            "Nothing to certify: give results of an audit, a key to sign with, or both."
        )
    if "signature" in data and key is None:
        raise InputError(f"{path} is signed; give key= to sign it again.")
    data.pop("signature", None)
    data["audit"] = [*data["audit"], *map(dict, audits)]
    if expires is not None:
        if key is None:
            raise InputError("An expiry is of a signature; give key= to sign with.")
        if expires < datetime.now(UTC).date():
            raise InputError(f"The expiry {expires.isoformat()} is over; give a day to come.")
        data["expires"] = expires.isoformat()
    check_form(data, path)
    return _write(data, path, key)


def _write(data: JsonObject, path: Path, key: "Ed25519PrivateKey | None") -> Path:
    if key is not None:
        from tabsynth.privacy.certificate.signing import sign

        check_complete(data, str(path))
        data = sign(data, key)
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n", overwrite=True)
    return path


def read_certificate(path: str | Path) -> JsonObject:
    """Read a certificate; refuses what is not one."""
    file = Path(path)
    data = read_json(file, "certificate")
    version = data.get("format") if isinstance(data, dict) else type(data).__name__
    if not isinstance(data, dict) or version != FORMAT:
        raise FileFormatError(f"{file}: expected format {FORMAT!r}, got {quote(version)}.")
    check_form(data, file)
    return data


@lru_cache(maxsize=1)
def schema() -> JsonObject:
    """Return the JSON Schema (2020-12) of a certificate."""
    return dict(json.loads(Path(__file__).with_name("certificate.schema.json").read_text("utf-8")))


def check_form(data: JsonMapping, path: Path) -> None:
    """Refuse what the schema does not allow.

    Raises
    ------
    FileFormatError
        Naming the first field that is wrong.
    """
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(schema()).iter_errors(data):
        place = ".".join(map(str, error.absolute_path)) or "its fields"
        message = " ".join(error.message.split())  # it holds values as ``repr``
        message = message if len(message) < 160 else f"… {message[-150:]}"
        raise FileFormatError(f"{path}: {quote(place, 80)}: {message}.")
