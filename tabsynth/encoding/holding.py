"""Rules held in rows of category codes that a model has drawn: entries are exchanged between rows.

An exchange of one column's entries between two rows leaves every one-way distribution as it is. Rows that no exchange
mends get single entries of other rows, and where these do not suffice the columns of the rules from a row that satisfies
them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tabsynth.errors import InputError
from tabsynth.schema.column import Column
from tabsynth.schema.constraints import Derived, FixedSum, Implication, Order, Rule, Sum
from tabsynth.schema.schema import Schema

ROUNDS = 300  # of exchanges …
PATIENCE = 8  # … which end after so many that mend nothing
COPIES = 20  # rounds of copies
MAX_TABLE = 2**18  # codes of the columns of a rule, up to which it is a table
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
    violations : callable
        From codes by column name, shape (n,) each, to which rows break the rule, bool.
    text : str
    """

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    violations: Callable[[Codes], np.ndarray]
    text: str

    def broken_in(self, index: np.ndarray) -> np.ndarray:
        """Return which rows of modelled codes, shape (n, columns), break the rule."""
        return self.violations(
            {n: index[:, j] for n, j in zip(self.names, self.numbers, strict=True)}
        )


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
        if isinstance(rule, Implication | FixedSum):
            implied = rule

            def violations(codes: Codes) -> np.ndarray:
                return implied.broken_codes([self._codes(n, codes) for n in implied.names])

        else:
            assert isinstance(rule, Order | Sum)
            order = rule
            cells = [c.code_amounts() for c in order.columns]
            exact = all(np.array_equal(low, high) for low, high in cells)
            derived = [name for name in rule.names if name in self._schema.makers]
            if derived and not exact:
                raise InputError(
                    f"The rule {rule.text!r} is about the derived column {derived[0]!r} and cells of several numbers, which"
                    " codes do not decide; write the rule about columns that are not derived."
                )
            ends = [
                [np.append(e, np.full(c.size - c.cells, np.nan)) for e in pair]
                for c, pair in zip(order.columns, cells, strict=True)
            ]

            def violations(codes: Codes) -> np.ndarray:
                of = [self._codes(name, codes) for name in order.names]
                lows, highs = (
                    np.stack([e[i][c] for e, c in zip(ends, of, strict=True)], axis=1)
                    for i in (0, 1)
                )
                return ~order.feasible(lows, highs)

        return CodeRule(names, numbers, violations, rule.text)

    def _detail_rule(self, column: Column, detail: Column) -> CodeRule:
        """Return the rule that the code of a column has a value which is as its detail says."""
        names = (column.name, detail.name)
        possible = column.detail_possible()
        return CodeRule(
            names,
            tuple(self._numbers[name] for name in names),
            lambda codes: ~possible[codes[names[0]], codes[names[1]]],
            f"{names[1]} fits {column.name}",
        )

    def _sources(self, name: str, rule: Rule) -> tuple[str, ...]:
        """Return the modelled columns that decide the code of a column."""
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

    @cached_property
    def merged_rules(self) -> list[CodeRule]:
        """The rules, of which those about the same few columns are one table: quicker, however many there are."""
        sizes = self._schema.learned.sizes
        groups: dict[tuple[int, ...], list[CodeRule]] = {}
        for rule in self.rules:
            groups.setdefault(tuple(sorted(rule.numbers)), []).append(rule)
        out: list[CodeRule] = []
        for numbers, rules in groups.items():
            shape = tuple(sizes[j] for j in numbers)
            if math.prod(shape) > MAX_TABLE:
                out += rules
                continue
            grid = dict(zip(numbers, np.indices(shape).reshape(len(shape), -1), strict=True))
            table = np.zeros(math.prod(shape), dtype=bool)
            for rule in rules:
                table |= rule.violations(
                    {n: grid[j] for n, j in zip(rule.names, rule.numbers, strict=True)}
                )
            if table.all():
                raise InputError(
                    f"No row satisfies the rules {', '.join(repr(r.text) for r in rules[:3])}; they contradict each other."
                )
            out.append(_table_rule(rules, numbers, self._schema.learned.names, table, shape))
        return out

    def violations(self, index: np.ndarray) -> np.ndarray:
        """Return which rows of codes, shape (n, columns), break a rule; bool, shape (n,)."""
        return _count(index, self.merged_rules) > 0

    def hold(self, index: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return rows of codes, shape (n, columns), all of which satisfy the rules.

        The time grows with the number of rows, times that of the rules, and with the number of rows that break one.

        Raises
        ------
        InputError
            If no row does, so that there is none to follow.
        """
        if not self.rules or not len(index):
            return index
        index = index.copy()
        broken = _count(index, self.merged_rules)
        idle = 0
        for number in range(ROUNDS):
            mended = sum(
                self._exchange(index, broken, rule, number % 2 == 0, rng)
                for rule in self.merged_rules
            )
            idle = 0 if mended else idle + 1
            if not broken.any() or idle > PATIENCE:
                break
        for _ in range(COPIES):
            if not broken.any():
                break
            for rule in self.merged_rules:
                self._copy(index, broken, rule, rng)
        if broken.any():
            for group in self._groups():
                self._follow(index, group, rng)
        return index

    def _exchange(
        self,
        index: np.ndarray,
        broken: np.ndarray,
        rule: CodeRule,
        near: bool,
        rng: np.random.Generator,
    ) -> int:
        """Exchange entries of one of the rule's columns; how many rows that mended.

        ``broken`` is how many rules each row breaks, and is kept so. ``near``: with rows that break another rule, too,
        which may lack just what this one has too much.
        """
        breaking = np.flatnonzero(broken)
        wrong = breaking[rule.broken_in(index[breaking])]
        mended = 0
        for j in rng.permutation(rule.numbers):
            if not len(wrong):
                break
            touching = [r for r in self.merged_rules if j in r.numbers]
            at = rng.permutation(wrong)
            if near:  # two rows that break one rule may mend each other
                at = at[: (len(at) + 1) // 2]
                partners = rng.permutation(np.setdiff1d(np.flatnonzero(broken), at))[: len(at)]
            else:
                partners = rng.choice(len(index), size=len(at), replace=False)
                partners = partners[~np.isin(partners, at)]
            at = at[: len(partners)]
            ours, theirs = index[at], index[partners]
            changes = [-_count(ours, touching), -_count(theirs, touching)]
            ours[:, j], theirs[:, j] = index[partners, j], index[at, j]
            changes[0] += _count(ours, touching)
            changes[1] += _count(theirs, touching)
            better = changes[0] + changes[1] < 0
            index[at[better], j], index[partners[better], j] = ours[better, j], theirs[better, j]
            broken[at[better]] += changes[0][better]
            broken[partners[better]] += changes[1][better]
            mended += int(better.sum())
            wrong = wrong[rule.broken_in(index[wrong])]
        return mended

    def _copy(
        self, index: np.ndarray, broken: np.ndarray, rule: CodeRule, rng: np.random.Generator
    ) -> None:
        """Give rows that break a rule an entry of one of its columns from another row, where that mends them.

        What no exchange mends are values that are too frequent for the rules. A copy moves one column by one row.
        """
        breaking = np.flatnonzero(broken)
        wrong = breaking[rule.broken_in(index[breaking])]
        for j in rng.permutation(rule.numbers):
            if not len(wrong):
                return
            touching = [r for r in self.merged_rules if j in r.numbers]
            changed = index[wrong]
            changed[:, j] = index[rng.integers(0, len(index), len(wrong)), j]
            change = _count(changed, touching) - _count(index[wrong], touching)
            better = change < 0
            index[wrong[better]] = changed[better]
            broken[wrong[better]] += change[better]
            wrong = wrong[rule.broken_in(index[wrong])]

    def _groups(self) -> list[list[CodeRule]]:
        """Return rules that share columns, directly or not."""
        groups: list[list[CodeRule]] = []
        for rule in self.merged_rules:
            near = [g for g in groups if any(set(rule.numbers) & set(r.numbers) for r in g)]
            groups = [g for g in groups if g not in near] + [[rule, *(r for g in near for r in g)]]
        return groups

    def _follow(
        self, index: np.ndarray, rules: Sequence[CodeRule], rng: np.random.Generator
    ) -> None:
        """Give rows that still break one of some rules the columns of a row that breaks none."""
        wrong = _count(index, rules) > 0
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


def _count(index: np.ndarray, rules: Sequence[CodeRule]) -> np.ndarray:
    """Return how many rules each row breaks, shape (n,)."""
    total = np.zeros(len(index), dtype=np.int32)
    for rule in rules:
        total += rule.broken_in(index)
    return total


def _table_rule(
    rules: Sequence[CodeRule],
    numbers: tuple[int, ...],
    names: Sequence[str],
    table: np.ndarray,
    shape: tuple[int, ...],
) -> CodeRule:
    """Return rules about the same columns as one, by a flat table of the codes that break one of them."""
    named = tuple(names[j] for j in numbers)

    def violations(codes: Codes) -> np.ndarray:
        return table[np.ravel_multi_index([codes[n] for n in named], shape)]

    return CodeRule(named, numbers, violations, rules[0].text)
