"""The wheel works in an environment and a folder where there is no checkout."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from pages import blocks

import tabsynth

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("tabsynth", "data", "pyproject.toml", "setup.py", "README.md", "LICENSE")
COLUMNS = ["AGEP", "SEX", "MSP", "EDU"]  # four of 24, for time
CONTENTS = """
import json, pathlib, tabsynth.schema
from importlib.metadata import metadata
from tabsynth.datasets import load_census, load_hospital
from tabsynth.drafting.catalogue import catalogue
file = pathlib.Path(tabsynth.schema.__file__).with_name("schema-file.schema.json")
tables = [len(load()[0]) for load in (load_census, load_hospital)]
description = metadata("tabsynth").get_payload()
facts = {"tables": tables, "schema": file.read_text("utf-8"), "names": len(catalogue().names)}
print(json.dumps(facts | {"description": description}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The ``bin`` folder of a new environment into which the wheel is installed.

    The packages that it depends on are those of this environment: they take minutes to install.
    """
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = folder / "source"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if files.returncode:
        pytest.skip("not a git checkout: which files belong to the package is not known")
    for name in files.stdout.decode().split("\0"):
        if name.split("/")[0] in SOURCES and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    wheels = folder / "wheels"
    build = [*pip, "wheel", str(source), "--no-deps", "--no-build-isolation", "-w", str(wheels)]
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = wheels.glob("*.whl")
    created = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(created)], check=True)
    python = created / "bin" / "python"
    install = [*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(install, check=True, timeout=300, env=alone)
    (site,) = created.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return created / "bin"


def run(folder, *command):
    """What a command prints, run in ``folder`` without the checkout on its path."""
    parameters = {
        "PATH": "/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=parameters,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_quickstart_runs_in_an_empty_folder(environment, tmp_path):
    quickstart = next(
        block.text
        for block in blocks((ROOT / "README.md").read_text("utf-8"))
        if block.language == "python" and "report.html" in block.text
    )
    loaded = "table, schema = load_census()\n"
    assert quickstart.count(loaded) == 1
    fewer = f"{loaded}table, schema = table[{COLUMNS}][:800], schema.select({COLUMNS})\n"
    quickstart = quickstart.replace(loaded, fewer).replace("7000", "500")
    script = f"{quickstart}\nimport tabsynth; print(tabsynth.__file__)"
    where = run(tmp_path, environment / "python", "-c", script)
    assert str(environment.parent) in where
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert "<html" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_the_command_tells_its_version(environment, tmp_path):
    expected = f"tabsynth {tabsynth.__version__}\n"
    assert run(tmp_path, environment / "tabsynth", "--version") == expected
    assert run(tmp_path, environment / "python", "-m", "tabsynth", "--version") == expected


@pytest.mark.slow
def test_it_has_its_data_files_and_a_long_description(environment, tmp_path):
    contents = json.loads(run(tmp_path, environment / "python", "-c", CONTENTS))
    assert contents["tables"] == [10_000, 5_000] and contents["names"] > 80
    assert contents["schema"] == (ROOT / "tabsynth/schema/schema-file.schema.json").read_text()
    description = contents["description"]
    assert description.startswith("# tabsynth\n") and "## Quickstart" in description
    assert "Privacy (`docs/explanation/privacy.md`) has the proof" in description
    targets = re.findall(r"\]\(([^)]*)\)", description)
    targets += re.findall(r"(?:src|href)=\"([^\"]*)", description)
    targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)", description, re.MULTILINE)
    assert [target for target in targets if not target.startswith("https://")] == []
