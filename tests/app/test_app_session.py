"""What the local page does, without a page: in order, and behind the confirmation."""

import contextlib
import json
import logging
import threading
from pathlib import Path

import page_server
import pytest

from tabsynth import InputError, Schema, draft_private
from tabsynth.app.job import CANCELLED, DONE, FAILED, Job, page_lines
from tabsynth.app.session import Session
from tabsynth.app.settings import Settings
from tabsynth.drafting import draft_schema
from tabsynth.errors import TableError
from tabsynth.privacy import ProjectLedger
from tabsynth.schema.editing import Edit
from tabsynth.tables import read_table
from tabsynth.tables.parts import are_parts

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")

SETTINGS = Settings(rows=150, epsilon=5.0)
ANSWERS = {
    **{
        "name": "Towns: synthetic",
        "description": "Lines\nof 'text' and $(signs)",
        "curators": "A\nB",
    },
    **{"use": "tests", "region": "Example", "published": "2026-11-25", "license": "CC0-1.0"},
    **{
        "population": "nobody",
        "unit": "a person",
        "justification": "a test",
        "preparation": "nothing",
    },
    **{"access": "the tester", "links": "", "contact": " "},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page_server.people().to_csv("people.csv", index=False)
    return tmp_path


@pytest.fixture
def session(folder):
    return Session(Path("work"))


def reviewed(session):
    """A session with a declared schema."""
    session.choose("people.csv")
    session.confirm()
    session.draft().wait()
    session.edit_column(
        *("age",),
        kind="numeric",
        dtype="int64",
        low="18",
        high="90",
        declare=True,
        source="code book",
    )
    session.edit_column(
        "town",
        kind="categorical",
        dtype="str",
        values='Quarnstedt,Wobbenbuell,Zzyzx,"x, y"',
        nulls=True,
    )
    session.edit_column("begin", kind="numeric", dtype="int64", low="0", high="90", nulls=False)
    session.edit_column("town", kind="categorical", declare=True, source="code book")
    session.edit_column("begin", kind="numeric", declare=True, source="code book")
    session.set_rules([{"order": ["begin", "age"]}])


ROWS = {
    "draft": lambda s: s.draft(),
    "schema file": lambda s: s.take_schema("schema.json"),
    "columns": lambda s: s.state.columns(),
    "left out": lambda s: s.state.need_schema().left_out,
    "review": lambda s: s.state.review(),
    "rules": lambda s: s.state.need_schema().rules,
    "edit": lambda s: s.change(Edit(drop=("age",))),
    "plan": lambda s: s.plan(SETTINGS),
    "fit": lambda s: s.fit(),
    "draw": lambda s: s.draw(5, None),
    "evaluate": lambda s: s.evaluate(),
    "release": lambda s: s.release("out", ANSWERS),
}


@pytest.mark.parametrize("what", ROWS)
def test_nothing_of_the_rows_before_the_screen_is_confirmed(session, what):
    session.choose("people.csv")
    draft_schema(page_server.people()).save("schema.json")
    session.state.schema = Schema.load("schema.json")  # as if a method had forgotten to ask
    session.state.planned, session.state.settings, session.state.model = (
        object(),
        SETTINGS,
        object(),
    )
    session.state.synthetic = Path("people.csv")
    with pytest.raises(InputError, match="Confirm first that this screen is confidential"):
        ROWS[what](session)
    assert session.job is None and not session.state.folder.exists()


def test_choosing_a_table_reads_nothing_of_it(session):
    Path("people.csv").write_bytes(b"\xff\x00 no table at all")
    session.choose("people.csv", sep=";", decimal=" , ", sheet="")
    assert session.state.reading == {"sep": ";", "decimal": ","}
    session.confirm()
    assert session.draft().wait().state == FAILED
    assert session.state.schema is None and not session.state.schema_path.exists()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "Name a file"),
        ("gone.csv", "no file"),
        ("people.exe", "by their suffix"),
        (".", "suffix"),
    ],
)
def test_a_table_that_is_none_is_refused(session, path, says):
    with pytest.raises(InputError, match=says):
        session.choose(path)
    with pytest.raises(InputError, match="Choose a table first"):
        session.confirm()


