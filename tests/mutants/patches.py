"""Mutants: privacy mistakes, each a small edit of our own code, kept as a TOML file in this folder.

A file has

- ``rule``: which rule of the design it breaks (R1 … R27), ``mistake``: what is wrong, in a sentence;
- ``seen``: where it was made in earnest, with its source; ``listed``: its name in the design's own list;
- ``tests``: who is expected to notice, as pytest names them, the quickest first;
- ``[[edit]]``, one or more: ``file``, and text ``old`` that occurs in it exactly once, to be ``new``.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PACKAGE = "tabsynth"


class DoesNotApply(Exception):
    """The code has moved on, and a mutant has not."""


@dataclass(frozen=True)
class Edit:
    """In ``file``, ``old`` becomes ``new``."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A mistake, and who is expected to notice it."""

    name: str
    rule: str
    mistake: str
    seen: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]
    listed: str = ""

    def applied(self, root: Path) -> dict[str, str]:
        """The files under ``root`` that it changes, as they are then.

        Raises
        ------
        DoesNotApply
            If a text to be replaced is not there exactly once.
        """
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.file)
            if text is None:
                path = root / edit.file
                text = path.read_text(encoding="utf-8") if path.is_file() else ""
            times = text.count(edit.old)
            if times != 1:
                raise DoesNotApply(
                    f"mutant {self.name} no longer applies: rewrite tests/mutants/{self.name}.toml; what"
                    f" it replaces occurs {times} times in {edit.file}, not once:\n{edit.old}"
                )
            texts[edit.file] = text.replace(edit.old, edit.new)
        return texts


def there(test: str, root: Path = ROOT) -> bool:
    """Whether a test of that name, of whatever parameter, is in its file."""
    file, _, function = test.partition("::")
    path = root / file
    if not function or not path.is_file():
        return path.is_file()
    return f"def {function.split('[')[0]}(" in path.read_text(encoding="utf-8")


def mutants(names: Iterable[str] = ()) -> list[Mutant]:
    """All of them by name, or those whose name contains one of ``names``."""
    wanted = list(names)
    found = [_read(path) for path in sorted(FOLDER.glob("*.toml"))]
    return [m for m in found if not wanted or any(name in m.name for name in wanted)]


def _read(path: Path) -> Mutant:
    facts = tomllib.loads(path.read_text(encoding="utf-8"))
    edits = tuple(Edit(**{"file": facts.get("file"), **edit}) for edit in facts.pop("edit"))
    facts.pop("file", None)
    return Mutant(name=path.stem, tests=tuple(facts.pop("tests")), edits=edits, **facts)
