"""The families that there are, by name. A new one is a module and a line here."""

from __future__ import annotations

from bench.errors import UsageError
from bench.exchange.family import ExchangeFamily
from bench.harness.family import Family

__all__ = ["FAMILIES", "find_family"]

_ALL: tuple[Family, ...] = (ExchangeFamily(),)

FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}


def find_family(name: str) -> Family:
    """Return a family. Raises UsageError that names what exists."""
    if name not in FAMILIES:
        raise UsageError(f"there is no family {name!r}: choose from {', '.join(FAMILIES)}")
    return FAMILIES[name]
