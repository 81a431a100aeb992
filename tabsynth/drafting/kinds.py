"""The drafts of each kind of column: what a table's column becomes, and what a person must check in it."""

from collections.abc import Callable
from functools import singledispatch

from tabsynth._validate import quote
from tabsynth.drafting.categories import draft_categorical, draft_ordinal, review_categorical
from tabsynth.drafting.identifiers import identifying_categories, identifying_name
from tabsynth.drafting.numbers import draft_numeric, identifying_numbers, review_numeric
from tabsynth.drafting.source import DraftSource
from tabsynth.drafting.times import (
    draft_date,
    draft_datetime,
    draft_duration,
    draft_period,
    draft_time,
    review_temporal,
)
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.column import Column
from tabsynth.schema.hierarchical import Hierarchical
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.temporal import Temporal

# By kind: a column from a table's column; None where its values are not of the kind. The last one is tried first.
DRAFTS: dict[str, Callable[[DraftSource], Column | None]] = {
    "categorical": draft_categorical,
    "ordinal": draft_ordinal,
    "numeric": draft_numeric,
    "period": draft_period,
    "duration": draft_duration,
    "time": draft_time,
    "datetime": draft_datetime,
    "date": draft_date,
}


@singledispatch
def review_column(column: Column) -> list[str]:
    """Return what a person must check in a draft of the column, a line each."""
    return [f"{quote(column.name)}: {column.domain()} in this table; declare the public domain."]


review_column.register(Categorical, review_categorical)
review_column.register(Numeric, review_numeric)
review_column.register(Temporal, review_temporal)


@review_column.register
def _(column: Hierarchical) -> list[str]:
    return [f"{quote(column.name)}: {len(column.codes)} codes; list those of the codebook."]


def identifying(column: Column) -> str | None:
    """Return why a column seems to identify people or records, in a clause without a value; None if it does not."""
    return identifying_name(column) or identifying_values(column)


@singledispatch
def identifying_values(column: Column) -> str | None:
    """Return why values seem to identify people or records, in a clause without a value; None if they do not."""
    return None


identifying_values.register(Numeric, identifying_numbers)


@identifying_values.register
def _(column: Categorical) -> str | None:
    return identifying_categories(column.categories, column.other)
