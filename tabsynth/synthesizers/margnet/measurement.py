"""What MargNet measures of private rows: one-way counts, scores of pairs, counts of pairs and triples.

Each stage is one Gaussian mechanism with its part of the budget, and follows from the schema and from what
the stages before it released.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tabsynth.privacy.accounting.mechanisms import of_sum
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.counts import (
    Groups,
    Measured,
    NoisyCounts,
    averaged,
    cells_of,
    count_rows,
    in_groups,
    noise_of_total,
    probabilities,
    shares_by_cells,
    total_rows,
)
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.fitting import PlannedSpend
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.selection import (
    COARSEST,
    FINER,
    MOST_IN_COARSE_GROUPS,
    MOST_IN_GROUPS,
    SURELY,
    Pair,
    Resolution,
    Triple,
    Workload,
    chance_distance,
    clear_triples,
    groups_of,
    least_rows,
    pairs_within,
    share_of_columns,
    share_of_triples,
    strong_pairs,
    triples_within,
    worth_counting,
)
from tabsynth.tables.counter import RowCounter, count_by
from tabsynth.training.loop import Watch

Set = tuple[int, ...]
ONE_WAY, SCORES, JOINT = "one-way counts", "scores of pairs", "joint counts"
# Standard deviations of its noise that a score must be above what chance makes: of a thousand scores the
# highest are else those of most noise.
SURE = 1.0
ONE_WAY_SHARE, SCORES_SHARE = 0.08, 0.05  # of the budget, in units of 1/σ²
REFUTED = 6.0  # standard deviations of the counted rows that a declared number may be off
logger = logging.getLogger(__name__)


def stages(schema: Schema, config: MargNetConfig) -> dict[str, float]:
    """The stages and their shares of the budget: a function of the schema alone."""
    pairs = math.comb(len(schema.columns), 2)
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
    resolution : Resolution
    """

    counts: list[Measured]
    rows: float
    resolution: Resolution


Rows = np.ndarray | RowCounter


def _count(schema: Schema, rows: Rows, columns: Sequence[int], groups: Groups) -> np.ndarray:
    if isinstance(rows, RowCounter):
        return count_by(schema, rows, columns, groups)
    return count_rows(rows, columns, groups)


