"""Who was in the training table? Attacks that read distances to the synthetic rows.

Every attack gives each person a score; people of the training table are set against people who are in no
table (the control half of the hold-out). The figure is the chance that one of the former scores higher
than one of the latter, ties counting half: the area under the ROC curve. 0.5 is guessing.

NOTE[DIFF]: medGAN's presence disclosure knows only binary attributes, and claims by Hamming distance; the
parts of ours do too. Its figure, which has no radius to choose, ranks people by Gower's distance, which
knows how near two numbers are. DOMIAS estimates densities by kernels or flows of numbers; ours is a
kernel of Gower's distance, as wide as people are apart.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from tabsynth.evaluation.attacks.gower import STEPS, GowerSearch, gower_search, places
from tabsynth.evaluation.attacks.nearest import in_chunks
from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import Compared, Metric, Tables
from tabsynth.evaluation.results import Z95, Estimate, difference_of_shares

KERNEL = 0.001  # weight in a density of a row as far as people are from each other
MAX_RADIUS = 5
PRESENCE = definition_of("presence")
DENSITY_RATIO = definition_of("density_ratio")


class Seen(NamedTuple):
    """The surroundings of each record among the rows of a table; arrays of shape (records,).

    ``steps``: Gower's distance of the nearest row, in 1/120 of a column. ``columns``: the least number of
    columns in which a row differs. ``density``: logarithm of a kernel density; NaN where not asked for.
    """

    steps: np.ndarray
    columns: np.ndarray
    density: np.ndarray


def membership(
    tables: Tables, people: np.ndarray, controls: np.ndarray, rng: np.random.Generator
) -> list[Metric]:
    """Return presence disclosure and density ratio.

    Parameters
    ----------
    people, controls : ndarray, shape (records, columns)
        Rows of the training table, and rows that are in no table that the attacker holds.
    """
    assert tables.reference is not None
    cut = len(tables.reference) // 2
    known_people, holdout = tables.reference[cut:], tables.reference[:cut]
    both = np.concatenate([people, controls])
    searched = tables.compared_beside_control
    compared = Compared(searched.synthetic, holdout if len(holdout) else None, searched.baseline)
    ordered = places(tables)
    reference = gower_search(known_people, tables, ordered, rng)
    width = bandwidth(surroundings(both, reference, rng).steps)
    reference_density = surroundings(both, reference, rng, width).density
    proximities = compared.map(
        lambda table: surroundings(both, gower_search(table, tables, ordered, rng), rng, width)
    )
    return [
        _presence(proximities, len(people)),
        _ratio(proximities, reference_density, len(people)),
    ]


def surroundings(
    records: np.ndarray, search: GowerSearch, rng: np.random.Generator, width: float | None = None
) -> Seen:
    """Return the nearest row of each record, and the density of rows there.

    The density is the mean over the rows of 0.001 ** (distance / width), both in steps.
    """
    slope = math.log(KERNEL) / width if width is not None else 0.0
    weights = np.exp(slope * np.arange(STEPS * len(search.columns) + 1))

    def work(part: np.ndarray, _: np.random.Generator) -> np.ndarray:
        out = np.full((len(part), 3), math.nan)
        for i, record in enumerate(part):
            differs = search.differs(record)
            distance = search.distance(differs)
            nearest = int(distance.min())
            unequal = search.distance([(steps > 0).view(np.uint8) for steps in differs])
            out[i, :2] = nearest, unequal.min()
            if width is not None:
                # Weights over that of the nearest row: far from all, a density is still above 0.
                counts = np.bincount(distance)[nearest:]
                mean = counts @ weights[: len(counts)] / len(distance)
                out[i, 2] = slope * nearest + math.log(mean)
        return out

    proximities = in_chunks(records, work, rng, search.rows)
    return Seen(proximities[:, 0], proximities[:, 1].astype(int), proximities[:, 2])


def bandwidth(steps: np.ndarray) -> float:
    """Return how far a person is from other people, in steps: the median, or else a whole column.

    Parameters
    ----------
    steps : ndarray, shape (records,)
        Distance of each record to the nearest row of a table of others.
    """
    return float(np.median(steps)) or float(STEPS)


def _presence(proximities: Compared[Seen], n: int) -> Metric:
    radii = range(
        min(MAX_RADIUS, int(max(f.columns.max() for f in proximities if f is not None))) + 1
    )
    parts = [
        proximities.part(
            "area by the number of attributes that differ",
            lambda f: area(-f.columns[:n], -f.columns[n:]).value,
            n,
        )
    ]
    for radius in radii:
        claims = proximities.map(partial(_claims, radius=radius))
        parts += [
            claims.part(
                f"claimed present within distance {radius}",
                lambda c: difference_of_shares(c[:n], c[n:]).value,
                n,
            ),
            claims.part(f"precision within {radius}", lambda c: precision(c[:n], c[n:]), n),
            claims.part(f"sensitivity within {radius}", lambda c: c[:n].mean(), n),
        ]
    areas = proximities.map(lambda f: area(-f.steps[:n], -f.steps[n:]))
    return Metric(PRESENCE, *areas, tuple(parts), title="Presence disclosure (nearest row)")


def _claims(seen: Seen, radius: int) -> np.ndarray:
    return (seen.columns <= radius).astype(float)


def precision(people: np.ndarray, controls: np.ndarray) -> float:
    """Return the share of claims that are true, of as many people as controls; NaN where none is claimed.

    Parameters
    ----------
    people, controls : ndarray, shape (records,)
        1 where a record is claimed to be present, else 0.
    """
    true, false = float(people.mean()), float(controls.mean())
    return true / (true + false) if true + false > 0 else math.nan


def _ratio(proximities: Compared[Seen], reference_density: np.ndarray, n: int) -> Metric:
    def score(proximity: Seen) -> Estimate:
        ratio = proximity.density - reference_density
        return area(ratio[:n], ratio[n:])

    title = "Membership by density ratio (DOMIAS)"
    return Metric(DENSITY_RATIO, *proximities.map(score), title=title)


def area(positive: np.ndarray, negative: np.ndarray) -> Estimate:
    """Return the chance that a positive scores higher than a negative, ties half; DeLong's interval (1988).

    Half a unit of pseudo-variation keeps the interval open where the scores are apart.
    """
    ordered, positives_sorted = np.sort(negative), np.sort(positive)
    below = np.searchsorted(ordered, positive, "left"), np.searchsorted(ordered, positive, "right")
    wins = (below[0] + below[1]) / (2 * len(negative))
    above = (
        np.searchsorted(positives_sorted, negative, "left"),
        np.searchsorted(positives_sorted, negative, "right"),
    )
    losses = 1 - (above[0] + above[1]) / (2 * len(positive))
    value = float(wins.mean())
    variance = 0.0
    for part in (wins, losses):
        variance += (float(((part - part.mean()) ** 2).sum()) + 0.5) / len(part) ** 2
    half = Z95 * math.sqrt(variance)
    return Estimate(
        value, max(0.0, value - half), min(1.0, value + half), len(positive) + len(negative)
    )
