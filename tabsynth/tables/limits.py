"""The largest size to which a file of a table may unpack: an untrusted one takes no memory that its size does not show."""

from pathlib import Path

from tabsynth._files import size_of
from tabsynth.errors import InputError

MAX_TABLE_BYTES = 8 * 2**30  # of a file
MAX_ROW = 2**22  # characters of a row of a text file
# A few bytes may stand for any number of cells: so many cells, and so many bytes unpacked, are read in any
# case, and more only of a file that has this share of them.
FREE_CELLS, CELLS_PER_BYTE = 10_000_000, 100
FREE_BYTES, UNPACKED_PER_BYTE = 256 * 2**20, 200
MAX_CELLS = 2 * 10**9


class Limits:
    """The limits of what a file of a table may unpack to, by its size.

    Parameters
    ----------
    path : path

    Raises
    ------
    InputError
        If it is no regular file, or larger than :data:`MAX_TABLE_BYTES`.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self.size = size_of(path, "table", MAX_TABLE_BYTES, InputError)
        self.bytes = max(FREE_BYTES, UNPACKED_PER_BYTE * self.size)
        self.cells = min(MAX_CELLS, max(FREE_CELLS, CELLS_PER_BYTE * self.size))

    def check(self, *, cells: int = 0, unpacked: int = 0) -> None:
        """Raise an InputError for more cells or bytes, or a negative number of them, which a damaged file may state."""
        if not (0 <= cells <= self.cells and 0 <= unpacked <= self.bytes):
            counted = f"{cells:,} cells" if cells else f"{unpacked:,} bytes"
            raise InputError(
                f"{self._path}: {self.size:,} bytes that unpack to {counted} are no table that we read; write it as"
                " CSV."
            )
