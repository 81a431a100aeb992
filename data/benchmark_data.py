"""Find the benchmark files: public tables that reports and some tests read and that are no part of the project.

The environment variable ``TABSYNTH_DATA`` names their folder, and ``data/README.md`` says where each file comes from. Tests,
reports and ``make.py`` read a file outside the repository only through this module.
"""

import os
from pathlib import Path

VARIABLE = "TABSYNTH_DATA"
PROTOCOL = "evaluation_protocol.py"  # a file of the same folder, see data/README.md


def missing(*names: str) -> str:
    """Return which benchmark files are missing and how to provide them; an empty text if all are there."""
    folder = os.environ.get(VARIABLE)
    absent = [name for name in names if not folder or not Path(folder, name).is_file()]
    if not absent:
        return ""
    return (
        f"This needs {', '.join(absent)}: set {VARIABLE} to a folder with the benchmark files;"
        " data/README.md says where to get them."
    )


def data_file(name: str) -> Path:
    """Return the path of a benchmark file; SystemExit with the text of :func:`missing` if it is not there."""
    if message := missing(name):
        raise SystemExit(message)
    return Path(os.environ[VARIABLE], name).absolute()
