"""Singling out and linkability, as Anonymeter measures these risks.

Giomi, Boenisch, Wehmeyer & Tasnádi 2023, "A unified framework for quantifying privacy risk in synthetic
data" (Anonymeter), PoPETs 2023(2). Each attack is tried on people of the training table and on a control
group; the risk is what the former lose beyond the latter, as a share of what could be lost:
R = (attack − control) / (1 − control). 0 is none, 1 is certain disclosure.

Written from the paper: its library cannot be installed beside this one (anonymeter 1.1.0 on PyPI asks for
numpy < 1.27, tabsynth for numpy >= 2).

NOTE[DIFF]: against that version of the library:
- It compares singling-out rates of tables of different sizes by a fitted correction; here both groups'
  tables are cut to the same size. It draws a fixed number of attributes for a predicate; here they are
  added until they single out a row, so that wide tables give predicates too.
- Both search by Gower's distance, here with roots (gower.py). There ordinal text is a category and a null is far even from a null;
  here ordinal values are ordered, and two nulls are equal.
- Rates are plain shares, not centres of Wilson intervals, so that risks of nothing are 0 on average; their
  errors are kept open by half a unit.
- Ties of distance are broken at random, not by the order of the rows.

NOTE[DIFF]: the searches are no blocked matrix products of one-hot codes, and use no GPU. Such a product
takes as many multiplications a column as it has values, and gives counts of equal values, not distances
that know order; comparing columns of 8-bit integers takes one operation a column on 32 rows or more at
a time, and the whole grid of a million rows of ten columns takes under 20 s on two cores (reports/speed).
"""

import math

import numpy as np
from scipy import sparse

from tabsynth.evaluation.attacks.gower import (
    MAX_TABLE,
    GowerSearch,
    gower_search,
    places,
)
from tabsynth.evaluation.attacks.nearest import HammingSearch, draw_rows, in_chunks, nearest
from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import Metric, Tables
from tabsynth.evaluation.results import Z95, Estimate

NEIGHBOURS = 10  # of linkability
COMPARE = {"==": np.equal, ">=": np.greater_equal, "<=": np.less_equal}
TRIES = 10  # rows drawn for each predicate wanted: not every row is unique
SINGLING_OUT = definition_of("singling_out")
LINKABILITY = definition_of("linkability")


def anonymeter(
    tables: Tables, people: np.ndarray, controls: np.ndarray, rng: np.random.Generator
) -> list[Metric]:
    """Return both risks; linkability only of tables of two columns or more."""
    assert tables.control is not None
    size = min(len(tables.train), len(tables.control))
    groups = [t[rng.permutation(len(t))[:size]] for t in (tables.train, tables.control)]
    metrics = [_singling_out(tables, groups, len(people), rng)]
    if len(tables.sizes) > 1:
        metrics.append(_linkability(tables, people, controls, rng))
    return metrics


def risk(
    attack: np.ndarray, control: np.ndarray, alike: sparse.csr_array | None = None
) -> Estimate:
    """Return (a − c) / (1 − c) of two groups' mean shares of success, with a normal interval.

    By the delta method: dR/da = 1 / (1 − c), dR/dc = (a − 1) / (1 − c)². Half a unit of
    pseudo-variation keeps each error open, as in ``mean_of_shares``.

    Parameters
    ----------
    attack, control : ndarray, shape (trials,)
        Success of each trial, in [0, 1].
    alike : csr_array, shape (trials, trials), optional
        How far two trials stand or fall together, from 0 to 1, positive semidefinite: their errors are
        added with that weight (Conley 1999). Default: all trials are independent.
    """
    a, c = float(attack.mean()), float(control.mean())
    n = len(attack) + len(control)
    if c >= 1:  # everything is guessed of everyone: nothing is left that could leak
        return Estimate(0.0, math.nan, math.nan, n)
    squares = 0.0
    for shares, slope in ((attack, 1 / (1 - c)), (control, (a - 1) / (1 - c) ** 2)):
        errors = shares - shares.mean()
        spread = float(errors @ (errors if alike is None else alike @ errors)) + 0.5
        squares += slope**2 * spread / len(shares) ** 2
    value, half = (a - c) / (1 - c), Z95 * math.sqrt(squares)
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half), n)


