"""The canary in MargNet's noisy counts: the reads of a fit, every one, without the fit that follows."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tabsynth.auditing.canaries import KIND, WHOLE, Claim, Ratios, canary_results
from tabsynth.auditing.lower_bounds import CONFIDENCE
from tabsynth.auditing.observing import ratios
from tabsynth.auditing.outcomes import AuditResult
from tabsynth.auditing.worlds import Worlds, small_worlds
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.counts import Groups, Measured, NoisyCounts, by_value, count_rows
from tabsynth.privacy.noise.samplers import Bits, Keystream
from tabsynth.synthesizers import MargNet
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.measurement import Measuring
from tabsynth.synthesizers.margnet.selection import Workload, wanted
from tabsynth.training.loop import Progress, Watch

METHOD = "margnet"


class SeenCounts(NoisyCounts[np.ndarray]):
    """Noisy counts of one run, and the log-likelihood ratio of the canary in each release.

    Parameters
    ----------
    counts : NoisyCounts
        What the fit reads by; its releases are passed on as they are.
    known, canary : int array, shape (n, columns) and (1, columns)
        What the attacker knows: all rows but the canary, and the canary.

    Attributes
    ----------
    found : dict
        The ratio, by purpose.
    """

    def __init__(self, counts: NoisyCounts[np.ndarray], known: np.ndarray, canary: np.ndarray):
        super().__init__(counts.table, counts.sizes)
        self._inner, self._known, self._canary = counts, known, canary
        self.found: dict[str, float] = {}

    def measure(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        shares: Sequence[float],
        bits: Bits,
        groups: Sequence[Groups] | None = None,
    ) -> list[Measured]:
        """As of :class:`NoisyCounts`. The canary is in one cell of each set: √share along √share."""
        released = self._inner.measure(account, sets, shares, bits, groups)
        z = 0.0
        for i, (item, share) in enumerate(zip(released, shares, strict=True)):
            by = by_value(self.sizes) if groups is None else groups[i]
            cell = tuple(int(by[j][self._canary[0, j]]) for j in item.columns)
            z += share * (item.counts[cell] - count_rows(self._known, item.columns, by)[cell])
        self._note(account, z)
        return released

    def distances(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        expected: Callable[[tuple[int, ...]], np.ndarray],
        bits: Bits,
        groups: Groups | None = None,
    ) -> np.ndarray:
        """As of :class:`NoisyCounts`. The canary moves each distance by at most 1."""
        released = self._inner.distances(account, sets, expected, bits, groups)
        by = by_value(self.sizes) if groups is None else groups
        both = np.concatenate([self._known, self._canary])
        far = [
            np.array([np.abs(count_rows(rows, s, by) - expected(s)).sum() for s in sets])
            for rows in (self._known, both)
        ]
        move = (far[1] - far[0]) / math.sqrt(len(sets))
        length = np.linalg.norm(move)
        z = (released - far[0]) @ move / (length * math.sqrt(len(sets))) if length else 0.0
        self._note(account, float(z))
        return released

    def _note(self, account: Account, z: float) -> None:
        ratio = ratios(np.array(z), account.noise_multiplier, 1.0)
        self.found[account.purpose] = self.found.get(account.purpose, 0.0) + float(ratio)


def audit_counts(
    epsilon: float,
    delta: float = 1e-5,
    *,
    runs: int = 2000,
    config: MargNetConfig | None = None,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
    measuring: type[Measuring] = Measuring,
) -> list[AuditResult]:
    """Audit all that a fit of MargNet reads: one-way counts, scores of pairs if any, joint counts.

    Parameters
    ----------
    runs : int
        In each world; half of them choose the threshold. All that follows the reads is post-processing,
        and is left out.
    measuring : type
        What reads; another one only in tests.
    """
    started = time.monotonic()
    worlds = small_worlds()
    model = MargNet(
        worlds.schema, epsilon=epsilon, delta=delta, rows=len(worlds.without), config=config
    )
    settings = config or MargNetConfig()
    workload = wanted(worlds.schema, None, None, settings.max_cells)
    planned = model._spends(Ledger(epsilon, delta))
    spends: dict[str, list[Spend]] = {s.purpose: [(s.mechanism, s.count)] for s in planned}
    spends = {WHOLE: [spend for part in spends.values() for spend in part], **spends}
    run = _Reads(worlds, settings, workload, measuring)
    found: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    for turn in range(2 * runs):
        found[turn % 2].append(run.once(turn % 2 == 1, planned, Ledger(epsilon, delta)))
        if progress is not None:
            progress(f"{KIND} {METHOD}", turn + 1, 2 * runs)
    claims = {part: Claim.of(spent, delta) for part, spent in spends.items()}
    seconds = time.monotonic() - started
    return canary_results(
        METHOD, claims, (_joined(found[0]), _joined(found[1])), seconds, confidence
    )


class _Reads:
    """The reads of one fit, on either table."""

    def __init__(
        self,
        worlds: Worlds,
        settings: MargNetConfig,
        workload: Workload,
        measuring: type[Measuring],
    ) -> None:
        self.worlds, self.settings, self.workload = worlds, settings, workload
        self.measuring = measuring
        self.known, self.canary = worlds.index(worlds.without), worlds.index(worlds.canary)
        self.both = np.concatenate([self.known, self.canary])

    def once(self, present: bool, planned: Any, ledger: Ledger) -> dict[str, float]:
        """The ratios of one run, by part."""
        table = PrivateTable(self.both if present else self.known, ledger)
        rows, bits = len(self.known), Keystream()
        reads = self.measuring(
            table, self.worlds.schema, self.settings, rows, bits, Watch(), self.workload
        )
        seen = SeenCounts(reads.counts, self.known, self.canary)
        reads.counts = seen
        reads.run(planned, ledger)
        return {**seen.found, WHOLE: sum(seen.found.values())}


def _joined(runs: Sequence[dict[str, float]]) -> Ratios:
    return {part: np.array([run[part] for run in runs]) for part in runs[0]}
