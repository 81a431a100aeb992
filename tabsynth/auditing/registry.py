"""The kinds of audit that ``tabsynth audit --kind`` takes.

To add a kind, write a function from an :class:`AuditRequest` to its results and add it to ``AUDITS``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tabsynth import methods
from tabsynth._validate import between, integer, one_of, positive
from tabsynth.auditing import blackbox, canaries, one_run, replay_audit
from tabsynth.auditing.fixtures import find_fixture
from tabsynth.auditing.neighbouring_datasets import CASES
from tabsynth.auditing.outcomes import AuditResult
from tabsynth.datasets import load_census
from tabsynth.errors import InputError
from tabsynth.synthesizers.loading import LINKED, METHODS
from tabsynth.training.loop import Progress

RUNS = {canaries.KIND: 4000, blackbox.KIND: 500, one_run.KIND: 1000}  # defaults
CENSUS_ROWS = 8000  # of the census table, in a one-run audit


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """The method, the claim and the settings of an audit.

    Attributes
    ----------
    method : str
    epsilon, delta : float
        The claim.
    runs : int, optional
        Runs on each neighbouring dataset; for one-run audits the number of canaries. Default: ``RUNS``.
    folder : Path
        The folder in which black-box audits store their runs.
    case : {"average", "worst"}
        For black-box audits.
    seeds : int
        For replays: number of artificial tables.
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
        """Check the fields."""
        one_of("method", self.method, (*METHODS, *LINKED))
        one_of("case", self.case, CASES)
        positive("epsilon", self.epsilon)
        between("delta", self.delta, 0, 1, low_open=True, high_open=True)
        if self.runs is not None:
            integer("runs", self.runs, least=blackbox.MIN_RUNS)
        integer("seeds", self.seeds, least=1)

    def count(self, kind: str) -> int:
        """Return the number of runs for a kind of audit."""
        return RUNS[kind] if self.runs is None else self.runs


def white_box(request: AuditRequest) -> list[AuditResult]:
    """Audit all releases of the method with a canary."""
    check_kind(request.method, canaries.KIND)
    audit_method = find_fixture(request.method).white_box
    assert audit_method is not None  # the registration lists the kind
    runs = request.count(canaries.KIND)
    return audit_method(request.epsilon, request.delta, runs=runs, progress=request.progress)


def black_box(request: AuditRequest) -> list[AuditResult]:
    """Audit many small fits on neighbouring datasets; the runs are stored in the folder."""
    setting = blackbox.Setting(
        method=request.method, epsilon=request.epsilon, delta=request.delta, case=request.case
    )
    path = request.folder / f"black-box-{request.method}-{request.case}.jsonl"
    runs = request.count(blackbox.KIND)
    return [blackbox.audit_black_box(setting, path, runs=runs, progress=request.progress)]


def one_run_audit(request: AuditRequest) -> list[AuditResult]:
    """Audit one fit of the census table with canaries."""
    check_kind(request.method, one_run.KIND)
    table, schema = load_census()
    inserted = one_run.insert_canaries(
        schema, table[:CENSUS_ROWS], request.count(one_run.KIND), np.random.default_rng()
    )
    rows = (
        CENSUS_ROWS + request.count(one_run.KIND) // 2
    )  # public: how many are in depends on the coins
    given: dict[str, Any] = {"epsilon": request.epsilon, "delta": request.delta, "rows": rows}
    given |= find_fixture(request.method).one_run
    model = METHODS[request.method](schema, device="cpu", **given)
    return [one_run.audit_one_run(model, inserted, progress=request.progress)]


def replays(request: AuditRequest) -> list[AuditResult]:
    """Record small fits and replay them on neighbouring datasets."""
    budget = request.epsilon, request.delta
    shared: dict[str, Any] = {"seeds": request.seeds, "progress": request.progress}
    return [replay_audit.audit_by_replay(request.method, *budget, **shared)]


AUDITS: dict[str, Callable[[AuditRequest], list[AuditResult]]] = {
    canaries.KIND: white_box,
    replay_audit.KIND: replays,
    blackbox.KIND: black_box,
    one_run.KIND: one_run_audit,
}


def list_kinds(method: str) -> tuple[str, ...]:
    """Return the kinds of audits that a method has, by its registration."""
    return tuple(kind for kind in AUDITS if kind in methods.registered(method).audits)


def check_kind(method: str, kind: str) -> None:
    """Reject a kind of audit that the method does not have.

    Raises
    ------
    InputError
    """
    if kind not in list_kinds(method):
        reason = find_fixture(method).reasons.get(kind)
        because = f" because {reason}" if reason else ""
        raise InputError(
            f"{method} has no {kind} audit{because}; take --kind {' or '.join(list_kinds(method))}."
        )


QUICK = (canaries.KIND, replay_audit.KIND)  # the default of tabsynth audit, about a minute


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
        A registered name, such as ``"margnet"`` or ``"linked-margnet"``.
    epsilon, delta : float
        The claim. Both are finite and above 0.
    folder : path
        An existing folder. Black-box audits keep their runs there and resume from them.
    kinds : sequence of str
        Keys of ``AUDITS``: ``"white-box"``, ``"replay"``, ``"black-box"``, ``"one-run"``. The default takes
        about a minute.
    runs, case, seeds, progress
        See :class:`AuditRequest`.

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
    what = AuditRequest(
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
        kinds = [kind for kind in QUICK if kind in list_kinds(method)]
    for kind in kinds:
        one_of("kinds", kind, AUDITS)
        check_kind(method, kind)
    return [result for kind in kinds for result in AUDITS[kind](what)]
