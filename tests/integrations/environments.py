"""tabsynth beside the real packages: ``make test-plugins`` makes an environment for each, and runs its tests there.

The packages have no common environment: dpmm pins numpy 1.26 and pandas 2.1, SDV and SDMetrics need
pandas 2; SDGym 0.15.1 does not import with SDV 2. Environments are folders of ``build/plugins`` and are kept; names as
arguments choose some of them, in this order. Tables that one makes in ``build/plugins/tables`` are evaluated by a later one.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
FOLDER = Path(os.environ.get("TABSYNTH_PLUGIN_FOLDER", ROOT / "build" / "plugins"))
OURS = [
    "torch==2.13.0",
    f"{ROOT}",
]  # the pin has a build without CUDA where a package index offers one
# Of each environment: Python, steps of pip, and what runs in it: a script, or tests by pytest.
ENVIRONMENTS = {
    "dpmm": ("3.11", [["dpmm==0.1.9", "setuptools<81", "pyarrow<22"]], ["made_by_dpmm.py"]),
    "sdgym": (
        "3.11",
        [OURS[:1], [*OURS, "sdgym==0.15.1", "sdv<2", "pytest"]],
        ["test_with_sdgym.py"],
    ),
    "sdv": (
        "3.11",
        [OURS[:1], [*OURS, "sdv==2.0.0", "sdmetrics==0.32.0", "pytest"]],
        ["test_with_sdv.py"],
    ),
    "tables": ("3.11", [OURS[:1], [*OURS, "pytest"]], ["test_with_tables.py"]),
}


def python_of(version: str) -> str:
    """A Python of that version; the one that runs this, if it is of it."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    found = shutil.which(f"python{version}")
    if found is None:
        sys.exit(f"python{version} is needed for these packages; install it.")
    return found


def prepare(name: str) -> Path:
    """The Python of an environment, made if it is not there."""
    version, steps, _ = ENVIRONMENTS[name]
    place = FOLDER / name
    python = place / "bin" / "python"
    if not (place / ".installed").exists():
        subprocess.run([python_of(version), "-m", "venv", "--clear", str(place)], check=True)
        for words in steps:
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *words], check=True)
        (place / ".installed").touch()
    return python


def main() -> None:
    """Make the environments and run their tests; exit code 1 if one fails."""
    names = sys.argv[1:] or [*ENVIRONMENTS]
    for name in names:
        if name not in ENVIRONMENTS:
            sys.exit(f"There is no environment {name}; they are {', '.join(ENVIRONMENTS)}.")
    (FOLDER / "tables").mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        python = prepare(name)
        environment = {
            **os.environ,
            "TABSYNTH_PLUGIN_TABLES": str(FOLDER / "tables"),
            "PYTHONPATH": str(ROOT / "tests"),
        }
        for file in ENVIRONMENTS[name][2]:
            words = [str(HERE / file)]
            if file.startswith("test_"):
                words = ["-m", "pytest", "-q", "-rs", "--noconftest", "-p", "no:cacheprovider"]
                words += [
                    "-o",
                    "addopts=",
                    "-o",
                    "filterwarnings=",
                    "-W",
                    "ignore",
                    "-m",
                    "plugins",
                ]
                words += [str(HERE / file)]
            print(f"{name}: {file}", flush=True)
            done = subprocess.run([str(python), *words], cwd=ROOT, env=environment, check=False)
            if done.returncode:
                failed.append(f"{name}: {file}")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")
    print(f"{len(names)} environments passed, 0 failed")


if __name__ == "__main__":
    main()
