"""Names of parametrised tests that are the same in every process, as pytest-xdist needs them."""

from __future__ import annotations

import re

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
NAME_CHARACTERS_MAX = 60


def spelled(value: object) -> str:
    """``repr`` without the address that it has for objects without a spelling of their own, and
    with the elements of a set in an order that is the same everywhere."""
    if isinstance(value, set | frozenset):
        value = type(value).__name__, sorted(map(repr, value))
    return ADDRESS.sub("", repr(value))[:NAME_CHARACTERS_MAX]
