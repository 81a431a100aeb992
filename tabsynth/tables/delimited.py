"""Tables of text: rows of cells between separators, in any encoding, compressed or not.

Nothing is inferred from rows. The separator follows from the header, whose names are public; the encoding from a byte
order mark or an option. Lines are decoded one by one: a line that is not UTF-8 is read as Windows-1252, which most other
files are in. To ask for the encoding instead would make the answer depend on a single row; to decode the whole file in
another encoding because of one line would let that row change what others become.
"""

import codecs
import csv
import gzip
import io
import logging
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import pandas as pd

from tabsynth._validate import MAX_COLUMNS, quote
from tabsynth.errors import InputError, one_line
from tabsynth.schema.schema import duplicates
from tabsynth.tables.frames import with_first_name
from tabsynth.tables.limits import MAX_ROW, Limits

logger = logging.getLogger("tabsynth")

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
COMPRESSIONS = ("", ".gz", ".zst")
LEGACY = "cp1252"
_MARKS = (  # UTF-32 first: its mark begins as that of UTF-16 does
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_OTHER_FILES = {  # the first bytes of files that are no text
    b"\x1f\x8b": "a gzip file (.gz)",
    b"BZh91AY&SY": "a bzip2 file",
    b"\xfd7zX": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file (.zst)",
    b"PK\x03\x04": "an Excel workbook (.xlsx) or a ZIP archive",
    b"PAR1\x15": "a Parquet file (.parquet)",
    b"%PDF-": "a PDF document",
}
_NUL = "holds a NUL; it is not a CSV table, or its encoding must be named with encoding="


def read_texts(
    path: str | Path,
    compression: str,
    null_values: Sequence[str],
    sep: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """Read a table of text, every column as text, ``null_values`` as nulls.

    Parameters
    ----------
    path : path
    compression : str
        One of :data:`COMPRESSIONS`.
    null_values : sequence of str
    sep : str, optional
        The separator of cells, one character. Default: that of :data:`SEPARATORS` which divides the header into most
        names; without any, the table has one column.
    encoding : str, optional
        Default: by the byte order mark; without one, UTF-8, and Windows-1252 for lines that are not.

    Raises
    ------
    InputError
    """
    limits = Limits(path)
    if encoding is not None:
        _check_encoding(encoding)

    def lines(quiet: bool = True) -> Iterator[str]:
        return _lines(path, compression, limits, encoding, quiet)

    try:
        sep = _separator(path, lines) if sep is None else sep
        header = _check_rows(path, lines(), sep)
        nulls = sorted({"", *null_values})
        if len(header) == 1:
            return _read_one_column(path, lines(quiet=False), sep, nulls)
        return pd.read_csv(
            _Stream(lines(quiet=False)),
            sep=sep,
            dtype=str,
            keep_default_na=False,
            na_values=nulls,
            index_col=False,
        )
    except pd.errors.EmptyDataError:
        raise _empty(path) from None
    except (pd.errors.ParserError, csv.Error) as error:
        raise InputError(
            f"{path} is not a CSV table: {one_line(error)}; quote whole cells, or name the separator with sep=."
        ) from None


def _empty(path: str | Path) -> InputError:
    return InputError(f"{path} is empty; a table has a header with the names of its columns.")


def _check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise InputError(
            f"Expected encoding to be one that Python knows, such as utf-8, latin-1 or cp1252; got {quote(encoding)}."
        ) from None


# Bytes to lines.


def _lines(
    path: str | Path, compression: str, limits: Limits, encoding: str | None, quiet: bool
) -> Iterator[str]:
    """Yield the lines of a file with their ends, without its byte order mark; none of them endless."""
    with _open_unpacked(path, compression, limits) as file:
        head = file.peek(16)[:16]
        for mark, kind in _OTHER_FILES.items():
            if head.startswith(mark):
                raise InputError(
                    f"{path} is no text, but {kind}; give it the suffix of that format, or save the table as .csv."
                )
        marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
        chosen = encoding or marked
        wide = chosen is not None and codecs.lookup(chosen).name.startswith(("utf-16", "utf-32"))
        # In Latin-1 each byte is one character, so that line ends are found before anything is decoded.
        text = io.TextIOWrapper(file, chosen if wide else "latin-1", newline="")
        decode = (lambda line, number: line) if wide else _decoder(path, chosen, quiet)
        number = 0
        while line := _line(text, path, chosen):
            number += 1
            line = decode(line, number)
            yield line.removeprefix("\ufeff") if number == 1 else line


def _line(text: io.TextIOWrapper, path: str | Path, encoding: str | None) -> str:
    try:
        line = text.readline(MAX_ROW + 1)
    except UnicodeError:
        raise InputError(
            f"{path} is not {encoding} text; name its encoding with encoding=."
        ) from None
    if len(line) > MAX_ROW:
        raise _endless(path)
    return line


def _endless(path: str | Path) -> InputError:
    return InputError(f"{path}: a row has more than {MAX_ROW:,} characters; it is not a CSV table.")


def _decoder(path: str | Path, encoding: str | None, quiet: bool) -> Callable[[str, int], str]:
    """Return what decodes a line of Latin-1 and its number, by the line alone."""

    def decode(line: str, number: int) -> str:
        if line.isascii() and encoding is None:
            return line
        data = line.encode("latin-1")
        try:
            return data.decode(encoding or "utf-8")
        except UnicodeError:
            if encoding is not None:
                raise InputError(
                    f"{path}, line {number} is not {encoding} text; name its encoding with encoding=."
                ) from None
        try:
            line = data.decode(LEGACY)
        except UnicodeError:
            raise InputError(
                f"{path}, line {number} is not UTF-8 text, and not Windows-1252; name its encoding with encoding=."
            ) from None
        if number == 1 and not quiet:  # of other lines nothing is said: they are rows
            logger.warning(
                "%s: the header is not UTF-8. Such lines are read as Windows-1252; name the encoding with encoding=.",
                path,
            )
        return line

    return decode


class _Stream(io.TextIOBase):
    """Lines as a file that can be read in pieces."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._left = lines, ""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> str:
        parts, length = [self._left], len(self._left)
        for line in () if size is not None and 0 <= size <= length else self._lines:
            parts.append(line)
            length += len(line)
            if size is not None and 0 <= size <= length:
                break
        text = "".join(parts)
        end = len(text) if size is None or size < 0 else size
        self._left = text[end:]
        return text[:end]


# Compression.


@contextmanager
def _open_unpacked(path: str | Path, compression: str, limits: Limits) -> Iterator[Any]:
    """Open the content of a file, unpacked up to its limit."""
    try:
        if not compression:
            with open(path, "rb") as file:
                yield file
            return
        with io.BufferedReader(_Unpacked(path, compression, limits)) as unpacked:
            yield unpacked
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {(error.strerror or one_line(error)).rstrip('.')}."
        ) from None


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class _Unpacked(io.RawIOBase):
    """The content of a compressed file; InputError where it is damaged, or unpacks to too much."""

    def __init__(self, path: str | Path, compression: str, limits: Limits) -> None:
        self._path, self._limits, self._count = path, limits, 0
        self._compression = compression
        self._file = _UNPACKERS[compression](path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(
                f"{self._path} is not a whole {self._compression} file: {one_line(error).rstrip('.')}."
            ) from None
        self._count += len(data)
        self._limits.check(unpacked=self._count)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _zstandard(path: str | Path) -> IO[bytes]:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")


_UNPACKERS: dict[str, Callable[[str | Path], _Readable]] = {
    ".gz": gzip.open,
    ".zst": _zstandard,
}


@contextmanager
def open_packed(path: str | Path, compression: str) -> Iterator[IO[str]]:
    """Open a text file for writing UTF-8, which is compressed; the same text gives the same bytes."""
    with open(path, "wb") as file:
        binary: Any = file
        if compression == ".gz":
            binary = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
        elif compression == ".zst":
            import pyarrow as pa

            binary = pa.CompressedOutputStream(pa.PythonFile(file, "w"), "zstd")
        text = io.TextIOWrapper(binary, "utf-8", newline="")
        try:
            yield text
        finally:
            text.close()


# Lines to rows.


def _rows(lines: Iterator[str], path: str | Path, sep: str) -> Iterator[tuple[int, list[str]]]:
    """Return rows that are not empty, each with the number of the line it ends in; none of them endless."""
    length = 0

    def bounded_lines() -> Iterator[str]:
        nonlocal length
        for line in lines:
            length += len(line)
            if length > MAX_ROW:
                raise _endless(path)
            yield line

    rows = csv.reader(bounded_lines(), delimiter=sep, strict=True)
    try:
        for row in rows:
            length = 0
            if row:
                yield rows.line_num, row
    except csv.Error as error:
        raise csv.Error(f"line {rows.line_num}: {error}") from None


def _separator(path: str | Path, lines: Callable[[], Iterator[str]]) -> str:
    """Return the separator that divides the header into most names; a comma for a header of one name."""
    widths = {}
    for sep in SEPARATORS:
        try:
            _, header = next(_rows(lines(), path, sep), (0, []))
        except csv.Error:  # quotes that are none under this separator
            continue
        widths[sep] = len(header)
    width = max(widths.values(), default=0)
    if width < 2:
        return ","
    first, *alternatives = [sep for sep in widths if widths[sep] == width]
    if alternatives:
        names = " or ".join(SEPARATORS[sep] for sep in (first, *alternatives))
        raise InputError(f"{path} may be separated by {names}; name the separator with sep=.")
    return first


def _read_one_column(
    path: str | Path, lines: Iterator[str], sep: str, nulls: list[str]
) -> pd.DataFrame:
    """Read a table of one column, where pandas drops a row that holds nothing but spaces."""
    name, *cells = (cell for _, (cell,) in _rows(lines, path, sep))
    texts = pd.Series(cells, dtype="str", name=name)
    return texts.where(~texts.isin(nulls)).to_frame()


def check_header(path: str | Path, header: Sequence[str]) -> list[str]:
    """Return the names of columns. Refuse too many columns, names that are missing or there twice, or a NUL.

    The first of several columns may have no name, as in what R writes with the names of rows.
    """
    if not header:
        raise _empty(path)
    if len(header) > MAX_COLUMNS:
        raise InputError(f"{path} has {len(header):,} columns; at most {MAX_COLUMNS:,} are read.")
    names = with_first_name(header) if len(header) > 1 else [*header]
    for name in duplicates(names):
        raise InputError(f"{path} has column {quote(name)} twice; rename or drop one.")
    if "" in names:
        raise InputError(f"{path}: column {names.index('') + 1} has no name; give it one.")
    if any("\0" in name for name in names):
        raise InputError(f"{path}, line 1 {_NUL}.")
    return names


def _check_rows(path: str | Path, lines: Iterator[str], sep: str) -> list[str]:
    """Return the header. Refuse what pandas would mend by itself: short, long and renamed columns."""
    rows = _rows(lines, path, sep)
    _, header = next(rows, (0, []))
    check_header(path, header)
    for number, row in rows:
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {number}: {len(row)} cells under a header of"
                f" {len(header)}; add or remove cells, quote those that hold the separator, or name it with sep=."
            )
        if any("\0" in cell for cell in row):
            raise InputError(f"{path}, line {number} {_NUL}.")
    return header
