"""The README's blocks run as they stand, in a folder of their own."""

import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lines import TABSYNTH, run

from tabsynth import Schema

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 300)
    frame = pd.DataFrame(
        {
            "sex": sex,
            "age": rng.integers(0, 90, 300),
            "income": np.where(sex == "f", rng.normal(30, 5, 300), rng.normal(20, 5, 300)).round(1),
        }
    )
    frame.loc[:9, "income"] = np.nan
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.json").write_text(blocks("json")[0], "utf-8")
    return tmp_path


@pytest.mark.slow
def test_shell_blocks_run(people):
    first, *others = (block.splitlines() for block in blocks("sh"))
    assert len(others) >= 3
    for line in first:
        if line.startswith("tabsynth verify"):  # as the README's reader would: the installed script
            script = [TABSYNTH, *words(line)]
            done = subprocess.run(script, cwd=people, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, f"{line}: {done.stderr}"
        else:  # without the seconds that each process takes to import torch
            run(*words(line), cwd=people)
    assert done.stdout.splitlines()[-1].startswith("Private: (")
    for line in (line for block in others for line in block):
        run(*words(line.replace("--time-limit 5s", "--time-limit 1s")), cwd=people)
    assert len(pd.read_csv(people / "synthetic.csv")) == 1000
    assert "accept-drafted-domain" not in "".join(blocks("sh"))
    assert Schema.load(people / "schema.json").drafted == ()
    assert Schema.load(people / "draft.json").drafted == ("sex", "age", "income")
    assert (people / "report" / "report.html").stat().st_size > 10_000


def words(line):
    first, *rest = shlex.split(line)
    assert first == "tabsynth"
    return rest


def test_two_commands_are_those_of_the_makefile():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert command in targets


def test_the_map_names_every_room():
    for path in (ROOT / "tabsynth").iterdir():
        public = not path.name.startswith(("_", "py.typed", "errors"))
        if public and (path.suffix == ".py" or (path / "__init__.py").exists()):
            name = path.name if path.suffix else f"{path.name}/"
            assert f"`{name}`" in README, f"README's map lacks {name}"


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(targets) > 20 and [t for t in targets if not (ROOT / t).exists()] == []
