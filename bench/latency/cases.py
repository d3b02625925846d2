"""The loads of the family ``latency``, and the maximum rate that they are shares of."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic_ns

from bench.exchange.cases import small_tuples
from bench.harness.case import Block, Case

__all__ = ["LOADS", "MAXIMUM", "SHARES"]


def make_block() -> Block:
    """Draw the records of ``tuple``, with a time in place of the second value."""
    now_ns = monotonic_ns()
    return [(key, now_ns, weight) for key, _, weight in small_tuples.make_block()]


MAXIMUM = replace(
    small_tuples.CASE,
    name="maximum",
    summary="(int, time, float), as fast as they go",
    make_block=make_block,
)
SHARES = {"open-loop-10": 0.1, "open-loop-50": 0.5, "open-loop-80": 0.8}
"""Share of its own maximum that each system has to carry, by the name of the case."""

LOADS: tuple[Case, ...] = tuple(
    replace(MAXIMUM, name=name, summary=f"{share:.0%} of the system's maximum, at intended times")
    for name, share in SHARES.items()
)