class Measuring:
    """The reads of one fit.

    Parameters
    ----------
    table : PrivateTable of int array, shape (n, columns), or of RowCounter
        Value numbers, or what counts them.
    schema : Schema
    config : MargNetConfig
    rows : int, optional
        The number of rows, where it is public.
    bits : Bits
        Of the noise.
    watch : Watch
        Its checkpoint keeps each release.
    workload : Workload
    """

    def __init__(
        self,
        table: PrivateTable[Any],
        schema: Schema,
        config: MargNetConfig,
        rows: int | None,
        bits: Bits,
        watch: Watch,
        workload: Workload,
    ) -> None:
        self.schema, self.config, self.rows, self.bits, self.watch = (
            schema,
            config,
            rows,
            bits,
            watch,
        )
        self.workload = workload
        self.counts: NoisyCounts[Any] = NoisyCounts(table, schema.sizes, partial(_count, schema))
        self.columns: list[Set] = [(j,) for j in range(len(schema.columns))]
        self.whole = Resolution.by_value(schema.sizes)

    def run(self, spends: Sequence[PlannedSpend], ledger: Ledger) -> Measurements:
        """All stages."""
        planned = {spend.purpose: spend for spend in spends}
        account = self._open(planned[ONE_WAY], ledger, {"columns": len(self.columns)})
        singles = self._count(account, [(self.columns, 1.0)], self.whole)
        rows = self._total(singles)
        if JOINT not in planned:
            return Measurements(singles, rows, self.whole)
        shares = [probabilities(m.counts.ravel(), rows, m.std) for m in singles]
        noise = of_sum(planned[JOINT].mechanism).noise_multiplier
        by = self._resolution(shares, noise, rows)
        cells = self.config.max_cells
        pairs = pairs_within(by.pairs, cells, self.config.max_width, self.workload)
        distances, chosen = dict.fromkeys(pairs, 0.0), pairs
        if SCORES in planned:
            account = self._open(planned[SCORES], ledger, {"pairs": len(pairs)})
            if (
                not pairs
            ):  # charged all the same: what is charged must not follow from what was released
                self.watch.once(SCORES, lambda: self._spent(ledger, account))
        if SCORES in planned and pairs:
            expected = [rows * in_groups(s, [g]) for s, g in zip(shares, by.pairs, strict=True)]
            found, std = self._scores(account, pairs, expected, by.pairs)
            found -= SURE * std
            distances = dict(zip(pairs, found, strict=True))
            chosen = worth_counting(pairs, found, by.pairs, noise, self.workload)
            surely = {pair: distances[pair] - SURELY * std for pair in chosen}
            by = replace(by, strong=strong_pairs(surely, rows, by.pairs, by.fine, cells))
        triples = self._triples(chosen, distances, by.triples, noise / rows)
        joint = self._joint(planned[JOINT], ledger, rows, chosen, triples, by)
        again: dict[Set, Measured] = {m.columns: m for m in joint if len(m.columns) == 1}
        singles = [averaged(m, again[m.columns]) if again else m for m in singles]
        counts = [*singles, *(m for m in joint if len(m.columns) > 1)]
        return Measurements(counts, rows, by.narrowed({j for pair in chosen for j in pair}))

    @staticmethod
    def _spent(ledger: Ledger, account: Account) -> dict[str, np.ndarray]:
        """No release, for one use of an account."""
        ledger.spend(account)
        return {}

    def _total(self, singles: Sequence[Measured]) -> float:
        """The declared number of rows, or where there is none, or the counts refute it, the counted one."""
        counted = total_rows(singles)
        if self.rows is None:
            return counted
        if abs(self.rows - counted) <= REFUTED * noise_of_total(singles):
            return float(self.rows)
        logger.warning(
            "rows=%d is declared, but the noisy counts hold some %.0f rows: that number is used; correct rows, or"
            " leave it out.",
            self.rows,
            counted,
        )
        return counted

    def _joint(
        self,
        spend: PlannedSpend,
        ledger: Ledger,
        rows: float,
        pairs: Sequence[Pair],
        triples: Sequence[Triple],
        by: Resolution,
    ) -> list[Measured]:
        """Counts of pairs and triples, and of columns again where their noise is still too high.

        If no pair is worth it, the columns seem independent: better one-way counts are all there is
        to have.
        """
        noise = of_sum(spend.mechanism).noise_multiplier
        again = 1.0
        if pairs:
            cells = [cells_of(pair, by.of(pair)) for pair in pairs]
            again = share_of_columns(noise, self.schema.sizes, cells, rows, ONE_WAY_SHARE)
        weights = [float(self.workload.importance(sets).sum()) for sets in (pairs, triples)]
        part = share_of_triples(*weights) if pairs else 0.0
        found: list[tuple[Sequence[Set], float]] = [
            (self.columns, again),
            (pairs, (1 - again) * (1 - part)),
            (triples, (1 - again) * part),
        ]
        found = [batch for batch in found if batch[1]]
        names = {1: "columns", 2: "pairs", 3: "triples"}
        details = {"columns": 0, "pairs": 0, "triples": 0}
        details |= {names[len(sets[0])]: len(sets) for sets, _ in found}
        return self._count(self._open(spend, ledger, details), found, by)

    def _resolution(self, shares: Sequence[np.ndarray], noise: float, rows: float) -> Resolution:
        """Groups by what the noise of pairs allows; ``noise`` is that of all of them together."""

        def groups(least: float, merged: float = MOST_IN_GROUPS) -> Groups:
            columns = zip(self.schema.columns, shares, strict=True)
            return [groups_of(column, share, least, merged) for column, share in columns]

        least = least_rows(noise, len(self.columns), math.comb(len(self.columns), 2)) / rows
        coarse = groups(COARSEST, MOST_IN_COARSE_GROUPS)
        return Resolution(self.whole.values, groups(least), coarse, groups(least / FINER))

    def _triples(
        self, pairs: Sequence[Pair], distances: Mapping[Pair, float], coarse: Groups, noise: float
    ) -> list[Triple]:
        """Triples worth counting: of pairs far from independence, or of all columns alike if not scored."""
        found = triples_within(pairs, coarse, self.config.max_cells)
        worth = np.array([distances[a, b] + distances[a, c] + distances[b, c] for a, b, c in found])
        worth *= self.workload.importance(found)
        weight = float(self.workload.importance(pairs).sum())
        room = self.config.max_triple_cells
        return clear_triples(found, worth, coarse, noise, weight, room, self.workload)

    def _open(self, spend: PlannedSpend, ledger: Ledger, details: dict[str, Any]) -> Account:
        unit = "counts of each set of columns, scaled by the root of its share of the budget"
        if spend.purpose == SCORES:
            unit = "L1 distances of the counts of all pairs from independence, over √pairs"
        details = {"l2_sensitivity": 1.0, "unit": unit, **details}
        return ledger.open(spend.purpose, spend.mechanism, spend.count, details)

    def _count(
        self, account: Account, batches: Sequence[tuple[Sequence[Set], float]], by: Resolution
    ) -> list[Measured]:
        """One release, or what a checkpoint kept of it.

        A batch is sets of columns and their part of the account's budget.
        """
        sets, shares = list[Set](), list[float]()
        for columns, part in batches:
            cells = [cells_of(s, by.of(s)) for s in columns]
            sets += columns
            importance = self.workload.importance(columns)
            shares += [part * share for share in shares_by_cells(cells, importance)]

        def release() -> dict[str, np.ndarray]:
            found = self.counts.measure(account, sets, shares, self.bits, [by.of(s) for s in sets])
            counts = {str(i): m.counts for i, m in enumerate(found)}
            return {**counts, "std": np.array([m.std for m in found])}

        held = self.watch.once(account.purpose, release)
        return [
            Measured(columns, held[str(i)], float(std))
            for i, (columns, std) in enumerate(zip(sets, held["std"], strict=True))
        ]

    def _scores(
        self,
        account: Account,
        pairs: Sequence[Pair],
        expected: Sequence[np.ndarray],
        groups: Groups,
    ) -> tuple[np.ndarray, float]:
        """Distances of pairs from independence, in rows, less what chance alone makes of the rows.

        And the standard deviation of their noise.
        """

        def independent(pair: tuple[int, ...]) -> np.ndarray:
            a, b = (expected[j] for j in pair)
            return np.outer(a, b) / a.sum()

        def release() -> dict[str, np.ndarray]:
            found = self.counts.distances(account, pairs, independent, self.bits, groups)
            return {"distances": found}

        found = self.watch.once(SCORES, release)["distances"]
        by_chance = [chance_distance(independent(pair)) for pair in pairs]
        return found - by_chance, account.noise_multiplier * math.sqrt(len(pairs))
