"""Nothing that the package reads can run code: no call that could, found in its syntax trees."""

import ast
from collections.abc import Collection
from pathlib import Path

import jinja2
import pytest

import tabsynth
from tabsynth.report.page import environment

PACKAGE = Path(tabsynth.__file__).parent
MODULES = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "dbm"),
    *("subprocess", "pty", "code", "codeop", "ctypes", "cffi", "yaml", "runpy", "imp", "commands"),
    *("socket", "xmlrpc", "telnetlib", "ftplib", "smtplib", "requests", "httpx", "xml"),
    *("urllib", "http"),
}
NETWORK = {"urllib", "http"}
ALLOWED = {
    # It runs the command line of tabsynth, in the environment that the caller names.
    "app/guard.py": {"urllib"},  # reads the token out of a request for the local page
    "app/server.py": {"socket"},  # listens at 127.0.0.1 where a user starts the local page
    # It refuses every document type declaration: tests/schema/test_importers.py.
    "schema/importers/ddi.py": {"xml"},
    "dossier/codebooks.py": {"xml"},  # writes it
    # They read with safe_load only, without aliases: tests/dossier/test_bad_releases.py.
    "dossier/answers.py": {"yaml"},
}
BUILTINS = {"eval", "exec", "compile", "__import__", "input", "breakpoint"}
ATTRIBUTES = {
    *(
        "read_pickle",
        "to_pickle",
        "read_hdf",
        "read_xml",
        "read_html",
        "system",
        "popen",
        "startfile",
    ),
    *("execv", "execve", "execvp", "spawnl", "spawnv", "fork", "query", "from_string_unsafe"),
    *("load_module", "exec_module", "extractall", "unpack_archive", "loads_unsafe", "frombytecode"),
}
LOADERS = {"torch", "np", "numpy", "jit", "hub", "yaml", "pickle", "joblib", "export", "package"}


def dangers(tree: ast.AST, allowed: Collection[str] = ()) -> list[str]:
    """What could run code, or fetch it."""
    results = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").split(".")[0]] if node.level == 0 else []
        else:
            names = []
        banned = (MODULES | NETWORK).difference(allowed)
        results += [f"{node.lineno}: import {name}" for name in names if name in banned]  # type: ignore[attr-defined]
        if isinstance(node, ast.Name) and node.id in BUILTINS:
            results.append(f"{node.lineno}: {node.id}")
        if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            results.append(f"{node.lineno}: .{node.attr}")
        if isinstance(node, ast.Call):
            results += _calls(node)
    return results


def _calls(node: ast.Call) -> list[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    of = node.func.value if isinstance(node.func, ast.Attribute) else None
    owner = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
    out = []
    safe = ast.unparse(node.func).startswith("safetensors.torch.")
    if (
        not safe
        and name in ("load", "save", "fromfile", "memmap", "load_state_dict_from_url")
        and owner in LOADERS
    ):
        out.append(f"{node.lineno}: {owner}.{name}")
    if name == "eval" and node.args:  # of a module of torch it takes none
        out.append(f"{node.lineno}: .eval(…)")
    for keyword in node.keywords:
        allowed = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        if keyword.arg in ("shell", "allow_pickle", "trust_remote_code") and not allowed:
            out.append(f"{node.lineno}: {keyword.arg}=")
    return out


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.slow
def test_the_package_has_no_way_to_run_what_it_reads() -> None:
    assert len(sources()) > 100
    for path in sources():
        allowed = ALLOWED.get(path.relative_to(PACKAGE).as_posix(), ())
        results = dangers(ast.parse(path.read_text("utf-8")), allowed)
        if path.relative_to(PACKAGE).as_posix() == "encoding/rows.py":
            # Whole numbers that the fit itself wrote to a file without a name.
            results = [result for result in results if not result.endswith(": np.memmap")]
        assert results == [], path


@pytest.mark.parametrize(
    "code",
    [
        *(
            "import pickle",
            "from joblib import load",
            "import subprocess as s",
            "import os.path, yaml",
        ),
        *(
            "eval('1')",
            "f = exec",
            "os.system('x')",
            "torch.load(p)",
            "np.load(p, allow_pickle=True)",
        ),
        *("pd.read_pickle(p)", "frame.eval('a')", "frame.query('a')", "torch.jit.load(p)"),
        *("run(c, shell=True)", "__import__('os')", "from urllib.request import urlopen"),
        *("archive.extractall(p)", "import xml.etree", "torch.save(x, p)"),
    ],
)
def test_the_search_finds_what_it_looks_for(code: str) -> None:
    assert dangers(ast.parse(code))


def test_what_is_harmless_is_not_found() -> None:
    fine = "model.eval()\nimport json\njson.loads(t)\nsafetensors.torch.save(t)\nschema.load(p)\n"
    assert dangers(ast.parse(fine)) == []


def test_templates_escape() -> None:
    """Autoescape is on wherever a template is made; nothing but our own text is marked as safe."""
    assert environment().autoescape is True
    assert environment().undefined is jinja2.StrictUndefined
    created = 0
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == "Environment":
                given = {k.arg: ast.unparse(k.value) for k in node.keywords}
                assert given.get("autoescape") == "True", path
                created += 1
            assert node.func.id != "Template", path
            if node.func.id == "Markup":
                (text,) = node.args
                ours = ast.unparse(text) == "packaged_text('style.css')"
                assert ours or (isinstance(text, ast.Constant) and isinstance(text.value, str)), (
                    path
                )
    assert created == 1
    for template in PACKAGE.rglob("*.html"):
        text = template.read_text("utf-8")
        assert "safe" not in text.replace("unsafe-inline", "") and "autoescape" not in text
        assert "<script" not in text and "javascript:" not in text
