"""The fit of a command: its price first, then the table, then what was spent."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth._progress import progress_bar
from tabsynth.cli.console import INTERRUPTED, fail, one_interrupt, say
from tabsynth.cli.ledger import standing_of

if TYPE_CHECKING:
    from tabsynth.synthesizers import Synthesizer


def fit_and_tell(
    synthesizer: "Synthesizer",
    read: Callable[[], Any],
    out: Path,
    checkpoint: Path | None = None,
    ledger: Path | None = None,
) -> None:
    """Print the plan, then read the table, fit, save and say what was spent."""
    from tabsynth.training.checkpoint import standing

    synthesizer._check_domain()
    stands = [] if checkpoint is None else standing(checkpoint)
    if ledger is not None and not stands:  # one that goes on is checked by the plan that it kept
        synthesizer._check_project(ledger)
    say(str(synthesizer.plan()))
    for line in [*stands, *([] if ledger is None else [standing_of(ledger)])]:
        say(line)
    frame = read()
    with one_interrupt():
        try:
            with progress_bar(True) as progress:
                synthesizer.fit(
                    frame,
                    progress=progress,
                    checkpoint=checkpoint,
                    ledger=ledger,
                )
        except KeyboardInterrupt:
            _interrupted(synthesizer, out, checkpoint)
    synthesizer.save(out)
    certificate = synthesizer.certificate()
    if certificate["training"]["stopped"]:
        say(f"Stopped early: {certificate['training']['stopped']}.")
    say(certificate["statement"])
    if ledger is not None:
        say(standing_of(ledger))


def _interrupted(synthesizer: "Synthesizer", out: Path, checkpoint: Path | None) -> None:
    """Save what there is, and say what it cost."""
    ledger = getattr(synthesizer, "ledger_", None)
    spent = "nothing" if ledger is None else f"epsilon={ledger.spent:.4g}"
    again = "" if checkpoint is None else f" The same command goes on from {checkpoint}."
    if not hasattr(synthesizer, "trained_"):
        fail(f"Interrupted before there was a model; spent: {spent}.{again}", INTERRUPTED)
    synthesizer.save(out)
    fail(f"Interrupted; the model as far as it came ({spent}) is in {out}.{again}", INTERRUPTED)
