"""No command and no function replaces a file unasked; what had a privacy cost is kept where a disk is full."""

import errno
import json
import os
import tempfile
from pathlib import Path

import command_lines as cl
import pytest
from typer.main import get_command

from tabsynth import InputError, MargNet, Schema, draft_private, load, read_table, write_table
from tabsynth.cli import app
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.method import read_model, write_model
from tabsynth.synthesizers.session import is_model_of

FIT = (
    "fit",
    "people.csv",
    "--schema",
    "schema.json",
    "--epsilon",
    1,
    "--rows",
    400,
    "--set",
    "steps=2",
)
# A command line of every command that writes to a path, and the files that it writes.
OUTPUTS = {
    "fit": ((*FIT, "-o", "new"), ["new"]),
    "fit --save-schema": ((*FIT, "-o", "m", "--save-schema", "new"), ["new"]),
    "sample": (
        ("sample", "model", "-n", 9, "-o", "new.csv"),
        ["new.csv", "new.csv.certificate.json"],
    ),
    "sample --implicates": (
        ("sample", "model", "--implicates", 2, "-n", 9, "-o", "new.csv"),
        ["new-1.csv", "new-2.csv", "new-2.csv.certificate.json"],
    ),
    "counts": (("counts", "model", "-o", "new.csv"), ["new.csv", "new.csv.certificate.json"]),
    "evaluate": (
        (
            "evaluate",
            "--real",
            "people.csv",
            "--synthetic",
            "people.csv",
            "--schema",
            "schema.json",
            "-o",
            "new",
        ),
        ["new/report.html", "new/metrics.json"],
    ),
    "audit": (
        (
            "audit",
            "--method",
            "margnet",
            "--epsilon",
            1,
            "--kind",
            "white-box",
            "--runs",
            20,
            "-o",
            "new",
        ),
        ["new/audit.json"],
    ),
    "demo": (("demo", "-o", "new"), ["new/model.tabsynth", "new/dp-wgan/metrics.json"]),
    "schema draft": (("schema", "draft", "people.csv", "-o", "new"), ["new"]),
    "schema import": (("schema", "import", "book.csv", "-o", "new"), ["new"]),
    "schema declare": (("schema", "declare", "schema.json", "--drop", "job", "-o", "new"), ["new"]),
}
SLOW = ("demo",)  # it is not run, only refused
TOLD = "is there already; name another file, or replace it with --overwrite."


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made")
    cl.make_people().to_csv(path / "people.csv", index=False, na_rep="N")
    cl.make_schema().save(path / "schema.json")
    book = "name,kind,dtype,nulls,values\nsex,categorical,str,no,f|m\n"
    (path / "book.csv").write_text(book)
    cl.run(*FIT, "-o", "model", cwd=path)
    return path


@pytest.fixture
def folder(made, tmp_path):
    for file in made.iterdir():
        os.link(file, tmp_path / file.name)
    return tmp_path


def test_every_command_that_writes_to_a_path_has_the_option():
    def commands(command, words=()):
        yield words, command
        for name, nested in getattr(command, "commands", {}).items():
            yield from commands(nested, (*words, name))

    options = {
        " ".join(words): {o for p in c.params for o in p.opts}
        for words, c in commands(get_command(app))
    }
    writing = {name for name, names in options.items() if "--out" in names}
    assert writing - {"release"} == {
        name for name, names in options.items() if "--overwrite" in names
    }
    # A dossier is a new folder.
    assert writing - {"release"} == {name.partition(" --")[0] for name in OUTPUTS}


@pytest.mark.parametrize(
    ("name", "file"), [(name, file) for name, (_, files) in OUTPUTS.items() for file in files]
)
def test_what_is_there_is_refused_before_anything_is_done(name, file, folder):
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("mine")
    cl.refused(*OUTPUTS[name][0], cwd=folder, says=[file, TOLD])
    assert (folder / file).read_text() == "mine"


@pytest.mark.parametrize("name", sorted(set(OUTPUTS) - {*SLOW}))
def test_what_is_there_is_replaced_if_asked(name, folder):
    words, files = OUTPUTS[name]
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("mine")
    cl.run(*words, "--overwrite", cwd=folder)
    assert all((folder / file).read_text("utf-8", "replace") != "mine" for file in files)


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_the_table_that_is_read_is_never_replaced(link, folder):
    before = (folder / "people.csv").read_bytes()
    link(folder / "people.csv", folder / "alias.csv")
    says = "is read by this command or written by it already; name another file."
    for out in ("people.csv", "./people.csv", "alias.csv"):
        cl.refused(*FIT, "-o", out, "--overwrite", cwd=folder, says=[Path(out).name, says])
        cl.refused("schema", "draft", "people.csv", "-o", out, "--overwrite", cwd=folder, says=says)
    cl.refused("sample", "model", "-n", 9, "-o", "people.csv", cwd=folder, says=TOLD)
    cl.refused(*FIT, "-o", "m", "--save-schema", "./m", cwd=folder, says=says)
    assert (folder / "people.csv").read_bytes() == before


