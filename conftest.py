"""Shared by all tests: one thread a worker, for two workers share two cores."""

import gc
import os
import random
import zlib
from collections import Counter
from collections.abc import Generator

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for the commands that tests run

import forked  # noqa: F401  (what the processes of tests fork from is the same for all)
import numpy as np
import pytest
import torch
from benchmark_data import VARIABLE, missing
from entropy import ENTROPY, WORD
from hypothesis import HealthCheck, settings
from quick_accounting import quick_accounting

gc.disable()  # until the tests are collected, see below

# The same examples in every run, so that a failure can be run again; on a machine under load, too.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# Random search (`make fuzz`): other examples each time. What it finds becomes an @example of its test.
settings.register_profile(
    "random",
    max_examples=1000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("TABSYNTH_EXAMPLES", "same"))

# No test cuts the power: what is written can be read at once, by other processes, too. A disk takes milliseconds to keep it.
os.fsync = lambda fd: None

LONG = (
    "test_readme.py",
    "test_wheel.py",
    "test_notebooks.py",
    "test_resume.py",
    "test_cli_fit.py",
    "test_cli.py",
    "test_benchmark.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test`."""
    text = "of each test with the mark `slow`, run the number of cases that the mark states, 1 by default"
    parser.addoption("--few-cases", action="store_true", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list) -> None:
    """Put the longest tests first, so that no worker is left alone with one, and skip those whose files are missing."""
    if config.getoption("--few-cases"):
        _leave_cases_out(config, items)
    items.sort(key=lambda item: item.path.name not in LONG)
    for item in items:
        for mark in item.iter_markers("data"):
            if reason := missing(*mark.args):
                item.add_marker(pytest.mark.skip(reason=reason))


def _leave_cases_out(config: pytest.Config, items: list) -> None:
    chosen, left_out, cases = [], [], Counter()
    for item in items:
        mark, name = item.get_closest_marker("slow"), item.nodeid.partition("[")[0]
        cases[name] += 1
        runs = mark is None or cases[name] <= mark.kwargs.get("cases", 1)
        (chosen if runs else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


def pytest_collection_finish() -> None:
    """Return thousands of tests live to the end, so the garbage collector need not visit them: that is a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Return hide the benchmark files from tests without the mark ``data``, so that none needs them unnoticed."""
    folder = None if item.get_closest_marker("data") else os.environ.pop(VARIABLE, None)
    try:
        return (yield)
    finally:
        if folder is not None:
            os.environ[VARIABLE] = folder


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Let what a fixture draws not depend on which test asks for it first."""
    parameter = getattr(request, "param_index", 0)
    with ENTROPY.of(f"{request.node.nodeid}::{fixturedef.argname}[{parameter}]"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Let a test draw the same in every run, whichever tests came before it."""
    seed = zlib.crc32(f"{WORD}/{item.nodeid}".encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    with ENTROPY.of(item.nodeid):
        return (yield)


@pytest.fixture(scope="module")
def accounting_in_no_time() -> Generator[None, None, None]:
    """Replace accounting, for modules whose subject is what fits do, at whatever noise."""
    with quick_accounting():
        yield


@pytest.fixture(scope="module")
def few_attacks() -> Generator[None, None, None]:
    """Let attacks try few records, for modules whose subject is not what they find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabsynth.evaluation.suite.MAX_ATTACKED", 20)
        patch.setattr("tabsynth.evaluation.suite.MAX_DISCLOSED", 50)
        yield