def test_a_draft_is_marked_and_replaces_no_earlier_work(session):
    session.choose("people.csv")
    session.confirm()
    job = session.draft().wait()
    assert job.state == DONE and "'email': left out" in job.lines[2]
    age, begin, town = session.state.columns()
    assert (age.low, age.high, age.values) == ("35", "75", None) or age.provenance == "drafted"
    assert {"low", "high", "dtype", "nulls"} <= set(dict(age.copied))
    assert (dict(age.copied)["low"], dict(age.copied)["nulls"]) == (age.low, "no")
    assert "categories" in dict(town.copied)
    assert [item["name"] for item in session.state.schema.left_out] == ["email"]
    assert len(session.state.review()) >= 3 and begin.source == ""
    with pytest.raises(InputError, match="was changed"):
        session.edit_column("age", kind="numeric")
    with pytest.raises(InputError, match="need a source"):
        session.edit_column("age", kind="numeric", declare=True)
    before = session.state.schema_path.read_text()
    again = Session(Path("work"))
    again.choose("people.csv")
    again.confirm()
    with pytest.raises(InputError, match="there already; take it"):
        again.draft()
    again.take_schema("work/schema.json")
    assert session.state.schema_path.read_text() == before and len(again.state.columns()) == 3


def test_edits_that_contradict_change_nothing(session):
    session.choose("people.csv")
    session.confirm()
    session.draft().wait()
    before = session.state.schema_path.read_text()
    for change in (
        {"kind": "numeric", "dtype": "int64", "low": "9", "high": "1"},
        {"kind": "numeric", "dtype": "int64", "low": "9", "high": ""},
        {"kind": "heap", "dtype": "int64"},
        {"kind": "numeric", "dtype": "list"},
    ):
        with pytest.raises(InputError):
            session.edit_column("age", **change)
    assert session.state.schema_path.read_text() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "magic"},
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"delta": 1},
        {"rows": 0},
        {"name": "../up"},
        {"method": "pate-acgan"},
        {"holdout": -0.1},
        {"holdout": 0.95},
        {"rows_are_public": True},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError):
        Settings(**{"rows": 100, **wrong})


def test_a_plan_reads_no_row(session):
    reviewed(session)
    Path("people.csv").unlink()
    job = session.plan(SETTINGS).wait()
    assert job.state == DONE, job.lines
    assert "sign interactions" in session.state.planned.lines[1]
    assert "epsilon = 5 at delta = 1e-05" in session.state.planned.lines[3]
    assert [error.column for error in session.state.planned.errors] == ["age", "begin", "town"]
    with pytest.raises(InputError, match="no ledger"):
        session.plan(Settings(rows=10, ledger=Path("gone.ledger")))
    assert session.fit().wait().state == FAILED  # for there is no table any more
    session.change(Edit(declare=("age",), source="another"))
    with pytest.raises(InputError, match="Plan the privacy cost first"):
        session.fit()


def test_a_drafted_schema_is_fitted_only_where_that_is_accepted(session):
    session.choose("people.csv")
    session.confirm()
    session.draft().wait()
    session.plan(SETTINGS).wait()
    assert "CONDITIONAL" in " ".join(session.state.planned.lines)
    job = session.fit().wait()
    assert job.state == FAILED and not Path("work/fit.checkpoint").exists()
    session.plan(Settings(rows=150, epsilon=5.0, accept_drafted=True)).wait()
    assert session.fit().wait().state == DONE, session.job.lines
    assert session.state.model.certificate()["conditional"]


