"""``tabsynth refine``: go on with a fit that ended early, from the noisy counts in its model file."""

import warnings
from pathlib import Path

from tabsynth._files import check_output
from tabsynth._progress import progress_bar
from tabsynth.cli.commands import app
from tabsynth.cli.console import (
    INTERRUPTED,
    argument,
    cli_command,
    fail,
    one_interrupt,
    option,
    say,
)
from tabsynth.cli.fit import refine_command, seconds
from tabsynth.cli.options import Outputs
from tabsynth.errors import ConvergenceWarning


@app.command()
@cli_command
def refine(
    *,
    model: Path = argument("A model file that tabsynth fit wrote."),
    out: Path | None = option(
        "The model file to write. Default: that of MODEL, which --overwrite replaces.",
        "-o",
        "--out",
    ),
    time_limit: str | None = option(
        "Stop after this time, e.g. 90s, 10m or 2h. Default: no limit."
    ),
    outputs: Outputs,
) -> None:
    """Go on with a fit of margnet that a time limit or Ctrl-C ended.

    It reads the noisy counts in the model file and no private row, so it has no privacy cost.
    """
    from tabsynth.synthesizers import load

    target = model if out is None else out
    limit = seconds(time_limit, "--time-limit")
    synthesizer = load(model)
    check_output(target, overwrite=outputs.overwrite)
    warnings.simplefilter("ignore", ConvergenceWarning)  # it is printed
    with one_interrupt():
        try:
            with progress_bar(True) as progress:
                synthesizer.refine(time_limit=limit, progress=progress)
        except KeyboardInterrupt:
            synthesizer.save(target, overwrite=outputs.overwrite)
            fail(f"Interrupted; the model so far is in {target}.", INTERRUPTED)
    synthesizer.save(target, overwrite=outputs.overwrite)
    fitted = synthesizer.model_
    say(fitted.stopped_text(refine_command(target)) or fitted.convergence())
    say(synthesizer.certificate()["statement"])
    say(f"Model: {target}")
