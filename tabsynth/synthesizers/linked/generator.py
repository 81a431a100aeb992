"""The generator of linked tables: a mixture for the records of the root, and networks that draw later children."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth.encoding.gaps import is_gap
from tabsynth.encoding.linked import OWN, PREVIOUS, CodedTable, LinkedEncoder, Records
from tabsynth.encoding.rows import SharedRows
from tabsynth.synthesizers.linked.network import ContextNetwork
from tabsynth.synthesizers.mixture import EVERYTHING, Box, Mixture

SMALLEST = 1e-30


class LinkedGenerator(nn.Module):
    """A mixture of the records of the root, and a network for the later children of each other table.

    Parameters
    ----------
    encoder : LinkedEncoder
    components : int
        K of the mixture.
    hidden : sequence of int
        Widths of the networks' hidden layers.
    rng : torch.Generator, optional
        Draws the networks; None leaves their weights to be loaded.
    """

    def __init__(
        self,
        encoder: LinkedEncoder,
        components: int,
        hidden: Sequence[int],
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        weighted = encoder.schema.design.weight is not None
        layout = encoder.records[encoder.schema.root].layout
        self.root = Mixture(layout, components, shared=weighted)
        self.names = [name for name in encoder.records if name != encoder.schema.root]
        self.networks = nn.ModuleList(
            ContextNetwork(encoder.records[name], hidden, rng) for name in self.names
        )

    def network(self, name: str) -> ContextNetwork:
        """Return the network of a table's later children."""
        network = self.networks[self.names.index(name)]
        assert isinstance(network, ContextNetwork)
        return network

    @torch.no_grad()
    def set_root(self, mixture: Mixture) -> None:
        """Take on the fitted mixture of the root's records.

        Whether a record has a first child follows from the number of children, which is drawn with it. So the code that
        says it has none is not drawn: its probability goes to the other codes of the column.
        """
        p: Tensor = mixture.probabilities.detach().clone()
        records = self.encoder.records[self.encoder.schema.root]
        for column, block in zip(records.drawn, records.layout.blocks, strict=True):
            if column.optional:
                smoothed = p[:, block.start : block.stop - 1] + SMALLEST
                p[:, block.start : block.stop - 1] = smoothed / smoothed.sum(1, keepdim=True)
                p[:, block.stop - 1] = 0
        self.root.set(p, mixture.shares)

    def sound(self) -> bool:
        """Return whether probabilities are such, and weights finite."""
        return self.root.sound() and all(self.network(name).sound() for name in self.names)

    def contexts(self, name: str, n: int, rng: torch.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return contexts of later children of one table in ``n`` drawn groups, and the weight of each record."""
        tables = self.sample(n, rng, upto=name, rounded=False)
        rows = self.encoder.to_rows(tables)[name]
        width = len(self.encoder.records[name].context)
        if not isinstance(rows, SharedRows) or rows.shares is None or not len(rows):
            return np.zeros((1, width), dtype=np.int64), np.ones(1)  # no group has two: any will do
        return rows.codes[:, :width], rows.shares

    def sample(
        self,
        n: int,
        rng: torch.Generator,
        upto: str | None = None,
        *,
        rounded: bool = True,
        boxes: Sequence[Box] = EVERYTHING,
    ) -> dict[str, CodedTable]:
        """Return codes of all tables of ``n`` rows of the root with their children and other records; children in the order of parents.

        Later children of tables after ``upto`` are left out; ``rounded`` and ``boxes``, of the root's records, as of
        :meth:`Mixture.sample`.
        """
        schema = self.encoder.schema
        nothing = np.zeros(0, dtype=np.int64)
        tables = {
            name: CodedTable(
                np.zeros((0, len(self.encoder.columns(name))), dtype=np.int64),
                nothing,
                nothing,
                dict.fromkeys(schema.children(name), nothing),
            )
            for name in schema.names
        }
        drawn = self.root.sample(n, rng, rounded=rounded, boxes=boxes)
        zeros = np.zeros(n, dtype=np.int64)
        self._enter(schema.root, drawn, zeros, zeros, tables)
        for name in schema.names[1:]:
            self._draw_later(name, tables, rng)
            if name == upto:
                break
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
            context = self.encoder.context(name, previous, tables)
            drawn = self._draw(name, context, rng)
            start, of = len(tables[name].codes), tables[name].parent[previous]
            self._enter(name, drawn, of, np.full(len(of), position), tables)
            previous = start + np.arange(len(of))

    def _draw(self, name: str, context: np.ndarray, rng: torch.Generator) -> np.ndarray:
        """Return records of a table given their contexts, shape (n, drawn columns)."""
        records = self.encoder.records[name]
        ordered = self._ordered_columns(records)

        def allowed_codes(j: int, rows: np.ndarray) -> np.ndarray | None:
            column = records.drawn[j]
            codes = np.arange(column.size)
            if j in ordered:
                return codes >= context[rows, ordered[j], None]  # not below the previous child's
            if is_gap(column.column.name) and (column.role, column.table) == (OWN, name):
                # Null is for first children.
                return np.broadcast_to(codes < column.size - 1, (len(rows), len(codes)))
            # Whether there is a first child follows from the number of children.
            return (
                np.broadcast_to(codes < column.absent, (len(rows), len(codes)))
                if column.optional
                else None
            )

        return self.network(name).draw(context, rng, allowed_codes)

    def _ordered_columns(self, records: Records) -> dict[int, int]:
        """Return for drawn columns that do not decrease from child to child, by number, the previous child's column."""
        keys = self.encoder.schema.keys[records.table]
        names = {keys.order, *(keys.increasing or ())}
        of_table = [
            (j, column)
            for j, column in enumerate(records.columns)
            if column.table == records.table and column.column.name in names
        ]
        previous = {c.column.name: j for j, c in of_table if c.role == PREVIOUS}
        return {
            j - len(records.context): previous[c.column.name]
            for j, c in of_table
            if c.role == OWN and c.column.name in previous
        }

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
        for name in self.encoder.schema.names[1:]:
            self.encoder.enter_first(name, tables)
