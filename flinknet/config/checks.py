"""Checks of values, shared by all sections of the configuration."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from flinknet.errors import ConfigurationError

__all__ = [
    "GIB",
    "KIB",
    "MIB",
    "check_fields",
    "require",
    "require_at_least",
    "require_port",
    "require_positive",
]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_INTEGER_MAX = 2**63 - 1
"""Largest integer that counters, sizes and other programs can hold."""

_NUMBER_MAX = 365 * 24 * 3_600_000
"""Maximum of a float, which is a time in milliseconds or less: a year.

No component waits for longer, and timers of many years overflow.
"""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigurationError(message)


@cache
def _annotations(section: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(section)


def check_fields(config: object) -> None:
    """Reject values that are invalid in any field: wrong types, NaN, and out-of-range numbers.

    Each section calls this first in ``__post_init__``, before its own rules.
    """
    section: Any = type(config)
    for name, annotation in _annotations(section).items():
        value = getattr(config, name)
        is_union = get_origin(annotation) in (Union, UnionType)
        kinds = get_args(annotation) if is_union else (annotation,)
        require(
            any(_is_of_kind(value, kind) for kind in kinds),
            f"{name} is {reprlib.repr(value)}: choose {' or '.join(map(_kind_in_words, kinds))}",
        )
        if isinstance(value, int | float):
            largest = _NUMBER_MAX if float in kinds else _INTEGER_MAX
            # NaN fails this comparison, too. Python refuses to print an integer of 5,000 digits.
            require(
                -largest <= value <= largest,
                f"{name} is {value if isinstance(value, float) else 'out of range'}: choose "
                f"a number up to {largest}",
            )


def _is_of_kind(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _kind_in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(kind))
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return words.get(kind) or f"a {kind.__name__}"


def require_at_least(config: object, least: int, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        require(value >= least, f"{name} is {value}: choose {least} or more")


def require_positive(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        require(value > 0, f"{name} is {value}: choose a positive duration")


def require_port(port: int, option: str) -> None:
    require(0 <= port <= 65535, f"{option} is {port}: choose 0 (any free port) to 65535")
