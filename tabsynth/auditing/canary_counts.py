"""White-box canary audits of MargNet: every noisy count of a fit, without the estimation that follows.

Estimation and sampling are post-processing of the counts, so the audits leave them out. For linked tables the canary is a
root row with its records in the other tables, and the noisy counts are those of the records of each table.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tabsynth.auditing.canaries import (
    WHOLE,
    Claim,
    Ratios,
    log_likelihood_ratios,
    make_canary_results,
)
from tabsynth.auditing.linked_datasets import small_datasets
from tabsynth.auditing.outcomes import AuditResult
from tabsynth.auditing.request import WHITE_BOX, AuditRequest
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import KEY_BYTES, PrivateRows, SharedRows, codes_of
from tabsynth.privacy.accounting.accountants import Spend
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.counts import (
    Groups,
    Measured,
    NoisyCounts,
    by_value,
    count_rows,
    signed_sums,
)
from tabsynth.privacy.noise.samplers import Bits, Keystream
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers import MargNet
from tabsynth.synthesizers.linked.estimator import LinkedMargNet, LinkedMethod
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.measurement import PrivateMarginals, Task
from tabsynth.synthesizers.method import PlannedSpend
from tabsynth.synthesizers.mixture import Mixture
from tabsynth.training.loop import TrainingMonitor

RunRatios = tuple[list[dict[str, float]], list[dict[str, float]]]  # without and with the canary


class ObservedCounts(NoisyCounts[Any]):
    """Noisy counts of one run that also record the canary's log-likelihood ratio in each release.

    Parameters
    ----------
    counts : NoisyCounts
        The noisy counts of the fit, whose releases are returned unchanged.
    other_rows, canary : int array, shape (n, columns) and (m, columns), or SharedRows
        What the attacker knows: category codes of all rows but the canary, and of the canary's rows, which are equal.

    Attributes
    ----------
    log_ratios : dict
        The ratio, by purpose.

    Notes
    -----
    Where the canary is a unit of several equal rows, as many as its bound, what it adds is the bound of the counts.
    """

    def __init__(
        self,
        counts: NoisyCounts[Any],
        other_rows: PrivateRows | SharedRows,
        canary: PrivateRows | SharedRows,
    ):
        super().__init__(counts.table, counts.sizes, bound=counts.bound)
        self._inner, self._other_rows, self._canary = counts, other_rows, canary
        self._codes = _parts(canary)[0][0]
        self.log_ratios: dict[str, float] = {}

    def measure(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        shares: Sequence[float],
        bits: Bits,
        groups: Sequence[Groups] | None = None,
    ) -> list[Measured]:
        """See :meth:`NoisyCounts.measure`. The canary is in one cell of each set: projection √share on √share."""
        released = self._inner.measure(account, sets, shares, bits, groups)
        z = 0.0
        for i, (item, share) in enumerate(zip(released, shares, strict=True)):
            value_groups = by_value(self.sizes) if groups is None else groups[i]
            cell = tuple(int(value_groups[j][self._codes[j]]) for j in item.columns)
            z += share * (
                item.counts[cell] - _count(self._other_rows, item.columns, value_groups)[cell]
            )
        self._note(account, z / self.bound)
        return released

    def distances(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        expected: Callable[[tuple[int, ...]], np.ndarray],
        bits: Bits,
        groups: Groups | None = None,
    ) -> np.ndarray:
        """See :meth:`NoisyCounts.distances`. The canary changes each distance by at most the bound."""
        released = self._inner.distances(account, sets, expected, bits, groups)
        value_groups = by_value(self.sizes) if groups is None else groups
        far, moved = self._distances(sets, [*map(expected, sets)], [value_groups] * len(sets))
        move = (moved - far) / math.sqrt(len(sets))
        length = np.linalg.norm(move)
        z = (released - far) @ move / (length * math.sqrt(len(sets))) if length else 0.0
        self._note(account, float(z) / self.bound)
        return released

    def mean_distance(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        expected: Sequence[np.ndarray],
        bits: Bits,
        groups: Sequence[Groups],
    ) -> float:
        """See :meth:`NoisyCounts.mean_distance`. The canary changes the mean by at most the bound."""
        released = self._inner.mean_distance(account, sets, expected, bits, groups)
        far, moved = (of.mean() for of in self._distances(sets, expected, groups))
        self._note(account, float((released - far) * np.sign(moved - far)) / self.bound)
        return released

    def _distances(
        self,
        sets: Sequence[tuple[int, ...]],
        expected: Sequence[np.ndarray],
        groups: Sequence[Groups],
    ) -> np.ndarray:
        """Return the L1 distance of each set's counts from those expected, without the canary and with it, shape (2, sets)."""
        far = []
        for columns, of, by in zip(sets, expected, groups, strict=True):
            gap = _count(self._other_rows, columns, by) - of
            moved = gap + _count(self._canary, columns, by)
            far.append((np.abs(gap).sum(), np.abs(moved).sum()))
        return np.array(far).reshape(-1, 2).T

    def contrasts(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        signs: Sequence[np.ndarray],
        bits: Bits,
        wide: Sequence[tuple[int, ...]] = (),
    ) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`NoisyCounts.contrasts`. The canary changes each sum by the bound, up or down."""
        released = self._inner.contrasts(account, sets, signs, bits, wide)
        first = [of[:1] for of in signs]
        z = [
            (value - self._without(s, codes)) * np.prod([codes[j][:, self._codes[j]] for j in s], 0)
            for part, of, codes in zip(released, (sets, wide), (signs, first), strict=True)
            for value, s in zip(part, of, strict=True)
        ]
        self._note(account, float(np.concatenate([np.ravel(of) for of in z]).mean()) / self.bound)
        return released

    def _without(self, columns: Sequence[int], signs: Sequence[np.ndarray]) -> np.ndarray:
        """Return the sums of products of signs of the other rows, shape (codes,)."""
        counted = _count(self._other_rows, columns, by_value(self.sizes))
        return signed_sums(counted, [signs[j] for j in columns])

    def _note(self, account: Account, z: float) -> None:
        ratio = log_likelihood_ratios(np.array(z), account.noise_multiplier, 1.0)
        self.log_ratios[account.purpose] = self.log_ratios.get(account.purpose, 0.0) + float(ratio)


def _parts(rows: PrivateRows | SharedRows) -> tuple[np.ndarray, np.ndarray | None]:
    """Return category codes, and what each row adds to counts where that is not 1."""
    return (rows.codes, rows.shares) if isinstance(rows, SharedRows) else (codes_of(rows), None)


def _count(rows: PrivateRows | SharedRows, columns: Sequence[int], groups: Groups) -> np.ndarray:
    codes, shares = _parts(rows)
    return count_rows(codes, columns, groups, shares)


def audit_counts(
    request: AuditRequest,
    *,
    config: MargNetConfig | None = None,
    target: str | None = None,
    measuring: type[PrivateMarginals] = PrivateMarginals,
) -> list[AuditResult]:
    """Audit all counts of a MargNet fit: one-way counts, scores of pairs and sign interactions if any, joint counts, and those of a target.

    A stage that releases nothing in any run, because the groups of values leave nothing to count, has no result of its own.

    Parameters
    ----------
    request : AuditRequest
        Half of the runs choose the threshold.
    config : MargNetConfig, optional
    target : str, optional
        As in :class:`MargNet`. Its tables are compared with those of uniform columns, in place of a fit's: what is known counts alike.
    measuring : type
        The class that measures the counts; tests pass broken ones.
    """
    datasets = request.datasets
    rows, schema, key = len(datasets.without), datasets.schema, secrets.token_bytes(KEY_BYTES)
    encoder = TableEncoder(schema)
    model = MargNet(
        schema,
        epsilon=request.epsilon,
        delta=request.delta,
        rows=rows,
        config=config,
        target=target,
    )
    planned = model.plan(estimate_time=False).spends
    tasks = {"": model.make_method(schema).task}
    tables = [{"": encoder.to_rows(datasets.table(there), key)} for there in (False, True)]
    canary = {"": encoder.to_rows(datasets.canary, key)}
    return _audit_tasks(request, planned, tasks, tables, canary, measuring)


def audit_linked_counts(
    request: AuditRequest, *, config: MargNetConfig | None = None
) -> list[AuditResult]:
    """Audit all counts of a fit of linked tables: for each table one-way counts, scores of pairs if any, joint counts; and profiles.

    The canary is a patient of two stays, the second with an event. It has one record of weight 1 in each table, so it adds the
    sensitivity of 1 to one cell of each set of columns.

    Parameters
    ----------
    request : AuditRequest
    config : MargNetConfig, optional
    """
    datasets = small_datasets()
    rows = len(datasets.without[datasets.schema.root])
    model = LinkedMargNet(
        datasets.schema,
        epsilon=request.epsilon,
        delta=request.delta,
        rows=rows,
        config=config,
        device="cpu",
    )
    planned, method = model.plan().spends, model.make_method(datasets.schema)
    key = secrets.token_bytes(KEY_BYTES)
    tables = [method.encode_rows(datasets.table(there), key) for there in (False, True)]
    tasks = {name: method.task(name) for name in method.encoder.records}
    canary = method.encode_rows(datasets.canary, key)
    return _audit_tasks(request, planned, tasks, tables, canary, PrivateMarginals, method)


def _audit_tasks(
    request: AuditRequest,
    planned: Sequence[PlannedSpend],
    tasks: Mapping[str, Task],
    tables: Sequence[Mapping[str, PrivateRows | SharedRows]],
    canary: Mapping[str, PrivateRows | SharedRows],
    measuring: type[PrivateMarginals],
    linked: LinkedMethod | None = None,
) -> list[AuditResult]:
    """Measure the counts of many fits on both datasets, of which ``tables`` has the rows by table, and compare them.

    Rows without a task are those of profiles of ``linked`` tables.
    """
    started, runs = time.monotonic(), request.runs
    log_ratios: RunRatios = ([], [])
    for turn in range(2 * runs):
        ledger, ratios = Ledger(request.epsilon, request.delta), dict[str, float]()
        for name, rows in tables[turn % 2].items():
            table, monitor = PrivateTable(rows, ledger), TrainingMonitor()
            if linked is not None and name not in tasks:
                of_profiles = linked.profile_counts(name, table)
                observed = ObservedCounts(of_profiles, tables[0][name], canary[name])
                linked.measure_profiles(name, observed, planned, Keystream(), monitor)
                ratios |= observed.log_ratios
                continue
            marginals = measuring(tasks[name], table, planned, Keystream(), monitor)
            observed = ObservedCounts(marginals.counts, tables[0][name], canary[name])
            marginals.counts = observed
            one_way = marginals.one_way()
            selection = marginals.select(one_way)
            marginals.joint(one_way, selection)
            if tasks[name].targeted:
                marginals.joint_again(one_way, selection, (), _uniform(request.datasets.schema))
            ratios |= observed.log_ratios
        log_ratios[turn % 2].append({**ratios, WHOLE: sum(ratios.values())})
        request.report(WHITE_BOX, turn + 1, 2 * runs)
    claims = make_claims(planned, request.delta, log_ratios)
    seconds = time.monotonic() - started
    return make_canary_results(request.method, claims, stack(log_ratios, claims), seconds)


def _uniform(schema: Schema) -> Mixture:
    """Return a mixture of one component, in which all values of a column are as frequent."""
    component = torch.cat([torch.full((size,), 1 / size) for size in schema.sizes])[None]
    return Mixture(TableEncoder(schema).layout, 1).set(component)


def make_claims(
    planned: Sequence[PlannedSpend], delta: float, log_ratios: RunRatios
) -> dict[str, Claim]:
    """Return the claims for the whole fit and for each stage that released something in at least one run."""
    spends: dict[str, list[Spend]] = {s.purpose: [(s.mechanism, s.count)] for s in planned}
    claims = {WHOLE: Claim.from_spends([s for part in spends.values() for s in part], delta)}
    released = {part for runs in log_ratios for run in runs for part in run}
    return claims | {
        part: Claim.from_spends(spent, delta) for part, spent in spends.items() if part in released
    }


def stack(log_ratios: RunRatios, parts: Iterable[str]) -> tuple[Ratios, Ratios]:
    """Return the ratios of all runs on both datasets, by part; a stage that releases nothing in a run has a ratio of 0 there."""
    names = list(parts)
    without, with_canary = (
        {part: np.array([run.get(part, 0.0) for run in runs]) for part in names}
        for runs in log_ratios
    )
    return without, with_canary
