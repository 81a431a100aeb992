"""Settings of a method: frozen configurations, which may be composed of parts."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tabsynth._validate import quote
from tabsynth.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")


def with_settings(config: Config, **settings: Any) -> Config:
    """Return a configuration with other settings.

    Parameters
    ----------
    config : dataclass
    **settings
        By name. ``critic__lr`` is the setting ``lr`` of the part ``critic``, as scikit-learn writes it.

    Raises
    ------
    InputError
        For a setting that the configuration does not have, or a value that it refuses.
    """
    changes: dict[str, Any] = {}
    of_parts: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        part, _, inner = name.partition("__")
        if inner:
            of_parts.setdefault(part, {})[inner] = value
        else:
            changes[name] = value
    names = [f.name for f in fields(config)]
    for name in (*changes, *of_parts):
        if name in of_parts and name in names and not is_dataclass(getattr(config, name)):
            inner = next(iter(of_parts[name]))
            raise InputError(
                f"Setting {name} is a single value, which has no setting {quote(inner)}; set {name}."
            )
        if name not in names:
            raise InputError(
                f"{type(config).__name__} has no setting {quote(name)}; choose from {', '.join(names)}."
            )
    for part, inner_settings in of_parts.items():
        changes[part] = with_settings(changes.get(part, getattr(config, part)), **inner_settings)
    return replace(config, **changes)


def check_parts(config: "DataclassInstance") -> None:
    """Refuse a part of a configuration that is of another class than its default."""
    for field in fields(config):
        if field.default_factory is MISSING:
            continue
        value, kind = getattr(config, field.name), type(field.default_factory())
        if type(value) is not kind:
            raise InputError(f"Expected {field.name} to be a {kind.__name__}, got {quote(value)}.")


def read_settings(
    config: Config, values: Mapping[str, Any], earlier_names: Mapping[str, str | None]
) -> Config:
    """Return a configuration with the settings of a model file.

    Parameters
    ----------
    config : dataclass
        With the defaults of the settings that the file lacks.
    values : mapping
        As ``dataclasses.asdict`` and JSON have made them of a configuration.
    earlier_names : mapping
        From the names that version 0.2.0 used, when configurations had no parts, to those of
        :func:`with_settings`; None for a setting that is no more.
    """
    settings: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            settings |= {f"{name}__{inner}": item for inner, item in value.items()}
        elif (present := earlier_names.get(name, name)) is not None:
            settings[present] = value
    return with_settings(
        config, **{n: tuple(v) if isinstance(v, list) else v for n, v in settings.items()}
    )
