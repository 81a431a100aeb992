"""The survey weights of the rows of a table, and the unit that privacy protects, as a schema declares and a certificate states them.

A certificate is verified without pandas, which is imported where rows are read.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tabsynth._shown import Shown
from tabsynth._validate import check_text, integer, make_fields_native, nearest, positive, quote
from tabsynth.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

UNCHANGED = "declared, unchanged from a draft of the rows"  # the provenance of a fact, in words
MOST_ROWS, MOST_WEIGHT = 10_000, 1e9  # of a unit, and of a row: past them noise is all that is left
LEAST_WEIGHT = 2.0**-20  # as a cap
# Weights are whole multiples of a power of two, of which the cap is 2²⁴ at most: sums of 2²⁸ rows are exact in float64.
BITS, MOST_WEIGHTED = 24, 2**28


@dataclass(frozen=True, kw_only=True)
class Design(Shown):
    """The columns of a table that say what its rows stand for; they are neither learned nor sampled.

    Parameters
    ----------
    weight : str, optional
        The column of survey weights: how many people of the population a row stands for.
    max_weight : float, optional
        The largest weight that counts, a public number: larger weights are clipped to it.
    unit : str, optional
        The column that says which unit a row is of, such as a person or a household: what privacy protects.
    max_rows_per_unit : int, optional
        The most rows of one unit that are used, a public number.
    """

    weight: str | None = None
    max_weight: float | None = None
    unit: str | None = None
    max_rows_per_unit: int | None = None

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        make_fields_native(self)
        for what, name, limit, limit_value in (
            ("weight", self.weight, "max_weight", self.max_weight),
            ("unit", self.unit, "max_rows_per_unit", self.max_rows_per_unit),
        ):
            if (name is None) != (limit_value is None):
                present, absent = (what, limit) if limit_value is None else (limit, what)
                raise InputError(
                    f"{present}= goes with {absent}=; declare both, the limit from public knowledge."
                )
            if name is not None and (not isinstance(name, str) or not name):
                raise InputError(f"Expected {what} to be the name of a column, got {quote(name)}.")
            if name is not None:
                check_text(what, name)
        if self.weight is not None and self.weight == self.unit:
            raise InputError(f"Column {quote(self.weight)} is both weight and unit; name another.")
        if self.max_weight is not None:
            positive("max_weight", self.max_weight)
            if not LEAST_WEIGHT <= self.max_weight <= MOST_WEIGHT:
                raise InputError(
                    f"Expected max_weight from {LEAST_WEIGHT:.2g} to {MOST_WEIGHT:g}, got {self.max_weight:g}."
                )
        if self.max_rows_per_unit is not None:
            integer("max_rows_per_unit", self.max_rows_per_unit)
            if not 1 <= self.max_rows_per_unit <= MOST_ROWS:
                raise InputError(
                    f"Expected max_rows_per_unit from 1 to {MOST_ROWS:,}, got {self.max_rows_per_unit}."
                )

    def __bool__(self) -> bool:
        """Return whether anything is declared."""
        return self.weight is not None or self.unit is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it names."""
        return tuple(name for name in (self.weight, self.unit) if name is not None)

    @property
    def rows(self) -> int:
        """The most rows that one unit adds."""
        return 1 if self.max_rows_per_unit is None else self.max_rows_per_unit

    @property
    def bound(self) -> float:
        """The most that one unit adds to a (weighted) count of rows."""
        return self.rows * (1.0 if self.max_weight is None else float(self.max_weight))

    @property
    def step(self) -> float | None:
        """The number of which weights are whole multiples, a power of two that follows from the cap; None without weights."""
        if self.max_weight is None:
            return None
        return math.ldexp(1.0, math.frexp(self.max_weight)[1] - BITS)

    @classmethod
    def among(cls, options: Mapping[str, Any]) -> Self:
        """Return the design that some of these options declare, such as those of a draft."""
        return cls(**{part.name: options.get(part.name) for part in fields(cls)})

    @property
    def neighbour(self) -> str:
        """The records in which two neighbouring tables differ, in words."""
        return neighbour_of(self.unit)

    @property
    def adjacency(self) -> str:
        """The relation of neighbouring tables, in words."""
        return f"add or remove {self.neighbour}"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a schema."""
        return asdict(self)

    def statement(self) -> dict[str, Any]:
        """Return what a certificate says of it: as :meth:`to_dict`, and the most that one unit of privacy adds to a count."""
        return {**self.to_dict(), "largest_contribution": self.bound} if self else {}

    def to_dict(self) -> dict[str, Any]:
        """Return the design as a schema file has it: without what is not declared."""
        out: dict[str, Any] = {}
        if self.weight is not None:
            out["weight"] = {"column": self.weight, "max": self.max_weight}
        if self.unit is not None:
            out["unit"] = {"column": self.unit, "max_rows": self.max_rows_per_unit}
        return out

    def problems(
        self, table: "pd.DataFrame", decimal: str | None = None, *, needed: bool = False
    ) -> list[tuple[str, Any, str]]:
        """Return what a table has in these columns that cannot be used: column, value and message of each problem.

        ``needed``: whether it must have the columns, as a table to be fitted does.
        """
        import pandas as pd

        from tabsynth.schema.number_texts import numbers_of

        out: list[tuple[str, Any, str]] = []
        names = [str(name) for name in table.columns]
        for name in self.names if needed else ():
            if name not in names:
                what = "weight" if name == self.weight else "unit"
                alike = nearest(quote(name), [*map(quote, names)])
                lacks = f"The table lacks column {quote(name)}, the {what} of the schema"
                out.append((name, None, f"{lacks}; add it, or name another: {alike}."))
        if self.weight in names:
            weights = table.iloc[:, names.index(self.weight)]
            wrong = ~(numbers_of(weights, decimal=decimal) >= 0)  # NaN is wrong, too
            if wrong.any():
                value = weights.iloc[int(wrong.argmax())]
                out.append(
                    (
                        self.weight,
                        value,
                        f"Column {quote(self.weight)} has {'a null' if pd.isna(value) else f'weight {quote(value)}'}, and weights"
                        " are numbers from 0; correct it, or take the row out.",
                    )
                )
        if self.unit in names and table.iloc[:, names.index(self.unit)].isna().any():
            out.append(
                (
                    self.unit,
                    None,
                    f"Column {quote(self.unit)} has a null, and each row is of a unit; give each such row a unit of"
                    " its own.",
                )
            )
        elif self.unit in names:
            value = ambiguous_unit(table.iloc[:, names.index(self.unit)])
            if value is not None:
                why = "is too large for a float to tell from others"
                why = why if isinstance(value, float) else "may stand for several units"
                out.append(
                    (
                        self.unit,
                        value,
                        f"Column {quote(self.unit)} has unit {quote(value)}, which {why}; give units"
                        " as whole numbers or texts.",
                    )
                )
        return out

    def weights(self, table: "pd.DataFrame", decimal: str | None = None) -> np.ndarray:
        """Return weights of a table without problems, clipped at the cap, in multiples of :attr:`step`, shape (n,) float64."""
        from tabsynth.schema.number_texts import numbers_of

        cap, step = float(self.max_weight or 0), self.step or 1.0
        names = [str(name) for name in table.columns]
        weights = numbers_of(table.iloc[:, names.index(str(self.weight))], decimal=decimal)
        return np.asarray(np.floor(np.minimum(weights, cap) / step) * step)


def ambiguous_unit(units: "pd.Series") -> Any:
    """Return the first unit that may stand for several, such as a float that several whole numbers became; None if there is none."""
    from tabsynth.schema.cells import OtherObject

    limit = 2.0**24 if units.dtype == np.float32 else 2.0**53
    for unit in units:
        if isinstance(unit, float | np.floating) and limit <= abs(float(unit)) < math.inf:
            return float(unit)
        if isinstance(unit, OtherObject) and not unit.exact:
            return unit
    return None


def neighbour_of(unit: str | None) -> str:
    """Return what only one of two neighbouring tables has, in words: a record, or those of a unit of that column."""
    return "one record" if unit is None else f"all records of one {quote(unit)}"


def design_from(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a schema that its file's ``weight`` and ``unit`` give."""
    weight, unit = (
        part if isinstance(part := data.get(name), Mapping) else {} for name in ("weight", "unit")
    )
    return {
        "weight": weight.get("column"),
        "max_weight": weight.get("max"),
        "unit": unit.get("column"),
        "max_rows_per_unit": unit.get("max_rows"),
    }


NO_DESIGN = Design()
