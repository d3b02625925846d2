"""The meaning of functions of random jobs: plain functions of one record, without side effects.

The jobs' own functions (``conduct.py``, ``user_functions.py``) call these, and then treat arguments
and results according to their manner. The interpreter calls these alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from tests.fuzz.jobs.program import Change
from tests.fuzz.jobs.values import KEY_POOLS, PAYLOADS, fresh, make, parts, shape_of, text_of_key

__all__ = ["MODULUS", "Meaning", "Mode", "following", "merged"]

MODULUS = 10_007
"""An upper bound of numbers, so that no result exceeds 64 bits."""


Mode = Literal["chain", "count", "sum"]
"""The kind of fold; only a chain depends on the order."""


def following(mode: Mode, before: int, n: int) -> int:
    """Return the fold of ``before``, which begins at 0, and one more number."""
    if mode == "chain":
        return (before * 31 + n) % MODULUS
    return before + 1 if mode == "count" else (before + n) % MODULUS


def merged(mode: Mode, one: int, other: int) -> int:
    """Return the fold of two folds."""
    return one + other if mode == "count" else (one + other) % MODULUS


class Meaning:
    """The functions of one program, with keys from one pool."""

    def __init__(self, pool: str) -> None:
        self._keys = KEY_POOLS[pool]

    def key(self, index: int) -> Any:
        """Return a key of the pool."""
        return fresh(self._keys[index % len(self._keys)])

    def source_record(self, number: int, shape: str, payloads: bool) -> Any:
        """Return the source's record of a number."""
        x = fresh(PAYLOADS[number * 7 % len(PAYLOADS)]) if payloads else None
        return make(shape, self.key(number * 5 // 3), number % MODULUS, x)

    def changed(self, change: Change, record: Any) -> Any:
        """Return the changed record."""
        k, n, x = parts(record)
        shape = change.shape or shape_of(record)
        if change.bare:
            x = None
        elif change.payload is not None:
            x = PAYLOADS[(n + change.payload) % len(PAYLOADS)]
        if change.keys is not None:
            k = self.key(n % change.keys)
        return make(shape, fresh(k), (n * change.times + change.plus) % MODULUS, fresh(x))

    def expanded(self, change: Change, most: int, record: Any) -> Iterator[Any]:
        """Yield the records that replace one: up to ``most``, or none."""
        k, n, x = parts(record)
        for index in range(n % (most + 1)):
            one = make(shape_of(record), k, (n + index) % MODULUS, x)
            yield self.changed(change, one)

    def kept(self, modulus: int, record: Any) -> bool:
        """Return whether a filter keeps a record."""
        return parts(record)[1] % modulus != 0

    def custom_channel(self, key: Any, channels: int) -> int:
        """Return the channel of a key from a custom partitioner; equal keys have one channel."""
        return len(text_of_key(key)) % channels
