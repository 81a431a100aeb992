"""The page is what the results make, and the rules of the dictionary are those of the tables."""

import importlib.util
import json
from pathlib import Path

HERE = Path(__file__).parent


def load(name="run"):
    spec = importlib.util.spec_from_file_location(f"tables_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_what_the_results_make():
    results = json.loads((HERE / "results.json").read_text())
    assert load().page(results) == (HERE / "README.md").read_text()


def test_no_synthetic_row_breaks_a_rule():
    results = json.loads((HERE / "results.json").read_text())
    held = [row["broken"] for key, row in results.items() if "-rules-" in key]
    without = [
        row["broken"]
        for key, row in results.items()
        if key.startswith("rules-") and "-declared-" in key
    ]
    assert held and not any(sum(broken.values()) for broken in held)
    assert all(sum(broken.values()) > 10_000 for broken in without)


def test_estimates_of_time_are_within_a_factor_of_two():
    estimates = load("estimates")
    results = json.loads(estimates.RESULTS.read_text())
    assert estimates.page(results) == (HERE / "estimates.md").read_text()
    ratios = {key: row["told"] / row["taken"] for key, row in results.items()}
    assert ratios and all(0.5 <= ratio <= 2 for ratio in ratios.values()), ratios
