"""Names of parametrised tests that are equal in every process, as pytest-xdist requires."""

from __future__ import annotations

import re

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
NAME_CHARACTERS_MAX = 60


def spelled(value: object) -> str:
    """Return at most 60 characters of ``repr(value)``, without addresses, and with sets sorted."""
    if isinstance(value, set | frozenset):
        value = type(value).__name__, sorted(map(repr, value))
    return ADDRESS.sub("", repr(value))[:NAME_CHARACTERS_MAX]
