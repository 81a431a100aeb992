"""Tables to start from: two that the project ships, each synthetic, with its certificate and its public schema beside it."""

from tabsynth.datasets.shipped import load_census, load_hospital

__all__ = [
    "load_census",
    "load_hospital",
]
