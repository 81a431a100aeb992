"""``release.yaml``: what only people know about a release, in a file that they fill in."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml

from tabsynth._files import size_of
from tabsynth._validate import check_text, quote
from tabsynth.errors import FileFormatError, InputError

NAME, FIGURES = "release.yaml", "metrics.json"  # of a report
MOST_BYTES, MOST_LETTERS, MOST_ITEMS, MOST_DEPTH = 100_000, 5_000, 50, 6
LISTS = ("curators",)
FORMER = {"sector", "releases", "data", "links", "authors"}  # questions of version 0.2
UNFINISHED = re.compile(r"\s*((todo|tbd|fixme|xxx)\b.*|[?.…]*)\s*", re.IGNORECASE | re.DOTALL)
CONTROLS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]"
)  # no page or XML may have them


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers of a ``release.yaml``, in its order; a release needs those without a default.

    Attributes
    ----------
    folder : Path
        What relative paths of ``schema`` and ``report`` start from.
    """

    name: Annotated[str, "the name of the data product"]
    description: Annotated[str, "what the table describes, in a few sentences"]
    curators: Annotated[tuple[str, ...], "who publishes it: a list of organisations or people"]
    use: Annotated[str, "what it is intended for"]
    region: Annotated[str, "the region that it describes, or whose law applies"]
    published: Annotated[str, "the day of publication, such as 2026-11-25"]
    license: Annotated[str, "the licence, as a name or an address"]
    population: Annotated[str, "whom or what the confidential table covers, and when"]
    unit: Annotated[str, "what one protected unit is: a person, a household, a stay"]
    justification: Annotated[str, "why this epsilon, delta and unit, and who decided"]
    preparation: Annotated[
        str,
        "what was done with the confidential table before the fit, tuning included; or: nothing",
    ]
    access: Annotated[str, "who can see the confidential table, and how it is kept"]
    schema: Annotated[str, "the schema file of the fit, relative to this file"]
    report: Annotated[
        str | None, "the folder of a report of tabsynth evaluate --epsilon, to publish with it"
    ] = None
    contact: Annotated[str | None, "where questions go: a name and an address"] = None
    plans: Annotated[str | None, "later releases or uses of the same rows"] = None
    url: Annotated[str | None, "the page of the data product"] = None
    access_body: Annotated[
        str | None, "of OMOP tables: the health data access body, a name and an address"
    ] = None
    folder: Path

    @property
    def schema_file(self) -> Path:
        """The schema of the fit."""
        return self.folder / self.schema

    @property
    def report_file(self) -> Path | None:
        """The figures of the published report, if there is one."""
        if self.report is None:
            return None
        path = self.folder / self.report
        return path / FIGURES if path.is_dir() else path

    def to_yaml(self) -> str:
        """Return the answers as a dossier has them: in the order of the questions, without paths of the machine."""
        answers = {name: getattr(self, name) for name in QUESTIONS}
        answers |= {"schema": "schema.json", "report": self.report and "report.json"}
        return to_yaml({k: list(v) if isinstance(v, tuple) else v for k, v in answers.items() if v})


# What is asked, and whether a release needs the answer.
QUESTIONS = {
    item.name: (get_args(item.type)[1], item.default is MISSING)
    for item in fields(Answers)
    if item.name != "folder"
}


def template(today: date, schema: str | None) -> str:
    """Return the text of a ``release.yaml`` to fill in."""
    answers = {"published": today.isoformat(), "schema": schema or ""}
    lines = ["# What only people know about a release; tabsynth release reads it.", ""]
    for title, needed in (("Every release needs these answers.", True), ("Optional.", False)):
        lines += [f"# {title}", ""]
        for name, (question, required) in QUESTIONS.items():
            if required is needed:
                answer = "[]" if name in LISTS else answers.get(name, "")
                lines += [
                    f"# {question[0].upper()}{question[1:]}.",
                    f"{name}: {answer}".rstrip(),
                    "",
                ]
    return "\n".join(lines)


def read_answers(path: Path) -> Answers:
    """Return the answers of a file.

    Raises
    ------
    FileFormatError
        If it is no YAML with a name and an answer on each line.
    InputError
        Naming all answers that are missing or wrong.
    """
    size_of(path, "release file", MOST_BYTES)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise FileFormatError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileFormatError(f"{path} is not valid YAML: it is not in UTF-8.") from None
    return check_answers(read_yaml(text, str(path)), str(path), path.parent)


def to_yaml(data: Mapping[str, object]) -> str:
    """Return a mapping as YAML, in its order."""
    return yaml.safe_dump(dict(data), allow_unicode=True, sort_keys=False, width=100)


def read_yaml(text: str, where: str) -> Any:
    """Return mappings, lists and texts of a YAML text: no aliases, no other types, and little nesting.

    Raises
    ------
    FileFormatError
    """
    depth = 0
    try:
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH:
                break
            if isinstance(event, yaml.AliasEvent):
                depth = -1
                break
        else:
            return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
        raise FileFormatError(
            f"{where} is not valid YAML{place}; put a text with : or # in it into quotes."
        ) from None
    what = "has an alias (*)" if depth < 0 else f"is nested more than {MOST_DEPTH} deep"
    raise FileFormatError(f"{where} {what}; write the answer out.")


def check_answers(data: object, where: str, folder: Path) -> Answers:
    """Return the answers of a mapping, all of them checked.

    Raises
    ------
    InputError
        Naming all that is missing or wrong, in one line.
    """
    if not isinstance(data, Mapping):
        raise InputError(f"{where} must have a name and an answer on each line, such as name: ….")
    problems = [
        f"{quote(name)} is no question of it"
        for name in data
        if name not in FORMER | QUESTIONS.keys()
    ]
    answers: dict[str, Any] = {}
    missing = []
    for name, (_, needed) in QUESTIONS.items():
        try:
            answer = _answer(name, data.get(name))
        except InputError as error:
            problems.append(str(error).rstrip("."))
            continue
        if answer:
            answers[name] = answer
        elif needed:
            missing.append(name)
    clauses = [f"answers are missing: {', '.join(missing)}"] if missing else []
    if clauses or problems:
        raise InputError(f"{where} is unfinished: {'; '.join([*clauses, *problems])}.")
    return Answers(**answers, folder=folder)


def _answer(name: str, value: object) -> str | tuple[str, ...] | None:
    """Return an answer as text, or as a tuple of texts; None where there is none."""
    if name in LISTS:
        items = value if isinstance(value, list | tuple) else [value]
        if len(items) > MOST_ITEMS:
            raise InputError(f"{name} has more than {MOST_ITEMS} items")
        return tuple(text for item in items if (text := _text(name, item)) is not None)
    text = _text(name, value)
    if text is None:
        return None
    if name == "published":
        try:
            date.fromisoformat(text)
        except ValueError:
            raise InputError(
                f"published must be a day such as 2026-11-25, got {quote(text)}"
            ) from None
    return text


def _text(name: str, value: object) -> str | None:
    """Return a text without spaces around it; None for what is still to be filled in."""
    if isinstance(value, date):
        return value.isoformat()[:10]
    if value is None or (isinstance(value, str) and UNFINISHED.fullmatch(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{name} must be text, got {quote(value, 60)}")
    text = str(value).strip()
    check_text(name, text)
    if CONTROLS.search(text):
        raise InputError(f"{name} has a control character, in {quote(text)}")
    if len(text) > MOST_LETTERS:
        raise InputError(f"{name} has more than {MOST_LETTERS:,} letters")
    return text
