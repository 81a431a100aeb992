"""Certificates in the ``attrs`` of a DataFrame, each bound to the content that was sampled.

pandas keeps ``attrs`` when cells are replaced and rows are taken out. So a certificate in ``attrs`` is believed only
while the table's content is that which was sampled: the same columns in the same order, dtypes, cells and order
of rows. The index is not part of the content, for no file of ours holds it.

The hash is SHA-256 over an injective encoding of the content, so that another table with the same hash would be a
collision of SHA-256. It shows that a table is the one that was sampled, not who sampled it: whoever can write
``attrs`` can write the hash too.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._typing import JsonMapping
from tabsynth._validate import quote
from tabsynth.errors import InputError

KEY = "certificate"  # of ``attrs``
CONTENT_FORMAT = b"tabsynth-content/1\n"
logger = logging.getLogger(__name__)


def attach(table: pd.DataFrame, certificate: JsonMapping) -> None:
    """Put a certificate into ``table.attrs``, with the hash of the table's content."""
    entry = {"rows": len(table), "content_sha256": content_sha256(table)}
    table.attrs[KEY] = {**certificate, "table": entry}


def find_attached(table: object) -> JsonMapping | None:
    """Return the certificate in ``table.attrs``; None if there is none, or if it is not bound to this content.

    A certificate of other content, or without a hash of it, is not used, and a warning says so.

    Raises
    ------
    InputError
        If what is there is no dict.
    """
    certificate = table.attrs.get(KEY) if isinstance(table, pd.DataFrame) else None
    if certificate is None:
        return None
    if not isinstance(certificate, Mapping):
        raise InputError(f"Expected attrs['{KEY}'] to be a dict, got {quote(certificate)}.")
    return certificate if _bound(table, certificate, required=True) else None


def matching(table: object, certificate: JsonMapping) -> JsonMapping | None:
    """Return a certificate that was given for a table; None, with a warning, if it is bound to other content."""
    return certificate if _bound(table, certificate, required=False) else None


def _bound(table: object, certificate: JsonMapping, *, required: bool) -> bool:
    entry = certificate.get("table")
    recorded = entry.get("content_sha256") if isinstance(entry, Mapping) else None
    if recorded is None and not required:
        return True
    if (
        recorded is not None
        and isinstance(table, pd.DataFrame)
        and recorded == content_sha256(table)
    ):
        return True
    logger.warning(
        "The certificate that came with the table is not used: %s.",
        "it has no hash of the table's content"
        if recorded is None
        else "the columns, dtypes, cells or order of rows are not those that were sampled",
    )
    return False


def content_sha256(table: pd.DataFrame) -> str:
    """Return the SHA-256 over a table's content, hexadecimal.

    Parameters
    ----------
    table : DataFrame, shape (rows, columns)
        Numbers, booleans, texts and categories are encoded by value; other cells by their type and ``repr``.

    Notes
    -----
    The hash is over the line ``tabsynth-content/1`` with its line feed, then parts, each after its length as 8 bytes,
    little-endian. The index is left out. The parts are:

    - ``[rows, columns]``; then for each column its label after the label's type (``str age``), its dtype, and the mask
      of nulls in packed bits;
    - the values that are not null: a byte for a boolean, 8 bytes, little-endian, for a number;
    - of texts: ``texts`` and how many are different, these in order of first appearance, and for each cell its number
      among them;
    - of categories, in place of mask and values: ``ordered`` or ``unordered``, the column of categories, and each
      cell's code, -1 for null;
    - of other cells: ``others`` and their number, then type and ``repr`` of each.
    """
    digest = hashlib.sha256(CONTENT_FORMAT)
    _add(digest, json.dumps(list(table.shape)).encode())
    for place, name in enumerate(table.columns):
        _add(digest, f"{type(name).__name__} {name}".encode("utf-8", "surrogatepass"))
        _column(digest, table.iloc[:, place])
    return digest.hexdigest()


def _column(digest: Any, values: pd.Series) -> None:
    """Return a dtype, the mask of nulls, and the values of what is no null."""
    dtype = values.dtype
    _add(digest, str(dtype).encode("utf-8", "surrogatepass"))
    if isinstance(dtype, pd.CategoricalDtype):
        _add(digest, b"ordered" if dtype.ordered else b"unordered")
        _column(digest, pd.Series(dtype.categories.array))
        _add(digest, values.cat.codes.to_numpy().astype("<i8").tobytes())
        return
    nulls = values.isna().to_numpy()
    _add(digest, np.packbits(nulls).tobytes())
    present = values[~nulls]
    numbers = _numbers(present)
    if numbers is not None:
        _add(digest, numbers.tobytes())
    elif isinstance(dtype, pd.StringDtype) or pd.api.types.infer_dtype(present) == "string":
        codes, distinct = pd.factorize(present)
        _add(digest, f"texts {len(distinct)}".encode())
        for text in distinct:
            _add(digest, str(text).encode("utf-8", "surrogatepass"))
        _add(digest, np.asarray(codes).astype("<i8").tobytes())
    else:
        _add(digest, f"others {len(present)}".encode())
        for value in present.astype(object):
            _add(digest, f"{type(value).__qualname__} {value!r}".encode("utf-8", "surrogatepass"))


def _numbers(values: pd.Series) -> np.ndarray | None:
    """Return booleans, whole numbers and floats without nulls, little-endian; None for all else."""
    types, dtype = pd.api.types, values.dtype
    if types.is_bool_dtype(dtype):
        return values.to_numpy(dtype="u1")
    if types.is_unsigned_integer_dtype(dtype):
        return values.to_numpy(dtype="<u8")
    if types.is_integer_dtype(dtype):
        return values.to_numpy(dtype="<i8")
    if types.is_float_dtype(dtype) and dtype.itemsize <= 8:
        return values.to_numpy(dtype="<f8")
    return None


def _add(digest: Any, part: bytes) -> None:
    """Return a part after its length, so that no two lists of parts give the same bytes."""
    digest.update(len(part).to_bytes(8, "little"))
    digest.update(part)
