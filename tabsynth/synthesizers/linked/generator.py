"""The generator of linked tables: a mixture for the records of each table, and the walk that draws groups from them."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth.encoding.linked import OWN, PREVIOUS, CodedTable, LinkedEncoder, Records
from tabsynth.synthesizers.mixture import Mixture

EMPTY = -1  # of a code that is to be drawn


class LinkedMixture(nn.Module):
    """Mixtures of the records of linked tables.

    Parameters
    ----------
    encoder : LinkedEncoder
    components : mapping of str to int
        K of the mixture of each table's records.
    """

    def __init__(self, encoder: LinkedEncoder, components: Mapping[str, int]) -> None:
        super().__init__()
        self.encoder = encoder
        self.names = list(encoder.records)
        self.mixtures = nn.ModuleList(
            Mixture(encoder.records[name].layout, components[name]) for name in self.names
        )

    def mixture(self, name: str) -> Mixture:
        """That of a table's records."""
        found = self.mixtures[self.names.index(name)]
        assert isinstance(found, Mixture)
        return found

    @torch.no_grad()
    def set(self, name: str, mixture: Mixture) -> None:
        """Take on the fitted mixture of a table's records.

        Whether a record has a first child follows from the number of children, which is drawn with it. So the code that
        says it has none is not drawn: its probability goes to the other codes of the column.
        """
        p: Tensor = mixture.probabilities.detach().clone()
        records = self.encoder.records[name]
        blocks = records.layout.blocks[len(records.context) :]
        for column, block in zip(records.drawn, blocks, strict=True):
            if column.optional:
                kept = p[:, block.start : block.stop - 1] + 1e-30
                p[:, block.start : block.stop - 1] = kept / kept.sum(1, keepdim=True)
                p[:, block.stop - 1] = 0
        self.mixture(name).set(p)

    def sound(self) -> bool:
        """Whether all are probabilities."""
        return all(self.mixture(name).sound() for name in self.names)

    def sample(self, n: int, rng: torch.Generator) -> dict[str, CodedTable]:
        """Codes of all tables of ``n`` rows of the root with all that hangs on them; children in the order of parents."""
        schema = self.encoder.schema
        nothing = np.zeros(0, dtype=np.int64)
        tables = {
            name: CodedTable(
                np.zeros((0, len(self.encoder.columns(name))), dtype=np.int64),
                nothing,
                nothing,
                {child: nothing for child in schema.children(name)},
            )
            for name in schema.names
        }
        drawn = self.mixture(schema.root).sample(n, rng)
        zeros = np.zeros(n, dtype=np.int64)
        self._enter(schema.root, drawn, zeros, zeros, tables)
        for name in schema.names[1:]:
            self._draw_later(name, tables, rng)
        self._sort(tables)
        return tables

    def _enter(
        self,
        name: str,
        drawn: np.ndarray,
        parent: np.ndarray,
        position: np.ndarray,
        tables: dict[str, CodedTable],
    ) -> int:
        """Add drawn records to the tables: rows of one table, and the first children of each.

        Returns
        -------
        int
            How many columns of the records were of this table and those below it.
        """
        table, width = tables[name], len(self.encoder.columns(name))
        start, rows = len(table.codes), len(drawn)
        table.codes = np.concatenate([table.codes, drawn[:, :width]])
        table.parent = np.concatenate([table.parent, parent])
        table.position = np.concatenate([table.position, position])
        used = width
        children = self.encoder.schema.children(name)
        for child, number in zip(children, drawn[:, width - len(children) : width].T, strict=True):
            has = np.flatnonzero(number > 0)
            first = np.full(rows, -1, dtype=np.int64)
            first[has] = len(tables[child].codes) + np.arange(len(has))
            table.first[child] = np.concatenate([table.first[child], first])
            used += self._enter(child, drawn[has, used:], start + has, np.zeros_like(has), tables)
        return used

    def _draw_later(self, name: str, tables: dict[str, CodedTable], rng: torch.Generator) -> None:
        """Draw the second, third, … children of all parents, each given its context."""
        parent = str(self.encoder.schema.keys[name].parent)
        column = len(self.encoder.encoders[parent].schema.columns)
        column += self.encoder.schema.children(parent).index(name)
        number = np.minimum(tables[parent].codes[:, column], self.encoder.most(name))
        previous = np.arange(len(tables[name].codes))
        for position in range(1, self.encoder.most(name)):
            previous = previous[number[tables[name].parent[previous]] > position]
            if not len(previous):
                return
            given = self.encoder.context(name, previous, tables)
            drawn = self._drawn(name, given, rng)
            start, of = len(tables[name].codes), tables[name].parent[previous]
            self._enter(name, drawn, of, np.full(len(of), position), tables)
            previous = start + np.arange(len(of))

    def _drawn(self, name: str, context: np.ndarray, rng: torch.Generator) -> np.ndarray:
        """Records of a table given their contexts, shape (n, drawn columns)."""
        records, mixture = self.encoder.records[name], self.mixture(name)
        index = np.full((len(context), len(records.columns)), EMPTY, dtype=np.int64)
        index[:, : context.shape[1]] = context
        ordered = self._ordered_columns(records)
        if ordered is None:
            filled = mixture.complete(index, rng)
        else:  # values that do not fall below the previous one's
            before, own = ordered
            filled = index.copy()
            for code in np.unique(index[:, before]):
                rows = np.flatnonzero(index[:, before] == code)
                allowed = np.arange(records.columns[own].size) >= code
                filled[rows] = mixture.complete(index[rows], rng, boxes=[{own: allowed}])
        impossible = np.flatnonzero((filled < 0).any(axis=1))
        if len(impossible):  # a context of probability 0 says nothing
            anew = np.full((len(impossible), len(records.columns)), EMPTY, dtype=np.int64)
            filled[impossible] = mixture.complete(anew, rng)
            if ordered is not None:
                before, own = ordered
                least = context[impossible, before]
                filled[impossible, own] = np.maximum(filled[impossible, own], least)
        return filled[:, context.shape[1] :]

    def _ordered_columns(self, records: Records) -> tuple[int, int] | None:
        """The numbers of the order column of the previous child and of the next one; None where it is not modelled."""
        order = self.encoder.schema.keys[records.table].order
        found = [
            j
            for j, column in enumerate(records.columns)
            if column.table == records.table
            and column.column.name == order
            and column.role in (PREVIOUS, OWN)
        ]
        return (found[0], found[1]) if len(found) == 2 else None

    def _sort(self, tables: dict[str, CodedTable]) -> None:
        """Put children in the order of their parents, and of their positions."""
        for name in self.encoder.schema.names[1:]:
            table = tables[name]
            order = np.lexsort((table.position, table.parent))
            tables[name] = CodedTable(
                table.codes[order], table.parent[order], table.position[order]
            )
            new = np.empty(len(order), dtype=np.int64)
            new[order] = np.arange(len(order))
            for child in self.encoder.schema.children(name):
                tables[child].parent = new[tables[child].parent]
