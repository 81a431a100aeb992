"""Shared by all tests: one thread a worker, for two workers share two cores."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for the commands that tests run

import forked  # noqa: F401  (what the processes of tests fork from is the same for all)
from hypothesis import settings

# The same examples in every run, so that a failure can be run again.
settings.register_profile("same", derandomize=True)
settings.load_profile("same")

LONG = ("test_readme.py", "test_notebooks.py", "test_resume.py", "test_cli_fit.py", "test_cli.py")


def pytest_collection_modifyitems(items: list) -> None:
    """The longest tests first, so that no worker is left alone with one."""
    items.sort(key=lambda item: item.path.name not in LONG)
