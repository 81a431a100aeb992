"""DataFrame ⇄ value numbers ⇄ codes, by the schema alone."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.columns import Column
from tabsynth.encoding import discrete, numeric
from tabsynth.encoding.codebooks import codebook
from tabsynth.encoding.layout import Block, Layout
from tabsynth.encoding.steps import Runs
from tabsynth.errors import InputError
from tabsynth.schema import Schema
from tabsynth.structural_zeros import refuse_impossible, zeros

# A one-hot codebook takes size² numbers; past this it is gigabytes.
MAX_ONE_HOT = 4_096
MAX_CODEBOOKS = 2**26  # numbers in the one-hot codebooks of all columns, those of one size once


class TableEncoder:
    """Encoder of tables of one schema.

    It has no ``fit``: everything it knows comes from the schema (R12).

    Parameters
    ----------
    schema : Schema
    encoding : str or dict of str
        The scheme of all columns (``one-hot``, ``ordinal``, ``binary``, ``base-N``), or a scheme by
        column name; columns not named are one-hot.

    Formal guarantees
    -----------------
    Data-independent: ``layout`` is the same for every table, and each row is encoded by itself.
    """

    def __init__(self, schema: Schema, encoding: str | Mapping[str, str] = "one-hot") -> None:
        self.schema = schema
        self.encoding = encoding
        schemes = (
            encoding if isinstance(encoding, Mapping) else dict.fromkeys(schema.names, encoding)
        )
        for name in schemes:
            if name not in schema.names:
                raise InputError(f"encoding names column {shown(name)}, which the schema lacks.")
        _check_one_hot([c for c in schema.columns if schemes.get(c.name, "one-hot") == "one-hot"])
        blocks, start = [], 0
        for column in schema.columns:
            scheme = schemes.get(column.name, "one-hot")
            book, head = codebook(column.size, scheme)
            blocks.append(Block(column.name, start, start + book.shape[1], head, book))
            start += book.shape[1]
        self.layout = Layout(tuple(blocks))
        self.zeros = zeros(schema.columns, schema.impossible)

    def to_index(self, table: pd.DataFrame, what: str = "table") -> np.ndarray:
        """Value numbers, shape (rows, columns) int64.

        Refuses what the schema does not declare, and rows that it declares impossible.
        """
        self.schema.check_columns(table, what)
        named = table.set_axis([str(name) for name in table.columns], axis=1)
        parts = [column_to_index(c, named[c.name]) for c in self.schema.columns]
        index = np.stack(parts, axis=1)
        refuse_impossible(self.schema.columns, self.zeros, index, what)
        return index

    def from_index(
        self,
        index: np.ndarray,
        rng: np.random.Generator,
        asked: Mapping[str, Runs] | None = None,
    ) -> pd.DataFrame:
        """A table of the schema's columns, order and dtypes; numeric cells are filled by ``rng``.

        ``asked``: by column, the only steps that fill its cells.
        """
        series = {}
        for j, column in enumerate(self.schema.columns):
            if column.kind == "numeric":
                series[column.name] = numeric.from_index(
                    column, index[:, j], rng, (asked or {}).get(column.name)
                )
            else:
                series[column.name] = discrete.from_index(column, index[:, j])
        return pd.DataFrame(series, columns=list(self.schema.names))

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Codes, shape (rows, layout.width) float32."""
        return self.layout.encode(self.to_index(table))

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        """Inverse of :meth:`encode`: exact for discrete columns, to the cell for numeric ones."""
        return self.from_index(self.layout.decode(codes), rng)


def _check_one_hot(columns: Sequence[Column]) -> None:
    """Refuse columns whose codebooks take too much memory; columns of one size share one."""
    sizes = {column.size: column.name for column in columns}
    for size, name in sizes.items():
        if size > MAX_ONE_HOT:
            raise InputError(
                f"Column {shown(name)} has {size} values, too many for one-hot codes (at most"
                f" {MAX_ONE_HOT}); declare the common ones, with 'other' for the rest, or fewer bins, or take"
                " a GAN and encode the column as binary or base-N."
            )
    if sum(size**2 for size in sizes) > MAX_CODEBOOKS:
        raise InputError(
            "The one-hot codes of all columns take too much memory; group values, or encode the largest"
            f" column, {shown(sizes[max(sizes)])}, as binary or base-N."
        )


def column_to_index(column: Column, values: pd.Series) -> np.ndarray:
    """Value numbers of one column, shape (n,) int64."""
    module = numeric if column.kind == "numeric" else discrete
    return module.to_index(column, values)
