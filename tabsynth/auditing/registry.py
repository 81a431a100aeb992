"""The kinds of audit that ``tabsynth audit --kind`` takes.

To add a kind, write a function from an :class:`AuditRequest` to its results and add it to ``AUDITS``.
"""

from collections.abc import Callable, Sequence

from tabsynth._validate import one_of
from tabsynth.auditing import replay_audit
from tabsynth.auditing.fixtures import find_fixture
from tabsynth.auditing.outcomes import AuditResult
from tabsynth.auditing.request import REPLAY, WHITE_BOX, AuditRequest
from tabsynth.errors import InputError
from tabsynth.training.loop import Progress


def white_box(request: AuditRequest) -> list[AuditResult]:
    """Audit all releases of the method with a canary."""
    audit_method = find_fixture(request.method).white_box
    assert audit_method is not None  # the kind is listed
    return audit_method(request)


AUDITS: dict[str, Callable[[AuditRequest], list[AuditResult]]] = {
    WHITE_BOX: white_box,
    REPLAY: lambda request: [replay_audit.audit_by_replay(request)],
}


def list_kinds(method: str) -> tuple[str, ...]:
    """Return the kinds of audits that a method has: replays, and the white-box audit of its fixture."""
    white = find_fixture(method).white_box is not None
    return tuple(kind for kind in AUDITS if white or kind != WHITE_BOX)


def audit(
    method: str,
    epsilon: float,
    delta: float = 1e-5,
    *,
    kinds: Sequence[str] | None = None,
    runs: int = 4000,
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
    kinds : sequence of str
        Keys of ``AUDITS``: ``"white-box"``, ``"replay"``. Default: all that the method has, which take about a minute.
    runs, seeds, progress
        See :class:`tabsynth.auditing.request.AuditRequest`.

    Returns
    -------
    list of AuditResult
        In the order of ``kinds``. ``is_refuted`` is True for a result that contradicts the claim. An audit that
        does not refute a claim is no proof of it.

    Raises
    ------
    InputError
        For an unknown method or kind, or a parameter that is out of range.
    """
    request = AuditRequest(
        method=method,
        epsilon=epsilon,
        delta=delta,
        runs=runs,
        seeds=seeds,
        progress=progress,
    )
    return [r for kind in choose_kinds(method, kinds) for r in AUDITS[kind](request)]


def choose_kinds(method: str, kinds: Sequence[str] | None) -> tuple[str, ...]:
    """Return the kinds of audits to run: all that the method has, where none are named.

    Raises
    ------
    InputError
        For a kind that is unknown, or that the method does not have.
    """
    known = list_kinds(method)
    for kind in kinds or ():
        one_of("kinds", kind, AUDITS)
        if kind not in known:
            raise InputError(f"{method} has no {kind} audit; take kind={' or '.join(known)}.")
    return known if kinds is None else tuple(kinds)
