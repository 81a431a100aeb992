"""Shared by all tests: one thread a worker, for two workers share two cores."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for the commands that tests run
