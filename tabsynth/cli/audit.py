"""The audits of a command: run one after the other, and written as far as they came."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabsynth._progress import progress_bar
from tabsynth.cli.commands import app
from tabsynth.cli.console import INTERRUPTED, fail, guarded, say
from tabsynth.cli.options import AuditCase, AuditKind, AuditRuns, AuditSeeds, Method, check_method
from tabsynth.cli.paths import make_folder
from tabsynth.errors import InputError

if TYPE_CHECKING:
    from tabsynth.auditing.outcomes import AuditResult


EVERY = "all"
REFUTED_CODE = 1


@app.command()
@guarded
def audit(
    method: Method,
    epsilon: Annotated[float, typer.Option(help="What is claimed.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="A folder for the page and audit.json.")],
    delta: Annotated[float, typer.Option(help="The chance that epsilon does not hold.")] = 1e-5,
    kind: AuditKind = None,
    runs: AuditRuns = None,
    case: AuditCase = "average",
    seeds: AuditSeeds = 1,
) -> None:
    """Try to refute what a method claims, on made-up or shipped tables. Exit code 1 if it is refuted."""
    asked: dict[str, Any] = {"delta": delta, "runs": runs, "case": case, "seeds": seeds}
    code = audit_and_tell(method, epsilon, kind, out, **asked)
    if code:
        raise typer.Exit(code)


def audit_and_tell(method: str, epsilon: float, kind: str | None, out: Path, **asked: Any) -> int:
    """Run the audits of ``kind``, write the page and ``audit.json``; returns the exit code."""
    check_method(method)
    if not math.isfinite(epsilon):
        raise InputError(
            f"Expected epsilon to be finite, got {epsilon}: without privacy there is no claim."
        )
    from tabsynth.auditing.registry import AUDITS, QUICK, Asked, check_kind, kinds_of

    kinds = (
        kinds_of(method)
        if kind == EVERY
        else _kinds(kind, tuple(AUDITS), tuple(k for k in QUICK if k in kinds_of(method)))
    )
    what = Asked(method=method, epsilon=epsilon, folder=out, **asked)
    for name in kinds:
        check_kind(method, name)
    make_folder(out)
    results: list[AuditResult] = []
    for name in kinds:
        try:
            with progress_bar(True) as progress:
                results += AUDITS[name](_watched(what, progress))
        except KeyboardInterrupt:
            fail(
                f"Interrupted in the {name} audit. Runs that a black-box audit had done are kept in {out}, and"
                " the same command goes on from them.",
                INTERRUPTED,
            )
        _write(results, what, out)
    for result in results:
        say(f"{result.kind}, {result.part}: {result.sentence}")
    say(f"Page: {out / 'audit.html'}")
    return REFUTED_CODE if any(result.refuted for result in results) else 0


def _kinds(kind: str | None, known: tuple[str, ...], quick: tuple[str, ...]) -> tuple[str, ...]:
    if kind is None:
        return quick
    if kind not in known:
        raise InputError(f"Expected --kind to be one of {', '.join(known)}, {EVERY}; got {kind!r}.")
    return (kind,)


def _watched(asked: Any, progress: Any) -> Any:
    from dataclasses import replace

    return replace(asked, progress=progress)


def _write(results: "list[AuditResult]", what: Any, out: Path) -> None:
    from tabsynth.auditing.html import write_page
    from tabsynth.auditing.outcomes import write_json

    write_json(results, out / "audit.json")
    write_page(results, what.method, what.epsilon, what.delta, out / "audit.html")
