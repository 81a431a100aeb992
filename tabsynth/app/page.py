"""The page: its frame, the list of steps, and what runs in the background."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from typing import Any

from nicegui import ui

from tabsynth.app.elements import action, box, button, part, text
from tabsynth.app.job import CANCELLED, DONE, FAILED, RUNNING, page_lines
from tabsynth.app.session import Session
from tabsynth.errors import TabsynthError

BOXES = {DONE: "good", FAILED: "bad", CANCELLED: "warn"}
EVERY = 0.4  # seconds between two looks at what runs


@dataclass
class Place:
    """The step of a person and the texts that were typed, which outlast a reload of the page.

    Attributes
    ----------
    stage : int
        The step, from 0.
    chosen : int
        The column that is edited.
    answers : dict
        For the release.
    """

    stage: int = 0
    chosen: int = 0
    answers: dict[str, str] = field(default_factory=dict)


class Page:
    """One visit of the page. Several tabs of the browser show the same session.

    Parameters
    ----------
    session : Session
    stages : sequence of (str, callable, callable)
        Of each step its name, whether it can be opened, and a function from the page that fills it.
    place : Place
    """

    def __init__(
        self,
        session: Session,
        stages: Sequence[tuple[str, Callable[[Session], bool], Callable[["Page"], None]]],
        place: Place,
    ) -> None:
        self.session, self.stages = session, stages
        self.place = place
        self.error: list[str] = []
        self._shown: tuple[object, str] = (None, "")
        self._seen: object = None  # what has ended, and was seen

    def build(self) -> None:
        """Make the page."""
        ui.add_css(resources.files("tabsynth.app").joinpath("style.css").read_text("utf-8"))
        ui.page_title("Prepare a table - tabsynth")
        ui.colors(primary="#1f5c99", negative="#b3261e")
        self.client = ui.context.client
        with part("header", "top"):
            text("tabsynth: prepare a synthetic table", "h1")
            self.mark = text("", "p")
        with part("div", "frame"):
            with part("nav", aria_label="Steps"):
                self.nav = part("ol")
            with part("div", "main"):  # NiceGUI has the element main around it
                self.alerts = part("div")
                self.status = part("div", role="status", aria_live="polite")
                self.content = part("div")
        self.show()
        ui.timer(EVERY, self.look)

    def show(self, *, content: bool = True) -> None:
        """Show the present step again; without ``content``, all but its form, which keeps what was typed."""
        self._shown = self._standing()
        confidential = "CONFIDENTIAL: this screen may show figures of private rows."
        waiting = (
            "Nothing of the table is shown before you confirm that this screen is confidential."
        )
        self.mark.set_text(confidential if self.session.state.confirmed else waiting)
        places: list[tuple[Any, Callable[[], None]]] = [
            (self.nav, self._fill_nav),
            (self.alerts, self._fill_alerts),
            (self.status, self._fill_status),
        ]
        if content:
            places.append((self.content, self._fill_content))
        for place, fill in places:
            place.clear()
            with place:
                fill()

    def go(self, stage: int) -> None:
        """Open a step."""
        self.place.stage, self.error = stage, []
        job = self.session.job
        self._seen = None if job is None or job.state == RUNNING else job
        self.show()
        self.focus("step-heading")

    def do(
        self, act: Callable[[], Any], *, stage: int | None = None, then: str = "step-heading"
    ) -> None:
        """Do something, and show what came of it.

        An error of the user is shown, and the form stays as it is; so it does while something runs.

        Parameters
        ----------
        act : callable
        stage : int, optional
            The step to open then.
        then : str
            The class of the element that gets the focus, where the step stays.
        """
        before = self.session.job
        try:
            act()
        except TabsynthError as error:
            self.refuse(page_lines(str(error)))
        except (ValueError, OSError) as error:
            self.refuse([f"That is not possible: {error}"])
        else:
            self.error = []
            if stage is not None:
                self.go(stage)
            elif self.session.job is not before:
                self.show(content=False)
            else:
                self.show()
                self.focus(then)

    def refuse(self, lines: Sequence[str]) -> None:
        """Show errors."""
        self.error = [" ".join(line.split()) for line in lines]
        self.show(content=False)
        self.focus("step-errors")

    def look(self) -> None:
        """Show the progress of what runs, and the step again when it has ended."""
        job = self.session.job
        if self._standing() != self._shown:
            self.show(content=job is not None and job.state == DONE)
            if job is not None and job.state != RUNNING:
                self.focus("step-outcome")
        self._progress()

    def _standing(self) -> tuple[object, str]:
        """Return what runs or ran last, and its state."""
        job = self.session.job
        return job, "" if job is None else job.state

    def focus(self, name: str) -> None:
        """Move the focus to the element of a class once it is there."""
        code = f"setTimeout(() => document.querySelector('.{name}')?.focus(), 60);"
        self.client.run_javascript(code)

    def _fill_nav(self) -> None:
        for i, (name, opens, _) in enumerate(self.stages):
            with part("li"):
                element = button(f"{i + 1}. {name}", partial(self.go, i))
                element.props("flat align=left").set_enabled(opens(self.session))
                if i == self.place.stage:
                    element.classes("here").props["aria-current"] = "step"

    def _fill_alerts(self) -> None:
        if self.error:
            with part("div", "box bad step-errors", role="alert", tabindex="-1"):
                for line in self.error[:12]:
                    text(line)

    def _fill_status(self) -> None:
        job = self.session.job
        if job is None or job is self._seen:
            return
        if job.state == RUNNING:
            with part("div", "box"):
                self.words = text(job.progress)
                self.bar = ui.linear_progress(0, show_value=False).props("rounded")
                self.bar.props["aria-label"] = f"Progress of: {job.title}"
                action("Cancel", self._cancel, name=f"Cancel: {job.title}")
            return
        with part("div", f"box step-outcome {BOXES[job.state]}", tabindex="-1"):
            text(f"{job.title}: {job.state}.")
            for line in [*job.lines[:12], *(f"Warning: {line}" for line in job.warnings[:12])]:
                text(line)

    def _cancel(self) -> None:
        self.session.cancel()
        self._progress()

    def _progress(self) -> None:
        job = self.session.job
        if job is None or job.state != RUNNING:
            return
        self.words.set_text(job.progress)
        self.bar.props["indeterminate"] = job.total == 0
        self.bar.set_value(job.share)

    def _fill_content(self) -> None:
        with part("section", "card", aria_label=self.stages[self.place.stage][0]):
            try:
                self.stages[self.place.stage][2](self)
            except TabsynthError as error:
                box(" ".join(str(error).split()), kind="bad")
