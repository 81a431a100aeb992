"""Attribute disclosure: what the synthetic table reveals about people whose other attributes are known.

Choi et al. 2017 (medGAN, arXiv:1703.06490), as in sections 2.4 and 3.3 of Jutras-Dubé's DP-WGAN: an
attacker knows all but s attributes of a training record, finds its k nearest synthetic rows on the
known ones, and guesses the unknown ones by majority vote.

NOTE[DIFF]: the paper has no control group. Guessing right may only mean that the table teaches how
attributes go together, which is its purpose; so the attack is repeated on records that the
synthesizer never saw, and leakage is the difference (as in Giomi et al. 2023, anonymeter).
NOTE[DIFF]: the document takes Euclidean distances and attacks 100 records. Here distances are Hamming distances,
and reports/census attacks 1,000.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tabsynth.evaluation.attacks.nearest import HammingSearch, draw_rows, in_chunks, nearest
from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import SHOWN_PARTS, Metric, Part, Tables, worst_first
from tabsynth.evaluation.results import (
    Cell,
    Disclosure,
    Estimate,
    difference_of_shares,
    mean_of_shares,
)

REFERENCE_RECORDS = 200  # attacked in each group where a reference table is searched
REFERENCE_NEIGHBOURS = (1, 10)
MAX_LEVELS = 63  # values of s: all of 1…d−1 up to here, else as many evenly spaced ones
MAX_NEIGHBOURS = 1_000_000  # rows that the attacker searches: more are subsampled
LEAKAGE = definition_of("attribute_disclosure")


@dataclass(frozen=True)
class Attack:
    """An attacker's table, its unknown attributes, and the numbers of neighbours that vote."""

    table: np.ndarray
    sizes: tuple[int, ...]
    s: tuple[int, ...]
    k: tuple[int, ...]


