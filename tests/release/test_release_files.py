"""What a release consists of: versions, dependencies and reproducible archives."""

import io
import os
import re
import tarfile
import time
import tomllib
import zipfile

import pytest
import yaml
from release.make_dist import ROOT, build, digests, epoch, normal_tar, normal_zip, tracked

import tabsynth

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CONDA = {
    "torch": "pytorch",
    "matplotlib": "matplotlib-base",
    "category-encoders": "category_encoders",
}


def test_every_file_states_the_same_version():
    version = PROJECT["version"]
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text("utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert tabsynth.__version__ == recipe["context"]["version"] == citation["version"] == version
    dated = re.findall(r"^## (\d\S*) \((\d{4}-\d\d-\d\d)\)$", changes, re.MULTILINE)
    assert dated[0] == (version, str(citation["date-released"]))


def test_the_conda_recipe_has_the_dependencies_of_the_wheel():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text("utf-8"))
    expected = {f"python {PROJECT['requires-python']}"}
    for item in PROJECT["dependencies"]:
        name, least = re.fullmatch(r"([\w-]+)(>=[\d.]+)", item).groups()
        expected.add(f"{CONDA.get(name, name)} {least}")
    assert set(recipe["requirements"]["run"]) == expected


def test_the_container_runs_the_demo_as_an_unprivileged_user():
    lines = (ROOT / "Containerfile").read_text("utf-8").splitlines()
    assert lines[-2:] == ['ENTRYPOINT ["tabsynth"]', 'CMD ["demo"]']
    assert "USER 1000" in lines
    copied = [
        line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line
    ]
    assert all((ROOT / name).exists() for names in copied for name in names)


def test_archives_have_no_trace_of_the_machine(tmp_path):
    made = []
    for number, (mtime, owner, mode) in enumerate([(1e9, 0, 0o600), (1.5e9, 1000, 0o755)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        names = ["b.txt", "a.txt"] if number else ["a.txt", "b.txt"]
        with tarfile.open(folder / "x.tar.gz", "w:gz") as archive:
            for name in names:
                entry = tarfile.TarInfo(f"x/{name}")
                entry.size, entry.mtime, entry.uid, entry.mode = 1, mtime, owner, mode
                archive.addfile(entry, io.BytesIO(name[:1].encode()))
        with zipfile.ZipFile(folder / "x.whl", "w") as archive:
            entry = zipfile.ZipInfo("a.txt", (2020, 1, 1, 0, 0, 0))
            entry.external_attr = mode << 16
            archive.writestr(entry, "a")
        normal_tar(folder / "x.tar.gz", 1_700_000_000)
        normal_zip(folder / "x.whl")
        made.append(digests([folder / "x.tar.gz", folder / "x.whl"]))
    assert made[0] == made[1]
    with tarfile.open(tmp_path / "0" / "x.tar.gz") as archive:
        assert archive.getnames() == ["x/a.txt", "x/b.txt"]
        assert {member.mtime for member in archive.getmembers()} == {1_700_000_000}
        assert archive.extractfile("x/b.txt").read() == b"b"


@pytest.mark.slow(cases=0)
def test_two_builds_give_the_same_bytes_and_hold_what_a_release_needs(tmp_path, monkeypatch):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files belong to a release is not known")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = build(ROOT, tracked(ROOT), tmp_path / "first", epoch(ROOT))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    before = os.umask(0o077)
    try:
        second = build(ROOT, tracked(ROOT), tmp_path / "second", epoch(ROOT))
    finally:
        os.umask(before)
        monkeypatch.undo()
        time.tzset()
    assert digests(first) == digests(second)
    archive, wheel = first
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {
        "docs/index.md",
        "CHANGELOG.md",
        "Makefile",
        "conda/recipe.yaml",
        "data/census.csv",
    } <= names
    assert not any(name.startswith("reports/") for name in names)
    with zipfile.ZipFile(wheel) as opened:
        assert {"tabsynth/data/census.csv", "tabsynth/py.typed"} <= set(opened.namelist())
        assert not any(name.startswith(("tests/", "docs/")) for name in opened.namelist())
