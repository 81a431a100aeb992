"""Files with facts of private rows are for their owner alone; files for publication have the mode that the umask gives."""

import ast
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from tabsynth import LinkedSchema, MargNet, Schema, draft_private, write_table
from tabsynth._files import replacing, write_bytes, write_text
from tabsynth.evaluation.publishing import PrivateEvaluation
from tabsynth.report import Report
from tabsynth.report.report import VIEWS
from tabsynth.schema import Column, TableKeys
from tabsynth.synthesizers.method import write_model

PACKAGE = Path(__file__).parents[1] / "tabsynth"
OWNER, USUAL = 0o600, 0o644
WRITES = [
    "replacing",
    "write_text",
    "write_durably",
    "write_bytes",
    "copyfile",
    "to_parquet",
    "TemporaryFile",
]
# Every place of the package that writes a file. A new one needs a line here, and its test below if it may be confidential.
CONFIDENTIAL = {
    ("report/report.py", "_write"),
    ("schema/schema.py", "save"),
    ("schema/linked.py", "save"),
    ("synthesizers/method.py", "write_model"),
    ("synthesizers/sampling.py", "stream_to_parquet"),
    ("tables/files.py", "write_table"),
}
OWNER_ALWAYS = {  # a descriptor that is opened with mode 0600, with tests beside those of the module
    ("app/server.py", "open_browser"),
    ("encoding/rows.py", "store_records"),
    ("privacy/certificate/signing.py", "make_keys"),
    ("training/checkpoint.py", "finish"),
    ("training/checkpoint.py", "write_durably"),
    ("training/checkpoint.py", "write_index"),
    ("training/checkpoint.py", "write_state"),
}
PUBLISHED = {
    ("app/session.py", "work"): "the answers of a release",
    ("auditing/outcomes.py", "write_json"): "an audit of public tables",
    ("dossier/making.py", "release"): "a release dossier",
    ("dossier/making.py", "_write_json"): "a release dossier",
    ("dossier/making.py", "write_template"): "questions",
    ("privacy/certificate/certificate.py", "_write"): "a certificate",
}
TEMPORARY = {  # within a file or folder of the lines above, or one of mode 0700 that is removed
    ("_files.py", "write_text"),
    ("_files.py", "write_bytes"),
    ("_files.py", "_write_elsewhere"),
    ("tables/delimited.py", "open_packed"),
}


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def modes(write, folder):
    """The modes of a new file, and of one that takes the place of a file that everybody may read."""
    new, old = folder / "new", folder / "old"
    old.write_text("")
    old.chmod(0o644)
    new.unlink(missing_ok=True)
    write(new)
    write(old, overwrite=True)
    return {mode(new), mode(old)}


def writers():
    """(module, function) of every call of the package that writes a file."""

    def visit(node, module, function):
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else None
            if isinstance(child, ast.Call):
                called = child.func
                called = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
                words = [*child.args, *(k.value for k in child.keywords)]
                texts = [w.value for w in words if isinstance(w, ast.Constant)]
                opened = called == "open" and (
                    any(t in ("w", "wb", "a", "ab", "x", "xb") for t in texts)
                    or "O_CREAT" in ast.unparse(child)
                )
                if called in WRITES or opened:
                    yield module, function
            yield from visit(child, module, name or function)

    for path in PACKAGE.rglob("*.py"):
        yield from visit(ast.parse(path.read_text("utf-8")), str(path.relative_to(PACKAGE)), "")


def test_every_writer_is_known():
    assert set(writers()) == CONFIDENTIAL | OWNER_ALWAYS | set(PUBLISHED) | TEMPORARY


@pytest.mark.parametrize("confidential", [True, False])
def test_the_mode_of_a_file(tmp_path, confidential):
    def write(path, overwrite=False):
        with replacing(path, overwrite=overwrite, confidential=confidential) as temporary:
            assert mode(temporary) == OWNER  # nobody else may read it while it is written either
            temporary.write_text("x")

    expected = {OWNER if confidential else USUAL}
    assert modes(write, tmp_path) == expected
    write = partial(write_text, text="x", confidential=confidential)
    assert modes(write, tmp_path) == expected
    assert (
        modes(partial(write_bytes, content=b"x", confidential=confidential), tmp_path) == expected
    )


