"""``bytes-1k`` and ``bytes-32k``: opaque payloads."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from random import Random

from bench.harness.case import Block, Case

__all__ = ["BUFFER_SIZED", "KIBIBYTE"]

BLOCK_BYTES = 1 << 20


def make_block(size: int) -> Block:
    """Draw payloads of one mebibyte in total."""
    random = Random(size)
    return [random.randbytes(size) for _ in range(BLOCK_BYTES // size)]


KIBIBYTE = Case(
    name="bytes-1k",
    summary="1 KiB of bytes",
    make_block=partial(make_block, 1024),
    weigh=itemgetter(-1),
)
BUFFER_SIZED = Case(
    name="bytes-32k",
    summary="32 KiB of bytes, a little more than a buffer",
    make_block=partial(make_block, 32 * 1024),
    weigh=itemgetter(-1),
)
