"""The families that there are, by name. A new one is a module and a line here."""

from __future__ import annotations

from bench.exchange.family import ExchangeFamily
from bench.harness.family import Family

__all__ = ["FAMILIES"]

_ALL: tuple[Family, ...] = (ExchangeFamily(),)

FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
