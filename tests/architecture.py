"""How the package hangs together: ``python tests/architecture.py`` prints what CONTRIBUTING.md promises.

* the modules whose functions run in one fit and one sample of a method,
* cycles of imports, those under ``TYPE_CHECKING``, inside functions and by ``import_module`` included,
* names that begin with an underscore and are imported outside of the package that they belong to.
"""

import ast
import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tabsynth"


def modules() -> dict[str, Path]:
    """From the name of each module of ours to its file."""
    results = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        results[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return results


@cache
def imported_names(path: Path) -> set[str]:
    """Return the full name of all that a file imports anywhere in it, by ``import_module`` and its stub too."""
    stub = path.with_suffix(".pyi")
    result = imported_names(stub) if stub.suffix != path.suffix and stub.exists() else set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            result |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
            result |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return result


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """Return the modules of ours that a file imports anywhere in it."""
    names = imported_names(path)
    return {name if name in known else name.rpartition(".")[0] for name in names} & set(known)


def private_imports() -> set[tuple[str, str]]:
    """Return the imports of a private name by a module outside of the package that has it: module and name.

    A module or a name that begins with an underscore is private to the package that it is in, and to the packages in that.
    """
    result = set()
    for module, path in modules().items():
        for name in imported_names(path):
            parts = name.split(".")
            place = next((i for i, part in enumerate(parts) if part.startswith("_")), None)
            if place is None or parts[0] != "tabsynth" or parts[place].startswith("__"):
                continue
            home = ".".join(parts[:place])
            package = (
                home
                if (PACKAGE.parent / home.replace(".", "/")).is_dir()
                else home.rpartition(".")[0]
            )
            if not f"{module}.".startswith(f"{package}."):
                result.add((module, name))
    return result


def cycles() -> list[set[str]]:
    """Groups of modules each of which imports all others of its group, directly or not."""
    package_modules = modules()
    graph = {
        name: imports(path, package_modules) - {name} for name, path in package_modules.items()
    }
    reached = {name: set(_reached(graph, name)) for name in graph}
    groups = [
        {other for other in reached[name] if name in reached[other]}
        for name in graph
        if name in reached[name]
    ]
    return [group for i, group in enumerate(groups) if group not in groups[:i]]


def _reached(graph: dict[str, set[str]], start: str) -> Iterator[str]:
    seen, left = set(), [*graph[start]]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += graph[name]
            yield name


def modules_run(job: Callable[[], object]) -> set[str]:
    """Names of the modules of ours of which a function runs in ``job()``."""
    result = set()

    def trace(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name != "<module>" and name.split(".")[0] == "tabsynth":
            result.add(name)

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        job()
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]
    return result


def jobs() -> dict[str, tuple[int, Callable[[], object]]]:
    """Return small fits with a sample, by name: the aim for the number of modules that run in each, and the fit."""
    from tabsynth import DPWGAN, MargNet, load_census
    from tabsynth.cli import app
    from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig
    from tabsynth.synthesizers.adversarial.critic import WGANConfig
    from tabsynth.synthesizers.margnet.config import MargNetConfig
    from tabsynth.training.private_step import StepConfig

    table, schema = load_census()
    people, table = table[:3_000], table[:300]
    few = StepConfig(count=4)
    networks = {
        "config": WGANConfig(step=few, warm_start_steps=2),
        "autoencoder_config": AutoencoderConfig(step=few),
    }
    margnet = MargNet(schema, epsilon=1.0, config=MargNetConfig(steps=20))
    dpwgan = DPWGAN(schema, epsilon=1.0, **networks)

    def command() -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            people.to_csv("people.csv", index=False)
            words = "fit people.csv --epsilon 1 --set steps=20 -o people.model"
            with contextlib.redirect_stdout(io.StringIO()):
                app(words.split(), standalone_mode=False)
            assert Path("people.model").is_file()

    return {
        "margnet": (22, lambda: margnet.fit(table).sample(20)),
        "dp-wgan": (26, lambda: dpwgan.fit(table).sample(20)),
        "tabsynth fit people.csv --epsilon 1": (34, command),
    }


def main() -> None:
    """Print the figures."""
    for name, (_, job) in jobs().items():
        result = modules_run(job)
        print(f"{name}: {len(result)} modules", *sorted(result), sep="\n  ")
    for group in cycles():
        print("cycle of imports:", *sorted(group))
    for module, name in sorted(private_imports()):
        print(f"{module} imports {name}")
    print(f"{len(modules())} modules, {len(cycles())} cycles of imports")


if __name__ == "__main__":
    main()