def test_functions_replace_nothing_unasked(made, tmp_path):
    model, schema = load(made / "model"), Schema.load(made / "schema.json")
    table = model.sample(9)
    for write in (
        model.save,
        schema.save,
        lambda p, **how: write_table(table, p, **how),
        lambda p, **how: model.sample_to(p, 9, **how),
    ):
        path = tmp_path / "mine.csv"
        path.write_text("mine")
        with pytest.raises(
            InputError, match=r"mine\.csv is there already; .* replace it with overwrite=True\."
        ):
            write(path)
        assert path.read_text() == "mine"
        write(path, overwrite=True)
        assert path.read_bytes() != b"mine"
        Path(f"{path}.certificate.json").unlink(missing_ok=True)


@pytest.fixture
def full_disk(tmp_path, monkeypatch):
    """A folder whose disk is full, and the folder of temporary files, whose disk is not."""
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    write = Path.write_bytes

    def write_bytes(path, data):
        if spare not in path.parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    return spare


def test_a_model_is_kept_where_the_disk_is_full(made, tmp_path, full_disk):
    model = load(made / "model")
    with pytest.raises(
        InputError, match=r"Cannot write .*No space left on device\. It had a privacy cost"
    ) as error:
        model.save(tmp_path / "m")
    (kept,) = full_disk.rglob("m")
    assert str(kept) in str(error.value) and load(kept).certificate() == model.certificate()
    assert kept.parent.stat().st_mode & 0o777 == 0o700 and not (tmp_path / "m").exists()


def test_a_paid_fit_is_kept_where_the_disk_is_full(folder, full_disk):
    done = cl.run(*FIT, "-o", "m", cwd=folder, code=2)
    (kept,) = full_disk.rglob("m")
    assert f"it was written to {kept}; move it." in done.stderr and "Traceback" not in done.stderr
    assert load(kept).certificate()["epsilon"] <= 1 and not (folder / "m").exists()


def test_a_model_is_kept_where_its_path_came_to_be_during_the_fit(made, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "m").write_text("mine")
    with pytest.raises(InputError, match=r"is there already; .* It had a privacy cost"):
        load(made / "model").save(tmp_path / "m")
    assert (tmp_path / "m").read_text() == "mine" and len([*tmp_path.glob("tabsynth-*/m")]) == 1


def test_a_private_draft_is_kept_and_another_schema_is_not(made, tmp_path, full_disk):
    table = read_table(made / "people.csv")
    with pytest.raises(InputError, match="it was written to"):
        draft_private(table, 20.0).save(tmp_path / "s.json")
    assert len(json.loads(next(full_disk.rglob("s.json")).read_text())["columns"]) > 0
    with pytest.raises(InputError, match=r"No space left on device\.$"):
        Schema.load(made / "schema.json").save(tmp_path / "t.json")


def test_no_disk_has_space(made, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(OSError(28, "full")))
    (tmp_path / "m").write_text("mine")
    with pytest.raises(InputError, match="No temporary folder takes it either"):
        load(made / "model").save(tmp_path / "m")


def test_only_the_model_of_the_same_fit_is_replaced_by_a_resumed_one(made, tmp_path):
    config = MargNetConfig(components=5, steps=3)
    table, schema = read_table(made / "people.csv", cl.make_schema()), cl.make_schema()
    model = MargNet(schema, epsilon=1.0, rows=400, config=config)
    model.fit(table, checkpoint=tmp_path / "ck").save(tmp_path / "same")
    assert is_model_of(tmp_path / "ck", tmp_path / "same")
    assert not is_model_of(tmp_path / "ck", made / "model")
    assert not is_model_of(tmp_path / "ck", made / "people.csv")
    assert not is_model_of(tmp_path / "none", tmp_path / "same")
    facts, weights = read_model(made / "model")
    facts["facts"]["training"]["stopped"] = "time limit"
    write_model(tmp_path / "stopped", facts, weights)
    assert is_model_of(tmp_path / "ck", tmp_path / "stopped")


def test_a_folder_of_texts_is_one_of_linked_tables(folder):
    (folder / "tables").mkdir()
    cl.make_people().to_csv(folder / "tables" / "people.csv", index=False)
    words = ("fit", "tables", "--epsilon", 1, "-o", "m")
    cl.refused(*words, cwd=folder, says=["tables holds no .parquet file", "(--linked)"])
