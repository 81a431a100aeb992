"""Fixtures that import the reports' scripts, some of which have the same names."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_data import PROTOCOL, VARIABLE

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


STAND_IN = """
import itertools
import pandas as pd

def score(folder, synthetic, quick=False):
    real, made = (pd.read_csv(path, dtype=str).fillna("N") for path in (f"{folder}/train.csv", synthetic))
    result = {"rows": len(made)}
    for count in (1, 2, 3):
        gaps = []
        for names in map(list, itertools.combinations(real, count)):
            first, second = (table.value_counts(names, normalize=True) for table in (real, made))
            gaps.append(first.sub(second, fill_value=0).abs().sum() / 2)
        result[f"tvd{count}"] = sum(gaps) / len(gaps)
    return result
"""


@pytest.fixture
def protocol(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of benchmark files whose only file is a stand-in for the evaluation protocol."""
    folder = tmp_path_factory.mktemp("benchmark-files")
    (folder / PROTOCOL).write_text(STAND_IN)
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder
