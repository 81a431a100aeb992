"""Mutants: privacy mistakes, each a small change of our own code, kept as a TOML file in this folder.

A file has

- ``rule``: which rule of the design it breaks (R1 … R28), ``mistake``: what is wrong, in a sentence;
- ``seen``: where it was made in earnest, with its source; ``listed``: its name in the design's own list;
- ``tests``: who is expected to notice, as pytest names them, the quickest first;
- ``[[patch]]``: a ``target`` as ``package.module:Class.method``, ``package.module:function`` or
  ``package.module:CONSTANT``, and its definition ``new`` with the mistake. It does not depend on the text of
  the module, so prefer it where the target is small;
- ``[[edit]]``: ``file``, and text ``old`` that occurs in it exactly once, to be ``new``, for a mistake within
  a long function.

A mutant has one or more patches or edits.
"""

import ast
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
class Patch:
    """The definition ``new`` takes the place of ``target``."""

    target: str
    new: str

    def file(self, root: Path) -> str:
        """The module's file, relative to ``root``."""
        path = self.target.partition(":")[0].replace(".", "/")
        package = f"{path}/__init__.py"
        return package if (root / package).is_file() else f"{path}.py"

    def applied(self, text: str) -> str:
        """The module's text with the new definition at its end, where it replaces the first.

        Raises
        ------
        ValueError
            If the target is not defined, takes other parameters or is the same as the new definition.
        """
        *classes, name = self.target.partition(":")[2].split(".")
        old = _defined(ast.parse(text).body, [*classes, name])
        new = _defined(ast.parse(self.new).body, [name])
        if old is None or new is None:
            raise ValueError("it is not defined there")
        if isinstance(old, ast.FunctionDef) != isinstance(new, ast.FunctionDef):
            raise ValueError("one of them is a function, the other is not")
        if isinstance(old, ast.FunctionDef) and isinstance(new, ast.FunctionDef):
            parameters = [
                [arg.arg for arg in ast.walk(f.args) if isinstance(arg, ast.arg)]
                for f in (old, new)
            ]
            if parameters[0] != parameters[1]:
                raise ValueError(f"its parameters are {parameters[0]}, not {parameters[1]}")
            if list(map(ast.dump, _body(old))) == list(map(ast.dump, _body(new))):
                raise ValueError("the new definition is the same")
        if not classes:
            return f"{text}\n\n{self.new}"
        # Under another name: a global `bytes` or `open` would change the other functions of the module.
        definition = self.new.replace(f"def {name}(", f"def _mutated_{name}(", 1)
        return f"{text}\n\n{definition}\n{'.'.join(classes)}.{name} = _mutated_{name}\n"


def _defined(body: list[ast.stmt], names: list[str]) -> ast.stmt | None:
    """The function or assignment of that name; the names before the last are of classes."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(names) == 1 and any(
                isinstance(t, ast.Name) and t.id == names[0] for t in targets
            ):
                return node
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == names[0]:
            if isinstance(node, ast.ClassDef) and len(names) > 1:
                return _defined(node.body, names[1:])
            return node if len(names) == 1 else None
    return None


def _body(function: ast.FunctionDef) -> list[ast.stmt]:
    """Its statements without the docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


@dataclass(frozen=True)
class Mutant:
    """A mistake, and who is expected to notice it."""

    name: str
    rule: str
    mistake: str
    seen: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    listed: str = ""
    patches: tuple[Patch, ...] = ()

    def applied(self, root: Path) -> dict[str, str]:
        """The files under ``root`` that it changes, as they are then.

        Raises
        ------
        DoesNotApply
            If a text to be replaced is not there exactly once, or a target of a patch is not defined.
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
        for patch in self.patches:
            file = patch.file(root)
            text = texts.get(file)
            if text is None:
                text = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
            try:
                texts[file] = patch.applied(text)
            except ValueError as error:
                raise DoesNotApply(
                    f"mutant {self.name} no longer applies: rewrite tests/mutants/{self.name}.toml;"
                    f" {patch.target}: {error}"
                ) from None
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
    results = [_read(path) for path in sorted(FOLDER.glob("*.toml"))]
    return [m for m in results if not wanted or any(name in m.name for name in wanted)]


def _read(path: Path) -> Mutant:
    facts = tomllib.loads(path.read_text(encoding="utf-8"))
    edits = tuple(Edit(**{"file": facts.get("file"), **edit}) for edit in facts.pop("edit", ()))
    patches = tuple(Patch(**patch) for patch in facts.pop("patch", ()))
    facts.pop("file", None)
    return Mutant(
        name=path.stem, tests=tuple(facts.pop("tests")), edits=edits, patches=patches, **facts
    )
