"""What no dossier is made of, and what no dossier may become: one line each, and nothing half-written."""

import json
import shutil

import pytest
from command_lines import refused, run
from dossiers import (
    ANSWERS,
    SCHEMA,
    certified,
    claim,
    frame,
    linked,
    published,
    reported,
    write_answers,
)

from tabsynth import Categorical, InputError, Schema, release
from tabsynth.dossier.answers import read_answers
from tabsynth.dossier.checking import verify_dossier
from tabsynth.dossier.making import SIGNATURE, SUMS, checksums
from tabsynth.errors import TabsynthError
from tabsynth.privacy.certificate.certificate import beside, certify, read_certificate, write_beside
from tabsynth.privacy.certificate.signing import make_keys, read_private, sign
from tabsynth.privacy.certificate.verification import verify


@pytest.fixture
def made(tmp_path):
    return certified(tmp_path / "made")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    table, _, _ = reported(folder)
    make_keys(folder / "a.key")
    release(table, folder / "dossier", sign=read_private(folder / "a.key"))
    return folder


@pytest.fixture
def dossier(whole, tmp_path):
    return shutil.copytree(whole / "dossier", tmp_path / "dossier")


def no(tmp_path, table, says, *more):
    return refused("release", table, "-o", "dossier", *more, cwd=tmp_path, says=says)


def test_without_a_certificate(tmp_path, made):
    beside(made).unlink()
    no(tmp_path, made, "no certificate beside it")
    no(tmp_path, tmp_path / "made", "no table with a certificate")
    no(tmp_path, tmp_path / "nowhere.csv", "is not there")


def test_an_edited_table(tmp_path, made):
    made.write_text(made.read_text("utf-8").replace("f,", "m,", 1), "utf-8")
    no(tmp_path, made, ["does not agree with its certificate", "SHA-256"])


def test_a_folder_that_is_there(tmp_path, made):
    (tmp_path / "dossier").mkdir()
    no(tmp_path, made, "is there already")
    refused("release", made, cwd=tmp_path, says="(-o)")
    refused("release", made, "--template", "-o", "x", cwd=tmp_path, says="leave out -o")


def test_a_fit_without_privacy(tmp_path):
    no(tmp_path, certified(tmp_path / "seeded", seeded=True), "claims no privacy")
    free = certified(tmp_path / "free", noise=False, method="dp-wgan", sampled=True)
    no(tmp_path, free, "claims no privacy")


def test_signatures(tmp_path, made):
    for name in ("a.key", "b.key"):
        make_keys(tmp_path / name)
    no(tmp_path, made, "not signed, and a key was given", "--key", "a.key.pub")
    certify(made, key=read_private(tmp_path / "b.key"))
    no(tmp_path, made, ["is signed by", "the key given is"], "--key", "a.key.pub")
    no(tmp_path, made, "sign with that key", "--sign", "a.key")
    no(tmp_path, made, "An expiry is of a signature", "--expires", "2999-01-01")
    no(tmp_path, made, "give a day to come", "--sign", "b.key", "--expires", "2001-01-01")


def test_an_expired_signature(tmp_path, made):
    """It was good when it was made; whoever signs anew gives another day."""
    make_keys(tmp_path / "a.key")
    key = read_private(tmp_path / "a.key")
    path = beside(made)
    data = {**json.loads(path.read_text("utf-8")), "expires": "2024-02-29"}
    path.write_text(json.dumps(sign(data, key)), "utf-8")
    for words in ((), ("--key", "a.key.pub")):
        no(tmp_path, made, "expired on 2024-02-29", *words)
    run("verify", made, "--key", "a.key.pub", cwd=tmp_path, code=2)
    refused("certify", made, "--key", "a.key", cwd=tmp_path, says="expired on 2024-02-29")
    past = ("certify", made, "--key", "a.key", "--expires", "2024-03-01")
    refused(*past, cwd=tmp_path, says="give a day to come")
    run("certify", made, "--key", "a.key", "--expires", "2999-01-01", cwd=tmp_path)
    assert verify(made, tmp_path / "a.key.pub").authenticated
    # The day is signed with the rest.
    edited = {**json.loads(path.read_text("utf-8")), "expires": "3999-01-01"}
    path.write_text(json.dumps(edited), "utf-8")
    assert "invalid" in verify(made).problems[0]
    path.write_text(json.dumps(sign({**data, "expires": "2026-13-01"}, key)), "utf-8")
    assert "no date" in verify(made).problems[0]


def test_an_expired_dossier(tmp_path, dossier, whole):
    key = read_private(whole / "a.key")
    data = json.loads((dossier / SIGNATURE).read_text("utf-8"))
    over = sign({**data, "expires": "2024-02-29"}, key)
    (dossier / SIGNATURE).write_text(json.dumps(over), "utf-8")
    words = ("verify", dossier, "--key", whole / "a.key.pub")
    refused_dossier(*words, cwd=tmp_path, says="expired on 2024-02-29")


def refused_dossier(*words, cwd, says):
    """Exit code 2 and one line of error, after what is known of the tables."""
    done = run(*words, cwd=cwd, code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: Dossier ") and says in line, line


def test_answers_that_are_missing_are_named_together(tmp_path, made):
    write_answers(made.parent, use=None, region="", justification="TODO: ask", access="?")
    no(tmp_path, made, "answers are missing: use, region, justification, access")
    wrong = {"published": "1/1/2026", "sector": "Energy", "purpose": "x", "curators": []}
    text = no(tmp_path, *(write_and(made, **wrong), "answers are missing: curators"))
    for part in ("'purpose' is no question", "day such as 2026-11-25"):
        assert part in text
    assert "sector" not in text  # a question of version 0.2


def write_and(table, **changes):
    write_answers(table.parent, **changes)
    return table


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a name and an answer on each line"),
        ("- a\n- b\n", "a name and an answer on each line"),
        ("name: a: b\n", "not valid YAML in line 1"),
        ("name: &a [1]\nuse: *a\n", "an alias"),
        ("name: !!python/object/apply:os.system [ls]\n", "not valid YAML"),
        ("[" * 3000, "nested more than 6 deep"),
        ("name: " + "- " * 3000, "not valid YAML"),
        ("- " * 3000, "nested more than 6 deep"),
        ('name: "\\x01"\n', "control character"),
        ("name: {a: b}\n", "name must be text"),
        ("name: true\n", "name must be text"),
        (f"name: {'x' * 6000}\n", "more than 5,000 letters"),
        (f"curators: [{'x, ' * 60}]\n", "more than 50 items"),
        ("x" * 200_000, "larger than 100,000 bytes"),
        (b"\xff\xfe\x00", "not valid YAML"),
    ],
)
def test_files_that_are_no_answers(tmp_path, made, text, says):
    path = made.parent / "release.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    no(tmp_path, made, says)
    with pytest.raises(TabsynthError):
        read_answers(path)


def test_another_schema(tmp_path, made):
    other = Schema([Categorical(name="sex", dtype="str", categories=("f", "m"))])
    other.save(made.parent / "schema.json", overwrite=True)
    no(tmp_path, made, "not the schema of the fit")
    (made.parent / "schema.json").unlink()
    no(tmp_path, made, "schema.json")


def test_reports_that_may_not_be_published(tmp_path, made):
    certificate = read_certificate(beside(made))
    write_answers(made.parent, report="report")
    no(tmp_path, made, ["published report", "No such file"])
    confidential = made.parent / "report"
    confidential.mkdir()
    (confidential / "metrics.json").write_text('{"format": "tabsynth-report/5"}', "utf-8")
    no(tmp_path, made, "no report that may be published")
    shutil.rmtree(confidential)
    published(confidential, {**certificate, "table": {"sha256": "0" * 64}})
    no(tmp_path, made, "the report of another table")
    shutil.rmtree(confidential)
    published(confidential, certificate, epsilon=0.01)
    no(tmp_path, made, ["claims epsilon=0.01", "its mechanisms give"])
    data = json.loads((confidential / "metrics.json").read_text("utf-8"))
    data["mechanisms"][0]["count"] = 1  # a figure and its baseline are two releases
    (confidential / "metrics.json").write_text(json.dumps({**data, "epsilon": 2.0}), "utf-8")
    no(tmp_path, made, "shows 2 noisy figures, and its mechanisms release 1")
    del data["metrics"]
    (confidential / "metrics.json").write_text(json.dumps(data), "utf-8")
    no(tmp_path, made, "not a complete published report")


def test_linked_tables_that_are_not_one_sample(tmp_path):
    folder = linked(tmp_path / "tables")
    path = beside(folder / "visits.csv")
    data = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**data, "created": "2020-01-01T00:00:00+00:00"}), "utf-8")
    no(tmp_path, folder, "certificates of different fits")
    path.unlink()
    no(tmp_path, folder, "visits has no certified file")


