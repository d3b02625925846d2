"""The cases of the family ``exchange``, one module each, in the order of the tables."""

from __future__ import annotations

from bench.exchange.cases import orders, payloads, single_integers, small_tuples
from bench.harness.case import Case

__all__ = ["CASES"]

CASES: tuple[Case, ...] = (
    small_tuples.CASE,
    single_integers.CASE,
    payloads.KIBIBYTE,
    payloads.BUFFER_SIZED,
    orders.CASE,
)
