"""The form of the definition of a figure: meaning, formula, range, direction, caveat and source.

A figure has one definition, in ``definitions.toml``. A metric takes its direction, its reading and its source from it,
and the reports and the reference pages show it.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tabsynth._shown import Shown

Kind = Literal["utility", "privacy", "shown"]
Better = Literal["higher", "lower", "closest", "neither"]
UTILITY: Kind = "utility"
PRIVACY: Kind = "privacy"
SHOWN: Kind = "shown"
DIRECTIONS: dict[Better, str] = {
    "lower": "Lower is better.",
    "higher": "Higher is better.",
    "closest": "The closer to the best value, the better.",
    "neither": "Neither direction is better.",
}


@dataclass(frozen=True, kw_only=True)
class Definition(Shown):
    """The meaning of one figure, or of one family of figures.

    Attributes
    ----------
    name : str
        The figure's name; its anchor follows from it.
    keys : tuple of str
        Keys of the metrics that it defines, without the table before the dot; a key that ends with ``*`` covers all that
        begin so. Of a figure that is no metric, the name by which a page refers to it.
    kind : {"utility", "privacy", "shown"}
        ``shown``: listed because readers ask for it, but evidence of neither utility nor privacy.
    meaning : str
        The definition in words.
    formula : str
        The definition as a formula, in plain text; empty where words are enough.
    range : str
        Least and greatest value.
    better : {"higher", "lower", "closest", "neither"}
        ``closest``: the nearer to ``best``, the better; neither higher nor lower.
    best : float or None
        The value of a perfect table, where it is the same for all tables.
    reference : str
        A sentence on the best or reference value; by default it states ``best``.
    interval : str
        What the 95% interval covers; empty where there is none.
    caveat : str
        The main reason to read it with care.
    source : str
        Where the definition is from.
    sampling_power : float
        How sampling error moves the figure of a real table away from ``best``: in proportion to (1/n + 1/m) ** power,
        for n training rows and m rows of the table. :func:`tabsynth.evaluation.metric.at_equal_rows` uses it. 0 where no
        such law is known, or the figure is already corrected for the number of rows.
    """

    name: str
    keys: tuple[str, ...]
    kind: Kind = UTILITY
    meaning: str
    formula: str = ""
    range: str
    better: Better
    best: float | None = None
    reference: str = ""
    interval: str = ""
    caveat: str
    source: str
    sampling_power: float = 0.0

    @property
    def anchor(self) -> str:
        """The fragment of its address, which is that of a heading with its name: ``total-variation-distance``."""
        return re.sub(r"[^\w\- ]", "", self.name.lower()).replace(" ", "-")

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """The pairs of a term and a text, in the order in which they are shown."""
        pairs = (
            ("Definition", self.meaning),
            ("Formula", self.formula),
            ("Range", self.range),
            ("Direction", f"{DIRECTIONS[self.better]} {self.reference or self._best_value()}"),
            ("95% interval", self.interval and f"{self.interval}."),
            ("Caveat", self.caveat),
            ("Source", self.source),
        )
        return tuple((term, text) for term, text in pairs if text)

    def _best_value(self) -> str:
        """Return the sentence on the best value of a figure that states no other."""
        start = "Without leakage it is" if self.kind == PRIVACY else "Best is"
        corrected = "; other real rows reach the hold-out reference"
        return f"{start} {self.best:g}{corrected if self.sampling_power else ''}."


def _read() -> dict[str, tuple[Definition, ...]]:
    texts = tomllib.loads(Path(__file__).with_name("definitions.toml").read_text("utf-8"))
    return {
        part: tuple(Definition(**{**fields, "keys": tuple(fields["keys"])}) for fields in listed)
        for part, listed in texts.items()
    }


# By the part of the reference pages that lists them.
DEFINITIONS = _read()


def definition_of(key: str) -> Definition:
    """Return the definition of a figure by one of its keys; of several the first one, which has no noise."""
    return next(item for items in DEFINITIONS.values() for item in items if key in item.keys)
