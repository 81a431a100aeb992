"""The wheel and the source distribution of a release: built twice from the files of git, with the same bytes.

``python tests/release/make_dist.py`` writes them to ``build/dist``, with ``SHA256SUMS``, and fails if the two builds
differ. Times are that of the last commit, or ``SOURCE_DATE_EPOCH``. Owners and permissions are those of no machine.
"""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = "import sys; from setuptools import build_meta as b; b.build_{}(sys.argv[1])"


def tracked(root: Path) -> list[str]:
    """Names of the files that git tracks, in their order.

    Raises
    ------
    SystemExit
        Where there is no checkout.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached"], cwd=root, capture_output=True, check=False
    )
    if listed.returncode:
        sys.exit("This is no git checkout: which files belong to a release is not known.")
    names = [name for name in listed.stdout.decode().split("\0") if name]
    return sorted(name for name in names if (root / name).is_file())


def epoch(root: Path) -> int:
    """Seconds since 1970 of ``SOURCE_DATE_EPOCH``, else of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        command = ["git", "log", "-1", "--format=%ct"]
        given = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return int(given)


def normal_tar(path: Path, seconds: int) -> None:
    """Write a ``.tar.gz`` file again: sorted, of one time, without owners."""
    with tarfile.open(path) as archive:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        contents = {m.name: archive.extractfile(m).read() for m in members if m.isfile()}  # type: ignore[union-attr]
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            if not member.isfile():
                continue
            clean = tarfile.TarInfo(member.name)
            clean.size, clean.mtime, clean.mode = len(contents[member.name]), seconds, 0o644
            archive.addfile(clean, io.BytesIO(contents[member.name]))
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=seconds) as packed:
        packed.write(raw.getvalue())


def normal_zip(path: Path) -> None:
    """Write a wheel again: files in their order, with the same permissions and compression."""
    with zipfile.ZipFile(path) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in entries:
            clean = zipfile.ZipInfo(info.filename, info.date_time)
            clean.external_attr, clean.create_system = 0o100644 << 16, 3
            archive.writestr(clean, content, zipfile.ZIP_DEFLATED, 9)


def build(root: Path, names: list[str], out: Path, seconds: int) -> list[Path]:
    """The source distribution and the wheel of these files of ``root``, built in a folder of their own."""
    out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        for name in names:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, source / name)
        for kind in ("sdist", "wheel"):
            command = [sys.executable, "-c", BUILD.format(kind), str(out.resolve())]
            done = subprocess.run(
                command, cwd=source, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"The {kind} cannot be built:\n{done.stdout}{done.stderr}")
    (archive,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    normal_tar(archive, seconds)
    normal_zip(wheel)
    return [archive, wheel]


def digests(files: list[Path]) -> dict[str, str]:
    """From the name of each file to its SHA-256."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def main() -> None:
    """Build twice, compare, and write the files with their digests."""
    names, seconds = tracked(ROOT), epoch(ROOT)
    out = ROOT / "build" / "dist"
    shutil.rmtree(out, ignore_errors=True)
    files = build(ROOT, names, out, seconds)
    with tempfile.TemporaryDirectory() as folder:
        before = os.umask(0o077)
        again = build(ROOT, names, Path(folder), seconds)
        os.umask(before)
        differ = {n for n, d in digests(again).items() if digests(files)[n] != d}
    if differ:
        sys.exit(f"Two builds of {', '.join(sorted(differ))} differ.")
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests(files).items())
    (out / "SHA256SUMS").write_text(sums)
    print(f"Two builds gave the same bytes; {out.relative_to(ROOT)}:\n{sums}", end="")


if __name__ == "__main__":
    main()
