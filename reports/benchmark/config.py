"""The settings of a benchmark: the systems, epsilons, tables, seeds and the limit of a TOML file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tables import TABLES, Table, table_of_files

from tabsynth.errors import InputError
from tabsynth.methods import METHODS

TOP = {"epsilons", "seeds", "delta", "limit", "tables", "systems"}


@dataclass(frozen=True)
class System:
    """A synthesizer: one of ours by ``method``, or a peer's by ``peer`` and the ``package`` it is in.

    Attributes
    ----------
    options : mapping of str to value
        Further arguments of the method, ours or the peer's.
    peer : str
        A method of ``peers.py``.
    package : str
        What pip installs, in an environment of its own.
    requirements : tuple of str
        What is installed in place of the package's own requirements. Empty: those.
    python : str
        The version of Python of the environment, such as "3.12". Empty: the one that runs the benchmark.
    """

    name: str
    title: str
    method: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    peer: str = ""
    package: str = ""
    requirements: tuple[str, ...] = ()
    python: str = ""


@dataclass(frozen=True)
class Run:
    """One fit: a row of the store."""

    table: str
    system: str
    epsilon: float
    seed: int

    @property
    def key(self) -> str:
        """The key of the row of this run."""
        return f"{self.table}-{self.system}-eps{self.epsilon:g}-seed{self.seed}"


@dataclass(frozen=True)
class Config:
    """A benchmark.

    Attributes
    ----------
    limit : int
        CPU seconds of a fit, the same for all systems.
    path : Path
        The file. The page and its pictures lie beside it.
    """

    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    delta: float
    limit: int
    tables: Mapping[str, Table]
    systems: Mapping[str, System]
    path: Path

    @property
    def store(self) -> Path:
        """The file of the rows, beside the file of the benchmark."""
        return self.path.with_name("results.json")

    def runs(self) -> list[Run]:
        """Return the runs: first seeds first, so that an early end leaves a whole table; epsilons upwards (see stops)."""
        return [
            Run(table, system, epsilon, seed)
            for seed in self.seeds
            for system in self.systems
            for table in self.tables
            for epsilon in sorted(self.epsilons)
        ]


def load(path: Path) -> Config:
    """Return the benchmark of a TOML file; InputError names what is wrong with it."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"Cannot read {path}: {error}") from None
    if missing := TOP - set(raw):
        raise InputError(f"{path} lacks: {', '.join(sorted(missing))}.")
    if unknown := set(raw) - TOP:
        raise InputError(f"{path} has unknown: {', '.join(sorted(unknown))}.")
    if not _is_number(raw["limit"]):
        raise InputError(f"{path}: limit must be CPU seconds, above 0, not {raw['limit']}.")
    if not raw["epsilons"] or not all(_is_number(e) for e in raw["epsilons"]):
        raise InputError(f"{path}: epsilons must be numbers above 0, not {raw['epsilons']}.")
    if not raw["seeds"] or not all(isinstance(s, int) and s >= 0 for s in raw["seeds"]):
        raise InputError(f"{path}: seeds must be integers from 0, not {raw['seeds']}.")
    return Config(
        epsilons=tuple(map(float, raw["epsilons"])),
        seeds=tuple(raw["seeds"]),
        delta=float(raw["delta"]),
        limit=raw["limit"],
        tables={name: _table(name, facts, path) for name, facts in raw["tables"].items()},
        systems={name: _system(name, facts, path) for name, facts in raw["systems"].items()},
        path=path,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _table(name: str, facts: Mapping[str, Any], path: Path) -> Table:
    facts = dict(facts)
    target = facts.pop("target", None)
    if {"rows", "schema"} <= facts.keys():
        folder = path.parent
        table = table_of_files(
            facts.get("title", name), folder / facts["schema"], folder / facts["rows"]
        )
        return replace(table, target=target)
    if facts or name not in TABLES:
        raise InputError(f"{path}: tables.{name} is none of ours; give its rows and its schema.")
    return replace(TABLES[name], target=target)


def _system(name: str, facts: Mapping[str, Any], path: Path) -> System:
    if ":" in name:  # a colon names a variant of a report's own
        raise InputError(f"{path}: systems.{name} must not have a colon in its name.")
    try:
        system = System(name, **({"title": name} | dict(facts)))
    except TypeError as error:
        raise InputError(f"{path}: systems.{name}: {error}") from None
    if bool(system.method) == bool(system.peer) or bool(system.peer) != bool(system.package):
        raise InputError(f"{path}: systems.{name} needs a method, or a peer and its package.")
    if not _are_names(facts.get("requirements", [])) or not isinstance(system.python, str):
        raise InputError(
            f"{path}: systems.{name} needs a list of texts as requirements, and a text as python."
        )
    if system.method and system.method not in METHODS:
        raise InputError(
            f"{path}: systems.{name}.method must be one of {', '.join(METHODS)}, not {system.method}."
        )
    return replace(system, requirements=tuple(system.requirements))