def _singling_out(
    tables: Tables, groups: list[np.ndarray], count: int, rng: np.random.Generator
) -> Metric:
    ordered = [scores is not None and np.isfinite(scores).sum() > 2 for scores in tables.scores]

    def attack(table: np.ndarray) -> Estimate:
        searched = draw_rows(table, MAX_TABLE, rng)
        predicates = singling_predicates(searched, tables.sizes, ordered, count, rng)
        if not predicates:
            return Estimate(0.0, math.nan, math.nan, 0)
        met = [meeting(predicates, group) for group in groups]
        people, controls = ((hits.sum(axis=1) == 1).astype(float) for hits in met)
        return risk(people, controls, alike(sparse.hstack([*met, meeting(predicates, searched)])))

    return Metric(SINGLING_OUT, *tables.compared_beside_control.map(attack))


Predicate = list[tuple[int, str, int]]


def singling_predicates(
    table: np.ndarray,
    sizes: tuple[int, ...],
    ordered: list[bool],
    count: int,
    rng: np.random.Generator,
) -> list[Predicate]:
    """Return predicates that exactly one row of the table meets: (column, "==", ">=" or "<=", value) each.

    Of a random row: its attributes in random order, until no other row meets them; an ordered value
    is bounded away from the median. Rows that are not unique give none.
    """
    searched = HammingSearch(table, sizes)
    middle = np.median(table, axis=0)
    predicates: list[Predicate] = []
    for _ in range(TRIES * count):
        row = table[rng.integers(len(table))]
        hit, predicate = np.ones(len(table), dtype=bool), []
        for j in rng.permutation(len(sizes)).tolist():
            sign = "==" if not ordered[j] else ">=" if row[j] > middle[j] else "<="
            predicate.append((j, sign, int(row[j])))
            hit &= _meets(predicate[-1:], searched.columns)
            if hit.sum() == 1:
                predicates.append(predicate)
                break
        if len(predicates) == count:
            break
    return predicates


def meeting(predicates: list[Predicate], table: np.ndarray) -> sparse.csr_array:
    """Return which rows meet which predicate: 1 or nothing, shape (predicates, rows)."""
    columns = np.ascontiguousarray(table.T)
    rows = [np.flatnonzero(_meets(predicate, columns)) for predicate in predicates]
    starts = np.cumsum([0, *map(len, rows)])
    hits = (np.ones(starts[-1]), np.concatenate(rows), starts)
    return sparse.csr_array(hits, shape=(len(predicates), len(table)))


def alike(met: sparse.csr_array) -> sparse.csr_array:
    """Return cosines between the sets of rows that meet each predicate: predicates for the same few succeed together."""
    unit = sparse.diags_array(met.sum(axis=1) ** -0.5) @ met
    return (unit @ unit.T).tocsr()


def _meets(predicate: Predicate, columns: list[np.ndarray] | np.ndarray) -> np.ndarray:
    return np.all([COMPARE[sign](columns[j], value) for j, sign, value in predicate], axis=0)


def _linkability(
    tables: Tables, people: np.ndarray, controls: np.ndarray, rng: np.random.Generator
) -> Metric:
    sides = np.arange(len(tables.sizes)) % 2 == 0  # what one source knows; the other knows the rest
    ordered = places(tables)

    def attack(table: np.ndarray) -> Estimate:
        tried = [
            find_links(group, gower_search(table, tables, ordered, rng), sides, rng)
            for group in (people, controls)
        ]
        return risk(*tried)

    return Metric(LINKABILITY, *tables.compared_beside_control.map(attack))


def find_links(
    records: np.ndarray,
    searched: GowerSearch,
    sides: np.ndarray,
    rng: np.random.Generator,
    k: int = NEIGHBOURS,
) -> np.ndarray:
    """Return whether the k nearest rows by either side's columns have one in common, shape (records,)."""

    def work(part: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        out = np.empty(len(part))
        for i, record in enumerate(part):
            differs = searched.differs(record)
            distances = (
                searched.distance([differs[j] for j in np.flatnonzero(side)])
                for side in (sides, ~sides)
            )
            first, second = (nearest(distance, k, generator)[0] for distance in distances)
            out[i] = len(np.intersect1d(first, second)) > 0
        return out

    return in_chunks(records, work, rng, searched.rows)
