"""Formats of dates and times that drafts know: one table, from which cells are classified and columns are made.

A text may be of several formats: 03/04/2021 is of four. Its class is the set of them, so that numbers of rows by class say
how many rows each format reads.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth.schema.temporal import Date, Datetime, Period, Temporal, Time
from tabsynth.schema.time_texts import is_numeric, scale_of

_TWELVE, _THIRTY_ONE = "0[1-9]|1[0-2]", r"0[1-9]|[12]\d|3[01]"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
# By directive: what it reads, and examples of all numbers of digits that it may have.
_PARTS = {
    "%Y": (r"\d{4}", "2021"), "%m": (_TWELVE, "03 12"), "%d": (_THIRTY_ONE, "03 12 25"),
    "%H": (r"[01]\d|2[0-3]", "03 12 15"), "%I": (_TWELVE, "03 12"), "%M": (r"[0-5]\d", "05"), "%S": (r"[0-5]\d", "09"),
    "%p": ("[AP]M", "PM"), "%-m": (f"[1-9]|{_TWELVE}", "3 03 12"), "%-d": (f"[1-9]|{_THIRTY_ONE}", "3 03 12 25"),
    "%-H": (r"\d|[01]\d|2[0-3]", "3 03 12 15"), "%-I": (f"[1-9]|{_TWELVE}", "3 03 12"),
    "%b": (_MONTHS, "Mar"), "%^b": (_MONTHS.upper(), "MAR"),
    "%z": (r"([+-]\d{4})", "+0100 -0500"), "%:z": (r"([+-]\d{2}:\d{2})", "+01:00 -05:00"),
}  # fmt: skip
_FRACTIONS = {"1ms": (r"\d{3}", "250"), "1us": (r"\d{6}", "250000")}
# Digits alone may be any number. Of them these years are years of dates, and 9999 of an open end.
_YEARS = (r"1[89]\d\d|20\d\d|2100|9999", "2021")
_DAYS = (
    "%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y",
    "%d-%^b-%Y", "%d%^b%Y",
)  # fmt: skip
_SHORT_DAYS = ("%-m/%-d/%Y", "%-d/%-m/%Y", "%-d.%-m.%Y")
_CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
_SHORT_CLOCKS = ("%-H:%M", "%-H:%M:%S", "%-I:%M %p", "%-I:%M:%S %p")
_MOMENTS = (
    *(f"{day} {clock}" for day, clock in product(_DAYS[:7], _CLOCKS)),
    *(f"{day} {clock}" for day, clock in product(_SHORT_DAYS, _SHORT_CLOCKS)),
    *map("".join, product(("%Y-%m-%d ", "%Y-%m-%dT"), (*_CLOCKS[:2], "%H:%M:%S.%f"), ("", "Z", "%:z"))),
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y%m%d%H%M%S",
)  # fmt: skip
_LAYOUTS: dict[str, type[Temporal]] = {
    **dict.fromkeys((*_DAYS, *_SHORT_DAYS, "%Y%m%d"), Date),
    **dict.fromkeys(_MOMENTS, Datetime),
    **dict.fromkeys((*_CLOCKS, *_SHORT_CLOCKS), Time),
    **dict.fromkeys(("%Y-%m", "%m/%Y", "%b %Y", "%Y%m"), Period),
}
_DEFAULTS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%H:%M", "%H:%M:%S")  # of the kinds
_ISO = r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
_CLOCK = r"(?:\d|[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?"
# Numbers since a day: times only in columns that are named for times, if they are at least so large, and of these years.
_LEAST = {
    "days since 1899-12-30": 0,
    "seconds since 1970-01-01": 10**8,
    "milliseconds since 1970-01-01": 10**11,
}
_FIRST, _LAST = (int(np.datetime64(year, "us").astype(int)) for year in ("1950", "2101"))
_OFFSETS = (
    *(f"-{hour:02}:00" for hour in range(12, 0, -1)), *(f"+{hour:02}:00" for hour in range(15)),
    "-09:30", "-03:30", "-02:30", "+03:30", "+04:30", "+05:30", "+05:45", "+06:30", "+09:30", "+10:30",
)  # fmt: skip
# The zones of which most columns are that have two offsets, in winter and in summer.
_ZONES = {
    ("-09:00", "-08:00"): "America/Anchorage", ("-08:00", "-07:00"): "America/Los_Angeles",
    ("-07:00", "-06:00"): "America/Denver", ("-06:00", "-05:00"): "America/Chicago",
    ("-05:00", "-04:00"): "America/New_York", ("-04:00", "-03:00"): "America/Halifax",
    ("-03:30", "-02:30"): "America/St_Johns", ("+00:00", "+01:00"): "Europe/London",
    ("+01:00", "+02:00"): "Europe/Berlin", ("+02:00", "+03:00"): "Europe/Helsinki",
    ("+09:30", "+10:30"): "Australia/Adelaide", ("+10:00", "+11:00"): "Australia/Sydney",
    ("+12:00", "+13:00"): "Pacific/Auckland",
}  # fmt: skip
ONE_ZONE = 0.95  # of the rows: those with one of its offsets
_MONTH = rf"(?i:{_MONTHS})[a-z]*\.?"
# Dates that no format of the table reads, by what reasons call them.
UNKNOWN_TIMES = {
    "DD.MM.YY or DD/MM/YY": re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2}([T ,].*)?"),
    "DD-Mon-YY": re.compile(rf"\d{{1,2}}[ -]?{_MONTH}[ ,-]*(\d{{2}}|\d{{4}})([T ,:].*)?"),
    "Month DD, YYYY": re.compile(rf"{_MONTH} \d{{1,2}},? \d{{4}}([T ,].*)?"),
    "DD.MM.YYYY or DD/MM/YYYY with a time": re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([T ,].*)?"),
    "YYYY.MM.DD or YYYY/MM/DD with a time": re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ,].*)?"),
}


class TimeFormat(NamedTuple):
    """A format of dates or times.

    Attributes
    ----------
    layout : str
        The format as a schema has it; empty for ISO 8601 in any precision.
    kind : type of Temporal
    pattern : re.Pattern
        Of the texts that it reads; its group is an offset.
    resolution : str or None
        As a schema has it.
    rank : int
        A format of a larger rank reads what several of a smaller one write, and is taken where none of these reads enough.
    """

    layout: str
    kind: type[Temporal]
    pattern: re.Pattern[str]
    resolution: str | None = None
    rank: int = 0

    @property
    def facts(self) -> JsonObject:
        """The facts of a column of this format."""
        facts = {} if self.layout in ("", *_DEFAULTS) else {"format": self.layout}
        return facts if self.resolution is None else facts | {"resolution": self.resolution}

    @property
    def of_numbers(self) -> bool:
        """True if values are whole numbers."""
        return is_numeric(self.layout)


class TimeClass(NamedTuple):
    """The formats that read a text, and its offset from UTC or nothing."""

    formats: tuple[TimeFormat, ...]
    offset: str = ""

    @property
    def name(self) -> str:
        """The name of the class."""
        layouts = " or ".join(form.layout or f"any {form.kind.__name__}" for form in self.formats)
        return f"{layouts} {self.formats[0].resolution or ''} {self.offset}".strip()


def _parts(layout: str, resolution: str | None) -> list[tuple[str, list[str]]]:
    """Return the pattern of each part of a layout, and examples."""
    parts = _PARTS | ({"%Y": _YEARS} if is_numeric(layout) else {})
    parts |= {"%f": _FRACTIONS[resolution]} if resolution in _FRACTIONS else {}
    pieces = filter(None, re.split(r"(%[-:^]?[A-Za-z])", layout))
    return [
        (f"(?:{parts[piece][0]})", parts[piece][1].split())
        if piece in parts
        else (re.escape(piece), [piece])
        for piece in pieces
    ]


def _formats() -> Iterator[tuple[TimeFormat, list[str]]]:
    """Yield each format of texts and of digits, with examples; of those of a rank that read as many rows the first is taken."""
    for layout, kind in _LAYOUTS.items():
        resolutions = ["1s"] if "%S" in layout else ["1min"]
        if "%f" in layout:
            resolutions = [*_FRACTIONS]
        for resolution in resolutions if kind in (Datetime, Time) else [None]:
            parts = _parts(layout, resolution)
            pattern = re.compile("".join(part for part, _ in parts))
            examples = ["".join(texts) for texts in product(*(texts for _, texts in parts))]
            yield TimeFormat(layout, kind, pattern, resolution, int("%-" in layout)), examples


_ANY = (
    TimeFormat("", Time, re.compile(_CLOCK), "1s", 2),
    TimeFormat("", Datetime, re.compile(_ISO), "1s", 2),
)
_OUTLINES = {ord(c): "9" for c in "0123456789"} | {c: "a" for c in range(128) if chr(c).isalpha()}


def _by_outline() -> dict[str, list[TimeFormat]]:
    """Return the formats that may read texts of an outline: with 9 for each digit and a for each letter."""
    out: dict[str, list[TimeFormat]] = {}
    for form, texts in _FORMATS:
        for outline in dict.fromkeys(text.translate(_OUTLINES) for text in texts):
            out.setdefault(outline, []).append(form)
    return out


_FORMATS = tuple(_formats())
TIME_FORMATS = tuple(known for known, _ in _FORMATS)
_BY_OUTLINE = _by_outline()


def _class_of(text: str) -> TimeClass | None:
    """Return the class of a text by the formats that read it."""
    formats = (*_BY_OUTLINE.get(text.translate(_OUTLINES), ()), *_ANY)
    matches = [form.pattern.fullmatch(text) for form in formats]
    read = tuple(form for form, match in zip(formats, matches, strict=True) if match)
    offset = next((match[1] for match in matches if match and match.re.groups), "")
    return TimeClass(read, offset) if read else None


SINCE = {
    layout: TimeClass((TimeFormat(layout, kind, re.compile(r"-?\d+"), unit),))
    for layout, kind, unit in zip(
        _LEAST, (Date, Datetime, Datetime), (None, "1s", "1ms"), strict=True
    )
}


def _classes() -> Iterator[TimeClass]:
    """Yield all classes of cells."""
    for form in _ANY:
        yield TimeClass((form,))
    yield from SINCE.values()
    for example in dict.fromkeys(_class_of(text) for _, texts in _FORMATS for text in texts):
        assert example is not None
        offsets = [
            offset if ":" in example.offset else offset.replace(":", "") for offset in _OFFSETS
        ]
        yield from (TimeClass(example.formats, o) for o in (offsets if example.offset else ("",)))


TIME_CLASSES: Mapping[str, TimeClass] = {known.name: known for known in _classes()}


def time_class(text: str, named_for_time: bool = False) -> str | None:
    """Return the name of the class of a text, which may be a whole number; None for what is no date or time in any format.

    Numbers since a day are times only in a column whose name says that it holds dates or times.
    """
    matched = _class_of(text)
    if matched is not None:
        return matched.name if matched.name in TIME_CLASSES else TimeClass((_ANY[-1],)).name
    if re.fullmatch(r"-?\d{1,15}", text):
        number = int(text) if named_for_time else 0
        for layout, smallest in _LEAST.items():
            unit, zero = scale_of(layout) or (0, 0)
            if abs(number) >= smallest and _FIRST <= number * unit + zero < _LAST:
                return SINCE[layout].name
        return None
    if not any(map(str.isdigit, text)):
        return None
    return next((name for name, form in UNKNOWN_TIMES.items() if form.fullmatch(text)), None)


def time_format(
    counts: Mapping[str, float], min_rows: float
) -> tuple[type[Temporal], JsonObject] | None:
    """Return the kind and the facts of a column of dates or times by numbers of rows of each class; None for other columns.

    Parameters
    ----------
    counts : mapping
        By :func:`time_class`; noisy ones of a private draft.
    least : float
        The number of rows that a format must read.
    """
    classes = {name: count for name, count in counts.items() if name in TIME_CLASSES and count > 0}
    reads: dict[TimeFormat, float] = {}
    for name, count in classes.items():
        for form in TIME_CLASSES[name].formats:
            reads[form] = reads.get(form, 0.0) + count
    enough = [form for form in reads if reads[form] >= min_rows]
    if not enough:
        return None
    rank = min(form.rank for form in enough)
    chosen = max((form for form in enough if form.rank == rank), key=lambda k: reads[k])
    facts = dict(chosen.facts)
    if "z" in chosen.layout:
        facts["zone"] = _zone(
            {
                TIME_CLASSES[name].offset: count
                for name, count in classes.items()
                if chosen in TIME_CLASSES[name].formats
            }
        )
    return chosen.kind, facts


def reason_of_times(counts: Mapping[str, float]) -> str | None:
    """Return why a column is left out of which most values are dates or times, but none of one format; None for others."""
    of_time = {n: count for n, count in counts.items() if n in UNKNOWN_TIMES or n in TIME_CLASSES}
    if not sum(of_time.values()) > sum(counts.values()) / 2:
        return None
    commonest = max(of_time, key=lambda name: of_time[name])
    form = f" in a format that is not known (such as {commonest})" * (commonest in UNKNOWN_TIMES)
    return f"its values look like dates or times{form}; declare its kind and format"


def _zone(offsets: Mapping[str, float]) -> str:
    """Return the time zone in which texts of some offsets are written: UTC where they are of no zone that is known."""
    rows: dict[str, float] = {}
    for offset, count in offsets.items():
        plain = f"{offset[:3]}:{offset[-2:]}"
        rows[plain] = rows.get(plain, 0.0) + count
    first, *rarer = sorted(rows, key=lambda offset: -rows[offset])
    enough = ONE_ZONE * sum(rows.values())
    if rows[first] >= enough:
        return first
    second = rarer[0]
    winter, summer = sorted((first, second), key=lambda offset: int(offset.replace(":", "")))
    return _ZONES.get((winter, summer), "UTC") if rows[first] + rows[second] >= enough else "UTC"
