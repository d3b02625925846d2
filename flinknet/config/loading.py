"""The effective configuration: defaults, then a TOML file, then the environment, then flags.

The loader has no list of fields. ``options()`` walks the dataclasses of this package. A field's
section, its annotation and the unit at the end of its name determine its valid forms::

    [network]                                       FLINKNET_NETWORK_SEGMENT_BYTES=66048
    segment_bytes = "64KiB"

    [cluster]                                       FLINKNET_CLUSTER_STOP_TIMEOUT_MS=5s
    stop_timeout_ms = 5000

A file may also use Flink's option names (``flink_options.py``). Each value keeps its origin, which
``flinknet config show`` and every error can name.
"""

from __future__ import annotations

import difflib
import math
import re
import reprlib
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from flinknet.compiled_modules import PURE_VARIABLE
from flinknet.config import FlinknetConfig
from flinknet.config.flink_options import (
    FLINK_OPTIONS,
    check_known,
    is_of_a_job,
    read_option,
    warn_ignored,
)
from flinknet.errors import ConfigurationError

__all__ = ["Option", "Origin", "Settings", "load_settings", "options", "with_flink_options"]

VARIABLE_PREFIX = "FLINKNET_"
FILE_VARIABLE = "FLINKNET_CONFIG"
"""The variable with the path of the TOML file, if no flag gives it."""
CLUSTERS_VARIABLE = "FLINKNET_CLUSTERS"
"""The variable with the path of the file of named clusters."""
NOT_OPTIONS = frozenset(
    {
        CLUSTERS_VARIABLE,
        "FLINKNET_CLUSTER_TOKEN",
        "FLINKNET_COMPILE",
        FILE_VARIABLE,
        PURE_VARIABLE,
        "FLINKNET_TRACEBACK",
    }
)
"""Variables read elsewhere: a secret, and preferences of command line users."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value; ``source`` is the file's path or the variable's name, else None."""

    kind: Literal["default", "file", "environment", "flag", "option"]
    source: str | None = None

    def __str__(self) -> str:
        return self.kind if self.source is None else f"{self.kind} {self.source}"


@dataclass(frozen=True, slots=True)
class _Quantity:
    """The notation of fields with one unit: units, largest first, with their factors."""

    units: Mapping[str, Fraction]
    form: str


# KB and MB are excluded: for some programs K means 1000, for Flink 1024.
_SIZES = {"GiB": Fraction(2**30), "MiB": Fraction(2**20), "KiB": Fraction(2**10), "B": Fraction(1)}
_MILLISECONDS = {
    "h": Fraction(3_600_000),
    "min": Fraction(60_000),
    "s": Fraction(1_000),
    "ms": Fraction(1),
    "us": Fraction(1, 1_000),
}
_SECONDS = {unit: factor / 1_000 for unit, factor in _MILLISECONDS.items()}
_DURATION = 'or a duration such as "100ms", "10s" or "2min"'
_PLAIN = _Quantity({}, "a number")
_QUANTITIES = {
    "bytes": _Quantity(_SIZES, 'a number of bytes, or a size such as "32KiB", "64MiB" or "1GiB"'),
    "ms": _Quantity(_MILLISECONDS, f"a number of milliseconds, {_DURATION}"),
    "s": _Quantity(_SECONDS, f"a number of seconds, {_DURATION}"),
}
_UNIT_IN_NAME = re.compile(r"_(bytes|ms|s)(?:_max|_min)?$")
# Digits are limited, because a Fraction with a huge exponent would fill the memory.
_WRITTEN_NUMBER = re.compile(
    r"([+-]?[0-9]{1,19}(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,3})?) ?([a-z]*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Option:
    """One field of the configuration, with a name such as ``network.segment_bytes``."""

    name: str
    annotation: Any
    default: object

    @property
    def variable(self) -> str:
        """The environment variable that sets the option."""
        return VARIABLE_PREFIX + self.name.replace(".", "_").upper()

    @property
    def accepted(self) -> str:
        """The valid forms of a value, for error messages."""
        return ", or ".join(_form(kind, self._quantity) for kind in _alternatives(self.annotation))

    def parse(self, written: object) -> object:
        """Return ``written`` as a value of the field's type; ValueError if it is invalid."""
        for kind in _alternatives(self.annotation):
            try:
                return _accept(kind, written, self._quantity.units)
            except (ValueError, OverflowError):
                continue
        raise ValueError(self.accepted)

    def render(self, value: object) -> str:
        """Format ``value`` in the largest unit that gives an integer."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(value).lower() if isinstance(value, bool) else str(value)
        if value > 0:
            for unit, factor in self._quantity.units.items():
                if Fraction(value) % factor == 0:
                    return f"{Fraction(value) // factor}{unit}"
        return str(value)

    @property
    def _quantity(self) -> _Quantity:
        match = _UNIT_IN_NAME.search(self.name)
        return _QUANTITIES[match[1]] if match else _PLAIN


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration, with the origin of each option's value by name."""

    config: FlinknetConfig
    origins: Mapping[str, Origin]

    def value(self, name: str) -> object:
        """Return the effective value of the option ``name``."""
        value: object = attrgetter(name)(self.config)
        return value


@cache
def options() -> Mapping[str, Option]:
    """Return every option by name, in the order of the classes."""
    return MappingProxyType({option.name: option for option in _walk(FlinknetConfig(), "")})


@cache
def _sections() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.rpartition(".")[0] for name in options()))


