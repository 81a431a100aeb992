"""Ed25519 keys, and signatures over JSON in one canonical form."""

import hashlib
import json
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tabsynth._files import check_output, replacing, writing
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth.errors import FileFormatError, InputError

ALGORITHM = "Ed25519"
MOST_BYTES = 10_000  # of a key file
PRIME = 2**255 - 19
# y of the points whose order divides 8: a signature under such a key holds for whatever it is put to, and nobody
# has to know a secret to make one.
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SMALL_ORDER = frozenset({0, 1, PRIME - 1, _ORDER_8, PRIME - _ORDER_8})


def canonical(data: JsonMapping) -> bytes:
    """Return what is signed: all but ``signature``, keys sorted, no whitespace, ASCII, numbers as Python has them.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    signed = {name: value for name, value in data.items() if name != "signature"}
    return json.dumps(
        signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def make_keys(path: str | Path, passphrase: str | None = None) -> tuple[Path, str]:
    """Write a new private key (PEM, PKCS#8, readable by its owner alone) and its public half beside it.

    Returns
    -------
    tuple
        The path of the public key, ``path`` with ``.pub``, and its fingerprint.

    Raises
    ------
    InputError
        If one of the files exists already: a key is never written over.
    """
    private, public = Path(path), Path(f"{path}.pub")
    for file in (private, public):
        if file.exists():
            raise InputError(f"{file} exists; a key is never written over: name another file.")
        check_output(file)
    key = Ed25519PrivateKey.generate()
    lock: form.KeySerializationEncryption = form.NoEncryption()
    if passphrase:
        lock = form.BestAvailableEncryption(passphrase.encode())
    pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, lock)
    with writing(private):
        handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(pem)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError:
            private.unlink()  # half a key is none
            raise
    open_half = key.public_key()
    spki = form.PublicFormat.SubjectPublicKeyInfo
    with replacing(public) as temporary:
        temporary.write_bytes(open_half.public_bytes(form.Encoding.PEM, spki))
    return public, fingerprint(open_half)


def read_private(path: str | Path, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Return the private key of a file that :func:`make_keys` wrote.

    Raises
    ------
    InputError
        If the passphrase is missing or wrong.
    FileFormatError
        If it is no such key.
    """
    data = _read(path)
    encrypted = b"ENCRYPTED" in data.split(b"\n", 1)[0]
    if encrypted and not passphrase:
        raise InputError(f"{path} is locked by a passphrase; set TABSYNTH_PASSPHRASE to it.")
    try:
        secret = passphrase.encode() if passphrase and encrypted else None
        key = form.load_pem_private_key(data, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = "the passphrase does not fit" if encrypted else "not a private key in PEM"
        raise FileFormatError(f"Cannot read key {path}: {reason}.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise FileFormatError(f"{path} is a key, but not of {ALGORITHM}.")
    return key


def read_public(path: str | Path) -> Ed25519PublicKey:
    """Return the public key of a PEM file."""
    try:
        key = form.load_pem_public_key(_read(path))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise FileFormatError(f"Cannot read key {path}: not a public key in PEM.") from None
    if not isinstance(key, Ed25519PublicKey):
        raise FileFormatError(f"{path} is a key, but not of {ALGORITHM}.")
    return key


def _read(path: str | Path) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise FileFormatError(f"Cannot read key {path}: {error.strerror}.") from None
    if len(data) > MOST_BYTES:
        raise FileFormatError(f"{path} is too large for a key.")
    return data


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of the 32 bytes of a public key, hexadecimal."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def sign(data: JsonMapping, key: Ed25519PrivateKey) -> JsonObject:
    """Return ``data`` with a signature over all of it."""
    signature = {
        "algorithm": ALGORITHM,
        "public_key": key.public_key().public_bytes_raw().hex(),
        "value": key.sign(canonical(data)).hex(),
    }
    return {**data, "signature": signature}


def signer(data: JsonMapping) -> Ed25519PublicKey:
    """Return who signed ``data``, by the public key that its signature names.

    Raises
    ------
    InvalidSignature
        If the signature is not of that key, or not of this data.
    """
    try:
        listed = data["signature"]
        if listed["algorithm"] != ALGORITHM:
            raise InvalidSignature
        raw = bytes.fromhex(listed["public_key"])
        if int.from_bytes(raw, "little") % 2**255 % PRIME in SMALL_ORDER:
            raise InvalidSignature
        key = Ed25519PublicKey.from_public_bytes(raw)
        key.verify(bytes.fromhex(listed["value"]), canonical(data))
    except (KeyError, TypeError, ValueError):
        raise InvalidSignature from None
    return key
