"""What texts say of the program: commands, options, exit codes, calls, names and files, compared without running them."""

import ast
import importlib
import inspect
import re
import shlex
import warnings
from collections.abc import Iterator
from functools import cache

import typer
from pages import ROOT, Block, blocks, commands, exit_code, plain

from tabsynth.cli import app
from tabsynth.cli.console import INTERRUPTED
from tabsynth.cli.verify import EXIT

PACKAGES = (
    "tabsynth",
    *(
        f"tabsynth.{name}"
        for name in [
            "datasets",
            "evaluation",
            "privacy",
            "report",
            "schema",
            "synthesizers",
            "tables",
        ]
    ),
)
PUBLIC = {
    name: getattr(package, name)
    for package in map(importlib.import_module, PACKAGES)
    for name in package.__all__
}
CLASSES = [thing for thing in PUBLIC.values() if inspect.isclass(thing)]
COMMAND = typer.main.get_command(app)
COMMANDS = COMMAND.commands
EXIT_CODES = {0, 1, 2, INTERRUPTED, *EXIT.values()}
# Options of other programs that pages name, and where they are.
OTHER_OPTIONS = {
    "--list": "tests/form.py",
    "--fresh": "tests/mutants/gate.py",
    "--write": "reports/harness.py",
    "--only": "reports/harness.py",
    "--again": "reports/harness.py",
}
OUTPUT = re.compile(r"[A-Z][\w ]*: \S")
# What stands before the name of a command, and not before what tabsynth does.
NAMES = r"(?:[`(]|\n *|\b(?:run|use|see|then|also) )"


def inline(page: str) -> list[str]:
    """The code in the sentences of a page."""
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", page)]


@cache
def mistake(code: str) -> str | None:
    """What is wrong with a code in a sentence; None if nothing."""
    first, *more = code.split() or [""]
    if first == "make" and len(more) == 1 and re.fullmatch("[a-z-]+", more[0]):
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        return None if more[0] in targets else f"no target {more[0]}"
    if first in COMMANDS or (first == "tabsynth" and re.match("[a-z-]", "".join(more[:1]))):
        words = shlex.split(code.partition(" > ")[0])
        return refused(words[first == "tabsynth" :], complete=False)
    if re.match("--[a-z]", first):
        known = first in OTHER_OPTIONS or any(
            refused([*names, *code.split()], complete=False) is None for names in leaves()
        )
        return None if known else f"no command takes {code}"
    if re.fullmatch(r"tabsynth(?:\.\w+)+", code):
        return None if exists(code) else f"no name {code}"
    if re.match(r"(?:tabsynth|tests|reports|docs|notebooks|data)/[\w./-]*$", code):
        there = (ROOT / code).exists() or code == "reports/demo"  # of make demo
        return None if there else f"no file {code}"
    return wrong_calls(code)


def leaves() -> Iterator[list[str]]:
    """The words that name each command, and none, for options of all."""
    yield []
    for name, command in COMMANDS.items():
        yield [name]
        yield from ([name, part] for part in getattr(command, "commands", ()))


def refused(words: list[str], *, complete: bool) -> str | None:
    """What the command line has against the words after ``tabsynth``; None if nothing.

    Words that are not complete, as sentences have them, may lack arguments and values of options.
    """
    command, words = COMMAND, list(words)
    while getattr(command, "commands", None):
        name = words[0] if words else None
        if name in command.commands:
            words = words[1:]
        elif name is None or name.startswith("-") or name.isupper():
            break
        else:
            return f"no command {name}"
        command = command.commands[name]
    context = command.context_class(command)
    known = {o for p in command.get_params(context) for o in (*p.opts, *p.secondary_opts)}
    for word in words:
        if word.startswith("-") and word not in known and not re.match(r"-\d", word):
            return f"no option {word}"
    try:
        taken, more, _ = command.make_parser(context).parse_args([w for w in words if w != "…"])
    except Exception as error:  # the last option lacks its value
        return str(error) if complete else None
    if more:
        return f"more words: {more}"
    lacking = [p.name for p in command.params if p.required and p.name not in taken]
    return f"lacks {lacking}" if complete and lacking else None


def wrong_calls(source: str) -> str | None:
    """The first public name of tabsynth in a source whose attribute or parameter there is not; None if there is none.

    A method of what is left out, as in ``.fit(table, rows=9)``, is one of any public class.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes in commands
            tree = ast.parse(("…" * source.startswith(".") + source).replace("…", "_"))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and len(owners(node) or ()) == 1:
            (owner,) = owners(node)
            if node.attr not in {*dir(owner), *inspect.signature(owner).parameters}:
                return f"{source}: no {node.attr}"
        if isinstance(node, ast.Call):
            called = callables(node.func)
            words = {word.arg for word in node.keywords} - {None}
            if called is not None and not any(takes(function, words) for function in called):
                return f"{source}: no method or parameters {sorted(words)}"
    return None


def owners(node: ast.Attribute) -> list[type] | None:
    """The classes that an attribute may be of; None if it is of something else."""
    name = node.value.id if isinstance(node.value, ast.Name) else None
    return CLASSES if name == "_" else [PUBLIC[name]] if PUBLIC.get(name) in CLASSES else None


def callables(function: ast.expr) -> list[object] | None:
    """What of tabsynth a call may call; None if it calls something else."""
    if isinstance(function, ast.Name):
        return [PUBLIC[function.id]] if function.id in PUBLIC else None
    classes = owners(function) if isinstance(function, ast.Attribute) else None
    return classes and [getattr(c, function.attr) for c in classes if hasattr(c, function.attr)]


def takes(function: object, words: set[str]) -> bool:
    """Whether a function has all parameters."""
    parameters = inspect.signature(function).parameters
    return words <= {*parameters} or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def exists(dotted: str) -> bool:
    """Whether a module, or a name of one, is there."""
    parts = dotted.split(".")
    for i in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:i])
        file = next(
            (f for f in (base.with_suffix(".py"), base / "__init__.py") if f.exists()), None
        )
        if file is not None:
            break
    found = importlib.import_module(".".join(parts[:i]))
    for part in parts[i:]:
        found = getattr(found, part, None)
    return found is not None


def wrong_exit_codes(page: str) -> list[str]:
    """Sentences with an exit code that is not that of the command, where the page runs it, or of none.

    The command is the one that the sentence names, or else those of the block before. A sentence with a condition may
    say what happens otherwise.
    """
    found = blocks(page)
    everywhere = [ending for block in found for ending in endings_of(block)]
    result, last, start = [], [], 0
    for block in [*found, None]:
        between = page[start : block.start if block else None]
        for sentence in map(plain, re.split(r"(?<=[.:])\s|\n\n|\n[|-]", between)):
            stated = {int(n) for n in re.findall(r"\b(?:exit code|ends in) (\d+)\b", sentence)}
            codes = [code.removeprefix("tabsynth ") for code in inline(sentence)]
            names = [shlex.split(code) for code in codes if code.split(" ")[0] in COMMANDS]
            if re.search(r"\b(?:if|where|unless|without)\b", sentence, re.IGNORECASE):
                ran = []
            elif names:
                ran = [e for e in everywhere if any(e[0][: len(n)] == n for n in names)]
            else:
                ran = last
            if stated - ({code for _, code in ran} or EXIT_CODES):
                result.append(sentence)
        if block:
            start, last = block.end, last if block.output else endings_of(block)
    return result


def endings_of(block: Block) -> list[tuple[list[str], int]]:
    """The words of each command of tabsynth in a block, and how it ends."""
    lines = [line for line in commands(block) if line.startswith("tabsynth ") and block.runs]
    return [(shlex.split(line, comments=True)[1:], exit_code(line)) for line in lines]


def messages(source: str) -> Iterator[str]:
    """The texts of a program, with ``…`` for what is put into them."""
    tree = ast.parse(source)
    parts = {
        id(p) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for p in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
        ):
            yield node.value


def wrong_commands(message: str) -> list[str]:
    """What is wrong with the commands and options in a message.

    A word after ``tabsynth`` is the name of a command where the message marks it or an option follows; else it may be
    what tabsynth does.
    """
    result = [
        found
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", message)
        if (found := mistake(option)) is not None
    ]
    for match in re.finditer(r"tabsynth ([a-z-][^`\n;)]*?)(?=[`\n;)]|\.\s|\.?$)", message):
        words = [word.rstrip(".,:") for word in match[1].split()]
        options = [word for word in words if re.match("--[a-z]", word)]
        marked = (
            re.search(rf"{NAMES}$", message[: match.start()]) or words[1:2] == options[:1] != []
        )
        names = words[:1]
        if words[0] in COMMANDS:
            parts = getattr(COMMANDS[words[0]], "commands", ())
            plain = re.fullmatch("[a-z]+", words[1] if len(words) > 1 else "")
            names = words[: 1 + bool(parts and plain and (marked or words[1] in parts))]
        elif not marked:
            continue
        if found := refused([*names, *options], complete=False):
            result.append(f"{match[0]}: {found}")
    return result