def _walk(section: Any, prefix: str) -> Iterator[Option]:
    annotations = get_type_hints(type(section))
    for field in fields(section):
        default = getattr(section, field.name)
        if is_dataclass(default):
            yield from _walk(default, f"{prefix}{field.name}.")
        else:
            yield Option(prefix + field.name, annotations[field.name], default)


def load_settings(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> Settings:
    """Return the effective settings; later sources override earlier ones.

    ``path`` is a TOML file; None stands for the file in ``FLINKNET_CONFIG``, if any. ``overrides``
    maps option names to values from flags; None stands for a flag that was not given.

    Raises ConfigurationError for an unreadable file, an unknown section, key or ``FLINKNET_*``
    variable, and a value of the wrong type or out of range. The message names the option, its
    value, its origin and the accepted forms.
    """
    if path is None and environ.get(FILE_VARIABLE):
        path = Path(environ[FILE_VARIABLE])
    values: dict[str, object] = {}
    origins = dict.fromkeys(options(), Origin("default"))
    for name, written, origin in [
        *(_from_file(path) if path is not None else ()),
        *_from_environment(environ),
        *_from_flags(overrides),
    ]:
        option = options()[name]
        try:
            values[name] = option.parse(written)
        except ValueError:
            raise ConfigurationError(
                f"{name} is {reprlib.repr(written)} ({origin}): write {option.accepted}"
            ) from None
        origins[name] = origin
    return Settings(_build(FlinknetConfig, "", values, origins), MappingProxyType(origins))


def with_flink_options(config: FlinknetConfig, written: Mapping[str, str]) -> FlinknetConfig:
    """Return the configuration with additional options by Flink's names, from ``FLINK_OPTIONS``.

    Raises ConfigurationError for a value of the wrong type or out of range.
    """
    if not written:
        return config
    values: dict[str, object] = {name: attrgetter(name)(config) for name in options()}
    origins = dict.fromkeys(options(), Origin("default"))
    for key, text in written.items():
        name = FLINK_OPTIONS[key].name
        try:
            values[name] = options()[name].parse(read_option(key, text))
        except ValueError:
            accepted = options()[name].accepted
            raise ConfigurationError(f"{key} is {text!r}: write {accepted}") from None
        origins[name] = Origin("option", key)
    built: FlinknetConfig = _build(FlinknetConfig, "", values, origins)
    return built


def _build(
    section: type[Any], prefix: str, values: Mapping[str, object], origins: Mapping[str, Origin]
) -> Any:
    """Build a section and its subsections; errors name the origins of the values involved."""
    arguments: dict[str, object] = {}
    given: list[str] = []
    for name, annotation in get_type_hints(section).items():
        if isinstance(annotation, type) and is_dataclass(annotation):
            arguments[name] = _build(annotation, f"{prefix}{name}.", values, origins)
        elif prefix + name in values:
            arguments[name] = values[prefix + name]
            given.append(name)
    try:
        return section(**arguments)
    except ConfigurationError as error:
        named = [
            name
            for name in given
            if origins[prefix + name].kind != "default" and re.search(rf"\b{name}\b", str(error))
        ]
        causes = ", ".join(f"{prefix}{name}: {origins[prefix + name]}" for name in named)
        raise ConfigurationError(f"{error} ({causes})" if causes else str(error)) from None


# -- sources: each yields (option name, raw value, origin), for known names only


def _from_file(path: Path) -> Iterator[tuple[str, object, Origin]]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(f"cannot read the configuration file {path}: {reason}") from error
    except ValueError as error:  # TOMLDecodeError or UnicodeDecodeError
        raise ConfigurationError(f"configuration file {path} is not valid TOML: {error}") from error
    for name, written in _flatten(table, ""):
        # A key or table that is not flinknet's may use Flink's option names.
        if name not in options() or isinstance(written, dict):
            of_flink = dict(_leaves(name, written))
            if of_flink and all(key in FLINK_OPTIONS or _is_flink_option(key) for key in of_flink):
                yield from _from_flink_options(of_flink, path)
                continue
        _require_option(name, f"in {path}", is_section=isinstance(written, dict))
        yield name, written, Origin("file", str(path))


def _from_flink_options(
    of_flink: Mapping[str, object], path: Path
) -> Iterator[tuple[str, object, Origin]]:
    for key, written in of_flink.items():
        if key in FLINK_OPTIONS:
            text = str(written).lower() if isinstance(written, bool) else str(written)
            yield FLINK_OPTIONS[key].name, read_option(key, text), Origin("file", f"{path}, {key}")
        elif is_of_a_job(key):
            warnings.warn(
                f"the option {key} in {path} has no effect there: set it in the program, with a "
                "Configuration",
                stacklevel=2,
            )
        else:
            warn_ignored(key, stacklevel=1)


def _is_flink_option(key: str) -> bool:
    if is_of_a_job(key):
        return True
    try:
        check_known(key, FLINK_OPTIONS)
    except ConfigurationError:
        return False
    # A key in one of flinknet's own sections is a misspelt option of flinknet.
    return key.partition(".")[0] not in _sections()


def _leaves(name: str, written: object) -> Iterator[tuple[str, object]]:
    if isinstance(written, dict):
        for key, one in written.items():
            yield from _leaves(f"{name}.{key}", one)
    else:
        yield name, written


def _flatten(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, written in table.items():
        name = prefix + key
        # Other tables stay whole, because they may hold options of Flink.
        if isinstance(written, dict) and name in _sections():
            yield from _flatten(written, name + ".")
        else:
            yield name, written


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, object, Origin]]:
    names = {option.variable: name for name, option in options().items()}
    for variable in sorted(environ):
        if not variable.startswith(VARIABLE_PREFIX) or variable in NOT_OPTIONS:
            continue
        if variable not in names:
            near = _nearest(variable, names)
            raise ConfigurationError(f"unknown variable {variable} in the environment: {near}")
        yield names[variable], environ[variable], Origin("environment", variable)


