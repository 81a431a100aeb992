"""Drafts of columns of listed values."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import native, quote
from tabsynth.drafting.catalogue import OTHERWISE, catalogue, words_of
from tabsynth.drafting.formats import declared_categories
from tabsynth.drafting.identifiers import FEW
from tabsynth.drafting.source import DraftSource, LeftOut, not_numeric, with_public_facts
from tabsynth.schema.categorical import Categorical, Ordinal
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.column import Column
from tabsynth.schema.number_texts import NUMBER_TEXT
from tabsynth.tables.formulas import is_formula

MOST_DIFFERENT = 0.5  # distinct values for each row: of texts that a draft does not leave out
MOST_TEXTS = 2  # texts among numbers, which may mean a missing value
# What rare texts become in a draft: the first that is no null text.
OTHER_TEXTS = ("other", "(other)", "<other>")
MOST_BANDS = 1_000  # with those that complete them: of more, the column is of something else
_BAND = re.compile(r"(\D*)(0|[1-9]\d{0,8})(\D+)([1-9]\d{0,8})(\D*)")


def draft_categorical(source: DraftSource) -> Column | None:
    """Draft a column of truth values, or of whatever no other kind took."""
    if base_dtype(source.dtype) == "bool":  # its values are those of the dtype, not of the rows
        return Categorical(categories=(False, True), **source.facts)
    return _draft_listed(Categorical, source)


def _draft_listed(kind: type[Categorical], source: DraftSource) -> Column:
    """Draft a column that lists the values of at least ``min_count`` rows, the others as ``other``."""
    min_count, numbers = source.min_count, base_dtype(source.dtype) in ("int", "float")
    rows = _counts(source)
    if source.leave_out and not numbers and len(rows) > FEW:
        if texts := _few_texts(rows):
            raise not_numeric({text: rows[text] for text in texts}, min_count)
        if len(rows) > MOST_DIFFERENT * len(source.values):
            raise LeftOut("it has more than one different value for every two rows")
    listed = [value for value, number in rows.items() if number >= min_count or min_count == 1]
    if not listed or (len(listed) < len(rows) and isinstance(listed[0], bool)):
        raise LeftOut(f"none of its values is that of {min_count} rows or more")
    if min_count > 1 and kind is Categorical and isinstance(listed[0], str):
        column = _of_catalogue(source, rows)
        if column is not None:
            return column
    if len(listed) == len(rows):
        return kind(categories=tuple(listed), **source.facts)
    other = _other(listed, source.dtype, () if numbers else source.null_values)
    first = [] if isinstance(other, str) or other in listed else [other]
    last = [] if first or other in listed else [other]
    return kind(categories=(*first, *listed, *last), other=other, **source.facts)


def _of_catalogue(source: DraftSource, texts: Collection[str]) -> Column | None:
    """Draft a column whose texts are all of one set of the catalogue, and at least half of that set; None for others."""
    sets = catalogue().sets_of(source.name, source.null_values)
    answers = {*texts} - catalogue().no_answer
    holding = [each for each in sets if answers and {*each.texts} >= answers]
    entry = min(holding, key=lambda each: len(each.texts), default=None)
    if entry is None or 2 * len(answers) < len(entry.texts):
        return None
    listed = tuple(sorted({*texts, *entry.texts}))
    column = Categorical(categories=listed, **source.facts)
    return with_public_facts(column, entry.name, ["categories"])


def review_categorical(column: Categorical) -> list[str]:
    """Return what a person must check in a draft of listed values, a line each."""
    name, out = quote(column.name), []
    formula = next((v for v in column.categories if isinstance(v, str) and is_formula(v)), None)
    if formula is not None:
        out.append(
            f"{name}: a spreadsheet would run {quote(formula)} as a formula; tables with it are"
            " written as CSV only with --formulas escape, or keep."
        )
    texts = _few_texts([value for value in column.categories if value != column.other])
    if texts and not catalogue().names_code(column.name):
        out.append(f"{name}: {not_numeric(dict.fromkeys(texts, 1), 1)}.")
    if "categories" not in column.facts_from_rows:
        out.append(f"{name}: its categories are those of the {column.source}; check that they fit.")
    elif column.cells == 1:
        out.append(f"{name}: constant here; list the categories it may take elsewhere.")
    else:
        out.append(
            f"{name}: {column.cells} categories seen in this table ({column.kind}); list those of the"
            " codebook, in their order if they have one."
        )
    return out


def draft_ordinal(source: DraftSource) -> Column | None:
    """Draft a column of an ordered pandas categorical, or of numbers that are codes and more than two."""
    values = source.values
    if base_dtype(source.dtype) in ("int", "float"):
        several = len(np.unique(values.to_numpy(dtype=float))) > 2
        return _draft_listed(Ordinal, source) if several else None
    categories = declared_categories(values, source.null_values)
    if categories is None:
        return None
    if not categories:
        return _draft_listed(Ordinal, source)
    return Ordinal(categories=categories, **source.facts)


def _counts(source: DraftSource) -> dict[Any, int]:
    """Return the number of rows of each distinct value, in the order in which a draft lists them."""
    values = source.values
    if isinstance(values.dtype, pd.CategoricalDtype):  # it may list values that no row has
        rows = values.value_counts()
        listed = values.dtype.categories
        return {native(v): int(rows[v]) for v in listed if rows[v] or source.min_count == 1}
    if base_dtype(source.dtype) in ("int", "float"):
        return {native(value): rows for value, rows in values.value_counts().sort_index().items()}
    rows = values.map(native).value_counts()
    return dict(sorted(rows.items(), key=lambda item: (str(type(item[0])), str(item[0]))))


def _few_texts(values: Collection[Any]) -> list[Any]:
    """Return the values that are not texts of numbers, if they are a few among more that are."""
    texts = [v for v in values if not (isinstance(v, str) and NUMBER_TEXT.fullmatch(v))]
    return texts if len(texts) <= MOST_TEXTS < len(values) - len(texts) else []


def _other(listed: list[Any], dtype: str, null_values: Sequence[str]) -> Any:
    """Return what stands for rare values: a function of the listed categories alone."""
    if isinstance(listed[0], str):
        return next(text for text in other_texts() if text not in null_values)
    if dtype.lower().startswith("uint"):
        largest = int(np.iinfo(dtype.lower()).max)
        return next(largest - i for i in range(len(listed) + 1) if largest - i not in listed)
    markers = (type(listed[0])(-1 - i) for i in range(len(listed) + 1))
    return next(number for number in markers if number not in listed)


def other_texts() -> Iterator[str]:
    """Return texts for rare values, the first choice first; without end, because any of them may mean null."""
    yield from OTHER_TEXTS
    yield from (f"other {i}" for i in count(2))


def completed_bands(name: str, texts: Collection[str]) -> list[str]:
    """Return bands of whole numbers, such as 20-29 and [20-30), with those that complete them.

    These are between them, and up to the limits that the catalogue has for the name of the column, such as 0 and 120 for an age
    group. Other texts may be among them. None is returned where fewer than three are bands, or these are of several widths or forms.
    """
    bands = [match.groups() for match in map(_BAND.fullmatch, texts) if match is not None]
    forms = {(before, between, after, int(b) - int(a)) for before, a, between, b, after in bands}
    lows = sorted({int(a) for _, a, *_ in bands})
    if len(lows) < 3 or len(forms) > 1:
        return []
    before, between, after, width = forms.pop()
    step = min(high - low for low, high in pairwise(lows))
    if step not in (width, width + 1) or any((low - lows[0]) % step for low in lows):
        return []
    low, high = lows[0], lows[-1]
    hint = catalogue().hint_of(" ".join(w for w in words_of(name) if not OTHERWISE.fullmatch(w)))
    if hint is not None and hint.limits is not None:
        low -= max(0, low - max(0, int(hint.limits[0]))) // step * step
        high = max(high, int(hint.limits[1]) - width)
    if (high - low) / step > MOST_BANDS:
        return []
    return [f"{before}{n}{between}{n + width}{after}" for n in range(low, high + 1, step)]
