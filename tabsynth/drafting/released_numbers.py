"""The kind of a column by its released formats, and columns of numbers from noisy releases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth.drafting.catalogue import CATALOGUE, catalogue
from tabsynth.drafting.formats import (
    BOOL,
    DECIMALS,
    ELSEWHERE,
    IDENTIFIER,
    LENGTH,
    LONG_TEXT,
    MOST_WORDS,
    NULL,
    NUMBER,
    NUMBERS,
    OTHER_OBJECT,
    REAL,
    WORDS,
    Distinct,
    if_clear,
    number_text,
    without_times,
)
from tabsynth.drafting.identifiers import LOOK_LIKE_IDENTIFIERS, NAMES, RECORD_NUMBERS
from tabsynth.drafting.partition import (
    EACH,
    SHAPE,
    Partition,
    coarse_edges,
    edges_of_numbers,
    round_numbers,
)
from tabsynth.drafting.released_columns import (
    AT_THIS_BUDGET,
    FORMAT,
    TOO_FEW_VALUES,
    ColumnDraft,
    Question,
    TextDraft,
    TruthDraft,
)
from tabsynth.drafting.released_lines import END, LineDraft
from tabsynth.drafting.released_times import draft_lengths, draft_times
from tabsynth.drafting.time_formats import TIME_CLASSES, reason_of_times, time_format
from tabsynth.privacy.noise.counts import CombinedSums
from tabsynth.schema.categorical import Categorical, Ordinal
from tabsynth.schema.cells import base_dtype, with_nulls
from tabsynth.schema.column import Column
from tabsynth.schema.number_texts import NUMBER_FORMATS, number_format, numbers_of, with_mark
from tabsynth.schema.numeric import DEFAULT_BINS, Numeric
from tabsynth.schema.temporal import Datetime, Period
from tabsynth.schema.time_texts import is_numeric

# Of the rows: values that look like identifiers, above which a column is left out.
IDENTIFYING = 0.05
PROSE = 0.5  # of the rows: what looks like names of persons or free text, or is no value
NAMES_OR_PROSE = "its values look like names of persons or free text"
NUMERIC = (
    0.95  # of the rows with a value but for words among them: numbers, for a column of numbers
)
HEAPS = (1000, 100, 10, 5)  # steps whose multiples people may prefer
TIMES = 4.7  # standard deviations of its noise, as FORMAT, of formats of dates and times, which are many
FAR = (
    5.0  # standard deviations of its noise: of decimals and signs, for one that is wrong costs most
)


def draft_of(
    name: str,
    dtype: str,
    formats: Mapping[str, float],
    clear: float,
    nulls: tuple[str, ...],
    decimal: str | None,
) -> ColumnDraft | str:
    """Return what is asked of a column's values, or why it is left out, from its public dtype and released formats alone.

    Parameters
    ----------
    dtype : str
        That of the file, or of :func:`public_dtype`.
    formats : mapping
        Noisy numbers of rows by format.
    clear : float
        Above it a number is taken to be of rows.
    decimal : str or None
        The decimal mark of texts.
    """
    base = base_dtype(dtype)
    limits = dict.fromkeys(TIME_CLASSES, clear * TIMES / FORMAT)
    by_format = {
        f: if_clear(count, limits.get(f, clear)) for f, count in formats.items() if f != NULL
    }
    present = sum(by_format.values())
    if not present:
        return TOO_FEW_VALUES
    words = max(sum(of_format[f] for f in WORDS) for of_format in (formats, by_format))
    words = words if base == "text" and clear < words < MOST_WORDS * present else 0.0
    most_values = NUMERIC * (present - words)
    of_time = time_format(by_format, most_values)
    counts = without_times(by_format)
    share = {f: count / present for f, count in counts.items()}
    facts: JsonObject = {"name": name, "nulls": formats[NULL] > clear, "null_values": nulls}
    on_line = facts | {"words": words}
    if base == "timedelta":
        return draft_lengths(facts, dtype)
    if base in ("datetime", "period"):
        return draft_times(facts, Period if base == "period" else Datetime, dtype, {})
    reason = f"no value has enough rows {AT_THIS_BUDGET}"
    if dtype != NUMBER and base not in ("int", "float") and catalogue().names_code(name):
        return TextDraft(**facts, dtype="str", reason=reason)
    if share[IDENTIFIER] > IDENTIFYING:
        return LOOK_LIKE_IDENTIFIERS
    if share[OTHER_OBJECT] > PROSE:
        return "its values are lists or other objects"
    if of_time is not None:
        kind, of_kind = of_time
        if not is_numeric(of_kind.get("format", "")):
            dtype = "str"
        elif base not in ("int", "float"):
            dtype = "int64"
        return draft_times(on_line, kind, dtype, of_kind)
    if base in ("int", "float") or dtype == NUMBER or sum(counts[f] for f in NUMBERS) > most_values:
        return _draft_numbers(on_line, dtype, formats, clear, decimal)
    if share[LENGTH] > NUMERIC:
        return draft_lengths(facts, "str")
    if share[BOOL] > NUMERIC and not {"True", "False"} & {*nulls}:
        return TruthDraft(**facts, dtype=with_nulls("bool") if facts["nulls"] else "bool")
    if share[NAMES] + share[LONG_TEXT] > PROSE:
        return TextDraft(**facts, dtype="str", reason=NAMES_OR_PROSE, must_repeat=True)
    return TextDraft(**facts, dtype="str", reason=reason_of_times(by_format) or reason)


@dataclass(eq=False, kw_only=True)
class NumberDraft(LineDraft):
    """The draft of a column of numbers.

    Attributes
    ----------
    decimal : str or None
        The mark of texts.
    format : str, optional
        How most numbers are written, with a sign.
    """

    decimal: str | None
    format: str | None = None
    _of_formats: CombinedSums = field(default_factory=lambda: CombinedSums(len(NUMBER_FORMATS)))

    @property
    def counts_different(self) -> bool:
        """Implement :attr:`ColumnDraft.counts_different`: of whole numbers without a common one, and where few values may be all."""
        if self.values:
            return self._lists_values
        return self.step == 1 and (self._many_steps or self._bounds is None) and not self.dense

    def questions(self, column: Distinct, number: int) -> list[Question]:
        """Extend :meth:`LineDraft.questions`: until there are bounds, asks for the signs of texts. Other rows lose no weight to it."""
        questions = super().questions(column, number)
        if self._bounds is None and column.values.dtype == object:
            places = {form: place for place, form in enumerate(NUMBER_FORMATS)}
            keys = column.values.map(number_format).map(places).fillna(-1).to_numpy(dtype=np.int64)
            keys = np.where(np.isnan(self._points(column)[1]), -1, np.append(keys, -1))
            questions.append(Question(self.name, keys, len(NUMBER_FORMATS), about="signs"))
        return questions

    def learn(
        self, question: Question, sums: np.ndarray, std: float, clear: np.ndarray, purpose: str
    ) -> None:
        """Extend :meth:`LineDraft.learn`: a sign is taken if it has more than half of the sums of the cells in the same rounds."""
        if question.about != "signs":
            return super().learn(question, sums, std, clear, purpose)
        self.source("format", purpose)
        self._of_formats.add(sums, std, np.ones(len(sums), dtype=bool))
        estimates, ends = self._of_formats.estimates, self.partition.ends()
        largest = int(np.argmax(estimates))
        if ends is not None and estimates[largest] > FAR * self._of_formats.deviations[largest]:
            total = self.partition.estimates[ends[0] : ends[1] + 1].sum()
            self.format = NUMBER_FORMATS[largest] if estimates[largest] > total / 2 else None
        return None

    @property
    def holds_texts(self) -> bool:
        """Extend :attr:`LineDraft.holds_texts`: numbers among texts are written by their step."""
        return super().holds_texts and self.resolution is not None

    def _listed(self, low: float, high: float) -> list[float]:
        """Return all values of the column, where they are few: those that were released, or all steps and those between."""
        if self.few:
            return self.listed
        between = [v for v in self.values if low < v < high and self._off(np.array(v))]
        if not between or self._many_steps or self.step is None:
            return []
        steps = np.arange(round(low / self.step), round(high / self.step) + 1) * self.step
        return sorted({*np.round(steps, 9).tolist(), *between})

    def positions(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`LineDraft.positions`."""
        return numbers_of(values, self.null_values, self.decimal)

    def between(
        self, low: float, high: float, breaks: Sequence[float], far: Sequence[float]
    ) -> Column | str:
        """Implement :meth:`LineDraft.between`; numbers of few values are ordinal."""
        step, facts = self.resolution, self.facts
        listed = self._listed(low, high)
        is_whole = self.step == 1 and all(value == int(value) for value in listed)
        if base_dtype(self.dtype) != "float":
            facts["dtype"] = "float64"
            if is_whole:
                dtype = self.dtype.lower() if base_dtype(self.dtype) == "int" else "int64"
                limits = np.iinfo(dtype)
                if not limits.min <= min(low, *far, high) <= max(high, *far, low) <= limits.max:
                    dtype = "int64"  # the table changed since the file was read
                facts["dtype"] = with_nulls(dtype) if self.nulls else dtype
        if is_whole:
            if step is None:
                return "its whole numbers have too wide a range"
            limits = np.iinfo("int64")
            low, high = (int(min(max(end, limits.min), limits.max)) for end in (low, high))
            breaks = [int(b) for b in breaks]
            far = [int(value) for value in far if limits.min <= value < limits.max]
        has_sign = self.format is not None and step is not None
        is_text = has_sign or bool(self.missing)
        if self.nearly_unique and not is_text:
            return RECORD_NUMBERS
        if listed and not is_text:
            values = [int(v) if is_whole else float(v) for v in listed]
            return Ordinal(**facts, categories=tuple(values), other=values[0])
        if is_whole and low == high and low in (0, 1) and self.may_hide_values:
            self.source("bounds", f"{CATALOGUE}flag")
            facts, low, high = facts | {"source": f"{CATALOGUE}flag"}, 0, 1
        meaningful = not {str(low), str(high)} & {*self.null_values}
        if is_whole and high - low == 1 and meaningful and not is_text:
            # A rare one of two codes is no end.
            point = self.partition.edges[int(np.argmax(self.partition.estimates))]
            return Categorical(
                **facts, categories=(low, high), other=high if point >= high else low
            )
        steps = 0 if step is None else round((high - low) / step) + 1
        texts = [number_text(value) for value in far if not has_sign]
        if is_text:
            facts |= {"dtype": "str", "format": with_mark(self.format or "{}", self.decimal)}
        return Numeric(
            **facts,
            low=low,
            high=high,
            resolution=step,
            bins=steps if DEFAULT_BINS < steps <= EACH and not breaks else None,
            breaks=tuple(breaks),
            heaping=self.heaps,
            missing=self.missing
            | dict.fromkeys((text for text in texts if text not in self.null_values), ELSEWHERE),
            clip=True,
        )


