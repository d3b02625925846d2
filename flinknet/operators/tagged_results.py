"""Search for output tags among the results of an operator; compiled, because it visits each one."""

from __future__ import annotations

from typing import Any

__all__ = ["has_tags"]


def has_tags(results: list[Any], tag: type) -> bool:
    """Return whether a result is an instance of ``tag``, or a tuple that begins with one."""
    for value in results:
        if type(value) is tuple:
            parts = value
            if parts and type(parts[0]) is tag:
                return True
        elif type(value) is tag:
            return True
    return False
