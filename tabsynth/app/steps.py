"""What each step does as a command line and as Python code, to copy; both do what the page does."""

import csv
import io
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabsynth.app.settings import Settings
from tabsynth.methods import METHODS
from tabsynth.schema.editing import Edit
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import suffix
from tabsynth.tables.labelled import SUFFIXES as LABELLED

END = "END-OF-ANSWERS"  # no line of answers or code is that
Reading = Mapping[str, str]  # options of reading a file, as of read_table


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: what it did, the command, and the Python code."""

    title: str
    command: str
    python: str


def make_folder(folder: Path) -> Step:
    """Return the folder of all files of the page."""
    return Step(
        title="Make the folder",
        command=_line("mkdir", "-m", "700", "-p", folder),
        python=f"from pathlib import Path\n\nPath({_path(folder)}).mkdir(mode=0o700, exist_ok=True)",
    )


def draft(table: Path, out: Path, reading: Reading) -> Step:
    """Return a draft that copies values of the table."""
    return Step(
        title="Draft a schema to review",
        command=_line("tabsynth", "schema", "draft", table, "-o", out, *_options(reading)),
        python="\n".join(
            [
                "from tabsynth.drafting import draft_schema",
                *_read_table(table, reading),
                f"schema = draft_schema(frame{_decimal(reading)})",
                *_labels(table),
                f"schema.save({_path(out)})",
            ]
        ),
    )


def draft_privately(
    table: Path, out: Path, reading: Reading, epsilon: float, delta: float, ledger: Path | None
) -> Step:
    """Return a draft whose facts are released with noise."""
    on = () if ledger is None else ("--ledger", ledger)
    given = "" if ledger is None else f", ledger={_path(ledger)}"
    return Step(
        title="Draft a schema privately",
        command=_line(
            *("tabsynth", "schema", "draft", table),
            *("--epsilon", f"{epsilon!r}", "--delta", f"{delta!r}"),
            *(*on, "-o", out, *_options(reading)),
        ),
        python="\n".join(
            [
                "from tabsynth import draft_private",
                *_read_table(table, reading),
                f"schema = draft_private(frame, {epsilon!r}, {delta!r}{given}{_decimal(reading)})",
                *_labels(table),
                f"schema.save({_path(out)})",
            ]
        ),
    )


def take_schema(source: Path, out: Path) -> Step:
    """Return a schema file that is there already."""
    return _by_python(
        "Take a schema file",
        f"from tabsynth import Schema\n\nSchema.load({_path(source)}).save({_path(out)})",
    )


def edit(path: Path, change: Edit) -> Step:
    """Return an edit of the schema file."""
    parameters = ", ".join(f"{name}={value!r}" for name, value in vars(change).items() if value)
    return _edit(path, "edit", f"Edit({parameters})", "Edit, edit")


def set_rules(path: Path, rules: Sequence[Mapping[str, Any]]) -> Step:
    """Return other rules between columns."""
    return _by_python(
        "Edit the schema",
        f"from tabsynth import Schema\n\nschema = Schema.load({_path(path)}).replace(constraints={[*map(dict, rules)]!r})\n"
        f"schema.save({_path(path)})",
    )


def set_design(path: Path, design: Mapping[str, Any]) -> Step:
    """Return another unit of privacy, or other survey weights."""
    return _edit(path, "with_design", f"**{dict(design)!r}", "with_design")


def _edit(path: Path, function: str, arguments: str, names: str) -> Step:
    return _by_python(
        "Edit the schema",
        f"from tabsynth import Schema\nfrom tabsynth.schema.editing import {names}\n\n"
        f"schema = {function}(Schema.load({_path(path)}), {arguments})\nschema.save({_path(path)})",
    )


def _by_python(title: str, python: str) -> Step:
    """Return a step that no command line takes."""
    return Step(title=title, command=f"python - <<'{END}'\n{python}\n{END}", python=python)


def make_ledger(path: Path, epsilon: float, delta: float) -> Step:
    """Return a project ledger."""
    return Step(
        title="Make a project ledger",
        command=_line(
            *("tabsynth", "ledger", "create", path),
            *("--epsilon", f"{epsilon!r}", "--delta", f"{delta!r}"),
        ),
        python=(
            "from tabsynth.privacy import ProjectLedger\n\n"
            f"ProjectLedger.create({_path(path)}, epsilon={epsilon!r}, delta={delta!r})"
        ),
    )


def plan(schema: Path, settings: Settings) -> Step:
    """Return the planned privacy cost."""
    votes = METHODS[settings.method].votes
    of_schema = () if votes else ("--schema", schema)
    classes = "" if settings.class_column is None else f", class_column={settings.class_column!r}"
    return Step(
        title="Plan the privacy cost",
        command=_line(
            *("tabsynth", "plan", "--rows", str(settings.rows), "--method", settings.method),
            *("--epsilon", f"{settings.epsilon!r}", "--delta", f"{settings.delta!r}", *of_schema),
        ),
        python=(
            "from tabsynth import Schema, plan\nfrom tabsynth.planning import column_errors\n\n"
            f"schema = Schema.load({_path(schema)})\n"
            f"cost = plan({settings.method!r}, {settings.rows}, {settings.epsilon!r}, {settings.delta!r}, schema{classes})\n"
            f"print(cost)\nprint(column_errors(cost, schema, {settings.rows}))"
        ),
    )


def fit(
    table: Path, schema: Path, model: Path, checkpoint: Path, reading: Reading, settings: Settings
) -> Step:
    """Return the fit."""
    words: list[str | Path] = [
        "tabsynth",
        "fit",
        table,
        "--schema",
        schema,
        "--method",
        settings.method,
    ]
    words += ["--epsilon", f"{settings.epsilon!r}", "--delta", f"{settings.delta!r}"]
    arguments = [f"epsilon={settings.epsilon!r}", f"delta={settings.delta!r}"]
    if settings.public_rows is not None:
        words += ["--rows", str(settings.rows)]
        arguments.append(f"rows={settings.rows}")
    if settings.class_column is not None:
        words += ["--set", f"class_column={json.dumps(settings.class_column, ensure_ascii=False)}"]
        arguments.append(f"class_column={settings.class_column!r}")
    if settings.accept_drafted:
        words.append("--accept-drafted-domain")
        arguments.append("accept_drafted_domain=True")
    words += ["--checkpoint", checkpoint]
    keeping = f"checkpoint={_path(checkpoint)}"
    if settings.ledger is not None:
        words += ["--ledger", settings.ledger]
        keeping += f", ledger={_path(settings.ledger)}"
    words += [*_options(reading), "-o", model]
    estimator = METHODS[settings.method].estimator
    return Step(
        title="Fit",
        command=_line(*words),
        python=(
            f"from tabsynth import {estimator}, Schema, read_table\n\n"
            f"schema = Schema.load({_path(schema)})\n"
            f"model = {estimator}(schema, {', '.join(arguments)})\n"
            f"model.fit(read_table({_path(table)}, schema{_arguments(reading)}), {keeping})\n"
            f"model.save({_path(model)})"
        ),
    )


def make_key(path: Path) -> Step:
    """Return a key pair for signatures."""
    return Step(
        title="Make a key pair",
        command=_line("tabsynth", "keygen", path),
        python=(
            "from tabsynth.privacy.certificate.signing import make_keys\n\n"
            f"make_keys({_path(path)})"
        ),
    )


def draw(model: Path, out: Path, n: int | None, key: Path | None) -> Step:
    """Return the synthetic table with its certificate."""
    words: list[str | Path] = ["tabsynth", "sample", model, "-o", out]
    words += [] if n is None else ["-n", str(n)]
    lines = ["from tabsynth import load", f"load({_path(model)}).sample_to({_path(out)}, {n})"]
    if key is not None:
        words += ["--sign", key]
        lines[1:1] = [
            "from tabsynth.privacy.certificate.certificate import certify",
            "from tabsynth.privacy.certificate.signing import read_private",
            "",
        ]
        lines.append(f"certify({_path(out)}, key=read_private({_path(key)}))")
    else:
        lines.insert(1, "")
    return Step(title="Draw the synthetic table", command=_line(*words), python="\n".join(lines))


def evaluate(
    table: Path,
    synthetic: Path,
    schema: Path,
    out: Path,
    reading: Reading,
    holdout: Path | None,
    target: str | None,
    key: Path | None,
) -> Step:
    """Return the confidential report."""
    words: list[str | Path] = [
        "tabsynth",
        "evaluate",
        "--real",
        table,
        "--synthetic",
        synthetic,
        "--schema",
        schema,
    ]
    words += [] if holdout is None else ["--holdout", holdout]
    words += [] if target is None else [f"--target={target}"]
    words += [] if key is None else ["--key", key]
    words += [*_options(reading), "-o", out]
    given = _arguments(reading)
    signer = "" if key is None else f", {_path(key)}"
    held = "" if holdout is None else f"    read_table({_path(holdout)}, schema{given}),\n"
    predicted = "" if target is None else f"    target={target!r},\n"
    return Step(
        title="Evaluate",
        command=_line(*words),
        python=(
            "from pathlib import Path\n\nfrom tabsynth import Schema, evaluate, read_table, verify\n\n"
            f"schema = Schema.load({_path(schema)})\n"
            "report = evaluate(\n"
            f"    read_table({_path(table)}, schema{given}),\n"
            f"    read_table({_path(synthetic)}, schema),\n"
            f"{held}    schema=schema,\n"
            f"    certificate=verify({_path(synthetic)}{signer}),\n{predicted})\n"
            f"Path({_path(out)}).mkdir(exist_ok=True)\n"
            f"report.to_html({_path(out / 'report.html')})\nreport.to_json({_path(out / 'metrics.json')})"
        ),
    )


def publish(
    table: Path,
    synthetic: Path,
    schema: Path,
    out: Path,
    reading: Reading,
    epsilon: float,
    ledger: Path | None,
) -> Step:
    """Return a report of noisy figures."""
    words: list[str | Path] = ["tabsynth", "evaluate", "--real", table, "--synthetic", synthetic]
    words += ["--schema", schema, "--epsilon", f"{epsilon!r}"]
    words += [] if ledger is None else ["--ledger", ledger]
    words += [*_options(reading), "-o", out]
    on = "" if ledger is None else f"    ledger={_path(ledger)},\n"
    return Step(
        title="Evaluate privately",
        command=_line(*words),
        python=(
            "from pathlib import Path\n\n"
            "from tabsynth import Schema, evaluate_private, read_table, verify\n\n"
            f"schema = Schema.load({_path(schema)})\n"
            "report = evaluate_private(\n"
            f"    read_table({_path(table)}, schema{_arguments(reading)}),\n"
            f"    read_table({_path(synthetic)}, schema),\n"
            "    schema=schema,\n"
            f"    epsilon={epsilon!r},\n"
            f"    certificate=verify({_path(synthetic)}),\n{on})\n"
            f"Path({_path(out)}).mkdir(exist_ok=True)\n"
            f"report.to_html({_path(out / 'report.html')})\nreport.to_json({_path(out / 'metrics.json')})"
        ),
    )


def release(table: Path, out: Path, answers: Path, text: str, key: Path, public: Path) -> Step:
    """Return the release dossier, and its verification; ``text`` are the answers of a person."""
    return Step(
        title="Release",
        command="\n".join(
            [
                f"cat > {shlex.quote(str(answers))} <<'{END}'",
                text + END,
                _line(
                    *("tabsynth", "release", table, "-o", out, "--answers", answers),
                    *("--key", public, "--sign", key),
                ),
                _line("tabsynth", "verify", out, "--key", public),
            ]
        ),
        python=(
            "from pathlib import Path\n\nfrom tabsynth.dossier.checking import verify_dossier\n"
            "from tabsynth.dossier.making import release\n"
            "from tabsynth.privacy.certificate.signing import read_private\n\n"
            f"Path({_path(answers)}).write_text({text!r}, encoding='utf-8')\n"
            f"release({_path(table)}, {_path(out)}, answers={_path(answers)}, key={_path(public)},"
            f" sign=read_private({_path(key)}))\n"
            f"print(verify_dossier(Path({_path(out)}), Path({_path(public)})).state)"
        ),
    )


def values_text(values: Sequence[Any]) -> str:
    """Return values in one line as ``--values`` takes them: those with a comma are in double quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _line(*words: str | Path) -> str:
    return shlex.join(map(str, words))


def _path(path: Path) -> str:
    return repr(str(path))


def _options(reading: Reading) -> list[str]:
    return [f"--{name}={value}" for name, value in reading.items()]


def _arguments(reading: Reading) -> str:
    return "".join(f", {name}={value!r}" for name, value in reading.items())


def _decimal(reading: Reading) -> str:
    return _arguments({name: value for name, value in reading.items() if name == "decimal"})


def _read_table(table: Path, reading: Reading) -> list[str]:
    given = _arguments({name: value for name, value in reading.items() if name != "decimal"})
    return [
        "from tabsynth import read_table",
        "",
        f"frame = read_table({_path(table)}{given})",
    ]


def _labels(table: Path) -> list[str]:
    """Return the labels of a file of SPSS or Stata, as the command adds them."""
    if suffix(table) not in LABELLED:
        return []
    return [
        "from tabsynth.tables.labelled import with_labels",
        f"schema = with_labels(schema, {_path(table)})",
    ]


def labelled(schema: Schema, table: Path) -> Schema:
    """Add the labels that a file of SPSS or Stata has for values."""
    from tabsynth.tables.labelled import with_labels

    return with_labels(schema, table) if suffix(table) in LABELLED else schema
