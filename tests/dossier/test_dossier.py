"""A dossier has what its standards ask for, says what the certificate says, and is verified offline."""

import hashlib
import html
import json
import math
import re
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import yaml
from command_lines import refused, run
from dossiers import ANSWERS, SCHEMA, certified, frame, linked, reported, write_answers
from markupsafe import escape
from scipy.stats import norm

import tabsynth
from tabsynth import (
    Categorical,
    MargNet,
    Numeric,
    Schema,
    evaluate_private,
    read_table,
    release,
    verify,
)
from tabsynth.dossier.answers import QUESTIONS, Answers, check_answers
from tabsynth.dossier.checking import FORMAT, facts, verify_dossier
from tabsynth.dossier.codebooks import ddi
from tabsynth.dossier.making import SUMS, checksums
from tabsynth.dossier.material import Table
from tabsynth.errors import FileFormatError
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.accounting.attackers import rounded_up
from tabsynth.privacy.certificate.certificate import code, read_certificate
from tabsynth.privacy.certificate.signing import make_keys, read_private
from tabsynth.privacy.certificate.verification import State
from tabsynth.schema.editing import Edit
from tabsynth.schema.importers import import_schema

DDI = "{ddi:codebook:2_5}"
# The order of the elements in the schema of DDI Codebook 2.5, of those that a codebook of ours has.
ORDER = {
    "codeBook": ("stdyDscr", "fileDscr", "dataDscr"),
    "stdyDscr": ("citation", "stdyInfo", "dataAccs"),
    "citation": ("titlStmt", "rspStmt", "prodStmt", "distStmt"),
    "prodStmt": ("producer", "copyright", "prodDate", "software"),
    "distStmt": ("contact", "distDate"),
    "stdyInfo": ("abstract", "sumDscr"),
    "sumDscr": ("geogCover", "anlyUnit", "universe", "dataKind"),
    "fileTxt": ("fileName", "dimensns", "fileType"),
    "dimensns": ("caseQnty", "varQnty"),
    "var": ("labl", "valrng", "catgry", "varFormat", "notes"),
    "catgry": ("catValu", "labl"),
    "useStmt": ("conditions", "disclaimer"),
}


@pytest.fixture(scope="module")
def dossier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return release(certified(folder / "made"), folder / "dossier")


