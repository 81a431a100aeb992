"""README, docs and their printed outputs: ``python tests/pages.py [PAGE …]`` runs pages and replaces outputs that differ.

A block of a page is one of these, by its language and by the comment before it:

* ``sh`` and ``python``: commands and programs, which run in order in one folder. ``# exit code 4`` after a command
  says how it ends, if not with 0.
* ``text`` directly after one of them: its output. Words must be the same, and so must numbers, but where a comment
  ``<!-- numbers: within 0.05 -->`` or ``within 10%`` says otherwise. ``…`` stands for what the page leaves out;
  white space does not count. A tolerance that nearly every number meets is refused, and so is an output that is mostly ``…``.
* any language after ``<!-- file: NAME -->``: a file that the reader saves.
* any language after ``<!-- not run: REASON -->``. The commands, options and names in it are checked all the same.
* ``pseudocode``: an algorithm or a sketch.
"""

import contextlib
import difflib
import io
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from command_lines import TABSYNTH, run

from tabsynth import MargNet, load_census, write_table

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)"
RUN = ("sh", "python")
# Pages that run, each group in a folder of its own, in an order in which later pages may use the files of earlier ones.
GROUPS = {
    "readme": ("README", "docs/index", "data/README"),
    "lessons": (
        "docs/tutorials/first-table",
        "docs/tutorials/your-own-table",
        "docs/tutorials/publishing-a-table",
        "docs/how-to/release-a-table",
        "docs/how-to/write-a-schema-from-a-codebook",
        "docs/how-to/structural-zeros-and-dependencies",
        "docs/how-to/declared-tables",
        "docs/how-to/choose-epsilon-and-delta",
    ),
    "guides": (
        "docs/how-to/drafting",
        "docs/how-to/schema-tools",
        "docs/how-to/warm-starts",
        "docs/how-to/resume-a-fit",
        "docs/how-to/project-ledger",
        "docs/how-to/sign-and-verify",
        "docs/how-to/audit-a-claim",
        "docs/how-to/files",
        "docs/how-to/privacy-unit",
        "docs/how-to/large-tables",
        "docs/reference/certificate",
        "docs/how-to/valid-inference",
    ),
    "census": (
        "docs/how-to/conditional-sampling",
        "docs/how-to/own-critic",
        "docs/how-to/planning",
        "docs/how-to/counts",
        "docs/how-to/other-packages",
        "docs/reference/model-file",
    ),
    "survey": ("docs/how-to/survey-weights",),
    "linked": ("docs/how-to/linked-tables", "docs/how-to/omop"),
    "edges": (
        "docs/explanation/sharp-edges/bounds-from-the-data",
        "docs/explanation/sharp-edges/epsilon-after-a-result",
        "docs/explanation/sharp-edges/a-row-is-not-a-person",
        "docs/explanation/sharp-edges/the-report-beside-the-table",
    ),
}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes
    ----------
    language, text : str
    start, end : int
        Where its text begins and ends in the page.
    comments : dict of str to str
        Of the comments directly before it: ``file``, ``not run``, ``numbers``.
    output : bool
        Whether it is the output of the block before.
    """

    language: str
    text: str
    start: int
    end: int
    comments: dict[str, str]
    output: bool

    @property
    def runs(self) -> bool:
        """Whether its commands or its program are executed."""
        return self.language in RUN and not {"file", "not run"} & set(self.comments)


def path_of(name: str) -> Path:
    """The file of a page."""
    return ROOT / f"{name}.md"


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    result: list[Block] = []
    end = 0
    for match in BLOCK.finditer(page):
        between = page[end : match.start()]
        before = re.search(r"(?:<!-- [\w ]+: .*? -->\s*)*\Z", between)
        comments = dict(re.findall(r"<!-- ([\w ]+): (.*?) -->", before[0]))
        follows = bool(result) and result[-1].runs and not between[: before.start()].strip()
        language = match[1]
        result.append(
            Block(
                language,
                match[2],
                match.start(2),
                match.end(2),
                comments,
                language == "text" and follows,
            )
        )
        end = match.end()
    return result


def commands(block: Block) -> Iterator[str]:
    """The commands of a block: lines, but those that a backslash continues."""
    yield from filter(None, block.text.replace("\\\n", " ").splitlines())


def execute(name: str, folder: Path, shorter: dict[str, str]) -> list[tuple[Block, str]]:
    """Do what a reader does who follows a page, in one folder.

    Returns
    -------
    list of (Block, str)
        The blocks of the page, and what each printed; with an output, what the block before it printed.
    """
    result, printed, variables = [], "", {"__name__": "__main__"}
    for block in blocks(path_of(name).read_text("utf-8")):
        if not block.output:
            text = block.text
            for complete, part in shorter.items():
                text = text.replace(complete, part)
            printed = carry_out(replace(block, text=text), name, variables, folder)
        result.append((block, printed))
    return result


def carry_out(block: Block, name: str, variables: dict[str, object], folder: Path) -> str:
    """Save the file of a block, or run the block; return what is printed."""
    if "file" in block.comments:
        (folder / block.comments["file"]).write_text(block.text, "utf-8")
    elif block.runs and block.language == "sh":
        return "\n".join(command(line, folder) for line in commands(block))
    elif block.runs:
        return program(block.text, name, variables, folder)
    return ""


def program(text: str, name: str, variables: dict[str, object], folder: Path) -> str:
    """Execute a Python block; return what it prints."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(text, name, "exec"), variables)
    return printed.getvalue()


