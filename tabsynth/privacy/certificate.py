"""What a table's maker claims about it, in a form that a machine can check."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth._files import read_json, sha256, write_text
from tabsynth._validate import shown
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.completeness import incomplete
from tabsynth.privacy.described import COMPOSITIONS, described
from tabsynth.privacy.ledger import Ledger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT, BEFORE = "tabsynth-certificate/2", "tabsynth-certificate/1"
MOST_NAMED = 20  # columns in a statement; the certificate lists all of them
ADJACENCY = "add or remove one record"
LEAST = 1e-300  # below it a power of ten has no four digits
# What every table of this library has in common; a reader of other tables' certificates must be told.
ALIKE = {
    "variant": "(epsilon, delta)-differential privacy",
    "adjacency": ADJACENCY,
    "privacy_unit": "one row of the fitted table",
    "trust_model": "central",
}


def make_certificate(
    ledger: Ledger,
    *,
    method: str,
    epsilon_asked: float,
    seeded: bool,
    public: dict[str, Any],
    versions: dict[str, str],
    training: dict[str, Any],
    project: dict[str, Any] | None = None,
    code: dict[str, Any] | None = None,
    noise: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The certificate of everything that ``ledger`` has spent; JSON-ready.

    ``public`` says what was taken as public and from where; ``training`` holds only what follows from
    privatised state (post-processing); ``code`` is the hash of the code that fitted; ``noise`` says how noise
    was made; ``settings`` says which of its ways the method went; ``project`` is what a project's ledger states of all fits under it. What each field means is in ``certificate.schema.json``.
    """
    epsilon = ledger.spent
    accountant = ledger.accountant()
    conditional = conditional_of(public)
    return {
        "format": FORMAT,
        "method": method,
        **({} if settings is None else {"settings": settings}),
        "private": math.isfinite(epsilon) and not seeded and not conditional,
        "conditional": conditional,
        "statement": statement_of(epsilon, ledger.delta, seeded, public),
        "epsilon": number(epsilon),
        "epsilon_asked": number(epsilon_asked),
        "delta": ledger.delta,
        **ALIKE,
        "accountant": accountant,
        "composition": COMPOSITIONS[accountant["name"]],
        "mechanisms": [described(item) for item in ledger.to_list()],
        "public": public,
        "seeded": seeded,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions,
        "code": code,
        "noise": noise,
        "training": training,
        **({} if project is None else {"project": project}),
        "audit": [],
    }


def conditional_of(public: Any) -> list[str]:
    """The columns on which a claim depends: those whose facts were copied from the rows of a table.

    ``public`` is that part of a certificate. Bounds of a numeric column are such facts as categories are.
    """
    drafted = public.get("drafted") if isinstance(public, Mapping) else None
    return list(map(str, drafted)) if isinstance(drafted, list | tuple) else []


def condition(names: Sequence[str]) -> str:
    """What a conditional claim depends on, in a clause: "what the schema says of … is public"."""
    listed = ", ".join(map(shown, names[:MOST_NAMED]))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"what the schema says of {'columns' if len(names) > 1 else 'column'} {listed}{more} is public"


def statement_of(epsilon: float, delta: float, seeded: bool, public: Any) -> str:
    """The claim in a sentence. One that depends on drafted columns begins with ``CONDITIONAL``."""
    if math.isinf(epsilon):
        return "Not private: private rows were read without noise, so epsilon is infinite."
    claim = (
        f"({rounded_up(epsilon)}, {delta:g})-differential privacy for adding or removing one record"
    )
    if seeded:
        return (
            f"Not private: seeded. Without the seed this would be {claim}; whoever knows the seed"
            " can reproduce the noise and subtract it."
        )
    drafted = conditional_of(public)
    if drafted:
        return (
            f"CONDITIONAL: {claim} holds only if {condition(drafted)}. It was copied from the rows of a"
            " table, and these real values appear as they are."
        )
    return f"Private: {claim}, if the schema and all else listed under 'public' are public."


def rounded_up(epsilon: float, digits: int = 4) -> str:
    """ε to four digits, never rounded down: a claim may not shrink in print."""
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    epsilon = max(epsilon, LEAST)
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - digits + 1)
    return f"{math.ceil(epsilon / unit - 1e-9) * unit:.{digits}g}"


def number(value: float) -> float | str:
    """JSON has no infinity: it is written ``"inf"``."""
    return "inf" if math.isinf(value) else value


def beside(table: str | Path) -> Path:
    """Where the certificate of a table lies: beside it."""
    return Path(f"{table}.certificate.json")


def write_beside(
    certificate: Mapping[str, Any],
    table: str | Path,
    rows: int,
    key: "Ed25519PrivateKey | None" = None,
) -> Path:
    """Write the certificate of a table that was just written, with the table's SHA-256; signed by ``key``."""
    entry = {"file": Path(table).name, "sha256": sha256(table), "rows": rows}
    return _write({**certificate, "table": entry}, beside(table), key)


def certify(
    table: str | Path,
    audits: Sequence[Mapping[str, Any]] = (),
    key: "Ed25519PrivateKey | None" = None,
) -> Path:
    """Add results of audits to the certificate beside a table, and sign it.

    Raises
    ------
    InputError
        If nothing is to be done, the certificate is signed and there is no key to sign it anew, or a
        certificate is to be signed whose list of mechanisms is empty or incomplete.
    FileFormatError
        If an audit lacks a field, or has one that is none; see ``certificate.schema.json``.
    """
    path = beside(table)
    data = read_certificate(path)
    if data["format"] != FORMAT:
        raise InputError(f"{path} is of format {BEFORE!r}; sample the table again to certify it.")
    if not audits and key is None:
        raise InputError(
            "Nothing to certify: give results of an audit, a key to sign with, or both."
        )
    if "signature" in data and key is None:
        raise InputError(f"{path} is signed; give the key to sign it anew (--key).")
    data.pop("signature", None)
    data["audit"] = [*data["audit"], *map(dict, audits)]
    check_form(data, path)
    return _write(data, path, key)


def _write(data: dict[str, Any], path: Path, key: "Ed25519PrivateKey | None") -> Path:
    if key is not None:
        from tabsynth.privacy.signing import signed

        check_complete(data, str(path))
        data = signed(data, key)
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")
    return path


def check_complete(certificate: Mapping[str, Any], what: str) -> None:
    """Refuse to vouch for a certificate whose list of mechanisms is empty or incomplete.

    Raises
    ------
    InputError
    """
    problems = incomplete(certificate)
    if problems:
        raise InputError(f"{what} cannot be signed: {'; '.join(problems)}.")


def read_certificate(path: str | Path) -> dict[str, Any]:
    """Read a certificate of this format or the one before; refuses what is not one."""
    file = Path(path)
    data = read_json(file, "certificate")
    found = data.get("format") if isinstance(data, dict) else type(data).__name__
    if not isinstance(data, dict) or found not in (FORMAT, BEFORE):
        raise FileFormatError(f"{file}: expected format {FORMAT!r}, got {shown(found)}.")
    if found == FORMAT:
        check_form(data, file)
    return data


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a certificate."""
    return dict(json.loads(Path(__file__).with_name("certificate.schema.json").read_text("utf-8")))


def check_form(data: Mapping[str, Any], path: Path) -> None:
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
        raise FileFormatError(f"{path}: {shown(place, 80)}: {message}.")