def test_conditional_claims_say_so_first(tmp_path):
    public = {"drafted": ["sex"], "declared": [n for n in frame() if n != "sex"]}
    table = certified(tmp_path / "made", public=public)
    dossier = release(table, tmp_path / "dossier")
    page = (dossier / "privacy-statement.html").read_text("utf-8")
    assert '<p class="conditional">CONDITIONAL: (' in page
    assert "CONDITIONAL" in run("verify", "dossier", cwd=tmp_path, code=3).stdout


def test_names_that_a_dossier_cannot_have(tmp_path):
    table = certified(tmp_path / "made", "privacy-statement.html.csv")
    release(table, tmp_path / "dossier")  # another name than that of the page
    hidden = certified(tmp_path / "hidden", ".hidden.csv")
    refused("release", hidden, "-o", "other", cwd=tmp_path, says="rename the file")


def test_a_dossier_that_was_changed(tmp_path, dossier, whole):
    assert verify_dossier(dossier, whole / "a.key.pub").authenticated
    for path in sorted(dossier.iterdir()):
        before = path.read_bytes()
        path.write_bytes(before.replace(b"e", b"f", 1))
        assert verify_dossier(dossier, whole / "a.key.pub").problems, path.name
        path.write_bytes(before)
        if path.name not in (SUMS, SIGNATURE):
            path.rename(tmp_path / "away")
            problems = verify_dossier(dossier).problems
            assert any(f"{path.name} is missing" in problem for problem in problems), path.name
            (tmp_path / "away").rename(path)
    (dossier / "real.csv").write_text("a\n1\n", "utf-8")
    refused_dossier("verify", dossier, cwd=tmp_path, says="'real.csv' is extra")
    (dossier / "real.csv").unlink()
    (dossier / SIGNATURE).unlink()
    words = ("verify", dossier, "--key", whole / "a.key.pub")
    refused_dossier(*words, cwd=tmp_path, says="not signed, and a key was given")
    assert verify_dossier(dossier).problems == ()


def changes(name, old, new):
    def change(folder):
        path = folder / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), "utf-8")

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changes("privacy-statement.html", "Private: (", "Private: (0"), "lacks the text"),
        (changes("privacy-statement.html", "2.", "3."), "not what follows from"),
        (changes("croissant.json", '"sha256": "', '"sha256": "0'), "is of other tables"),
        (changes("codebook.xml", 'name="age"', 'name="old"'), "other columns"),
        (changes("report.json", '"epsilon": 0.', '"epsilon": 0.0'), "its mechanisms give"),
        (changes("release.yaml", "Teaching", "Insurance"), "not what follows from"),
        (changes("schema.json", '"female"', '"woman"'), "not the schema of the fit"),
        (changes(SUMS, "  ", "  ../"), "which no dossier has"),
    ],
)
def test_files_that_contradict_each_other(dossier, change, says):
    """Also where whoever changed them wrote the checksums anew."""
    change(dossier)
    if "../" not in (dossier / SUMS).read_text("utf-8"):
        (dossier / SUMS).write_text(checksums(dossier), "utf-8")
    (dossier / SIGNATURE).unlink()
    problems = verify_dossier(dossier).problems
    assert len(problems) >= 1 and says in "; ".join(problems)


def test_a_stated_advantage_may_not_be_smaller(tmp_path, made):
    path = beside(made)
    data = json.loads(path.read_text("utf-8"))
    for name, value in (("advantage", 0.01), ("odds", 1.0), ("exception", 0.0)):
        edited = {**data, "attacker": {**data["attacker"], name: value}}
        path.write_text(json.dumps(edited), "utf-8")
        (problem,) = verify(made).problems
        assert f"states {name}=" in problem
    larger = {**data["attacker"], "advantage": 0.9, "odds": 1e6}
    path.write_text(json.dumps({**data, "attacker": larger}), "utf-8")
    assert verify(made).consistent
    del data["attacker"]  # as certificates of before
    path.write_text(json.dumps(data), "utf-8")
    found = verify(made)
    assert found.consistent and found.bounds is not None
    seeded = claim(SCHEMA, seeded=True, names=[*frame()])
    assert "attacker" not in seeded and "attacker" not in claim(SCHEMA, noise=False)
    write_beside({**seeded, "attacker": larger}, made, 30)
    assert "its epsilon is infinite, or the run was seeded" in verify(made).problems[0]


def test_nothing_is_left_behind(tmp_path, made, monkeypatch):
    """A write that fails leaves no folder."""
    monkeypatch.setattr("tabsynth.dossier.making.checksums", lambda folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        release(made, tmp_path / "dossier")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]
    with pytest.raises(InputError, match="use"):
        release(made, tmp_path / "dossier", answers={**ANSWERS, "use": None})
