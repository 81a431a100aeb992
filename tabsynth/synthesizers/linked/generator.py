"""The generator of linked tables: a mixture for the records of the root, and networks that draw later children."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from tabsynth.encoding.gaps import is_gap
from tabsynth.encoding.linked import PREVIOUS, CodedTable, LinkedEncoder, Records, Repeated
from tabsynth.encoding.profiles import Profiles
from tabsynth.encoding.rows import SharedRows
from tabsynth.synthesizers.linked.calibration import DRAWN, choose, fit_chances
from tabsynth.synthesizers.linked.network import CONTEXTS, ContextNetwork
from tabsynth.synthesizers.mixture import EVERYTHING, Box, Mixture

SMALLEST = 1e-30
GROUPS, MOST_GROUPS = 2_000, 10_000  # rows of the root that are drawn at once, and at most
LEAST_FITTED = 1_000  # rows of the root that chances are fitted to


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

    counts: Tensor
    roots: Tensor
    chances: Tensor

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
        profiles = None if weighted else Profiles(encoder)
        self.profiles = profiles if profiles is not None and profiles.sets else None
        width = 0 if self.profiles is None else self.profiles.width
        # Noisy counts of profiles and the standard deviations of their noise, of so many roots; coefficients of chances.
        self.register_buffer("counts", torch.zeros(2, width, dtype=torch.float64))
        self.register_buffer("roots", torch.zeros((), dtype=torch.float64))
        self.register_buffer("chances", torch.zeros(1 + width, dtype=torch.float64))
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
                if is_gap(column.column.name):  # null in first rows, which is the last code
                    smoothed.zero_()[:, -1] = 1.0
                p[:, block.start : block.stop - 1] = smoothed / smoothed.sum(1, keepdim=True)
                p[:, block.stop - 1] = 0
        self.root.set(p, mixture.shares)

    def match_shares(self, rng: torch.Generator) -> None:
        """Make codes nearly as frequent as their released shares say: networks' biases are moved by how far drawn rows are off."""
        assert self.profiles is not None
        tables = self.sample(2 * GROUPS, rng)
        for name in self.profiles.released:
            codes, shares = self.profiles.share_of(name)
            drawn = np.asarray(self.profiles.presence(name, tables).mean(axis=0)).ravel()
            of = self.encoder.once[name]
            ratio = (shares + of.std + SMALLEST) / (drawn + of.std + SMALLEST)
            self.network(name).add_bias(of.place, codes, np.log(ratio.clip(1 / 8, 8.0)))

    def set_profiles(
        self, counts: np.ndarray, stds: np.ndarray, roots: float, rng: torch.Generator
    ) -> None:
        """Take on noisy counts of profiles of ``roots`` rows of the root, beside the released shares; to be called after all fits."""
        assert self.profiles is not None
        shares, std = self.profiles.released_shares()
        counts, stds = self.profiles.targets(counts, stds)
        every = np.concatenate([counts, roots * shares])
        noise = np.concatenate([stds, np.full(len(shares), roots * std)])
        self.counts = torch.from_numpy(np.stack([every, noise]))
        self.roots = torch.tensor(roots, dtype=torch.float64)
        pool = self.sample(DRAWN * GROUPS, rng)
        self.chances = torch.from_numpy(self._fit_chances(self.profiles.features(pool), GROUPS))

    def _fit_chances(self, features: csr_matrix, n: int) -> np.ndarray:
        """Return the coefficients of the chances of drawn rows of the root, of which ``n`` are chosen."""
        counts, stds = n / float(self.roots) * self.counts.cpu().numpy()
        return fit_chances(features, counts, stds, n)

    def sound(self) -> bool:
        """Return whether probabilities are such, and weights finite."""
        finite = all(bool(torch.isfinite(b).all()) for b in (self.counts, self.chances, self.roots))
        return finite and self.root.sound() and all(self.network(n).sound() for n in self.names)

    def contexts(self, name: str, rng: torch.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return contexts of the records of one table in drawn groups, ``CONTEXTS`` or more where groups have so many, and the weight of each."""
        width, parts = len(self.encoder.records[name].context), list[SharedRows]()
        for _ in range(MOST_GROUPS // GROUPS):
            tables = self.sample(GROUPS, rng, upto=name, rounded=False)
            rows = self.encoder.rows_of(name, tables)
            if isinstance(rows, SharedRows):
                parts.append(rows)
            if sum(map(len, parts)) >= CONTEXTS:
                break
        codes = np.concatenate([rows.codes[:, :width] for rows in parts])
        if not len(codes):  # no group has a record: any context will do
            return np.zeros((1, width), dtype=np.int64), np.ones(1)
        return codes, np.concatenate([rows.shares for rows in parts if rows.shares is not None])

    def draw(
        self, n: int, rng: torch.Generator, boxes: Sequence[Box] = EVERYTHING
    ) -> dict[str, CodedTable]:
        """Return codes of all tables of ``n`` rows of the root, chosen among more by their profiles where these were counted.

        For many rows the chances are fitted to the rows that are drawn. For few, and under a condition, they are those of
        :meth:`set_profiles`.
        """
        if self.profiles is None or not float(self.roots):
            return self.sample(n, rng, boxes=boxes)
        parts, bits = list[dict[str, CodedTable]](), torch.randint(2**62, (1,), generator=rng)
        chosen_by = np.random.default_rng(int(bits))
        for start in range(0, max(n, 1), MOST_GROUPS):
            number = min(n - start, MOST_GROUPS)
            drawn = self.sample(DRAWN * number, rng, boxes=boxes)
            features, chances = self.profiles.features(drawn), self.chances.cpu().numpy()
            if number >= LEAST_FITTED and boxes is EVERYTHING:
                chances = self._fit_chances(features, number)
            rows = choose(features, chances, number, chosen_by)
            parts.append(self.encoder.take(drawn, rows))
        return self.encoder.join(parts)

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
        self._enter_roots(drawn, tables)
        for name in schema.children(schema.root):
            self._draw_later(name, tables, rng)
        self._sort(tables)
        for name in schema.names[1:]:
            if self.encoder.is_deep(name):
                self._draw_deep(name, tables, rng)
            if name == upto:
                break
        return tables

    def _enter_roots(self, drawn: np.ndarray, tables: dict[str, CodedTable]) -> None:
        """Enter the records of the root in the tables: its rows, and the first children of each."""
        schema = self.encoder.schema
        width, children = len(self.encoder.columns(schema.root)), schema.children(schema.root)
        zeros = np.zeros(len(drawn), dtype=np.int64)
        tables[schema.root] = CodedTable(drawn[:, :width], zeros, zeros)
        used = width
        for number, child in enumerate(children, width - len(children)):
            has = np.flatnonzero(drawn[:, number] > 0)
            own = slice(used, used := used + len(self.encoder.columns(child)))
            tables[child] = CodedTable(drawn[has, own], has, np.zeros_like(has))
            self.encoder.enter_first(child, tables)

    def _numbers(self, name: str, tables: Mapping[str, CodedTable]) -> np.ndarray:
        """Return how many rows of a table each row of its parent has, shape (rows of the parent,)."""
        parent = str(self.encoder.schema.keys[name].parent)
        column = len(self.encoder.encoders[parent].schema.columns)
        column += self.encoder.schema.children(parent).index(name)
        return np.minimum(tables[parent].codes[:, column], self.encoder.most(name))

    def _draw_later(self, name: str, tables: dict[str, CodedTable], rng: torch.Generator) -> None:
        """Draw the second, third, … children of all rows of the root, each given its context."""
        number, table = self._numbers(name, tables), tables[name]
        seen_codes = self._seen_codes(name, tables)
        previous = np.arange(len(table.codes))
        for position in range(1, self.encoder.most(name)):
            previous = previous[number[table.parent[previous]] > position]
            if not len(previous):
                return
            parent, positions = table.parent[previous], np.full(len(previous), position)
            before = positions if seen_codes is None else seen_codes.of(parent).number()
            context = self.encoder.context(name, parent, previous, positions, tables, before)
            drawn = self._draw(name, context, positions, rng, seen_codes)
            previous = len(table.codes) + np.arange(len(parent))
            table.codes = np.concatenate([table.codes, drawn])
            table.parent = np.concatenate([table.parent, parent])
            table.position = np.concatenate([table.position, positions])

    def _draw_deep(self, name: str, tables: dict[str, CodedTable], rng: torch.Generator) -> None:
        """Draw all rows of a table that is further down: of each root row one after the other."""
        encoder, number = self.encoder, self._numbers(name, tables)
        parent = np.repeat(np.arange(len(number)), number)
        position = np.arange(len(parent)) - np.searchsorted(parent, parent)
        width = len(encoder.columns(name))
        table = CodedTable(np.zeros((len(parent), width), dtype=np.int64), parent, position)
        tables[name] = table
        roots = encoder.roots(name, tables)
        place = np.arange(len(roots)) - np.searchsorted(roots, roots)
        seen_codes = self._seen_codes(name, tables)
        order = np.argsort(place, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(place, minlength=1))[:-1]):
            if not len(rows):
                return
            previous = np.where(place[rows] > 0, rows - 1, -1)
            before = position[rows] if seen_codes is None else seen_codes.of(roots[rows]).number()
            places = (parent[rows], previous, position[rows])
            context = encoder.context(name, *places, tables, before)
            table.codes[rows] = self._draw(name, context, position[rows], rng, seen_codes)
        encoder.enter_first(name, tables)

    def _seen_codes(self, name: str, tables: Mapping[str, CodedTable]) -> "_SeenCodes | None":
        """Return the codes that each row of the root has once; None of a table without such."""
        if name not in self.encoder.once:
            return None
        roots, table = len(tables[self.encoder.schema.root].codes), tables[name]
        repeated = self.encoder.once[name]
        seen_codes = _SeenCodes(repeated, self.encoder.columns(name)[repeated.place].size, roots)
        if not self.encoder.is_deep(name):
            seen_codes.of(table.parent).enter(table.codes)
        return seen_codes

    def _draw(
        self,
        name: str,
        context: np.ndarray,
        position: np.ndarray,
        rng: torch.Generator,
        seen_codes: "_SeenCodes | None",
    ) -> np.ndarray:
        """Return records of a table given their contexts, shape (n, drawn columns)."""
        records = self.encoder.records[name]
        ordered = self._ordered_columns(records)

        def allowed_codes(j: int, rows: np.ndarray, p: np.ndarray) -> np.ndarray | None:
            column = records.drawn[j]
            codes = np.arange(column.size)
            if seen_codes is not None and j == seen_codes.place:
                return seen_codes.without_seen(rows, p)
            if j in ordered:  # not below the code of the previous row of the same parent
                lowest = np.where(position[rows] > 0, context[rows, ordered[j]], 0)
                return (p + SMALLEST) * (codes >= lowest[:, None])
            if is_gap(column.column.name):  # null is for first rows of a parent
                null = codes == column.size - 1
                return (p + SMALLEST) * (null == (position[rows, None] == 0))
            return None

        drawn = self.network(name).draw(context, rng, allowed_codes)
        if seen_codes is not None:
            seen_codes.enter(drawn)
        return drawn

    def _ordered_columns(self, records: Records) -> dict[int, int]:
        """Return for drawn columns that do not decrease from row to row, by number, the previous row's column."""
        keys = self.encoder.schema.keys[records.table]
        names = {keys.order, *(keys.increasing or ())}
        return {
            c.place: j
            for j, c in enumerate(records.context)
            if c.role == PREVIOUS and c.column.name in names
        }

    def _sort(self, tables: dict[str, CodedTable]) -> None:
        """Put children of the root in the order of their parents, and of their positions."""
        for name in self.encoder.schema.children(self.encoder.schema.root):
            table = tables[name]
            order = np.lexsort((table.position, table.parent))
            tables[name] = CodedTable(
                table.codes[order], table.parent[order], table.position[order]
            )
            self.encoder.enter_first(name, tables)


class _SeenCodes:
    """The codes of a column that rows of the root have, each of which they have once.

    Parameters
    ----------
    repeated : Repeated
    size : int
        Codes of the column.
    roots : int
    """

    def __init__(self, repeated: Repeated, size: int, roots: int) -> None:
        self.place, self.again = repeated.place, repeated.again
        self.once = np.isin(np.arange(size), repeated.codes)
        self.seen = np.zeros((roots, size), dtype=bool)
        self.different = np.zeros(roots, dtype=np.int64)
        self.roots = np.zeros(0, dtype=np.int64)

    def of(self, roots: np.ndarray) -> "_SeenCodes":
        """Take the root rows that the next rows are of, at most one row of each."""
        self.roots = roots
        return self

    def number(self) -> np.ndarray:
        """Return how many codes each of the root rows has."""
        return self.different[self.roots]

    def without_seen(self, rows: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Return probabilities of codes without those that roots have: their share goes to other codes, not to "again".

        How likely "again" is has been learned with the number of codes that a root has, so it stays as it is.
        """
        seen = self.seen[self.roots[rows]]
        left = np.where(seen & self.once, 0.0, p + SMALLEST)
        left[:, self.again] = 0.0
        again = p[:, self.again] * seen.any(axis=1)
        left *= ((1 - again) / np.maximum(left.sum(axis=1), SMALLEST))[:, None]
        left[:, self.again] = np.where(left.any(axis=1), again, 1.0)
        return left

    def enter(self, drawn: np.ndarray) -> None:
        """Enter the codes of drawn rows."""
        code = drawn[:, self.place]
        has = code != self.again
        self.seen[self.roots[has], code[has]] = True
        self.different[self.roots[has]] += 1
