"""Changes of many columns of a schema at once, and the differences between two schemas."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabsynth._validate import one_of, shown
from tabsynth.errors import InputError, TabsynthError
from tabsynth.schema.column import COPIED, KINDS, base_dtype, column_from, with_nulls
from tabsynth.schema.constraints import Rule
from tabsynth.schema.design import Design
from tabsynth.schema.schema import Schema

DROPPED = "dropped by hand"
_NUMERIC_DTYPES = {"int": "int64", "float": "float64"}


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Changes of a schema, by the names of columns.

    Parameters
    ----------
    drop : sequence of str
        Columns to leave out: tables may have them, and no synthesizer reads them.
    kinds : mapping from str to str
        New kinds. Facts that the new kind does not have are dropped.
    dtypes : mapping from str to str
        New dtypes.
    bounds : mapping from str to (low, high)
        New bounds, both included.
    values : mapping from str to sequence of str
        New categories, as text; they are converted to the type of the column's dtype.
    nulls : mapping from str to bool
        Whether columns may hold missing values. A dtype that cannot hold them becomes the one that can.
    constraints : sequence of mapping
        Rules between columns that are added, as a schema file has them.
    drop_constraints : sequence of int
        Rules that are taken out, by their numbers from 1 before the edit.
    declare : sequence of str
        Columns whose facts a person declares to be public. Facts that no edit has stated stay marked as unchanged from a
        draft of the rows.
    declare_all : bool
        Whether all columns are.
    source : str, optional
        The public source of the facts that are declared.
    accept_suggested : sequence of str
        Suggested rules that become constraints, by their numbers from 1, or ``"all"``.
    design : mapping
        New parameters of :class:`tabsynth.schema.design.Design`, such as ``unit``. The column of a weight or a unit is
        taken out of the columns, with the rules that name it.
    """

    drop: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nulls: Mapping[str, bool] = field(default_factory=dict)
    constraints: Sequence[Mapping[str, Any]] = ()
    drop_constraints: Sequence[int] = ()
    declare: Sequence[str] = ()
    declare_all: bool = False
    source: str | None = None
    accept_suggested: Sequence[str] = ()
    design: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.declare_all or self.declare) and not self.source:
            raise InputError(
                "Declared facts need a source: name the public document that they are from, such as"
                " --source 'codebook 2019'."
            )
        for name, kind in self.kinds.items():
            one_of(f"kind of column {shown(name)}", kind, KINDS)

    @property
    def names(self) -> set[str]:
        """The columns that the edit names."""
        given = (self.drop, self.kinds, self.dtypes, self.bounds, self.values, self.nulls)
        return {name for names in (*given, self.declare) for name in names}

    @property
    def gone(self) -> set[str]:
        """The columns that are dropped, or that become the weight or the unit."""
        taken = (self.design.get(what) for what in ("weight", "unit"))
        return {*self.drop, *(name for name in taken if name is not None)}

    def apply(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The facts of a column, as a schema file has them, with the changes of this column."""
        out = dict(facts)
        name = out["name"]
        if name in self.dtypes:
            out["dtype"] = self.dtypes[name]
        if name in self.kinds:
            out["kind"] = self.kinds[name]
            known = KINDS[out["kind"]]._fact_names()
            out = {key: value for key, value in out.items() if key in known}
        if name in self.nulls:
            out["nulls"] = self.nulls[name]
            if out["nulls"]:
                out["dtype"] = with_nulls(str(out["dtype"]))
        if name in self.bounds:
            out["low"], out["high"] = self.bounds[name]
            if out.get("breaks"):
                inside = [b for b in out["breaks"] if out["low"] < b <= out["high"]]
                out["breaks"] = inside
        if name in self.values:
            out["categories"] = [_in_dtype(text, out.get("dtype")) for text in self.values[name]]
            if out.get("other") not in out["categories"]:
                out.pop("other", None)
        if self.declare_all or name in self.declare:
            out |= {"provenance": "declared", "source": self.source}
        if COPIED in out:
            out[COPIED] = [fact for fact in out[COPIED] if fact not in self.stated_facts(name)]
        return out

    def stated_facts(self, name: str) -> set[str]:
        """Return the facts of a column whose values the edit states."""
        facts: dict[str, Mapping[str, Any]] = {"dtype": self.dtypes, "nulls": self.nulls}
        facts |= {"low": self.bounds, "high": self.bounds, "categories": self.values}
        return {fact for fact, given in facts.items() if name in given}


def edit(schema: Schema, change: Edit) -> Schema:
    """A schema with changes.

    Raises
    ------
    InputError
        For names that the schema does not have, and for changes that contradict other facts: all in one line.
    """
    data = schema.to_dict()
    data.pop(COPIED, None)
    unknown = sorted(change.names - {*schema.names, *schema.names_left_out})
    if unknown:
        raise InputError(f"The schema has no column {', '.join(map(shown, unknown))}; correct it.")
    out_already = sorted((change.names - set(schema.names)) - set(change.drop))
    if out_already:
        raise InputError(
            f"The schema leaves out {', '.join(map(shown, out_already))}; declare it among the columns"
            " of the file by hand."
        )
    design = Design(**{**schema.design.parameters(), **change.design})
    data |= design.to_dict()
    data["columns"] = [change.apply(c) for c in data["columns"] if c["name"] not in change.gone]
    left_out = [item for item in data.get("left_out", []) if item["name"] not in design.names]
    known = {item["name"] for item in left_out}
    left_out += [
        {"name": n, "reason": DROPPED} for n in dict.fromkeys(change.drop) if n not in known
    ]
    kept = [c for c in data.get("impossible", []) if not set(c) & change.gone]
    data |= {"left_out": left_out, "impossible": kept, **_rules(schema, change)}
    refuse_together(_errors(data["columns"]), "The edited schema")
    return Schema.from_dict(data)


def _rules(schema: Schema, change: Edit) -> dict[str, Any]:
    """Constraints and suggestions: those that are accepted moved, and those that name dropped columns left out."""
    accepted = set(range(len(schema.suggested))) if "all" in change.accept_suggested else set()
    for text in change.accept_suggested:
        if text != "all":
            position = number(text)
            if not isinstance(position, int) or not 1 <= position <= len(schema.suggested):
                raise InputError(
                    f"Expected the number of a suggested rule, from 1 to {len(schema.suggested)}, or all; got {shown(text)}."
                )
            accepted.add(position - 1)

    def keeps(rule: Rule) -> bool:
        return not set(rule.names) & change.gone

    for position in change.drop_constraints:
        if not 1 <= position <= len(schema.constraints):
            raise InputError(
                f"Expected the number of a constraint, from 1 to {len(schema.constraints)}; got {position}."
            )
    numbered = enumerate(zip(schema.constraints, schema.rules, strict=True), 1)
    constraints = [
        c for i, (c, rule) in numbered if keeps(rule) and i not in change.drop_constraints
    ]
    constraints += [dict(rule) for rule in change.constraints]
    suggested = []
    for i, item in enumerate(schema.suggested):
        if not keeps(schema.suggested_rules[i]):
            continue
        if i in accepted:
            constraints.append(item["rule"])
        else:
            suggested.append(item)
    return {"constraints": constraints, "suggested": suggested}


def _errors(columns: Iterable[Mapping[str, Any]]) -> list[str]:
    out = []
    for facts in columns:
        try:
            column_from(facts, "schema")
        except TabsynthError as error:
            out.append(str(error))
    return out


def refuse_together(problems: Sequence[str], what: str) -> None:
    """InputError with all problems in one line; nothing where there is none."""
    if problems:
        listed = "; ".join(problem.rstrip(".") for problem in problems)
        raise InputError(f"{what} has {len(problems)} column(s) that cannot be made: {listed}.")


def parse_bounds(text: str) -> tuple[Any, Any]:
    """The bounds in ``0..120``; numbers where both are, else texts such as dates."""
    low, dots, high = text.partition("..")
    if not dots or not low.strip() or not high.strip():
        raise InputError(f"Expected bounds like 0..120, got {text!r}.")
    ends = [number(low.strip()), number(high.strip())]
    if None in ends:
        return low.strip(), high.strip()
    return ends[0], ends[1]


def parse_values(text: str) -> list[str]:
    """The values in ``f,m``; one with a comma is in double quotes."""
    values = [value.strip() for value in next(csv.reader([text], skipinitialspace=True), [])]
    if not values:
        raise InputError(f"Expected values like f,m, got {text!r}.")
    return values


def number(text: str) -> int | float | None:
    """A text as a whole number or a float; None if it is neither."""
    for kind in (int, float):
        try:
            value = kind(text)
        except (ValueError, OverflowError):
            continue
        return value if "_" not in text and value - value == 0 else None
    return None


def _in_dtype(text: str, dtype: Any) -> Any:
    base = base_dtype(str(dtype))
    if base == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    value = number(text) if base in ("int", "float") else None
    return text if value is None else value


def differences(first: Schema, second: Schema) -> list[str]:
    """What changes from one schema to another, a line each; none where they are equal."""
    before, after = first.to_dict(), second.to_dict()
    out = [f"column {shown(n)}: removed" for n in first.names if n not in second.names]
    out += [
        f"column {shown(n)}: added, {second[n].domain()}"
        for n in second.names
        if n not in first.names
    ]
    shared = [name for name in first.names if name in second.names]
    if shared != [name for name in second.names if name in first.names]:
        out.append(f"order of columns: {', '.join(first.names)} -> {', '.join(second.names)}")
    for name in shared:
        old, new = (
            {**s[name].to_dict(copied=False), "provenance": s[name].provenance_in_words}
            for s in (first, second)
        )
        for key in dict.fromkeys((*old, *new)):
            if key != COPIED or old["provenance"] == new["provenance"]:  # whose words list it
                out += _changes(f"column {shown(name)}, {key}", old.get(key), new.get(key))
    for key in dict.fromkeys((*before, *after)):
        if key not in ("columns", COPIED):
            listed = list in (type(before.get(key)), type(after.get(key)))
            out += _changes(
                key, *(facts.get(key, [] if listed else None) for facts in (before, after))
            )
    return out


def _changes(what: str, old: Any, new: Any) -> list[str]:
    if old == new and type(old) is type(new):
        return []
    if isinstance(old, list) and isinstance(new, list):
        gone = [item for item in old if item not in new]
        added = [item for item in new if item not in old]
        parts = [f"removed {_list(gone)}"] * bool(gone) + [f"added {_list(added)}"] * bool(added)
        return [f"{what}: {'; '.join(parts) or 'another order'}"]
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys((*old, *new))
        return [
            line for key in keys for line in _changes(f"{what}.{key}", old.get(key), new.get(key))
        ]
    return [f"{what}: {_value(old)} -> {_value(new)}"]


def _value(value: Any) -> str:
    return "not stated" if value is None else shown(value, 150)  # provenance names facts


def _list(items: Sequence[Any], limit: int = 8) -> str:
    text = ", ".join(map(shown, items[:limit]))
    return text if len(items) <= limit else f"{text} and {len(items) - limit} more"
