"""The code that each row of the evidence was measured on, and the measurement of rows that are stale.

A row depends on the modules of ``tabsynth`` that the measuring process had imported. Its record stores them once for
all rows that share them, under ``"modules"``: a key, and for each module a hash of its normalised source. The row
stores the key, under ``"modules"`` too. A row is stale if one of its modules has another hash or is gone, or if
the row has no key. The script that measures, its settings, data files and other packages are not part of the hash.
"""

import argparse
import ast
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "tabsynth"
CURRENT, CHANGED, UNKNOWN = "current", "changed since", "unknown"
LENGTH = 12  # hexadecimal digits of a stored hash
FORMER = "black-box"  # of names: audits of release 0.2, whose sources have their program
Modules = dict[str, str]  # a hash by the name of the module


# Hashes of modules.


@cache
def source_hash(text: str) -> str:
    """Return a hash of the source of a module that ignores comments, docstrings and layout.

    It is taken over the syntax tree, without positions and empty fields, so that all supported versions of
    Python give the same hash. A text that is no Python is hashed as it is.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
    parts: list[str] = []
    _flatten(tree, parts)
    return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]


def _flatten(node: Any, parts: list[str]) -> None:
    if isinstance(node, ast.AST):
        parts.append(f"{type(node).__name__}(")
        for name in node._fields:
            value = getattr(node, name, None)
            if value is None or value == [] or name == "kind":
                continue
            if isinstance(node, ast.JoinedStr):  # Python 3.12 adds empty texts
                value = [item for item in value if getattr(item, "value", None) != ""]
            parts.append(f"{name}=")
            _flatten(value, parts)
        parts.append(")")
    elif isinstance(node, list):
        parts.append("[")
        for item in node:
            if not _is_docstring(item):
                _flatten(item, parts)
                parts.append(",")
        parts.append("]")
    else:
        parts.append(repr(node))


def _is_docstring(node: Any) -> bool:
    """Return whether a statement is a text alone."""
    value = getattr(node, "value", None)
    return (
        isinstance(node, ast.Expr)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    )


def modules_of(package: Path = PACKAGE) -> Modules:
    """Return the hash of every module in the folder of a package, by its full name."""
    results = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        results[name] = source_hash(path.read_text("utf-8"))
    return results


def imported_modules() -> list[str]:
    """Return the names of the modules of tabsynth that this process has imported."""
    return sorted(name for name in sys.modules if name.split(".")[0] == PACKAGE.name)


class ModuleHashes:
    """The package that a process measures, as it was when the process began.

    Parameters
    ----------
    package : path
        The folder from which tabsynth was imported.
    """

    def __init__(self, package: Path) -> None:
        self.package, self.before = package, modules_of(package)

    def of(self, names: Iterable[str]) -> Modules:
        """Return the hashes of the modules that were imported.

        Raises
        ------
        SystemExit
            If one of them was edited since the beginning: it is unknown which version was measured.
        """
        hashes, imported = modules_of(self.package), sorted(names)
        edited = [name for name in imported if hashes.get(name) != self.before.get(name)]
        if edited:
            raise SystemExit(
                f"{', '.join(edited)}: edited during the measurement, which is not recorded; start again."
            )
        return {name: hashes[name] for name in imported}


# Records and their rows.


SHOWN = 3  # modules, before "and so many other modules"


@dataclass(frozen=True)
class Kind:
    """A kind of evidence: the name of its record, what it counts, and how to find both there."""

    name: str
    unit: str
    rows: Callable[[dict[str, Any]], dict[str, dict[str, Any]]]
    count: Callable[[dict[str, Any]], int]


def _kill_rows(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    table = record.get("by_method", {})
    return {f"{method}, {way}": cell for method in table for way, cell in table[method].items()}


def _replays(system: dict[str, Any]) -> int:
    return sum(cell["runs"] for cell in system["neighbours"].values())


AUDITS = Kind("audits", "audits", lambda r: r.get("audits", {}), lambda row: len(row["results"]))
REPLAYS = Kind("replays", "replays", lambda r: r.get("systems", {}), _replays)
CRASH_TESTS = Kind("crash_tests", "crash tests", _kill_rows, lambda row: row["points"])
FUZZ = Kind("fuzz", "damaged files", lambda r: r.get("readers", {}), lambda row: row["inputs"])
KINDS = (AUDITS, REPLAYS, CRASH_TESTS, FUZZ)


def read(path: Path) -> dict[str, Any]:
    """Return a record; an empty one if there is no file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def text_of(kind: Kind, record: dict[str, Any]) -> str:
    """Return the text of the file of a record, without the modules that no row refers to."""
    keys = {row.get("modules") for row in kind.rows(record).values()}
    modules = {key: digest for key, digest in record.get("modules", {}).items() if key in keys}
    return json.dumps({**record, "modules": modules}, indent=1, ensure_ascii=False) + "\n"


