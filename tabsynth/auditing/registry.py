"""The audits by name: what ``tabsynth audit --kind`` takes.

To add one: a function from what is asked to its results, and a line in ``AUDITS``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tabsynth import methods
from tabsynth._validate import between, integer, one_of, positive
from tabsynth.auditing import blackbox, canaries, counting, one_run, replay_audit, voting
from tabsynth.auditing.outcomes import AuditResult
from tabsynth.auditing.worlds import CASES
from tabsynth.datasets import load_census
from tabsynth.errors import InputError
from tabsynth.synthesizers import METHODS
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.training.loop import Progress

RUNS = {canaries.KIND: 4000, blackbox.KIND: 500, one_run.KIND: 1000}  # where none are asked for
KNOWN_ROWS = 8000  # of the census table, in a one-run audit


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An audit that is asked for.

    Attributes
    ----------
    method : str
    epsilon, delta : float
        What is claimed.
    runs : int, optional
        In each world; of a one-run audit, canaries. None: as many as ``RUNS`` says.
    folder : Path
        Where long audits keep their runs.
    case : {"average", "worst"}
        Of black-box audits.
    seeds : int
        Of replays: each has a table of its own, and all kinds of neighbours.
    progress : callable, optional
    """

    method: str
    epsilon: float
    folder: Path
    delta: float = 1e-5
    runs: int | None = None
    case: str = "average"
    seeds: int = 1
    progress: Progress | None = None

    def __post_init__(self) -> None:
        one_of("method", self.method, METHODS)
        one_of("case", self.case, CASES)
        positive("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, low_open=True, high_open=True)
        if self.runs is not None:
            integer("runs", self.runs, least=blackbox.LEAST_RUNS)
        integer("seeds", self.seeds, least=1)

    def count(self, kind: str) -> int:
        """Runs of one kind of audit."""
        return RUNS[kind] if self.runs is None else self.runs


def white_box(asked: Asked) -> list[AuditResult]:
    """Whatever the method releases, by the canary that suits it."""
    shared: dict[str, Any] = {"runs": asked.count(canaries.KIND), "progress": asked.progress}
    budget = asked.epsilon, asked.delta
    if asked.method == counting.METHOD:
        return counting.audit_counts(*budget, **shared)
    if asked.method.startswith("pate-"):
        return voting.audit_modes(asked.method, *budget, samples=1_000_000, **shared)
    return canaries.audit_gan(asked.method, *budget, **shared)


def black_box(asked: Asked) -> list[AuditResult]:
    """Many small fits on neighbours; the runs are kept beside the page."""
    setting = blackbox.Setting(
        method=asked.method, epsilon=asked.epsilon, delta=asked.delta, case=asked.case
    )
    path = asked.folder / f"black-box-{asked.method}-{asked.case}.jsonl"
    runs = asked.count(blackbox.KIND)
    return [blackbox.audit_black_box(setting, path, runs=runs, progress=asked.progress)]


def one_run_audit(asked: Asked) -> list[AuditResult]:
    """One fit of the census table with canaries."""
    check_kind(asked.method, one_run.KIND)
    table, schema = load_census()
    inserted = one_run.insert(
        schema, table[:KNOWN_ROWS], asked.count(one_run.KIND), np.random.default_rng()
    )
    rows = (
        KNOWN_ROWS + asked.count(one_run.KIND) // 2
    )  # public: how many are in depends on the coins
    given: dict[str, Any] = {"epsilon": asked.epsilon, "delta": asked.delta, "rows": rows}
    if asked.method == counting.METHOD:  # its counts are all that it releases
        given["config"] = MargNetConfig(steps=1)
    model = METHODS[asked.method](schema, device="cpu", **given)
    return [one_run.audit_one_run(model, inserted, progress=asked.progress)]


def replays(asked: Asked) -> list[AuditResult]:
    """Tiny fits, recorded and played back on neighbours."""
    budget = asked.epsilon, asked.delta
    shared: dict[str, Any] = {"seeds": asked.seeds, "progress": asked.progress}
    return [replay_audit.audit_by_replay(asked.method, *budget, **shared)]


AUDITS: dict[str, Callable[[Asked], list[AuditResult]]] = {
    canaries.KIND: white_box,
    replay_audit.KIND: replays,
    blackbox.KIND: black_box,
    one_run.KIND: one_run_audit,
}


def kinds_of(method: str) -> tuple[str, ...]:
    """The kinds of audits that a method has, by its registration."""
    return tuple(kind for kind in AUDITS if kind in methods.METHODS[method].audits)


def check_kind(method: str, kind: str) -> None:
    """Refuse an audit that the method does not have.

    Raises
    ------
    InputError
    """
    if kind not in kinds_of(method):
        raise InputError(
            f"{method} has no {kind} audit; take --kind {' or '.join(kinds_of(method))}."
        )


QUICK = (canaries.KIND, replay_audit.KIND)  # what is run unless a kind is asked for: about a minute


def audit(
    method: str,
    epsilon: float,
    delta: float = 1e-5,
    *,
    folder: str | Path = ".",
    kinds: Sequence[str] | None = None,
    runs: int | None = None,
    case: str = "average",
    seeds: int = 1,
    progress: Progress | None = None,
) -> list[AuditResult]:
    """Try to refute the (epsilon, delta) claim of a method, on made-up or bundled tables.

    Parameters
    ----------
    method : str
        A name of :data:`tabsynth.synthesizers.METHODS`, such as ``"margnet"``.
    epsilon, delta : float
        The claim. Both are finite and above 0.
    folder : path
        An existing folder. Black-box audits keep their runs there and resume from them.
    kinds : sequence of str
        Keys of ``AUDITS``: ``"white-box"``, ``"replay"``, ``"black-box"``, ``"one-run"``. The default takes
        about a minute.
    runs, case, seeds, progress
        See :class:`Asked`.

    Returns
    -------
    list of AuditResult
        In the order of ``kinds``. ``refuted`` is True for a result that contradicts the claim. An audit that
        does not refute a claim is no proof of it.

    Raises
    ------
    InputError
        For an unknown method or kind, or a parameter that is out of range.
    """
    what = Asked(
        method=method,
        epsilon=epsilon,
        delta=delta,
        folder=Path(folder),
        runs=runs,
        case=case,
        seeds=seeds,
        progress=progress,
    )
    if kinds is None:
        kinds = [kind for kind in QUICK if kind in kinds_of(method)]
    for kind in kinds:
        one_of("kinds", kind, AUDITS)
        check_kind(method, kind)
    return [result for kind in kinds for result in AUDITS[kind](what)]