def exit_code(line: str) -> int:
    """How a line of a shell block ends."""
    return int((re.search(r"#.*exit code (\d+)", line) or [0, 0])[1])


def command(line: str, folder: Path) -> str:
    """Execute a line of a shell block; return what it prints."""
    first, *words = shlex.split(line, comments=True)
    if first == "tabsynth":
        done = run(*words, cwd=folder, code=exit_code(line))
        return str(done.stdout + done.stderr)
    environment = {**os.environ, "PATH": f"{TABSYNTH.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [first, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return str(done.stdout)


def plain(text: str) -> str:
    """The text with single spaces."""
    return " ".join(text.split())


def pattern(expected: str) -> str:
    """A regular expression for an output whose numbers are groups; ``…`` stands for anything."""
    parts = re.split(rf"({NUMBER}|…)", plain(expected))
    return "".join(
        r".*?" if part == "…" else f"({NUMBER})" if i % 2 else re.escape(part)
        for i, part in enumerate(parts)
    ).replace(r"\ .*?\ ", r"(?: .*)? ")


def difference(expected: str, printed: str, numbers: str = "") -> str | None:
    """What of an output is not as the page has it; None if nothing."""
    match = re.fullmatch(pattern(expected), plain(printed), re.DOTALL)
    if match is None:
        return f"other words: {plain(printed)}"
    for text, other in zip(re.findall(NUMBER, plain(expected)), match.groups(), strict=True):
        if not near(value(text), value(other), numbers):
            return f"{other} in place of {text}: {plain(printed)}"
    return None


def value(number: str) -> float:
    return float(number.replace(",", ""))


def near(expected: float, printed: float, numbers: str) -> bool:
    """Whether two numbers are equal, or as near as ``within 10%`` or ``within 0.05`` says."""
    allowed = [size * abs(expected) if percent else size for size, percent in tolerances(numbers)]
    return math.isclose(expected, printed, rel_tol=1e-9, abs_tol=max([0.0, *allowed]) * (1 + 1e-9))


def tolerances(numbers: str) -> list[tuple[float, bool]]:
    """The sizes in a comment on numbers, each as a share of the number (``10%``) or not."""
    return [
        (float(size) / (100 if percent else 1), bool(percent))
        for size, percent in re.findall(r"([\d.]+)(%?)", numbers)
    ]


def compares_nothing(block: Block) -> str | None:
    """Why the comparison of an output would find little; None if it would find a difference.

    A tolerance must be less than half of the median of the numbers that have a decimal point, and less than 50%. Numbers
    without one, such as names of rows, count if there are no others.
    """
    words = plain(block.text).split()
    shown = [word for word in words if re.search(r"\w", word)]
    if len(shown) < 3 or len(shown) <= words.count("…"):
        return "mostly …"
    found = re.findall(NUMBER, block.text)
    sizes = [abs(value(number)) for number in found if "." in number] or [
        *map(abs, map(value, found))
    ]
    for size, percent in tolerances(block.comments.get("numbers", "")):
        if not found or size >= 0.5 * (1 if percent else np.median(sizes)):
            return f"a tolerance of {size} for {found}"
    return None


def prepare(group: str, folder: Path) -> None:
    """Write the files that the pages of a group begin with."""
    rng = np.random.default_rng(0)
    lesson = blocks(path_of("docs/tutorials/your-own-table").read_text("utf-8"))
    if group in ("guides", "edges"):
        for block in lesson[:2]:  # people.csv, schema.json
            carry_out(block, "people", {}, folder)
    if group == "guides":
        people = pd.read_csv(folder / "people.csv")
        people.sample(frac=0.5).to_csv(folder / "last-year.csv", index=False)
        (folder / "people").mkdir()
        people.to_parquet(folder / "people" / "0.parquet", index=False)
        stays = {"patient": rng.integers(0, 1500, 3000), "days": rng.integers(1, 31, 3000)}
        stays["ward"] = rng.choice(["a", "b", "c"], 3000)
        pd.DataFrame(stays).to_csv(folder / "stays.csv", index=False)
    elif group == "census":
        names = ["PUMA", "AGEP", "SEX", "MSP"]
        table, schema = load_census()
        table, schema = table[names], schema.select(names)
        model = MargNet(schema, epsilon=1.0, time_limit=1.0).fit(table[:3000])
        model.save(folder / "model.tabsynth")
        model.sample_to(folder / "from_sdv.csv", 1000)
        write_table(table[:1000], folder / "real.csv")
        write_table(table[1000:2000], folder / "holdout.csv")
        schema.save(folder / "schema.json")
    elif group == "survey":
        table, schema = load_census()
        table, schema = table[["AGEP", "SEX"]], schema.select(["AGEP", "SEX"])
        write_table(table.assign(PWGTP=rng.integers(1, 300, len(table))), folder / "private.csv")
        schema.replace(weight="PWGTP", max_weight=1000).save(folder / "schema.json")
    elif group == "readme":
        rows = 4_000
        visits = {"id": np.arange(rows) // 3, "docvis": rng.poisson(3, rows)}
        visits |= {"year": rng.integers(1984, 1989, rows), "age": rng.integers(25, 65, rows)}
        visits |= {"female": rng.integers(0, 2, rows), "hhninc": rng.gamma(2, 1.5, rows).round(2)}
        pd.DataFrame(visits).to_csv(folder / "your-table.csv", index=False)
        (folder / "data").symlink_to(ROOT / "data")  # the page begins in a checkout


def rewritten(page: str, results: list[tuple[Block, str]]) -> str:
    """The page with what was printed in place of the outputs that differ."""
    for block, printed in reversed(results):
        wrong = block.output and difference(block.text, printed, block.comments.get("numbers", ""))
        if wrong:
            page = page[: block.start] + updated(block.text, printed) + page[block.end :]
    return page


def updated(expected: str, printed: str) -> str:
    """An output with the numbers that were printed; where words differ, with the lines that resemble its own."""
    match = re.fullmatch(pattern(expected), plain(printed), re.DOTALL)
    if match is not None:
        numbers = iter(match.groups())
        # Numbers of a table stay in line.
        return re.sub(
            f"(  +|)({NUMBER})",
            lambda old: next(numbers).rjust(len(old[0]) if old[1] else 0),
            expected,
        )
    lines = printed.splitlines()
    result = []
    for line in expected.splitlines() if "…" in expected else []:
        similar = difflib.get_close_matches(line, lines, n=1, cutoff=0.3)
        result.append("…" if line == "…" else similar[0] if similar else "")
    return "\n".join(result if all(result) and result else lines).strip("\n") + "\n"


if __name__ == "__main__":
    for group, names in GROUPS.items():
        if sys.argv[1:] and not set(names) & set(sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as directory:
            prepare(group, Path(directory))
            for name in names:
                results = execute(name, Path(directory), {})
                page = path_of(name).read_text("utf-8")
                path_of(name).write_text(rewritten(page, results), "utf-8")
                print(name, sum(block.output for block, _ in results), "outputs")
