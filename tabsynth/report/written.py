"""What all reports have in common: a function that measures and gives a report, and files of it."""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tabsynth._files import write_text
from tabsynth.report.tabular import escaped

Arguments = ParamSpec("Arguments")
Evaluated = TypeVar("Evaluated")
Reported = TypeVar("Reported")


class WrittenReport(ABC):
    """A report that is read as text and written to files, each whole or not at all."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: no NaN, no infinity."""

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(path, text + "\n")


def markdown(title: str, lines: list[str], figures: str, path: str | Path | None) -> str:
    """A title, the lines of a summary and a table of figures as Markdown; written to ``path`` if there is one."""
    parts = [f"# {escaped(title)}", "", *(f"- {escaped(line)}" for line in lines)]
    text = "\n".join(parts) + "\n\n" + figures + "\n"
    if path is not None:
        write_text(path, text)
    return text


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
