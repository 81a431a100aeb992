"""Messages of the commands name options as they are typed, and no parameters of Python; help texts show all that they say."""

import contextlib
import re
import shutil
from unittest import mock

import command_lines as cl
import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from tabsynth.cli import app
from tabsynth.cli.console import named_as_typed
from tabsynth.errors import InputError

EPSILON = ("--epsilon", "1")
FIT = ("fit", "people.csv", *EPSILON, "-o", "other.tabsynth")
PLAN = ("plan", "--rows", "400", *EPSILON, "--schema", "schema.json")
EVALUATE = ("evaluate", "--real", "people.csv", "--synthetic", "people.csv", "-o", "report")
# A command line of each command to which a wrong value of one option is added; and what replaces its work.
COMMANDS = {
    "fit": (*FIT, "--schema", "schema.json"),
    "fit without a schema": FIT,
    "fit of a GAN": (*FIT, "--schema", "schema.json", "--method", "dp-wgan"),
    "plan": PLAN,
    "plan of PATE": (*PLAN, "--method", "pate-gan"),
    "sample": ("sample", "model.tabsynth", "-o", "other.csv"),
    "evaluate": (*EVALUATE, "--schema", "schema.json"),
    "evaluate privately": (*EVALUATE, "--schema", "schema.json", *EPSILON),
    "audit": ("audit", "--method", "margnet", *EPSILON, "-o", "audit"),
    "demo": ("demo", "-o", "demo"),
    "verify": ("verify", "people.csv"),
    "release": ("release", "people.csv", "-o", "dossier"),
    "certify": ("certify", "people.csv"),
    "schema draft": ("schema", "draft", "people.csv", "-o", "s.json"),
    "schema draft privately": ("schema", "draft", "people.csv", "-o", "s.json", *EPSILON),
    "schema check": ("schema", "check", "people.csv", "schema.json"),
    "schema import": ("schema", "import", "book.csv", "-o", "s.json"),
    "schema declare": ("schema", "declare", "schema.json", "-o", "s.json"),
    "ledger create": ("ledger", "create", "l.ledger", *EPSILON),
}


def end(synthesizer=None, *_, **__):
    """In place of the work of a command."""
    if synthesizer is not None and synthesizer.schema is not None:
        synthesizer.check()
    raise InputError("The end.")


WORK = {
    "tabsynth.cli.fit.fit_and_print": end,
    "tabsynth.cli.evaluate.measure": lambda *_, **__: end(),
    "tabsynth.auditing.outcomes.write_json": lambda *_, **__: end(),
}
WRONG = {"int": ("-1", "0"), "float": ("-1", "inf"), "path": ("no/such", "people.csv")}


def all_commands(command, words=()):
    """Every command with the words that call it."""
    yield words, command
    for name, nested in getattr(command, "commands", {}).items():
        yield from all_commands(nested, (*words, name))


def kind_of(parameter, command):
    """The kind of value that the help says."""
    return parameter.display_type(typer.Context(command)).strip("<>").split(",")[0]


def parameter_names(command):
    return [parameter.name for parameter in command.params]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("options")
    cl.make_people().to_csv(path / "people.csv", index=False, na_rep="N")
    cl.make_schema().save(path / "schema.json")
    (path / "book.csv").write_text("name,kind,values\nsex,categorical,f|m\n")
    cl.run(
        *FIT[:4], "-o", "model.tabsynth", "--schema", "schema.json", "--set", "steps=2", cwd=path
    )
    return path


def told(folder, words):
    """What a command says; what it writes is removed."""
    before = {*folder.iterdir()}
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(folder))
        for name, work in WORK.items():
            stack.enter_context(mock.patch(name, work))
        done = CliRunner().invoke(app, [*map(str, words)])
    for path in {*folder.iterdir()} - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return done


@pytest.mark.parametrize("case", COMMANDS)
def test_every_wrong_value_is_refused_by_the_name_that_was_typed(case, folder):
    words = COMMANDS[case]
    (command,) = (
        command
        for path, command in all_commands(get_command(app))
        if path
        and words[: len(path)] == path
        and command.params
        and not hasattr(command, "commands")
    )
    longer = [name for name in parameter_names(command) if "_" in name]
    refusals = 0
    for parameter in command.params:
        if parameter.param_type_name != "option" or parameter.is_flag or parameter.name == "help":
            continue
        for value in WRONG.get(kind_of(parameter, command), ("?!",)):
            done = told(folder, (*words, parameter.opts[0], value))
            assert done.exception is None or isinstance(done.exception, SystemExit), (
                parameter.name,
                value,
                done.exception,
            )
            refusals += done.exit_code == 2
            for line in done.stderr.splitlines():
                assert not re.search(
                    rf"(?<![\w.'\"-])(?:{'|'.join(parameter_names(command))})=", line
                ), line
                for name in longer:
                    assert not re.search(rf"(?<![\w.'\"=-]){name}\b(?![.('\"=])", line), line
    assert refusals


def test_options_of_other_names_than_their_parameters():
    """Names that typer keeps in other places than the rest are found, too."""
    options = {"n": "-n", "weights": "--weight", "rows": "--rows"}
    for message, typed in (
        ("give n=, or weights='w'.", "give -n, or --weight w."),
        (
            "n= goes with weights=; declare rows=12, or leave it out.",
            "-n goes with --weight; declare --rows 12, or leave it out.",
        ),
        (
            "leave out weights=['a'], or set plan.rows=3 and 'n=3'.",
            "leave out --weight a, or set plan.rows=3 and 'n=3'.",
        ),
        (
            "add --set rows=3, or confirm with weights=True.",
            "add --set rows=3, or confirm with --weight.",
        ),
    ):
        assert named_as_typed(message, options) == typed


@pytest.mark.parametrize(
    "words", [words for words, _ in all_commands(get_command(app))], ids=" ".join
)
def test_help_shows_every_bracket(words, monkeypatch):
    """Rich takes a word in brackets as markup, and shows nothing of it."""
    monkeypatch.setenv("COLUMNS", "100")
    ((_, command),) = [(path, c) for path, c in all_commands(get_command(app)) if path == words]
    shown = re.sub(r"[\s│╭╮╰╯─]", "", CliRunner().invoke(app, [*words, "--help"]).output)
    texts = [command.help, *(getattr(parameter, "help", None) for parameter in command.params)]
    for text in filter(None, texts):
        for word in re.findall(r"\S*\[[^\]]+\]\S*", text.replace("\\[", "[")):
            assert word.rstrip(".,") in shown, word


def test_the_extra_of_the_local_page_is_named(tmp_path):
    assert "tabsynth[app]" in CliRunner().invoke(app, ["app", "--help"]).output
