"""Names of a package that are imported at their first use, so that a program waits for nothing that it does not use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package from the module of each public name."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get, lambda: sorted(modules)
