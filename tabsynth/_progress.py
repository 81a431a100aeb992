"""A progress bar with an ETA on stderr; quiet where stderr is no terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:  # torch takes seconds to import, and not every command needs it
    from tabsynth.training.loop import Progress as Callback


@contextmanager
def progress_bar(show: bool, also: "Callback | None" = None) -> "Iterator[Callback | None]":
    """Yield a callback ``(stage, done, total)`` that draws a bar a stage, or ``also`` as it is."""
    console = Console(stderr=True)
    if not show or not console.is_terminal:
        yield also
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, int] = {}

        def callback(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done, total=total)  # type: ignore[arg-type]
            if also is not None:
                also(stage, done, total)

        yield callback
