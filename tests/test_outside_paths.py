"""Tests, reports and documentation read nothing outside the repository but the benchmark files of ``TABSYNTH_DATA``.

A clone is tested as it is, with nothing beside it. Programs are read as text: every path that follows from ``__file__`` is
computed, and so are the absolute paths and those that climb out of the working directory.
"""

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import benchmark_data
import pytest
from mutants.patches import ROOT

FOLDERS = ("tabsynth", "tests", "reports", "data", "docs", "notebooks", "conda", ".ci")
TEXTS = {".py", ".md", ".toml", ".ipynb", ".cff", ".yaml", ".html", ".txt", ""}
GENERATED = {
    ROOT / "docs" / "examples",
    ROOT / "docs" / "reference" / "api",
    ROOT / "reports" / "demo",
}
SYSTEM = ("/proc", "/dev", "/tmp")  # of every Linux
PERSONAL = re.compile(r"(~/|/(home|root|work|mnt|media|srv|opt|Users)(/|$))")
LEADING = (ast.Attribute, ast.Subscript, ast.BinOp, ast.Call, ast.Constant)
Names = Mapping[str, set[Path]]


def texts() -> Iterator[Path]:
    """Every text file of the project, without stored results and tables."""
    tops = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    for path in [*tops, *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*"))]:
        if path.suffix in TEXTS and path.is_file() and not GENERATED & set(path.parents):
            yield path


@cache
def programs() -> dict[Path, ast.Module]:
    """Every program; of the package, whose users name their files, those that know their own place."""
    sources = {path: path.read_text("utf-8") for path in texts() if path.suffix == ".py"}
    return {
        path: ast.parse(source)
        for path, source in sources.items()
        if not path.is_relative_to(ROOT / "tabsynth") or "__file__" in source
    }


def values(node: ast.AST, file: Path, names: Names) -> set[Path]:
    """The paths that an expression may have, as far as they follow from ``__file__``."""
    return {Path(os.path.normpath(path)) for path in _values(node, file, names)}


def _values(node: ast.AST, file: Path, names: Names) -> set[Path]:
    match node:
        case ast.Name(id="__file__"):
            return {file}
        case ast.Name(id=name):
            return names.get(name, set())
        case ast.Attribute(value=value, attr="parent"):
            return {path.parent for path in values(value, file, names)}
        case ast.Subscript(
            value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(steps))
        ):
            return {path.joinpath(*[".."] * (steps + 1)) for path in values(value, file, names)}
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return {path / part(right) for path in values(left, file, names)}
        case ast.Call(
            func=ast.Attribute(value=value, attr="joinpath" | "with_name" as method), args=rest
        ):
            begin = ".." if method == "with_name" else ""
            return {path.joinpath(begin, *map(part, rest)) for path in values(value, file, names)}
        case ast.IfExp(body=first, orelse=second):
            return values(first, file, names) | values(second, file, names)
        case ast.Call(func=ast.Attribute(value=value, attr="resolve" | "absolute")):
            return values(value, file, names)
        case ast.Call(func=ast.Name(id="Path" | "str"), args=[first, *rest]):
            return {path.joinpath(*map(part, rest)) for path in values(first, file, names)}
        case ast.Call(func=ast.Attribute(attr="dirname"), args=[first]):
            return {path.parent for path in values(first, file, names)}
        case ast.Call(func=ast.Attribute(attr="abspath" | "realpath"), args=[first]):
            return values(first, file, names)
        case ast.Call(func=ast.Attribute(attr="join"), args=[first, *rest]):
            return {path.joinpath(*map(part, rest)) for path in values(first, file, names)}
    return set()


