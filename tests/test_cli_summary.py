"""The summary that ends a fit without a schema: how many columns are kept, which are not and why, and what would keep more."""

import contextlib
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run
from typer.testing import CliRunner

from tabsynth import Schema, draft_private, read_table
from tabsynth.cli import app
from tabsynth.design import Design
from tabsynth.drafting import summarize
from tabsynth.drafting.budget import draft_share
from tabsynth.drafting.identifiers import IDENTIFIERS, NAMED
from tabsynth.drafting.private_schema import draft_on_ledger
from tabsynth.drafting.released_columns import AT_THIS_BUDGET, DECLARED_ROWS, TOO_FEW_VALUES
from tabsynth.errors import DraftWarning
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema import Column

pytestmark = pytest.mark.usefixtures("accounting_in_no_time")

SEX = Column(name="sex", kind="categorical", dtype="str", categories=("f", "m"))
RARE = f"no value has enough rows {AT_THIS_BUDGET}"


def visits(rows: int = 900) -> pd.DataFrame:
    """Visits of people who come twice, with answers that many share and results that few do."""
    rng = np.random.default_rng(1)
    answers = {f"answer{i}": rng.choice(["yes", "no"], rows) for i in range(3)}
    results = {f"result{i}": rng.lognormal(4, 3, rows).round(2) for i in range(14)}
    return pd.DataFrame({"id": np.arange(rows) // 2, **answers, **results})


def test_a_fit_without_a_schema_ends_with_a_summary(tmp_path) -> None:
    visits().to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", "t.csv", "--epsilon", 0.6, "--seed", 0, "--time-limit", "1s", "-o", "m")
    done = run(*fit, "--save-schema", "s.json", cwd=tmp_path)
    schema = Schema.load(tmp_path / "s.json")
    left = len(schema.left_out)
    assert left >= 2 and f"{18 - left} of 18 columns are kept:" in done.stdout
    assert f"  'id': left out, {NAMED}" in done.stdout
    (more,) = re.findall(r"ε = [\d.]+ would keep about (\d+) columns", done.stdout)
    assert 18 - left < int(more) <= 17
    assert "tabsynth schema draft TABLE" in done.stdout
    assert "add --unit id --max-rows-per-unit K." in done.stdout and "Warning" not in done.stderr
    fit = ("fit", "t.csv", "--epsilon", 4, "--time-limit", "1s", "-o", "u")
    units = run(*fit, "--unit", "id", "--max-rows-per-unit", 2, cwd=tmp_path)
    assert "columns are kept" in units.stdout and "--max-rows-per-unit" not in units.stdout
    draft = ("schema", "draft", "t.csv", "--epsilon", 1, "-o", "d.json")
    drafted = run(*draft, cwd=tmp_path)
    assert "of 18 columns are kept" in drafted.stdout and "add --unit id" in drafted.stdout
    assert "Warning" not in drafted.stderr


def test_a_fit_that_keeps_every_column_says_so(tmp_path) -> None:
    visits(3_000)[["answer0", "answer1"]].to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", "t.csv", "--epsilon", 2, "--time-limit", "0.5s", "-o", "m")
    said = run(*fit, cwd=tmp_path).stdout
    assert "All 2 columns are kept." in said and "left out" not in said and "raise ε" not in said


def test_python_warns_of_what_is_left_out(tmp_path) -> None:
    visits().to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv")
    with pytest.warns(DraftWarning, match="of 18 columns are kept") as caught:
        schema = draft_private(table, 1.0, random_state=0)
    assert issubclass(DraftWarning, UserWarning)
    text = "\n".join(summarize(schema, 1.0))
    assert text in {str(item.message) for item in caught}
    assert "unit='id', max_rows_per_unit=K" in text and "--" not in text


def test_three_hundred_columns_make_a_few_lines() -> None:
    left_out = [{"name": f"q{i}", "reason": RARE} for i in range(298)]
    left_out += [{"name": "pat", "reason": NAMED}, {"name": "mrn", "reason": NAMED}]
    lines = summarize(Schema([SEX], left_out=left_out), 1.0)
    assert len(lines) == 5 and max(map(len, lines)) < 250
    assert lines[0] == "1 of 301 columns are kept:"
    assert lines[1].endswith(f"'q9' and 288 more: left out, {RARE}")
    assert lines[2] == f"  'pat', 'mrn': left out, {NAMED}" and "unit='pat'" in lines[4]


def test_columns_that_represent_few_of_their_rows_are_listed_by_what_became_of_the_others() -> None:
    note = "rarer values become 'other', in so many of the rows with a value"
    notes = {
        "a": {"note": note, "share": 0.8, "interval": [0.712, 0.9]},
        "b": {"note": note, "share": 0.3},
    }
    drafted = Schema([SEX], released={"mechanisms": [{"purpose": "x"}], "notes": notes})
    first, second, third = summarize(drafted)
    assert first == "All 1 columns are kept." and second.endswith(f"'b' 30%: {note}")
    assert second.startswith("  'a' about 80% (95%: 71% to 90%), ")
    assert third.startswith("To keep more")
    assert summarize(Schema([SEX])) == [first]


def test_a_table_of_twenty_columns_has_a_summary_of_ten_lines() -> None:
    flags = [replace(SEX, name=f"flag{i}", source="catalogue: no, yes") for i in range(11)]
    counts = [Column(name=n, kind="numeric", dtype="int64", low=0, high=9) for n in "abcd"]
    rules = [{"order": [*pair]} for pair in ("ab", "bc", "cd", "ac", "ad")]
    left_out = [{"name": "id", "reason": NAMED}]
    left_out += [{"name": f"q{i}", "reason": TOO_FEW_VALUES} for i in range(4)]
    schema = Schema([*flags, *counts], left_out=left_out, constraints=rules)
    lines = summarize(schema, 1.0, command=True)
    assert len(lines) == 10 and lines[0] == "15 of 20 columns are kept:"
    assert lines[3].endswith(": no, yes ('flag0', 'flag1', 'flag2', 'flag3', 'flag4', 'flag5',"
    " 'flag6', 'flag7', 'flag8', 'flag9' and 1 more).")  # fmt: skip
    assert lines[4].endswith("(3 of 5; the schema has all):") and lines[5] == "  a <= b"


def test_a_small_table_is_told_that_a_public_number_of_rows_costs_nothing() -> None:
    left_out = [{"name": "q", "reason": TOO_FEW_VALUES}]
    told = Schema([SEX], left_out=left_out)
    hint = summarize(told, 1.0, command=True)[-1]
    places = [hint.index(words) for words in ("--rows N costs nothing", "declare columns", "ε = 3")]
    assert places == sorted(places) and "(rows=N costs nothing)" in summarize(told, 1.0)[-1]
    released = {"mechanisms": [{"purpose": "x"}], "public": [DECLARED_ROWS]}
    declared = Schema([SEX], left_out=left_out, released=released)
    assert "costs nothing" not in " ".join(summarize(declared, 1.0))


def test_a_declared_number_of_rows_keeps_columns_of_a_small_table() -> None:
    """Which format is that of 442 rows is not clear of noise, and which is that of most of them is."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"c{i}": rng.normal(50, 9, 442).round(1).astype(str) for i in range(11)})
    budget = draft_share(1.0, 1e-5, 11)
    columns: dict[int | None, list[Column]] = {None: [], 442: []}
    for rows, kept in columns.items():
        for seed in range(4):
            ledger = Ledger(1.0, 1e-5)
            schema = draft_on_ledger(table, budget, ledger, random_state=seed, rows=rows)
            kept += schema.columns
            assert (DECLARED_ROWS in (schema.released or {})["public"]) is (rows is not None)
    assert len(columns[442]) >= 1.5 * len(columns[None])
    assert all(column.resolution == 0.1 for column in columns[442])


@pytest.mark.parametrize("text", ["", "1,x\n"])
def test_a_table_of_no_row_and_of_one_are_refused_alike(text: str, tmp_path) -> None:
    """R25: the refusal follows from noisy counts alone."""
    (tmp_path / "t.csv").write_text(f"age,city\n{text}")
    fit = ("fit", "t.csv", "--epsilon", 1, "-o", "m")
    says = ("'age', 'city': left out", "no rows, or too few", "needs about 194", "--epsilon")
    refused(*fit, cwd=tmp_path, says=says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--epsilon", 0), "Expected --epsilon > 0, got 0"),
        (("--epsilon", 1, "--unit", "ansver1", "--max-rows-per-unit", 2), "another: 'answer1'"),
        (("--epsilon", 1, "-o", "no/m"), "Cannot write no/m: there is no folder no; create it"),
        (("--epsilon", 1, "--sep", ";"), "'id,answer0,"),
    ],
)
def test_errors_of_a_fit_without_a_schema_come_alone(words, says, tmp_path) -> None:
    visits(9).to_csv(tmp_path / "t.csv", index=False)
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, ["fit", "t.csv", "-o", "m", *map(str, words)])
    assert done.exit_code == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ") and says in done.stderr


@pytest.mark.parametrize(
    ("shares", "alike"), [((0.4,), False), ((0.3, 0.5, 0.9), False), ((0.3, 0.5, 0.9), True)]
)
def test_the_interval_holds_the_share_of_rows_that_a_column_does_not_represent(
    shares: tuple[float, ...], alike: bool
) -> None:
    """Whether the same rows have rare values in all columns or others in each."""
    rng = np.random.default_rng(0)
    rows = 2_000
    texts = ["".join(letters) for letters in rng.choice([*"aeioulmnst"], (rows, 8))]
    places = np.tile(np.arange(rows) / rows, (len(shares), 1))
    for place in places if not alike else ():
        rng.shuffle(place)
    table = pd.DataFrame(
        {
            f"c{j}": np.where(places[j] < share, texts, "common").astype(object)
            for j, share in enumerate(shares)
        }
    )
    intervals = []
    for seed in range(8):
        schema = draft_on_ledger(table, 0.25, Ledger(1.0, 1e-5), random_state=seed)
        notes = (schema.released or {})["notes"]
        real = dict(zip(table.columns, shares, strict=True))
        intervals += [(real[name], *note["interval"]) for name, note in notes.items()]
    holds = [low <= share <= high for share, low, high in intervals]
    assert sum(holds) >= 0.9 * len(holds)
    assert max(high - low for _, low, high in intervals) < (0.1 if len(shares) == 1 else 0.6)


@pytest.mark.parametrize("reason", sorted(IDENTIFIERS))
def test_a_column_of_identifiers_may_be_a_unit(reason: str) -> None:
    left_out = [{"name": "who is it", "reason": reason}]
    lines = summarize(Schema([SEX], left_out=left_out), 1.0, command=True)
    assert lines[-1].endswith("add --unit 'who is it' --max-rows-per-unit K.")
    design = Design(unit="who", max_rows_per_unit=3).parameters()
    assert "--unit" not in " ".join(
        summarize(Schema([SEX], left_out=left_out, **design), 1.0, command=True)
    )


@pytest.mark.parametrize("rows", [1_000, 2_000])
def test_the_larger_budget_keeps_about_as_many_columns(rows: int) -> None:
    """Columns whose most common value has any share of the rows: the estimate, against drafts at that budget."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            f"c{i}": np.where(
                rng.random(rows) < rng.random(), "common", rng.integers(0, 10**9, rows).astype(str)
            )
            for i in range(30)
        }
    )
    expected, kept = [], []
    for seed in range(4):
        few, many = (
            draft_on_ledger(
                table, draft_share(epsilon, 1e-5, 30), Ledger(epsilon, 1e-5), random_state=seed
            )
            for epsilon in (1.0, 3.0)
        )
        text = " ".join(summarize(few, 1.0))
        (estimate,) = re.findall(r"ε = [\d.]+ would keep about (\d+)", text)
        expected.append(int(estimate))
        kept.append(len(many.columns))
        assert len(few.columns) < int(estimate) <= 30
    assert np.mean(expected) == pytest.approx(np.mean(kept), abs=5)
