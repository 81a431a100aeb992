"""The form of the code in figures: ``python tests/form.py`` prints them beside the aims, and ``--list`` names the places.

Source is read as text, and nothing of the package is imported but for the modules that run in a fit.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AIMS = {
    "lines of code in tabsynth": 43_000,
    "lines of code in tests": 44_000,
    "lines of code in reports": 8_000,
    "methods of the largest class": 40,
    "reads of private members of other objects": 10,
    "Any": 900,
    "type: ignore": 15,
    "import_module": 3,
    "functions with more than 10 parameters": 0,
    "functions named by a participle": 40,
    "docstrings that begin with a fragment": 0,
}
MOST_PARAMETERS = 10
OF_ESTIMATORS = ("__init__", "fit")  # as scikit-learn has them, they may take more parameters
IRREGULAR = """
beaten begun bent bitten bought bound broken brought built caught chosen dealt drawn driven
eaten fallen fed felt found frozen given gone grown heard held hidden kept known laid led left
lent lost made meant met paid proven sent shown sold sought spent spoken stolen struck sunk
taken taught thought thrown told torn unwound won worn woven written
"""
VERBS = ("embed", "exceed", "feed", "need", "proceed", "seed", "speed")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FRAGMENTS = (
    *("As", "By", "For", "From", "How", "In", "Not", "Of", "Than", "That", "Those", "To"),
    *("What", "Where", "Whether", "Which", "With"),
)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all statements in it, without their expressions: definitions are nowhere else."""
    yield node
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            yield from statements(child)


def lines_of_code(source: str) -> int:
    """Return the number of lines that hold code: neither blank, nor a comment, nor of a docstring."""
    texts = map(str.strip, source.splitlines())
    lines = {i for i, text in enumerate(texts, 1) if text and not text.startswith("#")}
    for node in statements(ast.parse(source)):
        documented = isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module))
        if documented and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


def is_participle(name: str) -> bool:
    """Return whether the name of a function is one bare participle, such as ``kept``."""
    word = name.lstrip("_")
    return word in IRREGULAR.split() or (
        word.isalpha() and word.endswith("ed") and word not in VERBS
    )


def begins_with_a_fragment(text: str | None) -> bool:
    """Return whether a docstring begins with a word that no sentence or noun phrase begins with, such as "What"."""
    return (text or "").split(" ")[0] in FRAGMENTS


def private_names(trees: dict[Path, ast.Module]) -> set[str]:
    """Return the names with one underscore that the package gives: what else is read belongs to other libraries."""
    names = set()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def _of_another(node: ast.Attribute) -> bool:
    """Return whether the member is not one of ``self``, ``cls`` or ``super()``."""
    owner = node.value
    if isinstance(owner, ast.Call):
        return not (isinstance(owner.func, ast.Name) and owner.func.id == "super")
    return not (isinstance(owner, ast.Name) and owner.id in ("self", "cls"))


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def findings(trees: dict[Path, ast.Module]) -> Iterator[tuple[str, str]]:
    """Yield what the syntax shows: the name of a figure, and a place that counts."""
    own = private_names(trees)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            documented = isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module))
            if documented and begins_with_a_fragment(ast.get_docstring(node)):
                yield "docstrings that begin with a fragment", where
            if isinstance(node, FUNCTIONS):
                arguments = node.args
                count = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
                method = any(a.arg in ("self", "cls") for a in arguments.args[:1])
                if count - method > MOST_PARAMETERS and node.name not in OF_ESTIMATORS:
                    yield "functions with more than 10 parameters", f"{where} {node.name}"
                if is_participle(node.name):
                    yield "functions named by a participle", f"{where} {node.name}"
            elif isinstance(node, ast.Attribute) and node.attr in own and _of_another(node):
                yield "reads of private members of other objects", f"{where} {ast.unparse(node)}"
            elif isinstance(node, ast.Call) and _name(node.func) == "import_module":
                yield "import_module", where


def measure(listed: bool = False) -> dict[str, int]:
    """Return the figures of the repository by their names; print the places if ``listed``."""
    figures = {
        f"lines of code in {folder}": sum(
            lines_of_code(path.read_text("utf-8")) for path in (ROOT / folder).rglob("*.py")
        )
        for folder in ("tabsynth", "tests", "reports")
    }
    texts = {
        path.relative_to(ROOT): path.read_text("utf-8")
        for path in sorted((ROOT / "tabsynth").rglob("*.py"))
    }
    trees = {path: ast.parse(text) for path, text in texts.items()}
    figures["methods of the largest class"] = max(
        sum(isinstance(item, FUNCTIONS) for item in node.body)
        for tree in trees.values()
        for node in statements(tree)
        if isinstance(node, ast.ClassDef)
    )
    for name in ("Any", "type: ignore"):
        figures[name] = sum(len(re.findall(rf"\b{name}\b", text)) for text in texts.values())
    places = defaultdict(list)
    for name, place in findings(trees):
        places[name].append(place)
    for name in AIMS.keys() - figures.keys():
        figures[name] = len(places[name])
    if listed:
        for name, items in places.items():
            print(name, *items, sep="\n  ")
    return {name: figures[name] for name in AIMS}


def main() -> None:
    """Print each figure with its aim, and the modules that run in a fit."""
    for name, figure in measure("--list" in sys.argv).items():
        print(f"{figure:7,}  {name} (aim: {AIMS[name]:,} at most)")
    import architecture

    for name, (most, job) in architecture.jobs().items():
        print(
            f"{len(architecture.modules_run(job)):7,}  modules run in {name} (aim: {most} at most)"
        )


if __name__ == "__main__":
    main()