def test_its_files(tmp_path, dossier):
    names = {path.name for path in dossier.iterdir()}
    assert names == {
        *("synthetic.csv", "synthetic.csv.certificate.json"),
        *("privacy-statement.html", "croissant.json", "codebook.xml"),
        *("schema.json", "release.yaml", "SHA256SUMS"),
    }
    again = release(dossier.parent / "made" / "synthetic.csv", tmp_path / "again")
    from_itself = release(dossier / "synthetic.csv", tmp_path / "from itself")
    for path in dossier.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
        assert path.read_bytes() == (from_itself / path.name).read_bytes(), path.name
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(check, cwd=dossier, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == len(names) - 1
    texts = "".join(path.read_text("utf-8") for path in dossier.iterdir())
    assert str(dossier.parent) not in texts  # no path of the machine


def test_it_is_verified(tmp_path, dossier):
    start = time.monotonic()
    found = verify_dossier(dossier)
    assert time.monotonic() - start < 10
    assert found.problems == () and found.state is State.NOT_AUTHENTICATED
    assert found.signature == "unsigned" and list(found.tables) == ["synthetic.csv"]
    with pytest.raises(FileFormatError, match="no dossier"):
        verify_dossier(tmp_path)


def test_croissant_is_valid(dossier):
    mlc = pytest.importorskip("mlcroissant", reason="validates Croissant")
    dataset = mlc.Dataset(jsonld=dossier / "croissant.json")
    assert not dataset.metadata.issues.errors
    records = [*dataset.records(record_set="synthetic.csv-rows")]
    assert len(records) == 30
    ages = [record["synthetic.csv-rows/age"] for record in records]
    assert ages == [*frame()["age"]]
    data = json.loads((dossier / "croissant.json").read_text("utf-8"))
    digest = hashlib.sha256((dossier / "synthetic.csv").read_bytes()).hexdigest()
    assert data["distribution"][0]["sha256"] == digest
    assert data["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert data["@context"]["prov"] == "http://www.w3.org/ns/prov#"
    activity = data["prov:wasGeneratedBy"]
    assert activity["@type"] == "prov:Activity" and "margnet" in activity["prov:label"]
    assert activity["prov:used"]["@id"] == data["prov:wasDerivedFrom"]["@id"]
    agents = [agent["@type"] for agent in activity["prov:wasAssociatedWith"]]
    assert agents == ["prov:SoftwareAgent", "prov:Organization", "prov:Organization"]


def test_ddi_has_its_elements_in_their_order(dossier):
    root = ElementTree.parse(dossier / "codebook.xml").getroot()
    assert root.tag == f"{DDI}codeBook" and root.get("version") == "2.5"
    for element in root.iter():
        known = ORDER.get(element.tag.removeprefix(DDI))
        if known is not None:
            places = [known.index(child.tag.removeprefix(DDI)) for child in element]
            assert places == sorted(places), element.tag
    variables = [*root.iter(f"{DDI}var")]
    assert [v.get("name") for v in variables] == [*frame()]
    files = {f.get("ID") for f in root.iter(f"{DDI}fileDscr")}
    assert {v.get("files") for v in variables} == files == {"F1"}
    missing = [c for c in variables[5].iter(f"{DDI}catgry") if c.get("missing") == "Y"]
    assert [c.find(f"{DDI}catValu").text for c in missing] == ["-8"]
    assert root.find(f".//{DDI}caseQnty").text == "30"


def test_ddi_keeps_the_names_of_columns(tmp_path):
    """Spaces of all kinds, quotes and markup; a character that XML does not have is replaced."""
    table = Table(
        file=tmp_path / "t.csv",
        verification=SimpleNamespace(certificate={"table": {"rows": 3, "sha256": ""}}),
        header=('a\tb\n"c&<\x01',),
        schema=SCHEMA,
    )
    material = SimpleNamespace(
        answers=check_answers(ANSWERS, "answers", tmp_path),
        certificate={"created": "2026-11-25", "versions": {}},
        statement="s",
        tables=[table],
    )
    (variable,) = ElementTree.fromstring(ddi(material).encode()).iter(f"{DDI}var")
    assert variable.get("name") == 'a\tb\n"c&<\ufffd'


def test_the_codebook_says_what_the_schema_says(dossier):
    """Our own importer, which was written for codebooks of others, reads it."""
    drop = frozenset({"seen", "mrn", "flag", "odd"})
    read = import_schema(dossier / "codebook.xml", Edit(drop=drop))
    for column in read.columns:
        stated = SCHEMA[column.name]
        if column.categories and stated.categories:
            assert [*map(str, column.categories)] == [*map(str, stated.categories)]
        elif column.kind == "numeric" and not stated.categories:
            assert (column.low, column.high) == (stated.low, stated.high)
    assert {c.name for c in read.columns} >= {"sex", "age", "job level", "income"}
    assert read["age"].description == "Years."


def test_the_statement_says_what_the_certificate_says(dossier):
    page = (dossier / "privacy-statement.html").read_text("utf-8")
    certificate = read_certificate(dossier / "synthetic.csv.certificate.json")
    text = html.unescape(re.sub(r"<[^>]+>", " ", page))
    assert certificate["statement"] in text and "Office <B>" in text
    headings = [html.unescape(h) for h in re.findall(r"<h2>\d\. (.*?)</h2>", page)]
    words = ("unit of privacy", "ε and δ", "implementation", "trust model")
    places = [next(i for i, h in enumerate(headings) if word in h) for word in words]
    assert places == sorted(places) == [0, 1, 2, 3]
    bounds = certificate["attacker"]
    assert f"{bounds['advantage']:.2g}"[:4] in text
    stated = float(re.search(r"The threshold is 0\.9 / ([\d.]+), rounded down", page)[1])
    assert bounds["advantage"] <= stated < 1.01 * bounds["advantage"]
    threshold = int(0.9 / stated) + 1
    assert f"as if counts below\n  <strong>{threshold}</strong> were hidden" in page
    assert "<script" not in page and "http-equiv" in page
    assert not re.search(r'(src|href)="(?!#)', page), "it loads nothing"
    # 10% before: afterwards at most 10% times the odds, as a probability.
    most = 100 * bounds["odds"] / (bounds["odds"] + 9)
    row = re.search(r'<th scope="row">10%</th><td>([\d.]+)%</td><td>([\d.]+)%</td>', page)
    assert row is not None and 0 <= float(row[1]) - most < 0.1001
    least = 100 / (1 + 9 * bounds["odds"])
    assert 0 <= least - float(row[2]) < 0.1001


def test_a_published_report_is_added_up(tmp_path):
    table, certificate, report = reported(tmp_path)
    dossier = release(table, tmp_path / "dossier")
    total = facts(verify_dossier(dossier))
    assert total["epsilon"] == pytest.approx(certificate["epsilon"] + report.evaluation.epsilon)
    assert total["delta"] == pytest.approx(1.1e-5)
    page = (dossier / "privacy-statement.html").read_text("utf-8")
    # All Gaussians together: σ = 4/√2 and 10/√2.
    together = 2 * norm.cdf(math.sqrt(2 / 16 + 2 / 100) / 2) - 1
    assert f"<strong>{rounded_up(together)}</strong>" in page
    page = (dossier / "report.html").read_text("utf-8")
    assert "Distance &lt;of&gt; columns" in page and "somebody left" not in page
    assert "the sum, for budgets" in (dossier / "privacy-statement.html").read_text("utf-8")
    assert verify_dossier(dossier).problems == ()


COST = re.compile(r"ε = ([\d.]+)|\(([\d.]+), [\d.e-]+\)-differential")


def first_costs(dossier, *key):
    """The first ε that each text of a dossier states, and the last that `verify` prints."""
    page = (dossier / "privacy-statement.html").read_text("utf-8")
    croissant = json.loads((dossier / "croissant.json").read_text("utf-8"))
    printed = run("verify", dossier, *key, cwd=dossier.parent).stdout
    texts = {
        "banner": page.split("<header>")[1],
        "section 2": page.split("<h2>2.")[1],
        "croissant": croissant["prov:wasGeneratedBy"]["prov:label"],
        "codebook": (dossier / "codebook.xml").read_text("utf-8"),
        "verify": printed,
        "last line": printed.splitlines()[-1],
    }
    stated = {name: COST.search(html.unescape(text)) for name, text in texts.items()}
    return {name: float(match[1] or match[2]) for name, match in stated.items()}


@pytest.mark.slow
@pytest.mark.parametrize("ledger", [True, False])
def test_the_total_comes_first(tmp_path, monkeypatch, ledger):
    """Of a table and figures that are charged apart, every text first states what both cost together."""
    monkeypatch.chdir(tmp_path)
    schema = Schema(
        [
            Categorical(name="sex", dtype="str", categories=("f", "m")),
            Numeric(name="age", dtype="int64", low=0, high=99),
        ]
    )
    real = frame(200)[["sex", "age"]]
    make_keys("a.key")
    schema.save("schema.json")
    path = None
    if ledger:
        ProjectLedger.create("l", epsilon=1.2, composition="gaussian")
        path = "l"
    model = MargNet(schema, epsilon=1.0).fit(real, ledger=path)
    model.sample_to("synthetic.csv", 100)
    certificate = verify("synthetic.csv")
    figures = evaluate_private(
        real,
        read_table("synthetic.csv", schema),
        schema=schema,
        epsilon=0.4,
        certificate=certificate,
        ledger=path,
    )
    Path("report").mkdir()
    figures.to_json("report/metrics.json")
    write_answers(tmp_path, report="report")
    folder = release("synthetic.csv", "dossier", sign=read_private("a.key"))
    total = 1.2 if ledger else 1.4
    costs = first_costs(tmp_path / folder, "--key", "a.key.pub")
    assert costs == dict.fromkeys(costs, pytest.approx(total, abs=0.005))
    found = verify_dossier(folder, "a.key.pub")
    assert found.material is not None and found.material.statement.startswith("Private: (1.")
    facts = json.loads(run("verify", folder, "--json", cwd=tmp_path, code=4).stdout)
    assert facts["epsilon"] == pytest.approx(total, abs=0.005)
    assert facts["attacker"]["odds"] > facts["tables"]["synthetic.csv"]["attacker"]["odds"]
    # The published report is a text of several charged releases too.
    assert (COST.search(figures.to_dict()["statement"])[2] == "1.2") is ledger
    assert ("All fits and reports" in figures.to_dict()["statement"]) is ledger
    if ledger:
        shown = run("ledger", "show", "l", cwd=tmp_path).stdout
        assert COST.search(shown)[2] == "1.2"


def test_a_statement_of_release_0_2_is_accepted_and_a_forged_one_is_not(tmp_path):
    """It had the claim of the table in its banner, and the total in its section 2."""
    table, certificate, _ = reported(tmp_path)
    dossier = release(table, tmp_path / "dossier")
    total = verify_dossier(dossier).material.statement
    path = dossier / "privacy-statement.html"
    page = path.read_text("utf-8").replace(code()["sha256"], "0" * 64)

    def written(banner, before=False):
        changed = page.replace(escape(total), escape(banner))
        path.write_text(changed.replace(FORMAT, "") if before else changed, "utf-8")
        (dossier / SUMS).write_text(checksums(dossier), "utf-8")
        return verify_dossier(dossier).problems

    assert escape(total) in page
    assert FORMAT in page and written(total) == ()
    assert written(certificate["statement"], before=True) == ()
    forged = total.replace("(", "(0.", 1)
    for banner, before in ((certificate["statement"], False), (forged, False), (forged, True)):
        (problem,) = written(banner, before)
        assert "lacks the text" in problem


def test_linked_tables(tmp_path):
    dossier = release(linked(tmp_path / "tables"), tmp_path / "dossier")
    assert verify_dossier(dossier).problems == ()
    page = (dossier / "privacy-statement.html").read_text("utf-8")
    assert "one row of table people" in page and "weaker guarantee, which" not in " ".join(
        page.split()
    )
    mlc = pytest.importorskip("mlcroissant", reason="validates Croissant")
    dataset = mlc.Dataset(jsonld=dossier / "croissant.json")
    rows = [*dataset.records(record_set="visits.csv-rows")]
    assert [row["visits.csv-rows/person"] for row in rows] == [1, 1, 2]


@pytest.mark.parametrize("name", ["synthetic.parquet", "synthetic.tsv", "synthetic.csv.gz"])
def test_other_formats(tmp_path, name):
    dossier = release(certified(tmp_path / "made", name), tmp_path / "dossier")
    assert verify_dossier(dossier).problems == ()
    sets = json.loads((dossier / "croissant.json").read_text("utf-8")).get("recordSet", [])
    assert bool(sets) is not name.endswith(".gz")


def test_batches_that_were_sampled(tmp_path):
    """The bounds follow from the curve of a subsampled mechanism; the other accountant is PRV."""
    table = certified(tmp_path / "made", sampled=True, method="dp-wgan")
    dossier = release(table, tmp_path / "dossier")
    assert "privacy loss distribution" in (dossier / "privacy-statement.html").read_text("utf-8")
    assert verify_dossier(dossier).problems == ()


def test_signed_with_a_day_of_expiry(tmp_path):
    make_keys(tmp_path / "a.key")
    make_keys(tmp_path / "b.key")
    table = certified(tmp_path / "made")
    words = ("release", table, "-o", "dossier", "--sign", "a.key", "--expires", "2999-12-31")
    told = run(*words, cwd=tmp_path).stdout
    assert "verify dossier --key a.key.pub" in told
    done = run("verify", "dossier", "--key", "a.key.pub", cwd=tmp_path)
    assert done.stdout.splitlines()[-1].startswith("Private: (")
    assert "until: 2999-12-31" in done.stdout and "Attacker's advantage" in done.stdout
    assert "authenticated" in run("verify", "dossier", cwd=tmp_path, code=4).stdout
    facts = json.loads(run("verify", "dossier", "--json", cwd=tmp_path, code=4).stdout)
    assert facts["state"] == "not authenticated" and facts["tables"]["synthetic.csv"]["attacker"]
    refused("verify", "dossier", "--key", "b.key.pub", cwd=tmp_path, says="the key given is")
    # What was signed by somebody else is not signed over.
    signed = tmp_path / "dossier" / "synthetic.csv"
    assert "signature" in json.loads(
        (tmp_path / "dossier/synthetic.csv.certificate.json").read_text()
    )
    answers = write_answers(tmp_path, schema="made/schema.json")
    more = ("--answers", answers, "-o", "other")
    refused("release", signed, *more, "--sign", "b.key", cwd=tmp_path, says="sign with that key")
    release(signed, tmp_path / "same", answers=answers, sign=read_private(tmp_path / "a.key"))


def test_the_template_asks_every_question(tmp_path):
    table = certified(tmp_path / "made")
    (tmp_path / "made" / "release.yaml").unlink()
    refused("release", table, "-o", "dossier", cwd=tmp_path, says="--template")
    run("release", table, "--template", cwd=tmp_path)
    path = tmp_path / "made" / "release.yaml"
    data = yaml.safe_load(path.read_text("utf-8"))
    assert list(data) == list(QUESTIONS) and data["schema"] == "schema.json"
    needed = [name for name, (_, required) in QUESTIONS.items() if required]
    missing = [name for name in needed if name not in ("published", "schema")]
    says = f"answers are missing: {', '.join(missing)}"
    refused("release", table, "-o", "dossier", cwd=tmp_path, says=says)
    refused("release", table, "--template", cwd=tmp_path, says="not written over")
    assert set(Answers.__dataclass_fields__) == {*QUESTIONS, "folder"}


def test_the_reference_lists_every_question():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "release-file.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \|", page, re.MULTILINE)
    assert rows == [(name, "yes" if needed else "no") for name, (_, needed) in QUESTIONS.items()]


def test_in_python(tmp_path):
    table = certified(tmp_path / "made")
    answers = {**ANSWERS, "schema": str(tmp_path / "made" / "schema.json")}
    dossier = tabsynth.release(str(table), str(tmp_path / "dossier"), answers=answers)
    assert verify_dossier(dossier).problems == ()
    assert Schema.load(dossier / "schema.json") == SCHEMA
