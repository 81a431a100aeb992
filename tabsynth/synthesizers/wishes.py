"""MargNet's workload as a user writes it, in names of columns, checked."""

import math
from collections.abc import Sequence
from typing import Any

from tabsynth._validate import shown
from tabsynth.errors import InputError
from tabsynth.generators.workload import Workload
from tabsynth.schema import Schema


def wanted(schema: Schema, workload: Any, target: Any, max_cells: int) -> Workload:
    """Sets of columns and a target, by position.

    Raises
    ------
    InputError
        For an unknown or repeated column, a set of other than two or three, and a set that may have more
        than ``max_cells`` cells.
    """
    sets = []
    if workload is not None and not _is_list(workload):
        raise InputError(
            f"Expected workload to be a list of tuples of columns, got {shown(workload)}."
        )
    for names in workload or ():
        if not _is_list(names) or not 2 <= len(set(map(str, names))) == len(names) <= 3:
            raise InputError(
                f"Expected each set of workload to name two or three different columns, got"
                f" {shown(names)}."
            )
        columns = tuple(sorted(_position(schema, name, "workload") for name in names))
        cells = math.prod(schema.sizes[j] for j in columns)
        if cells > max_cells:
            raise InputError(
                f"The workload's set {shown(names)} may have {cells:,} cells, past max_cells={max_cells:,};"
                " name fewer columns, or raise max_cells in the config."
            )
        sets.append(columns)
    return Workload(tuple(sets), None if target is None else _position(schema, target, "target"))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _position(schema: Schema, name: Any, where: str) -> int:
    if not isinstance(name, str) or name not in schema.names:
        raise InputError(
            f"The {where} names column {shown(name)}, which the schema does not have; its columns are"
            f" {', '.join(schema.names[:8])}{', …' if len(schema.names) > 8 else ''}."
        )
    return schema.names.index(name)
