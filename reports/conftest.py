"""Fixtures that import the reports' scripts, some of which have the same names."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

REPORTS = Path(__file__).resolve().parent


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A function from a report's name to its run.py as a module, with its folder first on the path."""

    def load(name: str) -> ModuleType:
        path = REPORTS / name / "run.py"
        monkeypatch.syspath_prepend(str(path.parent))
        spec = importlib.util.spec_from_file_location(f"{name}_run", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@contextmanager
def _modules_of(name: str) -> Iterator[dict[str, ModuleType]]:
    folder = REPORTS / name
    names = [path.stem for path in folder.glob("*.py") if not path.stem.startswith("test_")]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


@pytest.fixture(scope="session")
def modules_of() -> Callable:
    """A context in which a report's modules are imported, apart from other reports' of the same names."""
    return _modules_of
