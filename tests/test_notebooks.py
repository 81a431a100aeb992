"""The notebooks run from top to bottom, and keep their outputs."""

import importlib.util
import re
from difflib import SequenceMatcher
from pathlib import Path

import nbformat
import pages
import pytest

ROOT = Path(__file__).resolve().parent.parent
# The quickest one is first, as `make test` runs it alone; pages have the commands of the quickstart, too.
NOTEBOOKS = sorted(
    (ROOT / "notebooks").glob("*.ipynb"), key=lambda path: (path.stem != "inference", path.stem)
)
# What the tests replace in each, for fewer rows and columns and less time.
FEWER = {
    "quickstart": {
        "table, schema = load_census()": "table, schema = load_census()\n"
        'names = ["AGEP", "SEX", "MSP", "NPF"]\n'
        "table, schema = table[names], schema.select(names)",
        "table[:7000], table[7000:]": "table[:1000], table[1000:1500]",
        "time_limit=20": "time_limit=1",
        "sample(7000)": "sample(1000)",
        "budgets = [0.03, 0.3, 3.0]": "budgets = [0.03, 3.0]",
    },
    "inference": {"steps=600": "steps=100", "implicates=4": "implicates=2"},
    "hospital": {"patients, stays = 1500, 2500": "patients, stays = 1400, 1800", "=30)": "=2)"},
    "comparing_methods": {
        "table[:6000], table[6000:]": "table[:600], table[600:900]",
        '"rows": 6000, "time_limit": 45': '"rows": 600, "time_limit": 1',
        '"EDU", "PINCP_DECILE"]': '"EDU"]',
    },
}


ALIKE = 0.6  # least share of words that two sentences have in common
_spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "notebooks" / "run.py")
RUN = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(RUN)


def shorter(name: str, source: str) -> str:
    for whole, part in FEWER.get(name, {}).items():
        source = source.replace(whole, part)
    return source


def lines(output) -> list[str]:
    """What an output says, without its numbers; nothing of a table or a plot, which change with the rows."""
    data = output.get("data", {})
    text = output.get("text") or ("" if len(data) > 1 else data.get("text/plain", ""))
    return [re.sub(pages.NUMBER, "#", line) for line in text.splitlines() if line]


def shown(cell) -> list:
    """The outputs of a cell; what it logs does not count."""
    return [output for output in cell.outputs if output.get("name") != "stderr"]


def kind(output) -> tuple[str, ...]:
    return (output.output_type, *sorted(output.get("data", {})))


def resembles(stored: str, printed: str) -> bool:
    """Whether a sentence is the same, but for what depends on the rows: it begins alike, or has most words in common."""
    words = stored.split(), printed.split()
    alike = SequenceMatcher(None, *words, autojunk=False).ratio() >= ALIKE
    return alike or (len(words[0]) > 8 and words[0][:4] == words[1][:4])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_has_stored(path):
    """As it is, on fewer rows and in less time; its numbers are those of ``notebooks/run.py``."""
    stored, notebook = nbformat.read(path, as_version=4), nbformat.read(path, as_version=4)
    texts = "".join(cell.source for cell in notebook.cells)
    assert all(complete in texts for complete in FEWER.get(path.stem, {}))
    for cell in notebook.cells:
        cell.source = shorter(path.stem, cell.source)
    files = RUN.execute(notebook)
    for before, after in zip(stored.cells, notebook.cells, strict=True):
        if before.cell_type != "code":
            continue
        again = f"run: python notebooks/run.py {path.stem}"
        assert [*map(kind, shown(before))] == [*map(kind, shown(after))], (
            f"{before.source}: {again}"
        )
        for one, other in zip(shown(before), shown(after), strict=True):
            old, new = lines(one), lines(other)
            if "summary()" in before.source:  # how many sentences it has depends on the rows
                new = [next((n for n in new if resembles(o, n)), "") for o in old]
            assert len(old) == len(new), f"{old} {new}: {again}"
            for o, n in zip(old, new, strict=True):
                assert resembles(o, n), f"{o}\n{n}\n{again}"
    if path.stem == "quickstart":
        assert {
            "model.tabsynth",
            "report.html",
            "synthetic.csv",
            "synthetic.csv.certificate.json",
        } <= {*files}


def test_sentences_are_compared_without_what_depends_on_rows():
    verdict = "- The synthetic table is {} independent columns: it is by F# weighted, and it is not by F# macro."
    assert resembles(verdict.format("better than"), verdict.format("partly better than"))
    assert not resembles("joint counts: # release, σ = #", "spends epsilon = # at delta = #")
    assert not resembles("- The synthetic table is better", "")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_keep_their_outputs(path):
    """With their plots, without errors, and small enough for the repository."""
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert code and all(cell.execution_count for cell in code)
    plots = [output for output in outputs if "image/png" in output.get("data", {})]
    assert outputs and (plots or not any("matplotlib" in cell.source for cell in code))
    assert not [output for output in outputs if output.output_type == "error"]
    assert path.stat().st_size < 300_000


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= set(FEWER)
