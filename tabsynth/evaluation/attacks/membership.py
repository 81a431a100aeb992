"""Who was in the training table? Attacks that read distances to the synthetic rows.

Every attack gives each person a score; people of the training table are set against people who are in no
table (the control half of the hold-out). The figure is the chance that one of the former scores higher
than one of the latter, ties counting half: the area under the ROC curve. 0.5 is guessing.
"""

import math
from operator import itemgetter

import numpy as np

from tabsynth.evaluation.attacks.nearest import distance_counts
from tabsynth.evaluation.metric import PRIVACY, SHOWN, Compared, Metric, Tables
from tabsynth.evaluation.results import Z95, Estimate, difference_of_shares, mean_of_shares

PRESENCE = "Choi et al. 2017 (medGAN), arXiv:1703.06490; DeLong et al. 1988"
DOMIAS = "van Breugel et al. 2023, arXiv:2302.12580; DeLong et al. 1988"
NEAREST = "Ganev & De Cristofaro 2023, arXiv:2312.05114, on why it proves nothing"
KERNEL = 0.1  # weight of a row at Hamming distance r in a density: KERNEL ** r
MAX_RADIUS = 5
MAX_TABLE = 100_000  # rows of a table that the attacker searches: more are subsampled


def membership(
    tables: Tables, people: np.ndarray, controls: np.ndarray, rng: np.random.Generator
) -> list[Metric]:
    """Presence disclosure, density ratio, and nearest distances.

    Parameters
    ----------
    people, controls : ndarray, shape (records, columns)
        Rows of the training table, and rows that are in no table that the attacker holds.
    """
    assert tables.fresh is not None
    cut = len(tables.fresh) // 2
    reference, fresh = tables.fresh[cut:], tables.fresh[:cut]
    both = np.concatenate([people, controls])
    held = tables.held._replace(fresh=fresh if len(fresh) else None)
    counts = held.map(lambda table: _counts(both, table, tables, rng))
    known = density(_counts(both, reference, tables, rng))
    return [
        _presence(counts, len(people)),
        _ratio(counts, known, len(people)),
        _shown(counts, len(people), len(tables.sizes)),
    ]


def _counts(
    records: np.ndarray, table: np.ndarray, tables: Tables, rng: np.random.Generator
) -> np.ndarray:
    if len(table) > MAX_TABLE:
        table = table[rng.choice(len(table), MAX_TABLE, replace=False)]
    return distance_counts(records, table, tables.sizes, rng)


def nearest_distance(counts: np.ndarray) -> np.ndarray:
    """The distance of the nearest row, from counts by distance, shape (records,)."""
    return (counts > 0).argmax(axis=1)


def density(counts: np.ndarray) -> np.ndarray:
    """A kernel density at each record: mean over the rows of 0.1 ** distance, shape (records,)."""
    weights = KERNEL ** np.arange(counts.shape[1])
    return counts @ weights / counts.sum(axis=1)


def _presence(counts: Compared[np.ndarray], n: int) -> Metric:
    def score(found: np.ndarray) -> tuple[Estimate, np.ndarray]:
        near = nearest_distance(found)
        return area(-near[:n], -near[n:]), near

    def gain(near: np.ndarray, radius: int) -> float:
        within = (near <= radius).astype(float)
        return difference_of_shares(within[:n], within[n:]).value

    found = counts.map(score)
    parts = [
        found.part(
            f"claimed present within distance {radius}",
            lambda f, radius=radius: gain(f[1], radius),  # type: ignore[misc]
            n,
        )
        for radius in range(min(MAX_RADIUS + 1, counts.synthetic.shape[1]))
    ]
    return Metric(
        "presence",
        "Presence disclosure (nearest row)",
        PRIVACY,
        *found.map(itemgetter(0)),
        "lower",
        0.5,
        "Chance that a person of the training table is nearer to the table than a person who is not"
        " in it; 0.5 is guessing. Parts: how much oftener a person of the training table is claimed"
        " to be present, by the number of attributes that may differ.",
        PRESENCE,
        tuple(parts),
    )


def _ratio(counts: Compared[np.ndarray], reference: np.ndarray, n: int) -> Metric:
    def score(found: np.ndarray) -> Estimate:
        ratio = np.log(density(found)) - np.log(reference)
        return area(ratio[:n], ratio[n:])

    return Metric(
        "density_ratio",
        "Membership by density ratio (DOMIAS)",
        PRIVACY,
        *counts.map(score),
        "lower",
        0.5,
        "Chance that the table is denser, against other real people, at a person of the training"
        " table than at one who is not in it; 0.5 is guessing. It finds local overfitting.",
        DOMIAS,
    )


def _shown(counts: Compared[np.ndarray], n: int, columns: int) -> Metric:
    def score(found: np.ndarray) -> tuple[Estimate, float, float, float]:
        near = nearest_distance(found).astype(float)
        mean = mean_of_shares(near[:n] / columns)
        scaled = Estimate(columns * mean.value, columns * mean.low, columns * mean.high, mean.n)
        return (
            scaled,
            float(near[n:].mean()),
            float((near[:n] == 0).mean()),
            float((near[n:] == 0).mean()),
        )

    found = counts.map(score)
    parts = [
        found.part(name, itemgetter(i))
        for i, name in (
            (1, "mean distance of control records to the nearest row"),
            (2, "share of training records that are rows of the table"),
            (3, "share of control records that are rows of the table"),
        )
    ]
    return Metric(
        "nearest_distance",
        "Distance to the nearest row (no evidence of privacy)",
        SHOWN,
        *found.map(itemgetter(0)),
        "neither",
        None,
        "Mean number of attributes in which a training record differs from its nearest row. People ask"
        " for it, but it is NO evidence of privacy: a table can be far from everyone and leak all.",
        NEAREST,
        tuple(parts),
    )


def area(positive: np.ndarray, negative: np.ndarray) -> Estimate:
    """Chance that a positive scores higher than a negative, ties half; DeLong's interval (1988).

    Half a unit of pseudo-variation keeps the interval open where the scores are apart.
    """
    ordered, others = np.sort(negative), np.sort(positive)
    below = np.searchsorted(ordered, positive, "left"), np.searchsorted(ordered, positive, "right")
    wins = (below[0] + below[1]) / (2 * len(negative))
    above = np.searchsorted(others, negative, "left"), np.searchsorted(others, negative, "right")
    losses = 1 - (above[0] + above[1]) / (2 * len(positive))
    value = float(wins.mean())
    variance = 0.0
    for part in (wins, losses):
        variance += (float(((part - part.mean()) ** 2).sum()) + 0.5) / len(part) ** 2
    half = Z95 * math.sqrt(variance)
    return Estimate(
        value, max(0.0, value - half), min(1.0, value + half), len(positive) + len(negative)
    )
