"""Rules held in rows of category codes that a model has drawn: entries are exchanged between rows.

An exchange of one column's entries between two rows leaves every one-way distribution as it is. Rows that no exchange
mends take the columns of the rules from a row that satisfies them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tabsynth.errors import InputError
from tabsynth.schema.column import Column
from tabsynth.schema.constraints import Derived, Implication, Order, Rule
from tabsynth.schema.schema import Schema

ROUNDS = 60  # of exchanges; those that mend anything are rare after these
MIN_ROWS = 2_000  # rows that are drawn for exchanges, where fewer are asked for

Codes = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class CodeRule:
    """A rule that category codes of modelled columns decide.

    Attributes
    ----------
    names : tuple of str
        The modelled columns.
    numbers : tuple of int
        Their numbers.
    broken : callable
        From codes by column name, shape (n,) each, to which rows break the rule, bool.
    text : str
    """

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    broken: Callable[[Codes], np.ndarray]
    text: str

    def broken_in(self, index: np.ndarray) -> np.ndarray:
        """Which rows of modelled codes, shape (n, columns), break the rule."""
        return self.broken({n: index[:, j] for n, j in zip(self.names, self.numbers, strict=True)})


class CodeRules:
    """The rules of a schema, over the codes of its modelled columns.

    A derived column with a table stands for its sources. A rule about a column that is computed by an expression or
    modelled by a difference is refused, for codes do not decide it.

    Parameters
    ----------
    schema : Schema

    Raises
    ------
    InputError
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._numbers = {name: j for j, name in enumerate(schema.learned.names)}
        self.rules: list[CodeRule] = []
        for rule in schema.row_rules:
            modelled = isinstance(rule, Order) and rule.difference is not None
            if not modelled and not isinstance(rule, Derived):
                self.rules.append(self._code_rule(rule))
        self.rules += [
            self._detail_rule(c, c.detail)
            for c in schema.columns
            if c.detail is not None and c.name in self._numbers
        ]

    def _code_rule(self, rule: Rule) -> CodeRule:
        names = tuple(dict.fromkeys(n for name in rule.names for n in self._sources(name, rule)))
        numbers = tuple(self._numbers[name] for name in names)
        if isinstance(rule, Implication):
            implied = rule

            def broken(codes: Codes) -> np.ndarray:
                return implied.broken_codes([self._codes(n, codes) for n in implied.names])

        else:
            assert isinstance(rule, Order)
            order = rule
            cells = [c.code_amounts() for c in order.columns]
            ends = [
                [np.append(e, np.full(c.size - c.cells, np.nan)) for e in pair]
                for c, pair in zip(order.columns, cells, strict=True)
            ]

            def broken(codes: Codes) -> np.ndarray:
                of = [self._codes(name, codes) for name in order.names]
                lows, highs = (
                    np.stack([e[i][c] for e, c in zip(ends, of, strict=True)], axis=1)
                    for i in (0, 1)
                )
                return ~order.feasible(lows, highs)

        return CodeRule(names, numbers, broken, rule.text)

    def _detail_rule(self, column: Column, detail: Column) -> CodeRule:
        """That the code of a column has a value which is as its detail says."""
        names = (column.name, detail.name)
        possible = column.detail_possible()
        return CodeRule(
            names,
            tuple(self._numbers[name] for name in names),
            lambda codes: ~possible[codes[names[0]], codes[names[1]]],
            f"{names[1]} fits {column.name}",
        )

    def _sources(self, name: str, rule: Rule) -> tuple[str, ...]:
        """The modelled columns that decide the code of a column."""
        if name in self._numbers:
            return (name,)
        maker = self._schema.makers[name]
        if isinstance(maker, Derived) and maker.lookup is not None:
            return tuple(n for c in maker.sources for n in self._sources(c.name, rule))
        raise InputError(
            f"The rule {rule.text!r} is about column {name!r}, which is computed from others; write the rule about"
            " columns that are not computed."
        )

    def _codes(self, name: str, codes: Codes) -> np.ndarray:
        if name in codes:
            return codes[name]
        maker = self._schema.makers[name]
        assert isinstance(maker, Derived)
        return maker.codes([self._codes(c.name, codes) for c in maker.sources])

    def broken(self, index: np.ndarray) -> np.ndarray:
        """Which rows of codes, shape (n, columns), break a rule; bool, shape (n,)."""
        return self._count(index, self.rules) > 0

    def hold(self, index: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rows of codes, shape (n, columns), all of which satisfy the rules.

        Raises
        ------
        InputError
            If no row does, so that there is none to follow.
        """
        if not self.rules or not len(index):
            return index
        index = index.copy()
        for number in range(ROUNDS):
            near = number % 2 == 0
            mended = sum(self._exchange(index, rule, near, rng) for rule in self.rules)
            if not mended and not near:
                break
        for group in self._groups():
            self._follow(index, group, rng)
        return index

    def _exchange(
        self, index: np.ndarray, rule: CodeRule, near: bool, rng: np.random.Generator
    ) -> int:
        """Exchange entries of one of the rule's columns; how many rows that mended.

        ``near``: with rows that break another rule about the column, which may lack just what this one has too much.
        """
        broken = np.flatnonzero(rule.broken_in(index))
        if not len(broken):
            return 0
        mended = 0
        for j in rng.permutation(rule.numbers):
            if not len(broken):
                break
            touching = [r for r in self.rules if j in r.numbers]
            pool = np.flatnonzero(self._count(index, touching)) if near else np.arange(len(index))
            # Rows that break this rule, too, are left for another round.
            others = rng.permutation(np.setdiff1d(pool, broken))[: len(broken)]
            at = rng.permutation(broken)[: len(others)]
            before = self._count(index, touching, at) + self._count(index, touching, others)
            ours, theirs = index[at], index[others]
            ours[:, j], theirs[:, j] = index[others, j], index[at, j]
            after = self._count(ours, touching) + self._count(theirs, touching)
            better = after < before
            index[at[better], j], index[others[better], j] = ours[better, j], theirs[better, j]
            mended += int(better.sum())
            broken = broken[rule.broken_in(index[broken])]
        return mended

    def _count(
        self, index: np.ndarray, rules: Sequence[CodeRule], rows: np.ndarray | None = None
    ) -> np.ndarray:
        """How many rules each row breaks."""
        part = index if rows is None else index[rows]
        return sum((rule.broken_in(part).astype(int) for rule in rules), np.zeros(len(part), int))

    def _groups(self) -> list[list[CodeRule]]:
        """Rules that share columns, directly or not."""
        groups: list[list[CodeRule]] = []
        for rule in self.rules:
            near = [g for g in groups if any(set(rule.numbers) & set(r.numbers) for r in g)]
            groups = [g for g in groups if g not in near] + [[rule, *(r for g in near for r in g)]]
        return groups

    def _follow(
        self, index: np.ndarray, rules: Sequence[CodeRule], rng: np.random.Generator
    ) -> None:
        """Give rows that still break one of some rules the columns of a row that breaks none."""
        wrong = self._count(index, rules) > 0
        if not wrong.any():
            return
        if wrong.all():
            raise InputError(
                f"No row of the model satisfies the rule {rules[0].text!r} and those that share columns with it; check"
                " whether they contradict each other."
            )
        columns = sorted({j for rule in rules for j in rule.numbers})
        donors = rng.choice(np.flatnonzero(~wrong), size=int(wrong.sum()))
        rows = np.flatnonzero(wrong)[:, None]
        index[rows, columns] = index[donors[:, None], columns]
