"""The fit of a command: print the planned privacy cost, read the table, fit, print the privacy cost."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth._progress import progress_bar
from tabsynth.cli.console import INTERRUPTED, fail, one_interrupt, say
from tabsynth.cli.ledger import ledger_status

if TYPE_CHECKING:
    from tabsynth.schema.schema import Schema
    from tabsynth.synthesizers import Synthesizer


def fit_and_print(
    synthesizer: "Synthesizer",
    read: Callable[[], Any],
    out: Path,
    checkpoint: Path | None = None,
    ledger: Path | None = None,
    started: float | None = None,
    count: Sequence[str] = (),
) -> None:
    """Print the plan, then read the table, fit, save the model and print the privacy cost.

    A time limit counts from ``started``, a time of :func:`time.monotonic` and by default now: imports, the plan and the
    reading of the table are parts of it. ``count`` is that of :meth:`Synthesizer.fit`.
    """
    started = time.monotonic() if started is None else started
    from tabsynth.synthesizers.method import design_notes
    from tabsynth.synthesizers.session import LEAST_LIMIT
    from tabsynth.training.checkpoint import standing

    drafts = synthesizer.schema is None
    stands = [] if checkpoint is None else standing(checkpoint)
    if drafts:
        say("No schema is given: it is drafted privately, as a part of the budget.")
        for line in design_notes(synthesizer.design):
            say(f"  {line}")
    else:
        # A resumed fit is checked by its checkpoint's plan.
        synthesizer.check(None if stands else ledger)
        say(str(synthesizer.plan()))
    for line in [*stands, *([] if ledger is None else [ledger_status(ledger)])]:
        say(line)
    frame = read()
    if synthesizer.time_limit is not None:
        seconds = synthesizer.time_limit - (time.monotonic() - started)
        synthesizer.set_params(time_limit=max(seconds, LEAST_LIMIT))
    options: dict[str, Any] = {"count": count} if count else {}  # linked tables count nothing
    with one_interrupt():
        try:
            with progress_bar(True) as progress:
                synthesizer.fit(
                    frame,
                    progress=progress,
                    checkpoint=checkpoint,
                    ledger=ledger,
                    **options,
                )
        except KeyboardInterrupt:
            _end_interrupted(synthesizer, out, checkpoint)
    synthesizer.save(out)
    if drafts:
        _print_draft(synthesizer.schema_)
    from tabsynth.privacy.noise.counts import stated_count

    certificate = synthesizer.certificate()
    for item in certificate["mechanisms"]:
        if "noisy_number" in item["details"]:
            stated = stated_count(item["details"]["noisy_number"], item["details"]["interval"])
            say(
                f"{stated[:1].upper()}{stated[1:]} {item['purpose']} of the schema, by a noisy count."
            )
    if synthesizer.population_ is not None:
        say(f"Population: {population_text(synthesizer)}.")
    if certificate["training"]["stopped"]:
        say(f"Stopped early: {certificate['training']['stopped']}.")
    say(certificate["statement"])
    if ledger is not None:
        say(ledger_status(ledger))


def population_text(synthesizer: "Synthesizer") -> str:
    """Return the noisy total of the survey weights with its interval, in words."""
    from tabsynth.privacy.noise.counts import stated_count

    total, ends = synthesizer.population_, synthesizer.population_interval_
    assert total is not None
    if ends is None:
        return f"about {total:,.0f}, by noisy counts; its interval is unknown"
    return stated_count(total, ends)


def _print_draft(schema: "Schema") -> None:
    """Print what the private draft released, and what it left out."""
    for column in schema.columns:
        say(f"  {column.name}: {column.kind}, {column.domain(4)}")
    for item in schema.left_out:
        say(f"  {item['name']}: left out, {item['reason']}")


def _end_interrupted(synthesizer: "Synthesizer", out: Path, checkpoint: Path | None) -> None:
    """Save the model if there is one, and print its privacy cost."""
    from tabsynth.synthesizers.session import interrupted_cost

    cost = interrupted_cost(synthesizer)
    resume = (
        "" if checkpoint is None else f" Run the same command again to resume from {checkpoint}."
    )
    if not hasattr(synthesizer, "model_"):
        fail(f"Interrupted before there was a model. {cost}{resume}", INTERRUPTED)
    synthesizer.save(out)
    fail(f"Interrupted; the model so far is in {out}. {cost}{resume}", INTERRUPTED)
