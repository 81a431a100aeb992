"""Columns that no synthesizer learns: identifiers, which can be made anew by a pattern, and free text."""

import re
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from tabsynth._validate import check_text, shown
from tabsynth.errors import InputError
from tabsynth.schema.column import Column, JsonTypes

_PART = re.compile(r"\{(?:(\d{1,2}) (digits|letters|hex)|(uuid))\}")
_ALPHABETS = {
    "digits": "0123456789",
    "letters": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "hex": "0123456789abcdef",
}


@dataclass(frozen=True, kw_only=True)
class Text(Column):
    """A column of free text. It is not read, and synthetic tables do not have it.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels
        As of :class:`~tabsynth.Column`. Tables need not have the column.
    """

    kind: str = "text"
    dtype: str = "str"

    dtypes: ClassVar[tuple[str, ...]] = ("text", "category")
    learned: ClassVar[bool] = False

    def _check(self, where: str) -> None:
        """Nothing can contradict."""

    @property
    def generated(self) -> bool:
        """Whether synthetic tables have the column."""
        return False

    def generate(self, rows: int, rng: np.random.Generator) -> pd.Series:
        """New values, if the column is :attr:`generated`."""
        raise InputError(f"Column {shown(self.name)} is not generated.")

    @property
    def cells(self) -> int:
        """One: no value is told from another."""
        return 1

    @property
    def size(self) -> int:
        """One."""
        return 1

    def label(self, code: int) -> str:
        """Always the same."""
        return "not learned"

    def domain(self, limit: int = 8) -> str:
        """As :meth:`Column.domain`."""
        return "values that are not learned"

    def encode(self, values: pd.Series) -> np.ndarray:
        """Zeros: the values are not looked at."""
        return np.zeros(len(values), dtype=np.int64)

    def decode(self, codes: np.ndarray, rng: np.random.Generator, within: Any = None) -> pd.Series:
        """As :meth:`generate`."""
        return self.generate(len(codes), rng)


@dataclass(frozen=True, kw_only=True)
class Identifier(Text):
    """A column that identifies people or records. It is not read; it is left out, or made anew by a pattern.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels
        As of :class:`~tabsynth.Column`. Tables need not have the column. The dtype is of texts or whole
        numbers.
    pattern : str, optional
        What synthetic identifiers look like: text with ``{8 digits}``, ``{3 letters}``, ``{12 hex}`` or
        ``{uuid}`` in it. All are different. They are drawn at random, so one may coincide with a
        real one; choose a pattern that the source does not use to exclude that. Without a pattern synthetic
        tables do not have the column.

    Examples
    --------
    >>> import numpy as np
    >>> from tabsynth import Identifier
    >>> mrn = Identifier(name="mrn", dtype="str", pattern="MRN-{8 digits}")
    >>> len(set(mrn.generate(1000, np.random.default_rng(0))))
    1000
    """

    kind: str = "identifier"
    pattern: str | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("text", "int", "category")
    json_types: ClassVar[JsonTypes] = {"pattern": str}

    def _check(self, where: str) -> None:
        if self.pattern is None:
            return
        check_text(where, self.pattern)
        rest = _PART.sub("", self.pattern)
        if "{" in rest or "}" in rest or not _PART.search(self.pattern):
            raise InputError(
                f"{where}: pattern {shown(self.pattern)} is not understood; write text with parts such as"
                " {8 digits}, {3 letters}, {12 hex} or {uuid}."
            )
        if self.value_type == "int" and not re.fullmatch(
            r"[1-9]?\d*\{([1-9]|1[0-8]) digits\}", self.pattern
        ):
            raise InputError(
                f"{where}: identifiers of dtype {self.dtype} are whole numbers; use a pattern such as"
                " '1{7 digits}', or dtype str."
            )

    @property
    def generated(self) -> bool:
        """Whether synthetic tables have the column."""
        return self.pattern is not None

    @cached_property
    def _parts(self) -> list[tuple[str, str, int]]:
        """The pattern: text, and the alphabet and length that follow it; the last text has length 0."""
        parts, end = [], 0
        assert self.pattern is not None
        for match in _PART.finditer(self.pattern):
            text = self.pattern[end : match.start()]
            kind = "uuid" if match[3] else match[2]
            parts.append((text, kind, int(match[1] or 32)))
            end = match.end()
        return [*parts, (self.pattern[end:], "", 0)]

    def generate(self, rows: int, rng: np.random.Generator) -> pd.Series:
        """``rows`` different identifiers.

        Raises
        ------
        InputError
            If the pattern has fewer of them.
        """
        possible = 1
        for _, kind, length in self._parts:
            possible *= 16**length if kind == "uuid" else len(_ALPHABETS.get(kind, "-")) ** length
        if rows > possible:
            raise InputError(
                f"Column {shown(self.name)}: pattern {shown(self.pattern)} has {possible:,} identifiers, fewer"
                f" than {rows:,} rows; give it more digits."
            )
        if possible <= 4 * rows + 1000:
            numbers = rng.permutation(possible)[:rows].tolist()
        else:
            seen: dict[int, None] = {}
            while len(seen) < rows:
                for number in self._draws(rows - len(seen), rng):
                    seen.setdefault(number)
            numbers = list(seen)
        values: Any = [self._written(number) for number in numbers]
        if self.value_type == "int":
            values = [int(value) for value in values]
        return pd.Series(values, dtype=object, name=self.name).astype(self.dtype)

    def _draws(self, count: int, rng: np.random.Generator) -> list[int]:
        numbers = [0] * count
        for _, kind, length in self._parts:
            base = 16 if kind == "uuid" else len(_ALPHABETS.get(kind, "-"))
            digits = rng.integers(0, base, size=(count, length)).tolist()
            for i, row in enumerate(digits):
                for digit in row:
                    numbers[i] = numbers[i] * base + digit
        return numbers

    def _written(self, number: int) -> str:
        out = []
        for text, kind, length in reversed(self._parts):
            alphabet = _ALPHABETS["hex" if kind == "uuid" else kind] if kind else "-"
            symbols = []
            for _ in range(length):
                number, digit = divmod(number, len(alphabet))
                symbols.append(alphabet[digit])
            code = "".join(reversed(symbols))
            out.append(text + (str(uuid.UUID(code)) if kind == "uuid" else code))
        return "".join(reversed(out))
