"""Schemas from the codebooks and metadata of other programs, one module for each format."""

from pathlib import Path

from tabsynth._files import MAX_JSON_BYTES, size_of
from tabsynth.errors import FileFormatError, TabsynthError, one_line
from tabsynth.schema.editing import Edit
from tabsynth.schema.importers import codebook, ddi, labelled
from tabsynth.schema.importers.declaration import schema_of
from tabsynth.schema.schema import Schema

__all__ = ["import_schema"]

FORMATS = "DDI Codebook, SPSS and Stata files, and codebooks in CSV"


def import_schema(path: str | Path, change: Edit | None = None) -> Schema:
    """Return a schema from a codebook or from the metadata of another program; the content tells the format.

    Parameters
    ----------
    path : path
    change : Edit, optional
        Facts that the format lacks, and columns to drop.

    Returns
    -------
    Schema
        Its columns have the provenance ``declared`` and the name of the file as source. Facts that the format
        does not state to be public have the provenance ``drafted``.

    Raises
    ------
    FileFormatError
        For a file of no such format.
    InputError
        Naming, in one line, all columns that cannot be made, and what is missing.
    """
    path = Path(path)
    try:
        return _read_codebook(path, path.name, change or Edit())
    except TabsynthError:
        raise
    except OSError as error:
        raise FileFormatError(f"Cannot read codebook {path}: {error.strerror}.") from None
    # The formats are loosely defined, and a file may hold any value at any place.
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{path.name} is not in the form of its format: {one_line(error)}."
        ) from None


def _read_codebook(path: Path, where: str, change: Edit) -> Schema:
    head = _head(path)
    if labelled.matches(head, path):
        return schema_of(labelled.declarations(path, head), where, change)
    size_of(path, "codebook", MAX_JSON_BYTES)
    data = path.read_bytes()
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        root = ddi.parse(data, where)
        if ddi.matches(root):
            return schema_of(ddi.declarations(root, where), where, change)
        raise _unknown(where)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileFormatError(f"{where} is not UTF-8 text; save it as UTF-8.") from None
    if codebook.matches(text):
        return schema_of(codebook.declarations(text, where), where, change)
    raise _unknown(where)


def _head(path: Path) -> bytes:
    size_of(path, "codebook", 2**40)
    with open(path, "rb") as file:
        return file.read(16)


def _unknown(where: str) -> FileFormatError:
    return FileFormatError(f"{where} is of no format that can be imported; these are {FORMATS}.")
