"""Wherever the public API takes a schema, it takes it as such, as a dict and as the path of its file (``read_schema``)."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tabsynth
from tabsynth import (
    Categorical,
    InputError,
    LinkedSchema,
    MargNet,
    Numeric,
    Schema,
    TabsynthError,
    evaluate,
    evaluate_private,
    plan,
    read_table,
)
from tabsynth.drafting import review, summarize
from tabsynth.planning import column_errors
from tabsynth.report import Report
from tabsynth.synthesizers import METHODS
from tabsynth.synthesizers.linked.estimator import LinkedMargNet
from tabsynth.table_errors import plan_tables
from tabsynth.tables import read_sample

SCHEMA = Schema(
    [
        Categorical(name="sex", dtype="str", categories=("f", "m")),
        Numeric(name="age", dtype="int64", low=0, high=9),
    ],
    left_out=[{"name": "id", "reason": "it numbers the rows"}],
)
KEYS = {
    "homes": {"key": "home"},
    "people": {"parent": "homes", "parent_key": "home", "max_children": 3},
}
LINKED = LinkedSchema({"homes": SCHEMA, "people": SCHEMA}, KEYS)
TABLE = pd.DataFrame({"sex": ["f", "m"] * 150, "age": [*range(10)] * 30})
METHOD_SETTINGS: dict[str, dict[str, Any]] = {"pate-acgan": {"class_column": "sex"}}


def planned(method: str) -> Callable[[Any, Path], Any]:
    settings = {"epsilon": 1.0, "rows": 10_000, **METHOD_SETTINGS.get(method, {})}
    return lambda schema, _: METHODS[method](schema, **settings).plan(estimate_time=False)


def fingerprint(report: Report) -> Any:
    return vars(report.evaluation)["schema_sha256"]


def private_report(schema: Any, folder: Path) -> Any:
    synthetic = MargNet(SCHEMA, epsilon=1.0).fit(TABLE).sample(300)
    report = evaluate_private(TABLE, synthetic, schema=schema, epsilon=1.0)
    return fingerprint(report)


def saved_table(folder: Path, name: str) -> Path:
    tabsynth.write_table(TABLE, folder / name, overwrite=True)
    return folder / name


def linked_plan(schema: Any, _: Path) -> Any:
    return LinkedMargNet(schema, epsilon=1.0, rows=1_000).plan(estimate_time=False)


CASES: dict[str, Callable[[Any, Path], Any]] = {
    **{METHODS[method].__name__: planned(method) for method in METHODS},
    "LinkedSchema": lambda s, _: LinkedSchema({"homes": s, "people": SCHEMA}, KEYS).fingerprint(),
    "evaluate": lambda s, _: fingerprint(evaluate(TABLE, TABLE, schema=s)),
    "evaluate_private": private_report,
    "plan": lambda s, _: plan("margnet", 10_000, 1.0, schema=s),
    "column_errors": lambda s, _: column_errors(planned("margnet")(SCHEMA, _), s, 10_000),
    "plan_tables": lambda s, _: plan_tables([("sex", "age")], s, 10_000, 1.0),
    "read_table": lambda s, f: read_table(saved_table(f, "t.csv"), s).to_dict(),
    "read_sample": lambda s, f: read_sample(saved_table(f, "t.parquet"), s, 5)[0].to_dict(),
    "review": lambda s, _: review(s),
    "summarize": lambda s, _: summarize(s),
}
# A fit hands the schema to these, or a subclass does.
WITHIN_A_FIT = {"RowCounter", "ParquetCounter", "TableEncoder", "Synthesizer"}
OF_SUBCLASSES = {"make_method", "parameters_from"}


def takers() -> set[str]:
    """Return the public functions and classes that take a schema."""
    found = set()
    modules = pkgutil.walk_packages(tabsynth.__path__, "tabsynth.")
    for module in ("tabsynth", *(m.name for m in modules if not m.name.endswith("__main__"))):
        public = importlib.import_module(module)
        for name in getattr(public, "__all__", ()):
            taker = getattr(public, name)
            if not callable(taker):
                continue
            members = {name: taker}
            if inspect.isclass(taker):
                members |= {
                    f"{name}.{key}": member
                    for key, member in inspect.getmembers(taker, callable)
                    if not key.startswith("_") and key not in OF_SUBCLASSES
                }
            found |= {member for member, call in members.items() if takes_schema(call)}
    return found


def takes_schema(call: Any) -> bool:
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:
        return False
    return any(
        p.name == "schema" or "Schema" in str(p.annotation) for p in parameters if p.name != "self"
    )


def test_every_public_function_that_takes_a_schema_is_among_the_cases() -> None:
    names = {name for name in takers() if name.split(".")[0] not in WITHIN_A_FIT}
    assert names | {"plan_tables"} == {*CASES, "LinkedMargNet"}


def test_forms_of_a_schema_give_the_same(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "schema.json")
    path = tmp_path / "schema.json"
    for name, call in CASES.items():
        expected = call(SCHEMA, tmp_path)
        for form in (path, str(path), SCHEMA.to_dict()):
            assert call(form, tmp_path) == expected, (name, type(form))


def test_forms_of_a_linked_schema_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "linked.json"
    LINKED.save(path)
    expected = linked_plan(LINKED, tmp_path)
    for form in (path, str(path), LINKED.to_dict()):
        assert linked_plan(form, tmp_path) == expected
    homes = TABLE.head(100).assign(home=range(100))
    tables = {"homes": homes, "people": TABLE.assign(home=[*range(100)] * 3)}
    report = evaluate(tables, tables, schema=path)
    assert fingerprint(report) == LINKED.fingerprint()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (5, "Expected schema to be a Schema, a dict or a path, got 5."),
        ("missing.json", "missing.json"),
        (LINKED, "Expected schema to be of one table, got one of linked tables."),
    ],
)
def test_other_values_are_refused_in_one_line(schema: Any, message: str) -> None:
    for call in (
        lambda: read_table("t.csv", schema),
        lambda: plan("margnet", 10_000, 1.0, schema=schema),
        lambda: evaluate_private(TABLE, TABLE, schema=schema, epsilon=1.0),
    ):
        with pytest.raises(TabsynthError) as refusal:
            call()
        assert message in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_a_refusal_names_the_linked_table_whose_schema_it_is() -> None:
    with pytest.raises(InputError, match=r"^Table .people.: Expected schema to be a Schema"):
        LinkedSchema({"homes": SCHEMA, "people": 5}, KEYS)  # type: ignore[dict-item]
