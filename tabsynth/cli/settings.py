"""The settings of one method, by ``--set NAME=VALUE`` and a TOML file, and the options that a method takes."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tabsynth._files import read_json_text
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError, InputError
from tabsynth.methods import METHODS

# Parameters of estimators that have an option of their own: of every method, and of some.
SHARED = frozenset(
    [
        "schema",
        "epsilon",
        "delta",
        "rows",
        "time_limit",
        "accept_drafted_domain",
        "draft_options",
        "random_state",
        "device",
        "verbose",
    ]
)
OPTIONS = {
    "public": "--public",
    "public_source": "--public-source",
    "overlap": "--overlap",
    "warm_start": "--warm-start",
    "tables": "--table",
}


def check_method(method: str, registered: Collection[str] = METHODS) -> None:
    """Reject a method that is not among those of a command."""
    if method not in registered:
        names = ", ".join(registered)
        raise InputError(f"Expected --method to be one of {names}; got {method!r}.")


def read_settings(path: Path | None, texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a TOML file and of ``NAME=VALUE`` texts, which take precedence.

    Raises
    ------
    InputError
        For a text without a name or a value.
    FileFormatError
        For a file that is not TOML.
    """
    settings: dict[str, Any] = {}
    if path is not None:
        try:
            settings = tomllib.loads(read_json_text(path, "settings"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise FileFormatError(f"{path} is not valid TOML: {error}.") from None
    for text in texts:
        name, sign, value = text.partition("=")
        *parents, last = (part.strip().replace("-", "_") for part in name.split("."))
        if not sign or not all((*parents, last)):
            raise InputError(f"Expected --set like NAME=VALUE, got {quote(text)}.")
        level = settings
        for part in parents:
            level = level.setdefault(part, {})
            if not isinstance(level, dict):
                raise InputError(f"--set {quote(name)} is within {part}, which is a value.")
        level[last] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    """Return a value as TOML has it, or the text where it is none, such as a word without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def arguments_of(
    method: str,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    complete: bool = True,
) -> dict[str, Any]:
    """Return the options and the settings that were typed as arguments of a method.

    Unless ``complete``, as for a plan without a schema, what a fit must have may lack.

    Raises
    ------
    InputError
        For a method that is none, an option or a setting that it does not take, and a value that its configuration
        refuses.
    """
    check_method(method)
    from tabsynth import synthesizers

    estimator = synthesizers.METHODS[method]
    hints = get_type_hints(estimator)
    names = set(estimator._get_param_names()) - SHARED
    for name in options:
        if name not in names:
            takes = ", ".join(flag for option_name, flag in OPTIONS.items() if option_name in names)
            raise InputError(
                f"Method {method} takes no {OPTIONS[name]}; leave it out, or use another method. Its own options are"
                f" {takes}, and --set NAME=VALUE for its settings."
            )
    config = _dataclass(hints.get("config"))
    defaults = {} if config is None else vars(config())
    parameters = names - {"config", *OPTIONS}
    arguments: dict[str, Any] = dict(options)
    configured: dict[str, Any] = {}
    for name, value in settings.items():
        if name in parameters:
            arguments[name] = _argument(name, hints[name], value)
        elif name in defaults:
            configured[name] = value
        else:
            groups = {n for n in parameters if _dataclass(hints[n]) is not None}
            groups |= {n for n, value in defaults.items() if is_dataclass(value)}
            single = sorted((parameters | set(defaults)) - groups)
            raise InputError(
                f"Method {method} has no setting {name!r}; it has {', '.join(single)}, and groups of settings:"
                f" {', '.join(f'{group}.NAME' for group in sorted(groups))}."
            )
    if configured:
        if arguments.get("preset", "default") != "default":
            raise InputError(
                f"preset={arguments['preset']} states {', '.join(configured)} itself; leave out preset or the settings."
            )
        arguments["config"] = _with_settings(config(), configured)
    if complete and "class_column" in parameters and "class_column" not in arguments:
        raise InputError(
            f"Method {method} needs --set class_column=COLUMN, the column whose values are the classes."
        )
    return arguments


def _with_settings(config: Any, settings: Mapping[str, Any], within: str = "") -> Any:
    """Return a configuration with other settings, which it checks; those of a group are a dict."""
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in vars(config):
            raise InputError(
                f"There is no setting {within}{name}; {within.rstrip('.')} has {', '.join(vars(config))}."
            )
        present = getattr(config, name)
        if is_dataclass(present):
            changes[name] = _with_settings(
                present, _group(value, present, f"{within}{name}"), f"{within}{name}."
            )
        elif isinstance(value, dict):
            raise InputError(
                f"Setting {within}{name} is a single value, which has no setting {next(iter(value), '')!r}."
            )
        else:
            changes[name] = _tuple(value)
    return replace(config, **changes)


def _group(value: Any, config: Any, name: str) -> Mapping[str, Any]:
    """Return the settings of a group; refuse a value that is none."""
    if not isinstance(value, dict):
        raise InputError(
            f"Setting {name} is a group of settings, got {quote(value)}; set {name}.NAME=VALUE, with a NAME of"
            f" {', '.join(vars(config))}."
        )
    return value


def _tuple(value: Any) -> Any:
    """Return the lists of TOML as tuples."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _argument(name: str, hint: Any, value: Any) -> Any:
    """Return a value of TOML as a parameter: tables as configurations, and the text none as None where that is one."""
    if value == "none" and type(None) in get_args(hint):
        return None
    config = _dataclass(hint)
    if config is None:
        return _tuple(value)
    return _with_settings(config(), _group(value, config(), name), f"{name}.")


def _dataclass(hint: Any) -> Any:
    """Return the dataclass of a type hint such as ``Config | None``; None where it has none."""
    return next((kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)), None)
