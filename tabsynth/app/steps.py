"""The command of each step, to copy: it does what the page does."""

import csv
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabsynth.app.settings import Settings
from tabsynth.schema.editing import Edit

END = "END-OF-ANSWERS"  # no line of answers or code is that
Reading = Mapping[str, str]  # options of reading a file, as of read_table


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: what it did, and the command."""

    title: str
    command: str


def make_folder(folder: Path) -> Step:
    """Return the folder of all files of the page."""
    return Step(
        title="Make the folder",
        command=_line("mkdir", "-m", "700", "-p", folder),
    )


def draft(
    table: Path,
    out: Path,
    reading: Reading,
    epsilon: float | None,
    delta: float,
    ledger: Path | None,
    *,
    overwrite: bool = False,
) -> Step:
    """Return a draft: with ``epsilon`` its facts are released with noise, else it copies values of the table."""
    budget = {} if epsilon is None else {"epsilon": epsilon, "delta": delta, "ledger": ledger}
    options: list[str | Path] = [*_flags(**budget, **reading), "-o", out]
    options += _flags(overwrite=overwrite or None)
    return Step(
        title="Draft a schema privately" if budget else "Draft a schema to review",
        command=_line("tabsynth", "schema", "draft", table, *options),
    )


def take_schema(source: Path, out: Path, *, overwrite: bool = False) -> Step:
    """Return a schema file that is there already."""
    return _by_python(
        "Take a schema file",
        "from tabsynth import Schema\n\n"
        f"Schema.load({_code(source)}).save({_code(out)}{_replacing(overwrite)})",
    )


def edit(path: Path, change: Edit) -> Step:
    """Return an edit of the schema file."""
    parameters = ", ".join(f"{name}={value!r}" for name, value in vars(change).items() if value)
    return _edit(path, "edit", f"Edit({parameters})", "Edit, edit")


def set_rules(path: Path, rules: Sequence[Mapping[str, Any]]) -> Step:
    """Return other rules between columns."""
    return _by_python(
        "Edit the schema",
        f"from tabsynth import Schema\n\nschema = Schema.load({_code(path)}).replace(constraints={[*map(dict, rules)]!r})\n"
        f"schema.save({_code(path)}, overwrite=True)",
    )


def set_design(path: Path, design: Mapping[str, Any]) -> Step:
    """Return another unit of privacy, or other survey weights."""
    return _edit(path, "with_design", f"**{dict(design)!r}", "with_design")


def _edit(path: Path, function: str, arguments: str, names: str) -> Step:
    return _by_python(
        "Edit the schema",
        f"from tabsynth import Schema\nfrom tabsynth.schema.editing import {names}\n\n"
        f"schema = {function}(Schema.load({_code(path)}), {arguments})\n"
        f"schema.save({_code(path)}, overwrite=True)",
    )


def _by_python(title: str, python: str) -> Step:
    """Return a step that no command of tabsynth takes."""
    return Step(title=title, command=f"python - <<'{END}'\n{python}\n{END}")


def make_ledger(path: Path, epsilon: float, delta: float) -> Step:
    """Return a project ledger."""
    budget = _flags(epsilon=epsilon, delta=delta)
    return Step(
        title="Make a project ledger",
        command=_line("tabsynth", "ledger", "create", path, *budget),
    )


def plan(schema: Path, settings: Settings) -> Step:
    """Return the planned privacy cost."""
    facts = {"rows": settings.fitted_rows, "method": settings.method}
    budget = {"epsilon": settings.epsilon, "delta": settings.delta}
    return Step(
        title="Plan the privacy cost",
        command=_line(
            *("tabsynth", "plan", *_flags(**facts, **budget, schema=schema)), *_classes(settings)
        ),
    )


def fit(
    table: Path, schema: Path, model: Path, checkpoint: Path, reading: Reading, settings: Settings
) -> Step:
    """Return the fit."""
    budget = {"epsilon": settings.epsilon, "delta": settings.delta, "rows": settings.public_rows}
    accepted = {"accept_drafted_domain": settings.accept_drafted or None}
    keeping = {"checkpoint": checkpoint, "ledger": settings.ledger}
    return Step(
        title="Fit",
        command=_line(
            "tabsynth",
            "fit",
            table,
            *_flags(schema=schema, method=settings.method, **budget),
            *_classes(settings),
            *_flags(**accepted, **keeping, **reading),
            "-o",
            model,
        ),
    )


def keep_apart(
    files: Sequence[Path], reading: Reading, share: float, seed: int, *, overwrite: bool
) -> Step:
    """Return the rows for a fit and those kept apart; the files are table, schema, and both parts."""
    table, schema, training, holdout = files
    return _by_python(
        "Keep rows apart",
        "from tabsynth import Schema, read_table\nfrom tabsynth.tables.parts import write_parts\n\n"
        f"schema = {_call('Schema.load', schema)}\n"
        f"table = read_table({_code(table)}, schema{_more(**reading)})\n"
        f"files = ({_code(training)}, {_code(holdout)})\n"
        f"write_parts(table, schema, files, {share}, {seed}{_replacing(overwrite)})",
    )


def make_key(path: Path) -> Step:
    """Return a key pair for signatures."""
    return Step(title="Make a key pair", command=_line("tabsynth", "keygen", path))


def draw(
    model: Path, out: Path, n: int | None, key: Path | None, *, overwrite: bool = False
) -> Step:
    """Return the synthetic table with its certificate."""
    words: list[str | Path] = ["tabsynth", "sample", model, "-o", out]
    words += [] if n is None else ["-n", str(n)]
    return Step(
        title="Draw the synthetic table",
        command=_line(*words, *_flags(sign=key, overwrite=overwrite or None)),
    )


def evaluate(
    table: Path,
    synthetic: Path,
    schema: Path,
    out: Path,
    reading: Reading,
    holdout: Path | None,
    target: str | None,
    key: Path | None,
    *,
    overwrite: bool = False,
) -> Step:
    """Return the confidential report."""
    options = {"holdout": holdout, "target": target, "key": key, "overwrite": overwrite or None}
    return _report("Evaluate", (table, synthetic, schema, out), reading, options)


def publish(
    table: Path,
    synthetic: Path,
    schema: Path,
    out: Path,
    reading: Reading,
    epsilon: float,
    ledger: Path | None,
    *,
    overwrite: bool = False,
) -> Step:
    """Return a report of noisy figures."""
    options = {"epsilon": epsilon, "ledger": ledger, "overwrite": overwrite or None}
    return _report("Evaluate privately", (table, synthetic, schema, out), reading, options)


def _report(
    title: str, files: Sequence[Path], reading: Reading, options: Mapping[str, Any]
) -> Step:
    """Return a report; the files are real and synthetic table, schema and folder."""
    table, synthetic, schema, out = files
    flags = _flags(real=table, synthetic=synthetic, schema=schema, **options, **reading)
    return Step(title=title, command=_line("tabsynth", "evaluate", *flags, "-o", out))


def release(table: Path, out: Path, answers: Path, text: str, key: Path, public: Path) -> Step:
    """Return the release dossier, and its verification; ``text`` are the answers of a person."""
    return Step(
        title="Release",
        command="\n".join(
            [
                f"cat > {shlex.quote(str(answers))} <<'{END}'",
                text + END,
                _line(
                    *("tabsynth", "release", table, "-o", out),
                    *_flags(answers=answers, key=public, sign=key),
                ),
                _line("tabsynth", "verify", out, *_flags(key=public)),
            ]
        ),
    )


def values_text(values: Sequence[Any]) -> str:
    """Return values in one line as ``--values`` takes them: those with a comma are in double quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _replacing(overwrite: bool) -> str:
    return ", overwrite=True" if overwrite else ""


def _line(*words: str | Path) -> str:
    return shlex.join(map(str, words))


def _flags(**options: Any) -> list[str]:
    """Return options as words of a command line, but for those that are None."""
    words = []
    for name, value in options.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            text = str(value)
            words += (
                [flag]
                if value is True
                else [f"{flag}={text}"]
                if text[:1] in "- "
                else [flag, text]
            )
    return words


def _classes(settings: Settings) -> list[str]:
    """Return the column of classes as words of a command line; a text of JSON is one of TOML."""
    classes = settings.classes.items()
    return [w for n, v in classes for w in ("--set", f"{n}={json.dumps(v, ensure_ascii=False)}")]


def _code(value: Any) -> str:
    return repr(str(value) if isinstance(value, Path) else value)


def _more(**arguments: Any) -> str:
    """Return further arguments of a call as code, but for those that are None."""
    return "".join(f", {name}={_code(v)}" for name, v in arguments.items() if v is not None)


def _call(function: str, value: Path, **arguments: Any) -> str:
    return f"{function}({_code(value)}{_more(**arguments)})"


def cells(reading: Reading) -> Reading:
    """Return the options of reading cells as they are."""
    return {name: value for name, value in reading.items() if name != "decimal"}
