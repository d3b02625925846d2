"""``tuple``: (int, int, float), keyed by the first; about 18 bytes as msgpack."""

from __future__ import annotations

from operator import itemgetter
from random import Random

from bench.harness.case import Block, Case

__all__ = ["CASE"]

RECORDS = 4096
KEYS = 10_000


def make_block() -> Block:
    """Draw keys evenly, and values of the full 31 bits."""
    random = Random(1)
    return [
        (random.randrange(KEYS), random.getrandbits(31), random.random()) for _ in range(RECORDS)
    ]


CASE = Case(
    name="tuple",
    summary="(int, int, float), keyed by the first",
    make_block=make_block,
    weigh=itemgetter(1),
    key=itemgetter(0),
)
