"""``tabsynth release``."""

from pathlib import Path

from tabsynth.cli.commands import app
from tabsynth.cli.console import argument, cli_command, option, say
from tabsynth.cli.options import Expires, private_key
from tabsynth.errors import InputError


@app.command(name="release")
@cli_command
def release_command(
    table: Path = argument(
        "A synthetic table with its certificate beside it, or a folder of linked tables."
    ),
    out: Path | None = option("The folder to make; it must not be there.", "-o", "--out"),
    answers: Path | None = option(
        "What only people know about the release. Default: the file release.yaml beside the table."
    ),
    template: bool = option(
        "Write a release.yaml with the questions to answer, and nothing else.",
        "--template",
        default=False,
    ),
    key: Path | None = option(
        "The public key of a signer. The certificate must be signed with it."
    ),
    sign: Path | None = option(
        "A private key of tabsynth keygen, to sign all files of the dossier with, and certificates that are not signed."
    ),
    expires: Expires = None,
) -> None:
    """Gather what the publication of a synthetic table needs in a new folder: the release dossier.

    It has the table and its certificate, a privacy statement for readers, Croissant metadata, a codebook (DDI), and
    checksums. tabsynth verify checks the folder without the private table.
    """
    from tabsynth.dossier.making import answers_file, release, write_template

    path = answers_file(table) if answers is None else answers
    if template:
        if out is not None or sign is not None or key is not None:
            raise InputError(
                "--template writes the questions only; leave out -o, --sign and --key."
            )
        say(f"Questions: {write_template(table, path)}; fill it in, then run tabsynth release.")
        return
    if out is None:
        raise InputError("A release needs the folder to make (-o); give it, or --template.")
    secret = None if sign is None else private_key(sign)
    last = None if expires is None else expires.date()
    folder = release(table, out, answers=path, key=key, sign=secret, expires=last)
    names = sorted(file.name for file in folder.iterdir())
    say(f"Dossier: {folder} ({len(names)} files)")
    say(f"Read first: {folder / 'privacy-statement.html'}")
    if secret is None:
        say("Its files are not signed; --sign signs them, so that others can authenticate them.")
    say(f"Check it: tabsynth verify {folder}{'' if secret is None else f' --key {sign}.pub'}")
