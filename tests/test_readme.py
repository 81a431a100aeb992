"""Every command, program and output of README, docs and CONTRIBUTING.md is run and compared, or checked as far as it can be.

``pages.py`` says what a block of a page may be, and makes the outputs anew.
"""

import ast
import importlib
import inspect
import json
import re
import shlex
import subprocess

import pages
import pandas as pd
import pytest
import typer
from command_lines import TABSYNTH
from pages import DOCS, GROUPS, ROOT, RUN, blocks

import tabsynth
from tabsynth import Schema
from tabsynth.cli import app

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
}
WRITTEN = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix()
    for folder in (".", "data", "docs/**", "reports/*")
    for path in ROOT.glob(f"{folder}/*.md")
    if not {"examples", "api"} & {*path.parts} and path.name != "CHANGELOG.md"
)
PUBLIC = {name: getattr(tabsynth, name) for name in tabsynth.__all__}


def guide(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def inline(page: str) -> list[str]:
    """The code in the sentences of a page."""
    return re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"```.*?```", "", page, flags=re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_pages_run_and_print_what_they_say(group, tmp_path):
    pages.prepare(group, tmp_path)
    for name in GROUPS[group]:
        shorter = SHORTER.get(name, {})
        for block, printed in pages.execute(name, tmp_path, shorter):
            difference = pages.difference(block.text, printed, block.comments.get("numbers", ""))
            assert difference is None, f"{name}: {difference}; run: python tests/pages.py {name}"
        missing = [
            file
            for file in inline(pages.path_of(name).read_text("utf-8"))
            if re.fullmatch(
                r"[a-z][\w.-]*\.(?:csv|json|html|key|pub|yaml|model|tabsynth|ledger)", file
            )
            and not [*tmp_path.rglob(f"*{file}")]
            and not [*ROOT.glob(f"tabsynth/**/{file}")]
        ]
        assert not missing, f"{name} names files that it does not make: {missing}"
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
        made = pd.read_csv(tmp_path / "synthetic.csv")
        assert list(made) == ["sex", "weight", "admitted"] and len(made) == 300


def test_outputs_are_compared_by_words_and_within_tolerances():
    def same(expected, printed, numbers=""):
        return pages.difference(expected, printed, numbers) is None

    assert same("a 1.5\nb", "a  1.5 b\n") and not same("a 1.5", "a 1.6") and not same("a", "b")
    assert same("a 1.5", "a 1.6", "within 0.1") and not same("a 1.5", "a 1.7", "within 0.1")
    assert same("a 10", "a 11", "within 10%") and same("a 0", "a 9", "any")
    assert not same("a 1", "b 1", "any") and not same("a 1", "a 1 2", "any")
    assert same("a … c", "a b 3 c") and same("…\nb 2\n…", "1 b 2 c 3") and not same("… b", "a c")
    page = "```sh\ntabsynth\n```\n\n<!-- numbers: any -->\n```text\nx 1\n```\n\n```text\ny\n```\n"
    command, output, other = blocks(page)
    assert command.runs and output.output and not other.output
    assert pages.rewritten(page, [(output, "z 2\n")]) == page.replace("x 1", "z 2")
    assert pages.updated("a   1\nb  20\n", "a 300 b 4") == "a 300\nb   4\n"
    assert pages.updated("…\nodds are 2\n…\n", "other 1\nodds were 3\n") == "…\nodds were 3\n…\n"


@pytest.mark.parametrize("name", WRITTEN)
def test_every_block_of_a_page_is_run_or_compared(name):
    """Or is a file that a page that runs saves, is not run for a reason, or is no code."""
    runs = name in {page for group in GROUPS.values() for page in group}
    for block in blocks(pages.path_of(name).read_text("utf-8")):
        kind = block.language
        if "not run" in block.comments:
            for file in re.findall(r"tests/[\w/]+\.py", block.comments["not run"]):
                assert (ROOT / file).exists(), file
            check_without_running(block)
        elif kind in RUN or "file" in block.comments or block.output:
            assert runs, f"{name} does not run: add it to GROUPS in tests/pages.py"
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
        check_calls(block.text)


def check_calls(source):
    """Calls of public names of tabsynth have parameters that there are."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in PUBLIC
        ):
            parameters = inspect.signature(PUBLIC[node.func.id]).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                unknown = {word.arg for word in node.keywords} - {*parameters, None}
                assert not unknown, f"{source}: no parameter {unknown}"


def refused(words, *, complete):
    """What the command line has against the words after ``tabsynth``; None if nothing.

    Words that are not complete, as sentences have them, may lack arguments and values of options.
    """
    command = typer.main.get_command(app)
    words = list(words)
    while getattr(command, "commands", None):
        name = words[0] if words else None
        if name in command.commands:
            words = words[1:]
        elif "table" in command.commands:  # of tabsynth schema
            name = "table"
        elif name is None or name.startswith("-") or name.isupper():
            break
        else:
            return f"no command {name}"
        command = command.commands[name]
    context = command.context_class(command)
    known = {o for p in command.get_params(context) for o in (*p.opts, *p.secondary_opts)}
    for word in words:
        if word.startswith("-") and word not in known and not re.match(r"-\d", word):
            return f"no option {word}"
    try:
        taken, more, _ = command.make_parser(context).parse_args([w for w in words if w != "…"])
    except Exception as error:  # the last option lacks its value
        return str(error) if complete else None
    if more:
        return f"more words: {more}"
    lacking = [p.name for p in command.params if p.required and p.name not in taken]
    return f"lacks {lacking}" if complete and lacking else None


def test_the_check_of_commands_refuses_what_the_command_line_does():
    for line in ("schema check T --schema S", "fits", "fit T --epsilom 1"):
        assert refused(line.split(), complete=False)
    assert refused(["fit", "t.csv", "--epsilon", "1"], complete=True)
    assert refused(["fit", "t.csv", "--epsilon", "1", "-o", "m"], complete=True) is None
    with pytest.raises(AssertionError, match="no parameter"):
        check_calls("MargNet(schema, epsilonn=1.0)")


@pytest.mark.parametrize("name", WRITTEN)
def test_commands_and_names_in_sentences_exist(name):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    page = pages.path_of(name).read_text("utf-8")
    for code in inline(page):
        code = " ".join(code.split())
        if re.match(r"make [a-z-]+$", code):
            assert code.split()[1] in targets, code
        elif re.match(r"tabsynth [a-z-]", code):
            words = shlex.split(code.partition(" > ")[0])[1:]
            assert refused(words, complete=False) is None, (
                f"{code}: {refused(words, complete=False)}"
            )
        elif re.fullmatch(r"tabsynth(?:\.\w+)+", code):
            assert exists(code), code
        elif re.match(r"(?:tabsynth|tests|reports|docs|notebooks|data)/[\w./-]*$", code):
            assert (ROOT / code).exists() or code == "reports/demo", code  # of make demo
        elif re.match(r"\w+\(.+\)$", code) and code.partition("(")[0] in PUBLIC:
            check_calls(code.replace("…", "..."))
    for line in re.findall(r"^make ([\w-]+)", page, re.MULTILINE):
        assert line in targets


def exists(dotted):
    """Whether a module, or a name of one, is there; of one that needs another package, by its text."""
    parts = dotted.split(".")
    for i in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:i])
        file = next(
            (f for f in (base.with_suffix(".py"), base / "__init__.py") if f.exists()), None
        )
        if file is not None:
            break
    if "integrations" in parts:
        return i == len(parts) or re.search(rf"\b{parts[i]}\b", file.read_text("utf-8")) is not None
    found = importlib.import_module(".".join(parts[:i]))
    for part in parts[i:]:
        found = getattr(found, part, None)
    return found is not None


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
    facts = {"format": "tabsynth-schema/1", **json.loads(f"{{{rules}}}")}
    schema = Schema.from_dict({**facts, "columns": [*temporal, *numbers, *texts, code, *days]})
    assert len(schema.rules) == 7


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
        ("README", "public="),
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
