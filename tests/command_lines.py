"""The command in this process and in one of its own, for the tests of the command line.

The installed script is run in ``test_readme.py`` and by a test of ``test_cli_fit.py``.
"""

import contextlib
import io
import logging
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import forked
import numpy as np
import pandas as pd
from typer.testing import CliRunner

from tabsynth import Schema
from tabsynth.cli import app, main
from tabsynth.schema import Column

TABSYNTH = Path(sys.executable).parent / "tabsynth"


def run(*words, cwd, code=0):
    """What the installed script does, in this process; the root logger is as a new process has it."""
    output, errors, ended = io.StringIO(), io.StringIO(), None
    root = logging.getLogger()
    before = root.handlers, root.level
    root.handlers = []
    try:
        with (
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
            mock.patch.object(sys, "argv", ["tabsynth", *map(str, words)]),
            mock.patch.object(sys.modules["__main__"], "__package__", None),  # "Usage: tabsynth"
        ):
            main()
    except SystemExit as end:
        ended = end.code or 0  # None is no error
    finally:
        root.handlers, level = before
        root.setLevel(level)
    done = subprocess.CompletedProcess(words, ended, output.getvalue(), errors.getvalue())
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def start(*words, cwd, told):
    """The command in a process of its own, which is forked from one that has imported what takes seconds.

    Its output is in the files ``stdout`` and ``stderr`` of the folder ``told``.
    """
    process = forked.CONTEXT.Process(target=_command, args=([*map(str, words)], cwd, told))
    process.start()
    return process


def _command(words, cwd, told):
    """In the child: what the installed script does."""
    os.chdir(cwd)
    for stream in (sys.stdout, sys.stderr):
        file = os.open(Path(told, stream.name.strip("<>")), os.O_WRONLY | os.O_CREAT)
        os.dup2(file, stream.fileno())
    sys.argv = ["tabsynth", *words]
    main()


def refused(*words, cwd, says):
    """Exit code 2, one line that names the thing, and nothing new in the folder.

    In this process: starting Python costs seconds, and there are many ways to be wrong.
    """
    before = sorted(p.name for p in cwd.rglob("*"))
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 2, (done.output, done.exception)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    for text in [says] if isinstance(says, str) else says:
        assert text in lines[0]
    assert sorted(p.name for p in cwd.rglob("*")) == before
    return lines[0]


def make_schema(**changes):
    columns = {
        "sex": Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
        "age": Column(name="age", kind="numeric", dtype="int64", low=0, high=99, bins=20),
        "job": Column(name="job", kind="ordinal", dtype="Int64", nulls=True, categories=(1, 2, 3)),
    }
    columns.update(changes)
    return Schema(columns.values(), null_values=("N",))


def make_people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    job = pd.Series(np.where(sex == "f", 1, rng.choice([2, 3], n)), dtype="Int64")
    job[rng.random(n) < 0.1] = pd.NA
    return pd.DataFrame({"sex": sex, "age": rng.integers(0, 100, n), "job": job})


FIT = ("fit", "people.csv", "--schema", "schema.json", "-o", "model.tabsynth")
FIT_GAN = (*FIT, "--method", "dp-wgan")
