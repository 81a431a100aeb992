"""``tabsynth audit``: run audits one after the other, and write the results after each."""

import math
from dataclasses import MISSING, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tabsynth._progress import progress_bar
from tabsynth.cli.commands import app
from tabsynth.cli.console import INTERRUPTED, cli_command, fail, option, say
from tabsynth.cli.fit import check_method
from tabsynth.cli.options import Outputs, make_folder
from tabsynth.errors import InputError
from tabsynth.methods import LINKED, METHODS

if TYPE_CHECKING:
    from tabsynth.auditing.outcomes import AuditResult


FILE = "audit.json"
REFUTED_CODE = 1


@app.command()
@cli_command
def audit(
    *,
    method: str = option(f"The synthesizer: {', '.join((*METHODS, *LINKED))}.", default=MISSING),
    epsilon: float = option("ε of the claim to audit, above 0 and finite.", default=MISSING),
    out: Path = option("The folder for audit.json.", "-o", "--out", default=MISSING),
    delta: float = option("δ of the claim to audit, between 0 and 1.", default=1e-5),
    kind: str | None = option("Kind of audit: white-box or replay. Default: both, about a minute."),
    runs: int = option(
        "For white-box audits: runs on each neighbouring dataset, at least 20. More runs allow larger lower bounds.",
        default=4000,
    ),
    seeds: int = option(
        "For replays: number of artificial tables. Each has two replays for every kind of neighbouring dataset.",
        default=1,
    ),
    outputs: Outputs,
) -> None:
    """Try to refute a method's privacy claim on artificial or bundled tables.

    An audit cannot prove a claim. Exit codes: 0 no evidence against the claim, 1 refuted, 2 wrong input.
    """
    request: dict[str, Any] = {"delta": delta, "runs": runs, "seeds": seeds}
    outputs.check_folder(out, (FILE,))
    code = run_audits(method, epsilon, kind, out, **request)
    if code:
        raise typer.Exit(code)


def run_audits(method: str, epsilon: float, kind: str | None, out: Path, **request: Any) -> int:
    """Run the audits of ``kind``, write ``audit.json``, and return the exit code."""
    check_method(method, {**METHODS, **LINKED})
    if not math.isfinite(epsilon):
        raise InputError(
            f"Expected epsilon to be finite, got {epsilon}: an infinite ε is no privacy claim."
        )
    from tabsynth.auditing.outcomes import write_json
    from tabsynth.auditing.registry import AUDITS, choose_kinds
    from tabsynth.auditing.request import AuditRequest

    what = AuditRequest(method=method, epsilon=epsilon, **request)
    if kind not in (None, *AUDITS):
        raise InputError(f"Expected --kind to be one of {', '.join(AUDITS)}; got {kind!r}.")
    kinds = choose_kinds(method, None if kind is None else (kind,))
    make_folder(out)
    results: list[AuditResult] = []
    for name in kinds:
        try:
            with progress_bar(True) as progress:
                results += AUDITS[name](replace(what, progress=progress))
        except KeyboardInterrupt:
            fail(
                f"Interrupted in the {name} audit; run the same command again{' with --overwrite' if results else ''}.",
                INTERRUPTED,
            )
        write_json(results, out / FILE, overwrite=True)  # also those of the kinds before
    for result in results:
        say(f"{result.kind}, {result.part}: {result.sentence}")
    say(f"Results: {out / FILE}")
    return REFUTED_CODE if any(result.is_refuted for result in results) else 0
