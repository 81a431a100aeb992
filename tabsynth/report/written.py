"""What all reports have in common: a function that measures and gives a report, and files of it."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar

from tabsynth._files import write_text
from tabsynth.report.tabular import escaped

Arguments = ParamSpec("Arguments")
Evaluated = TypeVar("Evaluated")
Reported = TypeVar("Reported")


class WrittenReport(ABC):
    """A report that is read as text and written to files, each whole or not at all.

    Only the owner may read the files of a report on real rows without noise.
    """

    confidential: ClassVar[bool] = True

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: no NaN, no infinity."""

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        self._write(path, text + "\n")

    def to_html(self, path: str | Path) -> None:
        """Write the report as one HTML file that loads nothing else, whole or not at all."""
        self._write(path, self._html())

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the summary and every figure as Markdown; write it to ``path`` if there is one."""
        text = self._markdown()
        if path is not None:
            self._write(path, text)
        return text

    @abstractmethod
    def _html(self) -> str:
        """Return the text of the page."""

    @abstractmethod
    def _markdown(self) -> str:
        """Return the text of the Markdown file."""

    def _write(self, path: str | Path, text: str) -> None:
        write_text(path, text, confidential=self.confidential)


def markdown(title: str, lines: list[str], figures: str) -> str:
    """Return a title, the lines of a summary and a table of figures as Markdown."""
    parts = [f"# {escaped(title)}", "", *(f"- {escaped(line)}" for line in lines)]
    return "\n".join(parts) + "\n\n" + figures + "\n"


def as_report(
    compute: Callable[Arguments, Evaluated], report: Callable[[Evaluated], Reported]
) -> Callable[Arguments, Reported]:
    """``compute`` with its signature and documentation, whose result is made a report."""

    @wraps(compute)
    def evaluate(*args: Arguments.args, **options: Arguments.kwargs) -> Reported:
        return report(compute(*args, **options))

    signature = inspect.signature(compute).replace(return_annotation=report)
    evaluate.__signature__ = signature  # type: ignore[attr-defined]
    return evaluate
