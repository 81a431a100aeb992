"""Public objects at the end of a cell: at most ten lines, nothing of the rows, and never an error.

The objects are those that a short use of the library makes, and all that is in them; each public class must be among them.
"""

import importlib
import inspect
import pkgutil
from html.parser import HTMLParser

import linked_tables
import numpy as np
import pandas as pd
import pytest

import tabsynth
from tabsynth import (
    LinkedMargNet,
    MargNet,
    Schema,
    draft_private,
    evaluate,
    evaluate_private,
    plan,
    verify,
)
from tabsynth._shown import LINES, LONGEST, Shown
from tabsynth.drafting import draft_schema
from tabsynth.evaluation import EvaluationConfig, Tables
from tabsynth.inference import Reference
from tabsynth.planning import (
    bounds_of,
    column_errors,
    plan_advantage,
)
from tabsynth.privacy import ProjectLedger
from tabsynth.schema.column import KINDS, Column
from tabsynth.synthesizers import METHODS, MargNetConfig
from tabsynth.tables import ParquetCounter, RowCounter

pytestmark = pytest.mark.usefixtures("few_attacks")
SECRET = ["Quarnstedt", "Wobbenbuell", "Zzyzx"]
TINY = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=5)
FACTS = {
    "categorical": {"dtype": "str", "categories": [f"value {i}" for i in range(5000)]},
    "ordinal": {"dtype": "str", "categories": ["low", "high"]},
    "hierarchy": {"dtype": "str", "codes": [f"{i:05}" for i in range(3000)], "levels": [2]},
    "numeric": {"dtype": "float64", "low": 0, "high": 9},
    "date": {"dtype": "datetime64[ns]", "low": "2020-01-01", "high": "2021-01-01"},
    "datetime": {"dtype": "datetime64[ns]", "low": "2020-01-01", "high": "2021-01-01"},
    "time": {"dtype": "str", "low": "08:00", "high": "18:00", "format": "%H:%M"},
    "duration": {"dtype": "timedelta64[ns]", "low": "0 days", "high": "9 days"},
    "period": {"dtype": "period[M]", "low": "2020-01", "high": "2021-01"},
    "identifier": {"dtype": "str"},
    "text": {"dtype": "str"},
}


def public_classes():
    """All classes that a module of tabsynth exports."""
    names = [m.name for m in pkgutil.iter_modules(tabsynth.__path__) if m.name[0] != "_"]
    modules = [tabsynth, *(importlib.import_module(f"tabsynth.{name}") for name in names)]
    exported = [getattr(module, n) for module in modules for n in getattr(module, "__all__", ())]
    return {thing for thing in exported if inspect.isclass(thing)}


def people(rows=300):
    rng = np.random.default_rng(0)
    age = rng.integers(41, 78, rows) * 1001
    return pd.DataFrame(
        {"age": age, "town": rng.choice(SECRET, rows), "sex": rng.choice(["f", "m"], rows)}
    )


def contents(thing, found):
    """Add all objects of tabsynth in an object to those that were found, by their numbers."""
    if id(thing) in found or isinstance(thing, type):
        return found
    if type(thing).__module__.startswith("tabsynth"):
        found[id(thing)] = thing
        parts = [*getattr(thing, "__dict__", {}).values()]
    elif isinstance(thing, dict):
        parts = [*thing.values()]
    else:
        parts = [*thing] if isinstance(thing, list | tuple) else []
    for part in parts:
        contents(part, found)
    return found


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """What a short use of the library makes."""
    folder, table = tmp_path_factory.mktemp("shown"), people()
    schema = Schema(
        [
            Column(name="age", kind="numeric", dtype="int64", low=0, high=99_000, bins=20),
            Column(name="town", kind="categorical", dtype="str", categories=SECRET, nulls=True),
            Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
        ],
        constraints=[{"if": {"sex": ["f"]}, "then": {"age": {"low": 0, "high": 99_000}}}],
    )
    ledger = ProjectLedger.create(folder / "project.ledger", epsilon=40.0)
    model = MargNet(schema, epsilon=5.0, config=TINY).fit(table, ledger=ledger)
    model.sample_to(folder / "synthetic.csv", 200)
    made = tabsynth.read_table(folder / "synthetic.csv", schema)
    verification = verify(folder / "synthetic.csv")
    kept: list[Tables] = []
    with pytest.MonkeyPatch.context() as patch:
        start = Tables.__init__
        patch.setattr(
            Tables, "__init__", lambda self, **k: (start(self, **k), kept.append(self))[0]
        )
        config = EvaluationConfig(m=20, k=(1,))
        reports = [
            evaluate(table, made, people(100), schema=schema, config=config, label=label, by="sex")
            for label in ("one", "two")
        ]
    few = table.astype({"age": "int64"})
    few.to_parquet(folder / "people.parquet")
    cost = plan("margnet", 300, 5.0, schema=schema)
    linked = linked_tables.schema()
    frames = linked_tables.tables(60)
    return [
        *(Column(name="x", kind=kind, **FACTS[kind]) for kind in KINDS),
        *(Schema([Column(name="x", kind=kind, **FACTS[kind]), *schema.columns]) for kind in KINDS),
        schema,
        draft_schema(table),
        draft_private(table, 20.0),
        linked,
        ledger,
        ProjectLedger.read(ledger),
        ProjectLedger.read(ledger).runs(),
        model,
        model.certificate(),
        cost,
        bounds_of(cost),
        column_errors(cost, schema, 300),
        plan_advantage(0.1, 300),
        verification,
        *reports,
        kept[:1],
        Reference(model),
        evaluate_private(
            table, made, schema=schema, epsilon=1.0, certificate=verification, ledger=ledger
        ),
        evaluate(frames, frames, schema=linked, config=config),
        ParquetCounter(folder / "people.parquet"),
        RowCounter(),
        *(method(epsilon=1.0, **needed(method)) for method in METHODS.values()),
        LinkedMargNet(linked, epsilon=1.0),
        *(thing for thing in map(made_alone, public_classes()) if thing is not None),
    ]