@pytest.mark.slow
def test_the_whole_way(session, folder):
    reviewed(session)
    session.plan(SETTINGS).wait()
    assert session.fit().wait().state == DONE, session.job.lines
    session.make_key()
    assert session.draw(120, session.state.key).wait().state == DONE, session.job.lines
    assert session.evaluate(target="town").wait().state == DONE, session.job.lines
    assert "not authenticated" not in " ".join(session.state.summary)
    with pytest.raises(InputError, match=r"answers are missing: description, curators, use"):
        session.release("out", {"name": "x"})
    done = session.release("out", ANSWERS).wait()
    assert done.lines == ["Release: out", "Verified: authenticated"]
    assert session.release("out", ANSWERS).wait().state == FAILED
    released = sorted(p.name for p in Path("out").iterdir())
    assert {"privacy-statement.html", "schema.json", "fit-synthetic.csv"} <= set(released)
    assert Schema.load(session.state.schema_path).drafted == ()
    certificate = json.loads(Path("work/fit-synthetic.csv.certificate.json").read_text())
    unchanged = certificate["public"]["unchanged_from_draft"]
    assert "nulls" in unchanged["age"] and not {"low", "high", "dtype"} & set(unchanged["age"])
    assert "declared, unchanged from a draft of the rows" in certificate["statement"]
    page = Path("out/privacy-statement.html").read_text()
    assert "declared, unchanged from a draft of the rows" in page


@pytest.mark.slow
def test_a_cancelled_fit_keeps_its_charge_and_is_resumed(session):
    reviewed(session)
    ledger = Path("project.ledger")
    ProjectLedger.create(ledger, epsilon=8.0, delta=1e-5)
    session.plan(Settings(rows=150, epsilon=5.0, ledger=ledger)).wait()
    begun = threading.Event()
    step = Job.step

    def watched(job, stage, done, total):
        if done == 2:
            begun.set()
            job.cancel()
        step(job, stage, done, total)

    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(Job, "step", watched)
        job = session.fit().wait()
    assert begun.is_set() and job.state == CANCELLED, job.lines
    used = ProjectLedger.read(ledger).share
    assert job.lines[0].startswith("Cancelled. It claims epsilon=5, that of its whole plan")
    assert f"project.ledger counts the uses that were charged, and {used:.1%}" in job.lines[0]
    assert used > 0.1 and session.state.model is None and Path("work/fit.checkpoint").is_dir()
    job = session.fit().wait()
    assert job.state == DONE, job.lines
    assert ProjectLedger.read(ledger).share == used and len(ProjectLedger.read(ledger).runs()) == 1


@pytest.mark.slow
def test_rows_are_kept_apart_from_the_fit_and_used_by_the_report(session):
    reviewed(session)
    session.plan(SETTINGS).wait()
    assert session.fit().wait().state == DONE, session.job.lines
    files = Path("work/fit-train-25.csv"), Path("work/fit-holdout-25.csv")
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    schema = session.state.schema
    train, holdout = (read_table(file, schema) for file in files)
    assert 10 < len(holdout) < 70 and len(train) + len(holdout) == 150
    assert are_parts(read_table("people.csv", schema), [train, holdout])
    written = [file.read_bytes() for file in files]
    session.draw(120, None).wait()
    assert session.evaluate().wait().state == DONE, session.job.lines
    rows = json.loads(Path("work/fit-report/metrics.json").read_text())["evaluation"]["rows"]
    assert (rows["train"], rows["holdout"]) == (len(train), len(holdout))
    assert session.state.picture.alt

    # A second fit of that name reads the same rows; one of another table does not.
    again = Session(Path("work"))
    again.choose("people.csv")
    again.confirm()
    again.take_schema("work/schema.json")
    again.plan(SETTINGS).wait()
    assert again.fit().wait().state == DONE, again.job.lines
    assert [file.read_bytes() for file in files] == written
    read_table("people.csv", schema)[1:].to_csv("people.csv", index=False)
    job = again.fit().wait()
    assert job.state == FAILED or [file.read_bytes() for file in files] != written


