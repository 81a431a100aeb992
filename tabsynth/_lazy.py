"""Names of a package that are imported at their first use, so that a program waits for nothing that it does not use.

A package states them once, as the imports of its stub ``__init__.pyi``, which type checkers read too.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def exports(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package by its name and file, from the imports of its stub."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
    modules = {
        alias.name: f"{statement.module}"
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return get, lambda: sorted(modules), sorted(modules)