def _draft_numbers(
    facts: JsonObject,
    dtype: str,
    formats: Mapping[str, float],
    clear: float,
    mark: str | None,
) -> ColumnDraft:
    """Return the draft of numbers with the decimals that a clear number of rows has; rows with more are rounded."""
    decimals: int | None = 0
    for n, form in enumerate(DECIMALS, start=1):
        if formats[form] > clear * FAR / FORMAT:
            decimals = n
    if formats[REAL] > clear * FAR / FORMAT:
        decimals = None
    step = None if decimals is None else 10.0**-decimals

    def width(low: float, high: float) -> float:
        if step is not None and (high - low) / step < EACH:
            return step
        return max(step or 0.0, END * (high - low))

    limits, hint = None, catalogue().hint_of(facts["name"])
    cells = [edges_of_numbers(step), *coarse_edges(step)]
    if hint is not None and hint.limits is not None:
        limits = hint.limits[0], hint.limits[1] + (step or 1e-9)
        cells = [np.unique(np.concatenate([edges, limits])) for edges in cells]
    return NumberDraft(
        **facts,
        dtype=dtype,
        decimal=mark,
        limits=limits,
        entry="" if hint is None else CATALOGUE + hint.name,
        partition=Partition(cells[0], round_numbers(step), width, (cells[1], cells[2])),
        shape_edges=edges_of_numbers(step, SHAPE),
        step=step,
        covers_all=True,
        multiples=HEAPS,
    )
