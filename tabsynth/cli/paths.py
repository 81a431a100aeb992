"""Checks of the files that a command names."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tabsynth._files import check_writable
from tabsynth.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PASSPHRASE = (
    "TABSYNTH_PASSPHRASE"  # an environment variable, which does not enter the history of a shell
)


def same_file(path: Path, other: Path) -> bool:
    """Return whether two paths name one existing file."""
    return path.exists() and other.exists() and path.samefile(other)


def check_not_input(out: Path, *inputs: Path | None) -> None:
    """Reject an output file that is also an input."""
    for path in inputs:
        if path is not None and same_file(out, path):
            raise InputError(f"{out} is read by this command; write to another file.")


def check_folder(path: Path) -> None:
    """Reject a folder that cannot be made or written to."""
    place = next((p for p in (path, *path.absolute().parents) if p.exists()), path)
    check_writable(place / "report.html" if place.is_dir() else place / path.name)


def make_folder(path: Path) -> Path:
    """Make a folder if it is missing, and check that it can be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot make folder {path}: {error.strerror}.") from None
    check_writable(path / "report.html")
    return path


def private_key(path: Path) -> "Ed25519PrivateKey":
    """Read a private key; its passphrase comes from the environment."""
    from tabsynth.privacy.certificate.signing import read_private

    return read_private(path, os.environ.get(PASSPHRASE))
