"""Columns of codes in a hierarchy, such as ICD-9, ICD-10 or NAICS: by prefixes of the codes, or by a declared tree.

Up to :data:`MODELLED` codes are category codes by themselves. Of longer lists the category codes are the nodes of the
finest level that has no more, or runs of neighbouring codes, and a column beside it, the detail, says which code of its
node a row has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from tabsynth._validate import check_text, integer, native, quote
from tabsynth.errors import InputError
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.cells import base_dtype, is_null
from tabsynth.schema.column import (
    Column,
    JsonTypes,
    domain_with_missing,
    fill_missing,
    label_of,
    merge_rare,
)
from tabsynth.schema.conditions import Restriction, has_no
from tabsynth.schema.facts import Value
from tabsynth.schema.missing import missing_codes
from tabsynth.schema.reading import each

MODELLED = 2_048  # codes of a column that are category codes; of more, nodes are
MOST_DETAILS = 4_000  # codes of a node: the detail is modelled as a column is
MAX_DEPTH = 50  # levels of a tree


@dataclass(frozen=True, kw_only=True)
class Hierarchical(Column):
    """A column of codes in a hierarchy. Where rows are few, counts of rare codes are those of what is above them.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels
        As of :class:`~tabsynth.schema.Column`. ``labels`` may name nodes, too.
    codes : tuple
        The values, nulls excluded: texts or whole numbers, at most 100,000. With ``parents`` the default is every
        node that has none below it.
    levels : tuple of int, optional
        The hierarchy by prefixes: how many characters the groups of each level share, the coarsest first. Dots do not
        count, so that (3, 4) groups 250.83 under 250.8 and 250.
    parents : dict or list of pairs, optional
        The hierarchy as a tree instead: from each node to the node above it, None for the topmost.
    modelled : tuple, optional
        Codes that are category codes by themselves. Others are then counted together under what is topmost above them, and
        each of them is as likely in synthetic rows.
    shorten : bool
        Whether a code that is not listed becomes the longest listed code that it begins with: 250.83 becomes 250.
    other : value, optional
        The code that takes all other values; without it they are refused.

    Examples
    --------
    >>> from tabsynth import Hierarchical
    >>> diagnosis = Hierarchical(
    ...     name="diag", dtype="str", codes=("250", "250.1", "428", "V58"), levels=(1, 3), shorten=True
    ... )
    >>> diagnosis.below("250")
    ('250', '250.1')
    """

    kind: str = "hierarchy"
    codes: tuple[Value, ...] = ()
    levels: tuple[int, ...] = ()
    parents: Mapping[str, str | None] | None = None
    modelled: tuple[Value, ...] = ()
    shorten: bool = False
    other: Value | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("text", "int", "category")
    json_types: ClassVar[JsonTypes] = {
        "codes": list,
        "levels": list,
        "parents": (dict, list),
        "modelled": list,
        "shorten": bool,
        "other": (str, int),
    }
    copied_facts: ClassVar[tuple[str, ...]] = ("codes", "parents")

    # Facts.

    def _check(self, where: str) -> None:
        object.__setattr__(self, "codes", tuple(self.codes))
        object.__setattr__(self, "levels", tuple(self.levels))
        object.__setattr__(self, "modelled", tuple(self.modelled))
        if self.parents is not None:
            if self.levels:
                raise InputError(f"{where}: declare levels or parents, not both.")
            object.__setattr__(self, "parents", _tree(self.parents, where))
            if not self.codes:
                object.__setattr__(self, "codes", self._leaves())
        before = 0
        for length in self.levels:
            if integer(f"levels of {where}", length) <= before:
                raise InputError(
                    f"{where}: levels must rise, as (1, 3); got {length} after {before}."
                )
            before = length
        if not self.codes:
            raise InputError(f"{where}: declare codes, a list of the values.")
        for code in self.codes:
            if isinstance(code, bool) or not isinstance(code, str | int):
                raise InputError(f"{where}: code {quote(code)} is neither text nor a whole number.")
        if len(self.code_list.categories) != len({str(code) for code in self.codes}):
            raise InputError(f"{where}: a code is listed as text and as a number; keep one.")
        for code in set(self.modelled) - set(self.codes):
            raise InputError(
                f"{where}: modelled has {quote(code)}, which is not among codes; add it there."
            )
        if self.parents is not None:
            homeless = next((c for c in self.codes if str(c) not in self.parents), None)
            if homeless is not None:
                raise InputError(
                    f"{where}: code {quote(homeless)} has no place in parents; add it, with null if nothing is above it."
                )

    def _leaves(self) -> tuple[Value, ...]:
        assert self.parents is not None
        above = set(self.parents.values())
        leaves = [node for node in self.parents if node not in above]
        is_whole = base_dtype(self.dtype) == "int"
        if is_whole and not all(node.lstrip("-").isdecimal() for node in leaves):
            raise InputError(
                f"column {quote(self.name)}: dtype {self.dtype} cannot hold the nodes of parents; list codes."
            )
        return tuple(int(node) if is_whole else node for node in leaves)

    @cached_property
    def code_list(self) -> Categorical:
        """The codes as a column without a hierarchy, whose category codes are their places in the list."""
        return Categorical(
            name=self.name,
            dtype=self.dtype,
            nulls=self.nulls,
            categories=self.codes,
            other=self.other,
            labels=self.labels,
        )

    # The hierarchy.

    @cached_property
    def paths(self) -> list[tuple[str, ...]]:
        """The paths of the listed codes: the nodes from the topmost down to itself, as texts."""
        if self.parents is None:
            return [self._prefixes(str(code)) for code in self.codes]
        parents = self.parents
        above: dict[str, tuple[str, ...]] = {}

        def path(node: str) -> tuple[str, ...]:
            if node not in above:
                parent = parents[node]
                above[node] = (*(path(parent) if parent is not None else ()), node)
            return above[node]

        return [path(str(code)) for code in self.codes]

    def _prefixes(self, code: str) -> tuple[str, ...]:
        places = [i for i, character in enumerate(code) if character != "."]
        shorter = [code[: places[n - 1] + 1] for n in self.levels if n < len(places)]
        return (*shorter, code)

    @cached_property
    def _under(self) -> dict[str, list[int]]:
        """The places of the listed codes at and below each node."""
        under: dict[str, list[int]] = {}
        for place, path in enumerate(self.paths):
            for node in path:
                under.setdefault(node, []).append(place)
        return under

    def below(self, node: Value) -> tuple[Value, ...]:
        """Return the listed codes at and below a node."""
        return tuple(self.codes[place] for place in self._under.get(str(node), ()))

    @cached_property
    def nodes(self) -> tuple[tuple[tuple[str, ...], ...], np.ndarray]:
        """The nodes for which category codes stand: of each its path; and for each listed code its category code."""
        if self.modelled:
            single = set(map(str, self.modelled))
            parts = [path if path[-1] in single else path[:1] for path in self.paths]
            numbers = {part: number for number, part in enumerate(dict.fromkeys(parts))}
            return tuple(numbers), np.array([numbers[part] for part in parts])
        if len(self.codes) <= MODELLED:
            return tuple(self.paths), np.arange(len(self.codes))
        for depth in range(max(map(len, self.paths)) - 1, 0, -1):
            parts = [path[:depth] for path in self.paths]
            numbers = {part: number for number, part in enumerate(dict.fromkeys(parts))}
            of = np.array([numbers[part] for part in parts])
            if len(numbers) <= MODELLED:
                if np.bincount(of).max() <= MOST_DETAILS:
                    return tuple(numbers), of
                break
        return self._runs()

    def _runs(self) -> tuple[tuple[tuple[str, ...], ...], np.ndarray]:
        """Implement :meth:`nodes`, of codes without a level that would do: neighbours by the hierarchy, as many in each."""
        order = sorted(range(len(self.codes)), key=lambda place: self.paths[place])
        length = -(-len(order) // MODELLED)
        of = np.empty(len(order), dtype=np.int64)
        of[order] = np.arange(len(order)) // length
        runs = [order[first : first + length] for first in range(0, len(order), length)]
        return tuple((f"{self.codes[r[0]]} to {self.codes[r[-1]]}",) for r in runs), of

    @cached_property
    def detail(self) -> Categorical | None:
        """The :attr:`Column.detail`: what a code adds to its node, or its number within it."""
        if self.modelled or len(self.nodes[0]) == len(self.codes):
            return None
        texts = tuple(dict.fromkeys(self._details))
        return Categorical(name=f"{self.name} (detail)", dtype="str", categories=texts)

    @cached_property
    def _details(self) -> list[str]:
        nodes, of = self.nodes
        names = [nodes[cell][-1] for cell in of]
        texts = [str(code) for code in self.codes]
        pairs = list(zip(texts, names, strict=True))
        if all(text.startswith(name) for text, name in pairs):
            return [text[len(name) :] or "(itself)" for text, name in pairs]
        seen = dict.fromkeys(names, 0)
        numbers = []
        for name in names:
            seen[name] += 1
            numbers.append(f"number {seen[name]}")
        return numbers

    @cached_property
    def _places(self) -> np.ndarray:
        """The place of the listed code by node and detail, -1 for none, shape (cells, details)."""
        assert self.detail is not None
        places = np.full((self.cells, self.detail.cells), -1, dtype=np.int64)
        places[self.nodes[1], self._detail_places] = np.arange(len(self.codes))
        return places

    # What a kind defines.

    @property
    def categories(self) -> tuple[Value, ...]:
        """The codes, where these are the category codes."""
        return self.codes if len(self.nodes[0]) == len(self.codes) else ()

    @cached_property
    def positions(self) -> dict[Value, int]:
        """The code of each listed value, or of its node."""
        return dict(zip(self.codes, self.nodes[1].tolist(), strict=True))

    @property
    def cells(self) -> int:
        """Number of codes, or of nodes that stand for them."""
        return len(self.nodes[0])

    @property
    def value_type(self) -> str:
        """The :attr:`Column.value_type`."""
        return self.code_list.value_type

    def label(self, code: int) -> str:
        """Return the code or node, or what ``labels`` says of it."""
        if code >= self.cells:
            return super().label(code)
        name = self.nodes[0][code][-1]
        return label_of(self.labels, name)

    def domain(self, limit: int = 8) -> str:
        """Implement :meth:`Column.domain`."""
        return domain_with_missing(self, replace(self.code_list, nulls=False).domain(limit), limit)

    def strict(self) -> Self:
        """Implement :meth:`Column.strict`: without ``other`` and ``shorten``."""
        return replace(self, other=None, shorten=False)

    def _encode(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.encode`."""
        return self.nodes[1][self._listed_places(values)]

    def _listed_places(self, values: pd.Series) -> np.ndarray:
        """Return the place in the list of each value, shape (n,)."""
        return self.code_list.encode(self._shorten_codes(values))

    def _shorten_codes(self, values: pd.Series) -> pd.Series:
        """Return values with unlisted codes replaced by the longest listed code that they begin with, value by value."""
        if not self.shorten:
            return values
        code_of_text = {str(code): code for code in self.codes}
        shortest, longest = min(map(len, code_of_text)), max(map(len, code_of_text))

        def ancestor(value: object) -> Any:
            text = str(native(value)) if isinstance(native(value), str | int) else ""
            if not text or text in code_of_text:
                return value
            ends = range(min(len(text) - 1, longest), shortest - 1, -1)
            return next(
                (code_of_text[text[:end]] for end in ends if text[:end] in code_of_text), value
            )

        before = values.to_numpy(dtype=object)
        cells = each(self, before, ancestor)
        if all(after is value for after, value in zip(cells, before, strict=True)):
            return values
        return pd.Series(cells, index=values.index, name=values.name, dtype=object)

    def _decode(
        self, codes: np.ndarray, rng: np.random.Generator, within: Any, details: np.ndarray | None
    ) -> pd.Series:
        """Implement :meth:`Column.decode`: of a node a code with the detail, where it has one, or that ``within`` allows.

        Else every code is as likely.
        """
        if details is None:
            return self.code_list.decode(self._draw(codes, rng, within), rng)
        nulls = codes == self.cells
        places = np.where(nulls, len(self.codes), self._places[np.where(nulls, 0, codes), details])
        lost = places < 0 if within is None else (places < 0) | ~(within[places] | nulls)
        if lost.any():
            places[lost] = self._draw(codes[lost], rng, within)
        return self.code_list.decode(places, rng)

    def _draw(self, codes: np.ndarray, rng: np.random.Generator, within: Any) -> np.ndarray:
        """Return a place in the list for each code; that after the last for null."""
        allowed = np.arange(len(self.codes)) if within is None else np.flatnonzero(within[:-1])
        of = self.nodes[1][allowed]
        order = allowed[np.argsort(of, kind="stable")]
        counts = np.bincount(of, minlength=self.cells)
        nulls = codes == self.cells
        cells = np.where(nulls, of[0], codes)
        first = np.append(0, counts.cumsum())[cells]
        places = order[first + np.floor(rng.random(len(codes)) * counts[cells]).astype(np.int64)]
        return np.where(nulls, len(self.codes), places)

    # The detail.

    @cached_property
    def _detail_places(self) -> np.ndarray:
        """The code of the detail of each listed code."""
        assert self.detail is not None
        return np.array([self.detail.positions[text] for text in self._details])

    def detail_codes(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.detail_codes`."""
        assert self.detail is not None
        codes = np.full(len(values), self.detail.cells - 1)
        present = missing_codes(self, values) < 0
        codes[present] = self._detail_places[self._listed_places(values[present])]
        return codes

    def detail_possible(self) -> np.ndarray:
        """Implement :meth:`Column.detail_possible`."""
        possible = self._places >= 0
        return fill_missing(self, possible, np.arange(possible.shape[1]) == possible.shape[1] - 1)

    # Groups: rare codes are counted with what is beside and below their nodes.

    def _groups(self, shares: np.ndarray, min_share: float, merged: float) -> np.ndarray:
        """Implement :meth:`Column.groups`: codes of fewer rows are one group with the others of their node, level by level.

        What is rare at the top is merged as values without an order are. The shares are released ones.
        """
        groups = np.arange(len(shares))
        totals = np.clip(shares, 0, None)
        paths = self.nodes[0]
        for depth in range(max(map(len, paths)) - 1, 0, -1):
            inside: dict[tuple[str, ...], list[int]] = {}
            for code, path in enumerate(paths):
                if len(path) >= depth and groups[code] == code and totals[code] < min_share:
                    inside.setdefault(path[:depth], []).append(code)
            for rare in inside.values():
                groups[np.isin(groups, rare[1:])] = rare[0]
                totals[rare[0]] += totals[rare[1:]].sum()
        heads = np.flatnonzero(groups == np.arange(len(shares)))
        of = merge_rare(totals[heads], min_share, merged)
        return of[np.searchsorted(heads, groups)]

    # Conditions and combinations of values.

    def _restriction(self, values: Sequence[Any], where: str) -> Restriction:
        """Implement :meth:`Column.restriction`; a node means all codes at and below it.

        ``within`` says which listed codes are allowed, where these are parts of what category codes stand for.
        """
        allowed = np.zeros(len(self.codes) + 1, dtype=bool)
        nulls = any(map(is_null, values))
        for value in values:
            under = () if isinstance(value, Mapping) else self._under.get(str(native(value)), ())
            if is_null(value) and self.nulls:
                continue
            if not under or not isinstance(native(value), str | int):
                raise has_no(self, value, where)
            allowed[under] = True
        chosen = np.bincount(self.nodes[1], weights=allowed[:-1], minlength=self.cells)
        partly = (chosen > 0) & (chosen < np.bincount(self.nodes[1], minlength=self.cells))
        shares = chosen > 0
        if self.nulls:
            shares, partly = np.append(shares, nulls), np.append(partly, False)
        if not partly.any():
            return Restriction(shares, partly)
        details = None
        if self.detail is not None:
            details = np.isin(np.arange(self.detail.size), self._detail_places[allowed[:-1]])
            details[-1] |= nulls
        return Restriction(
            shares, partly, allowed, details, admits=lambda values: self._admits(allowed, values)
        )

    def _admits(self, allowed: np.ndarray, values: pd.Series) -> np.ndarray:
        """Return which values are among some listed codes, or missing."""
        admitted = missing_codes(self, values) >= 0
        admitted[~admitted] = allowed[self._listed_places(values[~admitted])]
        return admitted

    # Values of files and tables.

    def _convert(self, values: pd.Series, texts: bool) -> pd.Series:
        """Implement :meth:`Column.convert`."""
        values = self._shorten_codes(values)
        return self.code_list.parse(values) if texts else self.code_list.convert(values)

    def to_series(self, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.to_series`."""
        return self.code_list.to_series(values, nulls)


def _tree(parents: Any, where: str) -> dict[str, str | None]:
    """Return the parent of each node; InputError for what is no tree."""
    pairs = list(parents.items()) if isinstance(parents, Mapping) else list(parents)
    tree: dict[str, str | None] = {}
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(
                f"{where}: parents has {quote(pair)} in place of a node and its parent."
            )
        node, parent = (end if end is None else str(end) for end in pair)
        for text in (node, parent):
            check_text(where, text)
        if node is None or node == "":
            raise InputError(f"{where}: parents names a node without a text.")
        if tree.get(node, parent) != parent:
            raise InputError(
                f"{where}: {quote(node)} has two parents, {quote(tree[node])} and {quote(parent)}; keep one."
            )
        tree[node] = parent
    for node, parent in tree.items():
        if parent is not None and parent not in tree:
            raise InputError(
                f"{where}: {quote(parent)}, the parent of {quote(node)}, is no node; add it, with null if nothing is"
                " above it."
            )
    for start in tree:
        seen: dict[str, None] = {}
        at: str | None = start
        while at is not None:
            if at in seen:
                raise InputError(f"{where}: {quote(at)} is above itself; parents must be a tree.")
            if len(seen) == MAX_DEPTH:
                raise InputError(f"{where}: the tree has more than {MAX_DEPTH} levels.")
            seen[at] = None
            at = tree[at]
    return tree
