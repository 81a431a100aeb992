"""Commands about certificates: keys, signatures, audits, and whether to believe one."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabsynth._files import read_json
from tabsynth._validate import shown
from tabsynth.cli.commands import app
from tabsynth.cli.console import fail, guarded, say
from tabsynth.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from tabsynth.privacy.verification import Verification

PASSPHRASE = "TABSYNTH_PASSPHRASE"  # of the environment, so that it is in no shell's history


def private_key(path: Path) -> "Ed25519PrivateKey":
    """The private key of a file; its passphrase is taken from the environment."""
    from tabsynth.privacy.signing import read_private

    return read_private(path, os.environ.get(PASSPHRASE))


@app.command()
@guarded
def keygen(
    key: Annotated[Path, typer.Argument(help="Where to write the private key; KEY.pub beside it.")],
    passphrase: Annotated[
        bool,
        typer.Option("--passphrase", help=f"Lock it by {PASSPHRASE}, or by what you type."),
    ] = False,
) -> None:
    """Make an Ed25519 key to sign certificates with. Keep it; give KEY.pub to those who verify."""
    from tabsynth.privacy.signing import make_keys

    secret = _passphrase() if passphrase else None
    public, fingerprint = make_keys(key, secret)
    say(f"Private key: {key} ({'locked by a passphrase' if secret else 'not locked'}; keep it)")
    say(f"Public key: {public}")
    say(f"Fingerprint: {fingerprint}")


def _passphrase() -> str:
    found = os.environ.get(PASSPHRASE)
    if found:
        return found
    if not sys.stdin.isatty():
        raise InputError(f"There is no terminal to type a passphrase; set {PASSPHRASE}.")
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True))


@app.command(name="certify")
@guarded
def certify_command(
    table: Annotated[Path, typer.Argument(help="A synthetic table, its certificate beside it.")],
    audit: Annotated[
        Path | None, typer.Option(help="audit.json of tabsynth audit, or a list of results (JSON).")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="A private key, of keygen, to sign with.")
    ] = None,
) -> None:
    """Attach results of audits to a table's certificate, and sign it."""
    from tabsynth.privacy.certificate import certify
    from tabsynth.privacy.verification import verify

    signer = None if key is None else private_key(key)
    found = verify(table)
    if not found.valid:
        fail(f"{table} does not agree with its certificate: {'; '.join(found.problems)}.")
    audits = [] if audit is None else _audits(audit, found)
    path = certify(table, audits, signer)
    say(f"Certificate: {path} ({len(audits)} results of audits added)")
    again = verify(table)
    say(f"Signature: {again.signature}")
    if not again.valid:
        fail(f"{table} is contradicted by what was added: {'; '.join(again.problems)}.", 1)


def _audits(path: Path, of: "Verification") -> list[Mapping[str, Any]]:
    """Results of audits as a certificate has them; those of ``tabsynth audit`` must be of its claim."""
    from tabsynth.audit.results import FORMAT, certified

    data = read_json(path, "list of audits")
    if isinstance(data, dict) and data.get("format") == FORMAT:
        stated = of.certificate
        return certified(data, path, str(stated.get("method")), of.epsilon, stated["delta"])
    found = data if isinstance(data, list) else [data]
    if not all(isinstance(item, dict) for item in found):
        raise FileFormatError(f"{path}: expected audits as objects, got {shown(data)}.")
    return found


@app.command(name="verify")
@guarded
def verify_command(
    table: Annotated[
        Path, typer.Argument(help="A synthetic table with its certificate beside it.")
    ],
    key: Annotated[
        Path | None,
        typer.Option(help="The public key of a signer whom you trust: it must have signed."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Check a table's certificate: hashes, epsilon by two accountants, audits, signature."""
    from tabsynth.privacy.verification import verify

    found = verify(table, key)
    if as_json:
        say(json.dumps(_facts(found)))
    else:
        _tell(found)
    if not found.valid:
        fail(f"{table} does not agree with its certificate: {'; '.join(found.problems)}.")
    if not as_json:
        say(f"{table} agrees with its certificate.")
        say(str(found.certificate.get("statement", "")))


def _facts(found: "Verification") -> dict[str, Any]:
    return {
        "valid": found.valid,
        "epsilon": str(found.epsilon),
        "problems": found.problems,
        "notes": found.notes,
        "accountants": {x.name: str(x.epsilon) for x in found.opinions},
        "signature": found.signature,
    }


def _tell(found: "Verification") -> None:
    data = found.certificate
    say(f"claim: epsilon = {shown(data['epsilon'])} at delta = {shown(data['delta'])}")
    for number, opinion in enumerate(found.opinions, 1):
        say(f"accountant {number}: {opinion}")
    say(f"signature: {found.signature}")
    for note in found.notes:
        say(f"note: {note}")
    for problem in found.problems:
        say(f"refused: {problem}")
