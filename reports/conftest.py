"""Fixtures of the reports: their programs, which have the same name, and a stand-in for the evaluation protocol."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_data import PROTOCOL, VARIABLE

REPORTS = Path(__file__).resolve().parent


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Return a function from the name of a report to its run.py as a module, with its folder first on the path."""

    def load(name: str, file: str = "run.py") -> ModuleType:
        path = REPORTS / name / file
        monkeypatch.syspath_prepend(str(path.parent))
        spec = importlib.util.spec_from_file_location(f"{name}_run", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


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
    """Return a folder of benchmark files whose only file is a stand-in for the evaluation protocol."""
    folder = tmp_path_factory.mktemp("benchmark-files")
    (folder / PROTOCOL).write_text(STAND_IN)
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder
