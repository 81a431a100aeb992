"""Every command, program and output of README, docs and CONTRIBUTING.md is run and compared, or checked as far as it can be.

``pages.py`` says what a block of a page may be, and makes the outputs anew; ``mentions.py`` reads sentences.
"""

import ast
import json
import re
import shlex
import subprocess

import nbformat
import pages
import pandas as pd
import pytest
from benchmark_data import data_file
from command_lines import TABSYNTH
from mentions import (
    OTHER_OPTIONS,
    OUTPUT,
    exists,
    inline,
    messages,
    mistake,
    refused,
    wrong_calls,
    wrong_commands,
    wrong_exit_codes,
)
from pages import DOCS, GROUPS, ROOT, RUN, blocks

from tabsynth import Schema, load

README = (ROOT / "README.md").read_text("utf-8")
CENSUS = {
    "table, schema = load_census()": "table, schema = load_census()\n"
    'names = ["AGEP", "SEX", "MSP", "OWN_RENT"]\n'
    "table, schema = table[names], schema.select(names)",
}
# What the tests replace in a page that would take minutes, and has no output that changes by that.
SHORTER = {
    "README": {
        **CENSUS,
        "[:7000]": "[:900]",
        "[7000:]": "[900:1500]",
        "epsilon=1.0": "epsilon=1.0, time_limit=1",
    },
    "docs/how-to/warm-starts": {
        **CENSUS,
        "epsilon=0.1, public=table": "time_limit=1, epsilon=0.1, public=table",
    },
    "docs/how-to/resume-a-fit": {"--time-limit 30s": "--time-limit 1s"},
    "docs/how-to/structural-zeros-and-dependencies": {"--time-limit 60s": "--time-limit 1s"},
    "docs/how-to/valid-inference": {**CENSUS, "epsilon=1.0)": "epsilon=4.0, time_limit=1)"},
    "docs/how-to/counts": {**CENSUS, "epsilon=1.0)": "epsilon=1.0, time_limit=1)"},
}
WRITTEN = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix()
    for folder in (".", "data", "docs/**", "reports/*")
    for path in ROOT.glob(f"{folder}/*.md")
    if not {"examples", "api"} & {*path.parts} and path.name != "CHANGELOG.md"
)


PAGES = {page for group in GROUPS.values() for page in group}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def guide(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_pages_run_and_print_what_they_say(group, tmp_path):
    pages.prepare(group, tmp_path)
    for name in GROUPS[group]:
        results = pages.execute(name, tmp_path, SHORTER.get(name, {}))
        for block, printed in results:
            numbers = block.comments.get("numbers", "")
            difference = block.output and pages.difference(block.text, printed, numbers)
            assert not difference, f"{name}: {difference}; run: python tests/pages.py {name}"
        codes = inline(pages.path_of(name).read_text("utf-8"))
        elsewhere = name == "data/README"  # it names files of other repositories
        missing = [] if elsewhere else files_not_there(codes, tmp_path)
        assert not missing, f"{name} names files that it does not make: {missing}"
        missing = not_printed(codes, "\n".join(printed for _, printed in results))
        assert not missing, f"{name} says that this is printed: {missing}"
    if group == "lessons":
        # As the reader would: the installed script.
        words = [TABSYNTH, "verify", "dossier", "--key", "office.key.pub"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].startswith("Private: (")
    if group == "guides":
        assert Schema.load(tmp_path / "draft.json").drafted == ("sex", "age", "income")
        imported = Schema.load(tmp_path / "imported.json")
        assert imported.drafted == () and imported.names == ("sex", "age", "income")
    if group == "readme":
        assert len(pd.read_csv(tmp_path / "synthetic.csv")) > 9_000
        model = load(tmp_path / "your.model")
        assert list(model.sample(9)) == ["docvis", "year", "age", "female", "hhninc"]


def files_not_there(codes, folder):
    """The names of files among codes of sentences that are neither in the folder nor in the package, nor written by it."""
    package = "".join(path.read_text("utf-8") for path in (ROOT / "tabsynth").rglob("*.py"))
    kinds = "csv|json|html|key|pub|yaml|model|tabsynth|ledger"
    return [
        file
        for file in codes
        if re.fullmatch(rf"[a-z][\w.-]*\.(?:{kinds})", file)
        and not [*folder.rglob(file)]
        and not [*ROOT.glob(f"tabsynth/**/{file}")]
        and f'"{file}"' not in package
    ]


def not_printed(codes, printed):
    """The codes of sentences that are outputs, but for those that were printed."""
    return [code for code in codes if OUTPUT.match(code) and code not in pages.plain(printed)]


def test_files_and_outputs_in_sentences_are_compared_with_the_run(tmp_path):
    (tmp_path / "holdout.csv").touch()
    codes = ["out.csv", "holdout.csv", "Private: (1.3, 1e-05)", "Private: (1.2, 1e-05)"]
    assert files_not_there(codes, tmp_path) == codes[:1]
    assert not_printed(codes, "…\nPrivate: (1.2,\n1e-05)-") == codes[2:3]


def test_outputs_are_compared_by_words_and_within_tolerances():
    def same(expected, printed, numbers=""):
        return pages.difference(expected, printed, numbers) is None

    assert same("a 1.5\nb", "a  1.5 b\n") and not same("a 1.5", "a 1.6") and not same("a", "b")
    assert same("a 1.5", "a 1.6", "within 0.1") and not same("a 1.5", "a 1.7", "within 0.1")
    assert same("a 10", "a 11", "within 10%")
    assert not same("a 1", "b 1", "within 9") and not same("a 1", "a 1 2", "within 9")
    assert same("a … c", "a b 3 c") and same("…\nb 2\n…", "1 b 2 c 3") and not same("… b", "a c")
    page = "```sh\ntabsynth\n```\n\n<!-- numbers: within 9% -->\n```text\nx 1\n```\n\n```text\ny\n```\n"
    command, output, other = blocks(page)
    assert command.runs and output.output and not other.output
    assert pages.rewritten(page, [(output, "z 2\n")]) == page.replace("x 1", "z 2")
    assert pages.updated("a   1\nb  20\n", "a 300 b 4") == "a 300\nb   4\n"
    assert pages.updated("…\nodds are 2\n…\n", "other 1\nodds were 3\n") == "…\nodds were 3\n…\n"


def test_an_output_that_is_hardly_compared_is_refused():
    def refusal(text, numbers=""):
        (block,) = blocks(f"<!-- numbers: {numbers} -->\n```text\n{text}\n```\n")
        return pages.compares_nothing(block)

    table = "     a     b\n20 0.11 0.14\n30 0.44 0.43"
    assert (
        refusal(table, "within 0.6")
        and refusal(table, "within 50%")
        and refusal("a b c", "within 1")
    )
    assert refusal("…\na … b …\n…") and refusal("… model") and refusal("a b c\n2 4", "within 1.5")
    assert refusal(table, "within 0.1") is None and refusal("a b\n… 2", "within 10% or 0.9") is None


@pytest.mark.parametrize("name", WRITTEN)
def test_every_block_of_a_page_is_run_or_compared(name):
    """Or is a file that a page that runs saves, is not run for a reason, or is no code."""
    runs = name in PAGES
    for block in blocks(pages.path_of(name).read_text("utf-8")):
        kind = block.language
        if "not run" in block.comments:
            for file in re.findall(r"tests/[\w/]+\.py", block.comments["not run"]):
                assert (ROOT / file).exists(), file
            check_without_running(block)
        elif kind in RUN or "file" in block.comments or block.output:
            assert runs, f"{name} does not run: add it to GROUPS in tests/pages.py"
            assert not block.output or pages.compares_nothing(block) is None
        else:
            assert kind in ("pseudocode", "{eval-rst}"), (
                f"{name}: nothing runs or compares {block.text}"
            )


def check_without_running(block):
    if block.language == "sh":
        for line in pages.commands(block):
            words = shlex.split(line, comments=True)
            if "tabsynth" in words and words[0] != "pip" and words[-2] != "tabsynth":
                words, first = words[words.index("tabsynth") + 1 :], words[0]
                refusal = refused(words, complete=first == "tabsynth")
                assert refusal is None, f"{line}: {refusal}"
    if block.language == "python":
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "tabsynth":
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                assert [name for name in names if not exists(name)] == []
        assert wrong_calls(block.text) is None


@pytest.mark.parametrize("name", WRITTEN)
def test_what_sentences_name_is_there(name):
    page = pages.path_of(name).read_text("utf-8")
    assert [found for code in inline(page) if (found := mistake(code))] == []
    assert wrong_exit_codes(page) == []
    if name not in PAGES:  # of pages that run, the run compares these
        assert [code for code in inline(page) if OUTPUT.match(code)] == []
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {*re.findall(r"^(?:\w+=\S+ )*make ([\w-]+)", page, re.MULTILINE)} <= {*targets}


def test_what_the_changelog_says_of_the_next_release_is_there():
    """What was removed or renamed is not, so only two sections are compared."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n## ")[2].partition("\n## ")[0]
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))
    assert {*sections} <= {"Added", "Changed", "Removed", "Fixed"}
    codes = [*inline(sections.get("Added", "")), *inline(sections.get("Fixed", ""))]
    assert [found for code in codes if (found := mistake(code))] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_notebooks_name_is_there(path):
    cells = nbformat.read(path, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert [found for code in inline(text) if (found := mistake(code))] == []
    assert wrong_exit_codes(text) == []


@pytest.mark.slow
def test_commands_and_options_in_messages_and_helps_are_there():
    texts = [
        text
        for path in (ROOT / "tabsynth").rglob("*.py")
        for text in messages(path.read_text("utf-8"))
    ]
    assert sum("tabsynth ledger create" in text for text in texts) >= 2
    assert [found for text in texts for found in wrong_commands(text)] == []


def test_the_checks_refuse_what_is_not_there():
    for option, file in OTHER_OPTIONS.items():
        assert option in (ROOT / file).read_text("utf-8")
    for line in ("schema check T --schema S", "schema checks", "fits", "fit T --epsilom 1"):
        assert refused(line.split(), complete=False)
    assert refused(["fit", "t.csv", "--epsilon", "1"], complete=True)
    assert refused(["fit", "t.csv", "--epsilon", "1", "-o", "m"], complete=True) is None
    for code in (
        "fit --accept-drafted-domains",
        "tabsynth evaluate --epsilons 0.1",
        "evaluate --epsilons 0.1",
        "--epsilons",
        "ProjectLedger.make(…, epsilon=3)",
        "ProjectLedger.create(…, epsilons=3)",
        "Schema.drafts(df)",
        "Schema.drafts",
        "MargNet(schema, epsilonn=1.0)",
        ".fit(df, checkpoints=1)",
        ".fits(df)",
        "make tests",
        "tabsynth.schemas",
        "tests/no_such.py",
    ):
        assert mistake(code), code
    for code in (
        "fit --accept-drafted-domain",
        "--composition gaussian",
        "Schema.load(path)",
        "MargNetConfig.steps",
        ".fit(df, checkpoint=1)",
        "release.yaml",
        ".csv",
        "fit",
    ):
        assert mistake(code) is None, code


def test_exit_codes_in_sentences_are_those_of_the_commands():
    def wrong(sentence):
        return wrong_exit_codes(
            f"```sh\ntabsynth verify t.csv --key k  # exit code 4\n```\n\n{sentence}\n"
        )

    for sentence in (
        "It ends in exit code 3.",
        "It says so.\nIt ends in exit code 0.",
        "| x |\n| `tabsynth verify t.csv` ends in 0 |",
        "`verify` ends in exit\ncode 3, and `fit` does not.",
        "If it is damaged, it ends in exit code 7.",
    ):
        assert len(wrong(sentence)) == 1, sentence
    for sentence in (
        "It ends in exit code 4.",
        "If it is damaged, it ends in exit code 2.",
        "`tabsynth fit` ends in exit code 130.",
        "```sh\ntabsynth verify u.csv\n```\n\n`verify u.csv` ends in exit code 0.",
    ):
        assert wrong(sentence) == [], sentence


def test_messages_are_read_with_what_is_put_into_them():
    source = '''f"run tabsynth fits {x}"; "use --epsilom of it"; f"(tabsynth schema checks {x})"
f"tabsynth fit {x} --all"; "see tabsynth schema declare --all, or --source"; "tabsynth rejects"'''
    wrong = [wrong_commands(text) for text in messages(source)]
    assert sorted(map(len, wrong)) == [0, 0, 1, 1, 1, 1]


def test_the_columns_of_the_schema_reference_are_valid():
    columns, zeros, dates, codes, missing, rules = (
        block.text for block in blocks(guide("reference/schema-file"))
    )
    for lines in (codes, missing):
        items = [json.loads(line) for line in lines.splitlines()]
        read = Schema.from_dict({"format": "tabsynth-schema/1", "columns": items})
        assert [column.size for column in read.columns] == (
            [7, 3] if lines is codes else [66, 12, 65]
        )
    lines = ",\n".join(columns.splitlines())
    marital = (
        '{"name": "MSP", "kind": "categorical", "dtype": "str", "categories": ["1", "2", "3"]}'
    )
    page = f'"format": "tabsynth-schema/1", "columns": [{lines}, {marital}], {zeros}'
    schema = Schema.from_dict(json.loads(f"{{{page}}}"))
    assert schema.names == ("EDU", "AGEP", "PINCP", "MSP") and len(schema.impossible) == 1
    temporal = [json.loads(line) for line in dates.splitlines()]
    assert {column["kind"] for column in temporal} >= {"date", "duration", "identifier", "text"}
    numbers = [
        {"name": n, "kind": "numeric", "dtype": "float64", "low": 0, "high": 300}
        for n in ("total", "wages", "interest", "income", "dbp", "sbp", "age")
    ]
    texts = [
        {"name": n, "kind": "categorical", "dtype": "str", "categories": c}
        for n, c in (("pregnant", ["no", "yes"]), ("sex", ["f", "m"]), ("INDP", ["0170", "0770"]))
    ]
    code = {"name": "INDP_CAT", "kind": "categorical", "dtype": "int64", "categories": [0, 2]}
    days = [{**temporal[0], "name": n} for n in ("birth", "discharge")]
    texts += [{**code, "name": n, "categories": [0, 1]} for n in ("owner", "tenant", "lodger")]
    facts = {"format": "tabsynth-schema/1", **json.loads(f"{{{rules}}}")}
    schema = Schema.from_dict({**facts, "columns": [*temporal, *numbers, *texts, code, *days]})
    assert len(schema.rules) == 8


@pytest.mark.data("field/rwm5yr.csv")
def test_the_command_for_a_table_of_your_own_fits_a_public_file(tmp_path):
    (tmp_path / "your-table.csv").write_bytes(data_file("field/rwm5yr.csv").read_bytes())
    first = next(b for b in blocks(README) if b.text.startswith("tabsynth fit your-table.csv"))
    pages.carry_out(first, "README", {}, tmp_path)
    pages.command("tabsynth sample your.model -n 300 -o synthetic.csv", tmp_path)
    synthetic = pd.read_csv(tmp_path / "synthetic.csv")
    real = pd.read_csv(tmp_path / "your-table.csv")
    assert list(synthetic) == [name for name in real if name != "id"] and len(synthetic) == 300
    for name in ("year", "female", "married", "kids", "edlevel"):
        assert set(synthetic[name]) <= set(real[name]), name
    assert synthetic["age"].between(23, 66).all() and synthetic["hhninc"].between(0, 40).all()


def test_two_commands_are_those_of_the_makefile():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert len(commands) == 2 and set(commands) <= set(targets)
    checks = ROOT / ".ci" / "run"
    if checks.exists():  # not in the source distribution
        assert re.findall(r"^make (\w+)$", checks.read_text(), re.MULTILINE)[:2] == commands


def test_the_architecture_page_names_every_package():
    page = guide("design/architecture")
    for path in (ROOT / "tabsynth").iterdir():
        public = not path.name.startswith(("_", "py.typed", "errors"))
        if public and (path.suffix == ".py" or (path / "__init__.py").exists()):
            name = path.name if path.suffix else f"{path.name}/"
            assert f"`{name}`" in page, f"docs/design/architecture.md lacks {name}"


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("docs/how-to/warm-starts", "public="),
        ("docs/how-to/valid-inference", "inference.mean"),
    ],
)
def test_a_public_prior_and_intervals_take_five_lines(page, name):
    source = next(
        block.text
        for block in blocks(pages.path_of(page).read_text("utf-8"))
        if block.language == "python" and name in block.text
    )
    assert len([line for line in source.splitlines() if line]) <= 5