def attribute_disclosure(
    train: np.ndarray,
    synthetic: np.ndarray,
    holdout: np.ndarray | None,
    *,
    sizes: Sequence[int],
    k: Sequence[int],
    m: int,
    rng: np.random.Generator,
    exposed: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Disclosure:
    """Return shares of unknown attributes guessed right, for s = 1…d−1 and every k.

    Distances are Hamming distances on the known attributes: of one-hot codes the Euclidean distance
    is its monotone image. Ties of distance and of votes are broken at random. Records are the
    sampling unit of the intervals. A ``k`` beyond the number of synthetic rows means all of them.

    Parameters
    ----------
    train, synthetic, holdout : ndarray, shape (rows, columns), int64
        Category codes; ``sizes[j]`` of them in column j. Without ``holdout`` there is no control.
    m : int
        Records attacked in each group (all of a smaller table).
    exposed : bool
        Whether to try the attack with the training table in hand too; else the cells have none.
    """
    chosen = [draw_rows(table, m, rng) for table in (train, holdout) if table is not None]
    targets = chosen[0]
    tried = [(records, synthetic) for records in chosen]
    if exposed:  # the paper's reference: the attacker holds the training table itself
        tried.append((targets, train))
    shares: list[np.ndarray] = []
    s = unknown_levels(len(sizes))

    def advance(share: float) -> None:
        if progress is not None:
            progress((len(shares) + share) / len(tried))

    for records, table in tried:
        attack = Attack(draw_rows(table, MAX_NEIGHBOURS, rng), tuple(sizes), s, tuple(k))
        shares.append(hit_shares(records, attack, rng, advance))
    if not exposed:
        shares.append(np.full_like(shares[0], np.nan))
    cells = tuple(
        _cell(s[level], k[i], [share[:, level, i] for share in shares])
        for i in range(len(k))
        for level in range(len(s))
    )
    mean = _cell(0, 0, [share.mean(axis=(1, 2)) for share in shares]) if cells else None
    guess = guessed_by_mode(targets, synthetic, sizes)
    controls = len(chosen[1]) if len(chosen) > 1 else 0
    return Disclosure(cells, mean, guess, len(targets), controls)


def disclosure_metric(
    disclosure: Disclosure, tables: Tables, k: Sequence[int], rng: np.random.Generator
) -> Metric:
    """Return the mean leakage over the grid; NaN without a control group or with one column.

    The references search a half of the hold-out and independent columns, with fewer records; their control
    group is the other half.
    """
    mean = disclosure.mean
    leakage = None if mean is None else mean.leakage
    neighbours = [x for x in k if x in REFERENCE_NEIGHBOURS] or [min(k)]

    def leak(table: np.ndarray | None) -> Estimate | None:
        if leakage is None or table is None or tables.control is None:
            return None
        disclosure = attribute_disclosure(
            tables.train,
            table,
            tables.control,
            sizes=tables.sizes,
            k=neighbours,
            m=REFERENCE_RECORDS,
            rng=rng,
            exposed=False,
        )
        assert disclosure.mean is not None
        return disclosure.mean.leakage

    parts = [
        Part(f"s = {cell.s}, k = {cell.k}", cell.leakage.value, n=cell.leakage.n)
        for cell in disclosure.cells
        if cell.leakage is not None
    ]
    return Metric(
        LEAKAGE,
        leakage or Estimate(math.nan, math.nan, math.nan, 0),
        leak(tables.reference),
        leak(tables.baseline),
        worst_first(parts, "lower", SHOWN_PARTS),
        details=disclosure,
    )


def unknown_levels(columns: int) -> tuple[int, ...]:
    """Return the values of s: 1…d−1, or 63 of them evenly spaced where there are more."""
    levels = np.arange(1, columns)
    if len(levels) > MAX_LEVELS:
        levels = np.unique(np.round(np.linspace(1, columns - 1, MAX_LEVELS)).astype(int))
    return tuple(levels.tolist())


def _cell(s: int, k: int, shares: list[np.ndarray]) -> Cell:
    """Return ``shares``: those of the targets, of the controls where there are any, of the reference."""
    target, *control, exposed = shares
    return Cell(
        s,
        k,
        target=mean_of_shares(target),
        control=mean_of_shares(control[0]) if control else None,
        leakage=difference_of_shares(target, control[0]) if control else None,
        exposed=mean_of_shares(exposed),
    )


def guessed_by_mode(records: np.ndarray, synthetic: np.ndarray, sizes: Sequence[int]) -> float:
    """Return the share of attributes guessed right by naming each column's commonest synthetic value."""
    modes = [np.bincount(synthetic[:, j], minlength=size).argmax() for j, size in enumerate(sizes)]
    return float((records == np.array(modes)).mean())


def hit_shares(
    records: np.ndarray,
    attack: Attack,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> np.ndarray:
    """Return the share of the s unknown attributes guessed right; shape (records, len(s), len(k)).

    The unknown attributes of a record are the first s of a random order of the columns: of every
    size s, each set is equally likely. All s and k come from one pass over the table.
    """
    if not attack.s:
        return np.empty((len(records), 0, len(attack.k)))
    searched = HammingSearch(attack.table, attack.sizes)
    return in_chunks(
        records, lambda part, own: _hits(part, searched, attack, own), rng, searched.rows, progress
    )


def _hits(
    records: np.ndarray, searched: HammingSearch, attack: Attack, rng: np.random.Generator
) -> np.ndarray:
    """Return `hit_shares` of a few records."""
    b, d = records.shape
    near = np.empty((b, len(attack.s), min(max(attack.k), searched.rows)), dtype=np.int64)
    unknown = np.zeros((b, len(attack.s), d), dtype=bool)
    order = rng.permuted(np.tile(np.arange(d), (b, 1)), axis=1)
    for i, record in enumerate(records):
        differs = searched.differs(record)
        distance, limit, before = searched.distance(differs), None, 0
        for level, s in enumerate(attack.s):
            for j in order[i, before:s]:
                distance -= differs[j]
            # With fewer known columns no row is further than it was: the limit can only fall.
            near[i, level], limit = nearest(distance, near.shape[2], rng, limit)
            unknown[i, level, order[i, :s]] = True
            before = s
    hits = np.zeros((b, len(attack.s), len(attack.k)))
    for j in range(d):
        rows, levels = np.nonzero(unknown[:, :, j])
        votes = searched.columns[j][near[rows, levels]].astype(np.int64)
        guess = majorities(votes, attack.sizes[j], attack.k, rng)
        hits[rows, levels] += guess == records[rows, j, None]
    return hits / np.array(attack.s)[:, None]


def majorities(
    votes: np.ndarray, size: int, k: Sequence[int], rng: np.random.Generator
) -> np.ndarray:
    """Return the commonest value among the first k votes of each row, for every k; (rows, len(k)).

    Ties are broken at random.

    Parameters
    ----------
    votes : ndarray, shape (rows, neighbours), values in [0, size)
    """
    rows = len(votes)
    out = np.empty((rows, len(k)), dtype=np.int64)
    starts = size * np.arange(rows)[:, None]
    for i, first in enumerate(k):
        if first == 1:
            out[:, i] = votes[:, 0]
            continue
        keys = (votes[:, :first] + starts).ravel()
        counts = np.bincount(keys, minlength=rows * size).reshape(rows, size)
        out[:, i] = (counts + rng.random(counts.shape, dtype=np.float32)).argmax(axis=1)
    return out
