"""The reports' programs start, and the documentation states what the pages and rows of the reports have."""

import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import forked
import numpy as np
import pytest

REPORTS = Path(__file__).resolve().parent
DOCS = REPORTS.parent / "docs"
OPTIONS = ("parse_args(", "STUDY.main()")  # of argparse, or of the harness
SCRIPTS = sorted(
    path
    for path in REPORTS.glob("*/*.py")
    if not path.name.startswith("test_") and any(word in path.read_text() for word in OPTIONS)
)
STUDIES = [path for path in SCRIPTS if "STUDY.main()" in path.read_text()]
FIGURE = re.compile(r"\d+\.\d+ ± \d+\.\d+|(?<![\d.])\d\.\d{3}(?![\d.])")
LINK = re.compile(r"\]\(([^)#]*/reports/[^)#]*\.md)")


def _help(path: str) -> None:
    sys.argv = [path, "--help"]
    sys.path.insert(0, str(Path(path).parent))
    runpy.run_path(path, run_name="__main__")


def test_there_are_scripts() -> None:
    assert {path.parent.name for path in SCRIPTS} >= {"benchmark", "inference", "scale", "speed"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_report_states_its_options(path: Path) -> None:
    process = forked.CONTEXT.Process(target=_help, args=(str(path),))
    process.start()
    process.join(120)
    assert process.exitcode == 0


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_page_is_of_its_rows(script: Callable[..., ModuleType], path: Path) -> None:
    study = script(path.parent.name, path.name).STUDY
    rows = study.rows()
    assert rows and study.page(rows) == study.document.read_text("utf-8")


def quoted_figures() -> list[tuple[Path, Path, str]]:
    """Return the figures in lines of tables of the documentation that link a report: page, report and figure."""
    out = []
    for page in DOCS.rglob("*.md"):
        for line in page.read_text("utf-8").splitlines():
            if line.startswith("|") and (link := LINK.search(line)):
                report = (page.parent / link[1]).resolve()
                out += [(page, report, figure) for figure in FIGURE.findall(line)]
    return out


def test_figures_of_the_documentation_are_those_of_the_report_that_it_links() -> None:
    figures = quoted_figures()
    assert len(figures) > 10
    wrong = [each for each in figures if each[2] not in each[1].read_text("utf-8")]
    assert wrong == []


def rows(study: str, name: str = "results") -> dict:
    return json.loads((REPORTS / study / f"{name}.json").read_text("utf-8"))


def mean_error(kind: str, bound: int) -> float:
    """Return the mean distance of pairs over the seeds of a bound on the rows of a patient."""
    all_rows = rows("units", "results-units")
    errors = [row["tvd2"] for key, row in all_rows.items() if key.startswith(f"{kind}-{bound}-")]
    assert len(errors) == 3
    return float(np.mean(errors))


def test_what_the_documentation_says_of_bounds() -> None:
    """Bounds 1 and 2 have the smallest error, and 5 has about 1.6 times as much; a row costs least."""
    errors = {bound: mean_error("unit", bound) for bound in (1, 2, 3, 5)}
    assert sorted(errors, key=errors.get)[:2] == [1, 2]
    assert 1.5 < errors[5] / min(errors.values()) < 1.75
    assert mean_error("record", 0) < min(errors.values())


def test_no_synthetic_row_breaks_a_rule() -> None:
    results = rows("tables")
    enforced = [row["broken"] for key, row in results.items() if "-rules-" in key]
    assert enforced and not any(sum(broken.values()) for broken in enforced)


def test_shares_that_the_page_on_methods_states_are_in_the_rows() -> None:
    """The shares of the real F1 that synthetic census tables keep, rounded down."""
    census, benchmark = rows("census"), rows("benchmark")
    real = census["reference"]["real"]["dwpre_weighted_mean"]
    page = (DOCS / "reference" / "methods.md").read_text("utf-8")
    lines = page.split("## Measured accuracy")[1].splitlines()

    def cells(start: str) -> list[str]:
        (line,) = (line for line in lines if line.startswith(f"| {start}"))
        return [cell.strip() for cell in line.split("|")[2:5]]

    def share(figures: list[float]) -> str:
        return f"{int(100 * np.mean(figures) / real)}%"

    for preset in ("default", "source"):
        expected = [
            share(
                [
                    census["runs"][f"{preset}-eps{epsilon}-seed{seed}"]["yardstick"][
                        "dwpre_weighted_mean"
                    ]
                    for seed in range(3)
                ]
            )
            for epsilon in ("1", "8", "inf")
        ]
        assert cells(f"`dp-wgan`, preset `{preset}`") == expected
    margnet = [
        share(
            [
                benchmark[f"census-margnet-eps{epsilon}-seed{seed}"]["dwpre_weighted_mean"]
                for seed in range(3)
            ]
        )
        for epsilon in (1, 8)
    ]
    assert cells("`margnet`")[:2] == margnet
