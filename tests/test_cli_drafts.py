"""The command line on a hospital's table: no identifier leaves, and a draft's claim is conditional."""

import json

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")

ROWS = 3_000
IDENTIFIERS = ("encounter_id", "mrn", "email", "name", "telephone", "born", "token", "remark")
ORDINARY = ("sex", "age", "ward", "diagnosis", "income", "bmi", "visits", "readmitted")


def hospital():
    rng = np.random.default_rng(0)
    person = [f"{rng.choice(['Ann', 'Bo', 'Cem'])} Q{i:04}x" for i in range(ROWS)]
    days = pd.Timestamp("1930-01-01") + pd.to_timedelta(rng.integers(0, 30_000, ROWS), unit="D")
    hexes = [rng.bytes(16).hex() for _ in range(ROWS)]
    return pd.DataFrame(
        {
            "encounter_id": rng.choice(10**8, ROWS, replace=False) + 10**8,
            "mrn": [f"M{100_000 + i}" for i in rng.permutation(ROWS)],
            "email": [f"{text.replace(' ', '.')}@mail.example" for text in person],
            "name": person,
            "telephone": [f"(555) {100 + n % 7}-{n:04}" for n in range(ROWS)],
            "born": days.strftime("%d.%m.%y"),
            "token": ["-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])) for h in hexes],
            "remark": [f"In pain for {i} days, seen by nurse {i % 77}" for i in range(ROWS)],
            "sex": rng.choice(["f", "m"], ROWS),
            "age": rng.integers(0, 97, ROWS),
            "ward": rng.choice(["north", "south", "burns"], ROWS, p=[0.6, 0.399, 0.001]),
            "diagnosis": [
                *(f"R{i % 45}" for i in range(90)),
                *rng.choice(["E11", "I10"], ROWS - 90),
            ],
            "income": np.round(rng.lognormal(10, 0.8, ROWS)),
            "bmi": rng.normal(27, 4, ROWS).round(1),
            "visits": rng.poisson(1.2, ROWS),
            "readmitted": rng.choice([0, 1], ROWS),
        }
    )


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    """A folder with the table and its draft, and what the console said in ``draft.txt``."""
    path = tmp_path_factory.mktemp("hospital")
    hospital().to_csv(path / "patients.csv", index=False)
    done = run("schema", "draft", "patients.csv", "-o", "schema.json", cwd=path)
    (path / "draft.txt").write_text(done.stdout + done.stderr)
    return path


@pytest.fixture(scope="module")
def folder(draft):
    """The accepted fit of the draft and a sample, too, and their console in ``console.txt``."""
    words = ("-v", "fit", "patients.csv", "--schema", "schema.json", "--epsilon", 1)
    words = (*words, "--accept-drafted-domain", "--time-limit", "2s", "-o", "model.tabsynth")
    done = [run(*words, cwd=draft)]
    done.append(run("sample", "model.tabsynth", "-n", 500, "-o", "synthetic.csv", cwd=draft))
    (draft / "console.txt").write_text("".join(d.stdout + d.stderr for d in done))
    return draft


def check_nothing_leaves(path, *names):
    """No identifier, and no category of fewer than 10 rows, is a word of one of the files."""
    table = hospital()
    private = {str(value) for name in IDENTIFIERS for value in table[name]}
    counts = [table[name].value_counts() for name in ("ward", "diagnosis")]
    private |= {str(v) for result in counts for v, count in result.items() if count < 10}
    for name in names:
        text = (path / name).read_bytes().decode("latin-1")
        words = set(text.replace(",", '"').replace("\n", '"').replace("'", '"').split('"'))
        assert not private & words, name
        assert "@mail" not in text and "nurse" not in text and "burns" not in text, name


def test_the_draft_says_what_it_left_out_and_what_it_copied(draft):
    check_nothing_leaves(draft, "schema.json", "draft.txt")
    schema = json.loads((draft / "schema.json").read_text())
    assert tuple(item["name"] for item in schema["left_out"]) == IDENTIFIERS
    assert tuple(item["name"] for item in schema["columns"]) == ORDINARY
    lines = (draft / "draft.txt").read_text().splitlines()
    for name in IDENTIFIERS:
        (line,) = (line for line in lines if f"'{name}'" in line.partition(": left out, ")[0])
        assert line.startswith("  - '") and ": left out, " in line
    assert "8 columns, 8 left out" in lines[0]
    assert any("in 2 of the columns: 'ward', 'diagnosis'" in line for line in lines)
    assert "copied from the rows of a table" in schema["copied_from_private_rows"]
    for column in schema["columns"]:
        facts = {"low", "high"} if column["kind"] == "numeric" else {"categories"}
        if column["name"] == "sex":  # f and m are those of the catalogue
            facts = {"dtype", "nulls"}
            assert column["source"] == "catalogue: f, m"
        assert column["provenance"] == "drafted" and facts <= {*column["copied_from_private_rows"]}


@pytest.mark.slow
def test_no_identifier_and_no_rare_value_leaves(folder):
    names = ("model.tabsynth", "synthetic.csv", "synthetic.csv.certificate.json", "console.txt")
    check_nothing_leaves(folder, *names)
    assert tuple(pd.read_csv(folder / "synthetic.csv").columns) == ORDINARY


def test_the_claim_of_a_draft_is_conditional_wherever_it_is_made(folder):
    certificate = json.loads((folder / "synthetic.csv.certificate.json").read_text())
    assert certificate["conditional"] == list(ORDINARY) and certificate["private"] is False
    assert list(certificate)[:2] == ["format", "statement"]
    verified = run("verify", "synthetic.csv", cwd=folder, code=3).stdout.splitlines()
    assert verified[0].startswith(
        "CONDITIONAL: the claim holds only if what the schema says of columns 'sex'"
    )
    assert any("Its claim is CONDITIONAL" in line for line in verified)
    assert certificate["public"]["left_out"] == list(IDENTIFIERS)
    statement = certificate["statement"]
    assert statement.startswith("CONDITIONAL: (") and all(repr(n) in statement for n in ORDINARY)
    console = (folder / "console.txt").read_text()
    # Printed before the fit, and in its log because of -v.
    assert console.count("CONDITIONAL: this epsilon holds only if") == 2
    assert console.count(statement[:200]) == 2  # fit and sample
    assert "Private" not in console + json.dumps(certificate)
    words = ("plan", "--rows", ROWS, "--method", "margnet", "--epsilon", 1)
    assert "CONDITIONAL" in run(*words, "--schema", "schema.json", cwd=folder).stdout


@pytest.mark.slow
def test_reports_of_a_conditional_table_say_so_and_take_the_real_one(folder):
    words = ("evaluate", "--real", "patients.csv", "--synthetic", "synthetic.csv")
    words = (*words, "--schema", "schema.json")
    done = run(*words, "-o", "report", cwd=folder)
    assert "CONDITIONAL: ε holds only if" in done.stdout
    html = (folder / "report" / "report.html").read_text()
    assert html.count('<p class="conditional">CONDITIONAL: ') == 1 and "Private" not in html
    assert html.index("CONDITIONAL: ") < html.index("<nav")  # at the top
    done = run(*words, "-o", "published", "--epsilon", 0.5, cwd=folder)
    published = json.loads((folder / "published" / "metrics.json").read_text())
    assert published["statement"].startswith("CONDITIONAL: ")
    assert published["conditional"] == list(ORDINARY)
    html = (folder / "published" / "report.html").read_text()
    assert '<li class="conditional">CONDITIONAL: ' in html and "Private" not in html


def test_an_edited_or_older_draft_with_an_identifier_is_refused(draft):
    schema = json.loads((draft / "schema.json").read_text())
    del schema["left_out"], schema["copied_from_private_rows"]
    for name in ("mrn", "email", "remark"):
        values = sorted(set(hospital()[name]))
        column = {"name": name, "kind": "categorical", "dtype": "str", "categories": values}
        schema["columns"].append({**column, "provenance": "drafted"})
    (draft / "older.json").write_text(json.dumps(schema))
    words = ("fit", "patients.csv", "--schema", "older.json", "--epsilon", 1, "-o", "no.tabsynth")
    error = refused(
        *words,
        "--accept-drafted-domain",
        cwd=draft,
        says=["'mrn' (its name", "'email' (", "'remark' (it has more than 1,000 categories"],
    )
    assert "@mail" not in error and "nurse" not in error


IDENTIFIED = {  # of a number of a person: values under a column's name that says nothing
    "e-mails": lambda i: f"p{i}.x@mail.example",
    "record numbers": lambda i: f"M{100_000 + 7 * i}",
    "numbers": lambda i: 1_000 + 3 * i,
    "long numbers": lambda i: 10**8 + 7_919 * i,
    "names": lambda i: f"{'Ann' if i % 2 else 'Bo'} O'Q{'abcdefghij'[i % 10]}{'klmnopqrstuv'[i // 10 % 12]}{'wxyz'[i // 120 % 4]}t",
    "telephones": lambda i: f"+44 20 7{i:03} {4_000 + i}",
    "UUIDs": lambda i: f"{i:08x}-aaaa-4bbb-8ccc-{i:012x}",
    "NHS numbers": lambda i: f"943 {i:03} {1_000 + i}",
    "accounts": lambda i: f"DE{10 + i % 80} 3704 0044 0532 {1_000 + i} 00",
    "accounts without spaces": lambda i: f"GB{10 + i % 80}BARC2020153{1_000_000 + i}",
    "cards": lambda i: f"4000 1234 5678 {1_000 + i}",
    "addresses": lambda i: f"{i + 1} Long Street, Town",
    "addresses in German": lambda i: f"Lange Straße {i + 1}, 10115 Berlin",
    "places": lambda i: f"52.{100_000 + i},13.{200_000 + i}",
    "addresses of computers": lambda i: f"10.0.{i // 200}.{i % 200}",
    "texts": lambda i: f"In pain for {i} days, seen by nurse {i % 7}",
}  # fmt: skip


@pytest.mark.parametrize("rows_each", [1, 12])
def test_values_of_identifiers_are_not_drafted_whatever_the_column_is_called(rows_each, tmp_path):
    """One row a person, where nearly every row has a value of its own; and a dozen, where only the form tells."""
    people = np.tile(np.arange(400), rows_each)
    table = pd.DataFrame({"sex": np.where(people % 2, "f", "m"), "age": people % 90})
    kinds = [k for k in IDENTIFIED if rows_each == 1 or k not in ("numbers", "long numbers")]
    for number, kind in enumerate(kinds):
        table[f"q{number}"] = [IDENTIFIED[kind](i) for i in people]
    table.to_csv(tmp_path / "t.csv", index=False)
    said = run("schema", "draft", "t.csv", "-o", "s.json", cwd=tmp_path).stdout
    schema = json.loads((tmp_path / "s.json").read_text())
    assert [column["name"] for column in schema["columns"]] == ["sex", "age"]
    written = said + (tmp_path / "s.json").read_text()
    for kind in kinds:
        assert not any(f'"{IDENTIFIED[kind](i)}"' in written for i in range(400)), kind


def test_a_fit_refuses_drafted_values_of_identifiers(tmp_path):
    """All in one line, without a value, and whatever the columns are called and was accepted."""
    kinds = [k for k in IDENTIFIED if k not in ("numbers", "long numbers")]
    table = pd.DataFrame(
        {f"q{j}": [IDENTIFIED[k](i) for i in range(60)] for j, k in enumerate(kinds)}
    )
    table.assign(sex="f").to_csv(tmp_path / "t.csv", index=False)
    columns = [
        {
            "name": name,
            "kind": "categorical",
            "dtype": "str",
            "categories": sorted(set(table[name])),
        }
        for name in table
    ]
    columns.append({"name": "sex", "kind": "categorical", "dtype": "str", "categories": ["f", "m"]})
    schema = {
        "format": "tabsynth-schema/1",
        "columns": [c | {"provenance": "drafted"} for c in columns],
    }
    (tmp_path / "s.json").write_text(json.dumps(schema))
    error = refused("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "-o", "m",
                    "--accept-drafted-domain", cwd=tmp_path, says="identify people or records")  # fmt: skip
    for name in ("q0", "q1", "q2"):
        assert f"'{name}' (" in error
    assert f"and {len(kinds) - 3} more" in error or all(
        f"'q{j}' (" in error for j in range(len(kinds))
    )
    assert not (tmp_path / "m").exists() and "@" not in error


def test_tables_of_which_nothing_can_be_drafted(draft):
    hospital()[list(IDENTIFIERS)].to_csv(draft / "ids.csv", index=False)
    says = ["every column", "'encounter_id'"]
    refused("schema", "draft", "ids.csv", "-o", "none.json", cwd=draft, says=says)
    words = ("schema", "draft", "patients.csv", "-o", "none.json", "--min-count", 0)
    refused(*words, cwd=draft, says="--min-count")
