"""The warning filters of a program, for the workers that run its functions.

A filter refers to a class of warnings. A class of a library is sent by name. A worker uses it only
if it has loaded the library for the job's functions: an import for a filter alone would take time,
and a library that is not loaded does not warn.
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import Literal, NamedTuple, cast

__all__ = ["WarningFilter", "program_filters", "take_filters"]

Action = Literal["default", "error", "ignore", "always", "module", "once"]


class WarningFilter(NamedTuple):
    """One filter, in the form that ``warnings.filterwarnings`` takes."""

    action: str
    message: str
    """Regular expression; empty for any message."""
    category: type[Warning] | tuple[str, str]
    """The class, or module and name of a library's class."""
    module: str
    """Regular expression for the name of the warned module; empty for any."""
    line: int


def program_filters() -> tuple[WarningFilter, ...]:
    """Return the filters of this process, in the order in which they are tried."""
    return tuple(
        WarningFilter(action, _pattern(message), _category(category), _pattern(module), line)
        for action, message, categories, module, line in warnings.filters
        for category in (categories if isinstance(categories, tuple) else (categories,))
    )


def take_filters(filters: tuple[WarningFilter, ...]) -> None:
    """Make this process warn as the program does; do nothing if it already does."""
    if filters == program_filters():
        return
    warnings.resetwarnings()
    for one in reversed(filters):  # filterwarnings() puts each filter in front of the others.
        category = one.category if isinstance(one.category, type) else _loaded(*one.category)
        if category is not None:
            action = cast(Action, one.action)
            warnings.filterwarnings(action, one.message, category, one.module, one.line)


def _pattern(text: re.Pattern[str] | str | None) -> str:
    """Return a filter's regular expression; Python's default filters hold a plain string."""
    return text.pattern if isinstance(text, re.Pattern) else text or ""


def _category(category: type[Warning]) -> type[Warning] | tuple[str, str]:
    is_sent = category.__module__ in ("builtins", "__main__")
    return category if is_sent else (category.__module__, category.__qualname__)


def _loaded(module: str, name: str) -> type[Warning] | None:
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Warning) else None
