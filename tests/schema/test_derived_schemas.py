"""A schema that is made from another one keeps what was released, who declared what, and what rows stand for.

Functions that return a schema are found in the sources, so that a new one cannot be forgotten here.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tabsynth
from tabsynth import Categorical, Identifier, LinkedSchema, Numeric, Schema
from tabsynth.app.session import Session
from tabsynth.cli.options import load_schema
from tabsynth.drafting.private_schema import draft_on_ledger
from tabsynth.drafting.relation_search import find_relations
from tabsynth.encoding.derived import _inner
from tabsynth.encoding.gaps import with_gaps
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema import Column
from tabsynth.schema.editing import Edit, edit
from tabsynth.schema.linked import TableKeys, read_schema, read_table_schema
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.linked.estimator import LinkedMargNet
from tabsynth.tables.labelled import with_labels

PACKAGE = Path(tabsynth.__file__).parent
MECHANISM = {
    "purpose": "schema: formats of columns",
    "mechanism": "Gaussian",
    "noise_multiplier": 20.0,
    "count": 1,
    "details": {},
}
RELEASED = {
    "mechanisms": [MECHANISM],
    "seeded": False,
    "public": ["names of columns"],
    "facts": {"x": {"kind": ["schema: formats of columns"]}},
    "project": "the project",
    "run": "the run of the draft",
}
X = Numeric(
    name="x", dtype="float64", low=-5.0, high=5.0, clip=True, breaks=(-1.0, 0.0), heaping=(1.0,),
    resolution=0.1, provenance="released",
)  # fmt: skip
PLAIN = [
    X,
    Categorical(name="a", dtype="str", categories=("u", "v"), copied_from_private_rows=["nulls"]),
    Categorical(name="b", dtype="str", categories=("u", "v"), provenance="released"),
    Numeric(name="y", dtype="int64", low=0, high=9, provenance="drafted"),
]
SUGGESTED = [{"rule": {"if": {"a": ["u"]}, "then": {"b": ["v"]}}, "share": 0.01}]
BASE = Schema(
    [*PLAIN, Identifier(name="key", dtype="str")],
    null_values=("", "none"),
    impossible=[{"a": ["v"], "b": ["v"]}],
    left_out=[{"name": "z", "reason": "not needed"}],
    constraints=[{"if": {"a": ["u"]}, "then": {"b": ["u"]}}],
    violations="drop",
    released=RELEASED,
    suggested=SUGGESTED,
    decimal=".",
    weight="w",
    max_weight=4.0,
    unit=None,
)


def table(rows: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "x": np.linspace(-5, 5, rows).round(1),
            "a": ["u", "v"] * (rows // 2),
            "b": ["u"] * rows,
            "y": [3, 4] * (rows // 2),
            "key": [str(i) for i in range(rows)],
            "w": [1.0] * rows,
        }
    )


def relations(folder: Path) -> Schema:
    """Of a draft, which a fit has on its ledger."""
    rows, ledger = table(200).drop(columns=["key", "w"]), Ledger(20.0, 1e-5)
    drafted = draft_on_ledger(rows, 1.0, ledger)
    found = find_relations(rows, drafted, 0.5, ledger, None)
    before, after = dict(drafted.released or {}), dict(found.released or {})
    listed = after.pop("mechanisms")
    assert listed[: len(before["mechanisms"])] == before.pop("mechanisms") != listed
    assert {**after, "constraints": None} == {**before, "constraints": None}
    return BASE


def of_stata(folder: Path, label: Callable[[Schema, Path], Schema]) -> Schema:
    rows = pd.DataFrame({"y": np.array([3, 4], dtype="int8")})
    rows.to_stata(
        folder / "t.dta", value_labels={"y": {3: "three"}}, variable_labels={"y": "a number"}
    )
    made = label(BASE, folder / "t.dta")
    assert made["y"].description == "a number"
    return made


def saved(schema: Schema, folder: Path) -> Path:
    schema.save(folder / "s.json")
    return folder / "s.json"


def of_session(folder: Path, what: str) -> Schema:
    session = Session(folder / "work")
    (folder / "t.csv").write_text("x\n")
    session.choose(folder / "t.csv")
    session.confirm()
    session.take_schema(saved(BASE, folder))
    session.state.planned = session.state.settings = SimpleNamespace()  # type: ignore[assignment]
    found = getattr(session.state, what)()
    return found[0] if isinstance(found, tuple) else found


def linked(made: Callable[[LinkedSchema, Path], LinkedSchema]) -> Callable[[Path], Schema]:
    """Linked tables take no released columns; all else stays."""

    def case(folder: Path) -> Schema:
        own = Schema([c for c in PLAIN if c.provenance != "released"], ("", "none"), decimal=".")
        child = {"parent": "homes", "parent_key": "home", "max_children": 2}
        both = LinkedSchema(
            {"homes": own, "people": own}, {"homes": {"key": "home"}, "people": child}
        )
        result = made(both, folder)
        assert result.fingerprint() == both.fingerprint() and result.drafted == both.drafted
        assert result.unchanged_facts == both.unchanged_facts != {}
        return BASE

    return case


def saved_linked(schema: LinkedSchema, folder: Path) -> Path:
    schema.save(folder / "l.json")
    return folder / "l.json"


def fitted(folder: Path) -> Schema:
    model = SimpleNamespace(
        _check_fitted=lambda: None, model_=SimpleNamespace(encoder=SimpleNamespace(whole=BASE))
    )
    return Synthesizer.schema_.fget(model)  # type: ignore[attr-defined]


NEW = "of rows, a public table or a file that no schema was made into"
CASES: dict[str, Callable[[Path], Schema] | str] = {
    "app/state.py: Preparation.need_plan": lambda f: of_session(f, "need_plan"),
    "app/state.py: Preparation.need_schema": lambda f: of_session(f, "need_schema"),
    "cli/options.py: load_schema": lambda f: load_schema(saved(BASE, f)),
    "datasets/shipped.py: _load": NEW,
    "datasets/shipped.py: load_census": NEW,
    "datasets/shipped.py: load_hospital": NEW,
    "encoding/gaps.py: with_gaps": lambda f: with_gaps(BASE, ("y",)),
    "encoding/derived.py: _inner": lambda f: _inner(BASE, TableKeys(key="k")),
    "evaluation/drafted.py: _with_amounts": NEW,
    "evaluation/drafted.py: drafted_for": NEW,
    "planning.py: _any_schema": NEW,
    "drafting/drafts.py: draft_schema": NEW,
    "drafting/linked.py: _named": NEW,
    "drafting/linked.py: draft_linked": NEW,
    "omop/schema.py: _Builder.schema": NEW,
    "omop/schema.py: _Builder.unselected": NEW,
    "omop/schema.py: omop_schema": NEW,
    "schema/editing.py: edit": lambda f: edit(
        BASE,
        Edit(drop=["y"], declare=["a"], source="s", facts={"b": {"nulls": True}}),
    ),
    "schema/schema.py: Schema.with_decimal": lambda _: BASE.with_decimal("."),
    "schema/importers/__init__.py: _read_codebook": NEW,
    "schema/importers/__init__.py: import_schema": NEW,
    "schema/importers/declaration.py: schema_of": NEW,
    "schema/linked.py: LinkedSchema.from_dict": linked(
        lambda s, f: LinkedSchema.from_dict(s.to_dict())
    ),
    "schema/linked.py: LinkedSchema.load": linked(
        lambda s, f: LinkedSchema.load(saved_linked(s, f))
    ),
    "schema/linked.py: LinkedSchema.plain": linked(lambda s, f: s.plain),
    "schema/linked.py: read_schema": lambda f: read_schema(saved(BASE, f)),  # type: ignore[return-value]
    "schema/linked.py: read_table_schema": lambda f: read_table_schema(saved(BASE, f)),
    "schema/schema.py: Schema.comparable": lambda f: BASE.comparable,
    "schema/schema.py: Schema.from_dict": lambda f: Schema.from_dict(BASE.to_dict()),
    "schema/schema.py: Schema.learned": lambda f: BASE.learned,
    "schema/schema.py: Schema.load": lambda f: Schema.load(saved(BASE, f)),
    "schema/schema.py: Schema.replace": lambda f: BASE.replace(columns=BASE.columns[:4]),
    "schema/schema.py: Schema.select": lambda f: BASE.select(["y", "a", "x"]),
    "synthesizers/estimator.py: Synthesizer.schema_": fitted,
    "synthesizers/linked/estimator.py: LinkedMargNet._check_linked": linked(
        lambda s, f: LinkedMargNet._check_linked(s)
    ),
    "synthesizers/linked/estimator.py: LinkedMargNet.schema_from": linked(
        lambda s, f: LinkedMargNet.schema_from({"schema": s.to_dict()}, "model")
    ),
    "synthesizers/session.py: nominal_schema": NEW,
    "synthesizers/session.py: FitSession.draft": NEW,
    "synthesizers/linked/estimator.py: LinkedMargNet.schema_": linked(
        lambda s, f: LinkedMargNet.schema_.fget(  # type: ignore[attr-defined]
            SimpleNamespace(
                _check_fitted=lambda: None,
                _check_linked=LinkedMargNet._check_linked,
                model_=SimpleNamespace(encoder=SimpleNamespace(whole=s)),
            )
        )
    ),
    "drafting/private_schema.py: draft_on_ledger": NEW,
    "drafting/private_schema.py: draft_private": NEW,
    "drafting/relation_search.py: find_relations": relations,
    "tables/labelled.py: with_labels": lambda f: of_stata(f, with_labels),
}
# Where a schema is made by its constructor; everything else goes through Schema.replace, from_dict or load.
CONSTRUCTED = {
    "planning.py: _any_schema",
    "drafting/drafts.py: draft_schema",
    "drafting/linked.py: draft_linked",
    # Of the schemas of another one's tables, which have what was released.
    "encoding/derived.py: DerivedEncoder.__init__",
    "schema/linked.py: LinkedSchema.plain",
    "omop/schema.py: _Builder.schema",
    "schema/importers/declaration.py: schema_of",
    "synthesizers/session.py: nominal_schema",  # the names of the columns alone
    "drafting/private_schema.py: draft_on_ledger",
}


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        for node in ast.parse(path.read_text("utf-8")).body:
            inner = node.body if isinstance(node, ast.ClassDef) else [node]
            of = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            for function in inner:
                if isinstance(function, ast.FunctionDef):
                    yield f"{where}: {of}{function.name}", function


def test_every_function_that_returns_a_schema_is_here() -> None:
    schema = re.compile(r"\b(Linked)?Schema\b")
    returning = {
        name
        for name, function in functions()
        if function.returns is not None and schema.search(ast.unparse(function.returns))
    }
    assert returning == set(CASES)


def test_schemas_are_constructed_where_there_is_none_yet() -> None:
    made = {
        name
        for name, function in functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Schema", "LinkedSchema")
    }
    # Those of the audits' own tables, which are made up.
    assert {n for n in made if not n.startswith("auditing/neighbouring")} == CONSTRUCTED


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if not isinstance(case, str)]
)
def test_what_is_derived_keeps_what_was_released(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    assert callable(case)
    made = case(tmp_path)
    released = dict(made.released or {})
    assert {key: released.get(key) for key in RELEASED} == RELEASED
    same = made.names[0] in BASE.names
    assert same and made.null_values == BASE.null_values
    if "importers" not in name:  # a format without places for these
        assert (made.decimal, made.weight, made.max_weight) == (".", "w", 4.0)
        assert made.violations == "drop"
    for column in made.columns:
        before: Column | None = {c.name: c for c in BASE.columns}.get(column.name)
        if before is not None and not (name.endswith(": edit") and column.name == "a"):
            assert (column.provenance, column.facts_from_rows) == (
                before.provenance,
                before.facts_from_rows,
            )
    if name.endswith(": edit"):
        assert made["a"].facts_from_rows == ("nulls",)


def test_what_is_written_is_a_copy() -> None:
    BASE.to_dict()["released"]["mechanisms"].clear()
    assert BASE.to_dict()["released"]["mechanisms"] == [MECHANISM]