def set_modules(record: dict[str, Any], row: dict[str, Any], modules: Modules) -> None:
    """Store that a row was measured on these modules."""
    key = hashlib.sha256(json.dumps(sorted(modules.items())).encode()).hexdigest()[:LENGTH]
    record.setdefault("modules", {})[key] = modules
    row["modules"] = key


def modules_of_row(record: Mapping[str, Any], row: Mapping[str, Any]) -> Modules:
    """Return the modules that a row was measured on; empty if they are unknown."""
    return dict(record.get("modules", {}).get(row.get("modules"), {}))


def changed_modules(
    record: Mapping[str, Any], row: Mapping[str, Any], hashes: Modules
) -> list[str]:
    """Return the modules of a row that have changed or are gone; empty for a row of current or of unknown code."""
    stored = modules_of_row(record, row)
    return [name for name, digest in stored.items() if hashes.get(name) != digest]


def state(record: Mapping[str, Any], row: Mapping[str, Any], hashes: Modules) -> str:
    """Return which code a row was measured on: ``CURRENT``, ``CHANGED`` or ``UNKNOWN``."""
    if not modules_of_row(record, row):
        return UNKNOWN
    return CHANGED if changed_modules(record, row, hashes) else CURRENT


def sentence(kind: Kind, record: dict[str, Any], hashes: Modules) -> str:
    """Return how much of a record is of the code of this release."""
    rows = kind.rows(record).values()
    total = sum(map(kind.count, rows))
    current = sum(kind.count(row) for row in rows if state(record, row, hashes) == CURRENT)
    return f"{current:,} of {total:,} {kind.unit} are measured on the code of this release."


def stale(kind: Kind, record: dict[str, Any], hashes: Modules) -> dict[str, list[str]]:
    """Return the names of stale rows by the reason, but for those that are of release 0.2 for good."""
    reasons: dict[str, list[str]] = {}
    for name, row in kind.rows(record).items():
        condition = CURRENT if name.startswith(FORMER) else state(record, row, hashes)
        if condition == UNKNOWN:
            reasons.setdefault("of unknown code", []).append(name)
        elif condition == CHANGED:
            modules = changed_modules(record, row, hashes)
            further = f" and {len(modules) - SHOWN} other modules" if len(modules) > SHOWN else ""
            why = f"changed since: {', '.join(modules[:SHOWN])}{further}"
            reasons.setdefault(why, []).append(name)
    return reasons


# Measurement.


def parser_of(kind: Kind, about: str | None) -> argparse.ArgumentParser:
    """Return the options that the scripts of all records have."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--minutes", type=float, help="begin no measurement after so many minutes")
    parser.add_argument("--again", action="store_true", help="measure current rows too")
    parser.add_argument("--out", type=Path, default=HERE / f"{kind.name}.json")
    return parser


class Clock:
    """A bound on the minutes of a measurement, and a line with the remaining time on a terminal.

    Parameters
    ----------
    what : str
        What is measured; the line begins with it.
    minutes : float, optional
        No row is begun after so many minutes; without it all rows are measured.
    """

    def __init__(self, what: str, minutes: float | None = None) -> None:
        self.what, self.minutes, self.started = what, minutes, time.monotonic()
        self.seconds: list[float] = []
        self.number = 0

    @property
    def over(self) -> bool:
        """The state of the time: True when it is up."""
        return self.minutes is not None and time.monotonic() - self.started >= 60 * self.minutes

    def each(self, rows: Mapping[Any, float]) -> Iterator[Any]:
        """Yield the keys of rows until all are measured or the time is up.

        Parameters
        ----------
        rows : dict
            The expected seconds of each row.
        """
        self.seconds = list(rows.values())
        for name in rows:
            if self.over:
                clear_line()
                print(f"{self.what}: the time is up; the same command measures the other rows.")
                return
            self.show()
            yield name
            self.number += 1
        clear_line()

    def show(self, share: float = 0.0) -> None:
        """Write the progress on a terminal, where ``share`` of the present row is measured."""
        if not sys.stderr.isatty():
            return
        done = sum(self.seconds[: self.number]) + share * self.seconds[self.number]
        pace = (time.monotonic() - self.started) / done if done else 1.0
        minutes_left = pace * (sum(self.seconds) - done) / 60
        line = f"{self.what}: {self.number} of {len(self.seconds)} measured, {minutes_left:.0f} minutes left"
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)


def clear_line() -> None:
    """Remove the progress from a terminal."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