def test_a_fit_of_all_rows_keeps_none_apart(session):
    reviewed(session)
    session.plan(Settings(rows=150, epsilon=5.0, holdout=0)).wait()
    assert session.state.holdout is None and session.state.training == (Path("people.csv"), {})
    assert session.fit().wait().state == DONE, session.job.lines


def test_a_fit_is_cancelled_before_it_reads_a_row(session, monkeypatch):
    reviewed(session)
    session.plan(SETTINGS).wait()
    from tabsynth.app import session as module

    def slow(*args, **options):
        session.cancel()
        return "never fitted"

    monkeypatch.setattr(module, "read_table", slow)
    job = session.fit().wait()
    assert job.state == CANCELLED and job.lines == ["Cancelled before anything was charged."]
    assert not Path("work/fit.checkpoint").exists()


def test_a_private_draft_counts_in_the_fit(session):
    session.choose("people.csv")
    session.confirm()
    draft_private(page_server.people(), 20.0).save("drafted.json")
    session.take_schema("drafted.json")
    assert {view.provenance for view in session.state.columns()} == {"released"}
    assert session.plan(Settings(rows=150, epsilon=30.0)).wait().state == DONE, session.job.lines


def test_jobs_one_at_a_time_and_their_errors(session):
    go, handlers = threading.Event(), list(logging.getLogger("tabsynth").handlers)

    def waiting(job):
        logging.getLogger("tabsynth.test").warning("beware of\nlines")
        go.wait(20)
        return ["done"]

    job = session._start("Wait", waiting)
    with pytest.raises(InputError, match="Wait is still running"):
        session.choose("people.csv")
    go.set()
    assert job.wait().lines == ["done"] and job.warnings == ["beware of lines"]
    assert logging.getLogger("tabsynth").handlers == handlers

    def problems(job):
        raise TableError("people.csv", ["one", "two"], "first")

    def mistake(job):
        raise ZeroDivisionError("a value of the rows")

    assert Job("P", problems).start().wait().lines == [
        *("first", "In all, people.csv has 2 problems:", "- one", "- two"),
    ]
    assert Job("M", mistake).start().wait().lines == [
        "M failed: ZeroDivisionError. The terminal has more."
    ]
    running = Job("Fit", lambda job: [])
    assert (running.progress, running.share) == ("Fit: running.", 0)
    running.step("fit the generator", 37, 150)
    assert running.progress == "Fit: fit the generator, 25%."
    running.cancel()
    assert running.progress == "Fit ends at its next step."
    stopped = Job("S", lambda job: [job.step("s", 1, 2) or "went on"])
    stopped.cancel()
    assert stopped.start().wait().state == CANCELLED


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("the budget is too small: raise epsilon=, or ask for less.", "raise ε, or ask for less."),
        (
            "is the separator right? Name it with sep= (sep=',' if there is one column).",
            "Name it with “Separator” (',' if there is one column).",
        ),
        (
            "write Parquet, or use formulas='escape' to",
            "or use tabsynth sample --formulas escape to",
        ),
        ("The certificate claims epsilon=1.5, delta=1e-05", "claims epsilon=1.5, delta=1e-05"),
    ],
)
def test_messages_at_the_page_name_no_parameters_of_python(message, said):
    (line,) = page_lines(message)
    assert line.endswith(said)


def test_names_and_values_arrive_as_they_are(session):
    table = page_server.people().rename(columns={"town": "to wn; rm 'x'"})
    table.to_csv("people.csv", index=False)
    session.choose("people.csv")
    session.confirm()
    session.draft().wait()
    session.edit_column(
        *("to wn; rm 'x'",), kind="categorical", dtype="str", values='"a, b","$(x)",Zzyzx,\'q'
    )
    column = Schema.load(session.state.schema_path)["to wn; rm 'x'"]
    assert column.categories == ("a, b", "$(x)", "Zzyzx", "'q")
    assert session.state.columns()[-1].values == '"a, b",$(x),Zzyzx,\'q'
