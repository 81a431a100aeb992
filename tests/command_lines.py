"""The command in a process of its own and in this one, for the tests of the command line."""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import forked
import numpy as np
import pandas as pd
from typer.testing import CliRunner

from tabsynth import Column, Schema
from tabsynth.cli import app, main

TABSYNTH = Path(sys.executable).parent / "tabsynth"


def run(*words, cwd, code=0):
    """The command in a process of its own, forked from one that has imported what takes seconds."""
    with tempfile.TemporaryDirectory() as told:
        process = forked.CONTEXT.Process(target=_command, args=([*map(str, words)], cwd, told))
        process.start()
        process.join(120)
        assert not process.is_alive(), f"tabsynth {words} takes more than two minutes"
        output, errors = (Path(told, name).read_text("utf-8") for name in ("stdout", "stderr"))
    assert process.exitcode == code, errors
    assert "Traceback" not in errors
    return subprocess.CompletedProcess(words, code, output, errors)


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
