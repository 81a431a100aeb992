"""The settings of one method, by ``--set NAME=VALUE`` and a TOML file, and the options that a method takes."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tabsynth._files import read_json_text
from tabsynth._validate import shown
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
            raise InputError(f"Expected --set like NAME=VALUE, got {shown(text)}.")
        level = settings
        for part in parents:
            level = level.setdefault(part, {})
            if not isinstance(level, dict):
                raise InputError(f"--set {shown(name)} is within {part}, which is a value.")
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
            takes = ", ".join(flag for own, flag in OPTIONS.items() if own in names)
            raise InputError(
                f"Method {method} takes no {OPTIONS[name]}; leave it out, or use another method. Its own options are"
                f" {takes}, and --set NAME=VALUE for its settings."
            )
    config = _dataclass(hints.get("config"))
    parameters = sorted(names - {"config", *OPTIONS})
    of_config = [] if config is None else _names(config)
    arguments: dict[str, Any] = dict(options)
    configured: dict[str, Any] = {}
    for name, value in settings.items():
        if name in parameters:
            arguments[name] = _argument(hints[name], value)
        elif name in of_config:
            configured[name] = value
        else:
            raise InputError(
                f"Method {method} has no setting {name!r}; it has {', '.join([*parameters, *of_config])}."
            )
    if configured:
        if arguments.get("preset", "default") != "default":
            raise InputError(
                f"preset={arguments['preset']} states {', '.join(configured)} itself; leave out preset or the settings."
            )
        arguments["config"] = _configured(config, configured)
    if complete and "class_column" in parameters and "class_column" not in arguments:
        raise InputError(
            f"Method {method} needs --set class_column=COLUMN, the column whose values are the classes."
        )
    return arguments


def _configured(config: type, settings: Mapping[str, Any]) -> Any:
    """Return the default configuration with other settings, which it checks."""
    from tabsynth.synthesizers.settings import with_settings

    return with_settings(config(), **_flat(settings))


def _flat(settings: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Return settings of parts as :func:`tabsynth.synthesizers.settings.with_settings` takes them."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            result |= _flat(value, f"{within}{name}__")
        else:
            result[f"{within}{name}"] = _tuple(value)
    return result


def _tuple(value: Any) -> Any:
    """Return the lists of TOML as tuples."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _argument(hint: Any, value: Any) -> Any:
    """Return a value of TOML as a parameter: tables as configurations, and the text none as None where that is one."""
    if isinstance(value, dict) and (config := _dataclass(hint)) is not None:
        return _configured(config, value)
    return None if value == "none" and type(None) in get_args(hint) else _tuple(value)


def _dataclass(hint: Any) -> Any:
    """Return the dataclass of a type hint such as ``Config | None``; None where it has none."""
    return next((kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)), None)


def _names(config: type) -> list[str]:
    """Return the names of the fields of a configuration."""
    return [field.name for field in fields(config) if field.init]
