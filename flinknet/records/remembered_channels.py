"""The channels of keys, remembered: hashing a key costs several times a look-up, and real keys
repeat.

Theory of operation. One dict, of which what its keys take is counted. When another would be too
much, all are forgotten, and what is still needed comes back: no order is kept for the sake of a
key that is seldom dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from flinknet.records.key_forms import remembered_bytes

__all__ = ["ENTRY_BYTES", "RememberedChannels"]

ENTRY_BYTES = 96
"""Of a dict that grows, for each key in it."""


class RememberedChannels:
    """The channel of a record, by its key.

    Args:
        key: the key of a record.
        owner: the channel of a key; raises SerializationError for what is no key.
        memory_bytes: what the remembered keys may take.
    """

    __slots__ = ("_channel_of", "_key", "_owner", "_remembered_bytes", "memory_bytes")

    def __init__(
        self, key: Callable[[Any], Any], owner: Callable[[Any], int], memory_bytes: int
    ) -> None:
        self._key = key
        self._owner = owner
        self.memory_bytes = memory_bytes
        self._channel_of: dict[Any, int] = {}
        self._remembered_bytes = 0

    def select(self, record: Any) -> int:
        """Return the channel of a record."""
        key = self._key(record)
        try:
            return self._channel_of[key]
        except Exception:  # it is new, or Python has no hash for it: a list, a writable memoryview
            return self._look_up(key)

    def channel_of_text(self, key: str) -> int:
        """Return the channel of a text that is remembered, -1 for another."""
        return self._channel_of.get(key, -1)

    def divide(self, records: list[Any]) -> dict[int, list[Any]]:
        """Return what ``select`` would for each, by channel, without a call from Python for each.

        Where that fails ``select`` is asked from the first record on: for a key that is new or has
        no hash, and for an error of the key's function, of which a StopIteration would only end the
        ``map``.
        """
        shares: dict[int, list[Any]] = defaultdict(list)
        channels = map(self._channel_of.__getitem__, map(self._key, records))
        try:
            for record, channel in zip(records, channels, strict=True):
                shares[channel].append(record)
        except Exception:
            shares.clear()
            for record in records:
                shares[self.select(record)].append(record)
        return shares

    def forget(self) -> None:
        """Forget all keys; those to come may have other channels."""
        self._channel_of.clear()
        self._remembered_bytes = 0

    def keys(self) -> list[Any]:
        """What is remembered, the oldest first."""
        return list(self._channel_of)

    def _look_up(self, key: Any) -> int:
        channel = self._owner(key)
        size = remembered_bytes(key)
        if size is not None:
            self._remember(key, channel, size + ENTRY_BYTES)
        return channel

    def _remember(self, key: Any, channel: int, size: int) -> None:
        if self._remembered_bytes + size > self.memory_bytes:
            self.forget()
        if size <= self.memory_bytes:
            self._channel_of[key] = channel
            self._remembered_bytes += size