def needed(method):
    """The parameters that a method needs besides ε."""
    return {"class_column": "x"} if "class_column" in method.parameter_names() else {}


def made_alone(kind):
    """An object of a class that needs no parameter, such as settings and errors."""
    try:
        return kind()
    except Exception:
        return None


@pytest.fixture(scope="module")
def found(objects):
    parts = {}
    for thing in objects:
        contents(thing, parts)
    return [*parts.values()]


def test_every_public_class_has_an_object(found):
    there = {kind for thing in found for kind in type(thing).__mro__}
    assert {kind.__name__ for kind in public_classes() - there} == set()
    assert len(public_classes()) > 60


def test_a_repr_is_at_most_ten_lines_and_a_thousand_characters(found):
    public = public_classes()
    for thing in found:
        if isinstance(thing, Shown) or type(thing) in public:
            text = repr(thing)
            assert len(text) <= LONGEST == 1000, text
            assert len(text.split("\n")) <= LINES == 10, text


def test_unfitted_estimators_and_their_wrong_parameters_have_a_repr(found):
    for method in METHODS.values():
        for schema in (None, 5, "x" * 9999, people(), [1] * 9999, {"a": people()}):
            text = repr(
                method(
                    schema,
                    epsilon=np.nan,
                    rows=[people()],
                    draft_options={"a": b"\xff"},
                    **needed(method),
                )
            )
            assert text.startswith(method.__name__) and len(text) <= LONGEST


def test_nothing_of_the_rows_is_in_a_repr(objects, found):
    """Facts of drafts are only named; a report is confidential, and says so."""
    draft = draft_schema(people())
    model = MargNet(draft, epsilon=1.0, accept_drafted_domain=True, config=TINY).fit(people())
    parts = {}
    contents([draft, model], parts)
    texts = [*map(repr, parts.values()), draft._repr_html_()]
    assert len(texts) > 10 and "CONFIDENTIAL" in repr(draft)
    secret = [*SECRET, str(people()["age"].min()), str(people()["age"].max())]
    for thing, text in zip([*parts.values(), draft], texts, strict=True):
        if isinstance(thing, Shown):
            assert [word for word in secret if word in text] == [], text
    reports = [thing for thing in objects if isinstance(thing, tabsynth.report.Report)]
    assert len(reports) == 4
    for report in reports:
        assert ("confidential" in repr(report)) is report.evaluation.confidential


def test_schemas_plans_and_reports_have_html(objects):
    """It is closed, and a name of a column is a text in it."""
    evil = Schema([Column(name="<img src=x>", kind="text", dtype="str")])
    for thing in [*objects, evil]:
        if hasattr(thing, "_repr_html_"):
            html = thing._repr_html_()
            opened = []
            parser = HTMLParser()
            parser.handle_starttag = lambda tag, _, opened=opened: (
                opened.append(tag) if tag != "img" else None
            )
            parser.handle_endtag = lambda tag, opened=opened: opened.pop() == tag or 1 / 0
            parser.feed(html)
            assert opened == [] and "<img src=x>" not in html
    kinds = {type(thing).__name__ for thing in objects if hasattr(thing, "_repr_html_")}
    assert kinds >= {"Schema", "Plan", "Report"}
    pictures = [
        thing.picture()
        for thing in objects
        if type(thing).__name__ == "Report" and type(thing.evaluation).__name__ == "Evaluation"
    ]
    assert pictures and all("<svg" in picture.svg for picture in pictures)


def test_a_verification_and_a_plan_say_first_what_matters(objects):
    (verification,) = (t for t in objects if type(t).__name__ == "Verification")
    assert repr(verification).startswith(
        "Verification: not authenticated\n  Claimed: ε = 5, δ = 1e-05"
    )
    (cost,) = (t for t in objects if type(t).__name__ == "Plan")
    assert repr(cost).startswith("Plan of margnet: spends epsilon = 5 at delta = 1e-05")


def test_a_new_ledger_is_returned_and_stands_for_its_path(objects, tmp_path):
    ledger = ProjectLedger.create(tmp_path / "new.ledger", epsilon=3.0, table="people")
    assert (ledger.epsilon, ledger.share, ledger.table) == (3.0, 0.0, "people")
    assert ProjectLedger.read(ledger).project == ledger.project  # the file is free, too
    assert "Used: 0.0%" in repr(ledger)
