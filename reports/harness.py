"""The harness of the studies: it measures what is missing, stores the rows and writes the page.

The ``run.py`` of a study names its settings by key, and has a function that measures one of them and one that makes the
page of all rows::

    STUDY = Study(script=Path(__file__), settings=SETTINGS, measure=measure, page=page)

    if __name__ == "__main__":
        STUDY.main()

    python reports/NAME/run.py                     # measures the settings that have no row, then writes the page
    python reports/NAME/run.py --only KEY          # only settings whose key begins with KEY
    python reports/NAME/run.py --only KEY --again  # those that have a row, too
    python reports/NAME/run.py --write             # measures nothing

A row is stored when it is measured, so an interrupted study continues where it ended.
"""

import argparse
import fcntl
import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tabsynth
from tabsynth._files import write_text

Row = dict[str, Any]
Rows = dict[str, Row]
UNNAMED = "0.2 or earlier"  # the release of rows that name none
MARK = re.compile(r"<!-- (\w+) -->")


def load_rows(path: Path) -> Rows:
    """Return the stored rows by key; none where there is no file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def add_rows(path: Path, rows: Mapping[str, Row]) -> None:
    """Add rows to a file, all or none of them, while other processes add theirs."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # until it is closed
        merged = sorted((load_rows(path) | dict(rows)).items())
        lines = [f"{_json(key)}: {_json(row)}" for key, row in merged]
        write_text(path, "{\n" + ",\n".join(lines) + "\n}\n", overwrite=True)
    finally:
        os.close(folder)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def releases(rows: Iterable[Row]) -> str:
    """Return the sentence that names the releases on which rows were measured."""
    names = sorted({row.get("release", UNNAMED) for row in rows})
    return f"Measured on release {' and on release '.join(names)}."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def fill(template: Path, parts: Mapping[str, str]) -> str:
    """Return a template with a part in place of each ``<!-- NAME -->``; ValueError if the names differ."""
    text = template.read_text("utf-8")
    if (names := set(MARK.findall(text))) != parts.keys():
        raise ValueError(f"{template}: {sorted(names ^ parts.keys())} are in one of both alone.")
    return MARK.sub(lambda mark: parts[mark[1]], text)


def mean_sd(values: Sequence[float], digits: int = 3) -> str:
    """Return mean ± standard deviation; the mean of a single value, an en dash without values."""
    if not values:
        return "–"
    mean = f"{math.fsum(values) / len(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study: its settings, how one is measured, and the page of the rows.

    Attributes
    ----------
    script : Path
        The program. Beside run.py are results.json and README.md; beside NAME.py are NAME.json and NAME.md.
    settings : mapping of str to object
        The settings by key, in the order in which they are measured.
    measure : callable
        From a setting to its row; None where it cannot be measured here.
    page : callable
        From all rows to the text of the page.
    draw : callable, optional
        Draws the plots of all rows into a folder.
    apart : bool
        Whether each setting is measured in a process of its own.
    """

    script: Path
    settings: Mapping[str, Any]
    measure: Callable[[Any], Row | None]
    page: Callable[[Rows], str]
    draw: Callable[[Rows, Path], None] | None = None
    apart: bool = False

    @property
    def results(self) -> Path:
        """The file of the rows."""
        name = "results.json" if self.script.stem == "run" else f"{self.script.stem}.json"
        return self.script.with_name(name)

    @property
    def document(self) -> Path:
        """The page."""
        name = "README.md" if self.script.stem == "run" else f"{self.script.stem}.md"
        return self.script.with_name(name)

    def rows(self) -> Rows:
        """Return the stored rows."""
        return load_rows(self.results)

    def measure_missing(self, only: str = "", *, again: bool = False) -> None:
        """Measure the settings whose key begins with ``only``, and store each row with the release."""
        for key, setting in self.settings.items():
            if not key.startswith(only) or (key in self.rows() and not again):
                continue
            row = self._measure_apart(key) if self.apart else self.measure(setting)
            if row is not None:
                row = {**row, "release": tabsynth.__version__}
                add_rows(self.results, {key: row})
                print(f"{key} is measured.", flush=True)

    def _measure_apart(self, key: str) -> Row | None:
        command = [sys.executable, str(self.script), "--one", key]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"{key} failed: its process ended with {done.returncode}.", file=sys.stderr)
            return None
        return json.loads(done.stdout.splitlines()[-1])

    def write(self) -> None:
        """Write the page and draw the plots."""
        rows = self.rows()
        write_text(self.document, self.page(rows), overwrite=True)
        if self.draw is not None:
            self.draw(rows, self.script.parent)

    def main(self) -> None:
        """Run the study by the options of the command line."""
        about = f"Measure what {self.results.name} lacks, and write {self.document.name}."
        parser = argparse.ArgumentParser(description=about)
        parser.add_argument("--only", default="", help="only keys that begin with this")
        parser.add_argument("--again", action="store_true", help="keys that have a row, too")
        parser.add_argument("--write", action="store_true", help="measure nothing")
        parser.add_argument("--one", choices=self.settings, help=argparse.SUPPRESS)
        options = parser.parse_args()
        if options.one:
            print(json.dumps(self.measure(self.settings[options.one])))
            return
        if not options.write:
            self.measure_missing(options.only, again=options.again)
        self.write()
