"""Commands about certificates: make keys, sign, attach audits, verify."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tabsynth._files import read_json
from tabsynth._validate import quote
from tabsynth.cli.commands import app
from tabsynth.cli.console import argument, cli_command, fail, option, say, warn
from tabsynth.cli.options import PASSPHRASE, Expires, private_key
from tabsynth.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from tabsynth.dossier.material import Material
    from tabsynth.privacy.certificate.verification import Verification


# Exit codes of ``verify`` by State; docs/reference/certificate.md and the command's help list them, too.
EXIT = {
    "authenticated": 0,
    "refused": 2,
    "conditional": 3,
    "not authenticated": 4,
    "not private": 5,
}


@app.command()
@cli_command
def keygen(
    key: Path = argument("The private key file to write; the public key goes to KEY.pub."),
    passphrase: bool = option(
        f"Encrypt the key with a passphrase, from {PASSPHRASE} or typed.",
        "--passphrase",
        default=False,
    ),
) -> None:
    """Make an Ed25519 key pair for signing certificates. Keep KEY secret; give KEY.pub to those who verify."""
    from tabsynth.privacy.certificate.signing import make_keys

    secret = _passphrase() if passphrase else None
    public, fingerprint = make_keys(key, secret)
    say(f"Private key: {key} ({'encrypted' if secret else 'not encrypted'}; keep it secret)")
    say(f"Public key: {public}")
    say(f"Fingerprint: {fingerprint}")


def _passphrase() -> str:
    passphrase = os.environ.get(PASSPHRASE)
    if passphrase:
        return passphrase
    if not sys.stdin.isatty():
        raise InputError(f"There is no terminal for typing a passphrase; set {PASSPHRASE}.")
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True))


@app.command(name="certify")
@cli_command
def certify_command(
    table: Path = argument("A synthetic table with its certificate beside it."),
    audit: Path | None = option(
        "Results to attach: audit.json of tabsynth audit, or a JSON list of results."
    ),
    key: Path | None = option("A private key of tabsynth keygen, to sign the certificate with."),
    expires: Expires = None,
) -> None:
    """Attach audit results to a table's certificate, and sign it.

    With your signature you vouch for the whole certificate. Sign only tables that you have made yourself.
    """
    from tabsynth.privacy.certificate.certificate import certify
    from tabsynth.privacy.certificate.signing import fingerprint
    from tabsynth.privacy.certificate.verification import expiry_problems, verify

    signer = None if key is None else private_key(key)
    verification = verify(table)
    over = [] if expires is None else expiry_problems(verification.certificate)
    problems = [text for text in verification.problems if text not in over]
    if problems:
        fail(f"{table} does not agree with its certificate: {'; '.join(problems)}.")
    if signer is not None and fingerprint(signer.public_key()) not in verification.signature:
        warn(
            f"the certificate of {table} was {verification.signature}; with your signature you vouch for it"
        )
    audits = [] if audit is None else _audits(audit, verification)
    path = certify(table, audits, signer, expires and expires.date())
    say(f"Certificate: {path} ({len(audits)} results of audits added)")
    certified = verify(table)
    say(f"Signature: {certified.signature if signer is None else 'by your key'}")
    if not certified.consistent:
        fail(f"{table} is contradicted by what was added: {'; '.join(certified.problems)}.", 1)


def _audits(path: Path, of: "Verification") -> list[Mapping[str, Any]]:
    """Return results of audits as a certificate has them; those of ``tabsynth audit`` must be of its claim."""
    from tabsynth.auditing.outcomes import FORMAT, certificate_entries

    data = read_json(path, "list of audits")
    if isinstance(data, dict) and data.get("format") == FORMAT:
        stated = of.certificate
        return certificate_entries(
            data, path, str(stated.get("method")), of.epsilon, stated["delta"]
        )
    records = data if isinstance(data, list) else [data]
    if not all(isinstance(item, dict) for item in records):
        raise FileFormatError(f"{path}: expected audits as objects, got {quote(data)}.")
    return records


@app.command(name="verify")
@cli_command
def verify_command(
    table: Path = argument(
        "A synthetic table with its certificate beside it, a folder of linked tables, or a dossier of tabsynth release."
    ),
    key: Path | None = option(
        "The public key of a signer whom you trust. Without it no certificate is authenticated."
    ),
    as_json: bool = option("Print the result as JSON.", "--json", default=False),
) -> None:
    """Verify a table's privacy certificate: hashes, epsilon by two accountants, audits and signature.

    Exit codes:

    0: authenticated: consistent, unconditional, and signed with the given key.

    2: refused: a contradiction, an incomplete list of mechanisms, or a signature with another key.

    3: conditional: consistent, and the claim holds only if values copied from a table are public.

    4: not authenticated: consistent, but not signed, or no key was given.

    5: not private: consistent, without a privacy claim (seeded, or epsilon is infinite).
    """
    if not table.is_dir():
        code = _verify_table(table, key, as_json)
    else:
        from tabsynth.dossier.checking import is_dossier

        verify_folder = _verify_dossier if is_dossier(table) else _verify_linked
        code = verify_folder(table, key, as_json)
    if code:
        raise typer.Exit(code)


def _verify_table(table: Path, key: Path | None, as_json: bool) -> int:
    """Verify a table, print what was found, and return the exit code; a table that is refused ends the command in one line."""
    from tabsynth.privacy.certificate.verification import verify

    verification = verify(table, key)
    if as_json:
        say(json.dumps(_facts_of(verification)))
    else:
        _print_result(verification, table)
    if not verification.consistent:
        fail(f"{table} does not agree with its certificate: {'; '.join(verification.problems)}.")
    return EXIT[verification.state.value]


def _verify_dossier(folder: Path, key: Path | None, as_json: bool) -> int:
    """Verify a dossier, print what was found, and return the exit code.

    A dossier that is refused ends the command in one line.
    """
    from tabsynth.dossier.checking import facts, verify_dossier
    from tabsynth.privacy.certificate.verification import State

    dossier = verify_dossier(folder, key)
    if as_json:
        tables = {name: _facts_of(verification) for name, verification in dossier.tables.items()}
        say(json.dumps({**facts(dossier), "tables": tables}))
    else:
        material, alike = (
            dossier.material,
            not dossier.problems,
        )  # then all tables state the same claim
        several = material is not None and material.report is not None
        if material is not None and several:
            _print_total(material)
        for name, verification in [*dossier.tables.items()][: 1 if alike else None]:
            say(f"{folder / name}{', without the published figures' if several else ''}:")
            _print_result(verification)
        if alike and len(dossier.tables) > 1:
            say(f"The same claim and checks: {', '.join([*dossier.tables][1:])}")
        say(f"Signature of all files: {dossier.signature}")
    if dossier.problems:
        fail(f"Dossier {folder} is refused: {'; '.join(dossier.problems)}.")
    if not as_json:
        say(
            f"Dossier {folder}: every file is listed and unchanged, and they agree with each other."
        )
        if dossier.state is State.AUTHENTICATED:
            assert dossier.material is not None  # of what nothing contradicts
            say("It is authenticated: all files are signed with the given key.")
            say(dossier.material.statement)
        elif dossier.state is State.CONDITIONAL:
            say(
                "Its claim is CONDITIONAL: what the schema says of some columns was copied from a table."
            )
        else:
            say(
                "It is not authenticated: anyone can write such a folder. Get the public key from a signer whom you trust, and"
                " give it with --key."
            )
    return EXIT[dossier.state.value]


def _print_total(material: "Material") -> None:
    """Print what everything in a dossier costs together, and what that means for an attacker."""
    from tabsynth.privacy.certificate.certificate import neighbour_in, rounded_up

    epsilon, delta = material.total
    say("Everything in the dossier together:")
    say(f"Claimed: ε = {rounded_up(epsilon)}, δ = {delta:g} ({material.total_basis})")
    for line in material.bounds.lines(neighbour_in(material.public)):
        say(line)


def _verify_linked(folder: Path, key: Path | None, as_json: bool) -> int:
    """Verify every table of a folder of linked tables, and return the exit code of the worst."""
    from tabsynth.privacy.certificate.certificate import beside
    from tabsynth.privacy.certificate.verification import verify

    ending = beside("").name
    files = sorted(folder.glob(f"*{ending}"))
    if not files:
        raise InputError(f"{folder} has no table with a certificate beside it.")
    results = {}
    for table in (file.with_name(file.name.removesuffix(ending)) for file in files):
        verification = verify(table, key)
        results[table.name] = _facts_of(verification)
        if not as_json:
            say(f"{table}:")
            _print_result(verification, table)
    if as_json:
        say(json.dumps(results))
    states = [facts["state"] for facts in results.values()]
    if "refused" in states:
        fail(f"{folder} has a table that does not agree with its certificate.")
    if len({(facts["state"], facts["epsilon"]) for facts in results.values()}) > 1:
        fail(f"The tables of {folder} have certificates of different claims.")
    return max(EXIT[state] for state in states)


def _facts_of(verification: "Verification") -> dict[str, Any]:
    """Return the result for one table, JSON-ready."""
    bounds = verification.bounds
    return {
        "state": verification.state.value,
        "consistent": verification.consistent,
        "authenticated": verification.authenticated,
        "conditional": verification.conditions,
        "epsilon": str(verification.epsilon),
        "problems": verification.problems,
        "notes": verification.notes,
        "accountants": {x.name: str(x.epsilon) for x in verification.accountants},
        "attacker": None if bounds is None else bounds.to_dict(),
        "signature": verification.signature,
    }


def _print_result(verification: "Verification", table: Path | None = None) -> None:
    """Print the claim, both accountants, what they mean for an attacker, signature, notes and problems.

    For a consistent ``table``, print its state in words as well.
    """
    from tabsynth.privacy.certificate.certificate import (
        condition,
        design_of,
        neighbour_in,
        rounded_up,
    )

    data = verification.certificate
    if verification.conditions:
        say(f"CONDITIONAL: the claim holds only if {condition(verification.conditions)}.")
    say(f"Claimed: ε = {rounded_up(float(data['epsilon']))}, δ = {data['delta']:g}")
    if design_of(data.get("public")).unit is not None:
        say(f"Privacy unit: {data['privacy_unit']}")
    for number, result in enumerate(verification.accountants, 1):
        say(f"Accountant {number}: {result}")
    if verification.bounds is not None:
        for line in verification.bounds.lines(neighbour_in(data.get("public"))):
            say(line)
    say(f"Signature: {verification.signature}")
    if data.get("expires") is not None:
        say(f"Signature holds until: {data['expires']}")
    for note in verification.notes:
        say(f"Note: {note}")
    for problem in verification.problems:
        say(f"Refused: {problem}")
    for line in _outcome(table, verification) if table and verification.consistent else ():
        say(line)


def _outcome(table: Path, verification: "Verification") -> list[str]:
    """Explain the state of a consistent certificate; only an authenticated one's statement is repeated."""
    from tabsynth.privacy.certificate.verification import State

    statement, state = str(verification.certificate.get("statement", "")), verification.state
    if state is State.AUTHENTICATED:
        return [
            f"{table} is authenticated: it agrees with its certificate, which is signed with the given key.",
            statement,
        ]
    if state is State.NOT_PRIVATE:
        return [f"{table} agrees with its certificate, which makes no privacy claim.", statement]
    vouched = "The certificate is authenticated: it is signed with the given key."
    if not verification.authenticated:
        vouched = (
            "It is not authenticated: anyone who can write a table can write such a certificate. Get the public key"
            " from a signer whom you trust, and give it with --key."
        )
    if state is State.CONDITIONAL:
        return [
            f"{table} agrees with its certificate. Its claim is CONDITIONAL: what the schema says of these columns was"
            " copied from a table.",
            vouched,
        ]
    return [f"{table} agrees with its certificate: consistent, not authenticated.", vouched]
