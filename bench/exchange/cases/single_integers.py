"""``long``: one 63-bit integer; 9 bytes as msgpack."""

from __future__ import annotations

from operator import index
from random import Random

from bench.harness.case import Block, Case

__all__ = ["CASE"]

RECORDS = 4096


def make_block() -> Block:
    """Draw integers."""
    random = Random(2)
    return [random.getrandbits(63) for _ in range(RECORDS)]


CASE = Case(name="long", summary="one 63-bit integer", make_block=make_block, weigh=index)