def part(node: ast.AST) -> str:
    """A part of a path as it is written; a name stands for what is not written."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=pieces):
            return "".join(map(part, pieces))
    return "name"


def assigned(tree: ast.AST, file: Path) -> dict[str, set[Path]]:
    """The paths that names of a program may have; ``ROOT`` is the same in all of them."""
    names: dict[str, set[Path]] = defaultdict(set, ROOT={ROOT})
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] |= values(value, file, names)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=parts)):
                for target, value in zip(targets, parts, strict=False):
                    if isinstance(target, ast.Name):
                        names[target.id] |= values(value, file, names)
    return names


def outside(tree: ast.AST, file: Path) -> list[str]:
    """The expressions of a program that lead out of the repository."""
    names = assigned(tree, file)
    wrong = []
    for node in ast.walk(tree):
        if not isinstance(node, LEADING):
            continue
        paths = values(node, file, names)
        written = [part(node)] if isinstance(node, ast.Constant) else []
        called = getattr(node, "func", None)
        if getattr(called, "attr", getattr(called, "id", "")) in ("Path", "open"):
            written = [part(argument) for argument in node.args[:1]]
            if any(text.split("/")[0] == ".." or foreign(text) for text in written):
                wrong.append(ast.unparse(node))
        if isinstance(node, ast.Attribute) and node.attr in {"expanduser", "home"}:
            wrong.append(ast.unparse(node))
        if any(PERSONAL.match(text) for text in written) or any(
            not path.is_relative_to(ROOT) for path in paths
        ):
            wrong.append(ast.unparse(node))
    return wrong


def foreign(text: str) -> bool:
    """Return whether a text is an absolute path to what not every Linux has."""
    return text.startswith("/") and not text.startswith(SYSTEM)


@pytest.mark.slow
def test_no_program_leads_out_of_the_repository():
    wrong = {
        str(path.relative_to(ROOT)): found
        for path, tree in programs().items()
        if path.name != Path(__file__).name and (found := outside(tree, path))
    }
    assert wrong == {}
    assert len(programs()) > 200


@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        ('Path(__file__).resolve().parents[3] / "data"', True),
        ('Path(__file__).parents[2] / "data"', False),
        ('HERE = Path(__file__).parent\nHERE.parent.parent.parent / "data"', True),
        ("HERE = Path(__file__).parent\nTABLE = HERE.parent / 'benchmark' / 'x.csv'", False),
        ("A, B = 1, Path(__file__).parents[1]\nC = B.parent\nC.parent / 'x'", True),
        ("from tables import ROOT\nROOT.parent / 'x'", True),
        ("from tables import ROOT\nROOT / 'x'", False),
        ("Path(__file__).with_name(f'{name}.csv')", False),
        ("Path(__file__, '../../../../x')", True),
        ("Path(__file__).parent / '../../..' / name", True),
        ("os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'x')", True),
        ("Path('/proc/self/statm')", False),
        ("Path('/elsewhere/x.csv')", True),
        ("read('/home/me/x.csv')", True),
        ("read('~/x.csv')", True),
        ("open('../x.csv')", True),
        ("Path.home() / 'x'", True),
        ("Path('x.csv')", False),
    ],
)
def test_what_leads_out_is_found(program, wrong):
    tree = ast.parse(program)
    assert bool(outside(tree, ROOT / "reports" / "benchmark" / "run.py")) == wrong


def test_no_file_names_a_folder_beside_the_repository():
    beside = re.compile("|".join(("[.][.]/" + "shared", "/work" + "/", "[\"']shared" + "[\"'] ?/")))
    wrong = [
        str(path.relative_to(ROOT)) for path in texts() if beside.search(path.read_text("utf-8"))
    ]
    assert wrong == []


def test_paths_of_configurations_are_in_the_repository():
    for path in (ROOT / "reports").glob("*/*.toml"):
        for text in re.findall(r'"([^"\n]*\.\./[^"\n]*)"', path.read_text("utf-8")):
            assert Path(os.path.normpath(path.parent / text)).is_relative_to(ROOT), (path, text)


def needed(path: Path, seen: set[Path]) -> set[Path]:
    """Return a program of a report and the programs of reports and of data/ that it imports."""
    if path in seen:
        return seen
    seen.add(path)
    for node in ast.walk(programs()[path]):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            places = ROOT / "reports", ROOT / "reports" / "benchmark", ROOT / "data"
            for folder in (path.parent, *places):
                if (file := folder / f"{name}.py") in programs() and file != path:
                    needed(file, seen)
                    break
    return seen


def test_pages_of_reports_that_need_benchmark_files_say_where_they_are_from():
    pages, folder = set(), ROOT / "reports"
    for program in (p for p in programs() if p.is_relative_to(folder) and "test" not in p.stem):
        modules = needed(program, set())
        if ROOT / "data" / "benchmark_data.py" not in modules:
            continue
        own = [path for path in modules if path.parent == program.parent]
        for page in program.parent.glob("*.md"):
            written = any(page.name in path.read_text("utf-8") for path in own)
            written |= page.name == "README.md" and program.name == "run.py"  # by the harness
            if written and "template" not in page.name:
                pages.add(page)
    lacking = [p for p in pages if "data/README.md#benchmark-files" not in p.read_text("utf-8")]
    assert lacking == []
    assert len(pages) > 3 or not folder.exists()  # the source distribution has no reports


def test_a_missing_file_is_named_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv(benchmark_data.VARIABLE, str(tmp_path))
    (tmp_path / "adult.csv").touch()
    assert benchmark_data.missing("adult.csv") == ""
    assert benchmark_data.data_file("adult.csv") == tmp_path / "adult.csv"
    message = "This needs other.csv: set TABSYNTH_DATA to a folder"
    assert benchmark_data.missing("adult.csv", "other.csv").startswith(message)
    monkeypatch.delenv(benchmark_data.VARIABLE)
    with pytest.raises(SystemExit, match=r"This needs adult.csv: .* data/README\.md says where"):
        benchmark_data.data_file("adult.csv")


@pytest.mark.parametrize("folder", ["tests", "reports"])
def test_files_of_the_mark_are_described(folder):
    """Each file that a test or report names is in the list of data/README.md."""
    page = (ROOT / "data" / "README.md").read_text("utf-8")
    listed = page.split("## Benchmark files")[1].split("\n## ")[0]
    pattern = r"(adult|census_|diabetes_hospital)\w*\.(csv|json)"
    for path, tree in programs().items():
        if path.is_relative_to(ROOT / folder):
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and re.fullmatch(pattern, str(node.value)):
                    assert node.value in listed, path


@pytest.mark.slow
def test_tests_with_the_mark_are_skipped_without_the_files_and_no_other_test_sees_them(tmp_path):
    (tmp_path / "adult.csv").touch()
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text("utf-8"))
    (tmp_path / "test_mark.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.data('adult.csv')\n"
        "def test_first(): assert os.environ['TABSYNTH_DATA']\n"
        "@pytest.mark.data('other.csv')\n"
        "def test_second(): assert False\n"
        "def test_third(): assert 'TABSYNTH_DATA' not in os.environ\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = data(*files): needs files\n")
    paths = [str(ROOT), str(ROOT / "tests"), str(ROOT / "data")]
    variables = {"PYTHONPATH": os.pathsep.join(paths), benchmark_data.VARIABLE: str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "test_mark.py"],
        cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "This needs other.csv: set TABSYNTH_DATA" in done.stdout
    assert "2 passed, 1 skipped" in done.stdout.splitlines()[-1]