@pytest.mark.parametrize("kind", VIEWS)
def test_reports_with_exact_figures(tmp_path, monkeypatch, kind):
    view = SimpleNamespace(page=lambda: "x", title="x", sentences=list, tables=list, document=dict)
    monkeypatch.setitem(VIEWS, kind, lambda _: view)
    made = Report(object.__new__(kind))
    expected = {USUAL if kind is PrivateEvaluation else OWNER}
    assert modes(made.to_html, tmp_path) == expected
    assert modes(made.to_json, tmp_path) == expected


def column(provenance):
    return Schema(
        [
            Column(
                name="job",
                kind="categorical",
                dtype="str",
                categories=("a", "b"),
                provenance=provenance,
            )
        ]
    )


@pytest.mark.parametrize("provenance", ["declared", "drafted"])
def test_drafted_schemas(tmp_path, provenance):
    schema = column(provenance)
    expected = {OWNER if provenance == "drafted" else USUAL}
    assert modes(schema.save, tmp_path) == expected
    keys = {
        "homes": TableKeys(key="home"),
        "people": TableKeys(parent="homes", parent_key="home", max_children=2),
    }
    linked = LinkedSchema({"homes": column("declared"), "people": schema}, keys)
    assert modes(linked.save, tmp_path) == expected


@pytest.mark.parametrize(
    ("epsilon", "seed", "mode"),
    [(20.0, None, USUAL), (float("inf"), None, OWNER), (20.0, 1, OWNER)],
)
def test_schemas_that_a_draft_released(tmp_path, epsilon, seed, mode):
    """Without noise, or with noise that the seed gives again, they have exact facts of the rows."""
    table = pd.DataFrame({"job": ["a", "b"] * 200, "age": range(400)})
    schema = draft_private(table, epsilon, random_state=seed)
    assert schema.confidential is (mode == OWNER)
    assert modes(schema.save, tmp_path) == {mode}


def fitted(epsilon, seed=None, provenance="declared"):
    table = pd.DataFrame({"job": ["a", "b"] * 20})
    model = MargNet(
        column(provenance), epsilon=epsilon, random_state=seed, accept_drafted_domain=True
    )
    return model.fit(table)


@pytest.mark.parametrize(
    ("facts", "private"),
    [
        ({"epsilon": 1.0}, True),
        ({"epsilon": float("inf")}, False),
        ({"epsilon": 1.0, "seed": 1}, False),
        ({"epsilon": 1.0, "provenance": "drafted"}, False),
    ],
)
def test_models_and_tables_that_claim_no_privacy(tmp_path, monkeypatch, facts, private):
    model = fitted(**facts)
    expected = {USUAL if private else OWNER}
    assert modes(model.save, tmp_path) == expected
    table = model.sample(30)
    for number, suffix in enumerate((".csv", ".parquet")):
        path = tmp_path / f"{number}{suffix}"
        model.sample_to(path, 30)
        assert {mode(path)} == expected
        assert mode(path.with_name(f"{path.name}.certificate.json")) == USUAL
        write_table(table, path, overwrite=True)
        assert {mode(path)} == expected
    monkeypatch.setattr("tabsynth.synthesizers.estimator.STREAMED", 10)
    model.sample_to(tmp_path / "parts.parquet", 30)
    assert {mode(tmp_path / "parts.parquet")} == expected


def test_a_file_of_weights(tmp_path):
    for confidential, expected in ((True, OWNER), (False, USUAL)):
        path = tmp_path / str(confidential)
        write_model(path, {}, {"w": torch.zeros(1)}, confidential=confidential)
        assert mode(path) == expected


def test_a_table_of_a_user_has_the_usual_mode(tmp_path):
    table = pd.DataFrame({"a": [1]})
    table.attrs["certificate"] = SimpleNamespace()
    write_table(table, tmp_path / "t.csv")
    assert mode(tmp_path / "t.csv") == USUAL
