"""Printed lines, error messages and exit codes of the commands."""

import functools
import inspect
import logging
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, field, fields, is_dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from tabsynth._progress import progress_bar
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError, TableError, TabsynthError

INTERRUPTED = 130
UsageError: Any = typer.BadParameter.__base__  # which typer does not export by its name
# The options of the command that runs, by the name of their parameter.
OPTIONS: ContextVar[Mapping[str, str]] = ContextVar("OPTIONS", default=MappingProxyType({}))
# Names and categories may come from untrusted files; their escape sequences must not reach the terminal.
_CONTROLS = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "�")


def say(text: str, *, error: bool = False) -> None:
    """Print a line without markup and without wrapping."""
    Console(stderr=error).print(
        text.translate(_CONTROLS), markup=False, highlight=False, soft_wrap=True
    )


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, with rules on a terminal and plain elsewhere."""
    console = Console()
    if console.is_terminal:
        table = Table(*(Column(name, justify="right") for name in head))
        for row in rows:
            table.add_row(*(cell.translate(_CONTROLS) for cell in row))
        console.print(table, markup=False, highlight=False)
        return
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        say("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def say_error(message: str, kind: str = "error") -> None:
    """Print an error in one line on stderr."""
    say(f"{kind}: {' '.join(message.split())}", error=True)


def warn(message: str) -> None:
    """Print a warning in one line on stderr."""
    say_error(message, "warning")


class Warnings(logging.Handler):
    """Prints each warning of the library in one line on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Emit a record as :func:`say_error` has it."""
        say_error(as_typed(record.getMessage()), record.levelname.lower())


def fail(message: str, code: int = 2) -> NoReturn:
    """Print an error and exit."""
    say_error(message)
    raise typer.Exit(code)


def say_usage_error(error: Any) -> None:
    """Print an error of the command-line parser with the value and the help command."""
    message = error.format_message().strip().removesuffix(".")
    if not message:
        return
    command = error.ctx.command_path if error.ctx else ""
    verb = command.split()[-1] if command else ""
    errors = getattr(error.__cause__, "errors", None)  # of pydantic, whose message names no value
    if errors:
        message += f", got {quote(errors()[0]['input'])}"
    if hasattr(error, "possibilities"):  # of the parser, which share a few letters with it
        name = error.option_name
        alike = get_close_matches(name, error.possibilities or (), cutoff=0.75)
        if is_short := len(name.lstrip("-")) == 1:
            known = [option for parameter in error.ctx.command.params for option in parameter.opts]
            alike = [option for option in known if option.startswith(f"--{name[-1]}")]
        message = f"No such option: {name}"
        if alike:
            message += f". Did you mean {alike[0]}?"
        elif verb in ("fit", "plan") and not is_short:
            setting = name.strip("-").replace("-", "_")
            message += f". A setting of a method is written as --set {setting}=VALUE"
    message += "" if message.endswith("?") else "."
    say_error(f"{message} See {command} --help." if command else message)


def named_as_typed(message: str, options: Mapping[str, str]) -> str:
    """Return a message of the library that names the options of a command in place of parameters of Python.

    The library writes a parameter as ``name=`` or ``name=value``, or as the subject of "Expected". A name of one word
    may be any word of a sentence elsewhere; a longer one is a parameter.
    """

    def option_and_value(match: re.Match[str]) -> str:
        flag, value = options[match[1]], match[2]
        text = re.fullmatch(r"\[?(['\"])(.+)\1\]?", value)
        value = value if text is None or " " in text[2] else text[2]
        return flag if value in ("", "True") else f"{flag} {value}"

    names = "|".join(map(re.escape, options))
    message = re.sub(rf"\bgot (?:{names})=", "got ", message)
    message = re.sub(rf"^Expected ({names})\b", lambda m: f"Expected {options[m[1]]}", message)
    value = r"(\[?'[^']*'\]?|[^\s;)]*[^\s;).,:]|)"
    message = re.sub(rf"(?<!--set )(?<![\w.'\"-])({names})={value}", option_and_value, message)
    long_names = "|".join(re.escape(name) for name in options if "_" in name)
    if not long_names:
        return message
    parameter = rf"(?<![\w.'\"-])({long_names})(?![\w.=('\"])"
    return re.sub(parameter, lambda m: options[m[1]], message)


def as_typed(message: str) -> str:
    """Return a message of the library with the options of the command that runs."""
    options = OPTIONS.get()
    return named_as_typed(message, options) if options else message


def flag(name: str) -> str:
    """Return the option of a parameter, in the command that runs."""
    return OPTIONS.get().get(name, f"--{name.replace('_', '-')}")


def option(text: str, *names: str, panel: str | None = None, default: Any = None) -> Any:
    """Return an option of a command, or of a group: its help, its default and, where they do not follow from it, its names."""
    return field(
        default=default,
        metadata={"option": typer.Option(*names, help=escape(text), rich_help_panel=panel)},
    )


def argument(text: str, default: Any = MISSING) -> Any:
    """Return an argument of a command, or of a group, with its help."""
    return field(default=default, metadata={"argument": typer.Argument(help=escape(text))})


def cli_command(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer: errors of the user are one line and exit code 2, groups of options are flat.

    A parameter of ``command`` whose annotation is a dataclass is a group: the result has an option for each of its fields.
    Other parameters are options themselves. :func:`option`, :func:`argument` or the annotation describes each.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: fields(hint) for name, hint in hints.items() if is_dataclass(hint)}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            types = get_type_hints(hints[parameter.name], include_extras=True)
            options += [_parameter(f.name, types[f.name], f) for f in groups[parameter.name]]
        else:
            options.append(_parameter(parameter.name, hints[parameter.name], parameter.default))
    flags = {item.name: _flag(item) for item in options}
    flags |= {"random_state": flags["seed"]} if "seed" in flags else {}

    @functools.wraps(command)
    def run(**values: Any) -> None:
        OPTIONS.set(flags)
        try:
            for name, group in groups.items():
                values[name] = hints[name](**{o.name: values.pop(o.name) for o in group})
            command(**values)
        except TableError as error:
            say_error(f"{error.what} has {len(error.problems)} problems:")
            for problem in error.problems:
                say(f"- {' '.join(problem.split())}", error=True)
            raise typer.Exit(2) from None
        except FileFormatError as error:
            fail(str(error))  # it names keys of the file
        except TabsynthError as error:
            fail(as_typed(str(error)))
        except MemoryError:
            fail("Not enough memory; sample fewer rows at a time, or use fewer categories.")
        except KeyboardInterrupt:
            fail("Interrupted.", INTERRUPTED)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in options}
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    run.__doc__ = escape("\n\n".join(" ".join(part.split()) for part in paragraphs))
    return run


def _parameter(name: str, annotation: Any, described: Any) -> inspect.Parameter:
    """Return an option for typer from its default, which may be what :func:`option` or :func:`argument` returned."""
    default = described
    if isinstance(described, Field):
        default = described.default
        if described.metadata:
            annotation = Annotated[annotation, *described.metadata.values()]
    if default is MISSING:
        default = inspect.Parameter.empty
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _flag(parameter: inspect.Parameter) -> str:
    """Return an option or an argument as a person types it."""
    (described,) = parameter.annotation.__metadata__
    if isinstance(described, typer.models.ArgumentInfo):
        return parameter.name.upper()
    # typer has the first name as what would be the default of an option that is no annotation.
    names = [name for name in (described.default, *described.param_decls) if isinstance(name, str)]
    return str(max(names, key=len, default=f"--{parameter.name.replace('_', '-')}"))


@contextmanager
def one_interrupt() -> Iterator[None]:
    """Raise at the first Ctrl-C and ignore later ones, so that the privacy cost is written and printed."""

    def first(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def fractions() -> Iterator[Any]:
    """Show a progress bar for callbacks ``(stage, fraction)``."""
    with progress_bar(True) as bar:
        if bar is None:
            yield None
        else:
            yield lambda stage, fraction: bar(stage, round(100 * fraction), 100)
