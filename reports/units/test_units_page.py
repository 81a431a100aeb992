"""The page on bounds is what the results make; a tighter unit costs more than a row."""

import importlib.util
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
RESULTS = json.loads((HERE / "results-units.json").read_text())


def test_page_is_what_the_results_make():
    spec = importlib.util.spec_from_file_location("units_of_privacy", HERE / "units.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page(RESULTS) == (HERE / "units.md").read_text()


def mean(kind, bound, figure):
    rows = [row for key, row in RESULTS.items() if key.startswith(f"{kind}-{bound}-")]
    assert len(rows) == (3 if kind in ("record", "unit") else 1)
    return np.mean([row[figure] for row in rows])


def test_what_the_documentation_says_of_bounds():
    """Bounds 1 and 2 have the smallest error, and 5 has about 1.6 times as much; a row costs least."""
    errors = {bound: mean("unit", bound, "tvd2") for bound in (1, 2, 3, 5)}
    assert sorted(errors, key=errors.get)[:2] == [1, 2]
    assert 1.5 < errors[5] / min(errors.values()) < 1.75
    assert mean("record", 0, "tvd2") < min(errors.values())


def test_weighting_in_place_of_choosing_gains_little():
    for bound in (1, 2, 3, 5):
        chosen, weighted = (mean(how, bound, "tvd2") for how in ("chosen", "weighted"))
        assert weighted < chosen and chosen - weighted < 0.002
