"""A private fit without a schema at the command line: the issue's table of patients."""

import json

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run
from test_cli_drafts import IDENTIFIERS, hospital

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")


def test_two_commands_make_a_private_table_without_an_identifier(tmp_path):
    table = hospital()
    table.to_csv(tmp_path / "patients.csv", index=False)
    said = run("fit", "patients.csv", "--epsilon", 1, "-o", "m", "--save-schema", "s", cwd=tmp_path)
    assert "drafted privately" in said.stdout and "Private: (1, 1e-05)" in said.stdout
    run("sample", "m", "-n", 3000, "-o", "synthetic.csv", cwd=tmp_path)
    made = pd.read_csv(tmp_path / "synthetic.csv", dtype=str)
    assert not set(IDENTIFIERS) & set(made) and {"sex", "age", "ward"} <= set(made)
    assert "in a format that is not known (such as DD.MM.YY or DD/MM/YY)" in said.stdout  # of birth
    written = (tmp_path / "synthetic.csv").read_text() + (tmp_path / "s").read_text()
    for name in ("mrn", "email", "token", "telephone"):
        assert not any(str(value) in written for value in table[name])
    certificate = json.loads((tmp_path / "synthetic.csv.certificate.json").read_text())
    assert certificate["private"] and not certificate["conditional"]
    said = run("verify", "synthetic.csv", cwd=tmp_path, code=4)
    assert "not authenticated" in (said.stdout + said.stderr).lower()


def test_a_private_draft_counts_in_a_fit(tmp_path):
    hospital().to_csv(tmp_path / "t.csv", index=False)
    said = run("schema", "draft", "t.csv", "--epsilon", 0.5, "-o", "s.json", cwd=tmp_path)
    assert "(0.5, 1e-05)-differential" in said.stderr + said.stdout
    run("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "-o", "m", cwd=tmp_path)
    less = ("fit", "t.csv", "--schema", "s.json", "--epsilon", 0.4, "-o", "n")
    refused(*less, cwd=tmp_path, says="raise --epsilon")


def test_a_table_of_identifiers_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"mrn": rng.permutation(500), "email": [f"a{i}@b.example" for i in range(500)]}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    says = "could release no column"
    refused("fit", "t.csv", "--epsilon", 1, "-o", "m", cwd=tmp_path, says=says)


def small(path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"sex": rng.choice(["f", "m"], 1_500), "age": rng.integers(0, 90, 1_500)})
    table.to_csv(path / "t.csv", index=False)


def test_a_draft_and_its_fits_are_charged_to_a_project(tmp_path):
    small(tmp_path)
    refused(
        *["schema", "draft", "t.csv", "--ledger", "l", "-o", "s.json"],
        cwd=tmp_path,
        says="goes with --epsilon",
    )
    refused("schema", "draft", "t.csv", "--epsilon", 0.5, "--ledger", "l", "-o", "s.json", cwd=tmp_path,
            says="tabsynth ledger create")  # fmt: skip
    run("ledger", "create", "l", "--epsilon", 2, cwd=tmp_path)
    said = run(
        "schema", "draft", "t.csv", "--epsilon", 0.5, "--ledger", "l", "-o", "s.json", cwd=tmp_path
    )
    assert "Ledger l: all fits and reports together satisfy (2, 1e-05)" in said.stdout
    fit = ("fit", "t.csv", "--schema", "s.json", "--epsilon", 1)
    refused(*fit, "-o", "m", cwd=tmp_path, says="draft of the schema is on a project's ledger")
    run(*fit, "-o", "m", "--ledger", "l", cwd=tmp_path)
    shown = json.loads(run("ledger", "show", "l", "--json", cwd=tmp_path).stdout)
    assert [item["what"] for item in shown["runs"]] == ["schema", "margnet"]
    assert sum(item["share"] for item in shown["runs"]) == pytest.approx(shown["share"])
    assert shown["share"] <= 1
    more = ("schema", "draft", "t.csv", "--epsilon", 2, "--ledger", "l", "-o", "other.json")
    refused(*more, cwd=tmp_path, says="would exceed its limit of 2")
    assert not (tmp_path / "other.json").exists()
    unchanged = json.loads(run("ledger", "show", "l", "--json", cwd=tmp_path).stdout)
    assert unchanged["chain"] == shown["chain"]


def test_a_fit_that_drafts_takes_a_ledger_and_a_checkpoint(tmp_path):
    small(tmp_path)
    run("ledger", "create", "l", "--epsilon", 1, cwd=tmp_path)
    fit = ("fit", "t.csv", "--epsilon", 1, "--ledger", "l", "--checkpoint", "ck", "-o", "m")
    said = run(*fit, "--save-schema", "s.json", cwd=tmp_path).stdout
    assert "drafted privately" in said and "Private: (1, 1e-05)" in said
    before = (tmp_path / "l").read_bytes()
    assert "this fit is complete" in run(*fit, cwd=tmp_path).stdout
    assert (tmp_path / "l").read_bytes() == before
    run("sample", "m", "-n", 100, "-o", "s.csv", cwd=tmp_path)
    certificate = json.loads((tmp_path / "s.csv.certificate.json").read_text())
    assert certificate["project"]["ledger"] == "l" and certificate["private"]
    assert run("verify", "s.csv", cwd=tmp_path, code=4).stdout.startswith("Claimed: ")
    refused("fit", "t.csv", "--epsilon", 0.5, "--ledger", "l", "-o", "n", cwd=tmp_path,
            says="Nothing was read")  # fmt: skip
