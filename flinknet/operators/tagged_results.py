"""Whether there is an output tag among the results of an operator; compiled, a look at each."""

from __future__ import annotations

from typing import Any

__all__ = ["has_tags"]


def has_tags(results: list[Any], tag: type) -> bool:
    """Whether a result is a tag, or a tuple that begins with one; ``tag`` is the class of tags."""
    for value in results:
        if type(value) is tuple:
            parts = value
            if parts and type(parts[0]) is tag:
                return True
        elif type(value) is tag:
            return True
    return False
