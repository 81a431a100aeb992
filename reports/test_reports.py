"""The reports' scripts start: their imports and options hold, as the rooms that they measure move."""

import runpy
import sys
from pathlib import Path

import forked
import pytest

REPORTS = Path(__file__).resolve().parent
OPTIONS = ("parse_args(", "census.command(")  # of argparse; the reports on methods share theirs
SCRIPTS = sorted(
    path
    for path in REPORTS.glob("*/*.py")
    if not path.name.startswith("test_") and any(word in path.read_text() for word in OPTIONS)
)


def _help(path: str) -> None:
    sys.argv = [path, "--help"]
    sys.path.insert(0, str(Path(path).parent))
    runpy.run_path(path, run_name="__main__")


def test_there_are_scripts() -> None:
    assert {path.parent.name for path in SCRIPTS} >= {"benchmark", "margnet", "pate", "speed"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_report_tells_its_options(path: Path) -> None:
    process = forked.CONTEXT.Process(target=_help, args=(str(path),))
    process.start()
    process.join(120)
    assert process.exitcode == 0
