"""What MargNet measures of private rows: one-way counts, scores of pairs, counts of pairs and triples.

Each stage is one Gaussian mechanism with its part of the budget, and follows from the schema and from what
the stages before it released.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tabsynth.generators.marginals import (
    COARSEST,
    MOST_IN_COARSE_GROUPS,
    MOST_IN_GROUPS,
    Pair,
    Triple,
    chance_distance,
    clear_triples,
    groups_of,
    least_rows,
    pairs_within,
    share_of_triples,
    triples_within,
    worth_counting,
)
from tabsynth.generators.margnet import MargNetConfig
from tabsynth.plan import PlannedSpend
from tabsynth.privacy.counts import (
    Groups,
    Measured,
    NoisyCounts,
    averaged,
    cells_of,
    in_groups,
    probabilities,
    shares_by_cells,
    total_rows,
)
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account, Ledger
from tabsynth.privacy.mechanisms import of_sum
from tabsynth.schema import Schema
from tabsynth.training.loop import Watch

Set = tuple[int, ...]
ONE_WAY, SCORES, JOINT = "one-way counts", "scores of pairs", "two- and three-way counts"
SURE = 2.0
ONE_WAY_SHARE, SCORES_SHARE = 0.08, 0.05  # of the budget, in units of 1/σ²


def stages(schema: Schema, config: MargNetConfig) -> dict[str, float]:
    """The stages and their shares of the budget: a function of the schema alone."""
    pairs = len(pairs_within(schema.sizes, config.max_cells, config.max_width))
    if not pairs:
        return {ONE_WAY: 1.0}
    scores = {SCORES: SCORES_SHARE} if pairs > config.max_unscored else {}
    return {ONE_WAY: ONE_WAY_SHARE, **scores, JOINT: 1 - ONE_WAY_SHARE - sum(scores.values())}


@dataclass
class Measurements:
    """All that a fit knows of the private rows.

    Attributes
    ----------
    counts : list of Measured
        Of every column, value by value; of pairs and triples of columns, group by group.
    rows : float
        Estimated or declared.
    groups, coarse : Groups
        Of the values in the counts of pairs, and of triples.
    """

    counts: list[Measured]
    rows: float
    groups: Groups
    coarse: Groups


class Measuring:
    """The reads of one fit.

    Parameters
    ----------
    table : PrivateTable of int array, shape (n, columns)
        Value numbers.
    schema : Schema
    config : MargNetConfig
    rows : int, optional
        The number of rows, where it is public.
    rng : numpy Generator
        Draws the noise.
    watch : Watch
        Its checkpoint keeps each release.
    """

    def __init__(
        self,
        table: PrivateTable[np.ndarray],
        schema: Schema,
        config: MargNetConfig,
        rows: int | None,
        rng: np.random.Generator,
        watch: Watch,
    ) -> None:
        self.schema, self.config, self.rows, self.rng, self.watch = schema, config, rows, rng, watch
        self.counts = NoisyCounts(table, schema.sizes)
        self.pairs = pairs_within(schema.sizes, config.max_cells, config.max_width)

    def run(self, spends: Sequence[PlannedSpend], ledger: Ledger) -> Measurements:
        """All stages."""
        planned = {spend.purpose: spend for spend in spends}
        columns: list[Set] = [(j,) for j in range(len(self.schema.columns))]
        whole: Groups = [np.arange(size) for size in self.schema.sizes]
        account = self._open(planned[ONE_WAY], ledger, {"columns": len(columns)})
        singles = self._count(account, columns, [whole] * len(columns), [1.0])
        rows = float(self.rows or total_rows(singles))
        if JOINT not in planned:
            return Measurements(singles, rows, whole, whole)
        shares = [probabilities(m.counts.ravel(), rows, m.std) for m in singles]
        noise = of_sum(planned[JOINT].mechanism).noise_multiplier
        least = least_rows(noise, len(columns), len(self.pairs)) / rows
        groups = self._groups(shares, least)
        coarse = self._groups(shares, max(least, COARSEST), MOST_IN_COARSE_GROUPS)
        pairs, distances = self.pairs, np.zeros(len(self.pairs))
        if SCORES in planned:
            account = self._open(planned[SCORES], ledger, {"pairs": len(pairs)})
            expected = [rows * in_groups(s, [g]) for s, g in zip(shares, groups, strict=True)]
            distances = self._scores(planned[SCORES], account, expected, groups)
            pairs = worth_counting(pairs, distances, groups, noise)
        by_pair = dict(zip(self.pairs, distances, strict=True))
        triples = self._triples(pairs, by_pair, coarse, noise / rows)
        if not pairs:  # the columns seem independent: better one-way counts is all there is to have
            account = self._open(planned[JOINT], ledger, {"columns": len(columns)})
            again = self._count(account, columns, [whole] * len(columns), [1.0])
            singles = [averaged(*both) for both in zip(singles, again, strict=True)]
            return Measurements(singles, rows, groups, coarse)
        found = {"pairs": len(pairs), "triples": len(triples)}
        account = self._open(planned[JOINT], ledger, found)
        part = share_of_triples(len(pairs), len(triples))
        parts = [1 - part, part] if triples else [1.0]
        by = [groups] * len(pairs) + [coarse] * len(triples)
        joint = self._count(account, [*pairs, *triples], by, parts)
        return Measurements([*singles, *joint], rows, groups, coarse)

    def _groups(
        self, shares: Sequence[np.ndarray], least: float, merged: float = MOST_IN_GROUPS
    ) -> Groups:
        columns = self.schema.columns
        return [groups_of(c, s, least, merged) for c, s in zip(columns, shares, strict=True)]

    def _triples(
        self, pairs: Sequence[Pair], distances: Mapping[Pair, float], coarse: Groups, noise: float
    ) -> list[Triple]:
        """Triples worth counting: of pairs far from independence, or of all columns alike if not scored."""
        found = triples_within(pairs, self.schema.sizes, self.config.max_cells)
        worth = [distances[a, b] + distances[a, c] + distances[b, c] for a, b, c in found]
        return clear_triples(found, np.array(worth), coarse, noise, len(pairs))

    def _open(self, spend: PlannedSpend, ledger: Ledger, details: dict[str, Any]) -> Account:
        unit = "counts of each set of columns, scaled by the root of its share of the budget"
        if spend.purpose == SCORES:
            unit = "L1 distances of the counts of all pairs from independence, over √pairs"
        details = {"l2_sensitivity": 1.0, "unit": unit, **details}
        return ledger.open(spend.purpose, spend.mechanism, spend.count, details)

    def _count(
        self,
        account: Account,
        sets: Sequence[Set],
        groups: Sequence[Groups],
        parts: Sequence[float],
    ) -> list[Measured]:
        """One release, or what a checkpoint kept of it; sets of one width have a part of the budget."""
        cells: dict[int, list[int]] = {}
        for columns, by in zip(sets, groups, strict=True):
            cells.setdefault(len(columns), []).append(cells_of(columns, by))
        shares = [
            part * share
            for part, alike in zip(parts, cells.values(), strict=True)
            for share in shares_by_cells(alike)
        ]

        def release() -> dict[str, np.ndarray]:
            found = self.counts.measure(account, sets, shares, self.rng, groups)
            counts = {str(i): m.counts for i, m in enumerate(found)}
            return {**counts, "std": np.array([m.std for m in found])}

        held = self.watch.once(account.purpose, release)
        return [
            Measured(columns, held[str(i)], float(std))
            for i, (columns, std) in enumerate(zip(sets, held["std"], strict=True))
        ]

    def _scores(
        self, spend: PlannedSpend, account: Account, expected: Sequence[np.ndarray], groups: Groups
    ) -> np.ndarray:
        """Lower bounds of the distances of all pairs from independence, in rows.

        Less what chance alone makes of the rows, and ``SURE`` standard deviations of the noise: of a
        thousand scores the highest are else those of most noise.
        """

        def independent(pair: tuple[int, ...]) -> np.ndarray:
            a, b = (expected[j] for j in pair)
            return np.outer(a, b) / a.sum()

        def release() -> dict[str, np.ndarray]:
            found = self.counts.distances(account, self.pairs, independent, self.rng, groups)
            return {"distances": found}

        found = self.watch.once(SCORES, release)["distances"]
        std = SURE * of_sum(spend.mechanism).noise_multiplier * math.sqrt(len(self.pairs))
        return found - std - [chance_distance(independent(pair)) for pair in self.pairs]
