"""Files that a command names: inputs are not written over, folders are made late."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tabsynth._files import check_writable
from tabsynth.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PASSPHRASE = "TABSYNTH_PASSPHRASE"  # of the environment, so that it is in no shell's history


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one existing file."""
    return one.exists() and other.exists() and one.samefile(other)


def keep_apart(out: Path, *inputs: Path | None) -> None:
    """Refuse to write over what is read."""
    for path in inputs:
        if path is not None and same_file(out, path):
            raise InputError(f"{out} is read by this command; write to another file.")


def check_folder(path: Path) -> None:
    """Refuse early a folder that cannot be made or written."""
    place = next((p for p in (path, *path.absolute().parents) if p.exists()), path)
    check_writable(place / "report.html" if place.is_dir() else place / path.name)


def make_folder(path: Path) -> Path:
    """A folder to write into, made if it is missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot make folder {path}: {error.strerror}.") from None
    check_writable(path / "report.html")
    return path


def private_key(path: Path) -> "Ed25519PrivateKey":
    """The private key of a file; its passphrase is taken from the environment."""
    from tabsynth.privacy.certificate.signing import read_private

    return read_private(path, os.environ.get(PASSPHRASE))
