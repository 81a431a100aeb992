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
from tabsynth.cli.console import fail, guarded, say, warn
from tabsynth.cli.paths import PASSPHRASE, private_key
from tabsynth.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from tabsynth.privacy.certificate.verification import Verification


# Of ``verify``, by State; docs/certificate.md and the command's help have them too.
EXIT = {
    "authenticated": 0,
    "refused": 2,
    "conditional": 3,
    "not authenticated": 4,
    "not private": 5,
}


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
    from tabsynth.privacy.certificate.signing import make_keys

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
    """Attach results of audits to a table's certificate, and sign it.

    By a signature you vouch for the whole certificate: sign only what you have made yourself.
    """
    from tabsynth.privacy.certificate.certificate import certify
    from tabsynth.privacy.certificate.signing import fingerprint
    from tabsynth.privacy.certificate.verification import verify

    signer = None if key is None else private_key(key)
    found = verify(table)
    if not found.consistent:
        fail(f"{table} does not agree with its certificate: {'; '.join(found.problems)}.")
    if signer is not None and fingerprint(signer.public_key()) not in found.signature:
        warn(
            f"the certificate of {table} was {found.signature}; with your signature you vouch for it"
        )
    audits = [] if audit is None else _audits(audit, found)
    path = certify(table, audits, signer)
    say(f"Certificate: {path} ({len(audits)} results of audits added)")
    again = verify(table)
    say(f"Signature: {again.signature if signer is None else 'by your key'}")
    if not again.consistent:
        fail(f"{table} is contradicted by what was added: {'; '.join(again.problems)}.", 1)


def _audits(path: Path, of: "Verification") -> list[Mapping[str, Any]]:
    """Results of audits as a certificate has them; those of ``tabsynth audit`` must be of its claim."""
    from tabsynth.auditing.outcomes import FORMAT, certified

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
        typer.Option(
            help="The public key of a signer whom you trust. Without it nothing is authenticated."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Check a table's certificate: hashes, epsilon by two accountants, audits, signature.

    Exit codes:

    0: authenticated: consistent, unconditional, and signed by the key that you gave.

    2: refused: something contradicts it, its list of mechanisms is incomplete, or the key is another.

    3: conditional: consistent, if facts that were copied from a table are public.

    4: not authenticated: consistent, but unsigned, or you gave no key.

    5: not private: consistent, and it claims no privacy (seeded, or epsilon is infinite).
    """
    from tabsynth.privacy.certificate.verification import verify

    found = verify(table, key)
    if as_json:
        say(json.dumps(_facts(found)))
    else:
        _tell(found)
    if not found.consistent:
        fail(f"{table} does not agree with its certificate: {'; '.join(found.problems)}.")
    if not as_json:
        for line in _outcome(table, found):
            say(line)
    if EXIT[found.state.value]:
        raise typer.Exit(EXIT[found.state.value])


def _facts(found: "Verification") -> dict[str, Any]:
    return {
        "state": found.state.value,
        "consistent": found.consistent,
        "authenticated": found.authenticated,
        "conditional": found.conditions,
        "epsilon": str(found.epsilon),
        "problems": found.problems,
        "notes": found.notes,
        "accountants": {x.name: str(x.epsilon) for x in found.opinions},
        "signature": found.signature,
    }


def _tell(found: "Verification") -> None:
    from tabsynth.privacy.certificate.certificate import rounded_up

    data = found.certificate
    say(f"claimed: epsilon = {rounded_up(float(data['epsilon']))}, delta = {data['delta']:g}")
    for number, opinion in enumerate(found.opinions, 1):
        say(f"accountant {number}: {opinion}")
    say(f"signature: {found.signature}")
    for note in found.notes:
        say(f"note: {note}")
    for problem in found.problems:
        say(f"refused: {problem}")


def _outcome(table: Path, found: "Verification") -> list[str]:
    """What a consistent certificate is worth. Its statement is repeated only if somebody vouches for it."""
    from tabsynth.privacy.certificate.verification import State

    statement, state = str(found.certificate.get("statement", "")), found.state
    if state is State.AUTHENTICATED:
        return [
            f"{table} is authenticated: it agrees with its certificate, signed by the key that you gave.",
            statement,
        ]
    if state is State.NOT_PRIVATE:
        return [f"{table} agrees with its certificate, which claims no privacy.", statement]
    vouched = "The certificate is authenticated: it is signed by the key that you gave."
    if not found.authenticated:
        vouched = (
            "It is not authenticated: nobody whom you trust vouches for the claim, and whoever can write a"
            " table can write such a certificate. Give the signer's public key (--key), and get that key"
            " from the signer."
        )
    if state is State.CONDITIONAL:
        columns = shown(list(found.conditions), 400)
        return [
            f"{table} agrees with its certificate, whose claim is CONDITIONAL.",
            f"The claim holds only if the domains of these columns are public, which were copied from a"
            f" table: {columns}.",
            vouched,
        ]
    return [f"{table} agrees with its certificate: consistent, not authenticated.", vouched]
