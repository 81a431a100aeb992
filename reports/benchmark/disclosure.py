"""Guesses of private records' attributes beside guesses about controls, from the rows alone.

A run has four cells: one or five hidden attributes (s), guessed by the 1 or 10 nearest synthetic rows (k). They
attack the same records, and so do all runs of a table: neither cells nor runs are independent.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import store
from config import Config
from scipy import stats

RECORDS = 300  # that are attacked in a cell, and as many controls (ATTACKED of score.py)
HIDDEN = re.compile(r"disclose(_s\d+.*)")


@dataclass(frozen=True)
class Gaps:
    """The results of one system on one table, in points that private records were guessed more often.

    Attributes
    ----------
    half : float
        Half of Student's 95% interval over runs; NaN of one run.
    above : int
        Cells whose share right is above the control's own 95% interval.
    chance : float
        How many chance alone puts there at most: exact for s = 1, an upper bound for more.
    """

    runs: int
    mean: float
    half: float
    cells: int
    above: int
    chance: float


def shares(row: Mapping) -> list[tuple[float, float]]:
    """Return the shares guessed right, of private records and of controls: a pair for each cell."""
    matches = [match for key in row if (match := HIDDEN.fullmatch(key))]
    return [(row[match[0]], row[f"control{match[1]}"]) for match in matches]


def gaps(rows: Iterable[Mapping]) -> Gaps | None:
    """Return the gaps of runs that end with a disclosure; None where none does."""
    runs = [cells for row in rows if (cells := shares(row))]
    if not runs:
        return None
    each = [100 * float(np.mean([a - b for a, b in cells])) for cells in runs]
    half = math.nan
    if len(each) > 1:
        error = float(np.std(each, ddof=1)) / math.sqrt(len(each))
        half = float(stats.t.ppf(0.975, len(each) - 1)) * error
    pairs = [pair for cells in runs for pair in cells]
    return Gaps(
        runs=len(each),
        mean=float(np.mean(each)),
        half=half,
        cells=len(pairs),
        above=sum(private > upper(control) for private, control in pairs),
        chance=sum(chance_above(round((a + b) / 2, 2)) for a, b in pairs),
    )


def upper(share: float) -> float:
    """Return the upper end of Wilson's 95% interval. Its unit is the record, however many guesses are made of it."""
    # scipy's interval takes whole numbers of records; a share of five attributes need not be one.
    z, n = float(stats.norm.ppf(0.975)), RECORDS
    spread = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return (share + z**2 / (2 * n) + spread) / (1 + z**2 / n)


@cache
def chance_above(share: float) -> float:
    """Return how often a share of records is above the interval of another's where both are right equally often.

    Both are drawn, so that it is more than 2.5%. Of several guesses a record, whose mean varies less than one
    guess does, it is less than this.
    """
    counts = np.arange(RECORDS + 1)
    control = stats.binom.pmf(counts, RECORDS, share)
    ends = np.array([upper(count / RECORDS) for count in counts])
    return float(control @ stats.binom.sf(np.floor(RECORDS * ends + 1e-9), RECORDS, share))


def points(gap: Gaps) -> str:
    """Return a mean gap with half of its interval."""
    text = f"{gap.mean:+.1f}"
    return text if math.isnan(gap.half) else f"{text} ± {gap.half:.1f}"


def by_system(config: Config, results: Mapping[str, dict]) -> list[str]:
    """Return the mean gaps of every system on every table, and how many cells are above the control's interval."""
    titles = [table.title for table in config.tables.values()]
    lines = [f"| system | {' | '.join(titles)} | cells above | by chance |"]
    lines.append("|" + "---|" * (len(titles) + 3))
    groups = {s.title: rows_of_system(config, results, name) for name, s in config.systems.items()}
    groups[store.REFERENCES["real"]] = [results.get(f"{t}-real", {}) for t in config.tables]
    for title, rows in groups.items():
        each = [gaps(r for r in rows if r.get("table") == table) for table in config.tables]
        if whole := gaps(rows):
            entries = [f"{points(g)} ({g.runs})" if g else "–" for g in each]
            entries += [f"{whole.above} of {whole.cells}", f"{whole.chance:.1f}"]
            lines.append(f"| {title} | " + " | ".join(entries) + " |")
    return lines


def rows_of_system(config: Config, results: Mapping[str, dict], system: str) -> list[dict]:
    """Return the rows of one system."""
    return [row for r in config.runs() if r.system == system and (row := results.get(r.key))]
