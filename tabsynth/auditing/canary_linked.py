"""White-box canary audits of MargNet for linked tables: the canary is a root row with all that hangs on it.

As in :mod:`tabsynth.auditing.canary_counts`, the audit observes every noisy count of a fit, of the records of each table.
"""

import time
from typing import Any

from tabsynth.auditing.canaries import KIND, WHOLE, make_canary_results
from tabsynth.auditing.canary_counts import ObservedCounts, RunRatios, make_claims, stack
from tabsynth.auditing.linked_datasets import LinkedDatasets, small_datasets
from tabsynth.auditing.lower_bounds import CONFIDENCE
from tabsynth.auditing.outcomes import AuditResult
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.synthesizers.linked.estimator import LinkedMargNet, LinkedMethod
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.measurement import PrivateMarginals
from tabsynth.training.loop import Progress, TrainingMonitor

METHOD = "linked-margnet"


def audit_linked_counts(
    epsilon: float,
    delta: float = 1e-5,
    *,
    runs: int = 2000,
    config: MargNetConfig | None = None,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
) -> list[AuditResult]:
    """Audit all counts of a fit of linked tables: for each table one-way counts, scores of pairs if any, joint counts.

    The canary is a patient of two equal stays, each with two equal events. Its records in each table are equal, and their
    weights sum to 1, so it adds the sensitivity of 1 to one cell of each set of columns. A stage that releases nothing in
    any run has no result of its own.

    Parameters
    ----------
    runs : int
        On each neighbouring dataset. Half of them choose the threshold.
    """
    started = time.monotonic()
    datasets = small_datasets()
    rows = len(datasets.without[datasets.schema.root])
    model = LinkedMargNet(
        datasets.schema, epsilon=epsilon, delta=delta, rows=rows, config=config, device="cpu"
    )
    planned = model.plan().spends
    log_ratios: RunRatios = ([], [])
    run = _LinkedRuns(datasets, model.make_method(datasets.schema))
    for turn in range(2 * runs):
        log_ratios[turn % 2].append(run.run_once(turn % 2 == 1, planned, Ledger(epsilon, delta)))
        if progress is not None:
            progress(f"{KIND} {METHOD}", turn + 1, 2 * runs)
    claims = make_claims(planned, delta, log_ratios)
    seconds = time.monotonic() - started
    return make_canary_results(METHOD, claims, stack(log_ratios, claims), seconds, confidence)


class _LinkedRuns:
    """Measures the counts of one fit on either dataset."""

    def __init__(self, datasets: LinkedDatasets, method: LinkedMethod) -> None:
        self.method = method
        self.tables = [datasets.records(datasets.table(there)) for there in (False, True)]
        self.canary = datasets.records(datasets.canary)

    def run_once(self, present: bool, planned: Any, ledger: Ledger) -> dict[str, float]:
        """Return the log-likelihood ratios of one run, by part."""
        bits, monitor = Keystream(), TrainingMonitor()
        ratios: dict[str, float] = {}
        for name in self.method.encoder.records:
            table = PrivateTable(self.tables[present][name], ledger)
            reads = PrivateMarginals(self.method.task(name), table, planned, bits, monitor)
            observed = ObservedCounts(reads.counts, self.tables[0][name], self.canary[name])
            reads.counts = observed
            one_way = reads.one_way()
            reads.joint(one_way, reads.select(one_way))
            ratios |= observed.log_ratios
        return {**ratios, WHOLE: sum(ratios.values())}
