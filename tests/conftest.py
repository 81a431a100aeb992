"""Shared by all tests: one thread a worker, for two workers share two cores."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for the commands that tests run

from hypothesis import settings

# In CI the same examples every time; at a desk, new ones in every run.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
