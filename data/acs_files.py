"""Zip files from the web, with limits, and the columns of a CSV file inside one."""

import logging
import re
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Collection
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar

import pandas as pd

from tabsynth._files import replacing
from tabsynth._validate import quote
from tabsynth.errors import InputError

TIMEOUT = 60.0  # seconds without a byte
MAX_ZIP_BYTES = 2**30
MAX_CSV_BYTES = 4 * 2**30
CHUNK = 2**20

T = TypeVar("T")

log = logging.getLogger(__name__)


def download(url: str, path: Path, *, timeout: float = TIMEOUT, limit: int = MAX_ZIP_BYTES) -> None:
    """Stream ``url`` to ``path``: a temporary file, renamed once it is whole.

    Raises
    ------
    InputError
        In one line: no http(s) address, unreachable, not found, larger than ``limit`` bytes, or
        ended early.
    """
    if not re.match(r"https?://", url):
        raise InputError(f"Cannot fetch {url}: expected an http or https address.")
    log.info("Downloading %s", url)
    with replacing(path, overwrite=True) as temporary:
        try:
            _stream(url, temporary, timeout, limit)
        except urllib.error.HTTPError as error:
            hint = "; check state, year and period" if error.code == 404 else ""
            raise InputError(
                f"Cannot fetch {url}: HTTP {error.code} {error.reason}{hint}."
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, InputError):
                raise
            reason = getattr(error, "reason", None) or error or type(error).__name__
            raise InputError(
                f"Cannot fetch {url}: {' '.join(str(reason).split())}; check the network, or pass"
                " cache= a folder that holds the file."
            ) from None


def _stream(url: str, path: Path, timeout: float, limit: int) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "tabsynth"})
    with urllib.request.urlopen(request, timeout=timeout) as reply, path.open("wb") as file:
        length = reply.headers.get("Content-Length", "")
        expected = int(length) if length.isdecimal() else None
        if expected is not None and expected > limit:
            raise InputError(f"Cannot fetch {url}: {expected} bytes, above the limit of {limit}.")
        size = 0
        while chunk := reply.read(CHUNK):
            size += len(chunk)
            if size > limit:
                raise InputError(f"Cannot fetch {url}: above the limit of {limit} bytes.")
            file.write(chunk)
    if expected is not None and size < expected:
        raise InputError(f"Cannot fetch {url}: ended after {size} of {expected} bytes; try again.")


class ZippedCsv:
    """One CSV file in a zip file, read a few columns at a time.

    Parameters
    ----------
    path : Path
    member : str
        Regular expression of the member's name, matched in full, without regard to case.
    limit : int
        Most bytes that the member may unpack to. ``zipfile`` never reads past the declared size.
    """

    def __init__(self, path: Path, member: str, *, limit: int = MAX_CSV_BYTES) -> None:
        self.path = path
        self.limit = limit
        self.name = ""
        self.name = self._in_archive(lambda archive: self._find(archive, member))
        self.header: tuple[str, ...] = self._in_archive(self._read_header)

    def read(self, columns: Collection[str]) -> pd.DataFrame:
        """Return the given columns as text, blanks as nulls."""
        names = set(columns)

        def _read(archive: zipfile.ZipFile) -> pd.DataFrame:
            with archive.open(self.name) as file:
                return pd.read_csv(
                    file,
                    usecols=lambda name: name in names,
                    dtype=str,
                    keep_default_na=False,
                    na_values=["", " "],
                    encoding="utf-8-sig",
                )

        return self._in_archive(_read)

    def _find(self, archive: zipfile.ZipFile, member: str) -> str:
        for info in archive.infolist():
            if re.fullmatch(member, Path(info.filename).name, re.IGNORECASE):
                if info.file_size > self.limit:
                    raise InputError(
                        f"{self.path}: {info.filename} unpacks to {info.file_size} bytes, above the"
                        f" limit of {self.limit}."
                    )
                return info.filename
        members = quote([info.filename for info in archive.infolist()])
        raise InputError(f"{self.path} holds no file named like {member}, but {members}.")

    def _read_header(self, archive: zipfile.ZipFile) -> tuple[str, ...]:
        with archive.open(self.name) as file:
            line = file.readline(CHUNK).decode("utf-8-sig")
        return tuple(name.strip('" \r\n') for name in line.split(","))

    def _in_archive(self, work: Callable[[zipfile.ZipFile], T]) -> T:
        try:
            with zipfile.ZipFile(self.path) as archive:
                return work(archive)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self.path} is not a whole zip file ({reason}); delete it and fetch it again."
            ) from None
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{self.path}: {self.name} is not a CSV table ({reason}).") from None
        except OSError as error:
            raise InputError(f"Cannot read {self.path}: {error.strerror or error}.") from None