def _from_flags(overrides: Mapping[str, object]) -> Iterator[tuple[str, object, Origin]]:
    for name, written in overrides.items():
        if written is not None:
            _require_option(name, "in a flag", is_section=False)
            yield name, written, Origin("flag")


def _require_option(name: str, where: str, *, is_section: bool) -> None:
    if name in options():
        return
    if name in _sections():
        raise ConfigurationError(f"{name} {where} is a section: put its keys under [{name}]")
    if is_section:
        near = _nearest(name, _sections())
        raise ConfigurationError(f"unknown section [{name}] {where}: {near}")
    raise ConfigurationError(f"unknown key {name} {where}: {_nearest(name, options())}")


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else "`flinknet config show` lists all options"


# -- values


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _form(kind: Any, quantity: _Quantity) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(kind))
    if kind is bool:
        return "true or false"
    if kind is str:
        return "a text"
    return "a whole number" if kind is int and quantity is _PLAIN else quantity.form


def _accept(kind: Any, written: object, units: Mapping[str, Fraction]) -> object:
    """Return ``written`` as ``kind``, one alternative of a field's type; ValueError if invalid.

    A string is accepted for any kind, because the environment has only strings.
    """
    if kind is int:
        number = _number(written, units)
        if number.denominator == 1:
            return number.numerator
    elif kind is float:
        return float(_number(written, units))
    elif kind is bool:
        if isinstance(written, bool):
            return written
        if written in ("true", "false"):
            return written == "true"
    elif kind is str:
        if isinstance(written, str):
            return written
    elif get_origin(kind) is Literal:
        if isinstance(written, str) and written in get_args(kind):
            return written
    else:
        raise AssertionError(f"no rule for a field of type {kind}")
    raise ValueError(written)


def _number(written: object, units: Mapping[str, Fraction]) -> Fraction:
    if isinstance(written, str):
        match = _WRITTEN_NUMBER.fullmatch(written.strip())
        if match is None:
            raise ValueError(written)
        factors = {unit.lower(): factor for unit, factor in units.items()} | {"": Fraction(1)}
        if match[2].lower() not in factors:
            raise ValueError(written)
        return Fraction(match[1]) * factors[match[2].lower()]
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise ValueError(written)
    if not math.isfinite(written):
        raise ValueError(written)
    return Fraction(written)
