"""The settings of one method by ``--set`` and ``--config``, the panels of ``--help``, and what a command imports."""

import inspect
import re
import subprocess
import sys

import command_lines as cl
import pytest
import typer

from tabsynth import InputError
from tabsynth.cli import app
from tabsynth.cli.console import named_as_typed
from tabsynth.cli.fit import arguments_of
from tabsynth.cli.options import read_settings
from tabsynth.errors import FileFormatError
from tabsynth.synthesizers import AutoencoderConfig, MargNetConfig, WGANConfig
from tabsynth.synthesizers.method import with_settings

HEAVY = {"torch", "pandas", "scipy", "sklearn", "pyarrow", "opacus", "matplotlib"}


def test_settings_are_those_of_the_estimator_and_of_its_configurations(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('steps = 5\nworkload = [["a", "b"]]\n', "utf-8")
    read = read_settings(file, ["steps = 7", "target=age", "hidden=[8, 8]"])
    expected = {"config": MargNetConfig(steps=7, hidden=(8, 8)), "workload": (("a", "b"),)}
    assert arguments_of("margnet", {}, read) == {**expected, "target": "age"}
    nested = ["autoencoder_config.lr=0.5", "step.count=9", "autoencoder=none", "preset=default"]
    made = arguments_of("dp-wgan", {"public_source": "a census"}, read_settings(None, nested))
    assert made["autoencoder_config"] == AutoencoderConfig(lr=0.5) and made["autoencoder"] is None
    assert (
        made["config"] == with_settings(WGANConfig(), step__count=9)
        and made["public_source"] == "a census"
    )


@pytest.mark.parametrize(
    ("method", "texts", "says"),
    [
        ("margnet", ["steps=0"], "steps"),
        ("margnet", ["step=3"], "no setting 'step'; it has components, group_noise, "),
        (
            "dp-wgan",
            ["autoencoder_config.steps=3"],
            "no setting autoencoder_config.steps; autoencoder_config has hidden, ",
        ),
        ("dp-wgan", ["step.counts=3"], "There is no setting step.counts; step has count, "),
        ("dp-wgan", ["step=3"], "Setting step is a group of settings, got 3; set step.NAME=VALUE"),
        ("dp-wgan", ["autoencoder_config=3"], "autoencoder_config is a group of settings, got 3"),
        (
            "dp-gan",
            ["penalty.more=3"],
            "Setting penalty is a single value, which has no setting 'more'",
        ),
        (
            "pate-gan",
            ["x=3"],
            "rounds, start_from_counts, teacher_count, teachers, and groups of settings: auto",
        ),
        ("dp-wgan", ["preset=source", "step.count=9"], "preset=source states step itself"),
        ("pate-acgan", [], "class_column=COLUMN"),
        ("margnet", ["steps"], "Expected --set like NAME=VALUE"),
        ("margnet", ["steps=3", "steps.more=3"], "within steps, which is a value"),
        ("margent", [], "Expected --method to be one of margnet"),
    ],
)
def test_a_wrong_setting_is_one_line(method, texts, says):
    with pytest.raises(InputError, match=re.escape(says)) as error:
        arguments_of(method, {}, read_settings(None, texts))
    assert "\n" not in str(error.value)


def test_an_option_of_other_methods_is_refused_with_the_own_ones():
    with pytest.raises(InputError, match=r"takes no --table.*are --public, --public-source"):
        arguments_of("dp-wgan", {"tables": 1}, {})


def test_a_file_that_is_no_toml_is_one_line(tmp_path):
    (tmp_path / "bad.toml").write_text("steps: 3\n", "utf-8")
    with pytest.raises(FileFormatError, match=r"bad\.toml is not valid TOML"):
        read_settings(tmp_path / "bad.toml", [])


def test_the_help_of_a_fit_begins_with_few_options_and_has_the_others_in_panels(tmp_path):
    text = cl.run("fit", "--help", cwd=tmp_path).stdout
    panels = re.findall(r"^╭─ ([\w ]+?) ─+╮\n(.*?)^╰", text, re.MULTILINE | re.DOTALL)
    options = {name: re.findall(r"^│[ *]*(--[\w-]+)", part, re.MULTILINE) for name, part in panels}
    assert [*options][:2] == ["Arguments", "Options"] and 5 <= len(options["Options"]) <= 12
    assert [*options][2:] == [
        "Budget and ledger",
        "Schema and columns",
        "Survey and units",
        "Method settings",
        "Files",
        "Running",
    ]


def test_a_message_names_the_options_of_the_command():
    options = {"rows": "--rows", "max_draws": "--max-draws", "folder": "--folder"}
    for message, typed in (
        ("Expected rows to be above 0, got rows=0.", "Expected --rows to be above 0, got 0."),
        ("Give max_draws, not 'max_draws'.", "Give --max-draws, not 'max_draws'."),
        ("Cannot make folder a; its rows stay.", "Cannot make folder a; its rows stay."),
    ):
        assert named_as_typed(message, options) == typed
    assert named_as_typed("Give max_draws.", {"rows": "--rows"}) == "Give max_draws."


def commands(group=None, name=""):
    group = group or typer.main.get_command(app)
    for own, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name}{own} ")
        else:
            yield f"{name}{own}", command


@pytest.mark.parametrize(("name", "command"), [*commands()])
def test_a_command_has_few_parameters(name, command):
    function = inspect.unwrap(command.callback)
    assert len(function.__code__.co_varnames[: function.__code__.co_argcount]) <= 10, name


def imported(*words, cwd, code=0):
    program = (
        "import sys\nfrom tabsynth.cli import main\ntry:\n    main()\nfinally:\n"
        "    print(*sys.modules, file=open('modules', 'w'))"
    )
    words = [sys.executable, "-c", program, *words]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return {name.partition(".")[0] for name in (cwd / "modules").read_text().split()}


@pytest.mark.parametrize("words", [("--help",), ("fit", "--help")])
def test_help_imports_nothing_that_computes(words, tmp_path):
    assert imported(*words, cwd=tmp_path) & HEAVY == set()
