"""Tables to start from: two that the project ships, and the public census files they imitate.

The shipped tables are synthetic, each with its certificate and its public schema beside it. Nothing
here touches the network but :func:`fetch_acs`, and only when it is called.
"""

from tabsynth.datasets.acs import SOURCE_COLUMNS, fetch_acs
from tabsynth.datasets.shipped import load_census, load_hospital

__all__ = [
    "SOURCE_COLUMNS",
    "fetch_acs",
    "load_census",
    "load_hospital",
]
